//! The address range of an arena.

use super::placement::{self, Placement};
use crate::error::StoreError;
use crate::limits::FRAME_BYTES;
use rustix::fd::OwnedFd;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::ptr::{self, NonNull};

/// Address space, aligned to frames: private and anonymous, where the kernel gives memory at first
/// touch, or a file that is memory itself.
///
/// Anonymous memory and not a `memfd`: huge pages for shared memory are off by default in Linux
/// (`shmem_enabled`), and those for anonymous memory are on by advice.
pub(crate) struct Mapping {
    reserved: NonNull<u8>,
    reserved_bytes: usize,
    base: NonNull<u8>,
    bytes: u64,
    /// Held for its lock.
    file: Option<OwnedFd>,
}

// SAFETY: the mapping owns its address range like a Box owns its heap block: the pointers are never
// changed after `new`, and reads and writes through them are governed by `Piece` and `PieceMut`.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` itself only hands out pointers and discards frames nobody uses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves room for `frames` frames.
    pub(crate) fn new(frames: u32, placement: &Placement) -> Result<Self, StoreError> {
        let bytes = u64::from(frames) * FRAME_BYTES;
        // One frame more, to begin at a multiple of the frame size.
        let wanted = bytes + FRAME_BYTES;
        let refused = |code| StoreError::LocalReserve { bytes: wanted, code };
        let reserved_bytes = usize::try_from(wanted).map_err(|_| refused(0))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), reserved_bytes, access, flags) }
            .map_err(|error| refused(error.raw_os_error()))?;
        let reserved = NonNull::new(start.cast::<u8>()).ok_or_else(|| refused(0))?;
        let skip = reserved.as_ptr().align_offset(FRAME_BYTES as usize);
        // SAFETY: `skip` is below one frame, and the mapping is one frame longer than needed.
        let base = unsafe { reserved.add(skip) };
        let mut mapping = Self { reserved, reserved_bytes, base, bytes, file: None };
        match placement {
            Placement::Anywhere => {}
            Placement::Near(node) | Placement::Node(node) => {
                let is_strict = matches!(placement, Placement::Node(_));
                placement::bind(base.as_ptr().cast(), bytes as usize, *node, is_strict)?;
            }
            Placement::File(path) => {
                let file = placement::open(path, bytes)?;
                let (at, flags) = (base.as_ptr().cast(), MapFlags::SHARED | MapFlags::FIXED);
                // SAFETY: the range is part of the mapping made just now, which nobody else knows,
                // and takes its place. The file has all these bytes reserved and is ours alone by
                // its lock; another program that cuts it off ends this one, and no reference to
                // bytes that change is handed to anybody.
                let mapped = unsafe { mmap(at, bytes as usize, access, flags, &file, 0) };
                mapped.map_err(|error| StoreError::ConfigMemoryFile {
                    path: path.clone(),
                    why: format!("it cannot be mapped: {error}"),
                })?;
                mapping.file = Some(file);
            }
        }
        // SAFETY: the whole range was mapped just now; this advice changes no contents. A kernel
        // without huge pages refuses, and small pages are slower but right.
        let _ = unsafe { madvise(base.as_ptr().cast(), bytes as usize, Advice::LinuxHugepage) };
        Ok(mapping)
    }

    /// Where the `len` bytes from `start` on are.
    ///
    /// # Panics
    /// If they are not inside the mapping.
    pub(crate) fn pointer(&self, start: u64, len: u32) -> NonNull<u8> {
        assert!(start + u64::from(len) <= self.bytes, "bytes outside of the arena");
        // SAFETY: `start` is inside the mapping, which is one allocation of `bytes` from `base`.
        unsafe { self.base.add(start as usize) }
    }

    /// Whether pages can be exchanged for others: the kernel may be given references to such, and gets
    /// back what is given back. Those of a file were reserved for good.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.file.is_none()
    }

    /// Gives back pages of a frame that is used, and keeps the kernel from making the frame one huge
    /// page again, which would bring them back.
    pub(crate) fn hollow(&self, start: u64, bytes: u32) {
        self.discard(start, bytes);
        self.advise(start, bytes, Advice::LinuxNoHugepage);
    }

    /// Undoes what [`Mapping::hollow`] told the kernel, for pages that are used from now on.
    pub(crate) fn fill(&self, start: u64, bytes: u32) {
        self.advise(start, bytes, Advice::LinuxHugepage);
    }

    /// Has the kernel give cleared pages where there are none yet. What is in others stays as it is,
    /// whoever uses them meanwhile.
    ///
    /// # Errors
    /// The kernel is older than Linux 5.14, or has no memory.
    pub(crate) fn populate(&self, start: u64, bytes: u32) -> rustix::io::Result<()> {
        let at = self.pointer(start, bytes);
        // SAFETY: the pages are inside the mapping, and this advice changes no contents.
        unsafe { madvise(at.as_ptr().cast(), bytes as usize, Advice::LinuxPopulateWrite) }
    }

    fn advise(&self, start: u64, bytes: u32, advice: Advice) {
        let at = self.pointer(start, bytes);
        // SAFETY: the pages are inside the mapping, and this advice changes no contents. A kernel
        // without huge pages refuses, which is as good.
        let _ = unsafe { madvise(at.as_ptr().cast(), bytes as usize, advice) };
    }

    /// Gives whole pages back to the kernel; they read as zeros afterwards. The caller says by this
    /// that nobody has a slice of them: a frame that is wholly free, a free part of one, or a piece
    /// that ends. References the kernel holds itself keep the old pages, which are no longer ours. A
    /// file keeps its pages: they were reserved for good.
    pub(crate) fn discard(&self, start: u64, bytes: u32) {
        if !self.is_anonymous() {
            return;
        }
        let at = self.pointer(start, bytes);
        // SAFETY: the pages are inside the mapping, and the callers are the arena under its lock for
        // what is free and the last share of a piece for its pages, so no lease and no writer has a
        // slice of them.
        let given = unsafe { madvise(at.as_ptr().cast(), bytes as usize, Advice::LinuxDontNeed) };
        given.expect("private memory that is mapped and not locked can be given back");
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: every piece holds the arena, which holds this, so no slice of it is left.
        let _ = unsafe { munmap(self.reserved.as_ptr().cast(), self.reserved_bytes) };
    }
}
