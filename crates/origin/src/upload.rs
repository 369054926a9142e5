//! A request on its way out: head and body as a queue of pieces, written as the origin takes them.

use crate::request_body::BodyProvider;
use bytes::Bytes;
use freshet_http::fields::Fields;
use freshet_http::message::Method;
use freshet_net::stream::Stream;
use freshet_wire::h1::Framing;
use freshet_wire::h1::chunked::Encoder;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

/// Body bytes remembered so that an idempotent request can be sent again on another connection.
/// Covers the small bodies of APIs; larger ones are streamed once.
const REPLAY_BYTES_MAX: u64 = 64 * 1024;

/// Pieces handed to the kernel at once: the head and five chunks.
const PIECES_PER_WRITE: usize = 16;

/// Pieces a chunk is queued as: size, data, line end.
const PIECES_PER_CHUNK: usize = 3;

/// With more than this queued the source is not asked: what a socket takes at once.
const QUEUE_BYTES: usize = 64 * 1024;

/// A request being sent, also while its response comes.
pub(crate) struct Upload {
    head: Bytes,
    body: Option<Body>,
    queue: VecDeque<Bytes>,
    /// Everything queued after the head, framing included; `None` when it became too much.
    replay: Option<Vec<Bytes>>,
    queued_body_bytes: u64,
    flushed: bool,
    progressed: bool,
    /// Whether pieces of the body are framed as HTTP/1 does it.
    is_framed: bool,
    /// What came behind a body that is not framed.
    trailers: Option<Fields>,
    /// Bytes of this request the present connection took.
    pub(crate) written: u64,
}

struct Body {
    provider: Box<dyn BodyProvider>,
    /// Declared length; `None` for chunks.
    length: Option<u64>,
    ended: bool,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("written", &self.written).finish_non_exhaustive()
    }
}

/// Whose turn it is when an upload is pending.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WaitsFor {
    Client,
    Origin,
}

/// Why an upload stopped.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The source of the body failed.
    Client(String),
    /// The connection failed.
    Origin(io::Error),
}

/// The framing a request with this body is sent with: no body, no framing, but for methods that have one. Of
/// those it is said that it is empty (RFC 9110 §8.6), as some origins answer 411 else.
pub(crate) fn framing(method: &Method, body: Option<&dyn BodyProvider>) -> Framing {
    match body.map(BodyProvider::length) {
        None if matches!(method, Method::Post | Method::Put | Method::Patch) => Framing::Length(0),
        None => Framing::None,
        Some(Some(length)) => Framing::Length(length),
        Some(None) => Framing::Chunked,
    }
}

impl Upload {
    /// A request of this head, written out, and body.
    pub(crate) fn new(head: Vec<u8>, body: Option<Box<dyn BodyProvider>>) -> Self {
        let head = Bytes::from(head);
        let body = body.map(|provider| {
            let length = provider.length();
            Body { provider, length, ended: length == Some(0) }
        });
        Self {
            queue: VecDeque::from([head.clone()]),
            head,
            body,
            replay: Some(Vec::new()),
            queued_body_bytes: 0,
            flushed: false,
            progressed: false,
            is_framed: true,
            trailers: None,
            written: 0,
        }
    }

    /// Sends what can be sent. Ready when the kernel has all of it.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
    ) -> Poll<Result<(), Stopped>> {
        loop {
            let source = match self.poll_top_up(cx) {
                Poll::Ready(Err(stopped)) => return Poll::Ready(Err(stopped)),
                other => other,
            };
            if self.queue.is_empty() {
                // The source has ended, or has nothing yet: TLS may still hold what it was given.
                return match stream.poll_flush(cx) {
                    Poll::Ready(Err(error)) => Poll::Ready(Err(Stopped::Origin(error))),
                    Poll::Ready(Ok(())) if source.is_ready() => {
                        self.flushed = true;
                        Poll::Ready(Ok(()))
                    }
                    _ => Poll::Pending,
                };
            }
            let mut pieces = [IoSlice::new(&[]); PIECES_PER_WRITE];
            for (slot, piece) in pieces.iter_mut().zip(&self.queue) {
                *slot = IoSlice::new(piece);
            }
            let len = self.queue.len().min(PIECES_PER_WRITE);
            let pieces = pieces.get(..len).unwrap_or_default();
            match stream.poll_write_pieces(cx, pieces) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(Stopped::Origin(io::ErrorKind::WriteZero.into())));
                }
                Poll::Ready(Ok(count)) => self.advance(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Stopped::Origin(error))),
            }
        }
    }

    /// Whether this request can be sent from its start again. What the source gave so far must
    /// still be there.
    pub(crate) fn rewind(&mut self) -> bool {
        let Some(replay) = &self.replay else { return false };
        self.queue = [self.head.clone()].into_iter().chain(replay.iter().cloned()).collect();
        self.flushed = false;
        self.progressed = false;
        self.written = 0;
        true
    }

    /// Makes the request ready to be sent from its start, in HTTP/1 or as pieces of a body alone.
    /// False where what the source gave so far is not there any more, or in the other form.
    pub(crate) fn begin(&mut self, is_framed: bool) -> bool {
        let has_form = self.body.as_ref().is_some_and(|body| body.length.is_none());
        if is_framed != self.is_framed && has_form && self.queued_body_bytes > 0 {
            return false;
        }
        self.is_framed = is_framed;
        if !self.rewind() {
            return false;
        }
        if !is_framed {
            self.queue.pop_front();
        }
        true
    }

    /// Whether there is more than a head.
    pub(crate) fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// Whether nothing follows the head.
    pub(crate) fn is_bodiless(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.length == Some(0))
    }

    /// The length of the body, where it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.body.as_ref().and_then(|body| body.length)
    }

    /// The next piece of a body that is not framed; `None` at its end.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Stopped>> {
        loop {
            if let Some(piece) = self.queue.pop_front() {
                return Poll::Ready(Ok(Some(piece)));
            }
            match ready!(self.poll_fill(cx)) {
                Ok(true) => {}
                Ok(false) => {
                    self.flushed = true;
                    return Poll::Ready(Ok(None));
                }
                Err(stopped) => return Poll::Ready(Err(stopped)),
            }
        }
    }

    /// The trailers of a body that is not framed and has ended.
    pub(crate) fn trailers(&self) -> Option<Fields> {
        self.trailers.clone().filter(|trailers| !trailers.is_empty())
    }

    /// Whether everything was sent.
    pub(crate) fn is_complete(&self) -> bool {
        self.flushed
    }

    /// What is still to be sent now that the origin answers, if anything is. It is not sent twice any more.
    pub(crate) fn rest(mut self) -> Option<Self> {
        let goes_on = self.body.as_ref().is_none_or(|body| body.ended || body.provider.goes_on());
        let is_over = self.flushed || (!self.is_framed && self.is_bodiless());
        self.replay = None;
        (goes_on && !is_over).then_some(self)
    }

    /// Whether the origin cannot have the whole request: the present connection took nothing of it, or
    /// there is a body of which nothing was even asked for. What is sent as pieces of a body alone has a
    /// head that is not counted here.
    pub(crate) fn cannot_be_whole(&self) -> bool {
        let is_untouched =
            self.body.as_ref().is_some_and(|body| !body.ended) && self.queued_body_bytes == 0;
        is_untouched || (self.is_framed && self.written == 0)
    }

    /// Whose turn it is.
    pub(crate) fn waits_for(&self) -> WaitsFor {
        let source_is_slow =
            self.queue.is_empty() && self.body.as_ref().is_some_and(|body| !body.ended);
        if source_is_slow { WaitsFor::Client } else { WaitsFor::Origin }
    }

    /// Whether the origin took something since the last time this was asked.
    pub(crate) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progressed)
    }

    /// Queues what the source has at once, as far as one write can take it: a body that is there
    /// already leaves in one system call with the head. Ready at the end of the source.
    fn poll_top_up(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        loop {
            let bytes: usize = self.queue.iter().map(Bytes::len).sum();
            if self.queue.len() + PIECES_PER_CHUNK > PIECES_PER_WRITE || bytes > QUEUE_BYTES {
                return Poll::Pending;
            }
            match ready!(self.poll_fill(cx)) {
                Ok(true) => {}
                Ok(false) => return Poll::Ready(Ok(())),
                Err(stopped) => return Poll::Ready(Err(stopped)),
            }
        }
    }

    /// Asks the source for a piece and queues it; `false` at the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Stopped>> {
        let Some(body) = self.body.as_mut().filter(|body| !body.ended) else {
            return Poll::Ready(Ok(false));
        };
        let piece = loop {
            match body.provider.poll_piece(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(failure)) => {
                    return Poll::Ready(Err(Stopped::Client(failure.reason)));
                }
                Poll::Ready(Ok(Some(piece))) if piece.is_empty() => {}
                Poll::Ready(Ok(piece)) => break piece,
            }
        };
        let so_far = self.queued_body_bytes + piece.as_ref().map_or(0, |piece| piece.len() as u64);
        match (body.length, &piece) {
            (Some(length), _) if so_far > length => {
                let reason = format!("it is longer than the {length} bytes it declared");
                return Poll::Ready(Err(Stopped::Client(reason)));
            }
            (Some(length), None) if so_far < length => {
                let reason = format!("it ended after {so_far} of {length} bytes");
                return Poll::Ready(Err(Stopped::Client(reason)));
            }
            // All there: no need to hear of the end.
            (Some(length), _) => body.ended = so_far == length,
            (None, None) => body.ended = true,
            (None, Some(_)) => {}
        }
        self.queued_body_bytes = so_far;
        let chunked = body.length.is_none();
        if !self.is_framed && piece.is_none() {
            self.trailers = body.provider.trailers().filter(|_| chunked);
            return Poll::Ready(Ok(false));
        }
        let chunked = chunked && self.is_framed;
        match piece {
            Some(data) if chunked => {
                let mut size = Vec::new();
                // Closed at once: the next piece may be long in coming.
                Encoder::new().write_chunk_head(data.len(), &mut size);
                self.enqueue([size.into(), data, Bytes::from_static(b"\r\n")]);
            }
            Some(data) => self.enqueue([data]),
            None if chunked => {
                let mut end = Vec::new();
                let trailers = self.body.as_mut().and_then(|body| body.provider.trailers());
                Encoder::new().write_end(trailers.as_ref(), &mut end);
                self.enqueue([end.into()]);
            }
            None => return Poll::Ready(Ok(false)),
        }
        Poll::Ready(Ok(true))
    }

    fn enqueue(&mut self, pieces: impl IntoIterator<Item = Bytes>) {
        let keep = self.queued_body_bytes <= REPLAY_BYTES_MAX;
        if !keep {
            self.replay = None;
        }
        for piece in pieces {
            if let Some(replay) = &mut self.replay {
                replay.push(piece.clone());
            }
            self.queue.push_back(piece);
        }
    }

    fn advance(&mut self, mut count: usize) {
        self.progressed |= count > 0;
        self.written += count as u64;
        while let Some(first) = self.queue.front_mut() {
            if count < first.len() {
                bytes::Buf::advance(first, count);
                return;
            }
            count -= first.len();
            self.queue.pop_front();
        }
    }
}
