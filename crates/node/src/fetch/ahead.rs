//! Fetching what a new version of a playlist names before a player asks for it.
//!
//! A player that gets the version asks for the segment next, and finds it coming. Nothing is fetched that
//! would not have been: it is one request to the origin either way, made when somebody has just asked for
//! the playlist, and none when nobody watches any more. What a packager hints at it holds back until it is
//! there, so it is sent on from its first byte.
//!
//! A player may say itself what it asks for next (`nor`, CTA-5004). That is a client's word: it gets what
//! that client could ask for, of the same host, and has a budget of its own.

use super::asked::Asked;
use super::plan::Plan;
use super::start_behind;
use crate::client::Client;
use crate::media::{Belongs, key_of};
use crate::policy::{ClientTask, Recv};
use crate::preview;
use crate::request::use_of;
use crate::sites::SiteRef;
use crate::worker::Worker;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Key, Lookup, Object};
use freshet_http::conditional;
use freshet_http::message::{Method, RequestHead};
use freshet_media::Kind;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// A fetch ahead that is under way, counted as long as it is.
#[derive(Debug)]
pub(super) struct Errand(Rc<Cell<u64>>);

impl Errand {
    /// One more, where fewer than `most` are under way.
    fn begin(under_way: &Rc<Cell<u64>>, most: u64) -> Option<Self> {
        if under_way.get() >= most {
            return None;
        }
        under_way.set(under_way.get() + 1);
        Some(Self(Rc::clone(under_way)))
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Asked {
    /// Fetches what players of this playlist ask for next, of what it names since this version: what
    /// starts a decoder, and the part that is to come, or the newest segment where there are no parts. Where
    /// it is of all qualities of a channel, as an MPD, what starts a decoder is of each; which segments are
    /// asked for, players say ([`super::following`]).
    pub(super) fn fetch_ahead(&self, named: &[(Kind, &Key)], is_of_all: bool) {
        let most = self.plan.site.settings.media.ahead;
        // A policy that makes its own keys cannot be asked for one without a client's request.
        if most == 0 || self.plan.site.semantics.forwards_as_it_is {
            return;
        }
        if is_of_all {
            let starts = named.iter().filter(|(kind, _)| *kind == Kind::Init);
            for target in starts.filter_map(|(_, key)| self.own_target(key)) {
                self.fetch_one(target, most);
            }
            return;
        }
        // Who plays parts has the bytes of a segment before it is listed.
        let has_parts = named.iter().any(|(kind, _)| matches!(kind, Kind::Part | Kind::Hint));
        let newest = if has_parts { Kind::Hint } else { Kind::Segment };
        for kind in [Kind::Init, newest] {
            let newest = named.iter().rev().find(|(of, _)| *of == kind);
            if let Some(target) = newest.and_then(|(_, key)| self.own_target(key)) {
                self.fetch_one(target, most);
            }
        }
    }

    /// The target of a key, where it is of the host that was asked for the playlist: a manifest sends
    /// nobody elsewhere.
    pub(super) fn own_target<'a>(&self, key: &'a Key) -> Option<&'a str> {
        let mut parts = key.text().rsplit(|byte| *byte == 0);
        let (target, authority) = (parts.next()?, parts.next()?);
        let own = crate::policy::key_authority(
            &self.plan.client.authority,
            &self.plan.site.node().own_ports,
        );
        let target = std::str::from_utf8(target).ok()?;
        (authority == own.as_bytes() && target.starts_with('/')).then_some(target)
    }

    fn fetch_one(&self, target: &str, most: u64) {
        self.example().send(&self.worker, target, most);
    }

    /// The request this is for, as an example of those for what belongs to it.
    pub(super) fn example(&self) -> Example {
        let mut request = self.plan.client.clone();
        request.method = Method::Get;
        conditional::strip(&mut request.fields);
        // It was about one file, and not about the next.
        for name in ["Range", "If-Range"] {
            request.fields.remove(name);
        }
        let client = Client {
            address: self.plan.client_address,
            local_address: self.plan.server_address,
            ..Client::default()
        };
        let (site, parent) = (self.plan.site.clone(), self.plan.parent);
        Example { site, request, client: Rc::new(client), parent }
    }
}

/// How requests are made that nobody has made yet.
pub(super) struct Example {
    pub(super) site: SiteRef,
    request: RequestHead,
    client: Rc<Client>,
    parent: u64,
}

impl Example {
    /// A request for this target.
    pub(super) fn task(&self, target: &str) -> ClientTask {
        let request = RequestHead { target: target.to_owned(), ..self.request.clone() };
        let task = preview::task(self.site.clone(), request, UnixMillis::now());
        ClientTask { id: self.parent, client: Rc::clone(&self.client), ..task }
    }

    /// Fetches it, where fewer than `most` are under way; whether that is so.
    pub(super) fn send(&self, worker: &Rc<Worker>, target: &str, most: u64) -> bool {
        send(worker, self.task(target), &worker.errands, most)
    }
}

/// The key of a request nobody has made.
pub(super) fn key(worker: &Worker, task: &mut ClientTask) -> Arc<Key> {
    let site = task.site.clone();
    let builder = site.name.key(worker.shared.cache.secret());
    Arc::new(Arc::clone(&site.policy).hash(task, builder).build())
}

/// Fetches what a player says it asks for next, where its site's policy would look that up. `request`
/// is as the client would send it, and came in `parent`.
pub(crate) fn fetch_next(
    worker: &Rc<Worker>,
    site: &SiteRef,
    client: &Rc<Client>,
    request: RequestHead,
    parent: u64,
) {
    let (authority, target) = (&request.authority, &request.target);
    let named = key_of(site, worker.shared.cache.secret(), authority, target);
    let task = preview::task(site.clone(), request, UnixMillis::now());
    if worker.shared.channels.of(&named, task.now) == Some(Belongs::Key) {
        // Who may have a key is asked when somebody wants it.
        return;
    }
    let mut task = ClientTask { id: parent, client: Rc::clone(client), ..task };
    if Arc::clone(&site.policy).recv(&mut task) == Recv::Hash {
        send(worker, task, &worker.hints, site.settings.media.ahead);
    }
}

/// Starts a fetch for a request nobody has made yet, where fewer than `most` are under way; whether that is
/// so.
fn send(worker: &Rc<Worker>, mut task: ClientTask, under_way: &Rc<Cell<u64>>, most: u64) -> bool {
    let key = key(worker, &mut task);
    let Some(errand) = Errand::begin(under_way, most) else {
        worker.stats.media_ahead_refused.increment();
        return false;
    };
    if let Some(plan) = plan(worker, &mut task, key) {
        worker.stats.media_ahead_fetches.increment();
        start_behind(worker, plan.on(errand));
    }
    true
}

/// A fetch for a request nobody has made yet, where nothing is stored or under way.
fn plan(worker: &Rc<Worker>, task: &mut ClientTask, key: Arc<Key>) -> Option<Plan> {
    let (cache, now) = (&worker.shared.cache, task.now);
    if worker.shared.keepers.may_have(&key) {
        return None;
    }
    let fence = cache.fenced_below();
    let classify = &mut |object: &Object| use_of(task, fence, object);
    let lookup = cache.lookup(&key, &task.request, now, classify);
    match lookup {
        Lookup::Miss { ticket, stale: None, .. } => Some(Plan::ahead(task, key, ticket)),
        _ => None,
    }
}
