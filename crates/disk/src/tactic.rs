//! What a disk lets in, and what it keeps when it frees a segment: decisions without I/O.
//!
//! A disk is written in segments and freed in segments, so it has no order of its own to evict in.
//! What it has is a part for what is new and the rest for what was kept, each freed oldest first. What
//! was used since it was written is written again when its segment is freed, in the other part; what
//! was not is gone. That is S3-FIFO (Yang et al., SOSP 2023) with the memory above it as one more
//! small queue, and like there most of what comes is never asked for again: not to write it costs few
//! hits and saves most of the wear.
//!
//! The writer of a disk and the shadow of one (`freshet_cache`) decide by the same values.

use super::budget::Use;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What an object has to have shown to be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// Nothing.
    All,
    /// That it was fetched before, or served from memory this often.
    Proven {
        /// How often.
        hits_min: u64,
    },
}

/// One way to run a disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tactic {
    /// Its name, for figures and reports.
    pub name: &'static str,
    /// What is written. What nothing that is stored has to go for is written in any case.
    pub admission: Admission,
    /// The part of all segments that is left to what is new, 0 to 1; as long as more are, the oldest
    /// of these is freed next.
    pub new_part: f64,
    /// The part of a segment that is written again at most, 0 to 1. The rest is what the log moves on
    /// by: with three quarters one new segment costs the writing of four.
    pub kept_part: f64,
}

/// The tactics that are tried. The first writes a third of what the others do and has the most hits
/// of most traffic; where what comes back does so late, the second has some points more. The last is
/// for what is asked for a few times and no more, as what is new.
pub const TACTICS: [Tactic; 3] = [
    Tactic { name: "proven-20", admission: PROVEN, new_part: 0.2, kept_part: 0.75 },
    Tactic { name: "all-40", admission: Admission::All, new_part: 0.4, kept_part: 0.75 },
    Tactic { name: "log", admission: Admission::All, new_part: 1.0, kept_part: 0.0 },
];

/// Two, as one more request often is the same visitor's.
const PROVEN: Admission = Admission::Proven { hits_min: 2 };

impl Default for Tactic {
    fn default() -> Self {
        let [first, ..] = TACTICS;
        first
    }
}

impl Tactic {
    /// Whether an object is written that was used like this. `is_filling`: nothing that is stored has
    /// to go for it.
    pub fn admits(&self, shown: Use, is_filling: bool) -> bool {
        match self.admission {
            Admission::All => true,
            Admission::Proven { hits_min } => {
                is_filling || shown.was_seen || shown.hits >= hits_min
            }
        }
    }

    /// Whether the next segment to be freed is one of what is new.
    pub fn frees_new(&self, new_segments: u64, all_segments: u64) -> bool {
        new_segments as f64 > self.new_part * all_segments as f64
    }

    /// Bytes that are written again of a segment.
    pub fn kept_bytes_max(&self, segment_bytes: u64) -> u64 {
        (segment_bytes as f64 * self.kept_part) as u64
    }
}

/// The tactic in use, shared by those that run disks by it and who chooses it.
#[derive(Clone, Debug, Default)]
pub struct Chosen(Arc<AtomicUsize>);

impl Chosen {
    /// How disks are run.
    pub fn tactic(&self) -> Tactic {
        TACTICS.get(self.0.load(Relaxed)).copied().unwrap_or_default()
    }

    /// Runs them by one of [`TACTICS`] from now on.
    pub fn set(&self, tactic: Tactic) {
        if let Some(at) = TACTICS.iter().position(|one| *one == tactic) {
            self.0.store(at, Relaxed);
        }
    }
}

impl PartialEq for Chosen {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.tactic() == other.tactic()
    }
}

/// What a segment has of one object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Held {
    /// Bytes.
    pub bytes: u64,
    /// Uses since it was written.
    pub uses: u64,
}

/// Which of these are written again, of at most so many bytes: what was used, most used first. In the
/// order given. O(n log n).
pub fn kept(held: &[Held], bytes_max: u64) -> Vec<usize> {
    let mut order: Vec<(usize, Held)> =
        held.iter().copied().enumerate().filter(|(_, one)| one.uses > 0).collect();
    order.sort_by_key(|(_, one)| Reverse(one.uses));
    let mut room = bytes_max;
    order.retain(|(_, one)| match room.checked_sub(one.bytes) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    });
    let mut kept: Vec<usize> = order.into_iter().map(|(at, _)| at).collect();
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_most_is_kept_as_far_as_there_is_room() {
        let held = [(10, 0), (10, 1), (30, 3), (10, 2), (5, 1)];
        let held = held.map(|(bytes, uses)| Held { bytes, uses });
        assert_eq!(kept(&held, 100), [1, 2, 3, 4]);
        assert_eq!(kept(&held, 45), [2, 3, 4]);
        assert_eq!(kept(&held, 29), [1, 3, 4]);
        assert_eq!(kept(&held, 0), []);
    }

    #[test]
    fn what_proved_nothing_is_written_where_it_costs_nothing() {
        let shown = |hits, was_seen| Use { hits, was_seen };
        let [proven, all, _] = TACTICS;
        assert!(!proven.admits(shown(1, false), false));
        assert!(proven.admits(shown(2, false), false));
        assert!(proven.admits(shown(0, true), false));
        assert!(proven.admits(shown(0, false), true));
        assert!(all.admits(shown(0, false), false));
    }
}
