//! Where things are on a device.
//!
//! ```text
//! 0          superblock (one block)
//! 1 MiB      journal, a ring of blocks
//!            checkpoint 0, checkpoint 1: one block of header, then index, segments, marks, notes, sums
//!            segments
//! end - 4 KiB  superblock again
//! ```
//! On small devices the first MiB shrinks to one block.

use super::codec::{Put, Reader, round_up};
use super::index::LINE_SLOTS;
use super::limits::{
    BLOCK_BYTES, CHECK_BYTES, DEVICE_BYTES_MAX, DEVICE_BYTES_MIN, INDEX_LOAD, INDEX_OBJECT_BYTES,
    JOURNAL_BYTES_MAX, MARKS_MAX, OBJECT_BYTES_DEFAULT, RECORD_BYTES_MAX, RECORD_BYTES_MIN,
    SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENTS_WANTED,
};
use crate::error::DiskError;

/// Bytes of one segment in the table of a checkpoint.
pub(crate) const SEGMENT_ENTRY_BYTES: u64 = 32;
/// Bytes of one mark of a purge in a checkpoint.
pub(crate) const MARK_BYTES: u64 = 40;
/// Bytes of a checkpoint under one checksum, and moved at once.
pub(crate) const CHECKPOINT_PART_BYTES: u64 = 1 << 20;

/// What a device is formatted for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FormatOptions {
    /// Mean length of what is stored, in bytes; decides the size of the index. An object longer
    /// than [`RECORD_BYTES_MAX`] counts as several of that length.
    pub object_bytes: Option<u64>,
    /// Length of a segment, a power of two.
    pub segment_bytes: Option<u64>,
    /// The longest record, a power of two, for tests with small devices.
    pub record_bytes_max: Option<u32>,
    /// Bytes under one checksum, a power of two.
    pub check_bytes: Option<u32>,
}

/// The places of everything on one device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Geometry {
    /// Length of the device when it was formatted.
    pub device_bytes: u64,
    /// Unit of addresses and of the lengths of short records.
    pub unit_bytes: u32,
    /// Length of a segment.
    pub segment_bytes: u64,
    /// Segments.
    pub segments: u32,
    /// The most payload of a record, and the longest chunk with what describes it.
    pub record_bytes_max: u32,
    /// Bytes under one checksum.
    pub check_bytes: u32,
    /// Where the journal is.
    pub journal_at: u64,
    /// Its length.
    pub journal_bytes: u64,
    /// Where the two checkpoints are.
    pub checkpoint_at: [u64; 2],
    /// The room of each.
    pub checkpoint_bytes: u64,
    /// Lines of the index when it is formatted.
    pub lines: u64,
    /// Marks of purges a checkpoint has room for.
    pub marks_max: u32,
    /// Where the first segment is.
    pub segments_at: u64,
}

impl Geometry {
    /// Divides a device.
    ///
    /// # Errors
    /// It is too small or too large, or an option does not fit it.
    pub fn plan(device_bytes: u64, options: FormatOptions) -> Result<Self, DiskError> {
        let device_bytes = device_bytes & !(BLOCK_BYTES - 1);
        if !(DEVICE_BYTES_MIN..=DEVICE_BYTES_MAX).contains(&device_bytes) {
            return Err(DiskError::ConfigDeviceBytes { bytes: device_bytes });
        }
        let unit_bytes = (512u32..=4096)
            .step_by(512)
            .filter(|unit| unit.is_power_of_two())
            .find(|unit| device_bytes / u64::from(*unit) < 1 << 34)
            .unwrap_or(4096);
        let segment_bytes = options.segment_bytes.unwrap_or_else(|| {
            // Four of the longest records at least, as long as there are sixteen segments.
            let longest = 4 * u64::from(options.record_bytes_max.unwrap_or(RECORD_BYTES_MAX));
            (device_bytes / SEGMENTS_WANTED)
                .max(longest.min(device_bytes / 16))
                .next_power_of_two()
                .clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
        });
        let record_bytes_max = options.record_bytes_max.unwrap_or(RECORD_BYTES_MAX);
        let record_bytes_max =
            record_bytes_max.min(u32::try_from(segment_bytes / 4).unwrap_or(u32::MAX));
        let check_bytes = options.check_bytes.unwrap_or(CHECK_BYTES);
        let powers = [segment_bytes, record_bytes_max.into(), check_bytes.into()];
        if !powers.iter().all(|bytes| bytes.is_power_of_two() && *bytes >= BLOCK_BYTES)
            || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
            || !(RECORD_BYTES_MIN..=RECORD_BYTES_MAX).contains(&record_bytes_max)
        {
            return Err(DiskError::ConfigGeometry);
        }
        let object_bytes = options.object_bytes.unwrap_or(OBJECT_BYTES_DEFAULT);
        let record_bytes = object_bytes.clamp(u64::from(unit_bytes), record_bytes_max.into());
        let slots = (device_bytes / record_bytes) as f64 / INDEX_LOAD;
        let lines = (slots / LINE_SLOTS as f64).ceil().max(8.0) as u64;
        let journal_bytes =
            round_up((device_bytes / 256).clamp(32 * BLOCK_BYTES, JOURNAL_BYTES_MAX), BLOCK_BYTES);
        let marks_max =
            u32::try_from(device_bytes / (16 << 10)).unwrap_or(MARKS_MAX).min(MARKS_MAX);
        let lead = if device_bytes < 1 << 30 { BLOCK_BYTES } else { 1 << 20 };
        let mut planned = Self {
            device_bytes,
            unit_bytes,
            segment_bytes,
            segments: 0,
            record_bytes_max,
            check_bytes,
            journal_at: lead,
            journal_bytes,
            checkpoint_at: [0; 2],
            checkpoint_bytes: 0,
            lines,
            marks_max,
            segments_at: 0,
        };
        let segments_most = device_bytes / segment_bytes;
        // Where objects are shorter than was said, the index grows into this.
        let least = options.object_bytes.unwrap_or(OBJECT_BYTES_DEFAULT).min(INDEX_OBJECT_BYTES);
        let slots_most = (device_bytes / least.max(1)) as f64 / INDEX_LOAD;
        let lines_most = lines.max((slots_most / LINE_SLOTS as f64).ceil() as u64);
        let data = lines_most * 64
            + segments_most * SEGMENT_ENTRY_BYTES
            + u64::from(marks_max) * MARK_BYTES;
        let sums = (data / CHECKPOINT_PART_BYTES + 2) * 4;
        planned.checkpoint_bytes = round_up(data + sums, BLOCK_BYTES) + 2 * BLOCK_BYTES;
        let first = round_up(lead + journal_bytes, BLOCK_BYTES);
        planned.checkpoint_at = [first, first + planned.checkpoint_bytes];
        planned.segments_at = round_up(first + 2 * planned.checkpoint_bytes, lead.max(BLOCK_BYTES));
        let room = device_bytes.saturating_sub(BLOCK_BYTES + planned.segments_at);
        planned.segments = u32::try_from(room / segment_bytes).unwrap_or(u32::MAX);
        if planned.segments < 4 {
            return Err(DiskError::ConfigGeometry);
        }
        Ok(planned)
    }

    /// The most lines of an index that a checkpoint has room for.
    pub fn lines_max(&self) -> u64 {
        let others = u64::from(self.segments) * SEGMENT_ENTRY_BYTES + self.marks_bytes();
        // The header, the end of the data and that of its checksums fill a block each at most.
        let room = self.checkpoint_bytes.saturating_sub(3 * BLOCK_BYTES + others);
        let sums = room / CHECKPOINT_PART_BYTES * 4 + 8;
        (room.saturating_sub(sums) / 64).max(self.lines)
    }

    /// Where a segment begins.
    pub fn segment_at(&self, segment: u32) -> u64 {
        self.segments_at + u64::from(segment) * self.segment_bytes
    }

    /// The segment a place is in, if it is in one.
    pub fn segment_of(&self, offset: u64) -> Option<u32> {
        let at = offset.checked_sub(self.segments_at)? / self.segment_bytes;
        u32::try_from(at).ok().filter(|at| *at < self.segments)
    }

    /// Blocks of the journal.
    pub fn journal_blocks(&self) -> u64 {
        self.journal_bytes / BLOCK_BYTES
    }

    /// Bytes for marks and notes in a checkpoint.
    pub(crate) fn marks_bytes(&self) -> u64 {
        u64::from(self.marks_max) * MARK_BYTES
    }

    /// Bytes for notes in a checkpoint, if there are that many: the marks' room is for all, and
    /// half of it stays theirs.
    pub(crate) fn notes_bytes_max(&self) -> u64 {
        self.marks_bytes() / 2
    }

    /// Where the second superblock is.
    pub fn last_block_at(&self) -> u64 {
        self.device_bytes - BLOCK_BYTES
    }

    /// Bytes for content, records' heads included.
    pub fn log_bytes(&self) -> u64 {
        u64::from(self.segments) * self.segment_bytes
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(self.device_bytes);
        out.put_u32(self.unit_bytes);
        out.put_u64(self.segment_bytes);
        out.put_u32(self.segments);
        out.put_u32(self.record_bytes_max);
        out.put_u32(self.check_bytes);
        out.put_u64(self.journal_at);
        out.put_u64(self.journal_bytes);
        out.put_u64(self.checkpoint_at[0]);
        out.put_u64(self.checkpoint_at[1]);
        out.put_u64(self.checkpoint_bytes);
        out.put_u64(self.lines);
        out.put_u32(self.marks_max);
        out.put_u64(self.segments_at);
    }

    /// Reads what [`Geometry::write`] wrote; `None` where it makes no sense.
    pub(crate) fn parse(from: &mut Reader<'_>) -> Option<Self> {
        let read = Self {
            device_bytes: from.u64()?,
            unit_bytes: from.u32()?,
            segment_bytes: from.u64()?,
            segments: from.u32()?,
            record_bytes_max: from.u32()?,
            check_bytes: from.u32()?,
            journal_at: from.u64()?,
            journal_bytes: from.u64()?,
            checkpoint_at: [from.u64()?, from.u64()?],
            checkpoint_bytes: from.u64()?,
            lines: from.u64()?,
            marks_max: from.u32()?,
            segments_at: from.u64()?,
        };
        let powers = [
            read.unit_bytes.into(),
            read.segment_bytes,
            read.record_bytes_max.into(),
            read.check_bytes.into(),
        ];
        let [first, second] = read.checkpoint_at;
        let places = [read.journal_at, first, second, read.segments_at, read.device_bytes];
        let log_bytes = u64::from(read.segments).checked_mul(read.segment_bytes)?;
        let ends = [
            BLOCK_BYTES,
            read.journal_at.checked_add(read.journal_bytes)?,
            first.checked_add(read.checkpoint_bytes)?,
            second.checked_add(read.checkpoint_bytes)?,
            read.segments_at.checked_add(log_bytes)?.checked_add(BLOCK_BYTES)?,
        ];
        let tables = u64::from(read.segments) * SEGMENT_ENTRY_BYTES + read.marks_bytes();
        let data = read.lines.checked_mul(64)?.checked_add(tables)?;
        let holds = powers.iter().all(|bytes| bytes.is_power_of_two())
            && (512..=4096).contains(&read.unit_bytes)
            && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&read.segment_bytes)
            && (RECORD_BYTES_MIN..=RECORD_BYTES_MAX).contains(&read.record_bytes_max)
            && u64::from(read.record_bytes_max) <= read.segment_bytes / 4
            && u64::from(read.check_bytes) >= BLOCK_BYTES
            && read.device_bytes <= DEVICE_BYTES_MAX
            // Each is behind the one before.
            && ends.iter().zip(&places).all(|(end, next)| end <= next)
            && places.iter().all(|place| place % BLOCK_BYTES == 0)
            && read.journal_bytes >= 8 * BLOCK_BYTES
            && read.journal_bytes <= JOURNAL_BYTES_MAX
            && data < read.checkpoint_bytes
            && read.lines >= 1
            && read.segments >= 4;
        holds.then_some(read)
    }
}
