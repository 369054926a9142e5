//! What has to be known of a ClientHello (RFC 8446 §4.1.2) before TLS gets it: the version of QUIC goes
//! into keys and parameters, and the client says there which ones it would rather have.

use super::super::varint::Reader;

/// A whole ClientHello.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Hello<'a> {
    /// Its transport parameters; `None` where it has none, or cannot be read: TLS says what is wrong.
    pub(super) parameters: Option<&'a [u8]>,
    /// Whether it would continue a session.
    pub(super) continues: bool,
}

const CLIENT_HELLO: u8 = 1;
/// Extensions (RFC 8446 §4.2, RFC 9001 §8.2).
const PRE_SHARED_KEY: u16 = 41;
const QUIC_TRANSPORT_PARAMETERS: u16 = 57;

impl<'a> Hello<'a> {
    /// Reads the first message of a handshake; `None` while not all of it is there.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let is_hello = reader.byte()? == CLIENT_HELLO;
        let len = big_endian(reader.take(3)?);
        if !is_hello {
            return Some(Self::default());
        }
        Some(Self::read_message(reader.take(len)?).unwrap_or_default())
    }

    fn read_message(message: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(message);
        let mut hello = Self::default();
        // Version and random number; session, suites and compression.
        reader.take(2 + 32)?;
        for length_bytes in [1, 2, 1] {
            prefixed(&mut reader, length_bytes)?;
        }
        let mut extensions = Reader::new(prefixed(&mut reader, 2)?);
        while !extensions.is_empty() {
            let kind = big_endian(extensions.take(2)?) as u16;
            let value = prefixed(&mut extensions, 2)?;
            match kind {
                PRE_SHARED_KEY => hello.continues = true,
                QUIC_TRANSPORT_PARAMETERS => hello.parameters = Some(value),
                _ => {}
            }
        }
        Some(hello)
    }
}

/// What is behind a length of so many bytes.
fn prefixed<'a>(reader: &mut Reader<'a>, length_bytes: usize) -> Option<&'a [u8]> {
    let len = big_endian(reader.take(length_bytes)?);
    reader.take(len)
}

fn big_endian(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bolero::check;

    fn message(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![3; 34];
        body.extend([2, 9, 9, 0, 2, 0x13, 1, 1, 0]);
        let all: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, value)| {
                let len = (value.len() as u16).to_be_bytes();
                [&kind.to_be_bytes()[..], &len, value].concat()
            })
            .collect();
        body.extend((all.len() as u16).to_be_bytes());
        body.extend(all);
        let mut out = vec![CLIENT_HELLO];
        out.extend_from_slice(&(body.len() as u32).to_be_bytes()[1..]);
        out.extend(body);
        out
    }

    #[test]
    fn it_is_read_once_it_is_whole() {
        let plain = message(&[(5, b"x"), (QUIC_TRANSPORT_PARAMETERS, b"parameters")]);
        let want = Hello { parameters: Some(b"parameters"), continues: false };
        assert_eq!(Hello::read(&plain), Some(want));
        for cut in 0..plain.len() {
            assert_eq!(Hello::read(&plain[..cut]), None, "{cut}");
        }
        assert!(Hello::read(&message(&[(PRE_SHARED_KEY, b"")])).unwrap().continues);
        // Another message, and one whose lengths are wrong: TLS gets them as they are.
        assert_eq!(Hello::read(&[2, 0, 0, 9]), Some(Hello::default()));
        assert_eq!(Hello::read(&[1, 0, 0, 2, 3, 3]), Some(Hello::default()));
    }

    #[test]
    fn nothing_that_comes_makes_it_panic() {
        check!().for_each(|bytes: &[u8]| {
            let _ = Hello::read(bytes);
            let _ = Hello::read_message(bytes);
        });
    }
}
