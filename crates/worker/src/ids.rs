//! Numbers for connections, requests and fetches, unique on a node.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers a worker takes at a time: one shared atomic for so many.
const BLOCK: u64 = 1 << 16;

/// Where workers take their numbers from.
#[derive(Debug)]
pub struct Ids {
    next: AtomicU64,
    block: AtomicU64,
    /// Changes when the numbers begin anew, so that workers drop what they have.
    turn: AtomicU64,
}

impl Default for Ids {
    fn default() -> Self {
        Self { next: AtomicU64::new(1), block: AtomicU64::new(BLOCK), turn: AtomicU64::new(0) }
    }
}

impl Ids {
    /// Begins again with `next`, and from now on gives out `block` numbers at a time: with 1, all
    /// workers share one sequence.
    pub fn restart(&self, next: u64, block: u64) {
        self.next.store(next, Relaxed);
        self.block.store(block.max(1), Relaxed);
        self.turn.fetch_add(1, Relaxed);
    }
}

/// A worker's share.
#[derive(Default)]
pub(crate) struct Share {
    turn: Cell<u64>,
    ids: Cell<Range<u64>>,
}

impl Share {
    /// The next number.
    #[inline]
    pub(crate) fn next(&self, all: &Ids) -> u64 {
        let turn = all.turn.load(Relaxed);
        let mut ids = self.ids.take();
        if self.turn.replace(turn) != turn {
            ids = 0..0;
        }
        let id = ids.next().unwrap_or_else(|| {
            let block = all.block.load(Relaxed);
            let start = all.next.fetch_add(block, Relaxed);
            ids = start + 1..start + block;
            start
        });
        self.ids.set(ids);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_overlap_and_begin_anew_when_told() {
        let all = Ids::default();
        let (a, b) = (Share::default(), Share::default());
        assert_eq!([a.next(&all), b.next(&all), a.next(&all)], [1, 1 + BLOCK, 2]);
        all.restart(1000, 1);
        assert_eq!([a.next(&all), b.next(&all), a.next(&all)], [1000, 1001, 1002]);
    }
}
