//! Requests for news of a low-latency playlist, before they are looked up.

use super::{Found, Machine, State};
use freshet_base::clock::UnixMillis;
use freshet_cache::{Lookup, Object};
use freshet_channels::{Directives, Known, Reload};
use freshet_fetch::selecting::Selection;
use freshet_http::fields::Fields;
use freshet_http::reason::Reason;
use freshet_site::keys::id_of;
use freshet_site::policy::ClientTask;
use freshet_site::usable::Asked;
use std::sync::Arc;

impl Machine<'_> {
    /// What follows for a request for news of a playlist without asking its origin: a newer version
    /// that is stored is the answer whatever its own directives were, as the packager would say no
    /// less; and what is too far away is refused. `None` where it is looked up as any other.
    pub(super) fn reload(&mut self) -> Option<State> {
        let site = &self.task.site;
        let target = &self.task.request.target;
        let asked = Directives::of(target);
        let reads = site.settings.media.read && !self.task.hash_always_miss;
        if !asked.are_there() || !reads {
            return None;
        }
        let shared = &self.worker.shared;
        let authority = &self.task.request.authority;
        let id = id_of(site, shared.cache.secret(), authority, target);
        let newest = match shared.channels.reload(&id, asked, self.task.now) {
            Reload::Has(newest) if self.would_be(&newest) => newest.key,
            Reload::TooFar(newest) if self.would_be(&newest) => {
                return Some(self.refuse_reload(Reason::MediaAhead));
            }
            Reload::Wrong(newest) if self.would_be(&newest) => {
                return Some(self.refuse_reload(Reason::ClientMalformed));
            }
            _ => return None,
        };
        let shared = &self.worker.shared;
        let usable = Asked::new(&self.task, shared.cache.usable_from(self.task.now), false);
        let classify = &mut |object: &Object| usable.classify(object);
        let lookup =
            shared.cache.lookup(&newest, &Selection::of(&self.task), self.task.now, classify);
        let Lookup::Hit { object, refresh: None } = lookup else { return None };
        if self.forget_banned(&object) {
            return None;
        }
        self.worker.stats.media_reloads.increment();
        self.note_hit(&object);
        Some(State::Hit(Box::new(Found {
            object,
            reason: Reason::Hit,
            hit: true,
            origin: None,
            stored: false,
            collapsed: false,
            sent: None,
            for_one: Fields::new(),
            refresh: None,
            _hold: None,
        })))
    }

    fn refuse_reload(&mut self, reason: Reason) -> State {
        self.worker.stats.media_reloads_refused.increment();
        self.task.reason = reason;
        State::Synth(400, None)
    }

    /// When the news came that a request waited for, of a playlist.
    pub(super) fn news_at(&self, found: &Found) -> Option<UnixMillis> {
        let ClientTask { site, request, .. } = &self.task;
        let waited = !found.hit && site.settings.media.read;
        let is_news = waited && Directives::of(&request.target).sequence.is_some();
        is_news.then(|| found.object.with_head(|head| head.freshness.received))
    }

    /// Whether this request, with the directives of a version's, would be for that version. A policy
    /// that makes its own keys knows more of a request than its target, and is asked.
    fn would_be(&mut self, newest: &Known) -> bool {
        let site = self.task.site.clone();
        if !site.semantics.makes_own_keys {
            return true;
        }
        let builder = site.name.key(self.worker.shared.cache.secret());
        let own = std::mem::replace(&mut self.task.request.target, newest.target.to_string());
        let key = Arc::clone(&site.policy).hash_again(&mut self.task, builder).build();
        self.task.request.target = own;
        key == *newest.key
    }
}
