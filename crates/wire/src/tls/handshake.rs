//! The few handshake messages that may come after the handshake. They may be spread over several
//! records; only what has to be remembered is kept.

use super::{Version, Violation};

/// Key update that asks for none in return (RFC 8446 §4.6.3), as a whole message.
pub const KEY_UPDATE_NOT_REQUESTED: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 0];

/// Key update that asks for one in return (RFC 8446 §4.6.3), as a whole message.
pub const KEY_UPDATE_REQUESTED: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 1];

const CLIENT_HELLO: u8 = 1;
const KEY_UPDATE: u8 = 24;

/// Bytes of a handshake message, at most; what rustls allows. A hello with every extension and
/// post-quantum shares has some thousands.
const MESSAGE_BYTES_MAX: usize = 0xffff;

/// A message that is complete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Message {
    /// The peer's next record is under its next key.
    KeyUpdate { answer: bool },
    /// A client would like a new handshake (TLS 1.2).
    ClientHello,
}

/// The message that is arriving.
#[derive(Default)]
pub(super) struct Messages {
    header: [u8; 4],
    header_filled: usize,
    body_left: usize,
}

impl Messages {
    /// Whether a message has begun and not ended.
    pub(super) fn is_amid(&self) -> bool {
        self.header_filled > 0
    }

    /// Takes the content of one record. A record may hold several messages; only the last of them
    /// is told, because after a key update nothing may follow and the others are equal.
    pub(super) fn take(
        &mut self,
        version: Version,
        mut bytes: &[u8],
    ) -> Result<Option<Message>, Violation> {
        let mut found = None;
        while let [first, rest @ ..] = bytes {
            if let Some(Message::KeyUpdate { .. }) = found {
                return Err(Violation::PeerUnexpectedMessage);
            }
            if self.header_filled < self.header.len() {
                self.header[self.header_filled] = *first;
                self.header_filled += 1;
                bytes = rest;
                if self.header_filled == self.header.len() {
                    self.begin(version)?;
                }
                continue;
            }
            let count = self.body_left.min(bytes.len());
            self.body_left -= count;
            let body;
            (body, bytes) = bytes.split_at(count);
            if self.body_left == 0 {
                found = Some(self.end(body)?);
            }
        }
        Ok(found)
    }

    fn begin(&mut self, version: Version) -> Result<(), Violation> {
        let [kind, a, b, c] = self.header;
        self.body_left = u32::from_be_bytes([0, a, b, c]) as usize;
        match (version, kind) {
            (Version::Tls13, KEY_UPDATE) if self.body_left == 1 => Ok(()),
            (Version::Tls13, KEY_UPDATE) => Err(Violation::PeerKeyUpdateMalformed),
            (Version::Tls12, CLIENT_HELLO) if self.body_left == 0 => {
                Err(Violation::PeerUnexpectedMessage)
            }
            (Version::Tls12, CLIENT_HELLO) if self.body_left <= MESSAGE_BYTES_MAX => Ok(()),
            (Version::Tls12, CLIENT_HELLO) => Err(Violation::PeerMessageTooLarge),
            _ => Err(Violation::PeerUnexpectedMessage),
        }
    }

    /// `body` ends with the last byte of the message.
    fn end(&mut self, body: &[u8]) -> Result<Message, Violation> {
        self.header_filled = 0;
        match (self.header[0], body) {
            (KEY_UPDATE, [0]) => Ok(Message::KeyUpdate { answer: false }),
            (KEY_UPDATE, [1]) => Ok(Message::KeyUpdate { answer: true }),
            (KEY_UPDATE, _) => Err(Violation::PeerKeyUpdateRequest),
            _ => Ok(Message::ClientHello),
        }
    }
}
