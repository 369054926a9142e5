//! A stored body put under another coding: made once for each coding that clients like best, from
//! what memory has, without asking an origin.

use super::coded_body::{CodedBody, From, Source};
use super::entry;
use super::fill::Flow;
use super::missing;
use super::selecting::Selection;
use freshet_cache::{ForCoding, Key, Object, ObjectSpec, Selecting, StoredHead, Ticket, Use};
use freshet_content::chain::{Chain, Stage};
use freshet_content::heads::{forbids_change, note_other_bytes};
use freshet_http::coding::Coding;
use freshet_http::conditional::weak_eq;
use freshet_site::policy::ClientTask;
use freshet_store::Body;
use freshet_worker::keepers::objective_of;
use freshet_worker::worker::Worker;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::spawn_local;

/// Makes of a stored response in another coding the one this request is to get, and puts it into the
/// index while it is made, in the place of a `stale` one that was made here. `classify` says what a response is
/// good for.
///
/// # Errors
/// The ticket, where there is nothing to make it of.
pub fn recode(
    worker: &Rc<Worker>,
    task: &ClientTask,
    key: &Arc<Key>,
    ticket: Ticket,
    stale: Option<&Object>,
    classify: impl Fn(&Arc<Object>) -> Use,
) -> Result<(), Ticket> {
    let coding = Coding::first(&task.request.fields);
    let known = worker.shared.cache.peek(key).variants;
    let serves = |object: &&Arc<Object>| {
        differs_in_coding_only(object, task)
            && classify(object) == Use::Serve
            && stale.is_none_or(|stale| took_over_from(object, stale))
    };
    let Some(object) = known.iter().find(serves) else { return Err(ticket) };
    let stored = object.head();
    let Some(now) = Coding::of(&stored.fields).filter(|now| *now != coding) else {
        return Err(ticket);
    };
    let head = recoded(&stored, coding);
    let selection = Selection::of(task);
    let Some(kept) = object.variation() else { return Err(ticket) };
    let selecting = selection.fields(&kept.rule);
    let Ok(variation) = entry::variation(&head.fields, head.form, selecting) else {
        return Err(ticket);
    };
    let stats = &worker.stats;
    stats.unpacks(now).increment();
    stats.packs(coding).increment();
    let body = Body::new(worker.shared.cache.arena_of(key), None);
    let bytes_max = task.site.object_bytes_max(&worker.shared.cache);
    let end = object.body().total().unwrap_or(u64::MAX);
    let from = missing::response_body(object.body(), 0..end, None, bytes_max);
    let chain = Chain::new([Stage::unpack(now), Stage::pack(coding)]);
    let coded = CodedBody::new(worker, &task.transcript, From::Stored(from), chain);
    let source = Source::Coded(Box::new(coded));
    let mut flow = Flow::new(worker, source, body.writer(0, None), None).kept_to(bytes_max);
    let spec = ObjectSpec {
        head,
        body,
        variation,
        tags: object.tags().into(),
        objective: objective_of(&task.site.settings, key),
    };
    // Its bytes are no younger than those it is made of.
    let made = ticket.insert_older(spec, object.born_seq());
    let worker = Rc::clone(worker);
    spawn_local(async move {
        let is_whole = match flow.run().await {
            Ok(()) => flow.finish(),
            Err(broken) => {
                flow.fail(broken.into_body_error());
                false
            }
        };
        if !is_whole {
            worker.shared.cache.forget(&made);
        }
    });
    Ok(())
}

/// Whether a response is what the request wants but for its coding, and may be put under another
/// (RFC 9110 §7.7).
fn differs_in_coding_only(object: &Object, task: &ClientTask) -> bool {
    let Some(variation) = object.variation() else { return false };
    let rule = &variation.rule;
    let wanted = Selection::of(task).key(rule);
    let body = object.body();
    rule.differs_in_coding_only(&variation.key, &wanted)
        && !body.is_transit()
        && body.trailers().is_none()
        && object.with_head(|head| {
            head.form.for_coding == ForCoding::First
                && !head.partial
                && head.scheme_bound.is_none_or(|scheme| scheme == task.request.scheme)
                && !forbids_change(&head.fields)
        })
}

/// Whether a response is what an origin has now in the place of a stale one that was put under its coding here.
/// Where it may be the same, to ask whether it is costs less than to pack it again.
fn took_over_from(newer: &Object, stale: &Object) -> bool {
    let (newer, stale) = (newer.head(), stale.head());
    let tags = newer.etag_as_it_came().zip(stale.etag_as_it_came());
    stale.form.recoded
        && newer.freshness.received > stale.freshness.received
        && tags.is_some_and(|(newer, stale)| !weak_eq(newer, stale))
}

fn recoded(stored: &StoredHead, coding: Coding) -> StoredHead {
    let mut head = stored.clone();
    head.fields.set("Content-Encoding", coding.name());
    note_other_bytes(&mut head.fields, &mut head.form);
    head.etag_holds = true;
    head.fields = std::mem::take(&mut head.fields).compact();
    head.form.gzip = coding == Coding::Gzip;
    head
}
