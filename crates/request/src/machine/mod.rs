//! The client's side of a request: a state machine over the policy's states.
//!
//! ```text
//! recv ─┬─ hash → lookup ─┬─ hit ───────────────────────────┐
//!       │                 ├─ stale in grace: hit, and refresh behind
//!       │                 ├─ busy: wait for the other's fetch ┤
//!       │                 └─ miss → fetch ──────────────────┤
//!       ├─ pass ────────────→ fetch, nothing kept ──────────┤
//!       ├─ pipe                                             │
//!       └─ purge, synth ────────────────────────────────────┴→ deliver
//! ```
//!
//! Each group of states has its file; each state is a function that returns the next one.

mod admit;
mod away;
mod challenge;
mod changed;
mod collect;
mod deliver;
mod lookup;
mod next;
mod pass;
mod purge;
mod reload;
mod shape;
mod synth;
mod tier;

pub(crate) use admit::limits_of;
pub use synth::refusal;

use crate::client_exchange::{Facts, Reply, Request, Unsaid};
use crate::delivery::ResponseBody;
use bytes::Bytes;
use freshet_access::client::End;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Key, Object, Ticket};
use freshet_config::bandwidth::{self, Pace};
use freshet_fetch::{Fetched, SentPart};
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead};
use freshet_http::reason::Reason;
use freshet_origin::Waits;
use freshet_site::client_body::{ClientBodyError, RequestBody};
use freshet_site::interim::Interim;
use freshet_site::policy::{ClientTask, Recv, Shaping};
use freshet_site::sites::SiteRef;
use freshet_site::synthetic::Synthetic;
use freshet_store::BodyReader;
use freshet_telemetry::transcript::{Message, Tag};
use freshet_worker::worker::Worker;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// Bytes of a request's body that are read for a policy that looks at it, or sends it again.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The answer to a request whose body was to be kept and is not all there. A client that is gone does not
/// hear one, and what it asked for goes on as Varnish has it.
fn status_without_body(error: ClientBodyError) -> Option<u16> {
    match error {
        ClientBodyError::NoRoom => Some(503),
        ClientBodyError::Silent => Some(408),
        ClientBodyError::TooLarge => Some(413),
        ClientBodyError::Gone | ClientBodyError::Malformed => None,
    }
}

/// What follows then.
fn without_body(error: ClientBodyError) -> State {
    status_without_body(error).map_or(State::Recv, |status| State::Synth(status, None))
}

/// Answers a request. What goes wrong becomes a response.
pub async fn handle(worker: &Rc<Worker>, mut request: Request) -> Reply {
    if let Some(response) = challenge::answer(worker, &request) {
        return Reply::Response(Box::new(response));
    }
    let site = match &request.nesting {
        // An include is of its page's site, whatever host it names.
        Some(page) => Some(page.site.clone()),
        None => SiteRef::of(&worker.snapshot(), &request.head.authority),
    };
    let Some(site) = site else {
        return Reply::Response(Box::new(synth::misdirected(worker, &request)));
    };
    if let Some(response) = changed::hear(worker, &site, &request).await {
        return Reply::Response(Box::new(response));
    }
    let pace = pace_of(&site, &request);
    let mut admission = admit::admit(worker, &site, &mut request).await;
    // A policy never waits, so what it may look at is there before it is asked.
    let (mut body, mut first) = (request.body, State::Recv);
    let is_refused = admission.refusal.is_some();
    let (mut is_lost, mut lost) = (false, None);
    if let Some(unread) = body.take_if(|_| site.policy.keeps_body() && !is_refused) {
        match unread.keep(KEPT_BYTES_MAX, request.charge.as_deref()).await {
            Ok(kept) => body = Some(kept),
            Err(error) => {
                is_lost = true;
                // Where that may have the connection end, a policy is asked first.
                match status_without_body(error) {
                    status if site.node().manners.hangs_up_without_body => lost = status,
                    Some(status) => first = State::Synth(status, None),
                    None => {}
                }
                tracing::debug!(%error, "a body that was to be kept broke off");
                let text = format_args!("straight insufficient bytes");
                request.transcript.note(Tag::FetchError, text);
            }
        }
    }
    if let Some((status, _)) = admission.refusal {
        first = State::Synth(status, None);
    } else if let Some(answer) = collect::collect(
        worker,
        &site,
        &request.head,
        &mut body,
        request.charge.as_deref(),
        request.client.address.map(|address| address.ip()),
    )
    .await
    {
        first = answer;
    } else if let Some(said) = told(&site, &request.head, request.id) {
        first = State::Fetched(Box::new(said));
    }
    let listens = request.nesting.is_none();
    let says = request.has_player;
    let next = if listens { next::of(worker, &site, &request.head, says) } else { Vec::new() };
    let came = next::keeps(worker, &site, &request.head).then(|| Rc::new(request.head.clone()));
    let kept_body = match &body {
        None if is_lost => None,
        None => Some(Bytes::new()),
        Some(RequestBody::Kept(kept)) => kept.whole().cloned(),
        Some(_) => None,
    };
    let task = ClientTask {
        id: request.id,
        transcript: request.transcript,
        wants_content: request.head.method != Method::Head,
        request: request.head,
        has_body: body.is_some(),
        is_body_told: false,
        kept_body,
        upgrade: request.upgrade,
        client: request.client,
        pipe: None,
        received: request.received,
        now: request.received,
        restarts: 0,
        hash_always_miss: false,
        hash_ignore_busy: false,
        hash_ignore_vary: false,
        left_by: None,
        tunnel_lasts_max: None,
        tunnel_waits: Waits::default(),
        ttl_max: None,
        grace_max: None,
        spared: Vec::new(),
        site,
        came,
        is_ahead: false,
        reason: admission.refusal.map_or(Reason::Miss, |(_, reason)| reason),
        nesting: request.nesting,
        charge: request.charge,
        identity: admission.identity.take(),
        shaping: Shaping::default(),
        state: None,
        durability: None,
    };
    let includes = task.site.policy.includes();
    let original = includes.then(|| Box::new(task.request.clone()));
    let interim = request.interim;
    let mut machine = Machine {
        worker,
        task,
        started: request.started,
        body,
        interim,
        key: None,
        hold: None,
        lost: 0,
        original,
        is_refused,
        refusal: admission.page.take(),
        admission,
        is_behind: false,
        lost_body: lost,
    };
    machine.meet_child().await;
    let mut state = first;
    loop {
        state = match state {
            State::Recv => machine.recv(),
            State::Lookup => machine.lookup().await,
            State::Hit(hit) => machine.hit(*hit),
            // What a miss holds would keep others waiting.
            State::Miss(_) | State::Pass | State::Pipe | State::Purge
                if !machine.task.client.presence.is_proved() =>
            {
                machine.prove(state).await
            }
            State::Miss(miss) => machine.miss(*miss).await,
            State::Pass => machine.pass().await,
            State::Pipe => machine.pipe().await,
            State::Purge => machine.purge().await,
            State::Fetched(fetched) => machine.fetched(*fetched).await,
            State::Deliver(found) => machine.deliver(*found).await,
            State::Synth(status, reason) => machine.synth(status, reason),
            State::Restart(said) => machine.restart(said),
            State::Done(mut reply) => {
                let mut is_sent = false;
                if let Reply::Response(response) = &mut reply {
                    machine.admission.tell(&mut response.head.fields);
                    is_sent = matches!(response.head.status, 200 | 206);
                    if let Some(pace) = pace {
                        let body = std::mem::replace(&mut response.body, ResponseBody::Empty);
                        response.body = body.paced(pace);
                    }
                }
                let facts = reply.facts_mut();
                facts.under_way = machine.admission.held.take();
                facts.identity = machine.task.identity.take();
                if is_sent {
                    let ClientTask { site, client, id, .. } = &machine.task;
                    for next in next {
                        freshet_fetch::fetch_next(worker, site, client, next, *id);
                    }
                }
                facts.site = Some(machine.task.site);
                if let Some(durability) = machine.task.durability.take() {
                    durability.reached().await;
                }
                return reply;
            }
        };
    }
}

/// How fast a response may be sent at most. Caches behind this one and includes of pages are not held
/// back.
fn pace_of(site: &SiteRef, request: &Request) -> Option<Pace> {
    let rules = &site.settings.bandwidth;
    let RequestHead { target, fields, .. } = &request.head;
    let is_held_back =
        !rules.is_empty() && request.nesting.is_none() && !site.is_peer(&request.client, fields);
    bandwidth::pace_of(rules, target).filter(|_| is_held_back)
}

/// What players are told who ask the site itself.
fn told(site: &SiteRef, head: &RequestHead, salt: u64) -> Option<Fetched> {
    let settings = &site.settings.media;
    if settings.clock.is_none() && settings.steering.is_none() {
        return None;
    }
    let path = head.target.split('?').next().unwrap_or_default();
    let is_asked = |at: Option<&str>| at == Some(path);
    let steering = settings.steering.as_deref();
    let is_clock = is_asked(settings.clock.as_deref());
    let is_steering = is_asked(steering.map(|steering| &*steering.path));
    if !(is_clock || is_steering) || !matches!(head.method, Method::Get | Method::Head) {
        return None;
    }
    let (head, body) = match steering.filter(|_| is_steering) {
        Some(steering) => freshet_channels::pathways(steering, &head.target, salt),
        None => freshet_channels::time(UnixMillis::now()),
    };
    let (length, reason) = (Some(body.len() as u64), Reason::Synthetic);
    Some(Fetched::Page { head, body: body.into(), length, reason, origin: None, made: None })
}

/// A request on its way through the states.
struct Machine<'a> {
    worker: &'a Rc<Worker>,
    task: ClientTask,
    /// When the head was complete, whatever was restarted since.
    started: Instant,
    body: Option<RequestBody>,
    interim: Interim,
    key: Option<Arc<Key>>,
    /// Keeps the bytes of a stale object there while the origin is asked about it.
    hold: Option<BodyReader>,
    /// How often what was found was there no more.
    lost: u32,
    /// The request as it came, where it may be a page's that has includes.
    original: Option<Box<RequestHead>>,
    /// Whether it was refused before its policy was asked.
    is_refused: bool,
    /// The page that says so, where it is somebody else's.
    refusal: Option<Box<Synthetic>>,
    /// What its client is told besides, and what it counts in until then.
    admission: admit::Admission,
    /// Whether it comes from a cache that has carried out a purge that this node has not: what is
    /// kept here is too old for it, and so is what another's fetch brings.
    is_behind: bool,
    /// The answer to it, where its body was to be kept and is not all there.
    lost_body: Option<u16>,
}

/// Where a request is.
enum State {
    Recv,
    Lookup,
    Hit(Box<Found>),
    Miss(Box<lookup::Missed>),
    Pass,
    Pipe,
    Purge,
    Fetched(Box<Fetched>),
    Deliver(Box<Found>),
    Synth(u16, Option<Box<str>>),
    /// With the reason of the page that is left for it, where it is left for one.
    Restart(Option<Box<str>>),
    Done(Reply),
}

/// An object to be served.
struct Found {
    object: Arc<Object>,
    /// Why it is served.
    reason: Reason,
    /// Whether it was there before the request.
    hit: bool,
    /// The origin that was asked for it just now.
    origin: Option<Arc<str>>,
    /// Whether a fetch for this request was kept.
    stored: bool,
    /// Whether the request waited for another's fetch.
    collapsed: bool,
    /// The part the origin sent in answer to this request.
    sent: Option<SentPart>,
    /// What the origin says to the client that asked, and to nobody else.
    for_one: Fields,
    /// The turn to have it renewed while it is served.
    refresh: Option<Ticket>,
    /// Keeps the bytes there until the response has a reader of its own.
    _hold: Option<BodyReader>,
}

impl Machine<'_> {
    fn recv(&mut self) -> State {
        let site = self.task.site.clone();
        let policy = &*site.policy;
        let next = policy.recv(&mut self.task);
        self.key = None;
        let next = match next {
            Recv::PassNoted(fetch) => {
                let is_over = self.is_over(fetch);
                policy.pass_noted(&mut self.task, is_over)
            }
            next => next,
        };
        if let Some(status) = self.lost_body.take().filter(|_| next != Recv::Hangup) {
            return State::Synth(status, None);
        }
        match next {
            Recv::Hash if self.is_behind => {
                self.task.reason = Reason::PassBehind;
                State::Pass
            }
            Recv::Hash => State::Lookup,
            Recv::Pass | Recv::PassNoted(_) => State::Pass,
            Recv::Pipe => State::Pipe,
            Recv::Purge => State::Purge,
            Recv::Restart => State::Restart(None),
            Recv::Synth(status, reason) => State::Synth(status, reason),
            Recv::Hangup => {
                self.task.client.end.set(End::BodyBroken);
                let facts = Facts::local(Reason::ClientBodyTooLarge);
                State::Done(Reply::Hangup(Unsaid { status: 413, facts }))
            }
        }
    }

    /// Waits for the end of the client's handshake, before anything is done that a recording of it is
    /// not to have done again. What another may fetch meanwhile is looked up once more.
    async fn prove(&mut self, next: State) -> State {
        let next = match next {
            State::Miss(_) => State::Lookup,
            next => next,
        };
        if self.task.client.presence.known().await { next } else { State::Synth(425, None) }
    }

    /// The body for a fetch; one that is kept stays for the next.
    fn take_body(&mut self) -> Option<RequestBody> {
        match self.body.as_ref().and_then(RequestBody::again) {
            Some(again) => Some(again),
            None => self.body.take(),
        }
    }

    /// Begins again, as far as that may be. `said` is the reason of the page that the policy leaves for
    /// it, which is that of the refusal as well.
    fn restart(&mut self, said: Option<Box<str>>) -> State {
        // The one too many counts as well: a policy sees by it why it is asked for a page.
        self.task.restarts += 1;
        if self.task.restarts > self.task.site.settings.limits.restarts_max {
            self.task.transcript.note(Tag::VCL_Error, format_args!("Too many restarts"));
            self.task.reason = Reason::LocalPolicy;
            return State::Synth(503, said);
        }
        self.task.transcript.timestamp("Restart");
        let (before, id) = (self.task.id, self.worker.next_id());
        self.task.transcript.renew(id, "req", before, "restart");
        self.task.transcript.note_start();
        if self.task.transcript.is_on() {
            let endpoint = self.task.client.endpoint();
            self.task.transcript.note(Tag::ReqStart, format_args!("{endpoint}"));
            self.task.transcript.request(Message::Request, &self.task.request);
        }
        self.task.id = id;
        State::Recv
    }

    /// The key of the request as the policy makes it; made once and kept until a restart.
    fn key(&mut self) -> Arc<Key> {
        if let Some(key) = &self.key {
            return Arc::clone(key);
        }
        let builder = self.task.site.name.key(self.worker.shared.cache.secret());
        let site = self.task.site.clone();
        let policy = &*site.policy;
        let key = Arc::new(policy.hash(&mut self.task, builder).build());
        self.key = Some(Arc::clone(&key));
        key
    }
}
