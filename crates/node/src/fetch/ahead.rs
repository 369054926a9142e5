//! Fetching what a new version of a playlist names before a player asks for it.
//!
//! A player that gets the version asks for the segment next, and finds it coming. Nothing is fetched that
//! would not have been: it is one request to the origin either way, made when somebody has just asked for
//! the playlist, and none when nobody watches any more. What a packager hints at it holds back until it is
//! there, so it is sent on from its first byte.

use super::asked::Asked;
use super::plan::Plan;
use super::start_behind;
use crate::client::Client;
use crate::policy::ClientTask;
use crate::preview;
use crate::request::use_of;
use crate::worker::Worker;
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
    /// Fetches what players of this playlist ask for next, of what it names since this version: the
    /// newest segment, what starts a decoder, and the part that is to come.
    pub(super) fn fetch_ahead(&self, named: &[(Kind, &Key)]) {
        let most = self.plan.site.settings.media.ahead;
        // A policy that makes its own keys cannot be asked for one without a client's request.
        if most == 0 || self.plan.site.semantics.forwards_as_it_is {
            return;
        }
        for kind in [Kind::Init, Kind::Hint, Kind::Segment] {
            let newest = named.iter().rev().find(|(of, _)| *of == kind);
            if let Some(target) = newest.and_then(|(_, key)| self.own_target(key)) {
                self.fetch_one(target, most);
            }
        }
    }

    /// The target of a key, where it is of the host that was asked for the playlist: a manifest sends
    /// nobody elsewhere.
    fn own_target<'a>(&self, key: &'a Key) -> Option<&'a str> {
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
        let (worker, site) = (&self.worker, &self.plan.site);
        let mut request = RequestHead { target: target.to_owned(), ..self.plan.client.clone() };
        request.method = Method::Get;
        conditional::strip(&mut request.fields);
        let client = Client {
            address: self.plan.client_address,
            local_address: self.plan.server_address,
            ..Client::default()
        };
        let task = preview::task(site.clone(), request, self.task.now);
        let mut task = ClientTask { id: self.plan.parent, client: Rc::new(client), ..task };
        let builder = site.name.key(worker.shared.cache.secret());
        let key = Arc::new(Arc::clone(&site.policy).hash(&mut task, builder).build());
        let Some(errand) = Errand::begin(&worker.errands, most) else {
            worker.stats.media_ahead_refused.increment();
            return;
        };
        if let Some(plan) = plan(worker, &mut task, key) {
            worker.stats.media_ahead_fetches.increment();
            start_behind(worker, plan.on(errand));
        }
    }
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
