//! Numbers from a seed.

use freshet_base::splitmix;
use std::ops::Range;

/// Where a row of numbers is.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        splitmix::next(&mut self.0)
    }

    /// A number in a range that is not empty.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Whether something happens that does so `times` in a thousand.
    pub(crate) fn chance(&mut self, times: u64) -> bool {
        self.within(0..1000) < times
    }

    /// One of these.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.within(0..all.len() as u64) as usize]
    }
}
