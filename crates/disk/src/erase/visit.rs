//! One segment on its way: what is not to stay is made zeroes, and then read again, a step at a time.
//!
//! A step moves about a MiB, so that what else the disk has to write never waits for more. Others may
//! write to the segment between two steps, when its turn in the log comes: that is seen by its opening,
//! and the visit begins again.

use crate::codec::round_up;
use crate::erasure::Erased;
use crate::error::DiskError;
use crate::limits::{BLOCK_BYTES, ERASE_STEP_BYTES, WRITE_BYTES};
use crate::reclaim::read_footer;
use crate::record::Kind;
use crate::recovery::Window;
use crate::segment::{Entry, footer_bytes};
use crate::slot::Slot;
use crate::table::SegmentState;
use crate::volume::Volume;
use crate::writer::{Stream, Writer};
use freshet_device::Device;
use freshet_device::block::Block;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A segment that is being visited.
#[derive(Debug)]
pub(super) struct Visit {
    segment: u32,
    /// Its opening and state. Where they are others, it is another one.
    seen: (u64, SegmentState),
    /// Its records, in their order; none where that is not known.
    entries: Vec<Entry>,
    /// The first of them that was not looked at.
    next_entry: usize,
    /// The object of the last chunk, and whether it stays: chunks of an object come one after another,
    /// and what holds for one holds for all.
    last_chunk: Option<(u128, bool)>,
    /// Up to where it was overwritten, an offset on the device.
    cleared_to: u64,
    /// Up to where it is to be.
    end: u64,
    /// What is to be read again.
    gaps: VecDeque<Range<u64>>,
    was_flushed: bool,
    erased: Erased,
}

impl Visit {
    /// Begins with a segment. One that is being written is sealed.
    pub(super) fn begin(writer: &mut Writer, segment: u32) -> Result<Self, DiskError> {
        for stream in [Stream::New, Stream::Kept] {
            if writer.segment_of(stream) == Some(segment) {
                writer.seal(stream)?;
            }
        }
        let volume = &writer.volume;
        let geometry = volume.geometry();
        let start = geometry.segment_at(segment);
        let all = start..start + geometry.segment_bytes;
        let info = volume.books().table.get(segment);
        let entries = match info.state {
            SegmentState::Sealed => read_footer(&*volume.device, geometry, segment, info.seq)?,
            SegmentState::Free | SegmentState::Open | SegmentState::Retired => None,
        };
        let (cleared_to, end) = match &entries {
            Some(entries) => (start + BLOCK_BYTES, all.end - footer_bytes(entries.len())),
            None => (all.start, all.end),
        };
        if entries.is_none() && info.state != SegmentState::Free {
            forget_all(volume, &all);
        }
        Ok(Self {
            segment,
            seen: (info.seq, info.state),
            entries: entries.unwrap_or_default(),
            next_entry: 0,
            last_chunk: None,
            cleared_to,
            end,
            gaps: VecDeque::new(),
            was_flushed: false,
            erased: Erased::default(),
        })
    }

    /// Whether nobody wrote to the segment since.
    pub(super) fn is_still(&self, volume: &Volume) -> bool {
        let info = volume.books().table.get(self.segment);
        (info.seq, info.state) == self.seen
    }

    /// Goes on by a step; what became of the segment once all of it is done.
    pub(super) fn step(&mut self, writer: &Writer) -> Result<Option<Erased>, DiskError> {
        let device = &*writer.volume.device;
        if self.cleared_to < self.end {
            self.clear_some(writer)?;
        } else if !self.was_flushed {
            if self.erased.overwritten_bytes > 0 {
                device.flush()?;
            }
            self.was_flushed = true;
        } else {
            self.read_some_again(device)?;
        }
        let is_done = self.was_flushed && self.gaps.is_empty();
        Ok(is_done.then_some(self.erased))
    }

    /// Overwrites a step's worth of the segment.
    fn clear_some(&mut self, writer: &Writer) -> Result<(), DiskError> {
        let limit = (self.cleared_to + ERASE_STEP_BYTES).min(self.end);
        let mut from = self.cleared_to;
        let mut written_bytes = 0;
        for record in self.records_to_keep(writer, limit) {
            written_bytes += self.clear_gap(&*writer.volume.device, from..record.start)?;
            self.erased.kept_bytes += record.end - record.start;
            from = from.max(record.end);
        }
        written_bytes += self.clear_gap(&*writer.volume.device, from..limit)?;
        self.cleared_to = from.max(limit);
        self.erased.overwritten_bytes += written_bytes;
        writer.volume.books().written.padding_bytes += written_bytes;
        Ok(())
    }

    /// Overwrites what is between two records, and notes that it is to be read again.
    fn clear_gap(&mut self, device: &dyn Device, gap: Range<u64>) -> Result<u64, DiskError> {
        if gap.is_empty() {
            return Ok(0);
        }
        let written_bytes = clear(device, &gap)?;
        match self.gaps.back_mut() {
            Some(last) if last.end == gap.start => last.end = gap.end,
            _ => self.gaps.push_back(gap),
        }
        Ok(written_bytes)
    }

    /// Where records are that begin before `limit` and are to stay, in their order; others are forgotten.
    fn records_to_keep(&mut self, writer: &Writer, limit: u64) -> Vec<Range<u64>> {
        let volume = &writer.volume;
        let geometry = volume.geometry();
        let (unit, start) = (u64::from(geometry.unit_bytes), geometry.segment_at(self.segment));
        let mut window = Window::new(&*volume.device, geometry, self.segment);
        let mut kept = Vec::new();
        while let Some(entry) = self.entries.get(self.next_entry) {
            let at = u64::from(entry.units_at) * unit;
            if start + at >= limit {
                break;
            }
            self.next_entry += 1;
            let units_at = (start + at) / unit;
            if volume.index().at(entry.hash, units_at).is_none() {
                continue;
            }
            let head = window.head(at).ok();
            let head = head.filter(|head| head.index_hash() == entry.hash && head.seq == entry.seq);
            let stays = head.is_some_and(|head| match self.last_chunk {
                Some((object, stays)) if object == head.object && head.kind == Kind::Chunk => stays,
                _ => {
                    let stays = !volume.is_orphan(&head, writer.erased_since);
                    self.last_chunk = (head.kind == Kind::Chunk).then_some((head.object, stays));
                    stays
                }
            });
            if stays {
                kept.push(start + at..start + at + u64::from(entry.units) * unit);
            } else {
                volume.forget(entry.hash, units_at);
            }
        }
        kept
    }

    /// Reads a step's worth of what was overwritten.
    fn read_some_again(&mut self, device: &dyn Device) -> Result<(), DiskError> {
        let mut room = ERASE_STEP_BYTES;
        while room > 0
            && let Some(gap) = self.gaps.pop_front()
        {
            let (now, later) = split(gap, room);
            if !later.is_empty() {
                self.gaps.push_front(later);
            }
            let left_bytes = count_left(device, &now)?;
            self.erased.left_bytes += left_bytes;
            self.erased.zero_bytes += now.end - now.start - left_bytes;
            // However short it is, a block of it was read.
            room = room.saturating_sub((now.end - now.start).max(BLOCK_BYTES));
        }
        Ok(())
    }
}

/// At least a block and about `bytes` of a gap, and the rest of it, which begins at a block.
fn split(gap: Range<u64>, bytes: u64) -> (Range<u64>, Range<u64>) {
    let at = round_up(gap.start + bytes.max(1), BLOCK_BYTES).min(gap.end);
    (gap.start..at, at..gap.end)
}

/// Takes all out of the index that leads to a range of the device.
fn forget_all(volume: &Arc<Volume>, range: &Range<u64>) {
    let unit = u64::from(volume.geometry().unit_bytes);
    let mut books = volume.books();
    let goes = |slot: Slot| range.contains(&(slot.units_at() * unit));
    volume.index().remove_where(goes, |slot| books.left(slot, volume.geometry()));
}

/// Parts of a gap that are read at once, in whole blocks, each with what of it is the gap.
fn parts(gap: &Range<u64>) -> impl Iterator<Item = (Range<u64>, Range<usize>)> {
    let (gap, step) = (gap.clone(), WRITE_BYTES as u64);
    let first = gap.start & !(BLOCK_BYTES - 1);
    (first..gap.end).step_by(WRITE_BYTES).map(move |at| {
        let end = (at + step).min(round_up(gap.end, BLOCK_BYTES));
        let inner = (gap.start.max(at) - at) as usize..(gap.end.min(end) - at) as usize;
        (at..end, inner)
    })
}

/// Makes zeroes of a gap where it is not; the bytes that were written for that. What fails is seen when
/// it is read again, unless the device is gone.
fn clear(device: &dyn Device, gap: &Range<u64>) -> Result<u64, DiskError> {
    let mut written_bytes = 0;
    for (part, inner) in parts(gap) {
        let len = (part.end - part.start) as usize;
        let cleared = match device.read(part.start, len) {
            Ok(mut block) => {
                let Some(bytes) = block.get_mut(inner).filter(|bytes| !is_zero(bytes)) else {
                    continue;
                };
                bytes.fill(0);
                block
            }
            Err(error) if error.is_gone() => return Err(error.into()),
            // All of it can be written without knowing what is beside it.
            Err(_) if inner.len() == len => Block::new(len),
            Err(_) => continue,
        };
        match device.write(part.start, cleared) {
            Ok(()) => written_bytes += len as u64,
            Err(error) if error.is_gone() => return Err(error.into()),
            Err(error) => tracing::warn!(%error, at = part.start, "what is to be erased stays"),
        }
    }
    Ok(written_bytes)
}

/// Bytes of a gap that are no zeroes, or cannot be read.
fn count_left(device: &dyn Device, gap: &Range<u64>) -> Result<u64, DiskError> {
    let mut left_bytes = 0;
    for (part, inner) in parts(gap) {
        let all = inner.len() as u64;
        left_bytes += match device.read(part.start, (part.end - part.start) as usize) {
            Ok(block) => match block.get(inner) {
                Some(bytes) if is_zero(bytes) => 0,
                Some(bytes) => bytes.iter().filter(|byte| **byte != 0).count() as u64,
                None => all,
            },
            Err(error) if error.is_gone() => return Err(error.into()),
            Err(_) => all,
        };
    }
    Ok(left_bytes)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_split_at_a_block_and_nothing_of_it_is_lost() {
        let block = BLOCK_BYTES;
        assert_eq!(split(512..block, 1 << 20), (512..block, block..block));
        assert_eq!(split(512..3 * block, 1), (512..block, block..3 * block));
        assert_eq!(split(512..3 * block, block), (512..2 * block, 2 * block..3 * block));
    }

    #[test]
    fn parts_are_whole_blocks_and_cover_their_gap() {
        let block = BLOCK_BYTES;
        let gap = 512..3 * WRITE_BYTES as u64 + block + 1024;
        let mut next = gap.start;
        for (part, inner) in parts(&gap) {
            assert!(part.start.is_multiple_of(block) && part.end.is_multiple_of(block));
            assert_eq!(part.start + inner.start as u64, next);
            next = part.start + inner.end as u64;
            assert!(next <= part.end);
        }
        assert_eq!(next, gap.end);
    }
}
