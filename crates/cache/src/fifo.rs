//! The order of eviction: S3-FIFO by bytes.
//!
//! New entries go through a small queue; what was used there moves to the main queue, what was not
//! leaves and is remembered as a ghost. A ghost that comes back goes to main at once. Main is a
//! FIFO whose used entries go round again. A hit only raises a two-bit counter in the entry
//! itself, so the hit path takes no lock of this structure.
//!
//! The queues hold weak references: what the index drops gives its memory back at once and leaves
//! a dead place in the queue, skipped when its turn comes. Where more than half of a queue is dead
//! it is compacted. Nothing here is random or reads a clock: the same calls give the same victims.

use crate::ghost::Ghost;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// The counter of uses saturates here: two bits, as S3-FIFO has it. More bits keep what was once
/// popular for longer and did not raise hit ratios in its authors' measurements.
const FREQUENCY_MAX: u8 = 3;

/// The small queue is not drained below this many entries (or half of all, where there are few):
/// with fewer it is too short for a second use to happen in it, and becomes worse than plain FIFO.
const SMALL_FLOOR_ENTRIES: usize = 64;

/// Ghosts are remembered for at least this many entries, otherwise for as many as are resident.
const GHOST_FLOOR_ENTRIES: usize = 64;

/// The longest walk for one victim. Past half of it the counters of uses no longer spare an entry,
/// at its end the walk gives up and the caller asks again with less patience. It bounds the time
/// under the lock to some milliseconds however many entries are in use.
const STEPS_MAX: usize = 1 << 16;

/// Queues shorter than this are not compacted: it would save nothing worth the walk.
const COMPACTION_FLOOR_ENTRIES: usize = 64;

/// Entries measured again per insertion and per eviction. More than one, so that the list of what
/// still grows is walked faster than it gets longer.
const MEASURED_PER_CALL: usize = 4;

/// What the queue needs of an entry.
pub(crate) trait Resident {
    /// Where the entry keeps what the queue knows of it.
    fn usage(&self) -> &Usage;
    /// Bytes that would come free with it.
    fn bytes(&self) -> u64;
    /// Whether [`Resident::bytes`] may still grow.
    fn may_grow(&self) -> bool;
    /// What stands in the way of evicting it.
    fn busy(&self) -> Busy;
    /// A hash of its identity, the same when it is fetched again after an eviction.
    fn fingerprint(&self) -> u64;
}

/// What stands in the way of evicting an entry, least first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Busy {
    /// Nothing.
    Idle,
    /// It is being read, so its memory stays in use until the readers leave.
    Read,
    /// It is still being filled.
    Filling,
}

/// What the queue keeps in an entry. All but the counter of uses change under the queue's lock
/// only; they are atomics because entries are shared.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    frequency: AtomicU8,
    place: AtomicU8,
    counted_bytes: AtomicU64,
}

const NOT_YET: u8 = 0;
const SMALL: u8 = 1;
const MAIN: u8 = 2;
const GONE: u8 = 3;

impl Usage {
    /// Counts a use. Two at once may count as one, which no eviction notices.
    #[inline]
    pub(crate) fn touch(&self) {
        let frequency = self.frequency.load(Relaxed);
        if frequency < FREQUENCY_MAX {
            self.frequency.store(frequency + 1, Relaxed);
        }
    }

    /// Uses counted since the entry last moved, 0 to 3.
    pub(crate) fn frequency(&self) -> u8 {
        self.frequency.load(Relaxed)
    }
}

/// The queues. `E`'s last reference may be dropped by a call, see [`S3Fifo::take_dropped`].
#[derive(Debug)]
pub(crate) struct S3Fifo<E> {
    small: Queue<E>,
    main: Queue<E>,
    ghost: Ghost,
    growing: VecDeque<Weak<E>>,
    dropped: Vec<Arc<E>>,
    small_share: f64,
}

#[derive(Debug)]
struct Queue<E> {
    entries: VecDeque<Weak<E>>,
    dead: usize,
    bytes: u64,
}

/// What one step along a queue came to.
enum Step<E> {
    Victim(Arc<E>),
    Busy,
    Moved,
}

impl<E: Resident> S3Fifo<E> {
    /// Empty queues; `small_share` is the part of all bytes the small queue may have, 0 to 1.
    pub(crate) fn new(small_share: f64) -> Self {
        Self {
            small: Queue::new(),
            main: Queue::new(),
            ghost: Ghost::default(),
            growing: VecDeque::new(),
            dropped: Vec::new(),
            small_share,
        }
    }

    /// Adds an entry, unless it was removed before it ever came here. O(1).
    pub(crate) fn push(&mut self, entry: &Arc<E>) {
        let usage = entry.usage();
        if usage.place.load(Relaxed) != NOT_YET {
            return;
        }
        let known = self.ghost.forget(entry.fingerprint());
        let (queue, place) = if known { (&mut self.main, MAIN) } else { (&mut self.small, SMALL) };
        usage.place.store(place, Relaxed);
        let bytes = entry.bytes();
        usage.counted_bytes.store(bytes, Relaxed);
        queue.bytes += bytes;
        queue.entries.push_back(Arc::downgrade(entry));
        if entry.may_grow() {
            self.growing.push_back(Arc::downgrade(entry));
        }
        self.measure();
    }

    /// Forgets an entry that left the index otherwise than by eviction. O(1) amortised.
    pub(crate) fn remove(&mut self, entry: &E) {
        let usage = entry.usage();
        let queue = match usage.place.swap(GONE, Relaxed) {
            SMALL => &mut self.small,
            MAIN => &mut self.main,
            _ => return,
        };
        queue.bytes -= usage.counted_bytes.swap(0, Relaxed);
        queue.dead += 1;
        let (dead, len) = (queue.dead, queue.entries.len());
        if len >= COMPACTION_FLOOR_ENTRIES && dead * 2 > len {
            queue.compact(&mut self.dropped);
            compact(&mut self.growing, &mut self.dropped);
        }
    }

    /// Takes the next victim out of the queues; the caller removes it from the index. `patience`
    /// is the busiest entry that may be chosen. `None` where there is no such entry within
    /// [`STEPS_MAX`] steps.
    pub(crate) fn evict(&mut self, patience: Busy) -> Option<Arc<E>> {
        self.measure();
        let (mut small_busy, mut main_busy) = (0, 0);
        for step in 0..STEPS_MAX {
            let sparing = step < STEPS_MAX / 2;
            let small_left = self.small.live() > small_busy;
            let main_left = self.main.live() > main_busy;
            let from_small = match (small_left, main_left) {
                (false, false) => return None,
                (true, true) => self.small_is_over_share(),
                (small_left, _) => small_left,
            };
            let outcome = if from_small {
                self.step_small(patience, sparing)
            } else {
                self.step_main(patience, sparing)
            };
            match outcome {
                Step::Victim(entry) => return Some(entry),
                Step::Moved => {}
                Step::Busy if from_small => small_busy += 1,
                Step::Busy => main_busy += 1,
            }
        }
        None
    }

    /// References that calls came to hold and that may be the last ones. The caller drops them
    /// after it released the lock around the queues, since that frees memory.
    #[must_use]
    pub(crate) fn take_dropped(&mut self) -> Vec<Arc<E>> {
        std::mem::take(&mut self.dropped)
    }

    /// Entries that are resident.
    pub(crate) fn len(&self) -> usize {
        self.small.live() + self.main.live()
    }

    /// Bytes of resident entries as last measured: what grows is behind by a little.
    pub(crate) fn bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }

    fn small_is_over_share(&self) -> bool {
        let floor = SMALL_FLOOR_ENTRIES.min(self.len() / 2);
        self.small.live() > floor
            && self.small.bytes as f64 >= self.small_share * self.bytes() as f64
    }

    fn step_small(&mut self, patience: Busy, sparing: bool) -> Step<E> {
        let Some(entry) = self.small.pop(&mut self.dropped) else { return Step::Moved };
        if entry.busy() > patience {
            self.small.push(entry);
            return Step::Busy;
        }
        let usage = entry.usage();
        // One use since it came is enough: of what is used once more most is used again.
        if sparing && usage.frequency.swap(0, Relaxed) >= 1 {
            let bytes = usage.counted_bytes.load(Relaxed);
            self.small.bytes -= bytes;
            self.main.bytes += bytes;
            usage.place.store(MAIN, Relaxed);
            self.main.push(entry);
            return Step::Moved;
        }
        self.small.release(&*entry);
        let ghosts_max = self.len().max(GHOST_FLOOR_ENTRIES);
        self.ghost.remember(entry.fingerprint(), ghosts_max);
        Step::Victim(entry)
    }

    fn step_main(&mut self, patience: Busy, sparing: bool) -> Step<E> {
        let Some(entry) = self.main.pop(&mut self.dropped) else { return Step::Moved };
        if entry.busy() > patience {
            self.main.push(entry);
            return Step::Busy;
        }
        let usage = entry.usage();
        let frequency = usage.frequency.load(Relaxed);
        if sparing && frequency > 0 {
            usage.frequency.store(frequency - 1, Relaxed);
            self.main.push(entry);
            return Step::Moved;
        }
        self.main.release(&*entry);
        Step::Victim(entry)
    }

    /// Counts again what a few of the growing entries hold.
    fn measure(&mut self) {
        for _ in 0..MEASURED_PER_CALL.min(self.growing.len()) {
            let Some(entry) = self.growing.pop_front().and_then(|weak| weak.upgrade()) else {
                continue;
            };
            let usage = entry.usage();
            let queue = match usage.place.load(Relaxed) {
                SMALL => &mut self.small,
                MAIN => &mut self.main,
                _ => {
                    self.dropped.push(entry);
                    continue;
                }
            };
            // Asked before the bytes are read, so that the last bytes are not missed.
            let may_grow = entry.may_grow();
            let bytes = entry.bytes();
            queue.bytes = queue.bytes - usage.counted_bytes.swap(bytes, Relaxed) + bytes;
            if may_grow {
                self.growing.push_back(Arc::downgrade(&entry));
            }
        }
    }
}

impl<E: Resident> Queue<E> {
    fn new() -> Self {
        Self { entries: VecDeque::new(), dead: 0, bytes: 0 }
    }

    fn live(&self) -> usize {
        self.entries.len() - self.dead
    }

    fn push(&mut self, entry: Arc<E>) {
        self.entries.push_back(Arc::downgrade(&entry));
        // The index holds the entry as long as it is in a queue, or its remover does while it
        // waits for the lock, so this is not the last reference.
        drop(entry);
    }

    /// The oldest live entry; its bytes stay counted.
    fn pop(&mut self, dropped: &mut Vec<Arc<E>>) -> Option<Arc<E>> {
        while let Some(weak) = self.entries.pop_front() {
            match weak.upgrade() {
                Some(entry) if entry.usage().place.load(Relaxed) != GONE => return Some(entry),
                Some(entry) => dropped.push(entry),
                None => {}
            }
            self.dead -= 1;
        }
        None
    }

    fn release(&mut self, entry: &E) {
        entry.usage().place.store(GONE, Relaxed);
        self.bytes -= entry.usage().counted_bytes.swap(0, Relaxed);
    }

    fn compact(&mut self, dropped: &mut Vec<Arc<E>>) {
        compact(&mut self.entries, dropped);
        self.dead = 0;
    }
}

/// Keeps what is still in a queue.
fn compact<E: Resident>(entries: &mut VecDeque<Weak<E>>, dropped: &mut Vec<Arc<E>>) {
    entries.retain(|weak| match weak.upgrade() {
        Some(entry) if entry.usage().place.load(Relaxed) != GONE => true,
        Some(entry) => {
            dropped.push(entry);
            false
        }
        None => false,
    });
    entries.shrink_to(entries.len() * 2);
}

#[cfg(test)]
#[path = "fifo_tests.rs"]
mod tests;
