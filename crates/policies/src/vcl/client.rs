//! The states of a client's request.

use super::deliver::object_view;
use super::host::NodeHost;
use super::{FAILED, VclPolicy, fetch::FetchState, seconds, span};
use freshet_access::client::Client;
use freshet_access::identity::{Identity, Said};
use freshet_base::clock::UnixMillis;
use freshet_cache::{KeyBuilder, Object};
use freshet_http::coding::accepts_gzip;
use freshet_http::fields::Fields;
use freshet_http::hop_by_hop;
use freshet_http::message::{RequestHead, ResponseHead};
use freshet_http::reason::Reason;
use freshet_net::proxy::{Ssl, Tlvs};
use freshet_site::policy::{ClientTask, FetchKind, Hit, Miss, Pass, Pipe, Purge, Recv};
use freshet_site::shares::Loan;
use freshet_site::site::Site;
use freshet_telemetry::transcript::{Message, Tag};
use freshet_vcl::variables::Variable;
use freshet_vcl::{
    AccessFacts, CertificateFacts, ClientKnobs, Delivery, FetchKnobs, FrontFacts, ObjectView,
    Outcome, Session, State, Task, TlsFacts, View,
};
use std::sync::Arc;
use std::time::Duration;

/// What a policy keeps for a client's request.
pub(super) struct ClientState {
    /// The policy the request was handed over to.
    other: Option<Arc<VclPolicy>>,
    pub(super) knobs: ClientKnobs,
    task: Task,
    session: Session,
    /// What `vcl_hash` hashed: parts, each followed by a NUL.
    parts: Vec<u8>,
    /// Whether a state failed.
    pub(super) failed: bool,
    /// Whether an object was found, whatever became of it.
    pub(super) was_hit: bool,
    /// What a share of the memory lends for the request's body.
    loan: Option<Arc<Loan>>,
    /// Whether that body was kept for the policy.
    is_body_kept: bool,
    /// Whether it asked for that, and it could not be.
    is_body_missed: bool,
}

/// What a state works on besides the request itself.
#[derive(Default)]
pub(super) struct With<'a> {
    pub(super) resp: Option<&'a mut ResponseHead>,
    pub(super) delivery: Option<&'a mut Delivery>,
    pub(super) object: Option<ObjectView<'a>>,
    pub(super) body: Option<&'a mut Vec<u8>>,
    pub(super) bereq: Option<&'a mut RequestHead>,
}

impl ClientState {
    fn new(policy: &VclPolicy, task: &ClientTask) -> Self {
        let now = seconds(task.now);
        let (timeouts, limits) = (&task.client.timeouts, &task.site.node().settings.limits);
        let nesting = task.nesting.as_deref();
        let top =
            nesting.map(|nesting| Box::new((nesting.top.clone(), seconds(nesting.top_received))));
        let default = ClientKnobs::default();
        let knobs = ClientKnobs {
            esi_level: nesting.map_or(0, |nesting| nesting.level),
            top,
            xid: task.id,
            time: now,
            is_ahead: task.is_ahead,
            timeout_idle: timeouts.idle.get().unwrap_or(limits.idle_timeout).as_secs_f64(),
            timeout_linger: timeouts
                .linger
                .get()
                .map_or(default.timeout_linger, |span| span.as_secs_f64()),
            idle_send_timeout: timeouts.send.get().unwrap_or(limits.send_timeout).as_secs_f64(),
            send_timeout: timeouts
                .response
                .get()
                .or(limits.response_timeout)
                .map_or(default.send_timeout, |limit| limit.as_secs_f64()),
            original: None,
            ..default
        };
        Self {
            other: None,
            knobs,
            task: Task::new(),
            session: session(&task.client, task.identity.as_deref(), &task.site, policy),
            parts: Vec::new(),
            failed: false,
            was_hit: false,
            loan: None,
            is_body_kept: false,
            is_body_missed: false,
        }
    }

    /// Runs a state and notes its failure.
    pub(super) fn run(
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
            client: Some(&task.client),
            site: Some(&task.site),
            body: task.kept_body.as_deref(),
            is_body_kept: self.is_body_kept,
            pipe: task.pipe.as_deref(),
            ..NodeHost::new(policy, task.now, Some(&task.transcript))
        };
        let outcome = policy.policy.run(state, view, &mut self.task, &mut host);
        if program.writes_timeouts {
            let timeouts = &task.client.timeouts;
            timeouts.idle.set(Some(span(self.knobs.timeout_idle)));
            timeouts.linger.set(Some(span(self.knobs.timeout_linger)));
            timeouts.send.set(Some(span(self.knobs.idle_send_timeout)));
            timeouts.response.set(Some(span(self.knobs.send_timeout)));
        }
        if self.knobs.spared.len() != task.spared.len() {
            task.spared.clone_from(&self.knobs.spared);
        }
        self.is_body_kept = host.is_body_kept;
        self.is_body_missed |= host.is_body_missed;
        task.is_body_told |= host.is_body_kept;
        if host.loan.is_some() {
            self.loan = host.loan.take();
        }
        if !host.durability.is_reached() {
            task.durability.get_or_insert_default().add(host.durability);
        }
        if let Some(failure) = self.task.take_failure() {
            policy.tell(&failure, task.now);
        }
        if outcome == Outcome::Fail {
            // What it had used up is not to keep the page from being made that tells of it, nor is
            // what it had done to the request.
            self.failed = true;
            self.task.begin_anew();
            if let Some(original) = &self.knobs.original {
                task.request.clone_from(original);
                self.knobs.spared.clear();
            }
        }
        outcome
    }
}

/// Facts of a connection, and whom a request of it was let in as.
fn session(
    client: &Client,
    identity: Option<&Identity>,
    site: &Site,
    policy: &VclPolicy,
) -> Session {
    let program = policy.policy.program();
    let asks = program.modules.contains(&"proxy") || program.modules.contains(&"tls");
    let tls = client.tls.as_ref().filter(|_| asks);
    let shown = client.certificate_for(site.client_auth.as_ref()).filter(|_| asks);
    let named = program.reads(Variable::LocalSocket);
    let reads_endpoint = program.reads(Variable::LocalEndpoint);
    let tls = tls.map(|tls| TlsFacts {
        version: tls.version.to_owned(),
        cipher: tls.suite.to_owned(),
        authority: tls.sni.as_deref().unwrap_or("").to_owned(),
        alpn: tls.alpn.as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned(),
        client_certificate: shown.map(|shown| CertificateFacts {
            common_name: shown.common_name.to_string(),
            name: shown.name().to_owned(),
            subject: shown.subject.to_string(),
            issuer: shown.issuer.to_string(),
            serial: shown.serial.to_string(),
            fingerprint: shown.fingerprint.to_string(),
        }),
    });
    let asks_who = ["access", "mec"].iter().any(|name| program.modules.contains(name));
    Session {
        xid: client.id,
        client: client.address,
        server: client.local_address,
        remote: client.peer_address,
        local: client.socket_address,
        endpoint: client.path.as_deref().filter(|_| reads_endpoint).unwrap_or_default().to_owned(),
        socket: if named { client.listener.to_string() } else { String::new() },
        tls,
        access: identity.filter(|_| asks_who).map(access),
        front: client.front.as_deref().filter(|_| asks).map(front_facts),
        ..Session::default()
    }
}

fn access(identity: &Identity) -> Arc<AccessFacts> {
    let claims = identity.token.as_ref().map(|token| token.claims.clone());
    let said = |(name, value): &Said| (name.clone(), String::from_utf8_lossy(value).into());
    Arc::new(AccessFacts {
        user: identity.user().to_owned(),
        has_token: identity.token.is_some(),
        token_id: identity.token_id().to_owned(),
        claims: claims.unwrap_or_default(),
        // The last word counts, as in the request.
        said: identity.said().rev().map(said).collect(),
        has_place: identity.places.is_some(),
    })
}

/// What a PROXY header says of a client's own connection.
fn front_facts(said: &Tlvs) -> FrontFacts {
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    let none = Ssl::default();
    let ssl = said.ssl.as_ref().unwrap_or(&none);
    FrontFacts {
        is_tls: ssl.over_tls,
        has_certificate_in_session: ssl.certificate_in_session,
        has_certificate_on_connection: ssl.certificate_on_connection,
        verify_result: ssl.verify_result,
        version: text(&ssl.version),
        cipher: text(&ssl.cipher),
        authority: text(&said.authority),
        alpn: said.alpn.as_deref().map(|alpn| String::from_utf8_lossy(alpn).into_owned()),
        common_name: text(&ssl.common_name),
        signature_algorithm: text(&ssl.signature_algorithm),
        key_algorithm: text(&ssl.key_algorithm),
    }
}

/// Runs `act` with the request's state, which is made where there is none yet.
pub(super) fn with_state<T>(
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
    let address = task.client.sender();
    let fields = &mut task.request.fields;
    // Varnish has this address for clients without one.
    let text = address.map_or_else(|| "0.0.0.0".into(), |a| a.ip().to_canonical().to_string());
    if let Some(before) = fields.get("x-forwarded-for") {
        task.transcript.field(Tag::ReqUnset, b"X-Forwarded-For", before);
    }
    fields.append_to_list("X-Forwarded-For", text.as_bytes());
    if let Some(now) = fields.get("x-forwarded-for") {
        task.transcript.field(Tag::ReqHeader, b"X-Forwarded-For", now);
    }
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
    let program = policy.policy.program();
    let keeps = is_first && (program.rolls_back || !program.labels.is_empty());
    // As it came, before anything is added to it.
    let original = keeps.then(|| Box::new(task.request.clone()));
    if is_first {
        before_recv(task);
    }
    with_state(policy, task, |state, task| {
        if original.is_some() {
            state.knobs.original = original;
        }
        forget(state);
        let mut outcome = state.run(policy, State::Recv, task, With::default());
        if let Outcome::Vcl(label) = outcome
            && let Some((other, label)) = policy.label(label).filter(|_| task.restarts == 0)
        {
            hand_over(state, task, other, label);
            outcome = state.run(policy, State::Recv, task, With::default());
        }
        let hangs_up = task.site.node().manners.hangs_up_without_body;
        if hangs_up && state.is_body_missed && outcome != Outcome::Fail {
            return Recv::Hangup;
        }
        finish_recv(policy, state, task, outcome)
    })
}

/// Begins anew by `other`, of this label: what the first policy has done to the request is undone,
/// and so is what it has set.
fn hand_over(state: &mut ClientState, task: &mut ClientTask, other: Arc<VclPolicy>, label: &str) {
    task.transcript.note(Tag::VCL_use, format_args!("{} via {label}", other.policy.name()));
    let original = state.knobs.original.take();
    if let Some(original) = &original {
        task.request.clone_from(original);
    }
    before_recv(task);
    *state = ClientState::new(&other, task);
    state.knobs.original = original;
    state.other = Some(other);
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
        && !matches!(outcome, Outcome::Pass(_) | Outcome::Pipe | Outcome::Fail)
        && task.request.fields.contains("accept-encoding")
    {
        let (fields, transcript) = (&mut task.request.fields, &task.transcript);
        let value = fields.get("accept-encoding").unwrap_or_default();
        let accepts = accepts_gzip(value);
        if value != b"gzip" {
            transcript.field(Tag::ReqUnset, b"Accept-Encoding", value);
        }
        if accepts && value != b"gzip" {
            transcript.field(Tag::ReqHeader, b"Accept-Encoding", b"gzip");
            fields.set("Accept-Encoding", "gzip");
        } else if !accepts {
            fields.remove("accept-encoding");
        }
    }
    if outcome != Outcome::Fail {
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
    // None at all is no limit, unlike no grace.
    task.ttl_max = state.knobs.ttl.filter(|ttl| *ttl > 0.0).map(span);
    task.grace_max = state.knobs.grace.filter(|grace| *grace >= 0.0).map(span);
    match outcome {
        // Who looks for nothing finds no marker either.
        Outcome::Hash if task.hash_always_miss => Recv::Hash,
        Outcome::Hash => match policy.passes.get(|| policy.passes.key(&state.parts), task.now) {
            Some(note) => Recv::PassNoted(note.fetch),
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
        // A policy that was handed a request cannot hand it on, and none can that has begun again.
        Outcome::Vcl(_) => {
            let why = match task.restarts {
                0 => "Only from active VCL",
                _ => "Not after restarts",
            };
            task.transcript.note(Tag::VCL_Error, format_args!("Illegal return(vcl): {why}"));
            Recv::Synth(503, None)
        }
        _ => Recv::Synth(503, Some(FAILED.into())),
    }
}

/// Records that a marker was found in place of an object: which fetch left it, and for how long.
fn note_marker(task: &ClientTask, tag: Tag, fetch: u64, until: UnixMillis) {
    // From when the request came, also where it was restarted since; more exactly than in milliseconds.
    let left = seconds(until) - task.transcript.started_seconds();
    task.transcript.note(tag, format_args!("{fetch} {left:.6}"));
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

/// What the request hashes as it is now; the key it goes by stays.
pub(super) fn hash_again<'a>(
    policy: &VclPolicy,
    task: &mut ClientTask,
    key: KeyBuilder<'a>,
) -> KeyBuilder<'a> {
    with_state(policy, task, |state, task| {
        state.task.clear_hash();
        let _ = state.run(policy, State::Hash, task, With::default());
        build_key(key, state.task.hash_parts())
    })
}

pub(super) fn hit(policy: &VclPolicy, task: &mut ClientTask, object: &Object) -> Hit {
    with_state(policy, task, |state, task| {
        let head = object.head();
        state.was_hit = true;
        // What is left of it is reckoned from when the request came, as whether it is good is.
        let view = object_view(&head, object, task.received, policy);
        let with = With { object: Some(view), ..With::default() };
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
        if let Some(left_by) = task.left_by {
            note_marker(task, Tag::HitMiss, left_by.fetch_id, left_by.fresh_until);
        }
        state.knobs.is_hitmiss = task.left_by.is_some();
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
        hop_by_hop::strip_named(&mut bereq.fields, &task.spared);
        // Whoever gets the bytes of a connection is told that nothing else will come over it.
        bereq.fields.set("X-Varnish", task.id.to_string());
        bereq.fields.set("Connection", "close");
        if let Some(pipe) = &task.pipe {
            pipe.request(Message::OriginRequest, &bereq);
        }
        state.knobs.task_deadline = None;
        state.knobs.connect_timeout = None;
        let usual = task.site.tunnels.lasts_max;
        state.knobs.task_deadline_usual = usual.map_or(0.0, |most| most.as_secs_f64());
        let with = With { bereq: Some(&mut bereq), ..With::default() };
        let outcome = state.run(policy, State::Pipe, task, with);
        if outcome == Outcome::Pipe {
            // One of 0 is none, also where all have one.
            let end = |most| if most > 0.0 { span(most) } else { Duration::MAX };
            task.tunnel_lasts_max = state.knobs.task_deadline.map(end);
            task.tunnel_waits.connect = state.knobs.connect_timeout.map(span);
            // What the policy did to bereq goes to the origin.
            task.request = bereq;
            task.transcript.timestamp("Process");
            if let Some(pipe) = &task.pipe {
                pipe.timestamp("Process");
            }
        }
        match outcome {
            Outcome::Pipe => Pipe::Pipe,
            Outcome::Synth(status, reason) => Pipe::Synth(status, reason),
            _ => Pipe::Synth(503, Some(FAILED.into())),
        }
    })
}

/// A note that the request is to be passed holds, or is over: its response was banned, or purged.
pub(super) fn pass_noted(policy: &VclPolicy, task: &mut ClientTask, is_over: bool) -> Recv {
    with_state(policy, task, |state, task| {
        let key = policy.passes.key(&state.parts);
        if is_over {
            policy.passes.forget(key);
        }
        let Some(note) = policy.passes.get(|| key, task.now) else { return Recv::Hash };
        note_marker(task, Tag::HitPass, note.fetch, note.until);
        state.knobs.is_hitpass = true;
        task.reason = Reason::PassPolicy;
        Recv::Pass
    })
}

pub(super) fn purge(policy: &VclPolicy, task: &mut ClientTask) -> Purge {
    with_state(policy, task, |state, task| {
        // What says that nothing is kept of it has gone with it.
        policy.passes.forget(policy.passes.key(&state.parts));
        // As with Varnish: what is asked for again behind a purge is fetched.
        state.knobs.hash_always_miss = true;
        match state.run(policy, State::Purge, task, With::default()) {
            Outcome::Restart => Purge::Restart,
            Outcome::Synth(status, reason) => Purge::Synth(status, reason),
            _ => Purge::Synth(503, Some(FAILED.into())),
        }
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
        state.knobs.was_passed = kind == FetchKind::Pass;
        let knobs = FetchKnobs {
            time: seconds(task.now),
            is_background: kind == FetchKind::Background,
            is_ahead: state.knobs.is_ahead,
            is_hitmiss: state.knobs.is_hitmiss,
            is_hitpass: state.knobs.is_hitpass,
            uncacheable: kind == FetchKind::Pass,
            backend: state.knobs.backend_hint.unwrap_or_else(|| {
                state.other.as_ref().map_or(default, |other| other.policy.program().default_backend)
            }),
            hash: state.knobs.hash,
            has_body: task.has_body && !task.is_body_told,
            ..FetchKnobs::default()
        };
        FetchState {
            other: state.other.clone(),
            knobs,
            task: state.task.for_fetch(),
            session: Session { identity: state.knobs.identity.clone(), ..state.session.clone() },
            begun: false,
            asked: freshet_vcl::BackendRef::None,
            told: task.origin(),
            key: policy.passes.key(&state.parts),
        }
    })
}
