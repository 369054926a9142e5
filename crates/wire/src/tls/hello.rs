//! The server name and the protocols in a client's hello (RFC 8446 §4.1.2, RFC 6066 §3, RFC 7301 §3.1).

use std::ops::Range;

/// Bytes of a hello up to its session id: message header, version, random.
pub const HELLO_PREFIX_BYTES: usize = 4 + 2 + 32;

const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const PROTOCOLS: u16 = 16;
const HOST_NAME: u8 = 0;

/// Where the host name is in `message`, which is a whole handshake message with its header; `None`
/// where it is no hello, names no host, or is malformed. O(number of extensions), no allocation.
pub fn host_name(message: &[u8]) -> Option<Range<usize>> {
    let extension = extension(message, SERVER_NAME)?;
    let mut at = Cursor { message, at: extension.start };
    at.number(2)?;
    let is_host = at.number(1)? == usize::from(HOST_NAME);
    let name_bytes = at.number(2)?;
    let start = at.at;
    at.skip(name_bytes)?;
    (is_host && at.at == extension.end).then_some(start..at.at)
}

/// Whether it is a hello that offers this protocol and no other.
pub fn offers_only(message: &[u8], protocol: &[u8]) -> bool {
    let offered = extension(message, PROTOCOLS).and_then(|place| message.get(place));
    // Lengths of the list and of the name in it.
    offered.and_then(|list| list.get(3..)) == Some(protocol)
        && offered.and_then(|list| list.get(2)).copied().map(usize::from) == Some(protocol.len())
}

/// Where an extension is in a hello, without its header.
fn extension(message: &[u8], wanted: u16) -> Option<Range<usize>> {
    let mut at = Cursor { message, at: 0 };
    if at.number(1)? != usize::from(CLIENT_HELLO) || at.number(3)? != message.len() - 4 {
        return None;
    }
    at.at = HELLO_PREFIX_BYTES;
    for length_bytes in [1, 2, 1] {
        // Session id, cipher suites, compression methods.
        let length = at.number(length_bytes)?;
        at.skip(length)?;
    }
    let extensions_bytes = at.number(2)?;
    let end = at.at + extensions_bytes;
    while at.at < end {
        let (kind, length) = (at.number(2)?, at.number(2)?);
        let start = at.at;
        at.skip(length)?;
        if kind == usize::from(wanted) {
            return Some(start..at.at);
        }
    }
    None
}

struct Cursor<'a> {
    message: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// A number of so many bytes, big end first.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        let digits = self.message.get(self.at..self.at + bytes)?;
        self.at += bytes;
        Some(digits.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.at += bytes;
        (self.at <= self.message.len()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello(name: &[u8]) -> Vec<u8> {
        let length = |bytes: usize| u16::try_from(bytes).unwrap().to_be_bytes();
        let mut body = [&[3, 3][..], &[7; 32], &[2, 9, 9], &[0, 2, 0x13, 1], &[1, 0]].concat();
        let list = [&[HOST_NAME][..], &length(name.len()), name].concat();
        let sni = [&[0, 0][..], &length(list.len() + 2), &length(list.len()), &list].concat();
        let protocols = [0, 16, 0, 5, 0, 3, 2, b'h', b'2'];
        let extensions = [&[0, 23, 0, 0][..], &sni, &[0, 43, 0, 3, 2, 3, 4], &protocols].concat();
        body.extend(length(extensions.len()));
        body.extend(extensions);
        [&[CLIENT_HELLO, 0][..], &length(body.len()), &body].concat()
    }

    #[test]
    fn the_name_is_found_among_other_extensions() {
        for name in [&b"localhost:8443"[..], b"a", &[b'x'; 255]] {
            let message = hello(name);
            assert_eq!(&message[host_name(&message).unwrap()], name);
        }
    }

    #[test]
    fn a_single_protocol_is_told_from_several() {
        let mut message = hello(b"a.example");
        assert!(offers_only(&message, b"h2") && !offers_only(&message, b"h3"));
        // One of two bytes becomes two, of which the second is empty.
        let at = message.len() - 3;
        message[at] = 1;
        assert!(!offers_only(&message, b"h2") && !offers_only(&message, b"2"));
        assert!(!offers_only(b"", b"h2"));
    }

    proptest! {
        #[test]
        fn nothing_that_arrives_panics(mut message in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = host_name(&message);
            let mut whole = hello(b"localhost:8443");
            for (at, byte) in message.drain(..).enumerate().skip(4) {
                if let Some(place) = whole.get_mut(at * 3) {
                    *place = byte;
                }
            }
            let _ = (host_name(&whole), offers_only(&whole, b"h2"));
        }

        #[test]
        fn a_part_of_a_hello_has_no_name(end in 0usize..90) {
            let whole = hello(b"localhost:8443");
            prop_assert_eq!(host_name(&whole[..end.min(whole.len() - 1)]), None);
        }
    }
}
