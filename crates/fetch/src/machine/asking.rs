//! Asking origins, one after another where that is allowed.

use super::Fetched;
use super::asked::Asked;
use super::choice::{choose, is_failed_over, may_fail_over};
use super::failure::Cause;
use super::records;
use bytes::Bytes;
use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use freshet_cache::{Failure, Ticket};
use freshet_http::message::{Method, ResponseHead};
use freshet_http::retry_after;
use freshet_origin::health::Health;
use freshet_origin::request_body::{BodyFailure, BodyProvider};
use freshet_origin::{
    HttpVersion, Origin, OriginError, OriginId, OriginResponse, Terms, Waits, exchange_within,
};
use freshet_site::client_body::{ClientBodyError, Pace, RequestBody};
use freshet_site::policy::{FetchKind, OriginChoice};
use freshet_telemetry::answer_bodies::AnswerBody;
use freshet_telemetry::transcript::Tag;
use freshet_worker::worker::Worker;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot::Sender;
use tokio::time::sleep;

/// An origin that is late with what is asked for.
#[derive(Clone, Copy)]
pub(super) struct Late {
    origin: OriginId,
    /// The status it answers with all the same.
    status: u16,
}

impl Asked {
    /// Sends the request. `None` when nobody wants the answer any more.
    pub(super) async fn exchange(&mut self) -> Option<Result<OriginResponse, Failure>> {
        let Some(late) = self.late.take() else { return self.exchange_beside(&[]).await };
        match self.exchange_beside(&[late.origin]).await {
            // What is late is better than nothing.
            Some(Err(_)) => self.exchange_beside(&[]).await,
            Some(Ok(response))
                if response.head.status >= 400 && response.head.status != late.status =>
            {
                let asked = self.answered.as_ref().map(|origin| origin.id);
                self.exchange_beside(asked.as_slice()).await
            }
            exchanged => exchanged,
        }
    }

    /// Whether another origin is asked, once, for what the last one is late with, as it answers with this status.
    pub(super) fn turns_elsewhere(&mut self, status: u16) -> bool {
        let Some(origin) = self.answered.as_ref().map(|origin| origin.id) else { return false };
        let (task, key) = (&self.task, &self.plan.key);
        let of = (&*task.site, &task.request, task.goes_to_siblings);
        let may = task.retries < self.plan.site.settings.limits.retries_max
            && !std::mem::replace(&mut self.was_late, true)
            && choose(&task.origin, of, key, &[origin], task.now).is_some();
        self.late = may.then_some(Late { origin, status });
        may
    }

    /// Sends the request to others than these.
    async fn exchange_beside(
        &mut self,
        others: &[OriginId],
    ) -> Option<Result<OriginResponse, Failure>> {
        self.task.transcript.timestamp("Fetch");
        let mut tried = others.to_vec();
        let mut last = None;
        while tried.len() < self.task.site.upstreams.tried_max {
            let (task, key) = (&self.task, &self.plan.key);
            let of = (&*task.site, &task.request, task.goes_to_siblings);
            let chosen = choose(&task.origin, of, key, &tried, task.now);
            let Some(origin) = chosen else { break };
            let health = &origin.health;
            let is_well = || health.health(task.now) == Health::Up && !health.rests(task.now);
            if self.plan.is_ahead() && !is_well() {
                // What it has strength for is what somebody waits for.
                self.worker.stats.media_ahead_refused.increment();
                return None;
            }
            tried.push(origin.id);
            self.origin = Some(origin.settings.name.as_str().into());
            self.task.transcript.asks(origin.scheme());
            self.request_time = UnixMillis::now();
            let waits = self.waits_for(&origin, &tried);
            match self.ask_one(&origin, waits).await? {
                // A parent that cannot help itself is one of several.
                Ok(response) if self.may_ask_another(&origin, &response, &tried) => {
                    note_kept_out(&origin, &response.head);
                }
                Ok(response) => {
                    note_rest(&origin, &response.head);
                    self.answered = Some(origin);
                    return Some(Ok(response));
                }
                // What no origin has seen may go to the next one, and what may be asked twice.
                Err(error) if self.goes_to_next(&error) => last = Some(error),
                Err(error) => return Some(Err(self.failed(&error))),
            }
        }
        Some(Err(match last {
            Some(error) => self.failed(&error),
            None => {
                self.worker.stats.fetches_failed.increment();
                let text = match &self.task.origin {
                    OriginChoice::Nobody(why) => why,
                    _ => "No backend",
                };
                self.task.transcript.note(Tag::FetchError, format_args!("{text}"));
                self.task.transcript.timestamp("Beresp");
                Cause::NoOrigin.failure("no origin is healthy")
            }
        }))
    }

    /// How long this origin is waited for. What players of a live channel need in a moment is asked of another that is
    /// well, if there is one, before it is too late for them; where an answer has begun they do that themselves.
    fn waits_for(&self, origin: &Origin, tried: &[OriginId]) -> Waits {
        let task = &self.task;
        let (waits, upstreams) = (task.waits, &task.site.upstreams);
        let Some(silence) = self.silence_max else { return waits };
        let has_another = may_fail_over((&task.origin, &task.request))
            && self.may_be_sent_again(tried)
            && upstreams.has_another(&task.request, tried, task.now);
        if !has_another {
            return waits;
        }
        let usual = &origin.settings.timeouts;
        Waits {
            first_byte: Some(waits.first_byte.unwrap_or(usual.first_byte).min(silence)),
            between_bytes: Some(waits.between_bytes.unwrap_or(usual.between_bytes).min(silence)),
            ..waits
        }
    }

    /// Whether nothing of it is gone with those that were tried, and one more may be.
    fn may_be_sent_again(&self, tried: &[OriginId]) -> bool {
        self.plan.body.is_none()
            && !self.body_sent
            && tried.len() < self.task.site.upstreams.tried_max
    }

    /// Whether another origin can be sent the same.
    fn goes_to_next(&self, error: &OriginError) -> bool {
        let of = (&self.task.origin, &self.task.request);
        !self.body_sent && (error.not_sent() || is_failed_over(of, error))
    }

    /// Whether the one client an answer is for gets its trailers: servers of gRPC ask for this word, and what is for
    /// all is asked for without regard to who was first.
    fn takes_trailers(&self) -> bool {
        self.plan.kind == FetchKind::Pass && self.plan.client.fields.has_token("te", "trailers")
    }

    async fn ask_one(
        &mut self,
        origin: &Arc<Origin>,
        waits: Waits,
    ) -> Option<Result<OriginResponse, OriginError>> {
        let pool = self.worker.pool.clone();
        let interim = self.plan.interim.clone();
        if self.task.body_dropped {
            self.plan.body = None;
        }
        let again = self.plan.body.as_ref().and_then(RequestBody::again);
        let sent = self.plan.body.take().map(|body| Rc::new(Sent::of(body)));
        let body = sent.as_ref().map(|sent| {
            let upload = Upload { worker: Rc::clone(&self.worker), sent: Rc::clone(sent) };
            Box::new(upload) as Box<dyn BodyProvider>
        });
        let mut on_interim = |head: ResponseHead| {
            // The client was told to continue when its body was first read.
            if let (Some(interim), true) = (&interim, head.status != 100) {
                interim.send(stripped(head));
            }
        };
        let is_parent = self.task.site.upstreams.is_parent(origin.id);
        self.worker.shared.applied.put_into(&mut self.task.request.fields, is_parent);
        super::prepare::without_spaces(&mut self.task.request);
        let may_converse = origin.settings.http != HttpVersion::Http1 && self.takes_trailers();
        if may_converse {
            self.task.request.fields.set("TE", "trailers");
            sent.as_ref().inspect(|sent| sent.set_pace(Pace::Messages));
        }
        let is_sibling = self.task.site.upstreams.is_sibling(origin.id);
        let own_target = is_sibling.then(|| super::prepare::ask_as_sent(&mut self.task)).flatten();
        let (request, terms) = (&self.task.request, Terms { waits, ..self.task.terms() });
        let asking = exchange_within(&pool, origin, request, body, &mut on_interim, terms);
        let result = match (&mut self.reply, self.plan.kind) {
            // A pass is for one client: when that is gone, so is the request.
            (Some(reply), FetchKind::Pass) => tokio::select! {
                biased;
                result = asking => result,
                () = reply.closed() => {
                    self.worker.stats.fetches_abandoned.increment();
                    return None;
                }
            },
            (Some(reply), _) => {
                let limit = self.plan.site.settings.origin_timeouts.abandoned;
                tokio::select! {
                    biased;
                    result = asking => result,
                    () = abandoned(reply, self.plan.ticket.as_ref(), limit) => {
                        self.worker.stats.fetches_abandoned.increment();
                        return None;
                    }
                }
            }
            (None, _) => asking.await,
        };
        if let (true, Some(sent), Ok(_)) = (may_converse, &sent, &result) {
            sent.set_pace(Pace::Answered);
        }
        if let Some(target) = own_target {
            self.task.request.target = target;
        }
        // Whoever else waits for this may have a share that is not used up.
        self.is_crowded = matches!(result, Err(OriginError::LocalShareLimit { .. }));
        self.plan.body = again;
        if let Some(sent) = sent {
            self.body_error = self.body_error.or_else(|| sent.error.get());
            self.body_bytes_sent = sent.bytes.get();
            if !sent.is_begun.get() && result.is_err() {
                self.plan.body = sent.body.take();
            }
            self.body_sent |= self.plan.body.is_none();
        }
        Some(result)
    }

    /// Whether what a parent answers is that it cannot, and somebody else can be asked.
    fn may_ask_another(
        &self,
        parent: &Origin,
        response: &OriginResponse,
        tried: &[OriginId],
    ) -> bool {
        let (task, upstreams) = (&self.task, &self.task.site.upstreams);
        upstreams.is_parent(parent.id)
            && is_own_failure(&response.head)
            && matches!(task.request.method, Method::Get | Method::Head)
            && self.may_be_sent_again(tried)
            && choose(
                &task.origin,
                (&task.site, &task.request, task.goes_to_siblings),
                &self.plan.key,
                tried,
                task.now,
            )
            .is_some()
    }

    fn failed(&mut self, error: &OriginError) -> Failure {
        self.worker.stats.fetches_failed.increment();
        if records::has_no_length(error) {
            self.worker.stats.answer_bodies.note(AnswerBody::Bad);
        }
        tracing::debug!(%error, origin = self.origin.as_deref(), "a fetch failed");
        if records::failed(&self.task.transcript, self.origin.as_deref(), error) {
            self.account.add(&self.task.request, self.body_bytes_sent, None);
        }
        match self.body_error {
            Some(
                own @ (ClientBodyError::TooLarge | ClientBodyError::Silent | ClientBodyError::Gone),
            ) => {
                let is_silent = own == ClientBodyError::Silent;
                self.worker.stats.timeouts.add(u64::from(is_silent));
                Cause::Client(own).failure(own)
            }
            _ => Cause::Origin(error.kind()).failure(error),
        }
    }
}

/// Whether a cache says that it has no way to an origin itself: it is overloaded, its origins are
/// down, it is asked in a circle, or it does not let this node in. An origin's own 503 says nothing
/// of that, and a failure of the origin would be the same for the next one.
fn is_own_failure(head: &ResponseHead) -> bool {
    let last = head.fields.get_all("Proxy-Status").last().unwrap_or_default();
    let mut says = last.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    match head.status {
        503 => says.any(|part| part.starts_with(b"error=")),
        508 => true,
        // It does not let this node in. What it hands on of others has its name in `Via`.
        403 | 421 => {
            !head.fields.contains("via") && says.any(|part| part == b"error=http_request_denied")
        }
        _ => false,
    }
}

/// Takes note of an origin that has too much to do.
fn note_rest(origin: &Origin, head: &ResponseHead) {
    let now = UnixMillis::now();
    let wait = retry_after::wait(&head.fields, now);
    if head.status == 429 || (head.status == 503 && wait.is_some()) {
        origin.health.asks_for_rest(wait, now);
    }
}

/// Says in the log that a cache does not let this node in, which somebody has to mend.
fn note_kept_out(parent: &Origin, head: &ResponseHead) {
    if !matches!(head.status, 403 | 421) {
        return;
    }
    if let Some(held_back) = KEPT_OUT.admit(UnixMillis::now(), KEPT_OUT_EVERY) {
        let (parent, status) = (parent.settings.name.as_str(), head.status);
        let (why, cure) =
            ("a parent does not let this node in", "is its certificate still good there?");
        tracing::error!(parent, status, held_back, "{why}: {cure}");
    }
}

/// How often the log tells of that, and when it did last.
const KEPT_OUT_EVERY: Duration = Duration::from_secs(60);
static KEPT_OUT: LogLimit = LogLimit::new();

/// Waits until nobody waits for a fetch any more, neither who began it nor others, and has not for
/// `limit`.
async fn abandoned(reply: &mut Sender<Fetched>, ticket: Option<&Ticket>, limit: Duration) {
    reply.closed().await;
    loop {
        sleep(limit).await;
        if ticket.is_none_or(|ticket| ticket.waiters() == 0) {
            return;
        }
    }
}

/// An interim response as it may be forwarded.
fn stripped(mut head: ResponseHead) -> ResponseHead {
    freshet_http::hop_by_hop::strip(&mut head.fields);
    head
}

/// A client's body as an origin takes it, also while that answers.
struct Upload {
    worker: Rc<Worker>,
    sent: Rc<Sent>,
}

/// A client's body, and how far it came.
struct Sent {
    body: RefCell<Option<RequestBody>>,
    /// Whether any of it was asked for.
    is_begun: Cell<bool>,
    error: Cell<Option<ClientBodyError>>,
    bytes: Cell<u64>,
}

impl Sent {
    fn of(body: RequestBody) -> Self {
        let body = RefCell::new(Some(body));
        Self { body, is_begun: Cell::default(), error: Cell::default(), bytes: Cell::default() }
    }

    fn set_pace(&self, pace: Pace) {
        if let Some(body) = &mut *self.body.borrow_mut() {
            body.set_pace(pace);
        }
    }
}

impl BodyProvider for Upload {
    fn length(&self) -> Option<u64> {
        self.sent.body.borrow().as_ref().and_then(RequestBody::length)
    }

    fn goes_on(&self) -> bool {
        self.sent.body.borrow().as_ref().is_some_and(RequestBody::is_coming)
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyFailure>> {
        let sent = &*self.sent;
        sent.is_begun.set(true);
        let Some(body) = &mut *sent.body.borrow_mut() else { return Poll::Ready(Ok(None)) };
        body.poll_next(cx).map(|next| match next {
            None => Ok(None),
            Some(Ok(bytes)) => {
                self.worker.stats.request_body_bytes.add(bytes.len() as u64);
                sent.bytes.set(sent.bytes.get() + bytes.len() as u64);
                Ok(Some(bytes))
            }
            Some(Err(error)) => {
                sent.error.set(Some(error));
                Err(BodyFailure { reason: error.to_string() })
            }
        })
    }
}
