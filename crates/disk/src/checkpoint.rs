//! Checkpoints: index, segments, marks and notes as they were at one moment.
//!
//! There are two places, used in turn. The header block is written last, after all else is durable,
//! so a checkpoint is whole or the one before is still there. It is written a part of 1 MiB at a time,
//! between other writes, so that none of these waits for all of it.

use super::budget::Account;
use super::codec::{Put, Reader, round_up};
use super::erasure::{PROGRESS_BYTES_MAX, Progress};
use super::geometry::{CHECKPOINT_PART_BYTES, Geometry, MARK_BYTES, SEGMENT_ENTRY_BYTES};
use super::index::{Index, LINE_SLOTS};
use super::limits::{BLOCK_BYTES, JOURNAL_NUMBER_MAX, NUMBER_MAX};
use super::notes::{self, Note};
use super::purges::{Floors, Mark, Soft, Target};
use super::superblock::Uuid;
use super::table::SegmentTable;
use crate::error::DiskError;
use freshet_device::Device;
use freshet_device::block::Block;
use std::ops::Range;

const MAGIC: u64 = 0x5450_4b43_5352_4602;
/// Of a header that says nothing of notes: there were none before version 3 of the format.
const MAGIC_WITHOUT_NOTES: u64 = 0x5450_4b43_5352_4601;
/// An account without its checksum.
const ACCOUNT_BYTES: usize = 32;
/// What is before the account of an erasure: its number and its length.
const ERASURE_HEAD_BYTES: usize = 12;
const LINE_BYTES: u64 = LINE_SLOTS as u64 * 8;
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
        self.all().into_iter().sum()
    }

    fn all(&self) -> [u64; 4] {
        [self.admitted_bytes, self.reinserted_bytes, self.padding_bytes, self.metadata_bytes]
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
    /// Lines of the index.
    pub(crate) lines: u64,
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

pub(super) fn encode(header: &Header, device: Uuid) -> Block {
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
        let is_whole = from.u32()? == crc32c::crc32c(bytes.get(..ACCOUNT_BYTES)?);
        (is_whole && account.written_bytes <= NUMBER_MAX).then_some(account)
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

pub(super) fn parse(bytes: &[u8], device: Uuid, geometry: &Geometry) -> Option<Header> {
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
    let fits = from.u32()? == crc32c::crc32c(summed)
        && header.journal <= JOURNAL_NUMBER_MAX
        && header.written.all().into_iter().all(|bytes| bytes <= NUMBER_MAX)
        && u64::from(header.marks) * MARK_BYTES + u64::from(header.notes_bytes)
            <= geometry.marks_bytes()
        && u64::from(header.parts) == data_bytes(geometry, &header).div_ceil(PART as u64);
    if !fits {
        return None;
    }
    // What follows from its numbers does so where they are some.
    header.account = parse_account(rest.get(4..)?, &header.written);
    header.erasure = parse_erasure(rest.get(4 + ACCOUNT_BYTES + 4..)?);
    Some(header)
}

fn data_bytes(geometry: &Geometry, header: &Header) -> u64 {
    header.lines * LINE_BYTES
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
    out.put_u32(Soft::word(mark.soft));
    out.put_u64(id);
    out.put_u64(mark.seq);
    out.put_u64(mark.soft.map_or(0, |soft| soft.from_ms));
    out.put_u64(0);
}

fn parse_mark(bytes: &[u8]) -> Option<Mark> {
    let mut from = Reader::new(bytes);
    let (kind, word, id, seq, at) =
        (from.u32()?, from.u32()?, from.u64()?, from.u64()?, from.u64()?);
    let target = match kind {
        0 => Target::Key(id),
        1 => Target::Tag(id),
        2 => Target::All,
        _ => return None,
    };
    Some(Mark { target, seq, soft: Soft::from_word(word, at) })
}

/// A checkpoint on its way to one of the two places, a write at a time.
#[derive(Debug)]
pub(crate) struct Writing {
    place: usize,
    header: Header,
    /// What comes after the index.
    rest: Vec<u8>,
    sums: Vec<u8>,
    stage: Stage,
    written_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The old header would speak of data that is about to go.
    Forget,
    /// The part that begins here.
    Part(u64),
    Sums,
    Header,
}

impl Writing {
    /// Of an index of so many lines. Nothing is written yet.
    pub(crate) fn new(
        geometry: &Geometry,
        place: usize,
        mut header: Header,
        Content { lines, table, marks, notes }: Content<'_>,
    ) -> Self {
        let notes_bytes = notes::stored_bytes(notes);
        let marks = marks.get(marks.len().saturating_sub(marks_max(geometry, notes_bytes))..);
        let marks = marks.unwrap_or(&[]);
        header.lines = lines;
        header.marks = marks.len() as u32;
        header.notes_bytes = notes_bytes as u32;
        header.parts = data_bytes(geometry, &header).div_ceil(PART as u64) as u32;
        let mut rest = Vec::new();
        table.write(&mut rest);
        marks.iter().for_each(|mark| write_mark(mark, &mut rest));
        notes::write(notes, &mut rest);
        let stage = Stage::Forget;
        Self { place, header, rest, sums: Vec::new(), stage, written_bytes: 2 * BLOCK_BYTES }
    }

    /// The place it goes to.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// The first block of the journal with events it does not know.
    pub(crate) fn journal(&self) -> u64 {
        self.header.journal
    }

    /// Bytes of the index, which are taken in their order.
    fn index_bytes(&self) -> u64 {
        self.header.lines * LINE_BYTES
    }

    /// Does the next write, of a part at most, with lines of the index that `take` puts at the end of a
    /// buffer; the bytes of all where it was the last.
    ///
    /// # Errors
    /// The device failed; the other checkpoint is as it was.
    pub(crate) fn step(
        &mut self,
        device: &dyn Device,
        id: Uuid,
        geometry: &Geometry,
        mut take: impl FnMut(Range<u64>, &mut Vec<u8>),
    ) -> Result<Option<u64>, DiskError> {
        let at = geometry.checkpoint_at[self.place % 2];
        let data_at = at + BLOCK_BYTES;
        let len = data_bytes(geometry, &self.header);
        self.stage = match self.stage {
            Stage::Forget => {
                device.write(at, Block::new(BLOCK_BYTES as usize))?;
                device.flush()?;
                Stage::Part(0)
            }
            Stage::Part(start) => {
                let end = len.min(start + PART as u64);
                let index_end = self.index_bytes();
                let mut bytes = Vec::with_capacity(PART);
                if start < index_end {
                    take(start / LINE_BYTES..end.min(index_end) / LINE_BYTES, &mut bytes);
                }
                let rest = start.max(index_end) - index_end..end.max(index_end) - index_end;
                let rest = self.rest.get(rest.start as usize..rest.end as usize);
                bytes.extend_from_slice(rest.unwrap_or_default());
                let block = Block::from_bytes(&bytes);
                self.sums.put_u32(crc32c::crc32c(&block));
                self.written_bytes += block.len() as u64;
                device.write(data_at + start, block)?;
                if end < len { Stage::Part(end) } else { Stage::Sums }
            }
            Stage::Sums => {
                self.header.parts_sum = crc32c::crc32c(&self.sums);
                let sums = Block::from_bytes(&self.sums);
                self.written_bytes += sums.len() as u64;
                device.write(data_at + round_up(len, BLOCK_BYTES), sums)?;
                device.flush()?;
                Stage::Header
            }
            Stage::Header => {
                self.header.written.metadata_bytes += self.written_bytes;
                device.write(at, encode(&self.header, id))?;
                device.flush()?;
                return Ok(Some(self.written_bytes));
            }
        };
        Ok(None)
    }
}

/// Writes the checkpoint of an empty index.
///
/// # Errors
/// The device failed.
pub(crate) fn write_empty(
    device: &dyn Device,
    id: Uuid,
    geometry: &Geometry,
    header: Header,
    table: &SegmentTable,
) -> Result<(), DiskError> {
    let content = Content { lines: geometry.lines, table, marks: &[], notes: &[] };
    let mut writing = Writing::new(geometry, 0, header, content);
    let empty = |lines: Range<u64>, bytes: &mut Vec<u8>| {
        bytes.resize(bytes.len() + ((lines.end - lines.start) * LINE_BYTES) as usize, 0);
    };
    while writing.step(device, id, geometry, empty)?.is_none() {}
    Ok(())
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
    let index_bytes = header.lines * LINE_BYTES;
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
