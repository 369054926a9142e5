//! Sending the body of an HTTP/1 response, as fast as its client takes it.

use super::deadline::Deadline;
use super::finish::Sent;
use super::h1_body::Progress;
use super::h1_io::{Broken, PARTS_MAX, SharedIo, TURN_BYTES};
use super::keeping::{Keeping, Settled};
use super::leaving::Leaving;
use freshet_access::client::Client;
use freshet_request::delivery::ResponseBody;
use freshet_site::pieces::{BodyBroken, Chunk};
use freshet_store::Lease;
use freshet_wire::h1::Framing;
use freshet_wire::h1::chunked::Encoder;
use freshet_worker::worker::Worker;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// Body bytes sent in one go.
const PIECE_BYTES_MAX: usize = 1 << 20;
/// The same of a body that cannot be read again: what of a piece a slow client has not taken when
/// its response may not keep it is copied.
const PIECE_BYTES_ONCE: usize = 128 << 10;
/// Bytes that pieces of a body are gathered up to, to be sent in one go: two batches of TLS.
const GATHER_BYTES_MAX: usize = 128 << 10;

/// Sends one response's body.
pub(super) struct Sending<'a> {
    pub(super) worker: &'a Worker,
    pub(super) client: &'a Client,
    pub(super) io: &'a SharedIo,
    /// How far the request's body came.
    pub(super) received: Option<&'a Rc<Progress>>,
    pub(super) deadline: &'a mut Deadline,
    /// The head, and what else goes before the next piece.
    pub(super) out: &'a mut Vec<u8>,
    /// How long the client may take nothing.
    pub(super) limit: Duration,
    /// When all of it has to be sent, where that is given.
    pub(super) until: Option<Instant>,
    pub(super) keeping: Keeping,
}

/// The next of a body, where that is known.
type Ahead = Option<Result<Option<Chunk>, BodyBroken>>;

impl Sending<'_> {
    /// Sends the head in `out` and the body behind it. A body that breaks off breaks the
    /// connection too: nothing else tells the client (RFC 9112 §8).
    pub(super) async fn body(
        &mut self,
        body: &mut ResponseBody,
        framing: Framing,
        sent: &mut Sent,
    ) -> Result<(), Broken> {
        let mut encoder = (framing == Framing::Chunked).then(Encoder::new);
        let mut ahead = None;
        let is_read_again = body.can_rewind() && encoder.is_none();
        let most = if is_read_again { PIECE_BYTES_MAX } else { PIECE_BYTES_ONCE };
        loop {
            // Whatever of the body is there goes out with the head; a head does not wait for it.
            let next = if let Some(next) = ahead.take() {
                next
            } else if self.out.is_empty() {
                self.next(body, most).await?
            } else {
                match body.try_next(most) {
                    Some(next) => next,
                    None => {
                        self.io.send(&[self.out], self.deadline, self.limit).await?;
                        self.out.clear();
                        continue;
                    }
                }
            };
            if self.until.is_some_and(|until| Instant::now() > until) {
                return Err(Broken::Timeout);
            }
            match next {
                Ok(Some(Chunk::Lease(lease)))
                    if let Framing::Length(length) = framing
                        && self.lends(&lease) =>
                {
                    let more = sent.body_bytes + (lease.len() as u64) < length;
                    self.lend(body, lease, more, sent).await?;
                    tokio::task::yield_now().await;
                }
                Ok(Some(piece)) => match &mut encoder {
                    Some(encoder) => {
                        let bytes = piece.as_ref().len();
                        encoder.write_chunk_head(bytes, self.out);
                        let mut end = Vec::new();
                        encoder.close_chunk(&mut end);
                        self.pieces(body, (piece, Vec::new()), &end, &mut ahead, sent).await?;
                    }
                    None => {
                        let mut more = Vec::new();
                        let bytes = piece.as_ref().len();
                        ahead = self.gather(body, framing, sent, bytes, &mut more);
                        self.pieces(body, (piece, more), &[], &mut ahead, sent).await?;
                    }
                },
                Ok(None) => {
                    if let Some(encoder) = &mut encoder {
                        encoder.write_end(body.trailers().as_ref(), self.out);
                    }
                    return self.io.send(&[self.out], self.deadline, self.limit).await;
                }
                Err(_) => {
                    if !self.out.is_empty() && sent.body_bytes == 0 {
                        self.io.send(&[self.out], self.deadline, self.limit).await?;
                    }
                    return Err(Broken::Io);
                }
            }
        }
    }

    /// How long the client may take nothing from now.
    fn patience(&self) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        left.map_or(self.limit, |left| left.min(self.limit))
    }

    /// The next piece, unless the client leaves while it is waited for.
    async fn next(
        &self,
        body: &mut ResponseBody,
        most: usize,
    ) -> Result<Result<Option<Chunk>, BodyBroken>, Broken> {
        let mut leaving: Option<Leaving> = None;
        let look = || Leaving::new(self.worker, self.io, self.received);
        poll_fn(|cx| match body.poll_next(cx, most) {
            Poll::Ready(next) => Poll::Ready(Ok(next)),
            Poll::Pending => leaving.get_or_insert_with(look).poll(cx).map(|()| Err(Broken::Io)),
        })
        .await
    }

    /// Takes what else of a body of known length is there behind its first piece, to leave with it.
    /// Returns what comes after that where it is known.
    fn gather(
        &self,
        body: &mut ResponseBody,
        framing: Framing,
        sent: &Sent,
        mut bytes: usize,
        more: &mut Vec<Chunk>,
    ) -> Ahead {
        let Framing::Length(length) = framing else { return None };
        while sent.body_bytes + (bytes as u64) < length
            && bytes < GATHER_BYTES_MAX
            && more.len() + 3 < PARTS_MAX
            && !self.keeping.is_loose()
        {
            match body.try_next(GATHER_BYTES_MAX - bytes)? {
                Ok(Some(Chunk::Lease(lease))) if self.lends(&lease) => {
                    return Some(Ok(Some(Chunk::Lease(lease))));
                }
                Ok(Some(piece)) => {
                    bytes += piece.as_ref().len();
                    more.push(piece);
                }
                end => return Some(end),
            }
        }
        None
    }

    /// Whether the kernel gets references to these bytes of a body of known length, not a copy.
    fn lends(&self, lease: &Lease) -> bool {
        self.io.is_clear() && lease.is_worth_lending()
    }

    /// Sends what is in `out`, pieces of the body, and `end`.
    async fn pieces(
        &mut self,
        body: &mut ResponseBody,
        (first, more): (Chunk, Vec<Chunk>),
        end: &[u8],
        ahead: &mut Ahead,
        sent: &mut Sent,
    ) -> Result<(), Broken> {
        let head = std::mem::take(self.out);
        let mut parts: [&[u8]; PARTS_MAX] = [&[]; PARTS_MAX];
        parts[0] = &head;
        parts[1] = first.as_ref();
        for (part, piece) in parts[2..].iter_mut().zip(&more) {
            *part = piece.as_ref();
        }
        // Only where there is one piece.
        parts[2 + more.len()] = end;
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = total - head.len() - end.len();
        let io = self.io;
        let step = |cx: &mut Context<'_>, skip| io.poll_send(cx, &parts, skip);
        let taken = self.deliver(body, total, step).await?;
        if taken == total {
            drop((first, more));
            sent.body_bytes += bytes as u64;
            return self.emptied(body, head).await;
        }
        // The rest may not be kept in memory.
        if end.is_empty() && body.can_rewind() {
            let taken_bytes = taken.saturating_sub(head.len());
            drop((first, more));
            sent.body_bytes += taken_bytes as u64;
            let left = bytes - taken_bytes + ahead.take().map_or(0, |next| known_bytes(&next));
            self.go_back(body, head, taken, left);
            return Ok(());
        }
        let rest = parts.concat().split_off(taken);
        drop((first, more));
        if let Some(Ok(Some(chunk))) = ahead {
            *chunk = chunk.copied(0);
        }
        sent.body_bytes += bytes as u64;
        self.rest(body, &rest).await?;
        self.emptied(body, head).await
    }

    /// Sends what is in `out` and a piece of the body, to which the kernel gets references.
    async fn lend(
        &mut self,
        body: &mut ResponseBody,
        lease: Lease,
        more: bool,
        sent: &mut Sent,
    ) -> Result<(), Broken> {
        let head = std::mem::take(self.out);
        let total = head.len() + lease.len();
        let io = self.io;
        let step = |cx: &mut Context<'_>, skip| io.poll_lend(cx, &head, &lease, skip, more);
        let taken = self.deliver(body, total, step).await?;
        let taken_bytes = taken.saturating_sub(head.len());
        let left = lease.len() - taken_bytes;
        sent.body_bytes += taken_bytes as u64;
        if left == 0 {
            drop(lease);
            return self.emptied(body, head).await;
        }
        if body.can_rewind() {
            drop(lease);
            self.go_back(body, head, taken, left);
            return Ok(());
        }
        let rest = [head.get(taken..).unwrap_or(&[]), &lease[taken_bytes..]].concat();
        sent.body_bytes += left as u64;
        drop(lease);
        self.rest(body, &rest).await?;
        self.emptied(body, head).await
    }

    /// Sends a copy of what is in hand of a body that keeps nothing in memory from now on.
    async fn rest(&mut self, body: &mut ResponseBody, rest: &[u8]) -> Result<(), Broken> {
        body.loosen();
        let io = self.io;
        let step = |cx: &mut Context<'_>, skip| io.poll_send(cx, &[rest], skip);
        self.deliver(body, rest.len(), step).await.map(drop)
    }

    /// Has a body give out again, as copies, the last `left` bytes, which the client did not take.
    fn go_back(&mut self, body: &mut ResponseBody, mut head: Vec<u8>, taken: usize, left: usize) {
        body.loosen();
        body.rewind(left);
        head.drain(..taken.min(head.len()));
        *self.out = head;
    }

    /// What was to be sent was taken: waits until the socket has it, and keeps the buffer.
    async fn emptied(&mut self, body: &mut ResponseBody, mut head: Vec<u8>) -> Result<(), Broken> {
        head.clear();
        *self.out = head;
        let at_once = poll_fn(|cx| match self.io.poll_flush(cx) {
            Poll::Ready(flushed) => Poll::Ready(Some(flushed)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(flushed) = at_once.await {
            return Ok(flushed?);
        }
        loop {
            match self.keeping.settle(self.worker, self.client, body, 0) {
                Settled::Kept => {}
                Settled::Loosened => body.loosen(),
                Settled::Ended => return Err(Broken::Io),
            }
            let (io, keeping, patience) = (self.io, &self.keeping, self.patience());
            let flush = poll_fn(|cx| match io.poll_flush(cx) {
                Poll::Ready(flushed) => Poll::Ready(Some(flushed)),
                Poll::Pending => keeping.poll_lost(cx).map(|()| None),
            });
            if let Some(flushed) = self.deadline.within(patience, flush).await? {
                return Ok(flushed?);
            }
        }
    }

    /// Has `step` send from where it is told, `total` bytes in all, for as long as the client takes
    /// them. Returns how many it took: less than all where the response may not keep the rest.
    async fn deliver(
        &mut self,
        body: &ResponseBody,
        total: usize,
        mut step: impl FnMut(&mut Context<'_>, usize) -> Poll<io::Result<usize>>,
    ) -> Result<usize, Broken> {
        let (mut taken, mut turn) = (0, 0);
        while taken < total {
            let at_once = poll_fn(|cx| match step(cx, taken) {
                Poll::Ready(count) => Poll::Ready(Some(count)),
                Poll::Pending => Poll::Ready(None),
            });
            let count = match at_once.await {
                Some(count) => count?,
                None => {
                    match self.keeping.settle(self.worker, self.client, body, 0) {
                        Settled::Kept => {}
                        Settled::Loosened => return Ok(taken),
                        Settled::Ended => return Err(Broken::Io),
                    }
                    let since = Instant::now();
                    let (keeping, patience) = (&self.keeping, self.patience());
                    let step = poll_fn(|cx| match step(cx, taken) {
                        Poll::Ready(count) => Poll::Ready(Some(count)),
                        Poll::Pending => keeping.poll_lost(cx).map(|()| None),
                    });
                    let Some(count) = self.deadline.within(patience, step).await? else {
                        continue;
                    };
                    let count = count?;
                    if !self.keeping.note(self.worker, since.elapsed(), count as u64, self.limit) {
                        return Err(Broken::Timeout);
                    }
                    count
                }
            };
            taken += count;
            turn += count;
            if turn >= TURN_BYTES {
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
        Ok(taken)
    }
}

/// Bytes of what comes next.
fn known_bytes(next: &Result<Option<Chunk>, BodyBroken>) -> usize {
    match next {
        Ok(Some(chunk)) => chunk.as_ref().len(),
        Ok(None) | Err(_) => 0,
    }
}
