//! An index as it was at one moment, taken line by line while it changes.
//!
//! A checkpoint is of one moment, and writing a long index takes seconds. Whoever changes a line that was
//! not taken yet keeps a copy of it first, once; whoever takes it takes the copy. So nobody waits for
//! the whole, and what is kept is no more than what changes meanwhile.

use super::index::LINE_SLOTS;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a snapshot needs beside the index. Whoever uses it holds the lock of those who change the index.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    is_begun: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Lines before this were taken.
    next: u64,
    kept: HashMap<u64, [u64; LINE_SLOTS]>,
}

impl Snapshot {
    pub(super) fn begin(&self) {
        *self.state() = State::default();
        self.is_begun.store(true, Relaxed);
    }

    pub(super) fn end(&self) {
        self.is_begun.store(false, Relaxed);
        *self.state() = State::default();
    }

    #[inline]
    pub(super) fn is_begun(&self) -> bool {
        self.is_begun.load(Relaxed)
    }

    /// Lines that are kept.
    pub(super) fn kept(&self) -> usize {
        self.state().kept.len()
    }

    /// Keeps a line that is about to change, unless it was taken or is kept already.
    pub(super) fn keep(&self, line: u64, copy: impl FnOnce() -> [u64; LINE_SLOTS]) {
        let mut state = self.state();
        if line >= state.next {
            state.kept.entry(line).or_insert_with(copy);
        }
    }

    /// Takes a line; `None` where it is as it was.
    pub(super) fn take(&self, line: u64) -> Option<[u64; LINE_SLOTS]> {
        let mut state = self.state();
        state.next = line + 1;
        if state.kept.is_empty() { None } else { state.kept.remove(&line) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use crate::index::Index;
    use crate::slot::KIND_CHUNK;
    use freshet_base::splitmix::mixed;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whatever is added, moved and taken out meanwhile.
        #[test]
        fn it_is_of_the_moment_it_began(
            seed: u64,
            steps in proptest::collection::vec((1u64..40, 0u64..60, any::<bool>()), 1..30),
        ) {
            let index = Index::new(400).expect("memory for the test");
            let insert = |at: u64| index.insert(mixed(seed ^ at), KIND_CHUNK, at, 1);
            // Full enough for entries to be moved along.
            for at in 0..2_700 {
                insert(at);
            }
            let whole = |index: &Index| {
                let mut words = Vec::new();
                index.take_lines(0..index.lines(), |line| words.extend(line));
                words
            };
            let before = whole(&index);
            index.begin_snapshot();
            let (mut taken, mut line, mut next) = (Vec::new(), 0, 10_000);
            for (lines, changes, adds) in steps {
                for at in 0..changes {
                    next += 1;
                    match adds {
                        true => {
                            insert(next);
                        }
                        false => {
                            let old = mixed(next ^ at) % 2_700;
                            index.remove(mixed(seed ^ old), old);
                        }
                    }
                }
                if changes == 0 {
                    let gone = next % 7;
                    index.remove_where(|slot| slot.units_at() % 7 == gone, |_| {});
                }
                let end = index.lines().min(line + lines);
                index.take_lines(line..end, |line| taken.extend(line));
                line = end;
            }
            index.take_lines(line..index.lines(), |line| taken.extend(line));
            prop_assert!(taken == before);
            prop_assert_eq!(index.snapshot_lines(), 0);
            index.end_snapshot();
        }
    }
}
