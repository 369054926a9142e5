//! A body in memory as a response is made of it: what is missing is fetched while it is read.

use super::again::Again;
use super::missing;
use super::range::Filler;
use freshet_access::ledger::readers::Held;
use freshet_site::pieces::{BodyBroken, Chunk, Holding, LOOSE_BYTES_MAX, Without};
use freshet_store::limits::{TRANSIT_PIECE_BYTES_MAX, TRANSIT_WINDOW_BYTES};
use freshet_store::{Body, BodyReader, Lease, Next};
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::task::spawn_local;

/// What a body whose length is not known is taken to come to, at least.
const UNKNOWN_BYTES: u64 = 1 << 20;

/// A range of a body in memory, with what is missing fetched on the way.
pub struct StoredBody {
    /// None between two pieces while it is loose.
    reader: Option<BodyReader>,
    body: Arc<Body>,
    filler: Option<Filler>,
    /// Fetches all of it again while nothing was given out, where parts cannot be fetched.
    again: Option<Box<Again>>,
    /// Where the response ends; beyond the body's end where that is not known.
    end: u64,
    /// A piece that was waited for before the head was sent.
    first: Option<Lease>,
    /// Where a reader has to begin, where there is none.
    position: u64,
    /// Whether it may keep nothing of the body in memory.
    is_loose: bool,
}

impl StoredBody {
    /// Bytes `range` of `body`; without an end where its length is not known yet. `filler` fetches
    /// what is missing, where that is possible.
    pub fn new(body: &Arc<Body>, range: Range<u64>, filler: Option<Filler>) -> Self {
        let mut stored = Self {
            reader: None,
            body: Arc::clone(body),
            filler,
            again: None,
            first: None,
            position: range.start,
            end: range.end,
            is_loose: false,
        };
        stored.reader();
        stored
    }

    /// The same, of which all is fetched again by `again` where it is evicted before any of it was
    /// given out. Only for a response of all of it, to which nothing joins parts.
    #[must_use]
    pub fn or(self, again: Option<Box<Again>>) -> Self {
        Self { again, ..self }
    }

    /// The body it is of.
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }

    /// The reader, made where there is none.
    fn reader(&mut self) -> &mut BodyReader {
        self.reader.get_or_insert_with(|| {
            let mut reader = self.body.reader(self.position..self.end);
            reader.set_patient(self.filler.is_none() && self.body.source().is_none());
            reader
        })
    }

    /// What it keeps in memory, if anything. The last `unsent_bytes` that were given out can be taken back.
    pub fn holding(&self, unsent_bytes: u64) -> Option<Holding> {
        let id = Arc::as_ptr(&self.body).addr();
        let bytes = self.body.held_bytes();
        let is_there_again = self.is_there_again(unsent_bytes);
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
        let missing = self.end.min(total).saturating_sub(self.position());
        held_bytes.saturating_add(missing).min(total)
    }

    /// Up to where it was read.
    fn position(&self) -> u64 {
        self.reader.as_ref().map_or(self.position, BodyReader::position)
    }

    /// Whether a disk or an origin gives its bytes once more.
    fn is_there_again(&self, unsent_bytes: u64) -> bool {
        self.body.trailers().is_none()
            && (self.parts_are_there_again() || self.can_begin_again(unsent_bytes))
    }

    fn parts_are_there_again(&self) -> bool {
        self.filler.is_some() || self.body.source().is_some()
    }

    /// Whether all of it may come anew, as nothing was given out that is not taken back.
    fn can_begin_again(&self, unsent_bytes: u64) -> bool {
        let ahead_bytes = self.first.as_ref().map_or(0, |first| first.len()) as u64;
        self.again.is_some()
            && !self.body.is_transit()
            && self.position() == ahead_bytes + unsent_bytes
    }

    /// What it is to hold before it begins, where all of it but no part can be had again: it could not go on
    /// from its middle.
    pub fn wants_hold(&self) -> Option<Held> {
        if !self.can_begin_again(0) || self.parts_are_there_again() {
            return None;
        }
        let id = Arc::as_ptr(&self.body).addr();
        Some(Held { id, bytes: self.body.held_bytes().max(self.body.total().unwrap_or(0)) })
    }

    /// Keeps again what it reads, as before it was loosened.
    pub fn tighten(&mut self) {
        self.is_loose = false;
        self.reader();
    }

    /// Keeps nothing in memory from now on, as far as that can be.
    pub fn loosen(&mut self) {
        let is_transit = self.body.is_transit();
        self.is_loose |= !is_transit;
        if is_transit && !self.is_there_again(0) {
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

    /// Takes back the last `bytes` that were given out, which are given out again.
    pub fn rewind(&mut self, bytes: usize) {
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

    /// The next piece, at most `bytes_max` long; `None` at the end.
    pub fn poll_next(
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
                    let fills = missing::fill(body, &hole, self.filler.as_ref())
                        || self.filler.as_mut().is_some_and(|filler| filler.fill(body, hole, end));
                    if !fills && !self.begin_again() {
                        return Poll::Ready(Err(BodyBroken));
                    }
                }
                // It may have failed as nobody read it while this waited for its turn.
                Poll::Ready(Next::Failed(_)) if self.begin_again() => {}
                Poll::Ready(Next::Failed(_)) => return Poll::Ready(Err(BodyBroken)),
            }
        }
    }

    /// Has all of it fetched into a body of its own. False where it has begun.
    fn begin_again(&mut self) -> bool {
        let is_at_start = self.position() == 0;
        let Some(again) = self.again.take_if(|_| is_at_start) else { return false };
        let passing = Body::transit(self.body.arena(), self.body.total());
        let writer = passing.writer(0, passing.total());
        self.rewind(0);
        self.body = passing;
        spawn_local(again.bring(writer));
        true
    }

    /// A copy of what was read, and no reader any more that keeps what follows.
    fn let_go(&mut self, chunk: &Chunk) -> Chunk {
        if !self.body.is_transit() {
            self.rewind(0);
        }
        chunk.copied(0)
    }
}
