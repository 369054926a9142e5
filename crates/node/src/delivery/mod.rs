//! Where a response's body comes from while it is sent. Every protocol pulls the same pieces.

pub(crate) mod coded;
pub(crate) mod paced;
mod parts;

use crate::assembly::Assembly;
use crate::fetch::range::Filler;
use crate::ledger::readers::Held;
use bytes::Bytes;
use coded::Coded;
use freshet_config::bandwidth::Pace;
use freshet_http::fields::Fields;
use freshet_store::limits::{TRANSIT_PIECE_BYTES_MAX, TRANSIT_WINDOW_BYTES};
use freshet_store::{Body, BodyReader, Lease, Next, WeakLease};
use paced::Paced;
pub use parts::Parts;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The longest piece of a body whose reader may not keep it in memory: a copy, of as much as a
/// connection's other buffers have.
const LOOSE_BYTES_MAX: usize = 16 << 10;

/// What a body whose length is not known is taken to come to, at least.
const UNKNOWN_BYTES: u64 = 1 << 20;

/// A piece of a body: a lease on cached memory, or bytes of its own.
pub enum Chunk {
    /// Cached bytes; they stay as long as this lives.
    Lease(Lease),
    /// Bytes made for this response.
    Bytes(Bytes),
}

impl Chunk {
    /// A part of the same bytes.
    ///
    /// # Panics
    /// If `range` is not inside, as slicing does.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        match self {
            Self::Lease(lease) => Self::Lease(lease.slice(range)),
            Self::Bytes(bytes) => Self::Bytes(bytes.slice(range)),
        }
    }

    /// Whether it keeps cached memory where it is.
    pub fn is_lease(&self) -> bool {
        matches!(self, Self::Lease(_))
    }

    /// The same bytes from `start` on, in memory of their own.
    #[must_use]
    pub fn copied(&self, start: usize) -> Self {
        match self {
            Self::Lease(lease) => {
                Self::Bytes(Bytes::copy_from_slice(lease.get(start..).unwrap_or(&[])))
            }
            Self::Bytes(bytes) => Self::Bytes(bytes.slice(start..)),
        }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Lease(lease) => lease.as_ref(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// A body that broke off; the client has to be told by breaking its response off too.
#[derive(Debug)]
pub struct BodyBroken;

/// The source of a response's body.
pub enum ResponseBody {
    /// Nothing.
    Empty,
    /// Bytes that are all here.
    Inline(Bytes),
    /// Bytes that lie together in memory.
    Held(HeldBytes),
    /// A stored object, or one that is being filled.
    Stored(StoredBody),
    /// Several ranges of a stored object.
    Parts(Box<Parts>),
    /// Another body, with its coding changed on the way.
    Coded(Box<Coded>),
    /// A page that is put together on the way.
    Esi(Box<Assembly>),
    /// Another body, no faster than a rule allows.
    Paced(Box<Paced>),
}

/// Bytes that lie together in memory, and how many of them were given out.
pub struct HeldBytes {
    grip: Grip,
    given: usize,
}

enum Grip {
    Firm(Lease),
    /// They may be dropped before they were given out.
    Loose(WeakLease),
}

/// A range of a body in memory, with what is missing fetched on the way.
pub struct StoredBody {
    /// None between two pieces while it is loose.
    reader: Option<BodyReader>,
    body: Arc<Body>,
    filler: Option<Filler>,
    /// Where the response ends; beyond the body's end where that is not known.
    end: u64,
    /// A piece that was waited for before the head was sent.
    first: Option<Lease>,
    /// Where a reader has to begin, where there is none.
    position: u64,
    /// Whether it may keep nothing of the body in memory.
    is_loose: bool,
}

/// What a response keeps in memory while it waits for its client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    pub(crate) held: Held,
    pub(crate) without: Without,
}

/// What becomes of a response that may not keep in memory what it keeps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Without {
    /// It goes on: what is evicted is read or fetched again.
    GoesOn,
    /// It breaks off where something is evicted.
    MayBreak,
    /// It lets go what was read ahead of its client, and reads it again: it cannot go on from less
    /// than this.
    ReadsAgain { least_bytes: u64 },
    /// It ends: its bytes come only once. The least it gets on with.
    Ends { least_bytes: u64 },
}

impl Without {
    /// Of a body in transit: the least it gets on with.
    pub(crate) fn least_bytes(self) -> Option<u64> {
        match self {
            Self::GoesOn | Self::MayBreak => None,
            Self::ReadsAgain { least_bytes } | Self::Ends { least_bytes } => Some(least_bytes),
        }
    }
}

impl ResponseBody {
    /// The next piece, at most `bytes_max` long; `None` at the end.
    ///
    /// # Errors
    /// [`BodyBroken`] when the rest cannot be had.
    pub async fn next(&mut self, bytes_max: usize) -> Result<Option<Chunk>, BodyBroken> {
        poll_fn(|cx| self.poll_next(cx, bytes_max)).await
    }

    /// The next piece if it is there now.
    pub fn try_next(&mut self, bytes_max: usize) -> Option<Result<Option<Chunk>, BodyBroken>> {
        match self.poll_next(&mut Context::from_waker(Waker::noop()), bytes_max) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        }
    }

    /// As [`ResponseBody::next`], as a poll.
    ///
    /// # Errors
    /// As [`ResponseBody::next`].
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Chunk>, BodyBroken>> {
        match self {
            Self::Empty => Poll::Ready(Ok(None)),
            Self::Inline(bytes) => {
                let piece = bytes.split_to(bytes.len().min(bytes_max));
                Poll::Ready(Ok(Some(piece).filter(|piece| !piece.is_empty()).map(Chunk::Bytes)))
            }
            Self::Held(held) => Poll::Ready(held.next(bytes_max)),
            Self::Stored(stored) => stored.poll_next(cx, bytes_max),
            Self::Parts(parts) => parts.poll_next(cx, bytes_max),
            Self::Coded(coded) => coded.poll_next(cx, bytes_max),
            Self::Esi(assembly) => assembly.poll_next(cx, bytes_max),
            Self::Paced(paced) => paced.poll_next(cx, bytes_max),
        }
    }

    /// What it keeps in memory beside the pieces it gave out, if anything.
    pub(crate) fn holding(&self) -> Option<Holding> {
        match self {
            Self::Empty | Self::Inline(_) => None,
            Self::Held(held) => held.holding(),
            Self::Stored(stored) => stored.holding(),
            Self::Parts(parts) => parts.holding(),
            Self::Coded(coded) => coded.holding(),
            Self::Esi(assembly) => assembly.holding(),
            Self::Paced(paced) => paced.inner().holding(),
        }
    }

    /// Keeps nothing in memory from now on, but for a body in transit: gives out small copies, and
    /// what is dropped meanwhile is fetched again or breaks the body off.
    pub(crate) fn loosen(&mut self) {
        match self {
            Self::Empty | Self::Inline(_) => {}
            Self::Held(held) => held.loosen(),
            Self::Stored(stored) => stored.loosen(),
            Self::Parts(parts) => parts.loosen(),
            Self::Coded(coded) => coded.loosen(),
            Self::Esi(assembly) => assembly.loosen(),
            Self::Paced(paced) => paced.inner_mut().loosen(),
        }
    }

    /// Allows a body in transit more room ahead of its reader.
    pub(crate) fn widen(&self) {
        match self {
            Self::Stored(stored) => stored.body.widen(),
            Self::Parts(parts) => parts.widen(),
            Self::Coded(coded) => coded.widen(),
            Self::Paced(paced) => paced.inner().widen(),
            _ => {}
        }
    }

    /// Whether [`ResponseBody::rewind`] may be called.
    pub(crate) fn can_rewind(&self) -> bool {
        match self {
            Self::Held(_) => true,
            Self::Stored(stored) => !stored.body.is_transit(),
            Self::Paced(paced) => paced.inner().can_rewind(),
            _ => false,
        }
    }

    /// Takes back the last `bytes` that were given out, which are given out again.
    pub(crate) fn rewind(&mut self, bytes: usize) {
        match self {
            Self::Held(held) => held.given -= bytes,
            Self::Stored(stored) => stored.rewind(bytes),
            Self::Paced(paced) => paced.rewind(bytes),
            _ => debug_assert_eq!(bytes, 0, "a body that is not read twice"),
        }
    }

    /// The same body, no faster than a rule allows.
    pub(crate) fn paced(self, pace: Pace) -> Self {
        match self {
            Self::Empty => Self::Empty,
            body => Self::Paced(Box::new(Paced::new(body, pace))),
        }
    }

    /// Trailer fields, once the body has ended.
    pub fn trailers(&self) -> Option<Fields> {
        match self {
            Self::Stored(stored) => stored.body.trailers().cloned(),
            Self::Paced(paced) => paced.inner().trailers(),
            _ => None,
        }
    }
}

impl HeldBytes {
    /// All of `lease`.
    pub(crate) fn new(lease: Lease) -> Self {
        Self { grip: Grip::Firm(lease), given: 0 }
    }

    fn next(&mut self, bytes_max: usize) -> Result<Option<Chunk>, BodyBroken> {
        let from = self.given;
        let (chunk, until) = match &self.grip {
            Grip::Firm(lease) if from == 0 && lease.len() <= bytes_max => {
                (Chunk::Lease(lease.clone()), lease.len())
            }
            Grip::Firm(lease) => {
                let until = lease.len().min(from.saturating_add(bytes_max));
                (Chunk::Lease(lease.slice(from..until)), until)
            }
            Grip::Loose(lease) => {
                let until = lease.len().min(from.saturating_add(bytes_max.min(LOOSE_BYTES_MAX)));
                if until == from {
                    return Ok(None);
                }
                let lease = lease.upgrade().ok_or(BodyBroken)?;
                (Chunk::Bytes(Bytes::copy_from_slice(&lease[from..until])), until)
            }
        };
        self.given = until;
        Ok(Some(chunk).filter(|_| until > from))
    }

    fn holding(&self) -> Option<Holding> {
        let Grip::Firm(lease) = &self.grip else { return None };
        let held = Held { id: lease.piece_id(), bytes: lease.taken_bytes() };
        Some(Holding { held, without: Without::MayBreak })
    }

    fn loosen(&mut self) {
        if let Grip::Firm(lease) = &self.grip {
            self.grip = Grip::Loose(lease.downgrade());
        }
    }
}

impl StoredBody {
    /// Bytes `range` of `body`; without an end where its length is not known yet. `filler` fetches
    /// what is missing, where that is possible.
    pub(crate) fn new(body: &Arc<Body>, range: Range<u64>, filler: Option<Filler>) -> Self {
        let mut stored = Self {
            reader: None,
            body: Arc::clone(body),
            filler,
            first: None,
            position: range.start,
            end: range.end,
            is_loose: false,
        };
        stored.reader();
        stored
    }

    /// The reader, made where there is none.
    fn reader(&mut self) -> &mut BodyReader {
        self.reader.get_or_insert_with(|| {
            let mut reader = self.body.reader(self.position..self.end);
            reader.set_patient(self.filler.is_none() && self.body.source().is_none());
            reader
        })
    }

    fn holding(&self) -> Option<Holding> {
        let id = Arc::as_ptr(&self.body).addr();
        let bytes = self.body.held_bytes();
        let is_there_again = self.is_there_again();
        if self.body.is_transit() {
            if is_there_again && self.reader.is_none() {
                return None;
            }
            // The window ahead of its reader and the piece it is in. It may have had more when it
            // began to pass.
            let wide_bytes = TRANSIT_WINDOW_BYTES + u64::from(TRANSIT_PIECE_BYTES_MAX);
            let held = Held { id, bytes: bytes.max(wide_bytes) };
            let least_bytes = bytes.max(self.body.transit_bytes());
            let without = match is_there_again {
                true => Without::ReadsAgain { least_bytes },
                false => Without::Ends { least_bytes },
            };
            return Some(Holding { held, without });
        }
        let without = if is_there_again { Without::GoesOn } else { Without::MayBreak };
        let held = Held { id, bytes: self.bytes_to_come(bytes) };
        (!self.is_loose).then_some(Holding { held, without })
    }

    /// What a body that holds so many bytes will hold while this is read: who is waited for is not asked
    /// again when more has come.
    fn bytes_to_come(&self, held_bytes: u64) -> u64 {
        if self.body.is_complete() {
            return held_bytes;
        }
        let Some(total) = self.body.total() else { return held_bytes.max(UNKNOWN_BYTES) };
        let position = self.reader.as_ref().map_or(self.position, BodyReader::position);
        let missing = self.end.min(total).saturating_sub(position);
        held_bytes.saturating_add(missing).min(total)
    }

    /// Whether a disk or an origin gives its bytes once more.
    fn is_there_again(&self) -> bool {
        self.body.trailers().is_none() && (self.filler.is_some() || self.body.source().is_some())
    }

    fn loosen(&mut self) {
        let is_transit = self.body.is_transit();
        self.is_loose |= !is_transit;
        if is_transit && !self.is_there_again() {
            return;
        }
        let given_back = self.first.take().map_or(0, |first| first.len());
        self.rewind(given_back);
        if is_transit {
            // What was read ahead goes; the rest comes into a body of its own.
            let passing = Body::transit(self.body.arena(), self.body.total());
            if let Some(source) = self.body.source() {
                passing.set_source(source.clone());
            }
            self.body = passing;
        }
    }

    fn rewind(&mut self, bytes: usize) {
        let position = self.reader.take().map_or(self.position, |reader| reader.position());
        self.position = position - bytes as u64;
    }

    /// Waits for the first byte, so that what cannot be had is known before a head is sent.
    ///
    /// # Errors
    /// [`BodyBroken`].
    pub async fn first_byte(&mut self) -> Result<(), BodyBroken> {
        if let Some(Chunk::Lease(lease)) = poll_fn(|cx| self.poll_next(cx, usize::MAX)).await? {
            self.first = Some(lease);
        }
        Ok(())
    }

    /// Has the first part fetched that is missing, and waits for its first byte: a response whose head is
    /// sent can only break off there.
    ///
    /// # Errors
    /// [`BodyBroken`].
    pub async fn first_missing_byte(&mut self) -> Result<(), BodyBroken> {
        let end = self.end.min(self.body.total().unwrap_or(0));
        let hole = self.body.first_missing(self.position..end);
        let Some(hole) = hole.filter(|_| self.body.source().is_none()) else { return Ok(()) };
        let mut ahead = Self::new(&self.body, hole..self.end, self.filler.take());
        let has_come = ahead.first_byte().await;
        self.filler = ahead.filler;
        has_come
    }

    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Chunk>, BodyBroken>> {
        if let Some(lease) = self.first.take() {
            return Poll::Ready(Ok(Some(Chunk::Lease(lease))));
        }
        let bytes_max = if self.is_loose { bytes_max.min(LOOSE_BYTES_MAX) } else { bytes_max };
        loop {
            match self.reader().poll_next(cx, bytes_max) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Next::Data(lease)) => {
                    let chunk = Chunk::Lease(lease);
                    return Poll::Ready(Ok(Some(match self.is_loose {
                        true => self.let_go(&chunk),
                        false => chunk,
                    })));
                }
                Poll::Ready(Next::End) => return Poll::Ready(Ok(None)),
                // A writer is registered before the fetch begins, so the next poll waits for it.
                Poll::Ready(Next::Hole(hole)) => {
                    if self.is_loose && self.body.is_cleared() {
                        // What comes again is for this reader alone.
                        self.body.enter_transit();
                    }
                    let (body, end) = (&self.body, self.end);
                    let fills = crate::keepers::fill(body, &hole, self.filler.as_ref())
                        || self.filler.as_mut().is_some_and(|filler| filler.fill(body, hole, end));
                    if !fills {
                        return Poll::Ready(Err(BodyBroken));
                    }
                }
                Poll::Ready(Next::Failed(_)) => return Poll::Ready(Err(BodyBroken)),
            }
        }
    }

    /// A copy of what was read, and no reader any more that keeps what follows.
    fn let_go(&mut self, chunk: &Chunk) -> Chunk {
        if !self.body.is_transit() {
            self.rewind(0);
        }
        chunk.copied(0)
    }
}
