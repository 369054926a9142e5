//! All memory for bodies, and the limit on it.
//!
//! An [`Arena`] takes memory from the kernel in frames of 2 MiB and hands it out in pieces: runs of
//! 4 KiB pages inside one frame, or parts of a page for what is small. Committed frames and charged
//! metadata together never exceed the limit; when nothing is left, the owner is asked to evict
//! ([`Arena::set_reclaim`]), and after that writers queue for what comes back.
//!
//! Locking: one mutex guards all bookkeeping. It is the innermost lock of the crate: nothing is
//! called under it, wakers are woken and the owner is asked after it has been let go.

mod ahead;
mod fills;
mod frame;
mod frame_set;
mod mapping;
mod pages;
mod placement;
mod queue;
mod slab;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use fills::Claim;
pub(crate) use mapping::Mapping;
pub use placement::{NODE_MAX, Placement};
pub(crate) use queue::MemoryWait;
pub(crate) use state::Run;

use crate::error::StoreError;
use crate::limits::{
    ARENA_BYTES_MAX, ARENA_BYTES_MIN, FRAME_BYTES, PIECE_BYTES_MAX, RECLAIM_BYTES_MIN,
    RECLAIM_ROUNDS_MAX,
};
use crate::piece::PieceMut;
use crate::wake::WakeList;
use fills::Fills;
use freshet_base::ledger::Ledger;
use state::State;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Evicts about as many bytes as it is asked for and returns how many it freed.
pub type Reclaim = dyn Fn(u64) -> u64 + Send + Sync;

/// A limited amount of memory, shared by all threads.
pub struct Arena {
    mapping: Mapping,
    limit_bytes: u64,
    state: Mutex<State>,
    reclaim: RwLock<Option<Arc<Reclaim>>>,
    fills: Fills,
    /// Writers in the queue; changed under the lock of `state`, read without it.
    waiting: AtomicU64,
    returns: AtomicBool,
    pinned_bytes: AtomicU64,
    waits: AtomicU64,
    refusals: AtomicU64,
    reclaim_calls: AtomicU64,
    reclaimed_bytes: AtomicU64,
}

/// Where the memory of an arena is. Bytes are rounded to what is really occupied.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ArenaStats {
    /// The limit; `committed_bytes + metadata_bytes` stays below it.
    pub limit_bytes: u64,
    /// Frames taken from the kernel.
    pub committed_bytes: u64,
    /// Pages and parts of pages in pieces.
    pub used_bytes: u64,
    /// The rest of the committed frames.
    pub free_bytes: u64,
    /// What was charged, the arena's own tables and its pieces' bookkeeping included.
    pub metadata_bytes: u64,
    /// Of `used_bytes`: pieces that were evicted or purged and are still being read.
    pub pinned_bytes: u64,
    /// What bodies that are to be kept and are being filled have claimed of the memory.
    pub filling_bytes: u64,
    /// How often a body that was to be kept had to pass, as such bodies hold what they may.
    pub fills_refused: u64,
    /// Writers in the queue for memory now.
    pub waiting: u64,
    /// How often a writer had to queue.
    pub waits: u64,
    /// How often an allocation found nothing, not even by evicting.
    pub refusals: u64,
    /// How often the owner was asked to evict.
    pub reclaim_calls: u64,
    /// What the owner said it freed.
    pub reclaimed_bytes: u64,
}

impl ArenaStats {
    /// Adds the figures of another arena.
    pub fn add(&mut self, other: &Self) {
        let Self {
            limit_bytes,
            committed_bytes,
            used_bytes,
            free_bytes,
            metadata_bytes,
            pinned_bytes,
            filling_bytes,
            fills_refused,
            waiting,
            waits,
            refusals,
            reclaim_calls,
            reclaimed_bytes,
        } = other;
        self.limit_bytes += limit_bytes;
        self.committed_bytes += committed_bytes;
        self.used_bytes += used_bytes;
        self.free_bytes += free_bytes;
        self.metadata_bytes += metadata_bytes;
        self.pinned_bytes += pinned_bytes;
        self.filling_bytes += filling_bytes;
        self.fills_refused += fills_refused;
        self.waiting += waiting;
        self.waits += waits;
        self.refusals += refusals;
        self.reclaim_calls += reclaim_calls;
        self.reclaimed_bytes += reclaimed_bytes;
    }
}

/// How long a piece should be, in bytes: `best` if that is to be had without evicting, otherwise
/// as long as possible but at least `good`; and if evicting does not help, at least `least`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Need {
    pub(crate) best: u32,
    pub(crate) good: u32,
    pub(crate) least: u32,
}

impl Arena {
    /// An arena of at most `limit_bytes`, rounded down to what whole frames and metadata can use.
    /// Address space is reserved at once; memory is committed as it is needed.
    ///
    /// # Errors
    /// [`StoreError::ConfigMemoryLimit`] outside of [`ARENA_BYTES_MIN`] to [`ARENA_BYTES_MAX`];
    /// [`StoreError::LocalReserve`] when the kernel refuses.
    pub fn new(limit_bytes: u64) -> Result<Arc<Self>, StoreError> {
        Self::in_place(limit_bytes, &Placement::Anywhere)
    }

    /// As [`Arena::new`], of memory that comes from a certain place.
    ///
    /// # Errors
    /// Also [`StoreError::ConfigMemoryFile`], [`StoreError::LocalMemoryTaken`] and
    /// [`StoreError::ConfigMemoryNode`].
    pub fn in_place(limit_bytes: u64, placement: &Placement) -> Result<Arc<Self>, StoreError> {
        if !(ARENA_BYTES_MIN..=ARENA_BYTES_MAX).contains(&limit_bytes) {
            return Err(StoreError::ConfigMemoryLimit {
                bytes: limit_bytes,
                min: ARENA_BYTES_MIN,
                max: ARENA_BYTES_MAX,
            });
        }
        let frames = u32::try_from(limit_bytes / FRAME_BYTES).expect("the limit was checked");
        Ok(Arc::new(Self {
            mapping: Mapping::new(frames, placement)?,
            limit_bytes,
            state: Mutex::new(State::new(frames, limit_bytes)),
            reclaim: RwLock::new(None),
            fills: Fills::default(),
            waiting: AtomicU64::new(0),
            returns: AtomicBool::new(false),
            pinned_bytes: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            reclaim_calls: AtomicU64::new(0),
            reclaimed_bytes: AtomicU64::new(0),
        }))
    }

    /// Says how to evict. `reclaim` is called with the number of bytes that are wanted, by any
    /// thread, with no lock of this crate held; several threads may call it at once. It must not
    /// allocate from this arena. It is called by [`Arena::allocate`] and
    /// [`Arena::charge_metadata`], by [`crate::body::BodyWriter::poll_reserve`], and when a
    /// reader or writer of a body is dropped: do none of these under a lock it takes. It should
    /// hold the arena weakly, or the two keep each other alive.
    pub fn set_reclaim(&self, reclaim: Box<Reclaim>) {
        let mut slot = self.reclaim.write().unwrap_or_else(PoisonError::into_inner);
        *slot = Some(Arc::from(reclaim));
    }

    /// A piece of at least `len` bytes in one run, evicting where that is needed. `len` is 1 to
    /// [`PIECE_BYTES_MAX`]; anything else is refused.
    pub fn allocate(self: &Arc<Self>, len: usize) -> Option<PieceMut> {
        let len = u32::try_from(len).ok().filter(|len| (1..=PIECE_BYTES_MAX).contains(len))?;
        self.allocate_near(Need { best: len, good: len, least: len })
    }

    /// Counts `bytes` of the owner's metadata against the limit. Where there is no room, wholly
    /// free frames are given back to the kernel, and if there is none the owner is asked to evict.
    ///
    /// # Errors
    /// [`StoreError::LocalMemoryFull`] when that was not enough; nothing is charged then.
    pub fn charge_metadata(&self, bytes: u64) -> Result<(), StoreError> {
        self.with_reclaim(bytes, || self.state().charge(&self.mapping, bytes).then_some(()))
            .ok_or(StoreError::LocalMemoryFull { bytes })
    }

    /// Takes back what [`Arena::charge_metadata`] counted.
    pub fn release_metadata(&self, bytes: u64) {
        let mut state = self.state();
        state.release_metadata(bytes);
        self.settle(state);
    }

    /// Where the memory is. Takes the lock for a moment.
    pub fn stats(&self) -> ArenaStats {
        let mut stats = ArenaStats {
            limit_bytes: self.limit_bytes,
            pinned_bytes: self.pinned_bytes.load(Relaxed),
            filling_bytes: self.filling_bytes(),
            fills_refused: self.fills_refused(),
            waiting: self.waiting.load(Relaxed),
            waits: self.waits.load(Relaxed),
            refusals: self.refusals.load(Relaxed),
            reclaim_calls: self.reclaim_calls.load(Relaxed),
            reclaimed_bytes: self.reclaimed_bytes.load(Relaxed),
            ..ArenaStats::default()
        };
        self.state().fill_stats(&mut stats);
        stats
    }

    /// The limit this arena was made with.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// A piece near the wanted length, evicting where that is needed.
    pub(crate) fn allocate_near(self: &Arc<Self>, need: Need) -> Option<PieceMut> {
        let found = self.with_reclaim(u64::from(need.best), || {
            self.state().take(&self.mapping, need.best, need.good)
        });
        let run = found.or_else(|| self.state().take(&self.mapping, need.best, need.least));
        if run.is_none() {
            self.refusals.fetch_add(1, Relaxed);
        }
        run.map(|run| PieceMut::new(self.clone(), run))
    }

    /// A piece of this length if one is free; nothing is evicted.
    pub(crate) fn allocate_free(self: &Arc<Self>, len: u32) -> Option<PieceMut> {
        let run = self.state().take(&self.mapping, len, len)?;
        Some(PieceMut::new(self.clone(), run))
    }

    /// Counts metadata that cannot be refused. What this takes beyond the limit is paid back by
    /// the next frame that becomes free.
    pub(crate) fn charge_unrefused(&self, bytes: u64) {
        let mut state = self.state();
        if !state.charge(&self.mapping, bytes) {
            state.charge_beyond_limit(bytes);
        }
    }

    /// From now on gives the pages of each piece back to the kernel when the piece ends, and not
    /// only frames that are wholly free when memory is short: for a process whose content moves to
    /// another one.
    pub fn return_pages(&self) {
        self.returns.store(true, Relaxed);
    }

    /// Takes a run back and hands what is free now to those who wait.
    pub(crate) fn release(&self, run: Run) {
        if self.returns.load(Relaxed) && run.slab == Run::PAGES {
            // Before anyone else can have it.
            self.mapping.discard(run.start, run.bytes);
        }
        let mut state = self.state();
        state.give(run);
        self.settle(state);
    }

    /// Takes the end of a run of pages back: from `start`, `bytes` bytes, both whole pages.
    pub(crate) fn release_tail(&self, start: u64, bytes: u32) {
        let mut state = self.state();
        state.give_pages(start, bytes);
        self.settle(state);
    }

    /// Asks the owner to evict for those who wait, because something may have become evictable.
    pub(crate) fn reclaim_for_waiting(&self) {
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        let wanted = self.state().queue.wanted_bytes();
        if wanted > 0 {
            self.call_reclaim(wanted);
        }
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    pub(crate) fn pin(&self, bytes: u32) {
        self.pinned_bytes.fetch_add(u64::from(bytes), Relaxed);
    }

    pub(crate) fn unpin(&self, bytes: u32) {
        self.pinned_bytes.give_back(u64::from(bytes), Relaxed);
    }

    /// Tries `attempt`, and evicts and tries again while the owner frees anything.
    fn with_reclaim<T>(&self, bytes: u64, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        let mut wanted = bytes.max(RECLAIM_BYTES_MIN);
        for _ in 0..RECLAIM_ROUNDS_MAX {
            if let Some(found) = attempt() {
                return Some(found);
            }
            if self.call_reclaim(wanted) == 0 {
                break;
            }
            wanted *= 2;
        }
        attempt()
    }

    fn call_reclaim(&self, bytes: u64) -> u64 {
        let reclaim = self.reclaim.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(reclaim) = reclaim else { return 0 };
        self.reclaim_calls.fetch_add(1, Relaxed);
        let freed = reclaim(bytes);
        self.reclaimed_bytes.fetch_add(freed, Relaxed);
        freed
    }

    /// Brings the arena back under its limit, serves the queue, and then lets the lock go and
    /// wakes those who got something.
    fn settle(&self, mut state: MutexGuard<'_, State>) {
        let mut wakes = WakeList::default();
        let served = state.settle(&self.mapping, &mut wakes);
        self.waiting.give_back(served, SeqCst);
        drop(state);
        drop(wakes);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a thread panicked in the bookkeeping of memory")
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Arena").field(&self.stats()).finish()
    }
}
