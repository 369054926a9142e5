//! A body in memory as a response is made of it: what is missing is fetched while it is read.

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

/// What a body whose length is not known is taken to come to, at least.
const UNKNOWN_BYTES: u64 = 1 << 20;

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

impl StoredBody {
    /// Bytes `range` of `body`; without an end where its length is not known yet. `filler` fetches
    /// what is missing, where that is possible.
    pub fn new(body: &Arc<Body>, range: Range<u64>, filler: Option<Filler>) -> Self {
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

    /// What it keeps in memory, if anything.
    pub fn holding(&self) -> Option<Holding> {
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

    /// Keeps nothing in memory from now on, as far as that can be.
    pub fn loosen(&mut self) {
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
