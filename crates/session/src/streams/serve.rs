//! One request of a connection and its response.

mod place;

use super::stream_body::StreamBody;
use super::{Multiplexed, Progress, StreamHandle, Why};
use crate::deadline::{Deadline, Expired};
use crate::finish::Sent;
use crate::keeping::{Keeping, Settled};
use crate::patience::Terms;
use freshet_access::client::Client;
use freshet_access::forwarded;
use freshet_access::ledger::requests::Charge;
use freshet_base::clock::UnixMillis;
use freshet_http::message::{Method, ResponseHead};
use freshet_http::reason::Reason;
use freshet_request::client_exchange::{Facts, Request, Response};
use freshet_request::delivery::ResponseBody;
use freshet_site::client_body::RequestBody;
use freshet_site::interim::{Either, Interim, Working};
use freshet_telemetry::transcript::{Tag, Transcript};
use freshet_wire::h2::Request as Head;
use freshet_worker::worker::Worker;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// Has a stream served by a task of its own. Its future has some 6 KB, and tokio moves what it is given eight times
/// from here to its end: behind a pointer that costs nothing.
pub(crate) fn spawn(serving: impl Future<Output = ()> + 'static) {
    tokio::task::spawn_local(Box::pin(serving));
}

/// Serves a stream whose head is there.
pub(crate) async fn serve<C: Multiplexed>(
    worker: Rc<Worker>,
    client: Rc<Client>,
    stream: StreamHandle<C>,
    request: Head,
    charge: Rc<Charge>,
) {
    let snapshot = worker.snapshot();
    let limits = &snapshot.settings.limits;
    let Head { mut head, length, ends, head_bytes, .. } = request;
    let terms = Terms::of(limits);
    let body = (!ends).then(|| {
        let body_bytes_max = snapshot.limits_of(&head.authority).body_bytes_max;
        StreamBody::new(stream.body(), length, body_bytes_max, terms)
    });
    if !ends && head.fields.has_token("expect", "100-continue") {
        stream.expect_continue();
    }
    let is_head = head.method == Method::Head;
    let asking = forwarded::client_of(
        &snapshot.settings.forwarded,
        snapshot.settings.limits.network,
        &client,
        &mut head,
    );
    let mut sent = Sent::begin(&worker, &head, &asking, C::HEAD_FRAME_BYTES + head_bytes);
    if sent.is_urgent() {
        stream.hasten();
    }
    let interim = Interim::default();
    let request = Request {
        id: sent.id,
        transcript: Rc::clone(&sent.transcript),
        head,
        body: body.map(|body| RequestBody::Arriving(Box::new(body))),
        upgrade: false,
        client: asking,
        received: UnixMillis::now(),
        started: Instant::now(),
        interim: interim.clone(),
        nesting: None,
        has_player: sent.has_player(),
        charge: Some(charge),
    };
    let Some(response) = answer(&worker, &stream, request, &interim).await else {
        // The client does not want it any more; others may, and then its fetch goes on.
        let facts = Facts::local(Reason::ClientGone);
        return sent.end(&worker, &ResponseHead::default(), &facts, true);
    };
    if !ends && snapshot.manners.reads_unwanted_bodies {
        let over = poll_fn(|cx| stream.poll_unwanted_body(cx));
        let _ = tokio::time::timeout(limits.request_timeout, over).await;
    }
    let Response { mut head, mut body, length, facts, .. } = *response;
    let bodiless = is_head || matches!(head.status, 204 | 304) || length == Some(0);
    let length = length.filter(|_| head.status != 204);
    let mut sending = Sending {
        worker: &worker,
        client: &client,
        stream: &stream,
        keeping: Keeping::default(),
        has_gone_back: false,
        deadline: None,
        until: client.timeouts.to_respond(limits).map(|limit| Instant::now() + limit),
        transcript: Rc::clone(&sent.transcript),
        is_late: false,
    };
    let head_room = sending.within_limit(&mut body, |stream, cx| stream.poll_head_room(cx));
    let head_bytes = match head_room.await {
        Ok(true) => stream.respond(&head, length, bodiless),
        Ok(false) | Err(()) => None,
    };
    sent.first_byte(&head, &facts, head_bytes.map_or(0, |bytes| C::HEAD_FRAME_BYTES + bytes));
    head.fields.clear();
    let result = match head_bytes {
        None => Err(()),
        Some(_) if bodiless => Ok(()),
        Some(_) => sending.body(&mut body).await,
    };
    if result.is_err() {
        stream.reset(if sending.is_late { Why::TooSlow } else { Why::Failed });
    }
    sent.body_bytes = stream.sent_bytes();
    sent.request_body_bytes = stream.received_bytes();
    sent.end(&worker, &head, &facts, result.is_err());
}

/// Lets the machine work and sends interim responses as they come; `None` when the stream is over.
async fn answer<C: Multiplexed>(
    worker: &Rc<Worker>,
    stream: &StreamHandle<C>,
    request: Request,
    interim: &Interim,
) -> Option<Box<Response>> {
    let work = pin!(freshet_request::handle(worker, request));
    let mut working = Working::new(work, interim);
    loop {
        let next = tokio::select! {
            biased;
            next = working.next() => next,
            () = poll_fn(|cx| stream.poll_gone(cx)) => return None,
        };
        match next {
            // A stream has no connection to end or to give away.
            Either::Done(reply) => return Some(reply.into_response()),
            Either::Interim(head) => {
                stream.respond(&head, None, false);
            }
        }
    }
}

/// Sends a body as its turn comes and the client's windows open.
struct Sending<'a, C: Multiplexed> {
    worker: &'a Worker,
    client: &'a Client,
    stream: &'a StreamHandle<C>,
    keeping: Keeping,
    /// Whether some of what was queued was taken back, so that the end is not the end.
    has_gone_back: bool,
    /// Made when something has to be waited for.
    deadline: Option<Deadline>,
    /// When all of it has to be sent, where that is limited.
    until: Option<Instant>,
    transcript: Rc<Transcript>,
    /// Whether the client took too long.
    is_late: bool,
}

impl<C: Multiplexed> Sending<'_, C> {
    async fn body(&mut self, body: &mut ResponseBody) -> Result<(), ()> {
        loop {
            self.queue(body).await?;
            self.stream.finish(body.trailers());
            self.drained(body).await?;
            if !std::mem::take(&mut self.has_gone_back) {
                return Ok(());
            }
        }
    }

    /// Queues the body to its end.
    async fn queue(&mut self, body: &mut ResponseBody) -> Result<(), ()> {
        loop {
            let room =
                self.within_limit(body, |stream, cx| stream.poll_room(cx)).await?.ok_or(())?;
            if body.wants_hold().is_some() {
                self.take_place(body).await?;
            }
            // What was taken back is queued again from here on.
            self.has_gone_back = false;
            let next = poll_fn(|cx| match body.poll_next(cx, room) {
                Poll::Ready(next) => Poll::Ready(Some(next)),
                Poll::Pending => self.stream.poll_gone(cx).map(|()| None),
            });
            match next.await {
                Some(Ok(Some(piece))) if piece.as_ref().is_empty() => {}
                Some(Ok(Some(piece))) => {
                    if !self.stream.push(piece) {
                        return Err(());
                    }
                }
                Some(Ok(None)) => return Ok(()),
                Some(Err(_)) => {
                    // What there is goes to the client before it is told that no more comes.
                    self.drained(body).await?;
                    return Err(());
                }
                None => return Err(()),
            }
        }
    }

    async fn drained(&mut self, body: &mut ResponseBody) -> Result<(), ()> {
        let drained = self.within_limit(body, |stream, cx| stream.poll_drained(cx)).await?;
        if drained { Ok(()) } else { Err(()) }
    }

    /// Waits for the client, for as long as it may take nothing, or too little.
    async fn within_limit<T>(
        &mut self,
        body: &mut ResponseBody,
        mut poll: impl FnMut(&StreamHandle<C>, &Context<'_>) -> Poll<T>,
    ) -> Result<T, ()> {
        let stream = self.stream;
        let mut first = None;
        poll_fn(|cx| {
            first = match poll(stream, cx) {
                Poll::Ready(done) => Some(done),
                Poll::Pending => None,
            };
            Poll::Ready(())
        })
        .await;
        if let Some(done) = first {
            return Ok(done);
        }
        let limit = self.client.timeouts.to_send(&self.worker.snapshot().settings.limits);
        // Since when the client is known to be waited for, and what it had taken by then.
        let mut stalled = None;
        let mut is_settled = false;
        loop {
            let before: Progress = stream.progress();
            let keeping = &self.keeping;
            let wait = poll_fn(|cx| match poll(stream, cx) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if !is_settled && stream.is_stalled() => Poll::Ready(None),
                Poll::Pending => keeping.poll_lost(cx).map(|()| None),
            });
            let most = self.time_left(limit);
            let deadline = self.deadline.get_or_insert_with(Deadline::new);
            let waited = deadline.within(most, wait).await;
            let is_slow = stalled.is_some_and(|since| self.is_slow(since, limit));
            let is_over = self.is_over();
            if is_slow || (waited.is_err() && (is_over || stream.progress() == before)) {
                self.give_up(if is_over { "send_timeout" } else { "idle_send_timeout" });
                return Err(());
            }
            match waited {
                Ok(Some(done)) => return Ok(done),
                Ok(None) => {
                    is_settled = true;
                    self.settle(body)?;
                }
                Err(Expired) => {}
            }
            stalled = Some((Instant::now(), stream.taken_bytes()));
        }
    }

    /// So long, or until all of it has to be sent where that is sooner.
    fn time_left(&self, limit: Duration) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        left.map_or(limit, |left| left.min(limit))
    }

    /// Whether all of it had to be sent by now.
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }

    /// The client took too long, by this limit.
    fn give_up(&mut self, limit: &str) {
        self.worker.stats.timeouts.increment();
        self.is_late = true;
        self.transcript.note(Tag::Debug, format_args!("Hit {limit}"));
    }

    /// Whether the client took too little since then.
    fn is_slow(&mut self, (since, before): (Instant, (u64, u64)), limit: Duration) -> bool {
        let now = self.stream.taken_bytes();
        let count = if self.stream.is_held() { now.0 - before.0 } else { now.1 - before.1 };
        !self.keeping.note(self.worker, since.elapsed(), count, limit)
    }

    /// Counts what the response keeps in memory while it waits, or has it keep nothing.
    fn settle(&mut self, body: &mut ResponseBody) -> Result<(), ()> {
        let can_rewind = body.can_rewind();
        let unsent_bytes = if can_rewind { self.stream.unsent_bytes() } else { 0 };
        match self.keeping.settle(self.worker, self.client, body, unsent_bytes) {
            Settled::Kept => self.stream.counted(),
            Settled::Loosened => {
                body.loosen();
                let bytes = self.stream.loosen(can_rewind);
                body.rewind(bytes);
                self.has_gone_back |= bytes > 0;
            }
            Settled::Ended => return Err(()),
        }
        Ok(())
    }
}
