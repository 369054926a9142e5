//! A set of frame numbers that finds its first and last member in a few steps.

/// A bitmap with summaries: bit `n` of level `k + 1` says that word `n` of level `k` is not zero.
/// All operations take one step a level, three for 512 GiB.
pub(crate) struct FrameSet {
    levels: Vec<Vec<u64>>,
}

impl FrameSet {
    /// An empty set for members below `len`.
    pub(crate) fn new(len: u32) -> Self {
        let mut words = (len as usize).div_ceil(64).max(1);
        let mut levels = vec![vec![0; words]];
        while words > 1 {
            words = words.div_ceil(64);
            levels.push(vec![0; words]);
        }
        Self { levels }
    }

    pub(crate) fn insert(&mut self, member: u32) {
        let mut at = member as usize;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let was_empty = *word == 0;
            *word |= 1 << (at % 64);
            if !was_empty {
                return;
            }
            at /= 64;
        }
    }

    pub(crate) fn remove(&mut self, member: u32) {
        let mut at = member as usize;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    pub(crate) fn contains(&self, member: u32) -> bool {
        let words = self.levels.first().map(Vec::as_slice).unwrap_or_default();
        words.get(member as usize / 64).is_some_and(|word| word & 1 << (member % 64) != 0)
    }

    pub(crate) fn first(&self) -> Option<u32> {
        self.descend(u64::trailing_zeros)
    }

    pub(crate) fn last(&self) -> Option<u32> {
        self.descend(|word| 63 - word.leading_zeros())
    }

    pub(crate) fn heap_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.len() as u64 * 8).sum()
    }

    fn descend(&self, pick: impl Fn(u64) -> u32) -> Option<u32> {
        let top = self.levels.last()?.first()?;
        if *top == 0 {
            return None;
        }
        Some(self.levels.iter().rev().fold(0, |at, level| at * 64 + pick(level[at as usize])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn first_and_last_are_those_of_an_ordered_set(
            steps in prop::collection::vec((any::<bool>(), 0u32..5000), 1..300)
        ) {
            let mut set = FrameSet::new(5000);
            let mut model = BTreeSet::new();
            for (insert, member) in steps {
                if insert {
                    set.insert(member);
                    model.insert(member);
                } else if model.remove(&member) {
                    set.remove(member);
                }
                prop_assert_eq!(set.contains(member), insert);
                prop_assert_eq!(set.first(), model.first().copied());
                prop_assert_eq!(set.last(), model.last().copied());
            }
        }
    }
}
