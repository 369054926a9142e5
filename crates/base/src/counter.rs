//! Counters that cost an unlocked add.

use crate::ledger::Ledger;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A count that only grows. One writer at a time keeps it cheap: the add is a plain load and store,
/// so two writers on one counter would lose counts. Readers may be anywhere.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; wraps after 2^64.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// The count so far.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A count that several threads write, for places off the hot path.
#[derive(Debug, Default)]
pub struct SharedCounter(AtomicU64);

impl SharedCounter {
    /// Adds `n`; wraps after 2^64.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Takes `n` away again, for gauges.
    ///
    /// # Panics
    /// Less was added: that is a bug.
    pub fn subtract(&self, n: u64) {
        self.0.give_back(n, Relaxed);
    }

    /// The count so far.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
