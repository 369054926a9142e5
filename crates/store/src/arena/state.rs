//! What the arena's lock guards: pages, parts of pages, metadata and the queue.

use super::pages::{PageRun, Pages};
use super::queue::Queue;
use super::slab::{self, Slabs};
use super::{ArenaStats, Mapping};
use crate::limits::{
    FRAME_BYTES, FRAME_PAGES, HOLLOW_BYTES_MIN, HOLLOW_RUNS_MAX, PAGE_BYTES, PIECE_METADATA_BYTES,
    SLAB_BYTES_MAX,
};
use crate::wake::WakeList;

/// The bytes of one piece.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Run {
    /// Offset in the arena.
    pub(crate) start: u64,
    pub(crate) bytes: u32,
    /// The slab it is a part of, or [`Run::PAGES`].
    pub(crate) slab: u32,
}

impl Run {
    /// Instead of a slab's number: this run is whole pages.
    pub(crate) const PAGES: u32 = u32::MAX;
}

pub(crate) struct State {
    limit_bytes: u64,
    metadata_bytes: u64,
    /// Free runs of frames in use that were given to the kernel, so that metadata has room.
    hollow: Vec<PageRun>,
    hollow_bytes: u64,
    pages: Pages,
    slabs: Slabs,
    pub(super) queue: Queue,
}

impl State {
    pub(super) fn new(frames: u32, limit_bytes: u64) -> Self {
        let pages = Pages::new(frames);
        let metadata_bytes = pages.heap_bytes();
        let (slabs, queue) = (Slabs::default(), Queue::default());
        let (hollow, hollow_bytes) = (Vec::new(), 0);
        Self { limit_bytes, metadata_bytes, hollow, hollow_bytes, pages, slabs, queue }
    }

    /// Takes a run of `best` bytes, or from fragments of at least `least`; `least` only counts
    /// for whole pages.
    pub(super) fn take(&mut self, mapping: &Mapping, best: u32, least: u32) -> Option<Run> {
        if !self.make_room(mapping, PIECE_METADATA_BYTES) {
            return None;
        }
        let run = if best <= SLAB_BYTES_MAX {
            self.take_part(mapping, best)?
        } else {
            let run = self.take_pages(mapping, pages_of(best), pages_of(least))?;
            let bytes = run.pages * PAGE_BYTES as u32;
            Run { start: u64::from(run.page) * PAGE_BYTES, bytes, slab: Run::PAGES }
        };
        self.metadata_bytes += PIECE_METADATA_BYTES;
        Some(run)
    }

    pub(super) fn give(&mut self, run: Run) {
        if run.slab == Run::PAGES {
            self.give_pages(run.start, run.bytes);
        } else if let Some(pages) = self.slabs.give(run.slab, run.start) {
            self.pages.give(pages);
        }
        self.metadata_bytes -= PIECE_METADATA_BYTES;
    }

    pub(super) fn give_pages(&mut self, start: u64, bytes: u32) {
        let page = u32::try_from(start / PAGE_BYTES).expect("page numbers fit 32 bits");
        self.pages.give(PageRun { page, pages: bytes / PAGE_BYTES as u32 });
    }

    /// Counts metadata if there is room for it.
    pub(super) fn charge(&mut self, mapping: &Mapping, bytes: u64) -> bool {
        let fits = self.make_room(mapping, bytes);
        if fits {
            self.metadata_bytes += bytes;
        }
        fits
    }

    pub(super) fn charge_beyond_limit(&mut self, bytes: u64) {
        self.metadata_bytes += bytes;
    }

    pub(super) fn release_metadata(&mut self, bytes: u64) {
        let left = self.metadata_bytes.checked_sub(bytes);
        self.metadata_bytes = left.expect("no more metadata is released than was charged");
    }

    /// The frame that would be taken from the kernel next, where the limit has room for it and for as much
    /// metadata: what has to be given back soon is not worth taking ahead.
    pub(super) fn next_frame(&self) -> Option<u32> {
        let after = self.committed_bytes() + 2 * FRAME_BYTES + self.metadata_bytes;
        let has_room = after <= self.limit_bytes && self.hollow.is_empty();
        self.pages.next_uncommitted().filter(|_| has_room)
    }

    /// Takes that frame.
    pub(super) fn commit_frame(&mut self) {
        self.pages.commit();
    }

    /// Whether nothing of a frame is ours.
    pub(super) fn is_uncommitted(&self, frame: u32) -> bool {
        self.pages.is_uncommitted(frame)
    }

    /// Bytes of whole pages that are free in the frames there are.
    pub(super) fn ready_bytes(&self) -> u64 {
        u64::from(self.pages.committed()) * FRAME_BYTES - self.pages.used() * PAGE_BYTES
    }

    /// After something was given back: pays debts, and serves the queue. Returns how many were
    /// served.
    pub(super) fn settle(&mut self, mapping: &Mapping, wakes: &mut WakeList) -> u64 {
        self.make_room(mapping, 0);
        let mut served = 0;
        while let Some(need) = self.queue.next() {
            let Some(run) = self.take(mapping, need.best, need.least) else { break };
            self.queue.serve(run, wakes);
            served += 1;
        }
        served
    }

    pub(super) fn fill_stats(&self, stats: &mut ArenaStats) {
        stats.committed_bytes = self.committed_bytes();
        let taken_bytes = self.pages.used() * PAGE_BYTES - self.hollow_bytes;
        stats.used_bytes = taken_bytes - self.slabs.free_bytes();
        stats.free_bytes = stats.committed_bytes - stats.used_bytes;
        stats.metadata_bytes = self.metadata_bytes;
    }

    fn take_part(&mut self, mapping: &Mapping, bytes: u32) -> Option<Run> {
        let slot = self.slabs.take(bytes).or_else(|| {
            let (best, least) = slab::run_pages(bytes);
            let run = self.take_pages(mapping, best, least)?;
            self.slabs.add(bytes, run);
            self.slabs.take(bytes)
        })?;
        Some(Run { start: slot.start, bytes: slot.bytes, slab: slot.slab })
    }

    fn take_pages(&mut self, mapping: &Mapping, best: u32, least: u32) -> Option<PageRun> {
        if let Some(run) = self.pages.take(best) {
            return Some(run);
        }
        if self.fill_hollow(mapping)
            && let Some(run) = self.pages.take(best)
        {
            return Some(run);
        }
        let after = self.committed_bytes() + FRAME_BYTES + self.metadata_bytes;
        if after + PIECE_METADATA_BYTES <= self.limit_bytes && self.pages.commit() {
            return self.pages.take(best);
        }
        self.pages.take_longest(best, least)
    }

    /// Gives wholly free frames to the kernel until `bytes` more fit under the limit, or what is free
    /// of others: with readers in all of them, none would ever be wholly free. This is rare enough to
    /// do under the lock: once for 2 MiB of metadata, or for what is lacking.
    fn make_room(&mut self, mapping: &Mapping, bytes: u64) -> bool {
        loop {
            let total_bytes = self.committed_bytes() + self.metadata_bytes + bytes;
            let lacking_bytes = total_bytes.saturating_sub(self.limit_bytes);
            if lacking_bytes == 0 {
                return true;
            }
            if let Some(frame) = self.pages.uncommit() {
                mapping.discard(u64::from(frame) * FRAME_BYTES, FRAME_BYTES as u32);
            } else if !self.make_hollow(mapping, lacking_bytes) {
                return false;
            }
        }
    }

    /// Gives a free run of a frame in use to the kernel; false where there is none.
    fn make_hollow(&mut self, mapping: &Mapping, wanted_bytes: u64) -> bool {
        if self.hollow.len() == HOLLOW_RUNS_MAX || !mapping.is_anonymous() {
            return false;
        }
        let most_bytes = wanted_bytes.clamp(HOLLOW_BYTES_MIN, FRAME_BYTES).next_power_of_two();
        let most = ((most_bytes / PAGE_BYTES) as u32).min(FRAME_PAGES);
        let Some(run) = self.pages.take_highest(most) else { return false };
        let (start, bytes) = (u64::from(run.page) * PAGE_BYTES, run.pages * PAGE_BYTES as u32);
        mapping.hollow(start, bytes);
        self.hollow.push(run);
        self.hollow_bytes += u64::from(bytes);
        true
    }

    /// Takes runs back from the kernel that there is room for; whether there were any.
    fn fill_hollow(&mut self, mapping: &Mapping) -> bool {
        let before = self.hollow.len();
        while let Some(run) = self.hollow.last() {
            let bytes = run.pages * PAGE_BYTES as u32;
            let total_bytes = self.committed_bytes() + self.metadata_bytes + u64::from(bytes);
            if total_bytes + PIECE_METADATA_BYTES > self.limit_bytes {
                break;
            }
            mapping.fill(u64::from(run.page) * PAGE_BYTES, bytes);
            self.hollow_bytes -= u64::from(bytes);
            self.pages.give(*run);
            self.hollow.pop();
        }
        self.hollow.len() < before
    }

    fn committed_bytes(&self) -> u64 {
        u64::from(self.pages.committed()) * FRAME_BYTES - self.hollow_bytes
    }
}

fn pages_of(bytes: u32) -> u32 {
    bytes.div_ceil(PAGE_BYTES as u32)
}
