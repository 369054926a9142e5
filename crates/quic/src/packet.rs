//! Heads of packets (RFC 9000 §17, RFC 8999).

use super::id::Id;
use super::limits::OWN_ID_BYTES;
use super::varint::{Reader, write_varint};
use super::version::Version;
use std::ops::Range;

/// Bytes of a packet's ciphertext that hide its number (RFC 9001 §5.4.2).
pub const SAMPLE_BYTES: usize = 16;
/// Bytes behind the payload that show that nobody changed it.
pub const TAG_BYTES: usize = 16;
/// The most bytes of a packet's number.
pub const NUMBER_BYTES_MAX: usize = 4;

/// The kinds of packets that carry frames, and Retry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The handshake's beginning.
    Initial,
    /// Data before the handshake.
    ZeroRtt,
    /// The rest of the handshake.
    Handshake,
    /// A server's answer to a first packet, for servers to send only.
    Retry,
    /// All else.
    OneRtt,
}

/// What every version says of a packet (RFC 8999).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Invariant<'a> {
    /// Its version; `None` of a packet with the short head, and 0 of a negotiation.
    pub version: Option<u32>,
    /// The receiver's id. Of a short head the first [`OWN_ID_BYTES`].
    pub receiver: &'a [u8],
    /// The sender's id; empty for a short head.
    pub sender: &'a [u8],
}

impl<'a> Invariant<'a> {
    /// Reads the first packet of a datagram; `None` where it is none.
    pub fn read(datagram: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        if reader.byte()? & 0x80 == 0 {
            let receiver = reader.take(OWN_ID_BYTES)?;
            return Some(Self { version: None, receiver, sender: &[] });
        }
        let version = Some(reader.u32()?);
        let len = usize::from(reader.byte()?);
        let receiver = reader.take(len)?;
        let len = usize::from(reader.byte()?);
        let sender = reader.take(len)?;
        Some(Self { version, receiver, sender })
    }
}

/// A packet within a datagram, of which the number and the payload are still hidden.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Protected {
    /// Its kind.
    pub kind: Kind,
    /// Its version, which a short head does not say.
    pub version: Option<Version>,
    /// Whom it is for.
    pub receiver: Id,
    /// Who sent it; empty for a short head.
    pub sender: Id,
    /// Where the token is, which only an Initial packet has.
    pub token: Range<usize>,
    /// Where its number begins.
    pub number_at: usize,
    /// Where it ends.
    pub end: usize,
}

impl Protected {
    /// Reads the packet at the front of `datagram`; `None` where it is none of a version that is
    /// spoken here: the rest of the datagram cannot be read then.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let at = |reader: &Reader<'_>| datagram.len() - reader.rest().len();
        let first = reader.byte()?;
        if first & 0x40 == 0 {
            return None;
        }
        if first & 0x80 == 0 {
            let receiver = Id::new(reader.take(OWN_ID_BYTES)?)?;
            let (number_at, end) = (at(&reader), datagram.len());
            let (kind, sender, token) = (Kind::OneRtt, Id::default(), 0..0);
            let version = None;
            return Self { kind, version, receiver, sender, token, number_at, end }.checked();
        }
        let version = Version::of(reader.u32()?)?;
        let len = usize::from(reader.byte()?);
        let receiver = Id::new(reader.take(len)?)?;
        let len = usize::from(reader.byte()?);
        let sender = Id::new(reader.take(len)?)?;
        let (kind, version) = (version.kind(first), Some(version));
        let token = match kind {
            Kind::Retry => {
                let (token, end) = (at(&reader)..datagram.len(), datagram.len());
                let number_at = end;
                return Some(Self { kind, version, receiver, sender, token, number_at, end });
            }
            Kind::Initial => {
                let len = reader.prefixed()?.len();
                at(&reader) - len..at(&reader)
            }
            _ => 0..0,
        };
        let len = usize::try_from(reader.varint()?).ok()?;
        let number_at = at(&reader);
        let end = number_at.checked_add(len).filter(|end| *end <= datagram.len())?;
        Self { kind, version, receiver, sender, token, number_at, end }.checked()
    }

    /// A packet has to be long enough to hide its number.
    fn checked(self) -> Option<Self> {
        (self.end - self.number_at >= NUMBER_BYTES_MAX + SAMPLE_BYTES).then_some(self)
    }
}

/// How many bytes a number takes whose receiver is known to have seen all up to `acknowledged`, or
/// none (RFC 9000 §17.1).
pub fn number_bytes(number: u64, acknowledged: Option<u64>) -> usize {
    let unacknowledged = acknowledged.map_or(number + 1, |acknowledged| number - acknowledged);
    let bits = 64 - unacknowledged.leading_zeros() as usize + 1;
    bits.div_ceil(8).clamp(1, NUMBER_BYTES_MAX)
}

/// The whole number of which the low `bytes` bytes came, where `expected` is one above the highest
/// that came before (RFC 9000 §A.3).
pub fn expand_number(expected: u64, truncated: u64, bytes: usize) -> u64 {
    let window = 1_u64 << (8 * bytes);
    let candidate = (expected & !(window - 1)) | truncated;
    if candidate.saturating_add(window / 2) <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected.saturating_add(window / 2) && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// Appends the head of a packet up to its number, which is `number_bytes` long.
/// Returns where the two bytes for its length are; a short head has none.
pub fn write_head(
    (kind, version): (Kind, Version),
    (receiver, sender): (&Id, &Id),
    key_phase: bool,
    number_bytes: usize,
    out: &mut Vec<u8>,
) -> Option<usize> {
    let low = number_bytes as u8 - 1;
    let Some(form) = version.first_byte(kind) else {
        out.push(0x40 | low | if key_phase { 4 } else { 0 });
        out.extend_from_slice(receiver.as_bytes());
        return None;
    };
    out.push(form | low);
    out.extend_from_slice(&version.number().to_be_bytes());
    write_ids(receiver.as_bytes(), sender.as_bytes(), out);
    if kind == Kind::Initial {
        write_varint(0, out);
    }
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    Some(at)
}

/// Fills in the length that [`write_head`] left room for: of the number, the payload and the tag.
pub fn write_length(at: usize, length: usize, out: &mut [u8]) {
    if let Some(place) = out.get_mut(at..at + 2) {
        place.copy_from_slice(&(length as u16 | 0x4000).to_be_bytes());
    }
}

/// Appends a version negotiation packet to who sent `sender` in a packet for `receiver` (RFC 9000
/// §17.2.1). `random` keeps clients from expecting certain bits.
pub fn write_version_negotiation(
    (receiver, sender): (&[u8], &[u8]),
    random: u8,
    out: &mut Vec<u8>,
) {
    out.push(0x80 | random);
    out.extend_from_slice(&0_u32.to_be_bytes());
    write_ids(sender, receiver, out);
    for version in Version::ALL {
        out.extend_from_slice(&version.number().to_be_bytes());
    }
    // A version that nobody has, so that clients keep to ignoring what they do not know (RFC 9000 §15).
    out.extend_from_slice(&(0x0a0a_0a0a | u32::from(random & 0xf0) << 24).to_be_bytes());
}

pub(super) fn write_ids(receiver: &[u8], sender: &[u8], out: &mut Vec<u8>) {
    for id in [receiver, sender] {
        out.push(id.len() as u8);
        out.extend_from_slice(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_long_as_they_have_to_be_and_come_back() {
        // RFC 9000 §A.2 and §A.3
        assert_eq!(number_bytes(0xac5c02, Some(0xabe8b3)), 2);
        assert_eq!(number_bytes(0xace8fe, Some(0xabe8b3)), 3);
        assert_eq!(expand_number(0xa82f_30eb, 0x9b32, 2), 0xa82f_9b32);
        for acknowledged in [0, 5, 1000, 1 << 20, 1 << 40] {
            for ahead in [1, 2, 100, 127, 128, 129, 40_000, 1 << 22] {
                let number = acknowledged + ahead;
                let bytes = number_bytes(number, Some(acknowledged));
                let truncated = number & ((1 << (8 * bytes)) - 1);
                assert_eq!(expand_number(acknowledged + 1, truncated, bytes), number);
            }
        }
    }

    #[test]
    fn heads_come_back() {
        let ids = (Id::new(&[1; OWN_ID_BYTES]).unwrap(), Id::new(&[2; 5]).unwrap());
        let kinds = [Kind::Initial, Kind::Handshake, Kind::OneRtt];
        for (kind, version) in kinds.into_iter().flat_map(|kind| Version::ALL.map(|of| (kind, of)))
        {
            let mut out = Vec::new();
            let head = (kind, version);
            let length_at = write_head(head, (&ids.0, &ids.1), false, 2, &mut out);
            let number_at = out.len();
            out.extend_from_slice(&[0; 40]);
            if let Some(at) = length_at {
                write_length(at, 40, &mut out);
            }
            let read = Protected::read(&out).expect("it is a packet");
            assert_eq!((read.kind, read.number_at, read.end), (kind, number_at, out.len()));
            assert_eq!(read.receiver, ids.0);
            assert_eq!(read.version, length_at.map(|_| version));
            let invariant = Invariant::read(&out).expect("it is a packet");
            assert_eq!(invariant.receiver, ids.0.as_bytes());
            assert_eq!(invariant.version.is_none(), kind == Kind::OneRtt);
            for cut in 0..out.len() - 20 {
                assert_eq!(Protected::read(&out[..cut]).filter(|read| read.end > cut), None);
            }
        }
    }
}
