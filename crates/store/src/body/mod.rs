//! The bytes of one representation, while they arrive and after.
//!
//! A body is sparse: it holds extents of bytes, sorted by offset, each in a piece of the arena.
//! Writers bring parts of it, each its own; readers follow them as close as the last committed byte
//! and are told about holes. Every step takes the body's lock for one look-up; wakers are stored
//! under it, and woken after it.
//!
//! # Life
//!
//! ```text
//!  new ── writers, readers ──► complete ── clear() ──► released when the last reader leaves
//!   └─ enter_transit(): behind its readers it is released, ahead of them its writer waits
//! ```
//!
//! A body in transit never holds much more than [`crate::limits::TRANSIT_WINDOW_BYTES`] for each
//! group of readers, so a response larger than memory passes through. A writer that finds no memory
//! puts its body in transit by itself, which is why memory full of bodies that are being filled
//! never stands still.

mod extents;
mod migration;
mod reader;
mod readers;
mod sizing;
mod source;
mod standing;
mod state;
#[cfg(test)]
mod tests;
mod writer;

pub use migration::Moved;
pub use reader::BodyReader;
pub use source::{Bringing, Source, SourceError};
pub use standing::Standing;
pub use state::Next;
pub use writer::BodyWriter;

use crate::arena::Arena;
use crate::limits::TRANSIT_PIECE_BYTES_MAX;
use crate::piece::Lease;
use freshet_http::fields::Fields;
use state::{After, BUSY_BYTES, State};
use std::any::Any;
use std::fmt;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll};

/// The bytes of one representation. Shared by the index, its writers and its readers.
pub struct Body {
    arena: Arc<Arena>,
    state: Mutex<State>,
    is_transit: AtomicBool,
    standing: standing::SharedStanding,
    beside: OnceLock<Box<Beside>>,
}

/// What only few bodies have.
#[derive(Default)]
struct Beside {
    trailers: OnceLock<Fields>,
    /// Length of what is under its coding.
    content_bytes: OnceLock<u64>,
    /// Where its bytes can be read, where that is not memory alone.
    source: OnceLock<Arc<dyn Source>>,
    /// What its owner wants to go with it.
    attached: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// What a body costs the heap: itself and its counts.
const METADATA_BYTES: u64 = size_of::<Body>() as u64 + 16;

impl Body {
    /// An empty body of `total` bytes, or of a length that is not known yet. Some 300 bytes of
    /// metadata are charged, beyond the limit if need be, and paid back by the next frame that
    /// becomes free; half of them when a short body is whole.
    pub fn new(arena: &Arc<Arena>, total: Option<u64>) -> Arc<Self> {
        Self::with_state(arena, State::new(total, false))
    }

    /// As [`Body::new`], in transit from the beginning: for responses that are not stored. Bytes
    /// stay until the first reader has come, so reader and writer may be made in any order.
    pub fn transit(arena: &Arc<Arena>, total: Option<u64>) -> Arc<Self> {
        Self::with_state(arena, State::new(total, true))
    }

    /// A writer of the bytes from `start` to `end`, or to the body's end. Several writers may fill
    /// different parts at once; where they overlap, the first bytes to come stay.
    ///
    /// Make the reader the bytes are fetched for before the writer's first step: a body that is
    /// put in transit while it has no readers ends its writers with
    /// [`crate::BodyError::NoReaders`].
    pub fn writer(self: &Arc<Self>, start: u64, end: Option<u64>) -> BodyWriter {
        let id = self.state().add_writer(start, end);
        BodyWriter::new(self.clone(), id, start)
    }

    /// A reader of these bytes. The end may be open, or beyond the end of the body.
    pub fn reader(self: &Arc<Self>, range: impl RangeBounds<u64>) -> BodyReader {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        let id = self.change(|state, after| state.add_reader(start, end, after));
        BodyReader::new(self.clone(), id, start)
    }

    /// Bytes `range` where they are held in one piece, as all of most small objects are. They stay
    /// as they are while the lease lives, so a response made of them needs no reader. None for a
    /// body in transit, whose bytes leave with its readers.
    pub fn lease(&self, range: Range<u64>) -> Option<Lease> {
        let state = self.state();
        let bytes = range.end.checked_sub(range.start).filter(|_| !state.is_transit)?;
        let lease = state.extents.lease(range.start, bytes)?;
        (lease.len() as u64 == bytes).then_some(lease)
    }

    /// Asks for the list of where its bytes are, and for the bytes where they are in one piece, if
    /// nobody has its lock.
    pub fn prefetch(&self) {
        if let Ok(state) = self.state.try_lock() {
            state.extents.prefetch();
        }
    }

    /// Sets the length, where it was not known, and tells the readers. False when it contradicts
    /// the length that is known or bytes that are held beyond it; nothing changes then.
    pub fn set_total(&self, total: u64) -> bool {
        self.change(|state, after| state.set_total(total, after))
    }

    /// Sets the fields that came after the body (RFC 9110 §6.5); only the first call counts. Set
    /// them before the writer finishes, so that every reader at the end sees them.
    pub fn set_trailers(&self, trailers: Fields) {
        let _ = self.beside().trailers.set(trailers);
    }

    /// Says how much content is under the coding its bytes are in, as whoever brings them has counted; only the first
    /// call counts.
    pub fn set_content_bytes(&self, bytes: u64) {
        let _ = self.beside().content_bytes.set(bytes);
    }

    /// How much content is under its coding, where that was counted.
    pub fn content_bytes(&self) -> Option<u64> {
        self.beside.get()?.content_bytes.get().copied()
    }

    /// From now on drops what its readers have left behind and lets the writer wait for them, for
    /// good: the body will never be complete. For an object that turns out too large, or when
    /// memory is short. Bytes that no reader is coming to are dropped at once.
    pub fn enter_transit(&self) {
        let hook = self.change(|state, after| {
            let hook = state.enter_transit(after).then(|| state.take_hook()).flatten();
            self.is_transit.store(true, Release);
            hook
        });
        if let Some(hook) = hook {
            hook();
        }
    }

    /// Lets its writers be [`crate::limits::TRANSIT_WINDOW_BYTES`] ahead of its readers in transit,
    /// for good, instead of [`crate::limits::TRANSIT_WINDOW_BYTES_MIN`].
    pub fn widen(&self) {
        self.change(|state, after| state.widen(after));
    }

    /// What it needs in transit for its reader to come on: the window ahead of it, as its writer has
    /// it where it is not let go further, and the piece it is in.
    pub fn transit_bytes(&self) -> u64 {
        let window_bytes = self.state().window_bytes();
        window_bytes + (window_bytes / 2).min(TRANSIT_PIECE_BYTES_MAX.into())
    }

    /// Calls `hook` once, when the body enters transit, or now if it is in transit; a short body that is
    /// whole forgets it. For the owner to take it out of its index; what it holds should not keep this body
    /// alive. No lock of this crate is held; it may be the writer's thread, inside of
    /// [`BodyWriter::poll_reserve`].
    pub fn on_transit(&self, hook: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        if !state.is_transit {
            state.set_hook(Box::new(hook));
            return;
        }
        drop(state);
        hook();
    }

    /// Drops all bytes: at once without readers, otherwise when the last of them leaves; until
    /// then they count as pinned. A writer ends with [`crate::BodyError::NoReaders`] at the same
    /// moment, unless no reader ever came. Returns the bytes of memory that came free; what leases
    /// or readers hold is not among them. May be called under any lock of the owner.
    pub fn clear(&self) -> u64 {
        let after = self.change(|state, after| {
            state.clear(after);
            std::mem::take(after)
        });
        release(after)
    }

    /// The length, where it is known.
    pub fn total(&self) -> Option<u64> {
        self.state().total()
    }

    /// Whether every byte is held.
    pub fn is_complete(&self) -> bool {
        self.state().is_complete()
    }

    /// Whether [`Body::clear`] was called: what is held leaves with the last reader.
    pub fn is_cleared(&self) -> bool {
        self.state().is_cleared
    }

    /// Whether [`Body::enter_transit`] was called, by the owner or by a writer.
    pub fn is_transit(&self) -> bool {
        self.is_transit.load(Acquire)
    }

    /// Whether all bytes of `range` are held now.
    pub fn holds(&self, range: Range<u64>) -> bool {
        self.first_missing(range).is_none()
    }

    /// The first byte of `range` that is not held now.
    pub fn first_missing(&self, range: Range<u64>) -> Option<u64> {
        let state = self.state();
        let mut position = range.start;
        while position < range.end {
            match state.extents.at(position) {
                Some(extent) => position = extent.end(),
                None => return Some(position),
            }
        }
        None
    }

    /// Whether all bytes of `range` are held, or a running writer with a known end brings them.
    pub fn will_hold(&self, range: Range<u64>) -> bool {
        let state = self.state();
        let mut position = range.start;
        while position < range.end {
            let held = state.extents.at(position).map(|extent| extent.end());
            match held.or_else(|| state.brought_to(position)) {
                Some(end) => position = end,
                None => return false,
            }
        }
        true
    }

    /// In how many places its bytes lie.
    pub fn pieces(&self) -> usize {
        self.state().extents.iter().count()
    }

    /// What is missing around `position`, up to the bytes that are held before and behind it.
    pub fn gap(&self, position: u64) -> Range<u64> {
        let state = self.state();
        let end = state.extents.next_after(position).map(|next| next.offset);
        state.extents.end_before(position)..end.or_else(|| state.total()).unwrap_or(u64::MAX)
    }

    /// Bytes held now.
    pub fn held_bytes(&self) -> u64 {
        self.state().extents.held_bytes()
    }

    /// Readers that are there now. While there are any, [`Body::clear`] frees nothing.
    pub fn readers(&self) -> usize {
        self.state().reader_count()
    }

    /// Ready once there were readers and all have left. Whoever asked last is woken for it.
    pub fn poll_deserted(&self, cx: &Context<'_>) -> Poll<()> {
        self.state().poll_deserted(cx)
    }

    /// The next byte of each reader, in no order.
    pub fn reader_positions(&self) -> Vec<u64> {
        self.state().readers().map(|reader| reader.position).collect()
    }

    /// Writers that have not finished or failed.
    pub fn writers(&self) -> usize {
        self.state().writer_count()
    }

    /// The fields that came after the body.
    pub fn trailers(&self) -> Option<&Fields> {
        self.beside.get()?.trailers.get()
    }

    /// Says where its bytes are besides in memory; only the first call counts.
    pub fn set_source(&self, source: Arc<dyn Source>) {
        let _ = self.beside().source.set(source);
    }

    /// Where its bytes are besides in memory.
    pub fn source(&self) -> Option<&Arc<dyn Source>> {
        self.beside.get()?.source.get()
    }

    /// Whether a disk has it, as its owner said last.
    pub fn standing(&self) -> Standing {
        self.standing.get()
    }

    /// Says whether a disk has it.
    pub fn set_standing(&self, standing: Standing) {
        self.standing.set(standing);
    }

    /// The number of its insertion on the disk that had it last; 0 where none is known.
    pub fn stored_number(&self) -> u64 {
        self.standing.number()
    }

    /// Says under which number a disk has it.
    pub fn set_stored_number(&self, number: u64) {
        self.standing.set_number(number);
    }

    /// Keeps something of the owner's for as long as the body; only the first call counts.
    pub fn attach(&self, what: Arc<dyn Any + Send + Sync>) {
        let _ = self.beside().attached.set(what);
    }

    /// Whether something was attached.
    pub fn has_attachment(&self) -> bool {
        self.beside.get().is_some_and(|beside| beside.attached.get().is_some())
    }

    /// What was attached, if it is of this type.
    pub fn attached<T: Any>(&self) -> Option<&T> {
        self.beside.get()?.attached.get()?.downcast_ref()
    }

    /// Has all that goes with another body go with this one as well: what is attached, trailers, and how much
    /// content there is.
    pub fn accompany(&self, other: &Self) {
        if let Some(what) = other.beside.get().and_then(|beside| beside.attached.get()) {
            self.attach(Arc::clone(what));
        }
        if let Some(trailers) = other.trailers() {
            self.set_trailers(trailers.clone());
        }
        if let Some(bytes) = other.content_bytes() {
            self.set_content_bytes(bytes);
        }
    }

    /// The arena its bytes are in.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    fn with_state(arena: &Arc<Arena>, state: State) -> Arc<Self> {
        arena.charge_unrefused(METADATA_BYTES + BUSY_BYTES);
        Arc::new(Self {
            arena: arena.clone(),
            is_transit: AtomicBool::new(state.is_transit),
            state: Mutex::new(state),
            standing: standing::SharedStanding::default(),
            beside: OnceLock::new(),
        })
    }

    fn beside(&self) -> &Beside {
        self.beside.get_or_init(Box::default)
    }

    /// Changes the state under the lock, and after that gives pieces back and wakes.
    fn change<T>(&self, change: impl FnOnce(&mut State, &mut After) -> T) -> T {
        let mut after = After::default();
        let out = change(&mut self.state(), &mut after);
        let rests = after.rests;
        drop(after);
        if rests {
            self.arena.release_metadata(BUSY_BYTES);
        }
        out
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a thread panicked in the bookkeeping of a body")
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let mut charged_bytes = METADATA_BYTES;
        // A lock that is poisoned is let be: its extents go back by themselves.
        if let Ok(state) = self.state.get_mut() {
            let mut after = After::default();
            state.extents.release(|_| true, &mut after.freed);
            charged_bytes += if state.has_rested { 0 } else { BUSY_BYTES };
            release(after);
        }
        self.arena.release_metadata(charged_bytes);
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Body")
            .field("total", &state.total())
            .field("held_bytes", &state.extents.held_bytes())
            .field("readers", &state.reader_count())
            .field("writers", &state.writer_count())
            .field("is_transit", &state.is_transit)
            .field("is_cleared", &state.is_cleared)
            .finish_non_exhaustive()
    }
}

/// Gives pieces back to the arena; those that are still leased count as pinned. Returns the bytes
/// that came free.
fn release(mut after: After) -> u64 {
    let mut freed_bytes = 0;
    for extent in after.freed.drain(..) {
        if extent.piece.is_shared() {
            extent.piece.pin();
        } else {
            freed_bytes += u64::from(extent.piece.capacity());
        }
    }
    freed_bytes
}
