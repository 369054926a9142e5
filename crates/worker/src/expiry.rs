//! Objects leave when nothing can be done with them any more, where a policy says when that is.
//!
//! A cache that follows RFC 9111 keeps stale objects until their memory is needed: they can be
//! validated. A VCL policy says how long that is of use (`beresp.keep`), and the memory of an
//! object goes back at the end of its time to live, grace and keep.

use crate::worker::Worker;
use freshet_base::clock::UnixMillis;
use freshet_base::counter::SharedCounter;
use freshet_cache::{Cache, Groups, Object};
use freshet_http::freshness::Freshness;
use freshet_site::upkeep::{Upkeep, keep_of, upkeep_of};
use freshet_telemetry::transcript::{Scribe, Tag};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;

/// Objects looked at without a rest.
const BATCH: usize = 256;
/// The longest sleep, where nothing is watched.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Entries a queue has before those of objects that have left otherwise are looked for.
const ENTRIES_MIN: usize = 1024;

/// Objects by when they are to be looked at.
#[derive(Default)]
pub struct Expiry {
    queue: Mutex<Queue>,
    added: Notify,
    /// Objects that have left.
    pub expired: SharedCounter,
}

#[derive(Default)]
struct Queue {
    due: BinaryHeap<Reverse<Due>>,
    /// Entries at which it is cleared of objects that have left; twice what stayed the last time.
    entries_max: usize,
}

struct Due {
    at: UnixMillis,
    object: Weak<Object>,
}

/// When nothing can be done with an object any more.
fn end_of(object: &Object, keep: Duration) -> UnixMillis {
    end_by(&object.freshness(), object, keep)
}

/// The same by a freshness that may be one the object had before.
fn end_by(freshness: &Freshness, object: &Object, keep: Duration) -> UnixMillis {
    // What was softly purged has no lifetime, and its age in what comes behind that.
    let stale = freshness.stale_while_revalidate().saturating_add(keep);
    let life = freshness.lifetime().saturating_add(stale);
    let end = freshness.received.plus(life.saturating_sub(freshness.initial_age()));
    upkeep_of(object.body()).map_or(end, |upkeep| end.min(upkeep.latest()))
}

/// An object whose lifetimes are about to change, and when it leaves by those it has.
pub(crate) struct Ending {
    object: Arc<Object>,
    at: UnixMillis,
}

impl Ending {
    pub(crate) fn of(object: Arc<Object>) -> Self {
        Self { at: end_of(&object, keep_of(&object)), object }
    }

    /// Of one that was softly purged since.
    fn before_purge(object: Arc<Object>) -> Self {
        let unpurged = object.with_head(|head| head.freshness.clone());
        Self { at: end_by(&unpurged, &object, keep_of(&object)), object }
    }
}

impl Expiry {
    /// Has those leave by what is left to them, as soon as that is over, that were softly purged at this time, of those
    /// that are watched and for which `is_it` is true. O(objects); locks one part of the index at a time.
    pub(crate) fn rearm_purged(
        &self,
        cache: &Groups,
        at: UnixMillis,
        is_it: &dyn Fn(&Object) -> bool,
        scribe: Option<&Arc<dyn Scribe>>,
    ) {
        if self.queue.lock().unwrap_or_else(PoisonError::into_inner).due.is_empty() {
            return;
        }
        let is_purged = |object: &Arc<Object>| {
            object.soft_purged_at() == Some(at) && upkeep_of(object.body()).is_some()
        };
        for part in 0..Cache::PARTS {
            for object in cache.objects_of_part(part) {
                if is_purged(&object) && is_it(&object) {
                    self.rearm(Ending::before_purge(object), None, scribe);
                }
            }
        }
    }

    /// Has an object that was given other lifetimes leave by them, and be kept behind those for as long as was said, or as
    /// before.
    pub(crate) fn rearm(
        &self,
        Ending { object, at }: Ending,
        keep: Option<Duration>,
        scribe: Option<&Arc<dyn Scribe>>,
    ) {
        match (upkeep_of(object.body()), keep) {
            (Some(upkeep), Some(keep)) => upkeep.set_keep(keep),
            // What came from a disk, or from the process before.
            (None, Some(keep)) => {
                let id = object.with_head(|head| head.fetch_id);
                object.body().attach(Arc::new(Upkeep::new(keep, None, None, id)));
            }
            (_, None) => {}
        }
        if let Some(upkeep) = upkeep_of(object.body()) {
            // Others make it stale or leave earlier, and do not have it stay longer.
            upkeep.limit(at);
        }
        let keep = keep_of(&object);
        let end = end_of(&object, keep);
        if let Some(scribe) = scribe {
            let (id, before, now) = (object.id(), seconds(at), seconds(end));
            let text = format!("EXP_Rearm p=0x{id:x} E={before:.6} e={now:.6} f=0x0");
            scribe.note(Tag::ExpKill, &text);
        }
        // Otherwise it is looked at soon enough.
        if end < at && object.body().has_attachment() {
            self.watch(&object, keep);
        }
    }

    /// Has an object leave at its end.
    pub fn watch(&self, object: &Arc<Object>, keep: Duration) {
        let due = Due { at: end_of(object, keep), object: Arc::downgrade(object) };
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = queue.due.peek().is_none_or(|Reverse(first)| due < *first);
        queue.due.push(Reverse(due));
        queue.clear_of_gone();
        drop(queue);
        if is_first {
            self.added.notify_one();
        }
    }

    /// Objects to be looked at by `now`, [`BATCH`] at most, or how long there is none.
    fn due(&self, now: UnixMillis) -> Result<Vec<Arc<Object>>, Duration> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        let queue = &mut queue.due;
        while let Some(Reverse(first)) = queue.peek() {
            if first.at > now || due.len() == BATCH {
                break;
            }
            if let Some(Reverse(first)) = queue.pop() {
                due.extend(first.object.upgrade());
            }
        }
        match queue.peek() {
            _ if !due.is_empty() => Ok(due),
            Some(Reverse(first)) => Err(Duration::from_millis(first.at.0.saturating_sub(now.0))),
            None => Err(SLEEP_MAX),
        }
    }
}

impl Queue {
    /// Drops the entries of objects that have left otherwise, when there may be as many of them as of
    /// others: what is evicted long before its end would stay here until then.
    fn clear_of_gone(&mut self) {
        if self.due.len() < self.entries_max.max(ENTRIES_MIN) {
            return;
        }
        self.due.retain(|Reverse(due)| due.object.strong_count() > 0);
        self.entries_max = 2 * self.due.len();
    }
}

/// Lets objects leave when their time is over, as long as the worker is there.
pub async fn run(worker: Rc<Worker>) {
    let expiry = &worker.shared.expiry;
    loop {
        let added = expiry.added.notified();
        let now = UnixMillis::now();
        match expiry.due(now) {
            Ok(due) => {
                for object in due {
                    look(&worker, &object, now);
                }
                tokio::task::yield_now().await;
            }
            Err(rest) => {
                tokio::select! {
                    () = added => {}
                    () = tokio::time::sleep(rest.clamp(Duration::from_millis(1), SLEEP_MAX)) => {}
                }
            }
        }
    }
}

/// Lets an object go whose end has come, and watches on one that was renewed.
fn look(worker: &Worker, object: &Arc<Object>, now: UnixMillis) {
    if !object.is_indexed() {
        return;
    }
    let shared = &worker.shared;
    let keep = keep_of(object);
    let end = end_of(object, keep);
    if end > now {
        shared.expiry.watch(object, keep);
        return;
    }
    if let Some(scribe) = &shared.scribe {
        let (id, end) = (object.id(), seconds(end));
        scribe.note(Tag::ExpKill, &format!("EXP_expire p=0x{id:x} e={end:.6} f=0x0"));
    }
    shared.cache.forget(object);
    shared.expiry.expired.add(1);
}

#[allow(clippy::cast_precision_loss, reason = "times are far below 2^52 ms")]
fn seconds(at: UnixMillis) -> f64 {
    at.0 as f64 / 1000.0
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl fmt::Debug for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expiry").field("expired", &self.expired.value()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_cache::{Lookup, ObjectSpec, Secret, Settings, StoredHead, Use};
    use freshet_http::fields::Fields;
    use freshet_http::freshness::Lifetimes;
    use freshet_http::message::RequestHead;
    use freshet_store::{Arena, Body};

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn object(cache: &Arc<Cache>, number: usize) -> Arc<Object> {
        let key = cache.key("a", &format!("/{number}"));
        let lookup = cache.lookup(&key, &RequestHead::default(), NOW, &mut |_| Use::Ignore);
        let Lookup::Miss { ticket, .. } = lookup else { panic!("nothing is stored") };
        let mut freshness = Freshness::from_policy(NOW, Duration::from_secs(10));
        freshness.set_stale_while_revalidate(Duration::from_secs(5));
        let head = StoredHead { fetch_id: 7, ..StoredHead::new(200, Fields::new(), freshness) };
        let body = Body::new(cache.arena(), Some(0));
        ticket.insert(ObjectSpec {
            head,
            body,
            variation: None,
            tags: Box::default(),
            objective: None,
        })
    }

    fn cache() -> Arc<Cache> {
        let arena = Arena::new(16 << 20).expect("16 MiB are enough");
        Cache::new(arena, Secret::random(), Settings::default()).expect("there is room")
    }

    #[test]
    fn an_object_is_due_after_its_life_its_grace_and_its_keep() {
        let (cache, expiry) = (cache(), Expiry::default());
        let object = object(&cache, 1);
        let keep = Duration::from_secs(20);
        object.body().attach(Arc::new(Upkeep::new(keep, None, None, 7)));
        assert_eq!(keep_of(&object), keep);
        expiry.watch(&object, keep);
        let early = expiry.due(NOW.plus(Duration::from_secs(34)));
        assert_eq!(early.expect_err("it is kept"), Duration::from_secs(1));
        let due = expiry.due(NOW.plus(Duration::from_secs(35))).expect("its time is over");
        assert_eq!(due[0].id(), object.id());
        assert_eq!(expiry.due(NOW.plus(keep)).expect_err("that was all"), SLEEP_MAX);
    }

    #[test]
    fn an_object_leaves_by_the_lifetimes_it_was_given_last() {
        let (cache, expiry) = (cache(), Expiry::default());
        let object = object(&cache, 1);
        object.body().attach(Arc::new(Upkeep::new(Duration::from_secs(20), None, None, 7)));
        expiry.watch(&object, Duration::from_secs(20));
        let lifetimes = Lifetimes {
            from: NOW.plus(Duration::from_secs(1)),
            ttl: Duration::ZERO,
            grace: Some(Duration::from_secs(2)),
            keep: Some(Duration::from_secs(3)),
        };
        let ending = Ending::of(Arc::clone(&object));
        cache.purge(object.key(), freshet_cache::Purge::Given(lifetimes));
        expiry.rearm(ending, lifetimes.keep, None);
        assert_eq!(keep_of(&object), Duration::from_secs(3));
        assert!(expiry.due(NOW.plus(Duration::from_millis(5999))).is_err(), "it is kept");
        let due = expiry.due(NOW.plus(Duration::from_secs(6))).expect("its time is over");
        assert_eq!(due[0].id(), object.id());
        // A longer life than it had changes nothing, as EXP_Rearm of Varnish moves an end nearer only.
        let later = Lifetimes { ttl: Duration::from_secs(600), ..lifetimes };
        let ending = Ending::of(Arc::clone(&object));
        cache.purge(object.key(), freshet_cache::Purge::Given(later));
        expiry.rearm(ending, later.keep, None);
        let due = expiry.due(NOW.plus(Duration::from_secs(35))).expect("the entry from before");
        assert_eq!(due.len(), 1);
        assert_eq!(end_of(&object, keep_of(&object)), NOW.plus(Duration::from_secs(6)));
    }

    #[test]
    fn objects_that_left_otherwise_are_not_remembered() {
        let (cache, expiry) = (cache(), Expiry::default());
        for number in 0..3 * ENTRIES_MIN {
            let object = object(&cache, number);
            expiry.watch(&object, Duration::ZERO);
            cache.forget(&object);
        }
        let queue = expiry.queue.lock().expect("nobody panicked");
        assert!(queue.due.len() <= ENTRIES_MIN, "{}", queue.due.len());
    }
}
