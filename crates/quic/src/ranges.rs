//! Sets of numbers as ranges.

use std::ops::Range;

/// A set of numbers that is mostly all there are below one: those, and ranges behind a gap. What comes in
/// order costs no memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Front {
    end: u64,
    ahead: Ranges,
}

/// A set of numbers, kept as ranges in order that do not touch. Adding at the high end costs
/// nothing; elsewhere it costs a move of the ranges above.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ranges(Vec<Range<u64>>);

impl Front {
    /// Adds `range`; false when that leaves a gap before it.
    pub(super) fn insert(&mut self, range: Range<u64>) -> bool {
        if range.start > self.end {
            self.ahead.insert(range);
            return false;
        }
        let end = self.end.max(range.end);
        // Only the last of those that it touches can reach beyond it, and touches none behind.
        let count = self.ahead.0.partition_point(|known| known.start <= end);
        let last = self.ahead.0.drain(..count).next_back();
        self.end = last.map_or(end, |last| last.end.max(end));
        true
    }

    /// Goes on with all below `end` and nothing else.
    pub(super) fn restart_at(&mut self, end: u64) {
        *self = Self { end, ahead: Ranges::new() };
    }

    /// All below this are there, and this is not.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// What is there behind a gap.
    pub(super) fn ahead(&self) -> &Ranges {
        &self.ahead
    }
}

impl Ranges {
    /// The empty set.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds `range`; false when all of it was there.
    pub fn insert(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return false;
        }
        if let Some(last) = self.0.last_mut()
            && (last.start..=last.end).contains(&range.start)
        {
            let grows = range.end > last.end;
            last.end = last.end.max(range.end);
            return grows;
        }
        // The ranges that touch it.
        let first = self.0.partition_point(|known| known.end < range.start);
        let last = first
            + self.0.get(first..).unwrap_or(&[]).partition_point(|known| known.start <= range.end);
        let Some(touched) = self.0.get(first..last).filter(|touched| !touched.is_empty()) else {
            self.0.insert(first, range);
            return true;
        };
        let is_known =
            touched.iter().any(|known| known.start <= range.start && range.end <= known.end);
        let start = touched.first().map_or(range.start, |known| known.start.min(range.start));
        let end = touched.last().map_or(range.end, |known| known.end.max(range.end));
        self.0.splice(first..last, std::iter::once(start..end));
        !is_known
    }

    /// Takes `range` out.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() || self.0.is_empty() {
            return;
        }
        let first = self.0.partition_point(|known| known.end <= range.start);
        let last = first
            + self.0.get(first..).unwrap_or(&[]).partition_point(|known| known.start < range.end);
        let Some(touched) = self.0.get(first..last) else { return };
        let before = touched.first().map(|known| known.start..range.start);
        let after = touched.last().map(|known| range.end..known.end);
        let kept = [before, after].into_iter().flatten().filter(|kept| !kept.is_empty());
        self.0.splice(first..last, kept);
    }

    /// Takes up to `count` numbers from the lowest range.
    pub fn pop_front(&mut self, count: u64) -> Option<Range<u64>> {
        let first = self.0.first_mut()?;
        let taken = first.start..first.end.min(first.start.saturating_add(count));
        first.start = taken.end;
        if first.is_empty() {
            self.0.remove(0);
        }
        Some(taken)
    }

    /// Forgets the lowest ranges until at most `count` are left.
    pub fn truncate_front(&mut self, count: usize) {
        let over = self.0.len().saturating_sub(count);
        self.0.drain(..over);
    }

    /// Forgets all numbers.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether `number` is there.
    pub fn contains(&self, number: u64) -> bool {
        let at = self.0.partition_point(|known| known.end <= number);
        self.0.get(at).is_some_and(|known| known.contains(&number))
    }

    /// The ranges, from the lowest.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Range<u64>> + ExactSizeIterator + Clone {
        self.0.iter()
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest range.
    pub fn first(&self) -> Option<&Range<u64>> {
        self.0.first()
    }

    /// One more than the highest number.
    pub fn end(&self) -> Option<u64> {
        self.0.last().map(|last| last.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(steps in proptest::collection::vec((0..4_u8, 0..60_u64, 0..12_u64), 0..80)) {
            let (mut ranges, mut model) = (Ranges::new(), BTreeSet::new());
            for (step, start, count) in steps {
                match step {
                    0 | 1 => {
                        let grows = (start..start + count).any(|number| !model.contains(&number));
                        prop_assert_eq!(ranges.insert(start..start + count), grows);
                        model.extend(start..start + count);
                    }
                    2 => {
                        ranges.remove(start..start + count);
                        model.retain(|number| !(start..start + count).contains(number));
                    }
                    _ => {
                        if let Some(taken) = ranges.pop_front(count) {
                            model.retain(|number| !taken.contains(number));
                        }
                    }
                }
                let numbers: Vec<u64> = ranges.iter().cloned().flatten().collect();
                prop_assert!(numbers.iter().eq(model.iter()));
                let apart = ranges.0.windows(2).all(|pair| pair[0].end < pair[1].start);
                prop_assert!(apart && ranges.iter().all(|range| !range.is_empty()));
                prop_assert_eq!(ranges.contains(start), model.contains(&start));
            }
        }
    }
}
