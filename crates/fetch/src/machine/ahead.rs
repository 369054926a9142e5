//! Fetching what is asked for next before a player asks for it.
//!
//! A player that gets a version of a playlist asks for the segment it names last, and finds it coming; one
//! that gets a segment of a film asks for the next. Nothing is fetched that
//! would not have been: it is one request to the origin either way, made when somebody has just asked for
//! what leads to it, and none when nobody watches any more. What a packager hints at it holds back until it
//! is there, so it is sent on from its first byte.
//!
//! It is a request as any to its site's policy, which sees it as the client's that it follows from, and can
//! tell that nobody has sent it.
//!
//! A player may say itself what it asks for next (`nor`, CTA-5004). That is a client's word: it gets what
//! that client could ask for, of the same host, and has a budget of its own.

use super::asked::Asked;
use super::plan::Plan;
use super::range::Filler;
use super::selecting::Selection;
use super::start_behind;
use freshet_access::client::Client;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Key, Lookup, Object};
use freshet_channels::{Belongs, Wanted};
use freshet_http::message::{Method, RequestHead};
use freshet_http::range::{RangeRequest, Resolved};
use freshet_http::{conditional, target, unkeyed};
use freshet_media::{Kind, Name};
use freshet_site::keys::{key_authority, key_of};
use freshet_site::policy::{ClientTask, Miss, Recv};
use freshet_site::sites::SiteRef;
use freshet_site::usable::use_of;
use freshet_worker::errands::{Errand, Errands};
use freshet_worker::worker::Worker;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::spawn_local;

/// A request that is foreseen, as its client would send it.
pub struct Next {
    /// The request.
    pub head: RequestHead,
    /// Who foresees it.
    pub by: Foreseen,
}

/// Who foresees a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Foreseen {
    /// A manifest, which names it.
    ByManifest,
    /// A player, which says what it will ask for.
    ByPlayer,
}

/// Whether a part of something is fetched as that part: where a policy has all fetched, or bodies are
/// packed here, it would be all of a file.
pub fn is_fetched_in_part(site: &SiteRef) -> bool {
    site.semantics.asks_for_parts && !site.codes_gzip
}

impl Asked {
    /// Fetches what players of this playlist ask for next, of what it names since this version: what
    /// starts a decoder, and the part that is to come, or the newest segment where there are no parts. Where
    /// it is of all qualities of a channel, as an MPD, what starts a decoder is of each; which segments are
    /// asked for, players say ([`super::following`]). Nothing follows from a playlist that was itself fetched
    /// ahead: nobody watches it, and those that name one another would lead on for good.
    pub(super) fn fetch_ahead(&self, named: &[(&Name, &str)], is_of_all: bool) {
        if named.is_empty() || self.plan.is_ahead() {
            return;
        }
        let Some(example) = self.example() else { return };
        let fetch = |(name, reference): &(&Name, &str)| {
            if let Some(wanted) = example.wanted(reference, name.range.clone()) {
                example.send(&self.worker, &wanted);
            }
        };
        if is_of_all {
            return named.iter().filter(|(name, _)| name.kind == Kind::Init).for_each(fetch);
        }
        // Who plays parts has the bytes of a segment before it is listed.
        let has_parts = named.iter().any(|(name, _)| matches!(name.kind, Kind::Part | Kind::Hint));
        let newest = if has_parts { Kind::Hint } else { Kind::Segment };
        for kind in [Kind::Init, newest] {
            named.iter().rev().find(|(name, _)| name.kind == kind).into_iter().for_each(fetch);
        }
    }

    /// The request this is for, as an example of those for what belongs to it. `None` where its site has
    /// nothing fetched ahead, or where a policy has changed it, and it is not known any more how it came.
    pub(super) fn example(&self) -> Option<Example> {
        if self.plan.site.settings.media.ahead == 0 {
            return None;
        }
        let mut request = match &self.plan.came {
            Some(came) => RequestHead::clone(came),
            None if self.plan.site.semantics.makes_own_keys => return None,
            None => self.plan.client.clone(),
        };
        request.method = Method::Get;
        conditional::strip(&mut request.fields);
        // It was about one file, and not about the next.
        for name in ["Range", "If-Range", "Content-Length", "Expect"] {
            request.fields.remove(name);
        }
        request.fields.retain(|name, _| !unkeyed::is_cmcd(name));
        request.target = target::key_target(&request.target).into_owned();
        let client = Client {
            address: self.plan.client_address,
            local_address: self.plan.server_address,
            ..Client::default()
        };
        let (site, parent) = (self.plan.site.clone(), self.plan.parent);
        let is_as_it_came = self.plan.came.is_some();
        Some(Example { site, request, is_as_it_came, client: Rc::new(client), parent })
    }
}

/// How requests are made that nobody has made yet.
pub(super) struct Example {
    pub(super) site: SiteRef,
    pub(super) request: RequestHead,
    /// Whether its policy has not seen it.
    is_as_it_came: bool,
    client: Rc<Client>,
    parent: u64,
}

impl Example {
    /// What a reference means that is in the answer to it, or these bytes of that; `None` where it is of
    /// another host: a manifest sends nobody elsewhere.
    pub(super) fn wanted(&self, reference: &str, range: Option<Range<u64>>) -> Option<Wanted> {
        let RequestHead { authority, target, .. } = &self.request;
        let (other, target) = target::resolve(authority, target, reference)?;
        let is_own = key_authority(&other) == key_authority(authority);
        // Of what has no end yet it is not known how much is asked for.
        let is_part = range.as_ref().is_some_and(|range| range.end < u64::MAX);
        let fits = range.is_none() || (is_part && is_fetched_in_part(&self.site));
        let target = target::key_target(&target).into_owned();
        (is_own && fits).then_some(Wanted { target, range })
    }

    /// A request for this; `None` where its policy does not look it up.
    fn task(&self, wanted: &Wanted) -> Option<ClientTask> {
        let mut request = RequestHead { target: wanted.target.clone(), ..self.request.clone() };
        if let Some(range) = &wanted.range {
            let range = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
            request.fields.append("Range", range);
        }
        let mut task = unasked(&self.site, request, &self.client, self.parent);
        let policy = Arc::clone(&self.site.policy);
        (!self.is_as_it_came || policy.recv(&mut task) == Recv::Hash).then_some(task)
    }

    /// The key of a request for this target.
    pub(super) fn key(&self, worker: &Worker, target: &str) -> Option<Arc<Key>> {
        let wanted = Wanted { target: target.to_owned(), range: None };
        Some(key(worker, &mut self.task(&wanted)?))
    }

    /// Fetches it, where the site's budget has room; whether that is so.
    pub(super) fn send(&self, worker: &Rc<Worker>, wanted: &Wanted) -> bool {
        self.task(wanted).is_none_or(|task| send(worker, task, &worker.errands))
    }
}

/// A request nobody has made yet, which follows from that of `client` in `parent`.
fn unasked(site: &SiteRef, request: RequestHead, client: &Rc<Client>, parent: u64) -> ClientTask {
    let task = ClientTask::of_nobody(site.clone(), request, UnixMillis::now());
    ClientTask { id: parent, client: Rc::clone(client), is_ahead: true, ..task }
}

fn key(worker: &Worker, task: &mut ClientTask) -> Arc<Key> {
    let site = task.site.clone();
    let builder = site.name.key(worker.shared.cache.secret());
    Arc::new(Arc::clone(&site.policy).hash(task, builder).build())
}

/// Fetches what a request in `parent` is followed by, where its site's policy would look that up.
pub fn fetch_next(
    worker: &Rc<Worker>,
    site: &SiteRef,
    client: &Rc<Client>,
    Next { head, by }: Next,
    parent: u64,
) {
    let (authority, target) = (&head.authority, &head.target);
    let named = key_of(site, worker.shared.cache.secret(), authority, target);
    let mut task = unasked(site, head, client, parent);
    if worker.shared.channels.of(&named, task.now) == Some(Belongs::Key) {
        // Who may have a key is asked when somebody wants it.
        return;
    }
    let under_way = match by {
        Foreseen::ByManifest => &worker.errands,
        Foreseen::ByPlayer => &worker.hints,
    };
    if Arc::clone(&site.policy).recv(&mut task) == Recv::Hash {
        send(worker, task, under_way);
    }
}

/// Starts a fetch for a request nobody has made yet, where fewer are under way than its site allows; whether
/// that is so.
fn send(worker: &Rc<Worker>, mut task: ClientTask, under_way: &Rc<Errands>) -> bool {
    let key = key(worker, &mut task);
    let Some(errand) = Errand::begin(under_way, task.site.settings.media.ahead) else {
        worker.stats.media_ahead_refused.increment();
        return false;
    };
    if begin(worker, &mut task, key, errand) {
        worker.stats.media_ahead_fetches.increment();
    }
    true
}

/// Begins a fetch for a request nobody has made yet, where what it is for is not stored or under way;
/// whether it did.
fn begin(worker: &Rc<Worker>, task: &mut ClientTask, key: Arc<Key>, errand: Errand) -> bool {
    let (cache, now) = (&worker.shared.cache, task.now);
    if worker.shared.keepers.may_have(&key) {
        return false;
    }
    let fence = cache.fenced_below(now);
    let classify = &mut |object: &Object| use_of(task, fence, object);
    let lookup = cache.lookup_ahead(&key, &Selection::of(task), now, classify);
    match lookup {
        Lookup::Miss { ticket, stale: None, .. } => {
            let site = task.site.clone();
            if Arc::clone(&site.policy).miss(task) != Miss::Fetch {
                return false;
            }
            start_behind(worker, Plan::ahead(task, key, ticket).on(errand));
            true
        }
        Lookup::Hit { object, .. } => fill(worker, task, &key, &object, errand),
        _ => false,
    }
}

/// Fetches the part of a stored file that a request is for, where it is not there; whether it did.
fn fill(
    worker: &Rc<Worker>,
    task: &mut ClientTask,
    key: &Arc<Key>,
    object: &Arc<Object>,
    errand: Errand,
) -> bool {
    let body = object.body();
    let range = task.request.fields.get("range").and_then(RangeRequest::parse);
    let range = range.zip(body.total()).map(|(range, total)| range.resolve(total));
    let Some(Resolved::One(range)) = range else { return false };
    // Where its beginning is there, a player has something to go on with.
    let is_begun = body.will_hold(range.start..range.start.saturating_add(1));
    if is_begun || body.source().is_some() {
        return false;
    }
    let hole = range.start..range.end.min(body.gap(range.start).end);
    if !errand.holds(hole.end.saturating_sub(hole.start), task.site.settings.media.ahead_bytes) {
        worker.stats.media_ahead_refused.increment();
        return false;
    }
    let Some(filler) = Filler::of_client(worker, object, task, key) else { return false };
    // Registered before anything is waited for, so that readers wait for it.
    let writer = body.writer(hole.start, Some(hole.end));
    spawn_local(async move {
        filler.bring(writer, hole).await;
        drop(errand);
    });
    true
}
