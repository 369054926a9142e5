//! Memory of a body: written once by one writer, read by anyone after that.
//!
//! Every piece has a watermark, its count of published bytes. Below it the bytes never change as
//! long as the piece lives and may be read by any thread; above it they belong to the one
//! [`PieceMut`]. The watermark only rises. All access to the arena's memory is in this module, in
//! two functions.

use crate::arena::{Arena, Run};
use crate::limits::{LEND_BYTES_MIN, PAGE_BYTES, SLAB_BYTES_MIN};
use crate::prefetch::prefetch;
use crate::watermark::Watermark;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// A share in a piece. The memory returns to the arena with the last share.
#[derive(Clone)]
pub struct Piece(Arc<Inner>);

/// The writer's side of a piece; there is one for each.
pub struct PieceMut(Arc<Inner>);

/// Bytes that stay as they are while the lease lives. Cloning it counts up, nothing is copied.
#[derive(Clone)]
pub struct Lease {
    piece: Piece,
    start: u32,
    len: u32,
}

/// A claim on bytes that does not keep them: when their body lets them go, their memory goes back.
#[derive(Clone)]
pub struct WeakLease {
    piece: Weak<Inner>,
    start: u32,
    len: u32,
}

struct Inner {
    arena: Arc<Arena>,
    start: u64,
    slab: u32,
    /// Changed by the writer only, and read by it and by `drop`.
    capacity: AtomicU32,
    published: Watermark,
    /// How much of this piece the arena counts as pinned, in steps of [`SLAB_BYTES_MIN`].
    pinned_steps: AtomicU16,
    /// [`OFFERED`] and [`LENT`].
    marks: AtomicU8,
}

/// Somebody asked whether the piece is worth lending.
const OFFERED: u8 = 1;
/// The kernel may hold references to the pages, for as long as it likes.
const LENT: u8 = 2;

impl PieceMut {
    /// The piece of a run that belongs to nobody else: it came from the arena's bookkeeping.
    pub(crate) fn new(arena: Arc<Arena>, run: Run) -> Self {
        Self(Arc::new(Inner {
            arena,
            start: run.start,
            slab: run.slab,
            capacity: AtomicU32::new(run.bytes),
            published: Watermark::default(),
            pinned_steps: AtomicU16::new(0),
            marks: AtomicU8::new(0),
        }))
    }

    /// The bytes above the watermark. Their contents are whatever the memory held before.
    pub fn spare(&mut self) -> &mut [u8] {
        let (from, to) = (self.published(), self.capacity());
        let at = self.0.arena.mapping().pointer(self.0.start + u64::from(from), to - from);
        // SAFETY: the arena has handed this run to this piece alone and `pointer` checked that it
        // is mapped; mapped memory is always initialised. There is one `PieceMut` for a piece and
        // it is borrowed for as long as the slice lives, so this is the only writer and the
        // watermark cannot rise meanwhile; leases lie below the watermark.
        unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), (to - from) as usize) }
    }

    /// Raises the watermark over the first `n` bytes of [`PieceMut::spare`], which are from now on
    /// as they are, and leases them.
    ///
    /// # Panics
    /// If `n` is more than the spare bytes.
    pub fn publish(&mut self, n: usize) -> Lease {
        let from = self.published();
        let room = self.capacity() - from;
        let len = u32::try_from(n).ok().filter(|n| *n <= room);
        let len = len.expect("no more is published than there is room for");
        self.0.published.raise(from + len);
        self.share().lease(from, len)
    }

    /// Gives back the whole pages above the watermark, except the first page of the piece.
    pub fn trim(&mut self) {
        if self.0.slab != Run::PAGES {
            return;
        }
        let kept = self.published().max(1).next_multiple_of(PAGE_BYTES as u32);
        let surplus = self.capacity() - kept;
        if surplus > 0 {
            self.0.capacity.store(kept, Relaxed);
            self.0.arena.release_tail(self.0.start + u64::from(kept), surplus);
        }
    }

    /// A share for readers.
    pub fn share(&self) -> Piece {
        Piece(self.0.clone())
    }

    /// Bytes that were published.
    pub fn published(&self) -> u32 {
        // Only this side raises it.
        self.0.published.value()
    }

    /// Bytes this piece has room for, published ones included.
    pub fn capacity(&self) -> u32 {
        self.0.capacity.load(Relaxed)
    }
}

impl Piece {
    /// Leases `len` bytes from `start`.
    ///
    /// # Panics
    /// If they have not been published.
    pub fn lease(&self, start: u32, len: u32) -> Lease {
        let end = start.checked_add(len);
        let is_below = end.is_some_and(|end| self.0.published.covers(end));
        assert!(is_below, "a lease above the watermark");
        Lease { piece: self.clone(), start, len }
    }

    /// Bytes that were published, without a promise that what is in them can be seen.
    #[cfg(test)]
    pub(crate) fn published(&self) -> u32 {
        self.0.published.value()
    }

    /// Whether both are shares in the same piece.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether its memory is in this arena.
    pub(crate) fn is_in(&self, arena: &Arc<Arena>) -> bool {
        Arc::ptr_eq(&self.0.arena, arena)
    }

    /// Asks for what a lease needs to know of it.
    pub(crate) fn prefetch(&self) {
        prefetch(&*self.0);
    }

    /// Whether someone else has a share: a lease, the writer, or another part of the body.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Memory this piece occupies.
    pub(crate) fn capacity(&self) -> u32 {
        self.0.capacity.load(Relaxed)
    }

    /// Whether the piece is part of a page.
    pub(crate) fn is_part_of_page(&self) -> bool {
        self.0.slab != Run::PAGES
    }

    /// Counts the piece as pinned until it returns to the arena.
    pub(crate) fn pin(&self) {
        let steps = self.capacity() / SLAB_BYTES_MIN;
        let to = u16::try_from(steps).expect("the longest piece has 16,384 steps");
        if self.0.pinned_steps.compare_exchange(0, to, Relaxed, Relaxed).is_ok() {
            self.0.arena.pin(steps * SLAB_BYTES_MIN);
        }
    }
}

impl Lease {
    /// A lease of a part of these bytes.
    ///
    /// # Panics
    /// If `range` is not inside, as slicing does.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len as usize, "not a part of this");
        let (start, len) = (range.start as u32, range.len() as u32);
        Self { piece: self.piece.clone(), start: self.start + start, len }
    }

    /// Memory that the piece of these bytes takes.
    pub fn taken_bytes(&self) -> u64 {
        u64::from(self.piece.capacity())
    }

    /// Tells the piece of these bytes from all others that are there now.
    pub fn piece_id(&self) -> usize {
        Arc::as_ptr(&self.piece.0).addr()
    }

    /// A claim on the same bytes that lets them go when nobody else keeps them.
    pub fn downgrade(&self) -> WeakLease {
        WeakLease { piece: Arc::downgrade(&self.piece.0), start: self.start, len: self.len }
    }

    /// The piece the bytes are in, where they begin in it, and how many there are.
    pub(crate) fn parts(&self) -> (&Piece, u32, u32) {
        (&self.piece, self.start, self.len)
    }

    /// Whether sending these bytes by reference ([`crate::lend::send`]) pays: they are many, and
    /// it is not the first time that this is asked of their piece. A piece that was lent costs new
    /// pages when it is reused, about as much as one copy, so what is read once is not worth it.
    pub fn is_worth_lending(&self) -> bool {
        let inner = &self.piece.0;
        self.len as usize >= LEND_BYTES_MIN
            && inner.slab == Run::PAGES
            && inner.arena.mapping().is_anonymous()
            && (inner.marks.load(Relaxed) != 0 || inner.marks.fetch_or(OFFERED, Relaxed) != 0)
    }

    /// The bytes, which the kernel may refer to from now on, also after the piece is gone: its
    /// pages go back to the kernel then and are not written again by us.
    pub(crate) fn lend(&self) -> &[u8] {
        debug_assert_eq!(self.piece.0.slab, Run::PAGES, "parts of a page have neighbours");
        if self.piece.0.marks.load(Relaxed) & LENT == 0 {
            self.piece.0.marks.fetch_or(LENT, Relaxed);
        }
        self
    }
}

impl WeakLease {
    /// The bytes, if they are still there.
    pub fn upgrade(&self) -> Option<Lease> {
        let piece = Piece(self.piece.upgrade()?);
        Some(Lease { piece, start: self.start, len: self.len })
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Deref for Lease {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let inner = &*self.piece.0;
        let at = inner.arena.mapping().pointer(inner.start + u64::from(self.start), self.len);
        // SAFETY: `pointer` checked that the bytes are mapped. They were below the watermark of the
        // piece when the lease was made (`Piece::lease`, after an acquiring load that makes the
        // writer's stores visible), the watermark never falls, and no `PieceMut` writes below it.
        // The lease's share keeps the run from going back to the arena, and `trim` only gives back
        // pages above the watermark.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), self.len as usize) }
    }
}

impl AsRef<[u8]> for Lease {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({} bytes)", self.len)
    }
}

impl fmt::Debug for WeakLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeakLease({} bytes)", self.len)
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Piece({} bytes at {})", self.capacity(), self.0.start)
    }
}

impl fmt::Debug for PieceMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PieceMut({} of {} bytes)", self.published(), self.capacity())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let bytes = *self.capacity.get_mut();
        let pinned_steps = *self.pinned_steps.get_mut();
        if pinned_steps > 0 {
            self.arena.unpin(u32::from(pinned_steps) * SLAB_BYTES_MIN);
        }
        if *self.marks.get_mut() & LENT != 0 {
            self.arena.mapping().discard(self.start, bytes);
        }
        self.arena.release(Run { start: self.start, bytes, slab: self.slab });
    }
}
