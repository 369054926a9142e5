//! TLS records after the handshake: sealing, framing, opening (RFC 8446 §5, RFC 5246 §6.2).
//!
//! Somebody else did the handshake and hands over a [`TrafficKey`] and a sequence number for each
//! direction. From there a [`Sealer`] turns plaintext into records and an [`Opener`] turns records
//! into plaintext and [`Event`]s. Both count their records; the nonce of each is the key's IV
//! combined with that count, so no nonce is used twice as long as what was sealed is sent whole
//! and in order, or not at all.
//!
//! A [`Sealer`] reads the plaintext once, where it is, and writes the record into a buffer of the
//! caller: the copy that a socket needs anyway is done by the cipher. An [`Opener`] decrypts where
//! the record lies. Neither allocates.
//!
//! What this module never knows: sockets, certificates, how keys come about. When a key has to
//! change it says so and is given the next one.
//!
//! ```
//! use freshet_wire::tls::{Cipher, ContentType, Event, Opener, Sealer, TrafficKey, Version};
//!
//! let key = TrafficKey::new(Cipher::Aes128Gcm, &[7; 16], &[9; 12])?;
//! let mut sealer = Sealer::new(Version::Tls13, &key, 0, 1 << 20)?;
//! let mut wire = [0; 64];
//! let bytes = sealer.seal(ContentType::ApplicationData, b"hello", &mut wire)?;
//!
//! let mut opener = Opener::new(Version::Tls13, &key, 0)?;
//! assert_eq!(opener.open(&mut wire[..bytes - 1]), Ok(None));
//! let opened = opener.open(&mut wire[..bytes])?.expect("the record is complete");
//! assert_eq!((opened.record_bytes, opened.event), (bytes, Event::Data(5..10)));
//! assert_eq!(&wire[5..10], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod alert;
mod handshake;
pub mod hello;
mod key;
mod open;
mod seal;

#[cfg(test)]
mod tests;

pub use alert::{AlertLevel, Violation, alert_message, description};
pub use handshake::{KEY_UPDATE_NOT_REQUESTED, KEY_UPDATE_REQUESTED};
pub use key::{Cipher, KeyError, TrafficKey};
pub use open::{Event, Opened, Opener};
pub use seal::{SealError, Sealed, Sealer};

/// Plaintext in one record, at most (RFC 8446 §5.1).
pub const PLAINTEXT_BYTES_MAX: usize = 1 << 14;

/// Bytes in front of each record: type, version, length.
pub const HEADER_BYTES: usize = 5;

/// Bytes of a record behind its header, at most (RFC 8446 §5.2). TLS 1.2 allows more, but its
/// ciphers with authentication add no more than 24 bytes.
pub const FRAGMENT_BYTES_MAX: usize = PLAINTEXT_BYTES_MAX + 256;

/// Bytes that sealing adds to a plaintext, at most: header, explicit nonce of TLS 1.2, content
/// type of TLS 1.3 and tag never come all together.
pub const OVERHEAD_BYTES_MAX: usize = HEADER_BYTES + 8 + TAG_BYTES;

/// Pieces of plaintext up to this size share a record with their neighbours, which copies them. A
/// larger piece is sealed from where it is: from here on a copy costs more than one record more.
pub const GATHER_BYTES_MAX: usize = 8 * 1024;

/// Records without content in a row before the peer is taken for hostile; what rustls and BoringSSL
/// allow.
pub const EMPTY_RECORDS_MAX: u8 = 32;

/// Key updates without data between them before the peer is taken for hostile; what rustls and
/// BoringSSL allow.
pub const KEY_UPDATES_MAX: u8 = 32;

/// Warnings before the peer is taken for hostile; what rustls and BoringSSL allow.
pub const WARNINGS_MAX: u8 = 4;

/// Wishes to renegotiate that are declined politely. One is a misunderstanding.
pub const RENEGOTIATIONS_MAX: u8 = 1;

/// Records of each key that are kept for a key update and an alert.
pub const RESERVED_RECORDS: u64 = 2;

/// Bytes of the tag of every cipher here.
const TAG_BYTES: usize = 16;

/// The version on each record of both protocols (RFC 8446 §5.1).
const RECORD_VERSION: [u8; 2] = [3, 3];

/// The version of TLS that a connection agreed on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Version {
    /// RFC 5246 with AEAD ciphers (RFC 5288, RFC 7905).
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// What a record carries (RFC 8446 §5.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum ContentType {
    /// Only between handshake messages; never after them.
    ChangeCipherSpec = 20,
    /// The end of the connection, or a warning.
    Alert = 21,
    /// After the handshake: key updates.
    Handshake = 22,
    /// Data of the protocol above.
    ApplicationData = 23,
}

impl ContentType {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            20 => Some(Self::ChangeCipherSpec),
            21 => Some(Self::Alert),
            22 => Some(Self::Handshake),
            23 => Some(Self::ApplicationData),
            _ => None,
        }
    }
}
