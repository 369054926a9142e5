//! What a sibling sent: it lives once, at its home, and is a visitor here, which leaves as soon as it has
//! come whole. Who asks meanwhile has part in it. What is asked for often enough stays: each node of the
//! place then answers for it, and its home is spared.

use super::asked::Asked;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Object, Ticket};
use freshet_origin::director::stable_hash;
use std::sync::Arc;

impl Asked {
    /// Whether what was fetched may stay from the beginning.
    pub(super) fn may_stay(&self, ticket: &Ticket) -> bool {
        // Those who wait look for it after it came, so it has to be there.
        ticket.waiters() > 0 || self.is_asked_for(0) || self.replaces_what_is_used()
    }

    /// Has an object that is a visitor leave, unless enough asked for it while it came. The answers it is
    /// in go on.
    pub(super) fn see_off(&self, object: &Arc<Object>) {
        if !self.is_asked_for(object.hits()) {
            self.worker.shared.cache.forget(object);
        }
    }

    /// Whether the key is asked for as often as whoever answered wants, with `more` requests that joined
    /// this one.
    fn is_asked_for(&self, more: u64) -> bool {
        self.keep_rate().is_none_or(|rate| {
            let hash = stable_hash(self.plan.key.text());
            self.task.site.upstreams.rate_with(hash, more, UnixMillis::now()) >= rate
        })
    }

    /// Whether the object whose place it takes was used as often: uses of what is here count nowhere else.
    fn replaces_what_is_used(&self) -> bool {
        self.plan.stale.as_ref().zip(self.keep_rate()).is_some_and(|(stale, rate)| {
            let received = stale.with_head(|head| head.freshness.received);
            let age_ms = self.task.now.0.saturating_sub(received.0).max(1000);
            stale.hits().saturating_mul(1000) >= rate.saturating_mul(age_ms)
        })
    }

    fn keep_rate(&self) -> Option<u64> {
        self.task.site.upstreams.keep_rate(self.answered.as_ref()?.id)
    }
}
