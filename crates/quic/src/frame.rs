//! Frames (RFC 9000 §19).

use super::ack_frequency::Frequency;
use super::ecn::Counts;
use super::error::Error;
use super::id::{ID_BYTES_MAX, Id};
use super::ranges::Ranges;
use super::varint::{Reader, varint_bytes, write_varint};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The type of ACK_FREQUENCY frames (draft-ietf-quic-ack-frequency §4).
const ACK_FREQUENCY: u64 = 0xaf;
/// The type of IMMEDIATE_ACK frames, which are no more than that (§5 there).
pub(super) const IMMEDIATE_ACK: u64 = 0x1f;

/// A frame. What a server never gets in a form it would act on is read all the same, so that it can
/// be refused by name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "fields are named as in RFC 9000 §19")]
pub enum Frame<'a> {
    /// Nothing, any number of times.
    Padding,
    /// Asks for an acknowledgement.
    Ping,
    /// Packets that came.
    Ack(Ack<'a>),
    /// The sender will send no more of a stream, which ends at `size`.
    ResetStream { stream: u64, code: u64, size: u64 },
    /// The sender wants no more of a stream.
    StopSending { stream: u64, code: u64 },
    /// A part of the handshake.
    Crypto { offset: u64, bytes: &'a [u8] },
    /// A token for a later connection.
    NewToken,
    /// A part of a stream.
    Stream { stream: u64, offset: u64, bytes: &'a [u8], ends: bool },
    /// What may be sent on all streams.
    MaxData(u64),
    /// What may be sent on one.
    MaxStreamData { stream: u64, bytes: u64 },
    /// How many streams may be opened.
    MaxStreams { is_both_ways: bool, count: u64 },
    /// One of the three limits is in the sender's way. `stream` where it is that of a stream.
    Blocked { stream: Option<u64> },
    /// Another id of the sender.
    NewConnectionId { sequence: u64, retire_before: u64, id: Id, reset_token: [u8; 16] },
    /// An id of ours that is not used any more.
    RetireConnectionId(u64),
    /// Asks for the same bytes back on the same path.
    PathChallenge([u8; 8]),
    /// Those bytes.
    PathResponse([u8; 8]),
    /// The connection is over; `is_application` tells whose code it is.
    ConnectionClose { is_application: bool, code: u64 },
    /// The handshake is confirmed, as only servers say.
    HandshakeDone,
    /// How packets of the sender are to be acknowledged, as the highest of these numbers says.
    AckFrequency { sequence: u64, asked: Frequency },
    /// Asks for an acknowledgement at once.
    ImmediateAck,
}

/// Packets that came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ack<'a> {
    /// The highest number.
    pub largest: u64,
    /// How long it was held back, in units of the sender's exponent.
    pub delay: u64,
    /// Packets that came by their marks, where that is told.
    pub counts: Option<Counts>,
    /// Length of the first range less one, and the pairs that follow; read once already.
    first: u64,
    pairs: &'a [u8],
}

impl Ack<'_> {
    /// The ranges, from the highest.
    pub fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u64>> {
        let mut pairs = Reader::new(self.pairs);
        let mut low = self.largest - self.first;
        std::iter::once(low..=self.largest).chain(std::iter::from_fn(move || {
            let (gap, length) = (pairs.varint()?, pairs.varint()?);
            let high = low.checked_sub(gap + 2)?;
            low = high.checked_sub(length)?;
            Some(low..=high)
        }))
    }

    fn read<'a>(reader: &mut Reader<'a>, has_counts: bool) -> Option<Ack<'a>> {
        let (largest, delay) = (reader.varint()?, reader.varint()?);
        let (count, first) = (reader.varint()?, reader.varint()?);
        let mut low = largest.checked_sub(first)?;
        let start = reader.rest();
        for _ in 0..count {
            let (gap, length) = (reader.varint()?, reader.varint()?);
            low = low.checked_sub(gap.checked_add(2)?)?.checked_sub(length)?;
        }
        let pairs = start.get(..start.len() - reader.rest().len())?;
        let counts = if has_counts { Some(Counts::read(reader)?) } else { None };
        Some(Ack { largest, delay, counts, first, pairs })
    }
}

impl<'a> Frame<'a> {
    /// Reads the next frame, with all padding in one.
    ///
    /// # Errors
    /// FRAME_ENCODING_ERROR: it is cut off or of an unknown type.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Self::read_known(reader).ok_or(Error::encoding("a frame cannot be read"))
    }

    fn read_known(reader: &mut Reader<'a>) -> Option<Self> {
        let before = reader.rest().len();
        let kind = reader.varint()?;
        // A type has to have its shortest form (RFC 9000 §12.4).
        if before - reader.rest().len() != varint_bytes(kind) {
            return None;
        }
        Some(match kind {
            0x00 => {
                while reader.rest().first() == Some(&0) {
                    reader.byte();
                }
                Self::Padding
            }
            0x01 => Self::Ping,
            0x02 | 0x03 => Self::Ack(Ack::read(reader, kind == 3)?),
            0x04 => Self::ResetStream {
                stream: reader.varint()?,
                code: reader.varint()?,
                size: reader.varint()?,
            },
            0x05 => Self::StopSending { stream: reader.varint()?, code: reader.varint()? },
            0x06 => {
                let (offset, bytes) = (reader.varint()?, reader.prefixed()?);
                Self::Crypto { offset, bytes: within(offset, bytes)? }
            }
            0x07 => {
                reader.prefixed().filter(|token| !token.is_empty())?;
                Self::NewToken
            }
            0x08..=0x0f => {
                let stream = reader.varint()?;
                let offset = if kind & 4 == 0 { 0 } else { reader.varint()? };
                let bytes = if kind & 2 == 0 { reader.take_rest() } else { reader.prefixed()? };
                Self::Stream { stream, offset, bytes: within(offset, bytes)?, ends: kind & 1 != 0 }
            }
            0x10 => Self::MaxData(reader.varint()?),
            0x11 => Self::MaxStreamData { stream: reader.varint()?, bytes: reader.varint()? },
            0x12 | 0x13 => {
                let count = reader.varint().filter(|count| *count <= 1 << 60)?;
                Self::MaxStreams { is_both_ways: kind == 0x12, count }
            }
            0x14 => {
                reader.varint()?;
                Self::Blocked { stream: None }
            }
            0x15 => {
                let stream = Some(reader.varint()?);
                reader.varint()?;
                Self::Blocked { stream }
            }
            0x16 | 0x17 => {
                reader.varint().filter(|count| *count <= 1 << 60)?;
                Self::Blocked { stream: None }
            }
            0x18 => {
                let (sequence, retire_before) = (reader.varint()?, reader.varint()?);
                let len = usize::from(reader.byte()?);
                if !(1..=ID_BYTES_MAX).contains(&len) || retire_before > sequence {
                    return None;
                }
                let id = Id::new(reader.take(len)?)?;
                let reset_token = *reader.take(16)?.first_chunk()?;
                Self::NewConnectionId { sequence, retire_before, id, reset_token }
            }
            0x19 => Self::RetireConnectionId(reader.varint()?),
            0x1a => Self::PathChallenge(*reader.take(8)?.first_chunk()?),
            0x1b => Self::PathResponse(*reader.take(8)?.first_chunk()?),
            0x1c | 0x1d => {
                let code = reader.varint()?;
                if kind == 0x1c {
                    reader.varint()?;
                }
                reader.prefixed()?;
                Self::ConnectionClose { is_application: kind == 0x1d, code }
            }
            0x1e => Self::HandshakeDone,
            IMMEDIATE_ACK => Self::ImmediateAck,
            ACK_FREQUENCY => {
                let (sequence, threshold) = (reader.varint()?, reader.varint()?);
                let delay_max = Duration::from_micros(reader.varint()?);
                let reordering = reader.varint()?;
                Self::AckFrequency {
                    sequence,
                    asked: Frequency { threshold, delay_max, reordering },
                }
            }
            _ => return None,
        })
    }

    /// Whether a packet with it has to be acknowledged (RFC 9002 §2).
    pub fn is_eliciting(&self) -> bool {
        !matches!(self, Self::Padding | Self::Ack(_) | Self::ConnectionClose { .. })
    }

    /// Whether Initial and Handshake packets may have it (RFC 9000 §12.4).
    pub fn is_of_handshake(&self) -> bool {
        match self {
            Self::Padding | Self::Ping | Self::Ack(_) | Self::Crypto { .. } => true,
            Self::ConnectionClose { is_application, .. } => !is_application,
            _ => false,
        }
    }

    /// Whether 0-RTT packets may have it (RFC 9000 §12.5).
    pub fn is_of_early_data(&self) -> bool {
        !matches!(
            self,
            Self::Ack(_)
                | Self::Crypto { .. }
                | Self::HandshakeDone
                | Self::NewToken
                | Self::PathResponse(_)
                | Self::RetireConnectionId(_)
        )
    }
}

/// Bytes whose place is one that a stream can have (RFC 9000 §19.8).
fn within(offset: u64, bytes: &[u8]) -> Option<&[u8]> {
    (offset + bytes.len() as u64 <= super::varint::VARINT_MAX).then_some(bytes)
}

/// Appends an ACK frame for `ranges`, as many of them as `bytes_max` has room for, with `counts` where any
/// packet was marked; false when there is no room for one.
pub fn write_ack(
    ranges: &Ranges,
    counts: &Counts,
    delay: u64,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> bool {
    let mut highest = ranges.iter().rev();
    let Some(first) = highest.next() else { return false };
    let head = 1 + varint_bytes(first.end - 1) + varint_bytes(delay) + 2;
    let head = head + varint_bytes(first.end - first.start - 1);
    let head = head + if counts.is_empty() { 0 } else { counts.bytes() };
    if bytes_max < head {
        return false;
    }
    let (mut left, mut count, mut low) = (bytes_max - head, 0, first.start);
    for range in highest.clone() {
        let (gap, length) = (low - range.end - 1, range.end - range.start - 1);
        let bytes = varint_bytes(gap) + varint_bytes(length);
        if bytes > left {
            break;
        }
        left -= bytes;
        count += 1;
        low = range.start;
    }
    out.push(if counts.is_empty() { 0x02 } else { 0x03 });
    write_varint(first.end - 1, out);
    write_varint(delay, out);
    write_varint(count, out);
    write_varint(first.end - first.start - 1, out);
    let mut low = first.start;
    for range in highest.take(count as usize) {
        write_varint(low - range.end - 1, out);
        write_varint(range.end - range.start - 1, out);
        low = range.start;
    }
    if !counts.is_empty() {
        counts.write(out);
    }
    true
}

/// Appends the head of a CRYPTO frame for `len` bytes.
pub fn write_crypto_head(offset: u64, len: usize, out: &mut Vec<u8>) {
    out.push(0x06);
    write_varint(offset, out);
    write_varint(len as u64, out);
}

/// The most bytes the head of a STREAM frame takes at this place, of at most 16,383 bytes.
pub const fn stream_head_bytes(stream: u64, offset: u64) -> usize {
    1 + varint_bytes(stream) + varint_bytes(offset) + 2
}

/// Appends the head of a STREAM frame for `len` bytes.
pub fn write_stream_head(stream: u64, offset: u64, len: usize, ends: bool, out: &mut Vec<u8>) {
    out.push(0x08 | 4 | 2 | u8::from(ends));
    write_varint(stream, out);
    write_varint(offset, out);
    write_varint(len as u64, out);
}

/// Appends a frame of a type and some numbers.
pub fn write_numbers(kind: u8, numbers: &[u64], out: &mut Vec<u8>) {
    out.push(kind);
    for number in numbers {
        write_varint(*number, out);
    }
}

/// Appends an ACK_FREQUENCY frame.
pub fn write_ack_frequency(sequence: u64, asked: &Frequency, out: &mut Vec<u8>) {
    let delay_micros = asked.delay_max.as_micros() as u64;
    for number in [ACK_FREQUENCY, sequence, asked.threshold, delay_micros, asked.reordering] {
        write_varint(number, out);
    }
}

/// Appends a token for later connections (RFC 9000 §19.7).
pub fn write_new_token(token: &[u8], out: &mut Vec<u8>) {
    out.push(0x07);
    write_varint(token.len() as u64, out);
    out.extend_from_slice(token);
}

/// Appends a NEW_CONNECTION_ID frame that retires nothing.
pub fn write_new_id(sequence: u64, id: &Id, reset_token: &[u8; 16], out: &mut Vec<u8>) {
    write_numbers(0x18, &[sequence, 0], out);
    out.push(id.as_bytes().len() as u8);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(reset_token);
}

/// Appends a CONNECTION_CLOSE frame.
pub fn write_close(is_application: bool, code: u64, reason: &str, out: &mut Vec<u8>) {
    out.push(if is_application { 0x1d } else { 0x1c });
    write_varint(code, out);
    if !is_application {
        write_varint(0, out);
    }
    write_varint(reason.len() as u64, out);
    out.extend_from_slice(reason.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Frame<'_>, Error> {
        Frame::read(&mut Reader::new(bytes))
    }

    proptest! {
        #[test]
        fn what_came_is_told(
            numbers in proptest::collection::btree_set(0..3000_u64, 1..200),
            bytes_max in 0..400_usize,
        ) {
            let mut ranges = Ranges::new();
            for number in &numbers {
                ranges.insert(*number..number + 1);
            }
            let mut out = Vec::new();
            let counts = Counts { ect0: numbers.len() as u64 % 3 * 100, ..Counts::default() };
            if write_ack(&ranges, &counts, 7, bytes_max, &mut out) {
                prop_assert!(out.len() <= bytes_max);
                let Ok(Frame::Ack(ack)) = read(&out) else { panic!("an ACK frame") };
                let told: Vec<u64> = ack.ranges().flat_map(|range| range.rev()).collect();
                // The highest of them, and all where there is room.
                prop_assert!(numbers.iter().rev().take(told.len()).eq(&told));
                prop_assert!(told.len() == numbers.len() || bytes_max < 13 + 4 * ranges.len());
                prop_assert_eq!(ack.counts, Some(counts).filter(|counts| !counts.is_empty()));
            } else {
                prop_assert!(bytes_max < 12);
            }
        }
    }

    #[test]
    fn numbers_below_zero_are_not_acknowledged() {
        for wrong in [&[2, 5, 0, 0, 6][..], &[2, 5, 0, 1, 0, 4, 0], &[2, 5, 0, 1, 0, 3, 1]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        assert!(read(&[2, 5, 0, 1, 0, 3, 0]).is_ok());
    }

    #[test]
    fn what_may_not_be_is_not_read() {
        for wrong in [
            &[0x40, 0x01][..],
            &[0x20],
            &[0x40, 0xaf, 1, 1, 1],
            &[0x07, 0],
            &[0x12, 0xd0, 0, 0, 0, 0, 0, 0, 1],
            &[0x18, 1, 2, 4, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x18, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x0e, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0],
            &[],
        ] {
            assert!(read(wrong).is_err(), "{wrong:x?}");
        }
        assert_eq!(read(&[0, 0, 0]), Ok(Frame::Padding));
    }
}
