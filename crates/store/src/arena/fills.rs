//! How much of the memory bodies may take while they are filled.
//!
//! What is being filled cannot be evicted, so a burst of fills larger than memory would evict
//! everything else, however much it is used. Each writer has a [`Claim`] on what it takes. Bodies that
//! are to be kept have one share of the memory: who finds it full has its body pass in transit.
//! Bodies in transit have another one, of windows of the usual length: who finds it full makes do with
//! a short one, so that all go on.

use super::{Arena, ArenaStats, Need};
use crate::limits::{PIECE_BYTES_MAX, TRANSIT_WINDOW_BYTES_LEAST, TRANSIT_WINDOW_BYTES_MIN};
use crate::piece::PieceMut;
use freshet_base::ledger::Ledger;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What part windows of the usual length may take of what bodies may that are to be kept. All of it may be one
/// client's, beside the short ones of a hundred others that wait for their turn.
const PASSING_PART: u64 = 16;

/// What fills have claimed and may claim, in bytes.
#[derive(Debug)]
pub(super) struct Fills {
    kept_bytes: AtomicU64,
    passing_bytes: AtomicU64,
    limit_bytes: AtomicU64,
    refused: AtomicU64,
}

impl Default for Fills {
    fn default() -> Self {
        Self {
            kept_bytes: AtomicU64::new(0),
            passing_bytes: AtomicU64::new(0),
            limit_bytes: AtomicU64::new(u64::MAX),
            refused: AtomicU64::new(0),
        }
    }
}

/// What one fill has claimed; given back when dropped.
pub(crate) struct Claim {
    arena: Arc<Arena>,
    kept_bytes: u64,
    /// What of that was taken.
    taken_bytes: u64,
    passing_bytes: u64,
    is_exempt: bool,
}

impl Arena {
    /// How much bodies that are to be kept may hold, or are known to come to, while they are filled; no
    /// limit at first. Those up to the longest piece may go half as far beyond, so that a few long ones
    /// leave room for them, and one that is alone as far as it likes; so may those go on of which it is
    /// not known how long they become, while twice as much is free. Windows of bodies in transit may
    /// take a sixteenth as much before they are short.
    pub fn set_fill_limit(&self, limit_bytes: u64) {
        self.fills.limit_bytes.store(limit_bytes, Relaxed);
    }

    /// A claim on nothing yet.
    pub(crate) fn claim(self: &Arc<Self>) -> Claim {
        let (kept_bytes, taken_bytes, passing_bytes) = (0, 0, 0);
        Claim { arena: Arc::clone(self), kept_bytes, taken_bytes, passing_bytes, is_exempt: false }
    }

    /// Memory for which nothing would have to be evicted.
    fn free_bytes(&self) -> u64 {
        let mut stats = ArenaStats::default();
        self.state().fill_stats(&mut stats);
        let ArenaStats { committed_bytes, free_bytes, metadata_bytes, .. } = stats;
        self.limit_bytes.saturating_sub(committed_bytes + metadata_bytes) + free_bytes
    }

    pub(super) fn filling_bytes(&self) -> u64 {
        self.fills.kept_bytes.load(Relaxed)
    }

    pub(super) fn fills_refused(&self) -> u64 {
        self.fills.refused.load(Relaxed)
    }
}

impl Claim {
    /// A piece near the wanted length for a body that is to be kept, where the share has room: for all
    /// that is known to come (`gap_bytes`) when it begins, or else for this piece.
    pub(crate) fn allocate_near(&mut self, need: Need, gap_bytes: Option<u64>) -> Option<PieceMut> {
        if self.is_exempt {
            return self.arena.allocate_near(need);
        }
        let wanted_bytes = match gap_bytes.filter(|_| self.taken_bytes == 0) {
            Some(gap) => gap.max(need.best.into()),
            None => self.taken_bytes + u64::from(need.best),
        };
        if !self.keep(wanted_bytes.saturating_sub(self.kept_bytes)) {
            self.arena.fills.refused.fetch_add(1, Relaxed);
            return None;
        }
        let piece = self.arena.allocate_near(need)?;
        self.taken_bytes += u64::from(piece.capacity());
        // Runs are rounded up to whole pages.
        let more = self.taken_bytes.saturating_sub(self.kept_bytes);
        self.arena.fills.kept_bytes.fetch_add(more, Relaxed);
        self.kept_bytes += more;
        Some(piece)
    }

    /// How much of a body in transit may be unread: of the usual length only where its reader keeps up
    /// with what comes. Of what it held before, `held_bytes` are left.
    pub(crate) fn window_bytes(&mut self, held_bytes: u64, keeps_up: bool) -> u64 {
        let is_usual = self.passing_bytes > 0 || (keeps_up && self.pass());
        let window = if is_usual { TRANSIT_WINDOW_BYTES_MIN } else { TRANSIT_WINDOW_BYTES_LEAST };
        self.shrink(if held_bytes > window { held_bytes } else { 0 });
        window
    }

    /// What is taken from now on is not counted.
    pub(crate) fn exempt(&mut self) {
        self.is_exempt = true;
    }

    /// Claims no more than this of what bodies have that are to be kept.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let fewer = self.kept_bytes.saturating_sub(bytes);
        self.kept_bytes -= fewer;
        self.arena.fills.kept_bytes.give_back(fewer, Relaxed);
    }

    fn keep(&mut self, bytes: u64) -> bool {
        if bytes == 0 {
            return true;
        }
        let fills = &self.arena.fills;
        let limit = fills.limit_bytes.load(Relaxed);
        let is_short = self.kept_bytes + bytes <= PIECE_BYTES_MAX.into();
        let limit = if is_short { limit.saturating_add(limit / 2) } else { limit };
        let held_bytes = self.kept_bytes;
        let fits = |claimed: u64| {
            let sum = claimed.saturating_add(bytes);
            (sum <= limit || claimed == held_bytes).then_some(sum)
        };
        let mut has_room = fills.kept_bytes.fetch_update(Relaxed, Relaxed, fits).is_ok();
        if !has_room && held_bytes > 0 && self.arena.free_bytes() >= limit.saturating_mul(2) {
            fills.kept_bytes.fetch_add(bytes, Relaxed);
            has_room = true;
        }
        self.kept_bytes += if has_room { bytes } else { 0 };
        has_room
    }

    fn pass(&mut self) -> bool {
        let fills = &self.arena.fills;
        let limit = fills.limit_bytes.load(Relaxed) / PASSING_PART;
        let fits = |claimed: u64| {
            claimed.checked_add(TRANSIT_WINDOW_BYTES_MIN).filter(|sum| *sum <= limit)
        };
        let has_room = fills.passing_bytes.fetch_update(Relaxed, Relaxed, fits).is_ok();
        self.passing_bytes = if has_room { TRANSIT_WINDOW_BYTES_MIN } else { 0 };
        has_room
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.shrink(0);
        self.arena.fills.passing_bytes.give_back(self.passing_bytes, Relaxed);
    }
}
