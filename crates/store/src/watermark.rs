//! Up to where a piece of memory is written for good.
//!
//! All orders of its one writer and of readers are gone through in `bench/loom`, which takes this file with
//! other atomics.

use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// A count of bytes that only rises, by one writer.
#[derive(Debug, Default)]
pub(crate) struct Watermark(AtomicU32);

impl Watermark {
    /// Bytes below it, without a promise that what is in them can be seen.
    #[inline]
    pub(crate) fn value(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Raises it to `bytes`, which were all written before.
    #[inline]
    pub(crate) fn raise(&self, bytes: u32) {
        self.0.store(bytes, Release);
    }

    /// Whether the bytes up to `end` are below it, and what was written to them is seen.
    #[inline]
    pub(crate) fn covers(&self, end: u32) -> bool {
        end <= self.0.load(Acquire)
    }
}
