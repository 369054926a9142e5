//! Look-up: what a request finds, and whose turn it is to fetch.

use crate::cache::Cache;
use crate::counters::MissWhy;
use crate::key::Key;
use crate::left::Left;
use crate::marker::LeftBy;
use crate::object::Object;
use crate::selector::{RequestKeys, Selecting, Selector};
use crate::shard::{Resource, Shard};
use crate::ticket::Ticket;
use crate::waiting::{Pending, Waiter};
use freshet_base::clock::UnixMillis;
use freshet_store::prefetch;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What the caller would do with an object that matches its request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    /// Answer from it.
    Serve,
    /// Answer from it and have it refreshed behind the client's back.
    ServeAndRefresh,
    /// Have it validated first.
    Validate,
    /// Not use it; older variants that match are tried.
    Ignore,
}

/// What a look-up came to.
#[derive(Debug)]
pub enum Lookup {
    /// Answer from this object. It may still be growing, and may be partial.
    Hit {
        /// The object.
        object: Arc<Object>,
        /// Set for exactly one of all that find a stale object they want refreshed: this request
        /// has to have it fetched or validated.
        refresh: Option<Ticket>,
    },
    /// Fetch.
    Miss {
        /// The turn to do so. Exclusive, except where another fetch is under way that the caller does not wait for,
        /// or that found it ignoring all there was.
        ticket: Ticket,
        /// An object to validate, or to answer from if the fetch fails.
        stale: Option<Arc<Object>>,
        /// Why nothing could be used.
        why: MissWhy,
    },
    /// Another request fetches what this one wants.
    Wait {
        /// Ends with the fetch.
        waiter: Waiter,
        /// As with [`Lookup::Miss`].
        stale: Option<Arc<Object>>,
    },
    /// Fetch without waiting for others: the last response to such a request was not fit to be
    /// shared.
    HitForMiss {
        /// Which fetch found that.
        left_by: LeftBy,
        /// What is remembered of its response: where something has ended that, the caller says so
        /// ([`Cache::forget_left`]) and looks up again.
        left: Option<Arc<Left>>,
        /// Not exclusive; if the response turns out fit to be stored it may be inserted.
        ticket: Ticket,
        /// As with [`Lookup::Miss`].
        stale: Option<Arc<Object>>,
    },
    /// As many as may wait for this fetch already. Answer 503 with `Retry-After`: fetching as
    /// well would put the crowd on the origin.
    Crowded {
        /// As with [`Lookup::Miss`].
        stale: Option<Arc<Object>>,
    },
}

/// Who asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asker {
    /// A client does.
    Client,
    /// A client does that waits for nobody's fetch: beside one it gets a turn of its own.
    Hurried,
    /// Nobody yet; somebody will.
    Foresight,
}

impl Cache {
    /// Looks `key` up for `request` at `now`. `classify` is asked what to do with each stored
    /// variant the request selects, newest first (RFC 9111 §4.1), until it says other than
    /// [`Use::Ignore`].
    ///
    /// Holds the lock of the key's shard; `classify` runs under it, so it decides from its
    /// argument and calls nothing of this cache. A hit allocates only where the resource varies.
    ///
    /// Whoever waited looks up again. What it then finds may have been fetched to be used once, as
    /// with `no-cache`: requests that waited for that fetch may use its response all the same (RFC
    /// 9111 §4), and a `classify` that does not let them makes them fetch one after the other.
    pub fn lookup(
        self: &Arc<Self>,
        key: &Key,
        request: &dyn Selecting,
        now: UnixMillis,
        classify: &mut dyn FnMut(&Object) -> Use,
    ) -> Lookup {
        self.lookup_with(key, RequestKeys::new(request), Asker::Client, now, classify)
    }

    /// As [`Cache::lookup`], for a request that is foreseen: to find what is stored is no use of it, and what the
    /// ticket brings has its first use still to come. Where that were counted as a second one, all that is
    /// fetched ahead would be taken for popular.
    pub fn lookup_ahead(
        self: &Arc<Self>,
        key: &Key,
        request: &dyn Selecting,
        now: UnixMillis,
        classify: &mut dyn FnMut(&Object) -> Use,
    ) -> Lookup {
        self.lookup_with(key, RequestKeys::new(request), Asker::Foresight, now, classify)
    }

    /// As [`Cache::lookup`], with every variant of the resource selected, the newest first, whatever
    /// the fields are that `Vary` names: for requests that are to be answered with anything there is,
    /// as those of crawlers.
    pub fn lookup_any_variant(
        self: &Arc<Self>,
        key: &Key,
        request: &dyn Selecting,
        now: UnixMillis,
        classify: &mut dyn FnMut(&Object) -> Use,
    ) -> Lookup {
        self.lookup_with(key, RequestKeys::taking_any(request), Asker::Client, now, classify)
    }

    pub(crate) fn lookup_with(
        self: &Arc<Self>,
        key: &Key,
        mut keys: RequestKeys<'_>,
        asker: Asker,
        now: UnixMillis,
        classify: &mut dyn FnMut(&Object) -> Use,
    ) -> Lookup {
        let mut shard = self.shard(key);
        let (found, why) = match shard.find(key.hash()) {
            Some(resource) => select(resource, &mut keys, classify),
            None => (None, MissWhy::UriMiss),
        };
        let found = match (found, asker) {
            (Some((object, Use::Serve | Use::ServeAndRefresh)), Asker::Foresight) => {
                return Lookup::Hit { object, refresh: None };
            }
            (found, _) => found,
        };
        shard.counters.lookups += 1;
        let stale = match found {
            Some((object, Use::Serve)) => {
                object.touch();
                shard.counters.hits += 1;
                self.note(shard, key.hash(), &object, Some(now));
                object.prefetch_response();
                return Lookup::Hit { object, refresh: None };
            }
            Some((object, Use::ServeAndRefresh)) => {
                object.touch();
                shard.counters.hits_stale += 1;
                let refresh = pending(&shard, key, &mut keys).is_none().then(|| {
                    shard.counters.refreshes += 1;
                    self.begin(&mut shard, key, object.selector().clone(), now)
                });
                self.note(shard, key.hash(), &object, Some(now));
                return Lookup::Hit { object, refresh };
            }
            Some((object, _)) => Some(object),
            None => None,
        };
        let unsettled = shard.unsettled(key.hash()).filter(|one| !one.markers.is_empty());
        if let Some(unsettled) = unsettled {
            if let Some((left_by, left)) = unsettled.markers.find(&mut keys, now) {
                shard.counters.hits_for_miss += 1;
                let ticket = self.begin_shared(key, now);
                return Lookup::HitForMiss { left_by, left, ticket, stale };
            }
            shard.unmark(key.hash(), |markers| markers.end_over(now));
        }
        match pending(&shard, key, &mut keys) {
            Some(pending) if why != MissWhy::Request && asker != Asker::Hurried => {
                let Some(waiter) = pending.wait(self.settings.waiters_max) else {
                    shard.counters.waits_refused += 1;
                    return Lookup::Crowded { stale };
                };
                shard.counters.waits += 1;
                Lookup::Wait { waiter, stale }
            }
            pending => {
                shard.counters.count_miss(why);
                let mut ticket = match pending {
                    Some(_) => self.begin_shared(key, now),
                    None => {
                        let selector = expected(&shard, key, stale.as_deref(), &mut keys);
                        self.begin(&mut shard, key, selector, now)
                    }
                };
                ticket.is_ahead = asker == Asker::Foresight;
                Lookup::Miss { ticket, stale, why }
            }
        }
    }

    /// Begins an exclusive fetch for the requests `selector` selects.
    fn begin(
        self: &Arc<Self>,
        shard: &mut Shard,
        key: &Key,
        selector: Selector,
        now: UnixMillis,
    ) -> Ticket {
        let pending = Arc::new(Pending::new(selector));
        shard.begin(key.hash(), Arc::clone(&pending));
        // Read under the shard's lock: a purge of this key either raised it before or finds the
        // fetch in the shard.
        Ticket::new(Arc::clone(self), key.clone(), Some(pending), self.place_of_fetch(now))
    }

    /// Begins a fetch nobody waits for.
    fn begin_shared(self: &Arc<Self>, key: &Key, now: UnixMillis) -> Ticket {
        Ticket::new(Arc::clone(self), key.clone(), None, self.place_of_fetch(now))
    }
}

/// A fetch under way whose response the request may wait for.
fn pending(shard: &Shard, key: &Key, keys: &mut RequestKeys<'_>) -> Option<Arc<Pending>> {
    shard.unsettled(key.hash())?.fetches.find(keys).cloned()
}

/// The first variant the caller has a use for, and why it is no hit if it is none.
pub(crate) fn select(
    resource: &Resource,
    keys: &mut RequestKeys<'_>,
    classify: &mut dyn FnMut(&Object) -> Use,
) -> (Option<(Arc<Object>, Use)>, MissWhy) {
    if let Some(object) = resource.variants.newest() {
        prefetch(&**object);
    }
    let mut why = MissWhy::VaryMiss;
    let found = resource.variants.visit_selected(keys, |object| {
        object.prefetch();
        // A body in transit has dropped what its readers left behind; it is about to leave.
        if object.body().is_transit() {
            return ControlFlow::Continue(());
        }
        match classify(object) {
            Use::Ignore => {
                why = MissWhy::Request;
                ControlFlow::Continue(())
            }
            usage => ControlFlow::Break((Arc::clone(object), usage)),
        }
    });
    match found {
        ControlFlow::Break(found) => (Some(found), MissWhy::Stale),
        ControlFlow::Continue(()) => (None, why),
    }
}

/// Which other requests are likely to want the response to this one: those that select the object
/// it is to replace, or else those that are the same to the rule of the newest variant, or of what was
/// not stored last.
fn expected(
    shard: &Shard,
    key: &Key,
    stale: Option<&Object>,
    keys: &mut RequestKeys<'_>,
) -> Selector {
    if let Some(stale) = stale {
        return stale.selector().clone();
    }
    let newest = shard.find(key.hash()).and_then(|resource| resource.variants.newest());
    match newest {
        Some(newest) => newest.selector().shape().selector_for(keys),
        None => {
            let marked = shard.unsettled(key.hash());
            marked.and_then(|one| one.markers.expected(keys)).unwrap_or_default()
        }
    }
}
