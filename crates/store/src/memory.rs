//! Memory from the kernel, in whole pages, and what it is told of them.

use crate::error::StoreError;
pub(crate) use rustix::mm::Advice;
use std::ptr::NonNull;

/// Private memory that reads as zeroes and is there at first touch. Owned like the memory of a `Box`.
pub(crate) struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: nobody else has the memory, and the pointer never changes; who reads and writes it is governed by
// the owners, `Mapping` and `Lines`.
unsafe impl Send for Memory {}
// SAFETY: as above; `&Memory` itself gives out pointers only.
unsafe impl Sync for Memory {}

impl Memory {
    /// Reserves address space. With `overcommit` the kernel does not ask itself whether it could give all of it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn reserve(bytes: usize, overcommit: bool) -> Result<Self, StoreError> {
        let refused = |code| StoreError::LocalReserve { bytes: bytes as u64, code };
        let start = os::map(bytes, overcommit).map_err(|error| refused(error.raw_os_error()))?;
        let start = NonNull::new(start).ok_or_else(|| refused(0))?;
        Ok(Self { start, bytes })
    }

    /// Where it begins: at a page.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Tells the kernel what to do with pages.
    ///
    /// # Errors
    /// The kernel does not know this, or cannot.
    ///
    /// # Panics
    /// If they are not inside.
    ///
    /// # Safety
    /// Where the advice changes contents (`LinuxDontNeed`), nobody has a reference to them.
    pub(crate) unsafe fn advise(
        &self,
        at: NonNull<u8>,
        bytes: usize,
        advice: Advice,
    ) -> rustix::io::Result<()> {
        let from = at.addr().get().checked_sub(self.start.addr().get());
        let end = from.and_then(|from| from.checked_add(bytes));
        assert!(end.is_some_and(|end| end <= self.bytes), "pages outside of the memory");
        // SAFETY: the pages are inside of what was reserved; the rest is the caller's promise.
        unsafe { os::advise(at.as_ptr(), bytes, advice) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was reserved with this length, and whoever has a slice of it holds its owner.
        unsafe { os::unmap(self.start.as_ptr(), self.bytes) }
    }
}

#[cfg(not(miri))]
mod os {
    use super::Advice;
    use rustix::mm::{MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::ptr;

    pub(super) fn map(bytes: usize, overcommit: bool) -> rustix::io::Result<*mut u8> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let more = if overcommit { MapFlags::NORESERVE } else { MapFlags::empty() };
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE | more) };
        start.map(<*mut _>::cast)
    }

    pub(super) unsafe fn advise(
        at: *mut u8,
        bytes: usize,
        advice: Advice,
    ) -> rustix::io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { madvise(at.cast(), bytes, advice) }
    }

    pub(super) unsafe fn unmap(start: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        let _ = unsafe { munmap(start.cast(), bytes) };
    }
}

/// The interpreter knows no advice: there it is the allocator's memory.
#[cfg(miri)]
mod os {
    use super::Advice;
    use crate::limits::PAGE_BYTES;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, PAGE_BYTES as usize).expect("tests are small")
    }

    pub(super) fn map(bytes: usize, _: bool) -> rustix::io::Result<*mut u8> {
        // SAFETY: nobody reserves nothing.
        Ok(unsafe { alloc_zeroed(layout(bytes)) })
    }

    pub(super) unsafe fn advise(
        at: *mut u8,
        bytes: usize,
        advice: Advice,
    ) -> rustix::io::Result<()> {
        if advice == Advice::LinuxDontNeed {
            // SAFETY: the caller's promise.
            unsafe { at.write_bytes(0, bytes) };
        }
        Ok(())
    }

    pub(super) unsafe fn unmap(start: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { dealloc(start, layout(bytes)) };
    }
}
