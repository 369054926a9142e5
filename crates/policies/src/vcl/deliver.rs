//! The states that end a client's request: what is delivered, and what is made here.

use super::client::{With, with_state};
use super::{FAILED, VclPolicy, seconds};
use bytes::Bytes;
use freshet_access::client::End;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Object, StoredHead};
use freshet_content::heads::weaken_etag;
use freshet_http::coding::accepts_gzip;
use freshet_http::fields::Fields;
use freshet_http::message::{ResponseHead, Version, reason_phrase};
use freshet_http::reason::{Group, Reason};
use freshet_site::policy::{ClientTask, Deliver, Made, Served, Shaping};
use freshet_site::shares::{TRANSIENT, loan_of};
use freshet_site::snapshot::Snapshot;
use freshet_site::synthetic::Synthetic;
use freshet_site::upkeep::keep_of;
use freshet_telemetry::transcript::{Message, Tag, Transcript};
use freshet_vcl::{Delivery, ObjectView, Outcome, State, status_phrase};

/// Places of Varnish's table of header lines that the first line takes.
const START_LINE_SLOTS: usize = 6;

/// What a policy sees of an object.
pub(super) fn object_view<'a>(
    head: &'a StoredHead,
    object: &Object,
    now: UnixMillis,
    policy: &VclPolicy,
) -> ObjectView<'a> {
    let freshness = object.freshness();
    let received = seconds(freshness.received);
    // Who has waited for it came before it did.
    let early = (received - seconds(now)).max(0.0);
    ObjectView {
        fields: &head.fields,
        status: head.status,
        reason: head.reason.as_deref().unwrap_or_else(|| reason_phrase(head.status)),
        age: freshness.age(now).as_secs_f64() - early,
        ttl: freshness.ttl_ms(now) as f64 / 1000.0 + early,
        grace: freshness.stale_while_revalidate().as_secs_f64(),
        keep: keep_of(object).as_secs_f64(),
        time: received,
        hits: object.hits().saturating_sub(head.hits_before.into()),
        uncacheable: false,
        can_esi: head.form.parts,
        storage: loan_of(object.body()).and_then(|loan| policy.storage_index(loan.share().name())),
    }
}

/// Whether an object is not kept on, for a reason that its origin or the policy gave.
fn is_passed(served: Served<'_>) -> bool {
    served.object.is_some() && served.reason.group() == Group::Storage
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
        reason: reason_phrase(status),
        age: freshness.age(task.now).as_secs_f64(),
        ttl: freshness.ttl_ms(task.now) as f64 / 1000.0,
        grace: freshness.stale_while_revalidate().as_secs_f64(),
        keep: made.keep.as_secs_f64(),
        time: seconds(freshness.received),
        hits: 0,
        uncacheable: made.is_uncacheable,
        can_esi: served.form.parts,
        storage: None,
    }
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
        // Whatever the origin spoke.
        response.version = Version::Http11;
        task.transcript.field(Tag::RespHeader, b"X-Varnish", ids.as_bytes());
        response.fields.append("X-Varnish", ids);
        if served.made.is_some() || !response.fields.contains("age") {
            let age =
                served.made.map_or(0, |made| made.freshness.age(task.now).as_secs()).to_string();
            if response.fields.get("age") != Some(age.as_bytes()) {
                task.transcript.field(Tag::RespHeader, b"Age", age.as_bytes());
                response.fields.set("Age", age);
            }
        }
        let takes_gzip = task.request.fields.get("accept-encoding").is_some_and(accepts_gzip);
        if served.form.gzip && task.site.codes_gzip && !takes_gzip {
            weaken(&mut response.fields, &task.transcript);
        }
        let original = original(policy, response);
        let is_private = matches!(
            task.reason,
            Reason::PassMethod
                | Reason::PassPolicy
                | Reason::PassBehind
                | Reason::Bypass
                | Reason::Pipe
        );
        if !is_private && response.status == 200 {
            match task.site.serves_ranges {
                true if response.fields.contains("accept-ranges") => {}
                true => {
                    task.transcript.field(Tag::RespHeader, b"Accept-Ranges", b"bytes");
                    response.fields.append("Accept-Ranges", "bytes");
                }
                false => {
                    response.fields.remove("accept-ranges");
                }
            }
        }
        let passed = served.made.map(|made| (made, response.fields.clone(), response.status));
        let object = match (&head, served.object) {
            (Some(head), Some(object)) => Some(object_view(head, object, task.now, policy)),
            _ => passed
                .as_ref()
                .map(|(made, fields, status)| passed_view(made, fields, *status, served, task)),
        };
        // A hit was counted when it was found; what is delivered to the first is its zeroth.
        let object = object.map(|object| ObjectView {
            hits: if served.hit { object.hits } else { 0 },
            // What a 304 confirmed and forbade to keep is this request's alone.
            uncacheable: object.uncacheable || is_passed(served),
            ..object
        });
        let streams = served.object.is_none_or(|object| !object.body().is_complete());
        let mut delivery = Delivery {
            time: seconds(task.now),
            is_streaming: streams,
            do_esi: state.knobs.esi,
            has_parts: served.form.parts,
            may_gunzip: served.form.gzip && task.site.codes_gzip && !takes_gzip,
            original,
            ..Delivery::default()
        };
        let with =
            With { resp: Some(response), delivery: Some(&mut delivery), object, ..With::default() };
        let outcome = state.run(policy, State::Deliver, task, with);
        task.transcript.timestamp("Process");
        if outcome == Outcome::Deliver {
            filtered(task, &delivery, response.status);
        }
        delivery.do_esi &= state.knobs.esi;
        task.shaping = shaping(&delivery, response.status);
        response.status %= 1000;
        let node = task.site.node();
        let has_room = !node.manners.limits_response_fields
            || response.fields.len() + START_LINE_SLOTS <= node.h1_limits.fields_max;
        match outcome {
            Outcome::Deliver if !has_room => Deliver::Synth(500, None),
            Outcome::Deliver => {
                close_after_failure(state.failed, task, &mut response.fields);
                Deliver::Deliver
            }
            Outcome::Restart => Deliver::Restart,
            Outcome::Synth(status, reason) => Deliver::Synth(status, reason),
            _ => Deliver::Synth(503, Some(FAILED.into())),
        }
    })
}

/// What a response goes back to where its policy rolls its request back.
fn original(policy: &VclPolicy, response: &ResponseHead) -> Option<Box<ResponseHead>> {
    policy.policy.program().rolls_back.then(|| Box::new(response.clone()))
}

/// Makes the entity tag of what is unpacked on its way a weak one, before the policy looks at it.
fn weaken(fields: &mut Fields, transcript: &Transcript) {
    let Some(before) = fields.get("etag").map(<[u8]>::to_vec) else { return };
    weaken_etag(fields);
    if let Some(now) = fields.get("etag").filter(|now| *now != before) {
        transcript.field(Tag::RespUnset, b"ETag", &before);
        transcript.field(Tag::RespHeader, b"ETag", now);
    }
}

/// Records what a response's body goes through.
fn filtered(task: &ClientTask, delivery: &Delivery, status: u16) {
    if !task.transcript.is_on() {
        return;
    }
    let wants_range = status == 200 && task.request.fields.contains("range");
    // Each name has a space before it, as Varnish writes them.
    let names = match &delivery.filters {
        Some(names) => String::from_utf8_lossy(names).into_owned(),
        None => {
            let has_parts = delivery.do_esi && delivery.has_parts;
            [(has_parts, " esi"), (delivery.may_gunzip, " gunzip"), (wants_range, " range")]
                .iter()
                .filter_map(|(is_on, name)| is_on.then_some(*name))
                .collect()
        }
    };
    task.transcript.note(Tag::Filters, format_args!("{names}"));
}

/// What the policy leaves of the filters on the way to a client.
fn shaping(delivery: &Delivery, status: u16) -> Shaping {
    let Some(filters) = &delivery.filters else {
        // Of what has a status of the policy's own there are no parts.
        let (esi, range) = (delivery.do_esi && delivery.has_parts, status < 1000);
        return Shaping { esi, range, ..Shaping::default() };
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
        name_server(&mut response.head.fields, task.site.node());
        response.head.fields.append("X-Varnish", task.id.to_string());
        if response.head.reason.is_none() {
            response.head.reason = status_phrase(response.head.status % 1000).map(Into::into);
        }
        task.transcript.response(Message::Response, &response.head);
        let mut body = Vec::new();
        let mut delivery = Delivery {
            time: seconds(task.now),
            do_esi: state.knobs.esi,
            original: original(policy, &response.head),
            ..Delivery::default()
        };
        let with = With {
            resp: Some(&mut response.head),
            delivery: Some(&mut delivery),
            body: Some(&mut body),
            ..With::default()
        };
        let outcome = state.run(policy, State::Synth, task, with);
        task.transcript.timestamp("Process");
        if outcome == Outcome::Deliver {
            if !state.failed {
                task.note_body_read("malloc", TRANSIENT);
            }
            task.transcript.note(Tag::Storage, format_args!("malloc Transient"));
            filtered(task, &delivery, response.head.status);
        }
        task.shaping = shaping(&delivery, response.head.status);
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
                task.client.end.set(End::PolicyFailed);
                response.head = ResponseHead::new(500);
                response.body = Bytes::new();
                response.head.fields.set("Connection", "close");
                Deliver::Deliver
            }
        };
        close_after_failure(state.failed, task, &mut response.head.fields);
        next
    })
}

/// Has the connection end with a response to a request whose policy has failed, also where that was
/// before a restart.
fn close_after_failure(failed: bool, task: &ClientTask, fields: &mut Fields) {
    if failed {
        fields.set("Connection", "close");
        task.client.end.set(End::PolicyFailed);
    }
}

/// Says who made a response, as policies written for Varnish know it, where that is whom it is for.
pub(super) fn name_server(fields: &mut Fields, node: &Snapshot) {
    if let Some(name) = node.manners.server {
        fields.append("Server", name);
    }
}
