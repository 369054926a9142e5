//! What a stored object is good for, for a request that looks it up.

use crate::policy::ClientTask;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Object, Use};
use freshet_http::cache_control::{CacheControl, RequestCacheControl};
use freshet_http::freshness::{Reuse, SetCookie};
use freshet_http::message::Method;
use freshet_http::range::{RangeRequest, RangeSpec, Resolved};
use std::time::Duration;

/// What an object is good for, for a request that looks it up now.
pub fn use_of(task: &ClientTask, fence: u64, object: &Object) -> Use {
    Asked::new(task, fence, false).classify(object)
}

/// What a request wants of stored objects.
pub struct Asked<'a> {
    task: &'a ClientTask,
    now: UnixMillis,
    always_miss: bool,
    /// Whether it wants nothing that would have to be asked for elsewhere.
    pub only_if_cached: bool,
    ttl_max: Option<Duration>,
    grace_max: Option<Duration>,
    /// The client's wishes, where they are obeyed.
    client: Option<RequestCacheControl>,
    /// What was fetched, or last validated, before this number in the order of purges may be something
    /// that was purged elsewhere ([`freshet_cache::Cache::fence`]).
    fence: u64,
    /// Whether the request waited for a fetch of another.
    collapsed: bool,
    /// Whether what sets a cookie is for one client.
    passes_cookies: bool,
}

impl<'a> Asked<'a> {
    /// What the request of `task` wants, behind this fence. `collapsed` is whether it waited for another's fetch.
    #[inline]
    pub fn new(task: &'a ClientTask, fence: u64, collapsed: bool) -> Self {
        let fields = &task.request.fields;
        let has_directives = fields.contains("cache-control") || fields.contains("pragma");
        let client = if has_directives {
            RequestCacheControl::from_fields(&task.request.fields)
        } else {
            RequestCacheControl::default()
        };
        let obey = task.site.settings.cache.client_cache_control;
        Self {
            task,
            now: task.now,
            always_miss: task.hash_always_miss,
            only_if_cached: client.only_if_cached,
            ttl_max: task.ttl_max,
            grace_max: task.grace_max,
            client: Some(client).filter(|_| obey && has_directives),
            fence,
            collapsed,
            passes_cookies: task.site.set_cookie() == SetCookie::Pass,
        }
    }

    /// How far an object is fresh for it.
    #[inline]
    pub fn reuse(&self, object: &Object) -> Reuse {
        match self.reuse_as_stored(object) {
            reuse @ (Reuse::Fresh | Reuse::StaleWhileRevalidate)
                if self.ttl_max.is_some() || self.grace_max.is_some() =>
            {
                self.limited(object, reuse)
            }
            reuse => reuse,
        }
    }

    /// What is left of a use where the policy limits time to live or grace.
    fn limited(&self, object: &Object, reuse: Reuse) -> Reuse {
        object.with_head(|head| {
            let freshness = &head.freshness;
            let age = freshness.age(self.now);
            let lifetime = freshness.lifetime();
            let lifetime = self
                .ttl_max
                .map_or(lifetime, |ttl| lifetime.min(freshness.initial_age().saturating_add(ttl)));
            if reuse == Reuse::Fresh && age < lifetime {
                return reuse;
            }
            let grace = freshness.stale_while_revalidate();
            let grace = self.grace_max.map_or(grace, |most| grace.min(most));
            if age < lifetime.saturating_add(grace) {
                Reuse::StaleWhileRevalidate
            } else {
                Reuse::Stale
            }
        })
    }

    #[inline]
    fn reuse_as_stored(&self, object: &Object) -> Reuse {
        match &self.client {
            Some(asked) if object.soft_purged_at().is_none() => {
                object.with_head(|head| head.freshness.reuse_as_asked(self.now, asked))
            }
            _ => object.reuse(self.now),
        }
    }

    /// What an object is good for.
    #[inline]
    pub fn classify(&self, object: &Object) -> Use {
        if self.always_miss && !self.collapsed {
            return Use::Ignore;
        }
        if object.with_head(|head| head.partial) && !self.can_use_part(object) {
            return Use::Ignore;
        }
        if self.is_for_one(object) {
            return Use::Ignore;
        }
        if self.is_fenced(Some(object)) {
            return Use::Validate;
        }
        // A response that came after this request may answer it whatever it says about later ones
        // (RFC 9111 §4).
        let received = object.with_head(|head| head.freshness.received);
        if self.collapsed && received >= self.now && object.soft_purged_at().is_none() {
            return Use::Serve;
        }
        match self.reuse(object) {
            Reuse::Fresh => Use::Serve,
            // A cache behind this one would keep it as fresh: it serves its own meanwhile.
            Reuse::StaleWhileRevalidate
                if object.soft_purged_at().is_some()
                    && self.task.site.is_peer(&self.task.client, &self.task.request.fields) =>
            {
                Use::Validate
            }
            Reuse::StaleWhileRevalidate => Use::ServeAndRefresh,
            Reuse::Stale | Reuse::MustValidate => Use::Validate,
        }
    }

    /// Whether a stored response is for one client: it was stored while the site gave cookies to all.
    #[inline]
    pub fn is_for_one(&self, object: &Object) -> bool {
        self.passes_cookies && object.with_head(|head| head.fields.contains("set-cookie"))
    }

    /// Whether an object may be something that was purged elsewhere.
    #[inline]
    pub fn is_fenced(&self, object: Option<&Object>) -> bool {
        object.is_some_and(|object| object.born_seq() < self.fence)
    }

    /// Whether what is fetched for this request may join an object that all get: not where the request says who
    /// it is for and the object's origin does not want such responses to be shared (RFC 9111 §3.5).
    fn may_add_to(&self, object: &Object) -> bool {
        let is_authorized = self.task.site.is_for_one(&self.task.request.fields);
        let is_shared = || {
            object.with_head(|head| CacheControl::from_fields(&head.fields).permits_authorized())
        };
        !self.only_if_cached && (!is_authorized || is_shared())
    }

    /// Whether a partial object can answer: with a strong validator what is missing can be fetched
    /// and put together with what is there (RFC 9110 §15.3.7.3). Without one, or where nothing may be
    /// fetched for it, only a range that is all there.
    fn can_use_part(&self, object: &Object) -> bool {
        let body = object.body();
        let wanted = self.task.request.fields.get("range").and_then(RangeRequest::parse);
        let Some(total) = body.total() else {
            // Of what has no known length nothing can be fetched that is surely the same.
            let Some(RangeRequest::One(RangeSpec::FromTo(first, last))) = wanted else {
                return false;
            };
            return self.task.request.method == Method::Get
                && body.will_hold(first..last.saturating_add(1));
        };
        if self.may_add_to(object) && object.with_head(|head| has_strong_validator(head.etag())) {
            return true;
        }
        match wanted.map(|wanted| wanted.resolve(total)) {
            Some(Resolved::One(range)) => body.will_hold(range),
            Some(Resolved::Many(ranges)) => ranges.into_iter().all(|range| body.will_hold(range)),
            Some(Resolved::Unsatisfiable) => true,
            None => body.will_hold(0..total),
        }
    }
}

/// Whether an entity tag is a strong one (RFC 9110 §8.8.3).
fn has_strong_validator(etag: Option<&[u8]>) -> bool {
    etag.is_some_and(|etag| etag.starts_with(b"\""))
}
