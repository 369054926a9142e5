//! A fetch that asks: from its plan to an answer, or to the end of its tries.

use super::answered::Answered;
use super::asking::Late;
use super::failure::Cause;
use super::given::Given;
use super::kept::Kept;
use super::plan::Plan;
use super::records::{Account, Closing};
use super::{Fetched, road::Question};
use freshet_base::clock::UnixMillis;
use freshet_cache::Failure;
use freshet_http::reason::Reason;
use freshet_http::unkeyed;
use freshet_origin::Origin;
use freshet_site::client_body::ClientBodyError;
use freshet_site::policy::{BackendFetch, FetchKind, FetchTask};
use freshet_telemetry::transcript::{Message, Side, Tag, Transcript};
use freshet_wire::h1::Framing;
use freshet_worker::worker::Worker;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// A fetch that has no answer yet, or has to ask again.
pub(super) struct Asked {
    pub(super) worker: Rc<Worker>,
    pub(super) task: FetchTask,
    pub(super) plan: Plan,
    pub(super) reply: Option<oneshot::Sender<Fetched>>,
    /// The name of the origin asked last.
    pub(super) origin: Option<Arc<str>>,
    /// The one that answered.
    pub(super) answered: Option<Arc<Origin>>,
    pub(super) request_time: UnixMillis,
    /// What was wrong with the client's body.
    pub(super) body_error: Option<ClientBodyError>,
    /// The origin that is behind what players were given before, or does not have yet what they were told of,
    /// where another is asked now, and whether one was.
    pub(super) late: Option<Late>,
    pub(super) was_late: bool,
    /// How long an origin of a live channel that says nothing is waited for, where another one can be asked.
    pub(super) silence_max: Option<Duration>,
    /// Whether the last origin had no connection for the network of the client that began this.
    pub(super) is_crowded: bool,
    /// Whether the policy was asked for a page since the last try.
    pub(super) was_paged: bool,
    /// Its beginning in the order of purges on disks.
    pub(super) born: u64,
    /// The same in the order of purges in memory.
    pub(super) begun: u64,
    /// The place in that order behind what the answer to a POST purges itself, where nothing else has purged
    /// it since the fetch began.
    pub(super) kept_from: Option<u64>,
    /// Whether the client's body went to an origin: it is there only once.
    pub(super) body_sent: bool,
    /// Bytes of it that were sent in the last exchange.
    pub(super) body_bytes_sent: u64,
    /// Whether the connection of the last exchange is neither given back nor closed, as far as was told.
    pub(super) is_connected: bool,
    /// Why it is closed behind the response, if it is.
    pub(super) closing: Option<Closing>,
    /// How the last response is framed.
    pub(super) framing: Framing,
    /// Bytes of all exchanges.
    pub(super) account: Account,
}

/// What follows.
pub(super) enum Step {
    /// An origin answered, and the policy takes it.
    Answered(Box<Answered>),
    /// The answer is an object, which is to be filled.
    Kept(Box<Kept>),
    /// The answer is one client's, to whom its body is to be brought.
    Given(Box<Given>),
    /// It is asked again.
    Again(Box<Asked>),
    /// Everybody was told.
    Over,
}

impl Asked {
    pub(super) fn new(
        worker: &Rc<Worker>,
        mut plan: Plan,
        reply: Option<oneshot::Sender<Fetched>>,
    ) -> Box<Self> {
        worker.stats.fetches.increment();
        let id = worker.next_id();
        let why = match plan.kind {
            _ if plan.reason == Reason::Pipe => "pipe",
            FetchKind::Miss => "fetch",
            FetchKind::Pass => "pass",
            FetchKind::Background => "bgfetch",
        };
        // The request may be over before the fetch is.
        let asking = std::mem::take(&mut plan.transcript);
        asking.note(Tag::Link, format_args!("bereq {id} {why}"));
        drop(asking);
        let scribe = worker.shared.scribe.as_ref();
        let transcript = Transcript::begin(scribe, Side::Backend, id, "bereq", plan.parent, why);
        if transcript.is_on()
            && let Some(name) = plan.site.policy.name(plan.state.as_deref())
        {
            transcript.note(Tag::VCL_use, format_args!("{name}"));
        }
        transcript.note_start();
        let request = std::mem::take(&mut plan.request);
        let transcript = Rc::new(transcript);
        let task = FetchTask {
            client_address: plan.client_address,
            server_address: plan.server_address,
            state: plan.state.take(),
            coding: plan.coding(),
            origin: plan.origin.clone(),
            goes_to_siblings: plan.goes_to_siblings,
            sent_target: plan.sent_target.take(),
            is_urgent: plan.is_urgent,
            ..FetchTask::new(id, transcript, plan.kind, request, &plan.site)
        };
        Box::new(Self {
            born: worker.shared.disks.as_ref().map_or(0, |disks| disks.born()),
            begun: worker.shared.cache.purge_seq(),
            kept_from: None,
            worker: Rc::clone(worker),
            request_time: task.now,
            account: Account::new(&task.transcript),
            task,
            plan,
            reply,
            origin: None,
            answered: None,
            body_error: None,
            late: None,
            was_late: false,
            silence_max: None,
            is_crowded: false,
            was_paged: false,
            body_sent: false,
            body_bytes_sent: 0,
            is_connected: false,
            closing: None,
            framing: Framing::None,
        })
    }

    /// Runs to the end of what the fetch comes to.
    pub(super) async fn run(self: Box<Self>) {
        let mut step = self.ask().await;
        loop {
            step = match step {
                Step::Answered(answered) => answered.settle().await,
                Step::Kept(kept) => return kept.fill().await,
                Step::Given(given) => return given.fill().await,
                Step::Again(asked) if asked.ends_with_page() => asked.spent().await,
                Step::Again(asked) => match asked.renewed() {
                    Some(asked) => asked.ask().await,
                    None => return,
                },
                Step::Over => return,
            };
        }
    }

    /// Asks the policy, and an origin where it says so.
    async fn ask(mut self: Box<Self>) -> Step {
        let site = self.plan.site.clone();
        self.task.now = UnixMillis::now();
        self.task.transcript.lead(&mut self.task.request.fields);
        self.task.transcript.request(Message::OriginRequest, &self.task.request);
        self.await_news();
        match site.policy.backend_fetch(&mut self.task) {
            BackendFetch::Fetch => match self.exchange().await {
                Some(Ok(response)) => self.response(response).await,
                Some(Err(failure)) => self.no_answer(failure).await,
                None => Step::Over,
            },
            BackendFetch::Abandon => self.abandon(),
            BackendFetch::Error(status, reason) => self.made_up(status, reason).await,
        }
    }

    /// Whether a policy that has no try left is asked for a page, which it is once.
    fn ends_with_page(&self) -> bool {
        let site = &self.plan.site;
        site.semantics.pages_failures
            && !self.was_paged
            && !self.body_sent
            && self.task.retries >= site.settings.limits.retries_max
    }

    async fn spent(mut self: Box<Self>) -> Step {
        // The one too many counts as well, as it does for restarts.
        self.task.retries += 1;
        self.worker.stats.fetches_failed.increment();
        let text = format_args!("Too many retries, delivering 503");
        self.task.transcript.note(Tag::VCL_Error, text);
        self.made_up(503, Some("Backend fetch failed".into())).await
    }

    /// The same fetch with one try less; `None` where that was the last.
    fn renewed(mut self: Box<Self>) -> Option<Box<Self>> {
        let transcript = &self.task.transcript;
        let why = if self.body_sent {
            let text = format_args!("Retry not possible, req.body not cached");
            transcript.note(Tag::Error, text);
            "a request cannot be sent again when its body is gone"
        } else if self.task.retries >= self.plan.site.settings.limits.retries_max {
            transcript.note(Tag::VCL_Error, format_args!("Too many retries, failing"));
            "limits.retries_max was reached"
        } else {
            self.task.retries += 1;
            self.was_paged = false;
            transcript.timestamp("Retry");
            let (before, id) = (self.task.id, self.worker.next_id());
            self.task.transcript.renew(id, "bereq", before, "retry");
            self.task.transcript.note_start();
            self.task.id = id;
            return Some(self);
        };
        self.fail(Cause::Local.failure(why));
        None
    }

    pub(super) fn abandon(self: Box<Self>) -> Step {
        self.fail(Cause::Policy.failure("the policy gave the fetch up"))
    }

    /// Tells everybody that waits.
    pub(super) fn fail(mut self: Box<Self>, failure: Failure) -> Step {
        // What failed with an origin was told; what a policy gives up is no error.
        if !self.plan.site.semantics.pages_failures {
            self.task.transcript.note(Tag::FetchError, format_args!("{}", failure.detail));
        }
        let failure = self.fail_waiting(failure);
        let stale = self.plan.stale.take();
        self.reply(Fetched::Failed { failure, stale });
        Step::Over
    }

    /// Tells those that wait for the fetch of another.
    pub(super) fn fail_waiting(&mut self, failure: Failure) -> Arc<Failure> {
        let failure = Arc::new(failure);
        // Where only this client's network has no connection, its request is one that an origin may break off
        // at, or a policy has given it up, the next that waits may have an answer.
        let is_provoked = matches!(
            failure.reason,
            Reason::OriginClosed | Reason::OriginMalformed | Reason::OriginHeadTooLarge
        ) && !self.plan.site.semantics.forwards_as_it_is
            && !unkeyed::is_plain(&self.task.request.fields);
        let is_own = self.is_crowded || is_provoked || failure.reason == Reason::LocalPolicy;
        if let Some(ticket) = self.plan.ticket.take().filter(|_| !is_own) {
            ticket.fail(Arc::clone(&failure));
        }
        failure
    }

    /// Gives the client its answer, if one still waits. What nobody waits for is dropped, which
    /// ends the reading of a private body.
    pub(super) fn reply(&mut self, fetched: Fetched) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(fetched);
        }
    }

    /// How the same may be asked for more of what it brings.
    pub(super) fn question(&self) -> Question {
        Question::of(&self.task, &self.plan.key, self.answered.as_ref())
    }
}
