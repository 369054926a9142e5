//! What another node of this place says was changed by way of it.

use crate::client_exchange::{Facts, Request, Response};
use crate::delivery::ResponseBody;
use freshet_base::clock::UnixMillis;
use freshet_cache::Purge;
use freshet_http::message::ResponseHead;
use freshet_http::reason::Reason;
use freshet_http::{cache_groups, changed};
use freshet_site::keys::key_of;
use freshet_site::sites::SiteRef;
use freshet_worker::worker::Worker;

/// Forgets it, as after an unsafe request of a client of this node, and says so. `None` for all other requests, and
/// for the same words from anybody else. No door of the site is for this: it is no client's request.
pub(super) async fn hear(worker: &Worker, site: &SiteRef, request: &Request) -> Option<Response> {
    let Request { head, client, .. } = request;
    if !changed::is_word(head) || !site.upstreams.has_siblings() {
        return None;
    }
    // It is on nobody's behalf, and what a balancer or a cache in front of this place brings is anybody's.
    if client.forwarder.is_some() || !site.is_asked_by_sibling(client, &head.fields) {
        return None;
    }
    // Who has left the fleet has a certificate that has not ended.
    if client.shown.as_ref().is_some_and(|shown| worker.shared.refused_certificates.has(shown)) {
        return None;
    }
    let shared = &worker.shared;
    let (authority, target) = (&head.authority, &head.target);
    shared.forget_groups(&site.name, authority, &cache_groups::invalidated(&head.fields)).await;
    // Whoever waits for this need not wait until a disk has noted it.
    drop(shared.purge(&key_of(site, shared.cache.secret(), authority, target), Purge::Hard));
    worker.stats.changes_heard.increment();
    let mut head = ResponseHead::new(204);
    super::synth::ensure_date(&mut head, UnixMillis::now());
    let facts = Facts { site: Some(site.clone()), ..Facts::local(Reason::Invalidated) };
    Some(Response::new(head, ResponseBody::Empty, None, facts))
}
