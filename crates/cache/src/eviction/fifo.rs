//! The order of eviction: a small and a main queue and ghosts, by bytes.
//!
//! New entries go through a small queue. What proves itself there moves to the main queue, what
//! does not leaves and is remembered as a ghost. Entries of the main queue that were used since
//! their last turn get credit for another. A [`Tactic`] says what it takes to get in and what uses
//! are worth, each entry's [`Objective`] whether its size matters. A hit only raises a counter in
//! the entry itself, so the hit path takes no lock of this structure.
//!
//! Nothing here is random or reads a clock: the same calls give the same victims.

use super::ghost::{Ghost, Memory};
use super::queue::{Queue, Wheel, compact};
use super::tactic::{Admission, Objective, Tactic, Worth};
use crate::lock::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

/// The counter of uses since an entry's last turn saturates here. Most of what is used more often
/// between two turns stays in any case.
const FREQUENCY_MAX: u8 = 15;

/// Instead of the counter: the entry is in no queue here.
const ELSEWHERE: u8 = FREQUENCY_MAX + 1;

/// Instead of the counter: the entry was brought for a use that is still to come, which is its first.
const AWAITED: u8 = ELSEWHERE + 1;

/// Uses that count for [`Worth::Recent`]: two bits, as S3-FIFO has it. More keep what was once
/// popular for longer and did not raise hit ratios in its authors' measurements.
const RECENT_MAX: u8 = 3;

/// Uses that count in a contest: four bits, as TinyLFU's sketch has it, so that what was most
/// popular once does not win for ever.
const CONTEST_MAX: u8 = 15;

/// The counts of a contest are halved each time this many entries came for each that is resident.
const EPOCH_TURNOVERS: usize = 2;

/// Epochs that go by when contests begin: of the uses of before none or one is left to what is
/// resident, or it would win against all that comes for as long as the cache takes to fill often.
const EPOCHS_PER_CHANGE: u16 = 3;

/// Credit for one use of an object of mean size, in ticks. Objects up to this many times larger
/// than the mean are still told apart by size.
const TICKS_PER_USE: u64 = 16;

/// The small queue is not drained below this many entries (or half of all, where there are few):
/// with fewer it is too short for a second use to happen in it, and becomes worse than plain FIFO.
const SMALL_FLOOR_ENTRIES: usize = 64;

/// Ghosts are remembered for at least this many entries, otherwise for as many as are resident.
const GHOST_FLOOR_ENTRIES: usize = 64;

/// The longest walk for one victim. Past half of it the counters of uses no longer spare an entry,
/// at its end the walk gives up and the caller asks again with less patience. It bounds the time
/// under the lock to some milliseconds however many entries are in use.
const STEPS_MAX: usize = 1 << 16;

/// Entries measured again per insertion. More than one, so that the list of what still grows is
/// walked faster than it gets longer.
const MEASURED_PER_INSERTION: usize = 4;

/// Entries measured again per eviction: most of what grows at a time. What came together and grew
/// since is else counted with nothing, and what is hot taken for all there is.
const MEASURED_PER_EVICTION: usize = 64;

/// What the queue needs of an entry.
pub(crate) trait Resident {
    /// Where the entry keeps what the queue knows of it.
    fn usage(&self) -> &Usage;
    /// Bytes that would come free with it.
    fn bytes(&self) -> u64;
    /// Bytes it will have when it stops growing, as far as that is known.
    fn bytes_expected(&self) -> u64;
    /// Whether [`Resident::bytes`] may still grow.
    fn may_grow(&self) -> bool;
    /// What stands in the way of evicting it.
    fn busy(&self) -> Busy;
    /// A hash of its identity, the same when it is fetched again after an eviction.
    fn fingerprint(&self) -> u64;
    /// What a use of it counts for, the same for as long as it lives.
    fn objective(&self) -> Objective;
    /// Hears that the queues count it from now on, with what it will have, or with 0 as it has left.
    fn note_counted(&self, _bytes: u64) {}
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
    pub(super) place: AtomicU8,
    total: AtomicU8,
    /// The epoch `total` was last halved for.
    epoch: AtomicU16,
    counted_bytes: AtomicU64,
}

const NOT_YET: u8 = 0;
const SMALL: u8 = 1;
const MAIN: u8 = 2;
pub(super) const GONE: u8 = 3;

impl Usage {
    /// Counts a use; false where they are counted elsewhere. Two at once may count as one, which no
    /// eviction notices.
    #[inline]
    pub(crate) fn touch(&self) -> bool {
        let frequency = self.frequency.load(Relaxed);
        if frequency < FREQUENCY_MAX {
            self.frequency.store(frequency + 1, Relaxed);
            return true;
        }
        if frequency == AWAITED {
            self.frequency.store(0, Relaxed);
            return true;
        }
        frequency == FREQUENCY_MAX
    }

    /// Has the next use be the one the entry was brought for: what is brought because it is asked for has
    /// had that use, and starts with none.
    pub(crate) fn await_first(&self) {
        self.frequency.store(AWAITED, Relaxed);
    }

    /// Has uses of an entry that is in no queue counted elsewhere.
    pub(crate) fn leave(&self) {
        self.frequency.store(ELSEWHERE, Relaxed);
    }

    /// Lets an entry that left the queues by eviction come to them again, with so many uses.
    pub(crate) fn come_back(&self, uses: u8) {
        self.set_frequency(uses);
        self.place.store(NOT_YET, Relaxed);
    }

    /// Sets the counter of uses.
    pub(crate) fn set_frequency(&self, uses: u8) {
        self.frequency.store(uses.min(FREQUENCY_MAX), Relaxed);
    }

    /// Whether the entry has earned its place in the main queue.
    pub(crate) fn is_proven(&self) -> bool {
        self.place.load(Relaxed) == MAIN
    }

    /// Whether the use the entry was brought for is still to come.
    pub(crate) fn is_awaited(&self) -> bool {
        self.frequency.load(Relaxed) == AWAITED
    }

    /// Uses counted since the entry's last turn, which begins again.
    fn take_frequency(&self) -> u8 {
        if self.is_awaited() { 0 } else { self.frequency.swap(0, Relaxed) }
    }

    /// Uses counted since the entry's last turn, 0 to 15.
    pub(crate) fn frequency(&self) -> u8 {
        match self.frequency.load(Relaxed) {
            AWAITED => 0,
            uses => uses,
        }
    }
}

/// The queues. `E`'s last reference may be dropped by a call, see [`S3Fifo::take_dropped`].
#[derive(Debug)]
pub(crate) struct S3Fifo<E> {
    small: Queue<E>,
    main: Wheel<E>,
    ghost: Ghost,
    growing: VecDeque<Weak<E>>,
    dropped: Vec<Arc<E>>,
    /// What came lately and counts requests.
    by_request: Came,
    tactic: Tactic,
    epoch: u16,
    /// Entries that came in this epoch.
    came: usize,
}

/// Entries that came, those of each epoch before this one counted half as much as those after.
#[derive(Debug, Default)]
struct Came {
    entries: u64,
    bytes: u64,
}

/// What one step along a queue came to.
enum Step<E> {
    Victim(Arc<E>),
    BusySmall,
    BusyMain,
    Moved,
}

impl<E: Resident> S3Fifo<E> {
    /// Does something with the queues and drops what they let go after their lock.
    pub(crate) fn with<R>(queues: &Mutex<Self>, act: impl FnOnce(&mut Self) -> R) -> R {
        let mut locked = lock(queues);
        let result = act(&mut locked);
        let dropped = locked.take_dropped();
        drop(locked);
        drop(dropped);
        result
    }

    /// Empty queues.
    pub(crate) fn new(tactic: Tactic) -> Self {
        Self {
            small: Queue::new(),
            main: Wheel::new(),
            ghost: Ghost::default(),
            growing: VecDeque::new(),
            dropped: Vec::new(),
            by_request: Came::default(),
            tactic,
            epoch: 0,
            came: 0,
        }
    }

    /// Runs the queues in another way from now on. Nothing is evicted at once, but what earned its
    /// place by rules that no longer hold has to earn it again. O(credit).
    pub(crate) fn set_tactic(&mut self, tactic: Tactic) {
        if (self.tactic.worth, tactic.worth) == (Worth::Total, Worth::Recent) {
            self.main.limit_credit(u64::from(RECENT_MAX) * TICKS_PER_USE);
        }
        if tactic.admission == Admission::Contest {
            self.epoch = self.epoch.wrapping_add(EPOCHS_PER_CHANGE);
        }
        self.tactic = tactic;
    }

    pub(crate) fn tactic(&self) -> Tactic {
        self.tactic
    }

    /// Adds an entry, unless it was removed before it ever came here. O(1) amortised.
    pub(crate) fn push(&mut self, entry: &Arc<E>) {
        let usage = entry.usage();
        if usage.place.load(Relaxed) != NOT_YET {
            return;
        }
        self.came += 1;
        if self.came > EPOCH_TURNOVERS * self.len().max(SMALL_FLOOR_ENTRIES) {
            (self.came, self.epoch) = (0, self.epoch.wrapping_add(1));
            self.by_request.entries /= 2;
            self.by_request.bytes /= 2;
        }
        usage.epoch.store(self.epoch, Relaxed);
        let bytes = entry.bytes();
        usage.counted_bytes.store(bytes, Relaxed);
        entry.note_counted(entry.bytes_expected());
        if entry.objective() == Objective::Requests {
            self.by_request.entries += 1;
            self.by_request.bytes += entry.bytes_expected();
        }
        let known = self.ghost.recall(entry.fingerprint());
        let at_once = match self.tactic.admission {
            Admission::Uses(_) => known.is_some(),
            Admission::Contest => {
                let uses = known.map_or(0, |memory| self.faded(memory.uses, memory.epoch));
                usage.total.store(uses, Relaxed);
                false
            }
            Admission::Direct => true,
        };
        if at_once {
            self.promote(entry);
        } else {
            usage.place.store(SMALL, Relaxed);
            self.small.bytes += bytes;
            self.small.push(entry);
        }
        if entry.may_grow() {
            self.growing.push_back(Arc::downgrade(entry));
        }
        self.measure(MEASURED_PER_INSERTION);
    }

    /// Forgets an entry that left the index otherwise than by eviction. O(1) amortised.
    pub(crate) fn remove(&mut self, entry: &E) {
        let usage = entry.usage();
        let place = usage.place.swap(GONE, Relaxed);
        let bytes = usage.counted_bytes.swap(0, Relaxed);
        entry.note_counted(0);
        let is_compacted = match place {
            SMALL => {
                self.small.bytes -= bytes;
                self.small.bury(&mut self.dropped)
            }
            MAIN => {
                self.main.bytes -= bytes;
                self.main.bury(&mut self.dropped)
            }
            _ => return,
        };
        if is_compacted {
            compact(&mut self.growing, &mut self.dropped);
        }
    }

    /// Takes the next victim out of the queues; the caller removes it from the index. `patience`
    /// is the busiest entry that may be chosen. `None` where there is no such entry within
    /// [`STEPS_MAX`] steps.
    pub(crate) fn evict(&mut self, patience: Busy) -> Option<Arc<E>> {
        self.measure(MEASURED_PER_EVICTION);
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
                self.step_small(patience, sparing, main_left)
            } else {
                self.step_main(patience, sparing)
            };
            match outcome {
                Step::Victim(entry) => return Some(entry),
                Step::Moved => {}
                Step::BusySmall => small_busy += 1,
                Step::BusyMain => main_busy += 1,
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

    /// Counts again what an entry holds.
    pub(crate) fn recount(&mut self, entry: &E) {
        let usage = entry.usage();
        let queue_bytes = match usage.place.load(Relaxed) {
            SMALL => &mut self.small.bytes,
            MAIN => &mut self.main.bytes,
            _ => return,
        };
        let bytes = entry.bytes();
        *queue_bytes = *queue_bytes - usage.counted_bytes.swap(bytes, Relaxed) + bytes;
        entry.note_counted(entry.bytes_expected());
    }

    fn small_is_over_share(&self) -> bool {
        let floor = match self.tactic.admission {
            // What is there came under another tactic.
            Admission::Direct => 0,
            _ => SMALL_FLOOR_ENTRIES.min(self.len() / 2),
        };
        self.small.live() > floor
            && self.small.bytes as f64 >= self.tactic.small_share * self.bytes() as f64
    }

    fn step_small(&mut self, patience: Busy, sparing: bool, main_left: bool) -> Step<E> {
        let Some(entry) = self.small.pop(&mut self.dropped) else { return Step::Moved };
        if entry.busy() > patience {
            self.small.push(&entry);
            return Step::BusySmall;
        }
        let usage = entry.usage();
        let bytes = usage.counted_bytes.load(Relaxed);
        let enters = match self.tactic.admission {
            Admission::Uses(enough) => sparing && usage.frequency() >= enough,
            Admission::Direct => sparing && usage.frequency() >= 1,
            Admission::Contest => {
                let main_share = 1.0 - self.tactic.small_share;
                let is_full = (self.main.bytes + bytes) as f64 > main_share * self.bytes() as f64;
                if is_full && main_left {
                    return self.contest(entry, patience, sparing);
                }
                !is_full
            }
        };
        if enters {
            self.small.bytes -= bytes;
            self.promote(&entry);
            return Step::Moved;
        }
        self.let_go(entry, true)
    }

    /// The oldest of the small queue against the next to leave the main one.
    fn contest(&mut self, candidate: Arc<E>, patience: Busy, sparing: bool) -> Step<E> {
        let Some(holder) = self.main.pop(&mut self.dropped) else {
            self.small.unpop(&candidate);
            return Step::Moved;
        };
        if holder.busy() > patience || (sparing && holder.usage().frequency() > 0) {
            let step = self.another_turn(&holder, patience);
            self.small.unpop(&candidate);
            return step;
        }
        if self.uses(candidate.usage()) <= self.uses(holder.usage()) {
            self.main.unpop(&holder);
            return self.let_go(candidate, true);
        }
        self.small.bytes -= candidate.usage().counted_bytes.load(Relaxed);
        self.promote(&candidate);
        self.let_go(holder, true)
    }

    fn step_main(&mut self, patience: Busy, sparing: bool) -> Step<E> {
        let Some(entry) = self.main.pop(&mut self.dropped) else { return Step::Moved };
        if entry.busy() > patience || (sparing && entry.usage().frequency() > 0) {
            return self.another_turn(&entry, patience);
        }
        let is_remembered = self.tactic.admission == Admission::Contest;
        self.let_go(entry, is_remembered)
    }

    /// Credits an entry of the main queue for its uses, or puts a busy one out of the way.
    fn another_turn(&mut self, entry: &Arc<E>, patience: Busy) -> Step<E> {
        if entry.busy() > patience {
            self.main.push_last(entry);
            return Step::BusyMain;
        }
        let usage = entry.usage();
        let recent = usage.frequency().min(RECENT_MAX);
        let total = self.uses(usage);
        let uses = match self.tactic.worth {
            Worth::Recent => recent,
            Worth::Total => total.saturating_add(1),
        };
        self.main.push(entry, self.credit(&**entry, uses));
        Step::Moved
    }

    /// Adds an entry to the main queue. Its bytes are counted there, and nowhere else.
    fn promote(&mut self, entry: &Arc<E>) {
        let usage = entry.usage();
        let total = self.uses(usage);
        let uses = match self.tactic.worth {
            Worth::Recent => 1,
            Worth::Total => total.saturating_add(1),
        };
        let credit = self.credit(&**entry, uses);
        usage.place.store(MAIN, Relaxed);
        self.main.bytes += usage.counted_bytes.load(Relaxed);
        self.main.push(entry, credit);
    }

    /// Takes an entry that was popped out of the accounts.
    fn let_go(&mut self, entry: Arc<E>, is_remembered: bool) -> Step<E> {
        let usage = entry.usage();
        // That it was brought is a use, unless that is still to come.
        let uses = self.uses(usage).saturating_add(u8::from(!usage.is_awaited()));
        if is_remembered && uses > 0 {
            let memory = Memory { uses, epoch: self.epoch };
            let entries_max = self.len().max(GHOST_FLOOR_ENTRIES);
            self.ghost.remember(entry.fingerprint(), memory, entries_max);
        }
        let bytes = usage.counted_bytes.swap(0, Relaxed);
        entry.note_counted(0);
        match usage.place.swap(GONE, Relaxed) {
            SMALL => self.small.bytes -= bytes,
            _ => self.main.bytes -= bytes,
        }
        Step::Victim(entry)
    }

    /// What a use of an entry of so many bytes is worth, in bytes. A request counts as much as the
    /// mean entry that counts requests is long. So these have about the memory they would have if
    /// they counted bytes, and share it in an order of their own: neither kind drives the other out
    /// by being smaller, or larger. It is the mean of what came, not of what is here, or it would
    /// fall, and the memory with it, the more the short ones stay.
    pub(crate) fn value(&self, objective: Objective, bytes: u64) -> f64 {
        match objective {
            Objective::Requests if self.by_request.entries > 0 => {
                self.by_request.bytes as f64 / self.by_request.entries as f64
            }
            _ => bytes as f64,
        }
    }

    /// All uses of an entry, those since its last turn moved to the rest.
    fn uses(&self, usage: &Usage) -> u8 {
        let recent = usage.take_frequency();
        let before = self.faded(usage.total.load(Relaxed), usage.epoch.swap(self.epoch, Relaxed));
        let total = before.saturating_add(recent);
        let total = match self.tactic.admission {
            Admission::Contest => total.min(CONTEST_MAX),
            _ => total,
        };
        usage.total.store(total, Relaxed);
        total
    }

    /// A count as it is now, if it was `uses` in `epoch`. Only contests need it to fade: elsewhere
    /// the main queue's own time does it.
    fn faded(&self, uses: u8, epoch: u16) -> u8 {
        match self.tactic.admission {
            Admission::Contest => {
                let epochs = u32::from(self.epoch.wrapping_sub(epoch));
                uses.min(CONTEST_MAX).checked_shr(epochs).unwrap_or(0)
            }
            _ => uses,
        }
    }

    /// Ticks in the main queue that `uses` are worth, at least one.
    fn credit(&self, entry: &E, uses: u8) -> u64 {
        let ticks = u64::from(uses) * TICKS_PER_USE;
        match entry.objective() {
            Objective::Bytes => ticks,
            Objective::Requests => {
                let size = entry.bytes_expected().max(1);
                let value = self.value(Objective::Requests, size);
                ((ticks as f64 * value / size as f64) as u64).max(1)
            }
        }
    }

    /// Counts again what so many of the growing entries hold.
    fn measure(&mut self, entries: usize) {
        for _ in 0..entries.min(self.growing.len()) {
            let Some(entry) = self.growing.pop_front().and_then(|weak| weak.upgrade()) else {
                continue;
            };
            if entry.usage().place.load(Relaxed) == GONE {
                self.dropped.push(entry);
                continue;
            }
            // Asked before the bytes are read, so that the last bytes are not missed.
            let may_grow = entry.may_grow();
            self.recount(&entry);
            if may_grow {
                self.growing.push_back(Arc::downgrade(&entry));
            }
        }
    }
}

#[cfg(test)]
#[path = "fifo_tests.rs"]
mod tests;
