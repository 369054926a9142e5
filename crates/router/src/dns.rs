//! Questions to a resolver and its answers (RFC 1035, RFC 3596): which addresses a name has.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest name, in bytes of text.
pub const NAME_BYTES_MAX: usize = 253;
/// Addresses taken from one answer.
pub const ADDRESSES_MAX: usize = 32;
/// Records looked at in one answer.
const RECORDS_MAX: u16 = 128;
const HEADER_BYTES: usize = 12;
const CNAME: u16 = 5;
const INTERNET: u16 = 1;

/// What is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub enum Kind {
    /// IPv4 addresses.
    A = 1,
    /// IPv6 addresses.
    Aaaa = 28,
}

/// What was answered.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Answer {
    /// Addresses; none where the name has none.
    pub addresses: Vec<IpAddr>,
    /// How long they hold, in seconds.
    pub ttl_s: u32,
    /// Whether the answer was cut, and is whole over TCP only.
    pub is_cut: bool,
}

/// Whether a text can be the name of a host: labels of letters, digits and `-`, two at least.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_byte) && !label.starts_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= NAME_BYTES_MAX
        && text.contains('.')
        && text.split('.').all(is_label)
        && last.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// A question for the addresses of a name, which [`is_name`].
#[must_use]
pub fn question(id: u16, name: &str, kind: Kind) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_BYTES + name.len() + 6);
    // Recursion is wanted.
    for word in [id, 0x0100, 1, 0, 0, 0] {
        message.extend(word.to_be_bytes());
    }
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.push(0);
    for word in [kind as u16, INTERNET] {
        message.extend(word.to_be_bytes());
    }
    message
}

/// Reads the answer to a question.
///
/// # Errors
/// What is wrong with it: it is malformed, of another question, or the resolver failed.
pub fn answer(message: &[u8], id: u16, name: &str, kind: Kind) -> Result<Answer, &'static str> {
    const MALFORMED: &str = "the answer is malformed";
    let word = |at: usize| {
        let bytes: [u8; 2] = message.get(at..at + 2)?.try_into().ok()?;
        Some(u16::from_be_bytes(bytes))
    };
    let header = |at: usize| word(at).ok_or(MALFORMED);
    let flags = header(2)?;
    if header(0)? != id || flags & 0x8000 == 0 || header(4)? != 1 {
        return Err("the answer is to another question");
    }
    let (asked, mut at) = read_name(message, HEADER_BYTES).ok_or(MALFORMED)?;
    if !asked.eq_ignore_ascii_case(name) || header(at)? != kind as u16 {
        return Err("the answer is to another question");
    }
    at += 4;
    let mut answer = Answer { ttl_s: u32::MAX, is_cut: flags & 0x0200 != 0, ..Answer::default() };
    match flags & 0xf {
        0 => {}
        // There is no such name.
        3 => return Ok(Answer { ttl_s: 0, ..answer }),
        2 => return Err("the resolver failed"),
        5 => return Err("the resolver refuses"),
        _ => return Err("the resolver does not understand"),
    }
    let mut owner = asked;
    for _ in 0..header(6)?.min(RECORDS_MAX) {
        let (of, next) = read_name(message, at).ok_or(MALFORMED)?;
        let (found, class) = (header(next)?, header(next + 2)?);
        let ttl_s = u32::from(header(next + 4)?) << 16 | u32::from(header(next + 6)?);
        let length = usize::from(header(next + 8)?);
        let data = message.get(next + 10..next + 10 + length).ok_or(MALFORMED)?;
        at = next + 10 + length;
        if class != INTERNET || !of.eq_ignore_ascii_case(&owner) {
            continue;
        }
        let address = match found {
            CNAME => {
                (owner, _) = read_name(message, next + 10).ok_or(MALFORMED)?;
                answer.ttl_s = answer.ttl_s.min(ttl_s);
                continue;
            }
            _ if found != kind as u16 => continue,
            1 => <[u8; 4]>::try_from(data).ok().map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes))),
            _ => <[u8; 16]>::try_from(data).ok().map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes))),
        };
        answer.ttl_s = answer.ttl_s.min(ttl_s);
        if answer.addresses.len() < ADDRESSES_MAX {
            answer.addresses.push(address.ok_or(MALFORMED)?);
        }
    }
    if answer.ttl_s == u32::MAX {
        answer.ttl_s = 0;
    }
    Ok(answer)
}

/// A name and where it ends. Pointers lead backwards only, so that they come to an end.
fn read_name(message: &[u8], start: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    let (mut at, mut end, mut least) = (start, None, start);
    loop {
        let length = usize::from(*message.get(at)?);
        if length & 0xc0 == 0xc0 {
            let to = (length & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
            if to >= least {
                return None;
            }
            end = end.or(Some(at + 2));
            (at, least) = (to, to);
            continue;
        }
        if length == 0 {
            return Some((name, end.unwrap_or(at + 1)));
        }
        let label = message.get(at + 1..at + 1 + length).filter(|_| length < 64)?;
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().map(|byte| char::from(*byte)));
        if name.len() > 4 * NAME_BYTES_MAX {
            return None;
        }
        at += 1 + length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `www.example.com`, an alias of `cdn.example.com`, which has two addresses.
    fn good() -> Vec<u8> {
        let mut message = question(7, "www.example.com", Kind::A);
        message[2] = 0x81;
        message[3] = 0x80;
        message[7] = 3;
        let alias = [0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 6, 3, b'c', b'd', b'n', 0xc0, 16];
        let alias_at = message.len() as u8 + 12;
        message.extend(alias);
        for last in [1, 2] {
            let record = [0xc0, alias_at, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 192, 0, 2, last];
            message.extend(record);
        }
        message
    }

    #[test]
    fn an_answer_is_read_through_its_alias() {
        let answer = answer(&good(), 7, "WWW.example.com", Kind::A).expect("it is good");
        let expected = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().expect("one"));
        assert_eq!(answer, Answer { addresses: expected.to_vec(), ttl_s: 30, is_cut: false });
    }

    #[test]
    fn answers_to_other_questions_and_broken_ones_are_refused() {
        let other = "the answer is to another question";
        assert_eq!(answer(&good(), 8, "www.example.com", Kind::A), Err(other));
        assert_eq!(answer(&good(), 7, "example.com", Kind::A), Err(other));
        assert_eq!(answer(&good(), 7, "www.example.com", Kind::Aaaa), Err(other));
        for cut in 0..good().len() {
            assert!(answer(&good()[..cut], 7, "www.example.com", Kind::A).is_err(), "{cut}");
        }
        // A name that points at itself.
        let mut looped = good();
        let at = question(7, "www.example.com", Kind::A).len();
        looped[at + 1] = at as u8;
        assert!(answer(&looped, 7, "www.example.com", Kind::A).is_err());
        let mut failed = good();
        failed[3] = 0x82;
        assert_eq!(answer(&failed, 7, "www.example.com", Kind::A), Err("the resolver failed"));
        let mut nothing = good();
        nothing[3] = 0x83;
        let found = answer(&nothing, 7, "www.example.com", Kind::A).expect("it is an answer");
        assert_eq!((found.addresses.len(), found.ttl_s), (0, 0));
    }

    #[test]
    fn names_are_told_from_addresses() {
        for good in ["www.example.com", "a.b", "xn--bcher-kva.example", "_dns.1.example"] {
            assert!(is_name(good), "{good}");
        }
        for wrong in
            ["192.0.2.1", "localhost", "", "a..b", "a.b/24", "2001:db8::1", "-a.b", "a b.c"]
        {
            assert!(!is_name(wrong), "{wrong}");
        }
    }
}
