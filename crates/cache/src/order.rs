//! The order of purges and of the beginnings of fetches, and what holds from a place in it on.

use freshet_base::clock::UnixMillis;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// What all indexes of a node count by: a purge of all of them has one number, and an object that
/// moves from one to another keeps its place.
#[derive(Debug)]
pub(crate) struct Order {
    seq: AtomicU64,
    fence: AtomicU64,
    /// When trust in what is stored ends, ms of the wall clock.
    trusted_until_ms: AtomicU64,
    next_id: AtomicU64,
}

impl Order {
    /// An order whose first number comes after `first`, without a fence.
    pub(crate) fn after(first: u64) -> Self {
        Self {
            seq: AtomicU64::new(first),
            fence: AtomicU64::new(0),
            trusted_until_ms: AtomicU64::new(u64::MAX),
            next_id: AtomicU64::new(1),
        }
    }

    /// The number of the last purge.
    pub(crate) fn last(&self) -> u64 {
        self.seq.load(SeqCst)
    }

    /// A number for what comes now.
    pub(crate) fn next(&self) -> u64 {
        self.seq.fetch_add(1, SeqCst) + 1
    }

    pub(crate) fn fence(&self, seq: u64) {
        self.fence.store(seq, SeqCst);
    }

    pub(crate) fn trust_until(&self, end: UnixMillis) {
        self.trusted_until_ms.store(end.0, SeqCst);
    }

    pub(crate) fn fenced_below(&self, now: UnixMillis) -> u64 {
        match now.0 >= self.trusted_until_ms.load(SeqCst) {
            true => u64::MAX,
            false => self.fence.load(SeqCst),
        }
    }

    /// A number for an object.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }
}
