//! Questions for names, and replies to them (RFC 1035).

use crate::platform::Resolved;
use std::net::IpAddr;

/// Bytes before the question (RFC 1035 §4.1.1).
pub(super) const HEAD_BYTES: usize = 12;
const A: u16 = 1;
const AAAA: u16 = 28;
const INTERNET: u16 = 1;
const NO_ERROR: u8 = 0;
/// The upstream is silent.
pub(super) const SERVER_FAILURE: u8 = 2;
/// Nobody is asked for others' names.
pub(super) const REFUSED: u8 = 5;

/// The question of a message that has one.
pub(super) struct Question {
    /// In lower case, without a dot at its end.
    name: String,
    kind: u16,
    class: u16,
    /// Where it ends.
    pub(super) end: usize,
}

impl Question {
    /// The question of a message; `None` where that is no query with one question.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let head: &[u8; HEAD_BYTES] = message.first_chunk()?;
        // A standard query with one question.
        if head[2] & 0xf8 != 0 || head[4..6] != [0, 1] {
            return None;
        }
        let (mut at, mut labels) = (HEAD_BYTES, Vec::new());
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            match length {
                0 => break,
                1..=63 => {
                    let label = message.get(at..at + length)?;
                    labels.push(String::from_utf8(label.to_ascii_lowercase()).ok()?);
                    at += length;
                }
                // Questions have no pointers.
                _ => return None,
            }
            if at > HEAD_BYTES + 255 {
                return None;
            }
        }
        let word = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
        Some(Self { name: labels.join("."), kind: word(at)?, class: word(at + 2)?, end: at + 4 })
    }

    /// What a rule says; `None` where none is about the name.
    pub(super) fn answer(
        &self,
        message: &[u8],
        resolve: &impl Fn(&str, bool) -> Option<Resolved>,
    ) -> Option<Vec<u8>> {
        if self.class != INTERNET {
            return None;
        }
        let resolved = resolve(&self.name, self.kind == AAAA)?;
        // A name that is ours has no other records than these.
        let address = resolved.address.filter(|_| matches!(self.kind, A | AAAA));
        Some(self.reply(message, NO_ERROR, address.map(|address| (address, resolved.ttl_s))))
    }

    /// A reply with a code (RFC 1035 §4.1.1), and an address with its time where there is one.
    pub(super) fn reply(
        &self,
        message: &[u8],
        code: u8,
        address: Option<(IpAddr, u32)>,
    ) -> Vec<u8> {
        let mut reply = message[..self.end].to_vec();
        // An answer, recursion as it was asked for and available.
        reply[2] = 0x80 | message[2] & 0x01;
        reply[3] = 0x80 | code;
        reply[4..HEAD_BYTES].copy_from_slice(&[0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]);
        if let Some((address, ttl_s)) = address {
            let data = match address {
                IpAddr::V4(one) => one.octets().to_vec(),
                IpAddr::V6(one) => one.octets().to_vec(),
            };
            // Its name is that of the question.
            reply.extend([0xc0, HEAD_BYTES as u8]);
            reply.extend(self.kind.to_be_bytes());
            reply.extend(INTERNET.to_be_bytes());
            reply.extend(ttl_s.to_be_bytes());
            reply.extend((data.len() as u16).to_be_bytes());
            reply.extend(data);
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_router::dns::{self, Kind};
    use proptest::prelude::*;

    fn rule(name: &str, is_v6: bool) -> Option<Resolved> {
        let address = (!is_v6).then(|| [10, 99, 0, 2].into());
        (name == "www.example.com").then_some(Resolved { address, ttl_s: 30 })
    }

    #[test]
    fn a_name_of_a_rule_is_answered_and_another_is_not() {
        let ask = |name: &str, kind| {
            let message = dns::question(7, name, kind);
            Question::read(&message).unwrap().answer(&message, &rule)
        };
        let reply = ask("WWW.example.com", Kind::A).unwrap();
        let read = dns::answer(&reply, 7, "www.example.com", Kind::A).unwrap();
        assert_eq!(read.addresses, [IpAddr::from([10, 99, 0, 2])]);
        let none = ask("www.example.com", Kind::Aaaa).unwrap();
        assert!(
            dns::answer(&none, 7, "www.example.com", Kind::Aaaa)
                .is_ok_and(|read| read.addresses.is_empty())
        );
        assert_eq!(ask("example.com", Kind::A), None);
    }

    proptest! {
        #[test]
        fn no_message_hurts(message in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Some(question) = Question::read(&message) {
                let reply = question.reply(&message, REFUSED, None);
                prop_assert!(reply.len() <= message.len());
                let _ = question.answer(&message, &rule);
            }
        }
    }
}
