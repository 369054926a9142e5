//! Memory of an index: zeroes in whole pages, huge ones where the kernel has them.

use crate::error::StoreError;
use crate::prefetch::prefetch;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

/// A fixed number of 64-bit words.
pub(super) struct Lines {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to this value alone, and its words are atomics.
unsafe impl Send for Lines {}
// SAFETY: as above.
unsafe impl Sync for Lines {}

impl Lines {
    pub(super) fn new(words: usize) -> Result<Self, StoreError> {
        let bytes = words * size_of::<u64>();
        let refused = |code| StoreError::LocalReserve { bytes: bytes as u64, code };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }
            .map_err(|error| refused(error.raw_os_error()))?;
        let start = NonNull::new(start.cast::<AtomicU64>()).ok_or_else(|| refused(0))?;
        // SAFETY: the range was mapped just now; the advice changes no contents, and refusing it
        // costs speed only.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        Ok(Self { start, words })
    }
}

impl Lines {
    /// Has the cache line of a word fetched from memory, where the processor takes such a hint.
    #[inline]
    pub(super) fn prefetch(&self, at: usize) {
        if let Some(word) = self.get(at) {
            prefetch(word);
        }
    }
}

impl Deref for Lines {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this many words, page-aligned, and the kernel's zeroes are valid
        // atomics. It lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let bytes = self.words * size_of::<u64>();
        // SAFETY: the mapping was made with this length, and every slice of it borrows `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), bytes) };
    }
}
