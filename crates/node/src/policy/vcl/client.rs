//! The states of a client's request.

use super::host::NodeHost;
use super::{FAILED, VclPolicy, fetch::FetchState, seconds, span};
use crate::client::{Client, End};
use crate::coding::accepts_gzip;
use crate::expiry::keep_of;
use crate::fetch::Made;
use crate::fetch::prepare::append_to_list;
use crate::policy::{
    ClientTask, Deliver, FetchKind, Hit, Miss, Pass, Pipe, Purge, Recv, Served, Shaping, Synthetic,
};
use crate::shares::{Loan, loan_of};
use crate::transcript::{Message, Tag};
use freshet_cache::{KeyBuilder, Object, StoredHead};
use freshet_http::fields::Fields;
use freshet_http::message::{RequestHead, ResponseHead};
use freshet_http::reason::Reason;
use freshet_vcl::variables::Variable;
use freshet_vcl::{
    ClientKnobs, Delivery, FetchKnobs, ObjectView, Outcome, Session, State, Task, TlsFacts, View,
};
use std::io::Write as _;
use std::sync::Arc;

/// Places of Varnish's table of header lines that the first line takes.
const START_LINE_SLOTS: usize = 6;

/// What a policy keeps for a client's request.
struct ClientState {
    /// The policy the request was handed over to.
    other: Option<Arc<VclPolicy>>,
    knobs: ClientKnobs,
    task: Task,
    session: Session,
    /// What `vcl_hash` hashed: parts, each followed by a NUL.
    parts: Vec<u8>,
    /// Whether a state failed.
    failed: bool,
    /// Whether an object was found, whatever became of it.
    was_hit: bool,
    /// What a share of the memory lends for the request's body.
    loan: Option<Arc<Loan>>,
}

/// What a state works on besides the request itself.
#[derive(Default)]
struct With<'a> {
    resp: Option<&'a mut ResponseHead>,
    delivery: Option<&'a mut Delivery>,
    object: Option<ObjectView<'a>>,
    body: Option<&'a mut Vec<u8>>,
    bereq: Option<&'a mut RequestHead>,
}

impl ClientState {
    fn new(policy: &VclPolicy, task: &ClientTask) -> Self {
        let now = seconds(task.now);
        let accepts_gzip = task.request.fields.get("accept-encoding").is_some_and(accepts_gzip);
        let (timeouts, limits) = (&task.client.timeouts, &task.site.node().settings.limits);
        let nesting = task.nesting.as_deref();
        let top =
            nesting.map(|nesting| Box::new((nesting.top.clone(), seconds(nesting.top_received))));
        let knobs = ClientKnobs {
            esi_level: nesting.map_or(0, |nesting| nesting.level),
            top,
            xid: task.id,
            time: now,
            can_gzip: accepts_gzip,
            timeout_idle: timeouts.idle.get().unwrap_or(limits.idle_timeout).as_secs_f64(),
            idle_send_timeout: timeouts.send.get().unwrap_or(limits.send_timeout).as_secs_f64(),
            original: None,
            ..ClientKnobs::default()
        };
        Self {
            other: None,
            knobs,
            task: Task::new(),
            session: session(&task.client, policy),
            parts: Vec::new(),
            failed: false,
            was_hit: false,
            loan: None,
        }
    }

    /// Runs a state and notes its failure.
    fn run(
        &mut self,
        policy: &VclPolicy,
        state: State,
        task: &mut ClientTask,
        with: With<'_>,
    ) -> Outcome {
        let other = self.other.clone();
        let policy = other.as_deref().unwrap_or(policy);
        let program = policy.policy.program();
        self.knobs.restarts = task.restarts;
        self.knobs.xid = task.id;
        let view = View {
            client: Some(&mut self.knobs),
            req: Some(&mut task.request),
            resp: with.resp,
            delivery: with.delivery,
            object: with.object,
            body: with.body,
            bereq: with.bereq,
            ..View::new(seconds(task.now), &self.session)
        };
        let mut host = NodeHost {
            parts: &self.parts,
            body: task.kept_body.as_deref(),
            ..NodeHost::new(policy, task.now, Some(&task.transcript))
        };
        let outcome = policy.policy.run(state, view, &mut self.task, &mut host);
        if program.writes_timeouts {
            let timeouts = &task.client.timeouts;
            timeouts.idle.set(Some(span(self.knobs.timeout_idle)));
            let send = self.knobs.idle_send_timeout.min(self.knobs.send_timeout);
            timeouts.send.set(Some(span(send)));
        }
        if host.loan.is_some() {
            self.loan = host.loan.take();
        }
        if !host.durability.is_reached() {
            task.durability.get_or_insert_default().add(host.durability);
        }
        if let Some(failure) = self.task.take_failure() {
            policy.tell(&failure, task.now);
        }
        if outcome == Outcome::Fail && !std::mem::replace(&mut self.failed, true) {
            // What it had used up is not to keep the page from being made that tells of it.
            self.task.renew_workspace();
        }
        outcome
    }
}

/// Facts of a connection.
fn session(client: &Client, policy: &VclPolicy) -> Session {
    let program = policy.policy.program();
    let tls = client.tls.as_ref().filter(|_| program.modules.contains(&"proxy"));
    let named = program.reads(Variable::LocalSocket);
    let reads_endpoint = program.reads(Variable::LocalEndpoint);
    let tls = tls.map(|tls| TlsFacts {
        version: tls.version.to_owned(),
        cipher: tls.suite.to_owned(),
        authority: tls.sni.as_deref().unwrap_or("").to_owned(),
        alpn: tls.alpn.as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned(),
        client_certificate: None,
    });
    Session {
        xid: client.id,
        client: client.address,
        server: client.local_address,
        remote: client.peer_address,
        local: client.socket_address,
        endpoint: client.path.as_deref().filter(|_| reads_endpoint).unwrap_or_default().to_owned(),
        socket: if named { client.listener.to_string() } else { String::new() },
        tls,
        ..Session::default()
    }
}

/// Runs `act` with the request's state, which is made where there is none yet.
fn with_state<T>(
    policy: &VclPolicy,
    task: &mut ClientTask,
    act: impl FnOnce(&mut ClientState, &mut ClientTask) -> T,
) -> T {
    let mut state = match task.state.take().map(|state| state.downcast::<ClientState>()) {
        Some(Ok(state)) => state,
        Some(Err(_)) | None => Box::new(ClientState::new(policy, task)),
    };
    let result = act(&mut state, task);
    task.state = Some(state);
    result
}

/// Fields a request has before its policy looks at it: who it was forwarded for, and each list on
/// one line.
fn before_recv(task: &mut ClientTask) {
    let tls = task.client.tls.is_some();
    let address = task.client.address;
    let fields = &mut task.request.fields;
    // Varnish has this address for clients without one.
    let text = address.map_or_else(|| "0.0.0.0".into(), |a| a.ip().to_canonical().to_string());
    append_to_list(fields, "X-Forwarded-For", text.as_bytes());
    if tls {
        fields.set("X-Forwarded-Proto", "https");
    }
    join_lines(fields, "cache-control");
}

/// Puts all lines of a list field on one.
pub(super) fn join_lines(fields: &mut Fields, name: &str) {
    if fields.count(name) > 1
        && let Some(joined) = fields.joined(name)
    {
        fields.set(name, joined);
    }
}

pub(super) fn recv(policy: &VclPolicy, task: &mut ClientTask) -> Recv {
    let is_first = task.state.is_none();
    if is_first {
        before_recv(task);
    }
    with_state(policy, task, |state, task| {
        if is_first && policy.policy.program().rolls_back {
            state.knobs.original = Some(Box::new(task.request.clone()));
        }
        forget(state);
        let mut outcome = state.run(policy, State::Recv, task, With::default());
        if let Outcome::Vcl(label) = outcome {
            outcome = match policy.label(label).filter(|_| task.restarts == 0) {
                Some(other) => {
                    state.other = Some(other);
                    state.run(policy, State::Recv, task, With::default())
                }
                None => {
                    let why = match task.restarts {
                        0 => "Illegal return(vcl): Only from active VCL",
                        _ => "Illegal return(vcl): Not after restarts",
                    };
                    task.transcript.note(Tag::VCL_Error, format_args!("{why}"));
                    Outcome::Fail
                }
            };
        }
        finish_recv(policy, state, task, outcome)
    })
}

/// What the last look-up found. What the policy has set stays over a restart, as with Varnish.
fn forget(state: &mut ClientState) {
    state.knobs.is_hitmiss = false;
    state.knobs.is_hitpass = false;
    state.was_hit = false;
}

fn finish_recv(
    policy: &VclPolicy,
    state: &mut ClientState,
    task: &mut ClientTask,
    outcome: Outcome,
) -> Recv {
    // One coding, so that there are two variants of what can be compressed and not one for each
    // way of asking.
    if task.site.codes_gzip
        && !matches!(outcome, Outcome::Pass(_) | Outcome::Pipe)
        && task.request.fields.contains("accept-encoding")
    {
        if task.request.fields.get("accept-encoding").is_some_and(accepts_gzip) {
            task.request.fields.set("Accept-Encoding", "gzip");
        } else {
            task.request.fields.remove("accept-encoding");
        }
    }
    if !matches!(outcome, Outcome::Restart | Outcome::Fail) {
        state.task.clear_hash();
        let hashed = state.run(policy, State::Hash, task, With::default());
        state.parts.clear();
        state.parts.extend_from_slice(state.task.hash_parts());
        if policy.policy.program().reads_hash() {
            state.knobs.hash = freshet_vcl::digest(&state.parts);
        }
        if hashed != Outcome::Lookup {
            return Recv::Synth(503, Some(FAILED.into()));
        }
    }
    task.hash_always_miss = state.knobs.hash_always_miss;
    task.hash_ignore_busy = state.knobs.hash_ignore_busy;
    task.hash_ignore_vary = state.knobs.hash_ignore_vary;
    task.ttl_max = state.knobs.ttl.filter(|ttl| *ttl >= 0.0).map(span);
    task.grace_max = state.knobs.grace.filter(|grace| *grace >= 0.0).map(span);
    match outcome {
        Outcome::Hash => match policy.passes.get(|| policy.passes.key(&state.parts), task.now) {
            Some(note) => {
                note_marker(task, Tag::HitPass, note);
                state.knobs.is_hitpass = true;
                task.reason = Reason::PassPolicy;
                Recv::Pass
            }
            None => Recv::Hash,
        },
        Outcome::Pass(_) => {
            task.reason = Reason::PassPolicy;
            Recv::Pass
        }
        // RFC 9113 has no way to make one stream of a connection a tunnel but CONNECT.
        Outcome::Pipe
            if task.request.version > freshet_http::message::Version::Http11
                || task.nesting.is_some() =>
        {
            task.reason = Reason::PassPolicy;
            Recv::Pass
        }
        Outcome::Pipe => Recv::Pipe,
        Outcome::Purge => Recv::Purge,
        Outcome::Restart => Recv::Restart,
        Outcome::Synth(status, reason) => Recv::Synth(status, reason),
        _ => Recv::Synth(503, Some(FAILED.into())),
    }
}

/// Records that a marker was found in place of an object: which fetch left it, and for how long.
fn note_marker(task: &ClientTask, tag: Tag, note: super::passes::Note) {
    task.transcript.note_time(tag, |now, out| {
        let left = seconds(note.until) - now;
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{} {left:.6}", note.fetch);
    });
}

/// A key of parts that are each followed by a NUL.
pub(super) fn build_key<'a>(mut key: KeyBuilder<'a>, parts: &[u8]) -> KeyBuilder<'a> {
    let parts = parts.strip_suffix(&[0]).unwrap_or(parts);
    for part in parts.split(|byte| *byte == 0) {
        key = key.part(part);
    }
    key
}

pub(super) fn hash<'a>(
    policy: &VclPolicy,
    task: &mut ClientTask,
    key: KeyBuilder<'a>,
) -> KeyBuilder<'a> {
    if task.state.is_none() {
        let _ = recv(policy, task);
    }
    with_state(policy, task, |state, _| build_key(key, &state.parts))
}

/// What a policy sees of an object.
fn object_view<'a>(
    head: &'a StoredHead,
    object: &Object,
    task: &ClientTask,
    policy: &VclPolicy,
) -> ObjectView<'a> {
    let freshness = object.freshness();
    let received = seconds(freshness.received);
    ObjectView {
        fields: &head.fields,
        status: head.status,
        reason: head
            .reason
            .as_deref()
            .unwrap_or_else(|| freshet_http::message::reason_phrase(head.status)),
        age: freshness.age(task.now).as_secs_f64(),
        ttl: freshness.ttl_ms(task.now) as f64 / 1000.0,
        grace: freshness.stale_while_revalidate.as_secs_f64(),
        keep: keep_of(object).as_secs_f64(),
        time: received,
        hits: object.hits(),
        uncacheable: false,
        can_esi: head.form.parts,
        storage: loan_of(object.body()).and_then(|loan| policy.storage_index(loan.share().name())),
    }
}

/// What a policy sees of a response that was not kept.
fn passed_view<'a>(
    made: &Made,
    fields: &'a Fields,
    status: u16,
    served: Served<'_>,
    task: &ClientTask,
) -> ObjectView<'a> {
    let freshness = &made.freshness;
    ObjectView {
        fields,
        status,
        reason: freshet_http::message::reason_phrase(status),
        age: freshness.age(task.now).as_secs_f64(),
        ttl: freshness.ttl_ms(task.now) as f64 / 1000.0,
        grace: freshness.stale_while_revalidate.as_secs_f64(),
        keep: 0.0,
        time: seconds(freshness.received),
        hits: 0,
        uncacheable: true,
        can_esi: served.form.parts,
        storage: None,
    }
}

pub(super) fn hit(policy: &VclPolicy, task: &mut ClientTask, object: &Object) -> Hit {
    with_state(policy, task, |state, task| {
        let head = object.head();
        state.was_hit = true;
        let with =
            With { object: Some(object_view(&head, object, task, policy)), ..With::default() };
        match state.run(policy, State::Hit, task, with) {
            Outcome::Deliver => Hit::Deliver,
            Outcome::Pass(_) => {
                task.reason = Reason::PassPolicy;
                Hit::Pass
            }
            Outcome::Restart => Hit::Restart,
            Outcome::Synth(status, reason) => Hit::Synth(status, reason),
            _ => Hit::Synth(503, Some(FAILED.into())),
        }
    })
}

pub(super) fn miss(policy: &VclPolicy, task: &mut ClientTask) -> Miss {
    with_state(policy, task, |state, task| {
        let key = || policy.passes.key(&state.parts);
        if let Some(note) = policy.misses.recent(key, task.now) {
            note_marker(task, Tag::HitMiss, note);
        }
        state.knobs.is_hitmiss = task.reason == Reason::HitForMiss;
        match state.run(policy, State::Miss, task, With::default()) {
            Outcome::Fetch => Miss::Fetch,
            Outcome::Pass(_) => {
                task.reason = Reason::PassPolicy;
                Miss::Pass
            }
            Outcome::Restart => Miss::Restart,
            Outcome::Synth(status, reason) => Miss::Synth(status, reason),
            _ => Miss::Synth(503, Some(FAILED.into())),
        }
    })
}

pub(super) fn pass(policy: &VclPolicy, task: &mut ClientTask) -> Pass {
    with_state(policy, task, |state, task| {
        match state.run(policy, State::Pass, task, With::default()) {
            Outcome::Fetch => Pass::Fetch,
            Outcome::Restart => Pass::Restart,
            Outcome::Synth(status, reason) => Pass::Synth(status, reason),
            _ => Pass::Synth(503, Some(FAILED.into())),
        }
    })
}

pub(super) fn pipe(policy: &VclPolicy, task: &mut ClientTask) -> Pipe {
    with_state(policy, task, |state, task| {
        let mut bereq = task.request.clone();
        // Whoever gets the bytes of a connection is told that nothing else will come over it.
        bereq.fields.set("Connection", "close");
        bereq.fields.set("X-Varnish", task.id.to_string());
        let with = With { bereq: Some(&mut bereq), ..With::default() };
        let outcome = state.run(policy, State::Pipe, task, with);
        // What the policy did to bereq goes to the origin.
        task.request = bereq;
        match outcome {
            Outcome::Pipe => Pipe::Pipe,
            Outcome::Synth(status, reason) => Pipe::Synth(status, reason),
            _ => Pipe::Synth(503, Some(FAILED.into())),
        }
    })
}

pub(super) fn purge(policy: &VclPolicy, task: &mut ClientTask) -> Purge {
    with_state(policy, task, |state, task| {
        match state.run(policy, State::Purge, task, With::default()) {
            Outcome::Restart => Purge::Restart,
            Outcome::Synth(status, reason) => Purge::Synth(status, reason),
            _ => Purge::Synth(503, Some(FAILED.into())),
        }
    })
}

pub(super) fn deliver(
    policy: &VclPolicy,
    task: &mut ClientTask,
    response: &mut ResponseHead,
    served: Served<'_>,
) -> Deliver {
    with_state(policy, task, |state, task| {
        let head = served.object.map(Object::head);
        let mut ids = task.id.to_string();
        match &head {
            Some(head) if served.hit => ids = format!("{ids} {}", head.fetch_id),
            // A hit that was passed: what it brought has a number of its own.
            None if state.was_hit => {
                if let Some(made) = served.made {
                    ids = format!("{ids} {}", made.id);
                }
            }
            _ => {}
        }
        let says_length = policy.policy.program().names("content-length");
        if let Some(length) = served.length.filter(|_| says_length) {
            response.fields.set("Content-Length", length.to_string());
        }
        task.transcript.field(Tag::RespHeader, b"X-Varnish", ids.as_bytes());
        response.fields.append("X-Varnish", ids);
        if served.object.is_some() && response.status == 200 {
            match task.site.serves_ranges {
                true if response.fields.contains("accept-ranges") => {}
                true => response.fields.append("Accept-Ranges", "bytes"),
                false => {
                    response.fields.remove("accept-ranges");
                }
            }
        }
        if !response.fields.contains("age") {
            task.transcript.field(Tag::RespHeader, b"Age", b"0");
            response.fields.append("Age", "0");
        }
        let passed = served.made.map(|made| (made, response.fields.clone(), response.status));
        let object = match (&head, served.object) {
            (Some(head), Some(object)) => Some(object_view(head, object, task, policy)),
            _ => passed
                .as_ref()
                .map(|(made, fields, status)| passed_view(made, fields, *status, served, task)),
        };
        // A hit was counted when it was found; what is delivered to the first is its zeroth.
        let object = object
            .map(|object| ObjectView { hits: if served.hit { object.hits } else { 0 }, ..object });
        let streams = served.object.is_none_or(|object| !object.body().is_complete());
        let has_parts = served.form.parts && state.knobs.esi;
        let mut delivery = Delivery {
            time: seconds(task.now),
            is_streaming: streams,
            do_esi: has_parts,
            may_gunzip: served.form.gzip && task.site.codes_gzip && !state.knobs.can_gzip,
            ..Delivery::default()
        };
        let with =
            With { resp: Some(response), delivery: Some(&mut delivery), object, ..With::default() };
        let outcome = state.run(policy, State::Deliver, task, with);
        delivery.do_esi &= state.knobs.esi;
        task.shaping = shaping(&delivery);
        response.status %= 1000;
        let node = task.site.node();
        let has_room = !node.manners.limits_response_fields
            || response.fields.len() + START_LINE_SLOTS <= node.h1_limits.fields_max;
        match outcome {
            Outcome::Deliver if !has_room => Deliver::Synth(500, None),
            Outcome::Deliver => Deliver::Deliver,
            Outcome::Restart => Deliver::Restart,
            Outcome::Synth(status, reason) => Deliver::Synth(status, reason),
            _ => Deliver::Synth(503, Some(FAILED.into())),
        }
    })
}

/// What the policy leaves of the filters on the way to a client.
fn shaping(delivery: &Delivery) -> Shaping {
    let Some(filters) = &delivery.filters else {
        return Shaping { esi: delivery.do_esi, ..Shaping::default() };
    };
    let has = |name: &[u8]| filters.split(u8::is_ascii_whitespace).any(|filter| filter == name);
    Shaping { esi: has(b"esi"), gunzip: has(b"gunzip"), range: has(b"range"), is_chosen: true }
}

pub(super) fn synth(
    policy: &VclPolicy,
    task: &mut ClientTask,
    response: &mut Synthetic,
) -> Deliver {
    with_state(policy, task, |state, task| {
        response.head.fields.clear();
        let mut date = Vec::with_capacity(29);
        freshet_http::date::write(task.now, &mut date);
        response.head.fields.append("Date", date);
        response.head.fields.append("X-Varnish", task.id.to_string());
        if response.head.reason.is_none() && response.head.status == 422 {
            // Its name before RFC 9110, which policies know.
            response.head.reason = Some("Unprocessable Entity".into());
        }
        if response.head.reason_phrase().is_empty() {
            response.head.reason = Some("Unknown HTTP Status".into());
        }
        task.transcript.response(Message::Response, &response.head);
        let mut body = Vec::new();
        let mut delivery = Delivery { time: seconds(task.now), ..Delivery::default() };
        let with = With {
            resp: Some(&mut response.head),
            delivery: Some(&mut delivery),
            body: Some(&mut body),
            ..With::default()
        };
        let outcome = state.run(policy, State::Synth, task, with);
        response.head.status %= 1000;
        let next = match outcome {
            Outcome::Deliver => {
                response.body = body.into();
                Deliver::Deliver
            }
            Outcome::Restart => {
                response.body = body.into();
                Deliver::Restart
            }
            // A synthetic response that fails has none of its own to fall back to.
            _ => {
                *response = Synthetic::page(500, None);
                Deliver::Deliver
            }
        };
        if state.failed {
            response.head.fields.set("Connection", "close");
            task.client.end.set(End::PolicyFailed);
        }
        next
    })
}

/// What the fetch's states know of the request.
pub(super) fn begin_fetch(
    policy: &VclPolicy,
    task: &mut ClientTask,
    kind: FetchKind,
) -> FetchState {
    with_state(policy, task, |state, task| {
        let default = policy.policy.program().default_backend;
        let knobs = FetchKnobs {
            time: seconds(task.now),
            is_background: kind == FetchKind::Background,
            is_hitmiss: state.knobs.is_hitmiss,
            is_hitpass: state.knobs.is_hitpass,
            uncacheable: kind == FetchKind::Pass,
            backend: state.knobs.backend_hint.unwrap_or_else(|| {
                state.other.as_ref().map_or(default, |other| other.policy.program().default_backend)
            }),
            hash: state.knobs.hash,
            ..FetchKnobs::default()
        };
        FetchState {
            other: state.other.clone(),
            knobs,
            task: state.task.for_fetch(),
            session: Session { identity: state.knobs.identity.clone(), ..state.session.clone() },
            begun: false,
            asked: freshet_vcl::BackendRef::None,
            key: policy.passes.key(&state.parts),
        }
    })
}
