//! Why a connection ends (RFC 9000 §20).

/// A number that tells the peer why, and a word for logs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{reason} (code {code:#x})")]
pub struct Error {
    /// The code of RFC 9000 §20.1.
    pub code: u64,
    /// What was wrong, in ASCII; also told to the peer.
    pub reason: &'static str,
}

/// What an error is about, for who counts them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// The handshake: messages of TLS, parameters, versions, gaps.
    Handshake,
    /// Bytes that are no frame.
    Frames,
    /// Streams, and how much may be sent on them.
    Streams,
    /// Connection ids.
    Ids,
    /// Keys: their updates, and packets that they do not open.
    Keys,
    /// Many frames that bring nothing.
    Idle,
    /// Acknowledgements of what cannot have arrived, or many of them.
    Acks,
    /// Other rules.
    Rules,
}

/// The codes (RFC 9000 §20.1).
pub mod code {
    /// Nothing went wrong.
    pub const NO_ERROR: u64 = 0x0;
    /// Something failed on our side.
    pub const INTERNAL_ERROR: u64 = 0x1;
    /// There is no connection for whom wants one.
    pub const CONNECTION_REFUSED: u64 = 0x2;
    /// The peer sent more than it was allowed to.
    pub const FLOW_CONTROL_ERROR: u64 = 0x3;
    /// The peer opened more streams than it was allowed to.
    pub const STREAM_LIMIT_ERROR: u64 = 0x4;
    /// A frame came for a stream that cannot have it.
    pub const STREAM_STATE_ERROR: u64 = 0x5;
    /// The end of a stream is not where it was said to be.
    pub const FINAL_SIZE_ERROR: u64 = 0x6;
    /// A frame cannot be read.
    pub const FRAME_ENCODING_ERROR: u64 = 0x7;
    /// Transport parameters cannot be read or may not be so.
    pub const TRANSPORT_PARAMETER_ERROR: u64 = 0x8;
    /// There are more connection ids than were allowed.
    pub const CONNECTION_ID_LIMIT_ERROR: u64 = 0x9;
    /// Another rule was broken.
    pub const PROTOCOL_VIOLATION: u64 = 0xa;
    /// The token is not one of ours.
    pub const INVALID_TOKEN: u64 = 0xb;
    /// The application ended it during the handshake.
    pub const APPLICATION_ERROR: u64 = 0xc;
    /// More of the handshake came out of order than is kept.
    pub const CRYPTO_BUFFER_EXCEEDED: u64 = 0xd;
    /// A key update that may not be.
    pub const KEY_UPDATE_ERROR: u64 = 0xe;
    /// The keys have been used as much as they may.
    pub const AEAD_LIMIT_REACHED: u64 = 0xf;
    /// What is said of versions is not what the packets say (RFC 9368 §10.2).
    pub const VERSION_NEGOTIATION_ERROR: u64 = 0x11;
    /// Added to an alert of TLS.
    pub const CRYPTO_ERROR: u64 = 0x100;
}

impl Error {
    /// A client makes work and nothing else.
    pub(super) const IDLE: Self = Self::violation("too many frames bring nothing");
    /// It says that it has what it has not, to be sent more than the way takes (RFC 9000 §21.4).
    pub(super) const NEVER_SENT: Self =
        Self::violation("a packet is acknowledged that was never sent");
    /// See [`ACKS_PER_PACKET_MAX`](super::limits::ACKS_PER_PACKET_MAX).
    pub(super) const MANY_ACKS: Self = Self::violation("a packet has many ACK frames");

    /// What it is about.
    pub fn class(self) -> Class {
        match self.code {
            _ if self == Self::IDLE => Class::Idle,
            _ if self == Self::NEVER_SENT || self == Self::MANY_ACKS => Class::Acks,
            code::TRANSPORT_PARAMETER_ERROR
            | code::CRYPTO_BUFFER_EXCEEDED
            | code::VERSION_NEGOTIATION_ERROR
            | code::CRYPTO_ERROR.. => Class::Handshake,
            code::FRAME_ENCODING_ERROR => Class::Frames,
            code::FLOW_CONTROL_ERROR
            | code::STREAM_LIMIT_ERROR
            | code::STREAM_STATE_ERROR
            | code::FINAL_SIZE_ERROR => Class::Streams,
            code::CONNECTION_ID_LIMIT_ERROR => Class::Ids,
            code::KEY_UPDATE_ERROR | code::AEAD_LIMIT_REACHED => Class::Keys,
            _ => Class::Rules,
        }
    }

    pub(super) const fn new(code: u64, reason: &'static str) -> Self {
        Self { code, reason }
    }

    pub(super) const fn violation(reason: &'static str) -> Self {
        Self::new(code::PROTOCOL_VIOLATION, reason)
    }

    pub(super) const fn encoding(reason: &'static str) -> Self {
        Self::new(code::FRAME_ENCODING_ERROR, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_what_they_are_about() {
        let of = |code| Error::new(code, "").class();
        for code in [code::TRANSPORT_PARAMETER_ERROR, code::CRYPTO_ERROR + 0x78] {
            assert_eq!(of(code), Class::Handshake);
        }
        assert_eq!(of(code::FINAL_SIZE_ERROR), Class::Streams);
        assert_eq!(of(code::PROTOCOL_VIOLATION), Class::Rules);
        assert_eq!((Error::IDLE.class(), Error::NEVER_SENT.class()), (Class::Idle, Class::Acks));
    }
}
