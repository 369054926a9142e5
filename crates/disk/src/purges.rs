//! What was purged, for everything that is older: content on disks that come back, insertions
//! whose fetch began before, tags.
//!
//! A purge leaves a mark with its number; an object carries the number at which its fetch began.
//! The object is purged when a mark of its key, of one of its tags or of everything has a higher
//! number. Marks are bounded: forgetting one raises a floor below which content is refused.

use super::limits::NUMBER_MAX;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

/// The order of purges and insertions over all disks of a node: microseconds of the wall clock, or
/// the number after the last where that is not larger.
#[derive(Debug, Default)]
pub struct Sequence {
    last: AtomicU64,
}

impl Sequence {
    /// The next number, above all before.
    pub fn next(&self, now_us: u64) -> u64 {
        let before = self.last.fetch_update(Relaxed, Relaxed, |last| Some(now_us.max(last + 1)));
        now_us.max(before.unwrap_or(0) + 1)
    }

    /// The last number given out.
    pub fn last(&self) -> u64 {
        self.last.load(Relaxed)
    }

    /// Never gives out this number or one below it, but for numbers that nobody gives out.
    pub fn raise(&self, seen: u64) {
        self.last.fetch_max(seen.min(NUMBER_MAX), Relaxed);
    }
}

/// What a purge is about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Target {
    /// All variants of the resource with this hash of its key.
    Key(u64),
    /// All objects with this tag.
    Tag(u64),
    /// Everything.
    All,
}

/// What a soft purge leaves of older objects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Soft {
    /// From when on they are stale, Unix milliseconds.
    pub from_ms: u64,
    /// For how long they may be served then, milliseconds; `None` for as long as they say. Above
    /// [`GRACE_MS_MAX`] it is that.
    pub grace_ms: Option<u64>,
}

/// The longest time to be served stale that a mark can say: there are 32 bits for it, 49 days.
pub const GRACE_MS_MAX: u64 = (u32::MAX - GRACE_FROM) as u64;
/// What a mark without a grace is written with. Zero is a purge that leaves nothing.
const SOFT: u32 = 1;
/// What a grace of 0 is written as. Programs that know none take such a mark for one that leaves
/// nothing.
const GRACE_FROM: u32 = 2;

impl Soft {
    /// What is written of a mark beside a time.
    pub(super) fn word(soft: Option<Self>) -> u32 {
        match soft.map(|soft| soft.grace_ms) {
            None => 0,
            Some(None) => SOFT,
            Some(Some(grace)) => GRACE_FROM + grace.min(GRACE_MS_MAX) as u32,
        }
    }

    /// From [`Soft::word`] and the time.
    pub(super) fn from_word(word: u32, from_ms: u64) -> Option<Self> {
        let grace_ms = word.checked_sub(GRACE_FROM).map(u64::from);
        (word != 0).then_some(Self { from_ms, grace_ms })
    }

    /// What is left by both of two.
    fn and(self, other: Self) -> Self {
        let grace_ms = self.grace_ms.into_iter().chain(other.grace_ms).min();
        Self { from_ms: self.from_ms.min(other.from_ms), grace_ms }
    }
}

/// A purge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mark {
    /// What it is about.
    pub target: Target,
    /// When, in the order of [`Sequence`].
    pub seq: u64,
    /// What it leaves, where it is a soft one.
    pub soft: Option<Soft>,
}

/// What marks say of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Nothing.
    Good,
    /// It was softly purged.
    Stale(Soft),
    /// It is gone.
    Purged,
}

/// Marks of one target.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    hard: u64,
    /// Of the last soft one, what it left.
    soft: Option<(u64, Soft)>,
}

impl Times {
    fn note(&mut self, mark: &Mark) {
        match mark.soft {
            None => self.hard = self.hard.max(mark.seq),
            Some(soft) if mark.seq > self.last_soft() => self.soft = Some((mark.seq, soft)),
            Some(_) => {}
        }
    }

    fn last_soft(&self) -> u64 {
        self.soft.map_or(0, |(seq, _)| seq)
    }

    fn verdict(&self, born: u64) -> Verdict {
        match self.soft {
            _ if self.hard > born => Verdict::Purged,
            Some((seq, soft)) if seq > born => Verdict::Stale(soft),
            _ => Verdict::Good,
        }
    }
}

/// What forgotten marks leave behind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Floors {
    /// An insertion whose fetch began before this, and content of a disk that was away, may have
    /// been purged by a mark that was forgotten.
    pub any: u64,
    /// The same for content that is looked up: by a tag, by everything, softly or by a note. Hard
    /// purges of keys take records out of the index at once.
    pub looked_up: u64,
}

/// All marks of a node. Shared by its disks.
#[derive(Debug)]
pub struct Purges {
    inner: RwLock<Inner>,
}

#[derive(Debug)]
struct Inner {
    targets: BTreeMap<Target, Times>,
    order: VecDeque<Mark>,
    marks_max: usize,
    floors: Floors,
    /// The highest number seen.
    last: u64,
}

impl Purges {
    /// No marks yet; `marks_max` are remembered.
    pub fn new(marks_max: usize) -> Self {
        let inner = Inner {
            targets: BTreeMap::new(),
            order: VecDeque::new(),
            marks_max: marks_max.max(1),
            floors: Floors::default(),
            last: 0,
        };
        Self { inner: RwLock::new(inner) }
    }

    /// Notes a purge. One that is known already changes nothing.
    pub fn note(&self, mark: Mark) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.last = inner.last.max(mark.seq);
        let times = inner.targets.entry(mark.target).or_default();
        if times.hard >= mark.seq || times.last_soft() == mark.seq {
            return;
        }
        times.note(&mark);
        // Marks of other disks may be older than what is there: the order is that of numbers.
        let at = inner.order.partition_point(|other| other.seq < mark.seq);
        inner.order.insert(at, mark);
        while inner.order.len() > inner.marks_max {
            let Some(oldest) = inner.order.pop_front() else { break };
            inner.floors.any = inner.floors.any.max(oldest.seq);
            if !matches!(oldest, Mark { target: Target::Key(_), soft: None, .. }) {
                inner.floors.looked_up = inner.floors.looked_up.max(oldest.seq);
            }
            let newest = inner.targets.get(&oldest.target);
            if newest.is_some_and(|times| times.hard.max(times.last_soft()) <= oldest.seq) {
                inner.targets.remove(&oldest.target);
            }
        }
    }

    /// Takes over floors that were known before.
    pub fn raise_floors(&self, floors: Floors) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.floors.any = inner.floors.any.max(floors.any);
        inner.floors.looked_up = inner.floors.looked_up.max(floors.looked_up);
        inner.last = inner.last.max(floors.any).max(floors.looked_up);
    }

    /// What holds for an object of a key with these tags that was born then.
    pub fn verdict(&self, key: u64, tags: &[u64], born: u64) -> Verdict {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        if inner.last <= born {
            return Verdict::Good;
        }
        if born < inner.floors.looked_up {
            return Verdict::Purged;
        }
        let targets = [Target::All, Target::Key(key)];
        let tags = tags.iter().map(|tag| Target::Tag(*tag));
        let mut verdict = Verdict::Good;
        for target in targets.into_iter().chain(tags) {
            let Some(times) = inner.targets.get(&target) else { continue };
            match times.verdict(born) {
                Verdict::Good => {}
                Verdict::Purged => return Verdict::Purged,
                Verdict::Stale(soft) => {
                    verdict = match verdict {
                        Verdict::Stale(before) => Verdict::Stale(before.and(soft)),
                        _ => Verdict::Stale(soft),
                    };
                }
            }
        }
        verdict
    }

    /// Below which content cannot be told from purged content by the marks that are left.
    pub fn floors(&self) -> Floors {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).floors
    }

    /// The marks after `seq`, oldest first.
    pub fn since(&self, seq: u64) -> Vec<Mark> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.order.iter().filter(|mark| mark.seq > seq).copied().collect()
    }

    /// The number of the newest.
    pub fn last(&self) -> u64 {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(target: Target, seq: u64, from_ms: Option<u64>) -> Mark {
        let soft = from_ms.map(|from_ms| Soft { from_ms, grace_ms: None });
        Mark { target, seq, soft }
    }

    #[test]
    fn what_is_older_than_its_purge_is_purged() {
        let purges = Purges::new(100);
        purges.note(mark(Target::Key(1), 10, None));
        purges.note(mark(Target::Tag(2), 20, Some(5)));
        assert_eq!(purges.verdict(1, &[], 9), Verdict::Purged);
        assert_eq!(purges.verdict(1, &[], 10), Verdict::Good);
        let stale = Verdict::Stale(Soft { from_ms: 5, grace_ms: None });
        assert_eq!(purges.verdict(3, &[2], 19), stale);
        assert_eq!(purges.verdict(3, &[2], 20), Verdict::Good);
        purges.note(mark(Target::All, 30, None));
        assert_eq!(purges.verdict(3, &[], 29), Verdict::Purged);
    }

    #[test]
    fn of_several_soft_purges_the_least_is_left_and_of_one_target_the_last_counts() {
        let purges = Purges::new(100);
        let left = |from_ms, grace_ms| Soft { from_ms, grace_ms };
        let note = |target, seq, soft| purges.note(Mark { target, seq, soft: Some(soft) });
        note(Target::Key(1), 10, left(70, Some(3)));
        note(Target::Key(1), 20, left(80, Some(9)));
        note(Target::Tag(2), 30, left(90, None));
        assert_eq!(purges.verdict(1, &[], 0), Verdict::Stale(left(80, Some(9))));
        assert_eq!(purges.verdict(1, &[2], 0), Verdict::Stale(left(80, Some(9))));
        note(Target::All, 40, left(95, Some(4)));
        assert_eq!(purges.verdict(1, &[2], 0), Verdict::Stale(left(80, Some(4))));
        assert_eq!(purges.verdict(1, &[2], 39), Verdict::Stale(left(95, Some(4))));
    }

    #[test]
    fn what_a_soft_purge_leaves_is_one_word_and_a_time() {
        for grace_ms in [None, Some(0), Some(1500), Some(GRACE_MS_MAX)] {
            let soft = Soft { from_ms: 7, grace_ms };
            assert_eq!(Soft::from_word(Soft::word(Some(soft)), 7), Some(soft));
        }
        assert_eq!(Soft::from_word(Soft::word(None), 0), None);
        let longer = Soft { from_ms: 7, grace_ms: Some(u64::MAX) };
        let longest = Soft { grace_ms: Some(GRACE_MS_MAX), ..longer };
        assert_eq!(Soft::from_word(Soft::word(Some(longer)), 7), Some(longest));
    }

    #[test]
    fn a_forgotten_mark_raises_the_floor() {
        let purges = Purges::new(2);
        for seq in 1..=4 {
            purges.note(mark(Target::Key(seq), seq, None));
        }
        assert_eq!(purges.floors(), Floors { any: 2, looked_up: 0 });
        assert_eq!(purges.verdict(1, &[], 0), Verdict::Good);
        assert_eq!(purges.verdict(4, &[], 0), Verdict::Purged);
        assert_eq!(purges.since(3).len(), 1);
    }

    #[test]
    fn numbers_rise_whatever_the_clock_does() {
        let sequence = Sequence::default();
        assert_eq!(sequence.next(100), 100);
        assert_eq!(sequence.next(50), 101);
        sequence.raise(500);
        assert_eq!(sequence.next(200), 501);
    }
}
