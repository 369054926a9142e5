//! The address range of an arena.

use super::placement::{self, Placement};
use crate::error::StoreError;
use crate::limits::FRAME_BYTES;
use crate::memory::{Advice, Memory};
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::ptr::NonNull;

/// Address space, aligned to frames: private and anonymous, where the kernel gives memory at first
/// touch, or a file that is memory itself.
///
/// Anonymous memory and not a `memfd`: huge pages for shared memory are off by default in Linux
/// (`shmem_enabled`), and those for anonymous memory are on by advice.
pub(crate) struct Mapping {
    memory: Memory,
    /// The first frame of it.
    base: NonNull<u8>,
    bytes: u64,
    /// Held for its lock.
    file: Option<OwnedFd>,
}

// SAFETY: the mapping owns its address range like a Box owns its heap block: `base` is never changed after
// `new`, and reads and writes through them are governed by `Piece` and `PieceMut`.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` itself only hands out pointers and discards frames nobody uses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves room for `frames` frames.
    pub(crate) fn new(frames: u32, placement: &Placement) -> Result<Self, StoreError> {
        let bytes = u64::from(frames) * FRAME_BYTES;
        // One frame more, to begin at a multiple of the frame size.
        let wanted = bytes + FRAME_BYTES;
        let wanted = usize::try_from(wanted)
            .map_err(|_| StoreError::LocalReserve { bytes: wanted, code: 0 })?;
        let memory = Memory::reserve(wanted, true)?;
        let skip = memory.start().as_ptr().align_offset(FRAME_BYTES as usize);
        // SAFETY: `skip` is below one frame, and the memory is one frame longer than needed.
        let base = unsafe { memory.start().add(skip) };
        let mut mapping = Self { memory, base, bytes, file: None };
        match placement {
            Placement::Anywhere => {}
            Placement::Near(node) | Placement::Node(node) => {
                let is_strict = matches!(placement, Placement::Node(_));
                placement::bind(base.as_ptr().cast(), bytes as usize, *node, is_strict)?;
            }
            Placement::File(path) => {
                let file = placement::open(path, bytes)?;
                let (at, flags) = (base.as_ptr().cast(), MapFlags::SHARED | MapFlags::FIXED);
                let access = ProtFlags::READ | ProtFlags::WRITE;
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
        mapping.advise(0, bytes, Advice::LinuxHugepage);
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
        self.advise(start, bytes.into(), Advice::LinuxNoHugepage);
    }

    /// Undoes what [`Mapping::hollow`] told the kernel, for pages that are used from now on.
    pub(crate) fn fill(&self, start: u64, bytes: u32) {
        self.advise(start, bytes.into(), Advice::LinuxHugepage);
    }

    /// Has the kernel give cleared pages where there are none yet. What is in others stays as it is,
    /// whoever uses them meanwhile.
    ///
    /// # Errors
    /// The kernel is older than Linux 5.14, or has no memory.
    pub(crate) fn populate(&self, start: u64, bytes: u32) -> rustix::io::Result<()> {
        let at = self.pointer(start, bytes);
        // SAFETY: the pages are inside the mapping, and this advice changes no contents.
        unsafe { self.memory.advise(at, bytes as usize, Advice::LinuxPopulateWrite) }
    }

    /// Says of what size pages are to be. A kernel without huge ones refuses, and small ones are slower but
    /// right.
    fn advise(&self, start: u64, bytes: u64, advice: Advice) {
        debug_assert!(matches!(advice, Advice::LinuxHugepage | Advice::LinuxNoHugepage));
        // SAFETY: `start` is inside the mapping, which is one allocation of `bytes` from `base`.
        let at = unsafe { self.base.add(start as usize) };
        // SAFETY: this advice changes no contents.
        let _ = unsafe { self.memory.advise(at, bytes as usize, advice) };
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
        let given = unsafe { self.memory.advise(at, bytes as usize, Advice::LinuxDontNeed) };
        given.expect("private memory that is mapped and not locked can be given back");
    }
}
