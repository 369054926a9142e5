//! Overwriting what was purged, and reading back that it is gone.
//!
//! A purge takes content out of use and leaves its bytes, on the log and in what the log was before. An
//! erasure visits every segment once. What is the record of something that can still be found stays;
//! all else is made zeroes, whosever it was, since of what is dead nobody can say that. Then it is read
//! again. After the last segment the log has nothing but records of others and zeroes, because nothing
//! that began before the erasure is written after it.
//!
//! How far it is is in the journal: whoever opens the disk next goes on where it was left.

mod visit;

use super::erasure::{Erased, Progress};
use super::intake::Description;
use super::limits::FORMAT_VERSION_ERASED;
use super::purges::Verdict;
use super::reclaim::read_head;
use super::record::{Kind, RecordHead, key_hash};
use super::renewal::renewal_key;
use super::superblock::Superblock;
use super::volume::Volume;
use super::writer::Writer;
use crate::error::DiskError;
use freshet_base::clock::monotonic;
use std::sync::Arc;
use std::time::{Duration, Instant};
use visit::Visit;

/// What is to be erased.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// What was fetched before this is erased where it is purged.
    pub(super) since: u64,
    /// What that is, for who reads of it later.
    pub(super) what: String,
}

/// An erasure of one disk for who carries it out.
#[derive(Debug)]
pub(super) struct Order {
    visit: Option<Visit>,
    due: Instant,
}

impl Order {
    fn new() -> Self {
        Self { visit: None, due: monotonic() }
    }

    /// Begins to erase; that it was begun is durable.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn begin(writer: &mut Writer, asked: &Asked) -> Result<Self, DiskError> {
        writer.begin_erasure(asked).map(|()| Self::new())
    }

    /// Goes on with what was begun and not ended, if something was.
    pub(super) fn resume(writer: &Writer) -> Option<Self> {
        let progress = writer.volume.erasure().filter(|progress| !progress.erased.is_over())?;
        tracing::info!(
            device = %writer.volume.superblock.device,
            segments = progress.erased.segments,
            segments_done = progress.erased.segments_done,
            "an erasure goes on"
        );
        Some(Self::new())
    }

    /// How long until the next step.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        self.due.saturating_duration_since(now)
    }

    /// Goes on by a step, where it is time for that; whether there is another one. Half of the time is
    /// left to what else the disk has to write.
    ///
    /// # Errors
    /// What costs the disk. Other failures are bytes that are left.
    pub(super) fn step(&mut self, writer: &mut Writer) -> Result<bool, DiskError> {
        self.step_at(writer, monotonic())
    }

    pub(super) fn step_at(&mut self, writer: &mut Writer, now: Instant) -> Result<bool, DiskError> {
        let volume = Arc::clone(&writer.volume);
        let progress = volume.erasure().filter(|progress| !progress.erased.is_over());
        let Some(mut progress) = progress else { return Ok(false) };
        if self.due > now {
            return Ok(true);
        }
        let began = monotonic();
        let visited = match self.visit_some(writer, progress.erased.segments_done) {
            Err(error) if super::health::is_fatal(&error) => return Err(error),
            Err(_) => {
                let left_bytes = volume.geometry().segment_bytes;
                Some(Erased { left_bytes, ..Erased::default() })
            }
            Ok(visited) => visited,
        };
        if let Some(segment) = visited {
            self.visit = None;
            volume.common.begin_generation();
            progress.erased.add(&segment);
            let is_over = progress.erased.is_over();
            if is_over {
                progress.ended_ms = volume.common.now_ms();
            }
            volume.note_erasure(progress);
            if is_over {
                volume.commit_journal()?;
                return Ok(false);
            }
        }
        let done = monotonic();
        self.due = done + done.saturating_duration_since(began);
        Ok(true)
    }

    /// Goes on with a segment by a step; what became of it where that was the last.
    fn visit_some(
        &mut self,
        writer: &mut Writer,
        segment: u32,
    ) -> Result<Option<Erased>, DiskError> {
        let is_still = |visit: &Visit| visit.is_still(&writer.volume);
        let mut visit = match self.visit.take().filter(is_still) {
            Some(visit) => visit,
            None => Visit::begin(writer, segment)?,
        };
        let done = visit.step(writer)?;
        self.visit = Some(visit);
        Ok(done)
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
    /// Writes nothing of what is purged or began before in parts from now on, and remembers that.
    fn begin_erasure(&mut self, Asked { since, what }: &Asked) -> Result<(), DiskError> {
        self.erased_since = self.erased_since.max(*since);
        self.drain()?;
        let volume = Arc::clone(&self.volume);
        Superblock::raise(&*volume.device, FORMAT_VERSION_ERASED)?;
        let segments = volume.geometry().segments;
        volume.note_erasure(Progress {
            since: *since,
            what: Progress::shortened(what),
            begun_ms: volume.common.now_ms(),
            ended_ms: 0,
            erased: Erased { segments, ..Erased::default() },
        });
        volume.commit_journal()
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
}
