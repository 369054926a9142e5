//! Questions for names, and replies to them (RFC 1035).

use freshet_platform::Resolved;
use std::net::IpAddr;

/// Bytes before the question (RFC 1035 §4.1.1).
const HEAD_BYTES: usize = 12;
/// In the third byte: an answer, and no question.
const IS_ANSWER: u8 = 0x80;
const A: u16 = 1;
const AAAA: u16 = 28;
const INTERNET: u16 = 1;
/// The record in which clients say what else they know (RFC 6891 §6.1.2).
const OPTIONS: u16 = 41;
/// Bytes of one without an option.
const OPTIONS_BYTES: usize = 11;
/// Longest datagram that is said to be taken: what passes everywhere in one piece.
const DATAGRAM_BYTES: u16 = 1232;
const NO_ERROR: u8 = 0;
/// It cannot be read.
const FORMAT_ERROR: u8 = 1;
/// The upstream is silent.
pub(super) const SERVER_FAILURE: u8 = 2;
/// It is no question for names.
const NOT_IMPLEMENTED: u8 = 4;
/// Nobody is asked for others' names.
pub(super) const REFUSED: u8 = 5;
/// Upper part of the code that another version of the options has (RFC 6891 §9).
const BAD_VERSION: u8 = 1;

/// The question of a message that has one.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// In lower case, without a dot at its end. None that a rule has: bytes that are no text, and labels
    /// with a dot in them, which is no end of theirs.
    name: Option<String>,
    kind: u16,
    class: u16,
    /// Where it ends.
    end: usize,
    /// Whether its client says what else it knows, and wants the same (RFC 6891 §6.1.1).
    has_options: bool,
}

/// Why a message is no question.
#[derive(Debug)]
pub(super) enum Wrong {
    /// It is no message of a client: nothing is said to it.
    NoQuery,
    /// It is answered so.
    Answered(Vec<u8>),
}

impl Question {
    /// The question of a message.
    ///
    /// # Errors
    /// What becomes of one that is no query with one question (RFC 9619 §4).
    pub(super) fn read(message: &[u8]) -> Result<Self, Wrong> {
        let head: &[u8; HEAD_BYTES] = message.first_chunk().ok_or(Wrong::NoQuery)?;
        if head[2] & IS_ANSWER != 0 {
            return Err(Wrong::NoQuery);
        }
        let say = |code| Wrong::Answered(bare(head, code));
        if head[2] & 0x78 != 0 {
            return Err(say(NOT_IMPLEMENTED));
        }
        if head[4..6] != [0, 1] {
            return Err(say(FORMAT_ERROR));
        }
        let mut question = Self::named(message).ok_or_else(|| say(FORMAT_ERROR))?;
        let counts = [6, 8, 10].map(|at| u16::from_be_bytes([head[at], head[at + 1]]));
        let records = counts.into_iter().map(usize::from).sum();
        let options = options(message, question.end, records).ok_or_else(|| say(FORMAT_ERROR))?;
        if options.is_some_and(|version| version > 0) {
            let mut reply = bare(head, NO_ERROR);
            reply[11] = 1;
            reply.extend(own_options(BAD_VERSION));
            return Err(Wrong::Answered(reply));
        }
        question.has_options = options.is_some();
        Ok(question)
    }

    /// The question behind a head.
    fn named(message: &[u8]) -> Option<Self> {
        let (mut at, mut labels) = (HEAD_BYTES, Vec::new());
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            match length {
                0 => break,
                1..=63 => {
                    let label = message.get(at..at + length)?;
                    labels.push(std::str::from_utf8(label).ok().filter(|text| !text.contains('.')));
                    at += length;
                }
                // Questions have no pointers.
                _ => return None,
            }
            if at > HEAD_BYTES + 255 {
                return None;
            }
        }
        let (kind, class) = (word(message, at)?, word(message, at + 2)?);
        let labels: Option<Vec<&str>> = labels.into_iter().collect();
        let name = labels.map(|labels| labels.join(".").to_ascii_lowercase());
        Some(Self { name, kind, class, end: at + 4, has_options: false })
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
        let resolved = resolve(self.name.as_deref()?, self.kind == AAAA)?;
        // A name that is ours has no other records than these.
        let address = resolved.address.filter(|_| matches!(self.kind, A | AAAA));
        Some(self.reply(message, NO_ERROR, address.map(|address| (address, resolved.ttl_s))))
    }

    /// Whether a message is the answer to `asked`, which has this question. Letters may have changed their case.
    pub(super) fn is_answered(&self, asked: &[u8], message: &[u8]) -> bool {
        let same = |from: usize, to: usize| {
            asked
                .get(from..to)
                .zip(message.get(from..to))
                .is_some_and(|(asked, found)| asked.eq_ignore_ascii_case(found))
        };
        let is_answer = message.get(2).is_some_and(|flags| flags & IS_ANSWER != 0);
        is_answer && asked.get(..2) == message.get(..2) && same(HEAD_BYTES, self.end)
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
        reply[2] = IS_ANSWER | message[2] & 0x01;
        reply[3] = 0x80 | code;
        let (answers, others) = (u8::from(address.is_some()), u8::from(self.has_options));
        reply[4..HEAD_BYTES].copy_from_slice(&[0, 1, 0, answers, 0, 0, 0, others]);
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
        if self.has_options {
            reply.extend(own_options(0));
        }
        reply
    }
}

/// A reply without a question.
fn bare(head: &[u8; HEAD_BYTES], code: u8) -> Vec<u8> {
    let mut reply = vec![0; HEAD_BYTES];
    reply[..2].copy_from_slice(&head[..2]);
    // What was asked for, as far as it says so.
    reply[2] = IS_ANSWER | head[2] & 0x79;
    reply[3] = 0x80 | code;
    reply
}

/// What is known here, with the upper part of a code.
fn own_options(code: u8) -> [u8; OPTIONS_BYTES] {
    let [kind, bytes] = [OPTIONS, DATAGRAM_BYTES].map(u16::to_be_bytes);
    [0, kind[0], kind[1], bytes[0], bytes[1], code, 0, 0, 0, 0, 0]
}

/// The version of the options among the records behind a question, where there are any. `None` where
/// they cannot be read.
fn options(message: &[u8], mut at: usize, records: usize) -> Option<Option<u8>> {
    let mut found = None;
    for _ in 0..records {
        loop {
            let length = *message.get(at)?;
            at += 1;
            match length {
                0 => break,
                1..=63 => at += usize::from(length),
                // A pointer ends a name.
                0xc0.. => {
                    at += 1;
                    break;
                }
                _ => return None,
            }
        }
        let version = *message.get(at + 5)?;
        if word(message, at)? == OPTIONS && found.replace(version).is_some() {
            return None;
        }
        at += 10 + usize::from(word(message, at + 8)?);
    }
    (at <= message.len()).then_some(found)
}

fn word(message: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?))
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

    /// A question for the address of a name with these labels.
    fn labelled(labels: &[&[u8]]) -> Vec<u8> {
        let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            message.push(label.len() as u8);
            message.extend(*label);
        }
        message.extend([0, 0, 1, 0, 1]);
        message
    }

    #[test]
    fn labels_are_told_apart_whatever_bytes_they_have() {
        let has_rule = |labels: &[&[u8]]| {
            let message = labelled(labels);
            Question::read(&message).unwrap().answer(&message, &rule).is_some()
        };
        assert!(has_rule(&[b"www", b"Example", b"com"]));
        // Others' names, which are asked for upstream.
        assert!(!has_rule(&[b"www.example", b"com"]));
        assert!(!has_rule(&[b"\xff\xfe", b"com"]));
    }

    #[test]
    fn an_answer_is_one_to_what_was_asked() {
        let asked = labelled(&[b"www", b"example", b"com"]);
        let question = Question::read(&asked).unwrap();
        let with = |at: usize, byte: u8| {
            let mut message = asked.clone();
            message[2] |= IS_ANSWER;
            message[at] = byte;
            message
        };
        assert!(question.is_answered(&asked, &with(13, b'W')));
        for (at, byte) in [(1, 8), (2, 1), (13, b'v'), (asked.len() - 3, 28)] {
            assert!(!question.is_answered(&asked, &with(at, byte)), "{at}");
        }
        assert!(!question.is_answered(&asked, &with(13, b'w')[..20]));
    }

    #[test]
    fn what_is_no_question_is_told_so() {
        let answered = |message: &[u8]| match Question::read(message) {
            Err(Wrong::Answered(reply)) => reply,
            other => panic!("{other:?}"),
        };
        let good = dns::question(7, "www.example.com", Kind::A);
        let with = |at: usize, byte: u8| {
            let mut message = good.clone();
            message[at] = byte;
            message
        };
        assert_eq!(answered(&with(2, 0x10)), [&[0, 7, 0x90, 0x84][..], &[0; 8]].concat());
        for wrong in [with(5, 2), with(5, 0), with(12, 0xc0), with(11, 3), good[..20].to_vec()] {
            let said = answered(&wrong);
            assert_eq!((said.len(), said[3] & 0x0f), (HEAD_BYTES, FORMAT_ERROR), "{wrong:?}");
        }
        assert!(matches!(Question::read(&with(2, 0x80)), Err(Wrong::NoQuery)));
        assert!(matches!(Question::read(&good[..11]), Err(Wrong::NoQuery)));
    }

    #[test]
    fn who_has_options_is_answered_with_them() {
        let asked = |version: u8| {
            let mut message = dns::question(7, "www.example.com", Kind::A);
            message[11] = 1;
            message.extend([0, 0, 41, 16, 0, 0, version, 0, 0, 0, 0]);
            message
        };
        let own = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
        let message = asked(0);
        let question = Question::read(&message).unwrap();
        let reply = question.answer(&message, &rule).unwrap();
        assert!(reply[11] == 1 && reply.ends_with(&own), "{reply:?}");
        assert!(dns::answer(&reply, 7, "www.example.com", Kind::A).is_ok());
        assert!(question.reply(&message, REFUSED, None).ends_with(&own));
        let Err(Wrong::Answered(reply)) = Question::read(&asked(1)) else { panic!("a version") };
        assert_eq!(reply[HEAD_BYTES..], [0, 0, 41, 4, 208, BAD_VERSION, 0, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn no_message_hurts(message in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(question) = Question::read(&message) {
                let reply = question.reply(&message, REFUSED, None);
                prop_assert!(reply.len() <= message.len());
                let _ = question.answer(&message, &rule);
            }
        }
    }
}
