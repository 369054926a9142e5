//! What a request would get now, found out without sending it: for `freshet explain` and for
//! purges by URL. Nothing is counted, fetched or kept.

use crate::machine::limits_of;
use freshet_access::tokens;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Key, Object, Peek, Selecting, Use};
use freshet_config::cache_rules::CacheRule;
use freshet_fetch::selecting::Selection;
use freshet_http::freshness::Reuse;
use freshet_http::message::RequestHead;
use freshet_http::reason::Reason;
use freshet_site::keys::id_of;
use freshet_site::policy::{ClientTask, Recv};
use freshet_site::site::Site;
use freshet_site::sites::{SiteName, SiteRef};
use freshet_site::snapshot::Snapshot;
use freshet_site::usable::Asked;
use freshet_worker::worker::Shared;
use std::rc::Rc;
use std::sync::Arc;

/// What is known beforehand of a request.
pub struct Preview {
    /// The site it is for.
    pub site: SiteName,
    /// Its key, by the policy in force.
    pub key: Key,
    /// What the policy does with it first.
    pub recv: Recv,
    /// What the cache has of the key.
    pub peek: Peek,
    /// The stored variant the request selects.
    pub selected: Option<Arc<Object>>,
    /// How the request would be answered.
    pub reason: Reason,
    /// Whether its site serves nobody for now.
    pub is_under_maintenance: bool,
    /// Whom its site lets in at all, in sentences.
    pub doors: Vec<String>,
    /// What becomes of it for its token, where it needs one.
    pub access: Option<tokens::Preview>,
    /// The rate limits it counts for, in sentences.
    pub limits: Vec<String>,
    /// What is known of the channel it belongs to, where it does.
    pub channel: Option<String>,
    /// The `[[cache_rule]]` it is of, in a sentence.
    pub caching: Option<String>,
}

/// The key of a request, as the policy in force makes it; `None` where no site is for its host.
pub fn key_of(
    shared: &Shared,
    snapshot: &Snapshot,
    request: RequestHead,
    now: UnixMillis,
) -> Option<Key> {
    let site = SiteRef::of(&Rc::new(snapshot.clone()), &request.authority)?;
    let mut request = request;
    let _ = show_token(&site, &mut request, now);
    let mut task = ClientTask::of_nobody(site.clone(), request, now);
    let _ = site.policy.recv(&mut task);
    Some(key(shared, &mut task))
}

/// Looks what a request would get at `now`; `None` where no site is for its host.
pub fn preview(
    shared: &Shared,
    snapshot: &Snapshot,
    request: RequestHead,
    now: UnixMillis,
) -> Option<Preview> {
    let site = SiteRef::of(&Rc::new(snapshot.clone()), &request.authority)?;
    let limits = limits_of(&site, &request);
    let doors = site.doors().explain(&request);
    let mut request = request;
    let access = show_token(&site, &mut request, now);
    let mut task = ClientTask::of_nobody(site.clone(), request, now);
    let recv = site.policy.recv(&mut task);
    let rule = site.settings.rules.caching_for(&task.request.target);
    let caching = rule.map(CacheRule::sentence);
    let key = key(shared, &mut task);
    task.name_coding();
    let peek = shared.cache.peek(&key);
    let selected =
        peek.variants.iter().find(|object| selects(object, &Selection::of(&task))).cloned();
    let reason = match recv {
        Recv::Hash => looked_up(&task, shared.cache.fenced_below(now), &peek, selected.as_deref()),
        Recv::Pass if task.reason == Reason::Miss => Reason::PassPolicy,
        Recv::Pass => task.reason,
        Recv::PassNoted(_) => Reason::PassPolicy,
        Recv::Pipe => Reason::Pipe,
        Recv::Restart => Reason::LocalPolicy,
        Recv::Purge => Reason::Purge,
        Recv::Synth(..) => Reason::Synthetic,
        Recv::Hangup => Reason::ClientBodyTooLarge,
    };
    let RequestHead { authority, target, .. } = &task.request;
    let of_channel = id_of(&site, shared.cache.secret(), authority, target);
    let channel = shared.channels.explain(&of_channel, now);
    Some(Preview {
        is_under_maintenance: site.maintenance.is_on(),
        doors,
        access,
        limits,
        site: site.name.clone(),
        key,
        recv,
        peek,
        selected,
        reason,
        channel,
        caching,
    })
}

/// The target of another request for the host of this one, without the token it may have had: as what is stored is found.
pub fn bare_target(site: &Site, request: &RequestHead, target: &str) -> String {
    tokens::target_without(&site.tokens, request, target)
}

/// What becomes of a request for its token, which it has no more then; `None` where it needs none.
fn show_token(
    site: &SiteRef,
    request: &mut RequestHead,
    now: UnixMillis,
) -> Option<tokens::Preview> {
    if site.tokens.is_empty() || site.policy.leads_elsewhere(site, request) {
        return None;
    }
    tokens::preview((&site.tokens, &site.node().geo), request, now.0 / 1000)
}

fn key(shared: &Shared, task: &mut ClientTask) -> Key {
    let site = task.site.clone();
    site.policy.hash(task, site.name.key(shared.cache.secret())).build()
}

/// Whether a stored variant is for this request (RFC 9111 §4.1).
fn selects(object: &Object, selection: &Selection<'_>) -> bool {
    let bound = object.with_head(|head| head.scheme_bound);
    object.variation().is_none_or(|variation| variation.is_for(selection))
        && bound.is_none_or(|scheme| scheme == selection.scheme())
}

fn looked_up(task: &ClientTask, fence: u64, peek: &Peek, selected: Option<&Object>) -> Reason {
    let selection = Selection::of(task);
    let is_marked = peek.markers.iter().any(|marker| {
        let variation = marker.variation.as_ref();
        task.now < marker.until && variation.is_none_or(|variation| variation.is_for(&selection))
    });
    let Some(object) = selected else {
        return match (is_marked, peek.variants.is_empty()) {
            (true, _) => Reason::HitForMiss,
            (false, true) => Reason::Miss,
            (false, false) => Reason::MissVary,
        };
    };
    let asked = Asked::new(task, fence, false);
    match asked.classify(object) {
        Use::Serve if object.body().writers() > 0 => Reason::HitFilling,
        Use::Serve => Reason::Hit,
        Use::ServeAndRefresh => Reason::HitStale,
        Use::Ignore if asked.is_for_one(object) => Reason::SetCookie,
        Use::Ignore => Reason::MissPartial,
        Use::Validate if object.born_seq() < fence => Reason::MissFenced,
        Use::Validate if object.soft_purged_at().is_some() => Reason::MissPurged,
        Use::Validate if object.reuse(task.now) == Reuse::Fresh => Reason::MissRequest,
        Use::Validate if object.reuse(task.now) == Reuse::MustValidate => Reason::MissMustValidate,
        Use::Validate => Reason::MissExpired,
    }
}
