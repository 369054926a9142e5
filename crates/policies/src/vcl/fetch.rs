//! The states of a fetch.

use super::host::NodeHost;
use super::{VclPolicy, seconds, span};
use freshet_base::clock::UnixMillis;
use freshet_config::storage::Storage;
use freshet_content::chain::Filter;
use freshet_content::heads::{self, Wish};
use freshet_http::cache_control::CacheControl;
use freshet_http::coding::Coding;
use freshet_http::date;
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use freshet_http::message::{Method, RequestHead, ResponseHead, Version};
use freshet_http::reason::Reason;
use freshet_origin::Waits;
use freshet_site::policy::{
    Answer, BackendError, BackendFetch, BackendResponse, FetchKind, FetchTask, OriginChoice,
};
use freshet_site::site::Site;
use freshet_site::synthetic::Synthetic;
use freshet_telemetry::transcript::{Message, Tag, Transcript};
use freshet_vcl::{BackendRef, FetchKnobs, Outcome, Session, State, Task, View, status_phrase};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Time to live, grace and keep in seconds of a page in the place of an answer that others wait for, as
/// Varnish has them.
const PAGE_FOR_ALL_S: (f64, f64, f64) = (1.0, 5.0, 5.0);

/// What a policy keeps for a fetch.
pub(super) struct FetchState {
    pub(super) other: Option<Arc<VclPolicy>>,
    pub(super) knobs: FetchKnobs,
    pub(super) task: Task,
    pub(super) session: Session,
    /// What the request hashed, as the policy's notes of passes have it.
    pub(super) key: u64,
    /// Whether `vcl_backend_fetch` ran.
    pub(super) begun: bool,
    /// The backend that was asked.
    pub(super) asked: BackendRef,
    /// Where the request would go if nobody chose a backend.
    pub(super) told: OriginChoice,
}

/// What a state works on besides the request itself.
#[derive(Default)]
struct With<'a> {
    beresp: Option<&'a mut ResponseHead>,
    answer: Option<&'a mut freshet_vcl::Answer>,
    body: Option<&'a mut Vec<u8>>,
}

impl FetchState {
    fn new(task: &FetchTask, policy: &VclPolicy) -> Self {
        let knobs = FetchKnobs {
            time: seconds(task.now),
            backend: policy.policy.program().default_backend,
            uncacheable: task.kind == FetchKind::Pass,
            is_background: task.kind == FetchKind::Background,
            ..FetchKnobs::default()
        };
        let session = Session { client: task.client_address, ..Session::default() };
        Self {
            other: None,
            knobs,
            task: Task::new(),
            session,
            key: 0,
            begun: false,
            asked: BackendRef::None,
            told: OriginChoice::default(),
        }
    }

    fn run(
        &mut self,
        policy: &VclPolicy,
        state: State,
        task: &mut FetchTask,
        with: With<'_>,
    ) -> Outcome {
        let other = self.other.clone();
        let policy = other.as_deref().unwrap_or(policy);
        self.knobs.xid = task.id;
        self.knobs.retries = task.retries;
        let view = View {
            fetch: Some(&mut self.knobs),
            bereq: Some(&mut task.request),
            beresp: with.beresp,
            answer: with.answer,
            body: with.body,
            ..View::new(seconds(task.now), &self.session)
        };
        let mut host = NodeHost::new(policy, task.now, Some(&task.transcript));
        let outcome = policy.policy.run(state, view, &mut self.task, &mut host);
        if let Some(failure) = self.task.take_failure() {
            policy.tell(&failure, task.now);
        }
        outcome
    }

    /// How long the origin is waited for: as the policy says at this fetch, or the backend's
    /// declaration, or the configuration in force.
    fn waits(&self, policy: &VclPolicy, task: &FetchTask) -> Waits {
        let policy = self.other.as_deref().unwrap_or(policy);
        let backends = &policy.policy.program().backends;
        let declared = match self.asked {
            BackendRef::Backend(index) => backends.get(index as usize).map(|one| {
                (one.connect_timeout, one.first_byte_timeout, one.between_bytes_timeout)
            }),
            BackendRef::Made(number) => policy.made.get(number).map(|made| {
                let one = &made.making;
                (one.connect_timeout, one.first_byte_timeout, one.between_bytes_timeout)
            }),
            _ => None,
        };
        let (connect, first_byte, between_bytes) = declared.unwrap_or_default();
        let configured = &task.site.settings.origin_timeouts;
        let (knobs, of) = (&self.knobs, |value: Option<f64>, or: Option<f64>, last: Duration| {
            Some(value.or(or).map_or(last, span))
        });
        Waits {
            connect: of(knobs.connect_timeout, connect, configured.connect),
            first_byte: of(knobs.first_byte_timeout, first_byte, configured.first_byte),
            between_bytes: of(knobs.between_bytes_timeout, between_bytes, configured.between_bytes),
        }
    }

    /// Turns the backend or director the policy chose into an origin.
    pub(super) fn choose(
        &mut self,
        policy: &VclPolicy,
        request: &mut RequestHead,
        now: UnixMillis,
        transcript: &Transcript,
    ) -> OriginChoice {
        let other = self.other.clone();
        let policy = other.as_deref().unwrap_or(policy);
        let backend = self.knobs.backend;
        if backend == BackendRef::Told {
            self.asked = backend;
            return self.told.clone();
        }
        if let BackendRef::Made(number) = backend {
            self.asked = backend;
            let Some(made) = policy.made.get(number) else {
                return OriginChoice::Nobody("No backend".into());
            };
            if !made.health(now).0 {
                made.origin.stats.refrained.add(1);
                return OriginChoice::Nobody(format!("backend {}: unhealthy", made.name).into());
            }
            name_host(request, made.host(), transcript);
            return OriginChoice::Exactly(made.origin);
        }
        let view = View {
            fetch: Some(&mut self.knobs),
            bereq: Some(request),
            ..View::new(seconds(now), &self.session)
        };
        let mut host = NodeHost::new(policy, now, Some(transcript));
        let chosen = policy.policy.resolve(backend, view, &mut self.task, &mut host);
        let sick = chosen.is_some_and(|index| !freshet_vcl::Host::backend_health(&host, index).0);
        let origin = chosen.and_then(|index| policy.origins.get(index as usize).cloned().flatten());
        if let Some(origin) = origin.as_ref().filter(|_| sick) {
            origin.stats.refrained.add(1);
        }
        let origin = origin.filter(|_| !sick);
        if let Some(index) = chosen {
            self.asked = BackendRef::Backend(index);
            let declared = policy.policy.program().backends.get(index as usize);
            if let Some(declared) = declared {
                name_host(request, declared.host(), transcript);
            }
        }
        origin.map_or_else(
            || OriginChoice::Nobody(why_nobody(policy, backend, chosen).into()),
            OriginChoice::Exactly,
        )
    }
}

/// Gives a request that names no host its backend's.
fn name_host(request: &mut RequestHead, host: &str, transcript: &Transcript) {
    if request.authority.is_empty() {
        request.authority = host.to_owned();
        transcript.field(Tag::BereqHeader, b"Host", request.authority.as_bytes());
    }
}

/// Why none is asked: what the policy named, and what that came to.
fn why_nobody(policy: &VclPolicy, named: BackendRef, chosen: Option<u32>) -> String {
    let program = policy.policy.program();
    match (chosen.and_then(|at| program.backends.get(at as usize)), named) {
        (Some(backend), _) if backend.endpoint.is_none() => "No backend".to_owned(),
        (Some(backend), _) => format!("backend {}: unhealthy", backend.name),
        (None, BackendRef::Director(at)) => {
            let name = program.objects.get(at as usize).map_or("", |object| &object.name);
            format!("Director {name} returned no backend")
        }
        (None, _) => "No backend".to_owned(),
    }
}

fn with_state<T>(
    policy: &VclPolicy,
    task: &mut FetchTask,
    act: impl FnOnce(&mut FetchState, &mut FetchTask) -> T,
) -> T {
    let mut state = match task.state.take().map(|state| state.downcast::<FetchState>()) {
        Some(Ok(state)) => state,
        Some(Err(_)) | None => Box::new(FetchState::new(task, policy)),
    };
    let result = act(&mut state, task);
    task.state = Some(state);
    result
}

pub(super) fn backend_fetch(policy: &VclPolicy, task: &mut FetchTask) -> BackendFetch {
    with_state(policy, task, |state, task| {
        if !state.begun {
            state.begun = true;
            let fields = &mut task.request.fields;
            if task.kind != FetchKind::Pass {
                // What is kept is the whole.
                fields.remove("range");
                fields.remove("if-range");
            }
            task.request.version = Version::Http11;
            if task.kind != FetchKind::Pass {
                ask_for_all(&task.site, fields, &task.transcript);
            }
            fields.set("X-Varnish", task.id.to_string());
            task.transcript.field(Tag::BereqHeader, b"X-Varnish", task.id.to_string().as_bytes());
            if policy.policy.program().rolls_back {
                state.knobs.original = Some(Box::new(task.request.clone()));
            }
        } else {
            if let Some(before) = task.request.fields.get("x-varnish") {
                task.transcript.field(Tag::BereqUnset, b"X-Varnish", before);
            }
            task.request.fields.set("X-Varnish", task.id.to_string());
            task.transcript.field(Tag::BereqHeader, b"X-Varnish", task.id.to_string().as_bytes());
        }
        match state.run(policy, State::BackendFetch, task, With::default()) {
            Outcome::Fetch => {
                task.body_dropped = state.knobs.body_unset;
                let (now, transcript) = (task.now, Rc::clone(&task.transcript));
                task.origin = state.choose(policy, &mut task.request, now, &transcript);
                task.waits = state.waits(policy, task);
                task.is_sent_once = state.knobs.connects_once;
                BackendFetch::Fetch
            }
            Outcome::Error(status, reason) => BackendFetch::Error(status, reason),
            _ => BackendFetch::Abandon,
        }
    })
}

/// Asks for what fills the cache in the coding it is kept in, whatever the request says, and tells of it.
fn ask_for_all(site: &Site, fields: &mut Fields, transcript: &Transcript) {
    const NAME: &str = "Accept-Encoding";
    let Some(coding) = site.coding_for_all(fields) else { return };
    if fields.get(NAME) == Some(coding.as_bytes()) {
        return;
    }
    for before in fields.get_all(NAME) {
        transcript.field(Tag::BereqUnset, NAME.as_bytes(), before);
    }
    fields.remove(NAME);
    fields.append(NAME, coding);
    transcript.field(Tag::BereqHeader, NAME.as_bytes(), coding.as_bytes());
}

pub(super) fn backend_response(
    policy: &VclPolicy,
    task: &mut FetchTask,
    answer: &mut Answer,
) -> BackendResponse {
    with_state(policy, task, |state, task| {
        let now = task.now;
        let head = &mut answer.head;
        for name in ["cache-control", "vary"] {
            super::client::join_lines(&mut head.fields, name);
        }
        if !head.fields.contains("date") {
            let mut value = Vec::with_capacity(29);
            date::write(now, &mut value);
            task.transcript.field(Tag::BerespHeader, b"Date", &value);
            head.fields.append("Date", value);
        }
        let dates = policy.policy.program().dates;
        let (mut knobs, whole) = freshet_vcl::lifetime(head, now, policy.defaults, dates);
        if task.kind == FetchKind::Pass {
            (knobs.ttl, knobs.grace, knobs.keep) = (0.0 - knobs.age, 0.0, 0.0);
            knobs.has_no_life = true;
        } else {
            note_lifetime(task, (&knobs, whole, state.knobs.uncacheable), head, (now, dates));
        }
        knobs.was_304 = answer.was_not_modified;
        let is_empty = !knobs.was_304 && has_no_body(&task.request.method, head);
        if let Some(advice) = &answer.media {
            advice.shorten_knobs(&mut knobs);
        }
        knobs.uncacheable = state.knobs.uncacheable;
        knobs.backend = state.asked;
        knobs.backend_address = task.origin_address;
        let shares = task.site.shares.clone();
        if let Some(shares) = shares.as_ref().filter(|_| !knobs.uncacheable) {
            knobs.storage = policy.storage_index(shares.next().name());
        }
        let unsaid = (knobs.ttl, knobs.grace, knobs.keep);
        let with = With { beresp: Some(head), answer: Some(&mut knobs), ..With::default() };
        let outcome = state.run(policy, State::BackendResponse, task, with);
        if let Outcome::Pass(Some(seconds)) = &outcome {
            (knobs.ttl, knobs.grace, knobs.keep) = (*seconds, 0.0, 0.0);
        }
        answer.has_own_life = (knobs.ttl, knobs.grace, knobs.keep) != unsaid;
        let is_part = answer.head.status == 206;
        // The age of what is sent on is reckoned, whatever a policy calls it.
        answer.head.fields.remove("age");
        answer.head.status %= 1000;
        let reason = answer.uncacheable;
        let is_passed = task.kind == FetchKind::Pass || matches!(outcome, Outcome::Pass(_));
        apply(&knobs, now, is_passed, answer);
        let storages = &policy.policy.program().storages;
        let storage = knobs.storage.and_then(|index| storages.get(index as usize));
        // What a manifest says about where it belongs stands where the policy says nothing.
        if let Some(name) = storage {
            answer.storage = Storage::named(name);
        }
        answer.share = shares.map(|shares| {
            let life = knobs.ttl.max(0.0) + knobs.grace + knobs.keep;
            let is_short = knobs.uncacheable || span(life) < shares.shortlived();
            let named = storage.filter(|_| !is_short).and_then(|name| shares.named(name));
            Arc::clone(named.unwrap_or_else(|| shares.transient()))
        });
        if answer.share.is_some() {
            // Its name is that of a part of the memory.
            answer.storage = Storage::Memory;
        }
        (answer.filters, answer.any_coding) = filters(&knobs, &answer.head, task);
        // A part is neither packed nor unpacked. One that is to be a page is a mistake.
        answer.is_part_of_page = is_part && answer.filters.iter().any(Filter::makes_page);
        if is_part && !answer.is_part_of_page {
            answer.filters.clear();
        }
        // As Varnish: what is wrong with a page is known before any of it is sent.
        answer.stream &= !knobs.do_esi;
        answer.uncacheable = knobs.uncacheable.then(|| reason.unwrap_or(Reason::PassPolicy));
        let gave_up = std::mem::take(&mut state.knobs.gave_up);
        match outcome {
            Outcome::Deliver | Outcome::Pass(_) if gave_up => {
                let why = "No backend connection (rollback?)";
                task.transcript.note(Tag::FetchError, format_args!("{why}"));
                BackendResponse::Error(503, Some("Backend fetch failed".into()))
            }
            Outcome::Deliver => {
                if is_empty {
                    drop_coding(task, answer);
                }
                // What is kept for others is found before what said that they are passed.
                if answer.uncacheable.is_none() && task.kind != FetchKind::Pass {
                    policy.passes.forget(state.key);
                }
                BackendResponse::Deliver
            }
            Outcome::Pass(_) => {
                if is_empty {
                    drop_coding(task, answer);
                }
                answer.uncacheable = Some(Reason::PassPolicy);
                let span = span(knobs.ttl);
                answer.hit_for_miss = Some(span);
                // What is passed already makes no object that says so.
                if task.kind != FetchKind::Pass {
                    policy.passes.note(state.key, now.plus(span), task.id, now);
                }
                BackendResponse::Deliver
            }
            Outcome::Retry => BackendResponse::Retry,
            Outcome::Error(status, reason) => BackendResponse::Error(status, reason),
            _ => BackendResponse::Abandon,
        }
    })
}

/// Of what has no body no coding is said, and nothing is done to it.
fn drop_coding(task: &FetchTask, answer: &mut Answer) {
    answer.filters.clear();
    let fields = &mut answer.head.fields;
    if let Some(coding) = fields.get("content-encoding") {
        task.transcript.field(Tag::BerespUnset, b"Content-Encoding", coding);
        fields.remove("content-encoding");
    }
}

/// Whether nothing is behind a head, so that no coding is either.
fn has_no_body(method: &Method, head: &ResponseHead) -> bool {
    *method == Method::Head
        || matches!(head.status, 204 | 304)
        || head.fields.get("content-length") == Some(b"0")
}

/// Records how long a response would be kept, before the policy says more.
fn note_lifetime(
    task: &FetchTask,
    (knobs, whole, is_uncacheable): (&freshet_vcl::Answer, f64, bool),
    head: &ResponseHead,
    (now, dates): (UnixMillis, date::Reading),
) {
    if !task.transcript.is_on() {
        return;
    }
    let read = |name| head.fields.get(name).and_then(|text| date::parse_by(text, dates));
    let at = |name| read(name).map_or(0, UnixMillis::seconds);
    let control = CacheControl::from_fields(&head.fields);
    // Of a status that is not kept by itself nothing more is looked at.
    let most = control.s_maxage.or(control.max_age).filter(|_| whole >= 0.0);
    let most = most.map_or(0, |span| span.as_secs());
    let (grace, keep, age) = (knobs.grace, knobs.keep, knobs.age);
    let now = now.seconds();
    let (date, expires) = (at("date"), at("expires"));
    let origin = now - age as i64;
    let word = if is_uncacheable { "uncacheable" } else { "cacheable" };
    task.transcript.note(
        Tag::TTL,
        format_args!(
            "RFC {whole:.0} {grace:.0} {keep:.0} {now} {origin} {date} {expires} {most} {word}"
        ),
    );
}

/// What is done to the body: what the policy names, or what follows from its other wishes.
fn filters(
    knobs: &freshet_vcl::Answer,
    head: &ResponseHead,
    task: &FetchTask,
) -> (Vec<Filter>, bool) {
    let may_code = task.site.codes_gzip;
    let filters = match &knobs.filters {
        Some(names) => {
            let names = String::from_utf8_lossy(names);
            names.split_ascii_whitespace().filter_map(Filter::named).collect()
        }
        None => {
            let (esi, gzip, gunzip) = (knobs.do_esi, knobs.do_gzip, knobs.do_gunzip);
            let pack = gzip.then_some(Coding::Gzip);
            let wish = Wish { esi, pack, gunzip, may_code, recodes: false };
            heads::filters_for(&head.fields, wish)
        }
    };
    (filters, may_code)
}

/// Takes over what a policy decided about a response's life, which is what its client sees of it where it is passed.
fn apply(knobs: &freshet_vcl::Answer, now: UnixMillis, is_passed: bool, answer: &mut Answer) {
    // From when it was made; what is left of it may be less than nothing.
    let life = knobs.age + knobs.ttl;
    // As with Varnish: what never was fresh serves nobody later, whatever its grace.
    let serves_nobody = life <= 0.0 && !is_passed && !knobs.uncacheable;
    let (grace, keep) = if serves_nobody { (0.0, 0.0) } else { (knobs.grace, knobs.keep) };
    answer.freshness = Freshness::from_policy(now, span(life));
    answer.freshness.set_initial_age(span(knobs.age));
    answer.freshness.set_stale_while_revalidate(span(grace));
    // Also in its grace nobody waits for another's fetch of what is not kept.
    answer.hit_for_miss = Some(span(knobs.ttl + grace));
    answer.stream = knobs.do_stream;
    answer.keep = Some(span(keep));
}

pub(super) fn backend_error(
    policy: &VclPolicy,
    task: &mut FetchTask,
    response: &mut Synthetic,
) -> BackendError {
    with_state(policy, task, |state, task| {
        let now = task.now;
        let head = &mut response.head;
        task.transcript.timestamp("Error");
        if head.reason.is_none() && head.fields.contains("proxy-status") {
            // The fetch failed by itself.
            head.status = 503;
            head.reason = Some("Backend fetch failed".into());
        }
        if head.reason.is_none() {
            head.reason = status_phrase(head.status % 1000).map(Into::into);
        }
        head.fields.clear();
        let mut value = Vec::with_capacity(29);
        date::write(now, &mut value);
        head.fields.append("Date", value);
        super::deliver::name_server(&mut head.fields, task.site.node());
        task.transcript.response(Message::OriginResponse, head);
        // Those that wait are not to ask for the same one after the other.
        let (ttl, grace, keep) = if task.is_awaited { PAGE_FOR_ALL_S } else { (0.0, 0.0, 0.0) };
        let mut knobs = freshet_vcl::Answer {
            time: seconds(now),
            backend: state.asked,
            do_stream: true,
            uncacheable: state.knobs.uncacheable,
            ttl,
            grace,
            keep,
            ..freshet_vcl::Answer::default()
        };
        let mut body = Vec::new();
        let with = With {
            beresp: Some(&mut response.head),
            answer: Some(&mut knobs),
            body: Some(&mut body),
        };
        let outcome = state.run(policy, State::BackendError, task, with);
        task.is_uncacheable = knobs.uncacheable;
        response.head.status %= 1000;
        // The age of what is sent on is reckoned, whatever a policy calls it.
        response.head.fields.remove("age");
        response.body = body.into();
        match outcome {
            Outcome::Deliver if knobs.ttl > 0.0 && task.kind != FetchKind::Pass => {
                let mut freshness = Freshness::from_policy(now, span(knobs.ttl));
                freshness.set_stale_while_revalidate(span(knobs.grace));
                let keep = span(knobs.keep);
                match knobs.uncacheable {
                    true => BackendError::Page(Some((freshness, keep))),
                    false => BackendError::Keep(freshness, keep),
                }
            }
            Outcome::Deliver => BackendError::Page(None),
            Outcome::Retry => BackendError::Retry,
            _ => BackendError::Abandon,
        }
    })
}
