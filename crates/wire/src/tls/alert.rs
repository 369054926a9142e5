//! Alerts, and what a peer can do wrong after the handshake (RFC 8446 §6).

use thiserror::Error;

/// Numbers of alert descriptions used here (RFC 8446 §6, RFC 5246 §7.2.2).
pub mod description {
    /// The end of what the sender has to say.
    pub const CLOSE_NOTIFY: u8 = 0;
    /// A message that does not belong here.
    pub const UNEXPECTED_MESSAGE: u8 = 10;
    /// A record that cannot be opened.
    pub const BAD_RECORD_MAC: u8 = 20;
    /// A record that is too long.
    pub const RECORD_OVERFLOW: u8 = 22;
    /// A field with a value that is not allowed.
    pub const ILLEGAL_PARAMETER: u8 = 47;
    /// A message that cannot be read.
    pub const DECODE_ERROR: u8 = 50;
    /// The sender's own fault.
    pub const INTERNAL_ERROR: u8 = 80;
    /// The sender's user gave up; a `close_notify` follows.
    pub const USER_CANCELED: u8 = 90;
    /// The sender does not renegotiate (TLS 1.2).
    pub const NO_RENEGOTIATION: u8 = 100;
}

/// How serious an alert is. TLS 1.3 goes by the description alone (RFC 8446 §6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum AlertLevel {
    /// The connection goes on.
    Warning = 1,
    /// The connection is over.
    Fatal = 2,
}

/// The two bytes of an alert.
pub fn alert_message(level: AlertLevel, description: u8) -> [u8; 2] {
    [level as u8, description]
}

/// What a peer did wrong. The connection ends with it.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum Violation {
    /// The peer ended the connection with an alert.
    #[error("the peer ended the connection with alert {0}")]
    PeerAlert(u8),
    /// An alert that is not two bytes, or a warning where TLS 1.3 knows none.
    #[error("an alert that is none")]
    PeerAlertMalformed,
    /// An alert of a level that does not exist.
    #[error("an alert of unknown level")]
    PeerAlertLevel,
    /// A record that was not sealed with the key in force, or was changed on its way.
    #[error("a record that cannot be authenticated")]
    PeerBadRecord,
    /// Handshake or alert without content (RFC 8446 §5.4).
    #[error("an empty handshake or alert record")]
    PeerEmptyMessage,
    /// [`EMPTY_RECORDS_MAX`](super::EMPTY_RECORDS_MAX) was passed.
    #[error("too many empty records in a row")]
    PeerEmptyRecords,
    /// Another record between the fragments of a handshake message (RFC 8446 §5.1).
    #[error("a record inside a handshake message")]
    PeerInterleaved,
    /// A key update that asks for something unknown.
    #[error("a key update with an unknown request")]
    PeerKeyUpdateRequest,
    /// A key update of the wrong length, or one that is not the last in its record.
    #[error("a key update that is none")]
    PeerKeyUpdateMalformed,
    /// [`KEY_UPDATES_MAX`](super::KEY_UPDATES_MAX) was passed.
    #[error("too many key updates")]
    PeerKeyUpdates,
    /// A handshake message larger than any there is.
    #[error("a handshake message that is too large")]
    PeerMessageTooLarge,
    /// A record longer than allowed.
    #[error("a record that is too long")]
    PeerRecordOverflow,
    /// [`RENEGOTIATIONS_MAX`](super::RENEGOTIATIONS_MAX) was passed.
    #[error("too many wishes to renegotiate")]
    PeerRenegotiations,
    /// More records under one key than can be counted.
    #[error("more records than a key may seal")]
    PeerSequence,
    /// A handshake message that does not belong after the handshake.
    #[error("an unexpected handshake message")]
    PeerUnexpectedMessage,
    /// A type of record that does not belong after the handshake, or is none.
    #[error("an unexpected type of record")]
    PeerUnexpectedRecord,
    /// [`WARNINGS_MAX`](super::WARNINGS_MAX) was passed.
    #[error("too many warnings")]
    PeerWarnings,
    /// A record of padding only (RFC 8446 §5.4).
    #[error("a record without a content type")]
    PeerZeroes,
}

impl Violation {
    /// The alert the peer gets for it. None for an alert of its own.
    pub fn alert(self) -> Option<u8> {
        match self {
            Self::PeerAlert(_) => None,
            Self::PeerAlertMalformed | Self::PeerMessageTooLarge => Some(description::DECODE_ERROR),
            Self::PeerAlertLevel | Self::PeerKeyUpdateRequest => {
                Some(description::ILLEGAL_PARAMETER)
            }
            Self::PeerBadRecord => Some(description::BAD_RECORD_MAC),
            Self::PeerRecordOverflow => Some(description::RECORD_OVERFLOW),
            Self::PeerKeyUpdateMalformed => Some(description::DECODE_ERROR),
            Self::PeerEmptyMessage
            | Self::PeerEmptyRecords
            | Self::PeerInterleaved
            | Self::PeerKeyUpdates
            | Self::PeerRenegotiations
            | Self::PeerSequence
            | Self::PeerUnexpectedMessage
            | Self::PeerUnexpectedRecord
            | Self::PeerWarnings
            | Self::PeerZeroes => Some(description::UNEXPECTED_MESSAGE),
        }
    }
}
