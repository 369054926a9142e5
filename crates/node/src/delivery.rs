//! Where a response's body comes from while it is sent. Every protocol pulls the same pieces.

use crate::coding::body::Coded;
use crate::esi::assemble::Assembly;
use crate::fetch::range::Filler;
use crate::session::tunnel::Tunnel;
use bytes::Bytes;
use freshet_http::fields::Fields;
use freshet_store::{Body, BodyReader, Lease, Next};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

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
    /// What is left of bytes that lie together in memory.
    Held(Option<Lease>),
    /// A stored object, or one that is being filled.
    Stored(StoredBody),
    /// Several ranges of a stored object.
    Parts(Box<Parts>),
    /// Another body, with its coding changed on the way.
    Coded(Box<Coded>),
    /// A page that is put together on the way.
    Esi(Box<Assembly>),
    /// No response at all: the connection is closed.
    Closed,
    /// No body: the connection becomes a tunnel.
    Tunnel(Box<Tunnel>),
}

/// A range of a body in memory, with what is missing fetched on the way.
pub struct StoredBody {
    reader: BodyReader,
    body: Arc<Body>,
    filler: Option<Filler>,
    /// Where the response ends; beyond the body's end where that is not known.
    end: u64,
    /// A piece that was waited for before the head was sent.
    first: Option<Lease>,
}

/// The parts of a `multipart/byteranges` body (RFC 9110 §14.6).
pub struct Parts {
    body: Arc<Body>,
    filler: Option<Filler>,
    /// Head and range of each part to come.
    parts: VecDeque<(Bytes, Range<u64>)>,
    current: Option<StoredBody>,
    end: Option<Bytes>,
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
            Self::Empty | Self::Closed | Self::Tunnel(_) => Poll::Ready(Ok(None)),
            Self::Inline(bytes) => {
                let piece = bytes.split_to(bytes.len().min(bytes_max));
                Poll::Ready(Ok(Some(piece).filter(|piece| !piece.is_empty()).map(Chunk::Bytes)))
            }
            Self::Held(held) => {
                let next = held.take().map(|lease| {
                    let (next, rest) = split(lease, bytes_max);
                    *held = rest;
                    Chunk::Lease(next)
                });
                Poll::Ready(Ok(next))
            }
            Self::Stored(stored) => stored.poll_next(cx, bytes_max),
            Self::Parts(parts) => parts.poll_next(cx, bytes_max),
            Self::Coded(coded) => coded.poll_next(cx, bytes_max),
            Self::Esi(assembly) => assembly.poll_next(cx, bytes_max),
        }
    }

    /// Trailer fields, once the body has ended.
    pub fn trailers(&self) -> Option<Fields> {
        match self {
            Self::Stored(stored) => stored.body.trailers().cloned(),
            _ => None,
        }
    }
}

/// The first `bytes_max` bytes of `lease` at most, and the rest where there is one.
fn split(lease: Lease, bytes_max: usize) -> (Lease, Option<Lease>) {
    if lease.len() <= bytes_max {
        return (lease, None);
    }
    (lease.slice(0..bytes_max), Some(lease.slice(bytes_max..lease.len())))
}

impl StoredBody {
    /// Bytes `range` of `body`; without an end where its length is not known yet. `filler` fetches
    /// what is missing, where that is possible.
    pub(crate) fn new(body: &Arc<Body>, range: Range<u64>, filler: Option<Filler>) -> Self {
        let end = range.end;
        let mut reader = body.reader(range);
        reader.set_patient(filler.is_none() && body.source().is_none());
        Self { reader, body: Arc::clone(body), filler, end, first: None }
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

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Chunk>, BodyBroken>> {
        if let Some(lease) = self.first.take() {
            return Poll::Ready(Ok(Some(Chunk::Lease(lease))));
        }
        loop {
            match self.reader.poll_next(cx, bytes_max) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Next::Data(lease)) => {
                    return Poll::Ready(Ok(Some(Chunk::Lease(lease))));
                }
                Poll::Ready(Next::End) => return Poll::Ready(Ok(None)),
                // A writer is registered before the fetch begins, so the next poll waits for it.
                Poll::Ready(Next::Hole(hole)) => {
                    let (body, end) = (&self.body, self.end);
                    let fills = crate::disk::fill(body, &hole, self.filler.as_ref())
                        || self.filler.as_mut().is_some_and(|filler| filler.fill(body, hole, end));
                    if !fills {
                        return Poll::Ready(Err(BodyBroken));
                    }
                }
                Poll::Ready(Next::Failed(_)) => return Poll::Ready(Err(BodyBroken)),
            }
        }
    }
}

impl Parts {
    /// A body of these parts, each with the bytes that go before it, and `end` behind the last.
    pub(crate) fn new(
        body: &Arc<Body>,
        parts: impl IntoIterator<Item = (Bytes, Range<u64>)>,
        end: Bytes,
        filler: Option<Filler>,
    ) -> Self {
        let parts = parts.into_iter().collect();
        Self { body: Arc::clone(body), filler, parts, current: None, end: Some(end) }
    }

    /// Length of the whole, heads of parts included.
    pub fn length(&self) -> u64 {
        let parts: u64 = self
            .parts
            .iter()
            .map(|(head, range)| head.len() as u64 + (range.end - range.start))
            .sum();
        parts + self.end.as_ref().map_or(0, |end| end.len() as u64)
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Chunk>, BodyBroken>> {
        if let Some(current) = &mut self.current {
            match current.poll_next(cx, bytes_max) {
                Poll::Ready(Ok(None)) => self.current = None,
                other => return other,
            }
        }
        match self.parts.pop_front() {
            Some((head, range)) => {
                self.current = Some(StoredBody::new(&self.body, range, self.filler.clone()));
                Poll::Ready(Ok(Some(Chunk::Bytes(head))))
            }
            None => Poll::Ready(Ok(self.end.take().map(Chunk::Bytes))),
        }
    }
}
