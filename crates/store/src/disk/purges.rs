//! What was purged, for everything that is older: content on disks that come back, insertions
//! whose fetch began before, tags.
//!
//! A purge leaves a mark with its number; an object carries the number at which its fetch began.
//! The object is purged when a mark of its key, of one of its tags or of everything has a higher
//! number. Marks are bounded: forgetting one raises a floor below which content is refused.

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

    /// Never gives out this number or one below it.
    pub fn raise(&self, seen: u64) {
        self.last.fetch_max(seen, Relaxed);
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

/// A purge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mark {
    /// What it is about.
    pub target: Target,
    /// When, in the order of [`Sequence`].
    pub seq: u64,
    /// A soft purge's time, Unix milliseconds: older objects are stale from then on.
    pub soft_ms: Option<u64>,
}

/// What marks say of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Nothing.
    Good,
    /// It is stale since this time, Unix milliseconds.
    Stale(u64),
    /// It is gone.
    Purged,
}

/// Marks of one target.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    hard: u64,
    soft: u64,
    soft_ms: u64,
}

impl Times {
    fn note(&mut self, mark: &Mark) {
        match mark.soft_ms {
            None => self.hard = self.hard.max(mark.seq),
            Some(at) if mark.seq > self.soft => (self.soft, self.soft_ms) = (mark.seq, at),
            Some(_) => {}
        }
    }

    fn verdict(&self, born: u64) -> Verdict {
        if self.hard > born {
            Verdict::Purged
        } else if self.soft > born {
            Verdict::Stale(self.soft_ms)
        } else {
            Verdict::Good
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
        if times.hard >= mark.seq || times.soft == mark.seq {
            return;
        }
        times.note(&mark);
        // Marks of other disks may be older than what is there: the order is that of numbers.
        let at = inner.order.partition_point(|other| other.seq < mark.seq);
        inner.order.insert(at, mark);
        while inner.order.len() > inner.marks_max {
            let Some(oldest) = inner.order.pop_front() else { break };
            inner.floors.any = inner.floors.any.max(oldest.seq);
            if !matches!(oldest, Mark { target: Target::Key(_), soft_ms: None, .. }) {
                inner.floors.looked_up = inner.floors.looked_up.max(oldest.seq);
            }
            let newest = inner.targets.get(&oldest.target);
            if newest.is_some_and(|times| times.hard.max(times.soft) <= oldest.seq) {
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
                Verdict::Stale(at) => {
                    verdict = match verdict {
                        Verdict::Stale(before) => Verdict::Stale(before.min(at)),
                        _ => Verdict::Stale(at),
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

    fn mark(target: Target, seq: u64, soft_ms: Option<u64>) -> Mark {
        Mark { target, seq, soft_ms }
    }

    #[test]
    fn what_is_older_than_its_purge_is_purged() {
        let purges = Purges::new(100);
        purges.note(mark(Target::Key(1), 10, None));
        purges.note(mark(Target::Tag(2), 20, Some(5)));
        assert_eq!(purges.verdict(1, &[], 9), Verdict::Purged);
        assert_eq!(purges.verdict(1, &[], 10), Verdict::Good);
        assert_eq!(purges.verdict(3, &[2], 19), Verdict::Stale(5));
        assert_eq!(purges.verdict(3, &[2], 20), Verdict::Good);
        purges.note(mark(Target::All, 30, None));
        assert_eq!(purges.verdict(3, &[], 29), Verdict::Purged);
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
