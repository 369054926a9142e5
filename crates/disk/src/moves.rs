//! Entries that move from one word to another while others look for them, without a lock.
//!
//! An entry is copied first and cleared after, and each step is counted: who found nothing while something
//! moved looks again. All orders of that are gone through in `bench/loom`, which takes this file with other
//! atomics.

use crate::sync::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};

/// Steps of moves so far.
#[derive(Debug, Default)]
pub(crate) struct Moves(AtomicU64);

impl Moves {
    /// What `look` finds, which is asked again where it finds nothing and something moved meanwhile.
    #[inline]
    pub(crate) fn find<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            let before = self.0.load(Acquire);
            if let Some(found) = look() {
                return Some(found);
            }
            // What was looked at before counts only if it was read before this: who has seen that a word was
            // cleared sees from here on that this was counted.
            fence(Acquire);
            if self.0.load(Relaxed) == before {
                return None;
            }
        }
    }

    /// Moves `value`, which one word has, to another. By one thread at a time.
    pub(crate) fn shift(&self, value: u64, from: &AtomicU64, to: &AtomicU64) {
        to.store(value, Release);
        self.0.fetch_add(1, Release);
        from.store(0, Release);
        self.0.fetch_add(1, Release);
    }
}
