//! Overwriting what was purged, and reading back that it is gone.
//!
//! A purge takes content out of use and leaves its bytes, on the log and in what the log was before. An
//! erasure visits every segment once. What is the record of something that can still be found stays;
//! all else is made zeroes, whosever it was, since of what is dead nobody can say that. Then it is read
//! again. After the last segment the log has nothing but records of others and zeroes, because nothing
//! that began before the erasure is written after it.

use super::block::Block;
use super::codec::round_up;
use super::device::Device;
use super::intake::Description;
use super::limits::{BLOCK_BYTES, WRITE_BYTES};
use super::purges::Verdict;
use super::reclaim::{read_footer, read_head};
use super::record::{Kind, RecordHead, key_hash};
use super::recovery::Window;
use super::renewal::renewal_key;
use super::segment::{Entry, footer_bytes};
use super::table::SegmentState;
use super::volume::Volume;
use super::writer::{Stream, Writer};
use crate::error::DiskError;
use freshet_base::clock::monotonic;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How far an erasure of one disk is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Erased {
    /// Segments of the disk; 0 where it was not in use.
    pub segments: u32,
    /// Segments that were visited.
    pub segments_done: u32,
    /// Bytes of records of others, which stay.
    pub kept_bytes: u64,
    /// Bytes that were something else than zeroes and were overwritten, and what shares blocks with
    /// them.
    pub overwritten_bytes: u64,
    /// Bytes that were read again afterwards and are zeroes.
    pub zero_bytes: u64,
    /// Bytes that could not be overwritten or read again, or are no zeroes.
    pub left_bytes: u64,
    /// Whether nothing more is done.
    pub is_over: bool,
}

impl Erased {
    /// Whether all of the disk was visited and read again, and nothing is left.
    pub fn is_whole(&self) -> bool {
        self.segments > 0 && self.segments_done == self.segments && self.left_bytes == 0
    }
}

/// An erasure of one disk, for who asked for it.
#[derive(Debug)]
pub struct Erasure {
    /// What was fetched before this is erased where it is purged.
    pub(super) since: u64,
    erased: Mutex<Erased>,
}

impl Erasure {
    pub(super) fn new(since: u64) -> Arc<Self> {
        Arc::new(Self { since, erased: Mutex::default() })
    }

    /// How far it is.
    pub fn erased(&self) -> Erased {
        *self.erased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Erased)) {
        change(&mut self.erased.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// An erasure for who carries it out. It is over when this is dropped, done or not.
#[derive(Debug)]
pub(super) struct Order {
    erasure: Arc<Erasure>,
    due: Instant,
}

impl Order {
    pub(super) fn new(erasure: &Arc<Erasure>) -> Self {
        Self { erasure: Arc::clone(erasure), due: monotonic() }
    }

    /// How long until the next step.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        self.due.saturating_duration_since(now)
    }

    /// Begins with a disk.
    pub(super) fn begin(&self, writer: &mut Writer) -> Result<(), DiskError> {
        let segments = writer.volume().geometry().segments;
        self.erasure.change(|erased| erased.segments = segments);
        writer.begin_erasure(self.erasure.since)
    }

    /// Visits the next segment, where it is time for that; whether there is another one. Half of the
    /// time is left to what else the disk has to write.
    ///
    /// # Errors
    /// What costs the disk. Other failures are bytes that are left.
    pub(super) fn step(&mut self, writer: &mut Writer) -> Result<bool, DiskError> {
        self.step_at(writer, monotonic())
    }

    pub(super) fn step_at(&mut self, writer: &mut Writer, now: Instant) -> Result<bool, DiskError> {
        let Erased { segments, segments_done, .. } = self.erasure.erased();
        if segments_done >= segments {
            return Ok(false);
        }
        if self.due > now {
            return Ok(true);
        }
        let began = monotonic();
        let visited = match writer.erase_segment(segments_done) {
            Err(error) if super::health::is_fatal(&error) => return Err(error),
            Err(_) => {
                let left_bytes = writer.volume().geometry().segment_bytes;
                Erased { left_bytes, ..Erased::default() }
            }
            Ok(visited) => visited,
        };
        self.erasure.change(|erased| {
            erased.segments_done += 1;
            erased.kept_bytes += visited.kept_bytes;
            erased.overwritten_bytes += visited.overwritten_bytes;
            erased.zero_bytes += visited.zero_bytes;
            erased.left_bytes += visited.left_bytes;
        });
        let done = monotonic();
        self.due = done + done.saturating_duration_since(began);
        Ok(segments_done + 1 < segments)
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        self.erasure.change(|erased| erased.is_over = true);
    }
}

/// The number of an object's insertion in the order of purges.
fn number_of(object: u128) -> u64 {
    (object >> 64) as u64
}

impl Volume {
    /// Whether nobody is to find a record of before `since` any more: it is purged, or is a part of
    /// what is purged or not there. What began after `since` is of something that is good, with its
    /// head to come. Of renewals it cannot be told whose they are: none of before is kept.
    pub(super) fn is_orphan(&self, head: &RecordHead, since: u64) -> bool {
        let is_purged = |head: &RecordHead| {
            let purges = &self.common.purges;
            purges.verdict(key_hash(head.key), &head.tags, head.born) == Verdict::Purged
        };
        match head.kind {
            Kind::Head if head.key == renewal_key(head.object) => number_of(head.object) <= since,
            Kind::Head => is_purged(head),
            Kind::Chunk => {
                let unit = u64::from(self.geometry().unit_bytes);
                let slots = self.heads(head.key);
                let mut heads =
                    slots.iter().filter_map(|slot| read_head(self, slot.units_at() * unit));
                let whole = heads.find(|found| found.object == head.object);
                match whole {
                    Some(whole) => is_purged(&whole),
                    None => number_of(head.object) <= since,
                }
            }
        }
    }
}

impl Writer {
    /// Writes nothing of what is purged or began before `since` in parts from now on.
    pub(super) fn begin_erasure(&mut self, since: u64) -> Result<(), DiskError> {
        self.erased_since = self.erased_since.max(since);
        self.drain()
    }

    /// Whether a part of an object is one of those that an erasure has passed, or is about to.
    pub(super) fn is_cut_off(&self, object: u128) -> bool {
        self.is_cut_off_at(number_of(object))
    }

    /// Whether what began then is such a part.
    pub(super) fn is_cut_off_at(&self, began: u64) -> bool {
        began <= self.erased_since
    }

    /// Whether an object that waits to be written has been purged since it came.
    pub(super) fn is_purged(&self, description: &Description) -> bool {
        let Description { key, tags, born, .. } = description;
        let purges = &self.volume.common.purges;
        purges.verdict(key_hash(*key), tags, *born) == Verdict::Purged
    }

    /// Whether a record that is about to be written again is one that an erasure is to overwrite.
    pub(super) fn is_erased(&self, head: &RecordHead) -> bool {
        self.is_cut_off(head.object) && self.volume.is_orphan(head, self.erased_since)
    }

    /// Makes zeroes of all in a segment but records that are to stay, and reads that again.
    pub(super) fn erase_segment(&mut self, segment: u32) -> Result<Erased, DiskError> {
        for stream in [Stream::New, Stream::Kept] {
            if self.segment_of(stream) == Some(segment) {
                self.seal(stream)?;
            }
        }
        let volume = Arc::clone(&self.volume);
        let geometry = volume.geometry();
        let start = geometry.segment_at(segment);
        let all = start..start + geometry.segment_bytes;
        let info = volume.books().table.get(segment);
        let entries = match info.state {
            SegmentState::Sealed => read_footer(&*volume.device, geometry, segment, info.seq)?,
            SegmentState::Free | SegmentState::Open | SegmentState::Retired => None,
        };
        let mut erased = Erased::default();
        let kept = match &entries {
            Some(entries) => {
                let records = self.records_to_keep(segment, entries);
                erased.kept_bytes = records.iter().map(|range| range.end - range.start).sum();
                let header = start..start + BLOCK_BYTES;
                let footer = all.end - footer_bytes(entries.len())..all.end;
                [header].into_iter().chain(records).chain([footer]).collect()
            }
            None => {
                forget_all(&volume, &all);
                Vec::new()
            }
        };
        let gaps = gaps(&kept, all);
        let device = &*volume.device;
        let mut written_bytes = 0;
        for gap in &gaps {
            written_bytes += clear(device, gap)?;
        }
        if written_bytes > 0 {
            device.flush()?;
        }
        for gap in &gaps {
            let left_bytes = count_left(device, gap)?;
            erased.left_bytes += left_bytes;
            erased.zero_bytes += gap.end - gap.start - left_bytes;
        }
        erased.overwritten_bytes = written_bytes;
        volume.books().written.padding_bytes += written_bytes;
        volume.common.begin_generation();
        Ok(erased)
    }

    /// Where records are that are to stay, in their order; the others are forgotten.
    fn records_to_keep(&self, segment: u32, entries: &[Entry]) -> Vec<Range<u64>> {
        let volume = &self.volume;
        let geometry = volume.geometry();
        let (unit, start) = (u64::from(geometry.unit_bytes), geometry.segment_at(segment));
        let mut window = Window::new(&*volume.device, geometry, segment);
        let mut kept = Vec::new();
        // Chunks of an object come one after another, and what holds for one holds for all.
        let mut last: Option<(u128, bool)> = None;
        for entry in entries {
            let at = u64::from(entry.units_at) * unit;
            let units_at = (start + at) / unit;
            if volume.index().at(entry.hash, units_at).is_none() {
                continue;
            }
            let head = window.head(at).ok();
            let head = head.filter(|head| head.index_hash() == entry.hash && head.seq == entry.seq);
            let stays = head.is_some_and(|head| match last {
                Some((object, stays)) if object == head.object && head.kind == Kind::Chunk => stays,
                _ => {
                    let stays = !volume.is_orphan(&head, self.erased_since);
                    last = (head.kind == Kind::Chunk).then_some((head.object, stays));
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
}

/// Takes all out of the index that leads to a range of the device.
fn forget_all(volume: &Volume, range: &Range<u64>) {
    let unit = u64::from(volume.geometry().unit_bytes);
    let mut books = volume.books();
    let mut gone = Vec::new();
    volume.index().remove_where(|slot| {
        let goes = range.contains(&(slot.units_at() * unit));
        gone.extend(goes.then_some(slot));
        goes
    });
    gone.into_iter().for_each(|slot| books.left(slot, volume.geometry()));
}

/// What is in `all` and in none of `kept`, which come in order.
fn gaps(kept: &[Range<u64>], all: Range<u64>) -> Vec<Range<u64>> {
    let ends = kept.iter().map(|range| range.start).chain([all.end]);
    let starts = [all.start].into_iter().chain(kept.iter().map(|range| range.end));
    starts.zip(ends).map(|(start, end)| start..end).filter(|gap| !gap.is_empty()).collect()
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
    fn gaps_are_what_nobody_keeps() {
        let all = 0..10;
        assert_eq!(gaps(&[], 0..10), std::slice::from_ref(&all));
        assert_eq!(gaps(&[0..2, 2..4, 6..8], 0..10), [4..6, 8..10]);
        assert_eq!(gaps(std::slice::from_ref(&all), 0..10), []);
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
