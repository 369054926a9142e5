//! The origin's side of a request: a state machine of its own, in a task of its own, so that a
//! client that leaves never ends a fetch others wait for.
//!
//! ```text
//! backend_fetch → exchange with an origin ─┬─ 304 for a stored object → stored head renewed
//!       ↑ retry                            ├─ answer → backend_response ─┬─ kept → object, filled
//!       └──────────────────────────────────┤                             └─ not kept → one client
//!                                          └─ no answer → stale object, or backend_error
//! ```

pub(crate) mod asked;
mod coded;
mod exchange;
mod fill;
pub(crate) mod prepare;
pub(crate) mod range;
mod records;
mod respond;
mod store;

use records::Heads;

use crate::body::{ClientBodyError, RequestBody};
use crate::delivery::StoredBody;
use crate::disk::Tee;
use crate::exchange::Interim;
use crate::ledger::requests::Charge;
use crate::policy::{BackendFetch, FetchKind, FetchTask};
use crate::sites::SiteRef;
use crate::transcript::{Message, Side, Tag, Transcript};
use crate::worker::Worker;
use bytes::Bytes;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Failure, Form, Key, Object, Ticket};
use freshet_http::freshness::Freshness;
use freshet_http::message::{RequestHead, ResponseHead};
use freshet_http::reason::Reason;
use freshet_origin::Origin;
use freshet_origin::raw::RawConnection;
use freshet_store::BodyReader;
use std::any::Any;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::spawn_local;

/// What to fetch and for whom.
pub(crate) struct Plan {
    /// The request it is for.
    pub(crate) parent: u64,
    /// What happens to that request.
    pub(crate) transcript: Rc<Transcript>,
    pub(crate) kind: FetchKind,
    /// What the policy keeps for the fetch.
    pub(crate) state: Option<Box<dyn Any>>,
    /// The request for the origin.
    pub(crate) request: RequestHead,
    /// The client's, whose fields decide storability and variant.
    pub(crate) client: RequestHead,
    pub(crate) client_address: Option<SocketAddr>,
    /// Where the client reached the node.
    pub(crate) server_address: Option<SocketAddr>,
    pub(crate) site: SiteRef,
    pub(crate) key: Arc<Key>,
    /// The turn to fetch; `None` for a pass.
    pub(crate) ticket: Option<Ticket>,
    /// An object to validate, or to serve if the origin fails.
    pub(crate) stale: Option<Arc<Object>>,
    pub(crate) body: Option<RequestBody>,
    /// What the request is charged of the memory: a fetch may outlive it.
    #[expect(dead_code, reason = "it is there until the fetch ends")]
    pub(crate) charge: Option<Rc<Charge>>,
    /// Where interim responses go.
    pub(crate) interim: Option<Interim>,
    pub(crate) reason: Reason,
}

/// What a fetch came to, for the request that began it.
pub(crate) enum Fetched {
    /// An object, new or renewed or, after a failure, old.
    Object {
        object: Arc<Object>,
        reason: Reason,
        stored: bool,
        origin: Option<Arc<str>>,
        /// What the origin sent in answer to the client's own `Range`.
        sent: Option<SentPart>,
        /// Keeps the bytes there until the client's own reader stands.
        hold: Option<BodyReader>,
    },
    /// A response for this client only.
    Private {
        head: ResponseHead,
        body: Option<StoredBody>,
        length: Option<u64>,
        form: Form,
        reason: Reason,
        origin: Option<Arc<str>>,
        /// What made it.
        made: Made,
    },
    /// A page of our own in the origin's place.
    Page {
        head: ResponseHead,
        body: Bytes,
        length: Option<u64>,
        reason: Reason,
        origin: Option<Arc<str>>,
    },
    /// The origin switched protocols.
    Switched { head: ResponseHead, connection: RawConnection, origin: Arc<str> },
    /// Nothing.
    Failed { failure: Arc<Failure>, stale: Option<Arc<Object>> },
}

/// The fetch behind a response that is not kept.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its number.
    pub id: u64,
    /// How long the response would be of use.
    pub freshness: Freshness,
}

/// A part as an origin described it.
pub(crate) struct SentPart {
    pub(crate) range: Range<u64>,
    /// `Content-Range` as it was sent.
    pub(crate) content_range: Box<[u8]>,
}

/// Runs a fetch for a client and waits for what it comes to; the body goes on arriving behind.
pub(crate) async fn start(worker: &Rc<Worker>, plan: Plan) -> Fetched {
    let stale = plan.stale.clone();
    let (reply, answer) = oneshot::channel();
    spawn_local(Fetch::new(worker, plan, Some(reply)).run());
    answer.await.unwrap_or_else(|_| Fetched::Failed {
        failure: Arc::new(failure(
            503,
            "proxy_internal_error",
            "the fetch ended without an answer",
        )),
        stale,
    })
}

/// Runs a fetch nobody waits for.
pub(crate) fn start_behind(worker: &Rc<Worker>, plan: Plan) {
    spawn_local(Fetch::new(worker, plan, None).run());
}

/// A fetch under way.
struct Fetch {
    worker: Rc<Worker>,
    task: FetchTask,
    plan: Plan,
    reply: Option<oneshot::Sender<Fetched>>,
    /// The name of the origin asked last.
    origin: Option<Arc<str>>,
    /// The one that answered.
    answered: Option<Arc<Origin>>,
    request_time: UnixMillis,
    /// What was wrong with the client's body.
    body_error: Option<ClientBodyError>,
    /// Whether the last origin had no connection for the network of the client that began this.
    is_crowded: bool,
    /// Its beginning in the order of purges on disks.
    born: u64,
    /// Where its answer is written while it passes.
    tee: Option<Tee>,
    /// Whether the client's body went to an origin: it is there only once.
    body_sent: bool,
    /// Bytes of it that were sent in the last exchange.
    body_bytes_sent: u64,
    /// Bytes of the last exchange's request and response but the response's body.
    heads: Heads,
}

/// What to do next.
enum Next {
    Retry,
    Done,
}

impl Fetch {
    fn new(worker: &Rc<Worker>, mut plan: Plan, reply: Option<oneshot::Sender<Fetched>>) -> Self {
        worker.stats.fetches.increment();
        let id = worker.next_id();
        let why = match plan.kind {
            _ if plan.reason == Reason::Pipe => "pipe",
            FetchKind::Miss => "fetch",
            FetchKind::Pass => "pass",
            FetchKind::Background => "bgfetch",
        };
        plan.transcript.note(Tag::Link, format_args!("bereq {id} {why}"));
        let scribe = worker.shared.scribe.as_ref();
        let transcript = Transcript::begin(scribe, Side::Backend, id, "bereq", plan.parent, why);
        transcript.timestamp("Start");
        let request = std::mem::take(&mut plan.request);
        let transcript = Rc::new(transcript);
        let task = FetchTask {
            client_address: plan.client_address,
            server_address: plan.server_address,
            state: plan.state.take(),
            ..FetchTask::new(id, transcript, plan.kind, request, &plan.site)
        };
        Self {
            born: worker.shared.disks.as_ref().map_or(0, |disks| disks.born()),
            worker: Rc::clone(worker),
            request_time: task.now,
            task,
            plan,
            reply,
            origin: None,
            answered: None,
            body_error: None,
            is_crowded: false,
            tee: None,
            body_sent: false,
            body_bytes_sent: 0,
            heads: Heads::default(),
        }
    }

    async fn run(mut self) {
        let site = self.plan.site.clone();
        let policy = &*site.policy;
        loop {
            self.task.now = UnixMillis::now();
            self.task.transcript.request(Message::OriginRequest, &self.task.request);
            let next = match policy.backend_fetch(&mut self.task) {
                BackendFetch::Fetch => match self.exchange().await {
                    Some(Ok(response)) => self.response(response).await,
                    Some(Err(failure)) => self.no_answer(failure).await,
                    None => Next::Done,
                },
                BackendFetch::Abandon => self.abandon(),
                BackendFetch::Error(status, reason) => self.made_up(status, reason).await,
            };
            match next {
                Next::Done => return,
                Next::Retry if self.body_sent => {
                    let why = "a request cannot be sent again when its body is gone";
                    self.fail(failure(503, "proxy_internal_error", why));
                    return;
                }
                Next::Retry if self.task.retries < self.plan.site.settings.limits.retries_max => {
                    self.task.retries += 1;
                    let (before, id) = (self.task.id, self.worker.next_id());
                    self.task.transcript.renew(id, "bereq", before, "retry");
                    self.task.transcript.timestamp("Start");
                    self.task.id = id;
                }
                Next::Retry => {
                    self.fail(failure(
                        503,
                        "proxy_internal_error",
                        "limits.retries_max was reached",
                    ));
                    return;
                }
            }
        }
    }

    fn abandon(&mut self) -> Next {
        self.fail(failure(503, "proxy_internal_response", "the policy gave the fetch up"));
        Next::Done
    }

    /// Tells everybody that waits.
    fn fail(&mut self, failure: Failure) {
        self.task.transcript.note(Tag::FetchError, format_args!("{}", failure.detail));
        let failure = Arc::new(failure);
        // Where only this client's network has no connection, the next that waits may have one.
        if let Some(ticket) = self.plan.ticket.take().filter(|_| !self.is_crowded) {
            ticket.fail(Arc::clone(&failure));
        }
        let stale = self.plan.stale.take();
        self.reply(Fetched::Failed { failure, stale });
    }

    /// Gives the client its answer, if one still waits. What nobody waits for is dropped, which
    /// ends the reading of a private body.
    fn reply(&mut self, fetched: Fetched) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(fetched);
        }
    }
}

/// A failure of our own making; `proxy_error` is one of RFC 9209 §2.3.
pub(crate) fn failure(status: u16, proxy_error: &'static str, detail: &str) -> Failure {
    Failure { status, proxy_error, detail: detail.into() }
}
