//! Requests for news of a low-latency playlist, before they are looked up.

use super::lookup::Asked;
use super::{Found, Machine, State};
use crate::media::{Directives, Reload, key_of, without_directives};
use freshet_cache::{Lookup, Object};
use freshet_http::reason::Reason;

impl Machine<'_> {
    /// What follows for a request for news of a playlist without asking its origin: a newer version
    /// that is stored is the answer whatever its own directives were, as the packager would say no
    /// less; and what is too far away is refused. `None` where it is looked up as any other.
    pub(super) fn reload(&mut self) -> Option<State> {
        let site = &self.task.site;
        let target = &self.task.request.target;
        let asked = Directives::of(target);
        // A policy that makes its own keys says itself what is the same.
        if asked.sequence.is_none() || !site.settings.media.read {
            return None;
        }
        if site.semantics.forwards_as_it_is || self.task.hash_always_miss {
            return None;
        }
        let shared = &self.worker.shared;
        let authority = &self.task.request.authority;
        let id = key_of(site, shared.cache.secret(), authority, &without_directives(target));
        let newest = match shared.channels.reload(&id, asked, self.task.now) {
            Reload::Unknown => return None,
            Reload::TooFar => {
                self.worker.stats.media_reloads_refused.increment();
                self.task.reason = Reason::MediaAhead;
                return Some(State::Synth(400, None));
            }
            Reload::Has(newest) => newest,
        };
        let usable = Asked::new(&self.task, shared.cache.fenced_below(), false);
        let classify = &mut |object: &Object| usable.classify(object);
        let lookup = shared.cache.lookup(&newest, &self.task.request, self.task.now, classify);
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
            _hold: None,
        })))
    }
}
