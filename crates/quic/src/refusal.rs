//! What a client is told that may not have a connection (RFC 9000 §5.2.2). Who is told nothing tries for as long as it thinks
//! that the way is slow.

#[cfg(doc)]
use super::error::code;
use super::frame::write_close;
use super::id::Id;
use super::keys::{initial_keys, seal};
use super::packet::{Kind, Protected, TAG_BYTES, write_head, write_length};
use super::version::Version;
use rustls::Side;
use rustls::crypto::CryptoProvider;

/// A first packet that begins nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused {
    /// Its version.
    pub version: Version,
    /// Whom it was for, which the keys are made of.
    pub receiver: Id,
    /// Who sent it.
    pub client: Id,
    /// Why it begins nothing, one of [`code`].
    pub code: u64,
}

impl Refused {
    /// Of a first packet; `None` of others.
    pub fn of(packet: &Protected, code: u64) -> Option<Self> {
        let version = packet.version.filter(|_| packet.kind == Kind::Initial)?;
        Some(Self { version, receiver: packet.receiver, client: packet.sender, code })
    }

    /// The datagram that says so: far shorter than what it answers. `None` where the ciphers refuse.
    pub fn answer(&self, provider: &CryptoProvider) -> Option<Vec<u8>> {
        const NUMBER_BYTES: usize = 1;
        let Self { version, receiver, client, code } = self;
        let keys = initial_keys(provider, *version, receiver.as_bytes(), Side::Server)?;
        let mut out = Vec::new();
        let head = (Kind::Initial, *version);
        let length_at = write_head(head, (client, receiver), false, NUMBER_BYTES, &mut out)?;
        out.push(0);
        let payload_at = out.len();
        write_close(false, *code, "", &mut out);
        out.resize(out.len() + TAG_BYTES, 0);
        let length = out.len() - payload_at + NUMBER_BYTES;
        write_length(length_at, length, &mut out);
        let keys = keys.local;
        let is_sealed = seal(&*keys.packet, &*keys.header, (0, NUMBER_BYTES), payload_at, &mut out);
        is_sealed.then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::code;
    use super::super::frame::Frame;
    use super::super::keys::{open_head, open_payload};
    use super::super::varint::Reader;
    use super::*;

    #[test]
    fn a_client_reads_that_it_is_refused() {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        for version in [Version::V1, Version::V2] {
            let receiver = Id::new(&[8; 8]).unwrap();
            let client = Id::new(&[5; 3]).unwrap();
            let refused = Refused { version, receiver, client, code: code::CONNECTION_REFUSED };
            let mut answer = refused.answer(&provider).unwrap();
            assert!(answer.len() < 100);
            let packet = Protected::read(&answer).unwrap();
            assert_eq!((packet.kind, packet.version), (Kind::Initial, Some(version)));
            assert_eq!((packet.receiver, packet.end), (refused.client, answer.len()));
            let keys = initial_keys(&provider, version, receiver.as_bytes(), Side::Client).unwrap();
            let opened = open_head(&*keys.remote.header, &mut answer, &packet, 0).unwrap();
            let end = packet.end;
            let payload = open_payload(&*keys.remote.packet, &mut answer, opened, end).unwrap();
            let frame = Frame::read(&mut Reader::new(&answer[payload])).unwrap();
            assert_eq!(frame, Frame::ConnectionClose { is_application: false, code: 2 });
        }
    }
}
