//! A response on a disk becomes an object in memory.

use super::meta::{self, Meta};
use crate::worker::Worker;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Key, ObjectSpec, Ticket};
use freshet_http::freshness::Freshness;
use freshet_http::message::RequestHead;
use freshet_store::Body;
use freshet_store::disk::Stored;
use std::rc::Rc;
use std::time::Duration;

/// How long a client waits for a disk to say what it has, before an origin is asked instead.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// Looks for a response to `request` on the disks and puts it into the index, with its first bytes
/// where `whole`. The caller looks up again then; what is found may be stale.
///
/// # Errors
/// The ticket, where there is none.
pub(crate) async fn promote(
    worker: &Rc<Worker>,
    key: &Key,
    request: &RequestHead,
    whole: bool,
    ticket: Ticket,
) -> Result<(), Ticket> {
    let shared = &worker.shared;
    let Some(disks) = shared.disks.as_ref().filter(|disks| disks.may_have(key.hash())) else {
        return Err(ticket);
    };
    let looked = disks.find(key.hash(), whole, &shared.arena);
    let Ok(found) = tokio::time::timeout(LOOK_TIMEOUT, looked).await else {
        disks.note_timeout(key.hash());
        return Err(ticket);
    };
    let selected = found.into_iter().find_map(|stored| {
        let meta = meta::read(&stored.meta).filter(|meta| *meta.key == *key.text())?;
        selects(&meta, request).then_some((stored, meta))
    });
    let Some((mut stored, mut meta)) = selected else { return Err(ticket) };
    if shared.bans.bans_stored(&meta.head, request, UnixMillis::now()) {
        stored.forget();
        return Err(ticket);
    }
    if !stored.may_have(0..stored.total) {
        stored.forget();
        return Err(ticket);
    }
    if let Some(at) = stored.soft_ms {
        meta.head.freshness = stale_since(meta.head.freshness, UnixMillis(at));
    }
    let body = Body::new(&shared.arena, Some(stored.total));
    put_payload(&body, &mut stored).await;
    let tags = stored.tags.clone();
    body.set_source(stored);
    worker.stats.disk_hits.increment();
    ticket.insert(ObjectSpec { head: meta.head, body, variation: meta.variation, tags });
    Ok(())
}

/// The bytes that came along with the head.
async fn put_payload(body: &std::sync::Arc<Body>, stored: &mut Stored) {
    match stored.payload.take() {
        Some(payload) => {
            let mut writer = body.writer(stored.payload_from, None);
            if writer.adopt(&payload).await.is_ok() {
                let _ = writer.finish();
            }
        }
        None if stored.total == 0 => drop(body.writer(0, None).finish()),
        None => {}
    }
}

fn selects(meta: &Meta, request: &RequestHead) -> bool {
    meta.head.scheme_bound.is_none_or(|scheme| scheme == request.scheme)
        && meta.variation.as_ref().is_none_or(|variation| {
            variation.rule.matches(&variation.key, &request.fields, &mut Vec::new())
        })
}

/// As an object's own freshness after a soft purge: no lifetime, and stale windows that end where
/// they would if the lifetime had ended then.
fn stale_since(mut freshness: Freshness, at: UnixMillis) -> Freshness {
    let lived = freshness.lifetime.min(freshness.age(at));
    freshness.lifetime = Duration::ZERO;
    for window in [&mut freshness.stale_while_revalidate, &mut freshness.stale_if_error] {
        if !window.is_zero() {
            *window = window.saturating_add(lived);
        }
    }
    freshness
}
