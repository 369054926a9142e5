//! Segments: the parts of the log that are written from front to end and freed as one.
//!
//! ```text
//! 0     header block: which segment, the number of its opening
//! 4096  records
//! end   footer, once sealed: an entry for each record, then 64 bytes that say where it begins
//! ```

use super::codec::{Put, Reader, round_up};
use super::geometry::Geometry;
use super::limits::BLOCK_BYTES;
use super::superblock::Uuid;
use freshet_device::block::Block;

const HEADER_MAGIC: u64 = 0x4745_5348_5352_4601;
const FOOTER_MAGIC: u64 = 0x544f_4f46_5352_4601;
/// Bytes of one entry in a footer.
pub(crate) const ENTRY_BYTES: usize = 40;
/// Bytes at the very end of a sealed segment.
pub(crate) const TRAILER_BYTES: usize = 64;

/// What a footer says of one record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    /// The number the index knows it by.
    pub(crate) hash: u64,
    /// The record's place in the order of writing.
    pub(crate) seq: u64,
    /// When its fetch began.
    pub(crate) born: u64,
    /// Offset in the segment, in units.
    pub(crate) units_at: u32,
    /// Length, in units.
    pub(crate) units: u32,
    /// Kind, as in the index.
    pub(crate) kind: u8,
    /// Of which share it is; 0 of none. See [`super::share`].
    pub(crate) share: u64,
}

/// The first block of a segment.
pub(crate) fn header(device: Uuid, segment: u32, seq: u64, stream: u8) -> Block {
    let mut out = Vec::with_capacity(64);
    out.put_u64(HEADER_MAGIC);
    out.put(&device.0);
    out.put_u32(segment);
    out.put_u8(stream);
    out.put_u64(seq);
    let sum = crc32c::crc32c(&out);
    out.put_u32(sum);
    Block::from_bytes(&out)
}

/// The number of the opening a header speaks of, and the stream that was written since.
pub(crate) fn parse_header(bytes: &[u8], device: Uuid, segment: u32) -> Option<(u64, u8)> {
    let mut from = Reader::new(bytes);
    let magic = from.u64()?;
    let id = from.id()?;
    let number = from.u32()?;
    let stream = from.u8()?;
    let seq = from.u64()?;
    let sum = from.u32()?;
    let fits = magic == HEADER_MAGIC
        && id == device.0
        && number == segment
        && sum == crc32c::crc32c(bytes.get(..37)?);
    fits.then_some((seq, stream))
}

/// Bytes a footer of so many entries takes, whole blocks.
pub(crate) fn footer_bytes(entries: usize) -> u64 {
    round_up((entries * ENTRY_BYTES + TRAILER_BYTES) as u64, BLOCK_BYTES)
}

/// The footer of a segment; it ends where the segment does.
pub(crate) fn footer(entries: &[Entry], seq: u64) -> Block {
    let len = footer_bytes(entries.len()) as usize;
    let mut out = Vec::with_capacity(len);
    for entry in entries {
        out.put_u64(entry.hash);
        out.put_u64(entry.seq);
        out.put_u64(entry.born);
        out.put_u32(entry.units_at);
        out.put_u32(entry.units);
        out.put_u64(u64::from(entry.kind) | entry.share << 8);
    }
    out.resize(len - TRAILER_BYTES, 0);
    let sum = crc32c::crc32c(&out);
    let trailer = out.len();
    out.put_u64(FOOTER_MAGIC);
    out.put_u64(seq);
    out.put_u32(entries.len() as u32);
    out.put_u32(sum);
    let trailer_sum = crc32c::crc32c(&out[trailer..]);
    out.put_u32(trailer_sum);
    Block::from_bytes(&out)
}

/// Entries a trailer announces, if it is one of this opening.
pub(crate) fn parse_trailer(trailer: &[u8], seq: u64, geometry: &Geometry) -> Option<usize> {
    let mut from = Reader::new(trailer);
    let magic = from.u64()?;
    let found = from.u64()?;
    let entries = from.u32()? as usize;
    from.u32()?;
    let sum = from.u32()?;
    let fits = magic == FOOTER_MAGIC
        && found == seq
        && footer_bytes(entries) < geometry.segment_bytes
        && sum == crc32c::crc32c(trailer.get(..24)?);
    fits.then_some(entries)
}

/// The entries of a footer, `bytes` being all of it.
pub(crate) fn parse_footer(bytes: &[u8], seq: u64, geometry: &Geometry) -> Option<Vec<Entry>> {
    let at = bytes.len().checked_sub(TRAILER_BYTES)?;
    let (data, trailer) = bytes.split_at_checked(at)?;
    let count = parse_trailer(trailer, seq, geometry)?;
    let mut sum = Reader::new(trailer.get(20..)?);
    if footer_bytes(count) != bytes.len() as u64 || sum.u32()? != crc32c::crc32c(data) {
        return None;
    }
    let mut from = Reader::new(data);
    let units_max = geometry.segment_bytes / u64::from(geometry.unit_bytes);
    // They lie one behind the other, as they were written.
    let mut last = 0;
    (0..count)
        .map(|_| {
            let (hash, seq, born) = (from.u64()?, from.u64()?, from.u64()?);
            let (units_at, units, word) = (from.u32()?, from.u32()?, from.u64()?);
            let (kind, share) = (word as u8, word >> 8);
            let entry = Entry { hash, seq, born, units_at, units, kind, share };
            let start = std::mem::replace(&mut last, u64::from(units_at) + u64::from(units));
            (start <= u64::from(units_at) && last <= units_max && units > 0).then_some(entry)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::FormatOptions;

    #[test]
    fn footers_are_read_as_written_and_only_for_their_opening() {
        let geometry = Geometry::plan(64 << 20, FormatOptions::default()).expect("64 MiB will do");
        let entry = |at| Entry {
            hash: at,
            seq: at + 1,
            born: at + 2,
            units_at: 8 + at as u32,
            units: 1,
            kind: 2,
            share: at << 40,
        };
        for count in [0, 1, 100, 101, 1000] {
            let entries: Vec<Entry> = (0..count).map(entry).collect();
            let mut bytes = footer(&entries, 77).to_vec();
            assert_eq!(bytes.len() as u64, footer_bytes(entries.len()));
            assert_eq!(parse_footer(&bytes, 77, &geometry), Some(entries));
            assert_eq!(parse_footer(&bytes, 78, &geometry), None);
            let last = bytes.len() - TRAILER_BYTES - 1;
            bytes[last] ^= 1;
            assert_eq!(parse_footer(&bytes, 77, &geometry), None);
        }
    }

    #[test]
    fn headers_are_of_one_device_and_place() {
        let device = Uuid::random();
        let block = header(device, 5, 99, 1);
        assert_eq!(parse_header(&block, device, 5), Some((99, 1)));
        assert_eq!(parse_header(&block, device, 6), None);
        assert_eq!(parse_header(&block, Uuid::random(), 5), None);
    }
}
