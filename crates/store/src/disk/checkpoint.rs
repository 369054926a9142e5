//! Checkpoints: index, segments, marks and notes as they were at one moment.
//!
//! There are two places, used in turn. The header block is written last, after all else is durable,
//! so a checkpoint is whole or the one before is still there.

use super::block::Block;
use super::budget::Account;
use super::codec::{Put, Reader, round_up};
use super::device::Device;
use super::erase::{PROGRESS_BYTES_MAX, Progress};
use super::geometry::{CHECKPOINT_PART_BYTES, Geometry, MARK_BYTES, SEGMENT_ENTRY_BYTES};
use super::index::Index;
use super::limits::BLOCK_BYTES;
use super::notes::{self, Note};
use super::purges::{Floors, Mark, Target};
use super::superblock::Uuid;
use super::table::SegmentTable;
use crate::error::DiskError;

const MAGIC: u64 = 0x5450_4b43_5352_4602;
/// Of a header that says nothing of notes: there were none before version 3 of the format.
const MAGIC_WITHOUT_NOTES: u64 = 0x5450_4b43_5352_4601;
/// An account without its checksum.
const ACCOUNT_BYTES: usize = 32;
/// What is before the account of an erasure: its number and its length.
const ERASURE_HEAD_BYTES: usize = 12;
const PART: usize = CHECKPOINT_PART_BYTES as usize;

/// Bytes written to a device since it was formatted, by cause.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Written {
    /// Records of objects that were admitted.
    pub admitted_bytes: u64,
    /// Records that were written again because they were used.
    pub reinserted_bytes: u64,
    /// What fills up blocks.
    pub padding_bytes: u64,
    /// Headers and footers of segments, journal, checkpoints.
    pub metadata_bytes: u64,
}

impl Written {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.admitted_bytes + self.reinserted_bytes + self.padding_bytes + self.metadata_bytes
    }
}

/// What a checkpoint says besides index and tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Header {
    /// Lines of the index.
    pub(crate) lines: u64,
    /// Records with this number or a higher one may not be in it.
    pub(crate) seq: u64,
    /// The first block of the journal with events it does not know.
    pub(crate) journal: u64,
    pub(crate) floors: Floors,
    pub(crate) written: Written,
    /// When the device was formatted, Unix milliseconds.
    pub(crate) formatted_ms: u64,
    /// Whether the store was stopped in order after it.
    pub(crate) is_clean: bool,
    pub(crate) marks: u32,
    pub(crate) parts: u32,
    pub(crate) parts_sum: u32,
    pub(crate) notes_bytes: u32,
    /// What its write budget remembers.
    pub(crate) account: Account,
    /// How far its last erasure is.
    pub(crate) erasure: Option<Progress>,
}

/// What a checkpoint is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    pub(crate) index: &'a Index,
    pub(crate) table: &'a SegmentTable,
    /// Oldest first. The oldest are left out where there is no room.
    pub(crate) marks: &'a [Mark],
    /// At most [`Geometry::notes_bytes_max`].
    pub(crate) notes: &'a [Note],
}

/// A checkpoint that was read.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) header: Header,
    pub(crate) index: Index,
    pub(crate) table: SegmentTable,
    pub(crate) marks: Vec<Mark>,
    pub(crate) notes: Vec<Note>,
    /// Which of the two places it is in.
    pub(crate) place: usize,
}

fn encode(header: &Header, device: Uuid) -> Block {
    let mut out = Vec::with_capacity(BLOCK_BYTES as usize);
    out.put_u64(MAGIC);
    out.put(&device.0);
    out.put_u64(header.lines);
    out.put_u64(header.seq);
    out.put_u64(header.journal);
    out.put_u64(header.floors.any);
    out.put_u64(header.floors.looked_up);
    out.put_u64(header.written.admitted_bytes);
    out.put_u64(header.written.reinserted_bytes);
    out.put_u64(header.written.padding_bytes);
    out.put_u64(header.written.metadata_bytes);
    out.put_u64(header.formatted_ms);
    out.put_u32(header.is_clean.into());
    out.put_u32(header.marks);
    out.put_u32(header.parts);
    out.put_u32(header.parts_sum);
    out.put_u32(header.notes_bytes);
    let sum = crc32c::crc32c(&out);
    out.put_u32(sum);
    let account_at = out.len();
    out.put_u64(header.account.filled_bytes as u64);
    out.put_u64(header.account.daily_bytes as u64);
    out.put_u64(header.account.at_ms);
    out.put_u64(header.account.written_bytes);
    let sum = crc32c::crc32c(out.get(account_at..).unwrap_or_default());
    out.put_u32(sum);
    if let Some(progress) = &header.erasure {
        let erasure_at = out.len();
        let bytes = progress.encode();
        out.put_u64(progress.since);
        out.put_u32(bytes.len() as u32);
        out.put(&bytes);
        let sum = crc32c::crc32c(out.get(erasure_at..).unwrap_or_default());
        out.put_u32(sum);
    }
    Block::from_bytes(&out)
}

/// The account after a header; programs from before there was one left zeroes there.
fn parse_account(bytes: &[u8], written: &Written) -> Account {
    let mut from = Reader::new(bytes);
    let mut read = || {
        let account = Account {
            filled_bytes: from.u64()? as f64,
            daily_bytes: from.u64()? as f64,
            at_ms: from.u64()?,
            written_bytes: from.u64()?,
        };
        (from.u32()? == crc32c::crc32c(bytes.get(..ACCOUNT_BYTES)?)).then_some(account)
    };
    read().unwrap_or_else(|| Account { written_bytes: written.total(), ..Account::default() })
}

/// The erasure after an account; where there was none, there are zeroes.
fn parse_erasure(bytes: &[u8]) -> Option<Progress> {
    let mut from = Reader::new(bytes);
    let (since, len) = (from.u64()?, from.u32()? as usize);
    let told = from.bytes(len).filter(|_| since > 0 && len <= PROGRESS_BYTES_MAX)?;
    let is_whole = from.u32()? == crc32c::crc32c(bytes.get(..ERASURE_HEAD_BYTES + len)?);
    is_whole.then(|| Progress::parse(since, told)).flatten()
}

fn parse(bytes: &[u8], device: Uuid, geometry: &Geometry) -> Option<Header> {
    let mut from = Reader::new(bytes);
    let has_notes = match from.u64()? {
        MAGIC => true,
        MAGIC_WITHOUT_NOTES => false,
        _ => return None,
    };
    if from.id()? != device.0 {
        return None;
    }
    let lines =
        from.u64().filter(|lines| (geometry.lines..=geometry.lines_max()).contains(lines))?;
    let mut header = Header {
        lines,
        seq: from.u64()?,
        journal: from.u64()?,
        floors: Floors { any: from.u64()?, looked_up: from.u64()? },
        written: Written {
            admitted_bytes: from.u64()?,
            reinserted_bytes: from.u64()?,
            padding_bytes: from.u64()?,
            metadata_bytes: from.u64()?,
        },
        formatted_ms: from.u64()?,
        is_clean: from.u32()? == 1,
        marks: from.u32()?,
        parts: from.u32()?,
        parts_sum: from.u32()?,
        notes_bytes: if has_notes { from.u32()? } else { 0 },
        account: Account::default(),
        erasure: None,
    };
    let (summed, rest) = bytes.split_at_checked(if has_notes { 124 } else { 120 })?;
    header.account = parse_account(rest.get(4..)?, &header.written);
    header.erasure = parse_erasure(rest.get(4 + ACCOUNT_BYTES + 4..)?);
    let fits = from.u32()? == crc32c::crc32c(summed)
        && u64::from(header.marks) * MARK_BYTES + u64::from(header.notes_bytes)
            <= geometry.marks_bytes()
        && u64::from(header.parts) == data_bytes(geometry, &header).div_ceil(PART as u64);
    fits.then_some(header)
}

fn data_bytes(geometry: &Geometry, header: &Header) -> u64 {
    header.lines * 64
        + u64::from(geometry.segments) * SEGMENT_ENTRY_BYTES
        + u64::from(header.marks) * MARK_BYTES
        + u64::from(header.notes_bytes)
}

/// How many marks there is room for beside notes of so many bytes.
pub(crate) fn marks_max(geometry: &Geometry, notes_bytes: u64) -> usize {
    (geometry.marks_bytes().saturating_sub(notes_bytes) / MARK_BYTES) as usize
}

fn write_mark(mark: &Mark, out: &mut Vec<u8>) {
    let (kind, id) = match mark.target {
        Target::Key(key) => (0, key),
        Target::Tag(tag) => (1, tag),
        Target::All => (2, 0),
    };
    out.put_u32(kind);
    out.put_u32(mark.soft_ms.is_some().into());
    out.put_u64(id);
    out.put_u64(mark.seq);
    out.put_u64(mark.soft_ms.unwrap_or(0));
    out.put_u64(0);
}

fn parse_mark(bytes: &[u8]) -> Option<Mark> {
    let mut from = Reader::new(bytes);
    let (kind, soft, id, seq, at) =
        (from.u32()?, from.u32()?, from.u64()?, from.u64()?, from.u64()?);
    let target = match kind {
        0 => Target::Key(id),
        1 => Target::Tag(id),
        2 => Target::All,
        _ => return None,
    };
    Some(Mark { target, seq, soft_ms: (soft == 1).then_some(at) })
}

/// Writes a checkpoint to one of the two places; returns the bytes written. The index may lose
/// entries meanwhile (which the journal knows), but not gain any.
///
/// # Errors
/// The device failed; the other checkpoint is as it was.
pub(crate) fn write(
    device: &dyn Device,
    id: Uuid,
    geometry: &Geometry,
    place: usize,
    mut header: Header,
    Content { index, table, marks, notes }: Content<'_>,
) -> Result<u64, DiskError> {
    let at = geometry.checkpoint_at[place % 2];
    let notes_bytes = notes::stored_bytes(notes);
    let marks = marks.get(marks.len().saturating_sub(marks_max(geometry, notes_bytes))..);
    let marks = marks.unwrap_or(&[]);
    header.lines = index.lines();
    header.marks = marks.len() as u32;
    header.notes_bytes = notes_bytes as u32;
    header.parts = data_bytes(geometry, &header).div_ceil(PART as u64) as u32;
    // The old header would speak of data that is about to go.
    device.write(at, Block::new(BLOCK_BYTES as usize))?;
    device.flush()?;
    let mut rest = Vec::new();
    table.write(&mut rest);
    marks.iter().for_each(|mark| write_mark(mark, &mut rest));
    notes::write(notes, &mut rest);
    let mut bytes = index.words().flat_map(u64::to_le_bytes).chain(rest);
    let mut sums = Vec::new();
    let mut written = 2 * BLOCK_BYTES;
    let mut offset = at + BLOCK_BYTES;
    let len = data_bytes(geometry, &header);
    for start in (0..len).step_by(PART) {
        let part = (len - start).min(PART as u64) as usize;
        let mut block = Block::new(part);
        block.iter_mut().zip(bytes.by_ref().take(part)).for_each(|(to, from)| *to = from);
        sums.put_u32(crc32c::crc32c(&block));
        written += block.len() as u64;
        let block_bytes = block.len() as u64;
        device.write(offset, block)?;
        offset += block_bytes;
    }
    header.parts_sum = crc32c::crc32c(&sums);
    let sums = Block::from_bytes(&sums);
    written += sums.len() as u64;
    device.write(offset, sums)?;
    device.flush()?;
    header.written.metadata_bytes += written;
    device.write(at, encode(&header, id))?;
    device.flush()?;
    Ok(written)
}

/// The header in a place, if there is one.
pub(crate) fn header(
    device: &dyn Device,
    id: Uuid,
    geometry: &Geometry,
    place: usize,
) -> Option<Header> {
    let block = device.read(geometry.checkpoint_at[place % 2], BLOCK_BYTES as usize).ok()?;
    parse(&block, id, geometry)
}

/// Reads the checkpoint in a place; `None` where it is damaged.
///
/// # Errors
/// No memory for the index.
pub(crate) fn load(
    device: &dyn Device,
    geometry: &Geometry,
    place: usize,
    header: Header,
) -> Result<Option<Loaded>, DiskError> {
    let index = Index::new(header.lines)?;
    let data_at = geometry.checkpoint_at[place % 2] + BLOCK_BYTES;
    let len = data_bytes(geometry, &header);
    let last_part = len - (u64::from(header.parts) - 1) * PART as u64;
    let sums_at =
        data_at + (u64::from(header.parts) - 1) * PART as u64 + round_up(last_part, BLOCK_BYTES);
    let sums_bytes = header.parts as usize * 4;
    let Ok(sums) = device.read(sums_at, round_up(sums_bytes as u64, BLOCK_BYTES) as usize) else {
        return Ok(None);
    };
    let Some(sums) = sums.get(..sums_bytes) else { return Ok(None) };
    if crc32c::crc32c(sums) != header.parts_sum {
        return Ok(None);
    }
    let index_bytes = header.lines * 64;
    let mut rest = Vec::new();
    for (at, sum) in sums.chunks(4).enumerate() {
        let start = (at * PART) as u64;
        let part = (len - start).min(PART as u64);
        let Ok(block) = device.read(data_at + start, round_up(part, BLOCK_BYTES) as usize) else {
            return Ok(None);
        };
        if Reader::new(sum).u32() != Some(crc32c::crc32c(&block)) {
            return Ok(None);
        }
        let bytes = block.get(..part as usize).unwrap_or(&[]);
        let of_index = index_bytes.saturating_sub(start).min(part) as usize;
        let (words, more) = bytes.split_at(of_index);
        let words = words.chunks_exact(8).filter_map(|word| Reader::new(word).u64());
        index.load((start / 8) as usize, words);
        rest.extend_from_slice(more);
    }
    let table_bytes = (u64::from(geometry.segments) * SEGMENT_ENTRY_BYTES) as usize;
    let marks_bytes = header.marks as usize * MARK_BYTES as usize;
    let Some((table, rest)) = rest.split_at_checked(table_bytes) else { return Ok(None) };
    let Some((marks, notes)) = rest.split_at_checked(marks_bytes) else { return Ok(None) };
    let Some(table) = SegmentTable::parse(table, geometry) else { return Ok(None) };
    let marks: Option<Vec<Mark>> =
        marks.chunks_exact(MARK_BYTES as usize).map(parse_mark).collect();
    let (Some(marks), Some(notes)) = (marks, notes::parse(notes)) else { return Ok(None) };
    Ok(Some(Loaded { header, index, table, marks, notes, place }))
}
