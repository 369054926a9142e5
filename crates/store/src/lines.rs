//! Memory of the index of a disk: zeroes in whole pages, huge ones where the kernel has them.

use crate::error::StoreError;
use crate::memory::{Advice, Memory};
use crate::prefetch::prefetch;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;

/// A fixed number of 64-bit words that all may read and change.
pub struct Lines {
    memory: Memory,
    words: usize,
}

impl Lines {
    /// So many words, which cost memory from when they are touched first.
    ///
    /// # Errors
    /// The kernel has no such address space.
    pub fn new(words: usize) -> Result<Self, StoreError> {
        let bytes = words * size_of::<u64>();
        let memory = Memory::reserve(bytes, false)?;
        // SAFETY: the advice changes no contents, and refusing it costs speed only.
        let _ = unsafe { memory.advise(memory.start(), bytes, Advice::LinuxHugepage) };
        Ok(Self { memory, words })
    }
}

impl Lines {
    /// Has the cache line of a word fetched from memory, where the processor takes such a hint.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        if let Some(word) = self.get(at) {
            prefetch(word);
        }
    }
}

impl Deref for Lines {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        let start = self.memory.start().cast::<AtomicU64>();
        // SAFETY: the memory has this many words, page-aligned, and zeroes are valid atomics. It lives as
        // long as `self`, and nobody else has it.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.words) }
    }
}
