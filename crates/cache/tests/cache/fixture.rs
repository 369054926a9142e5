//! A cache with a small arena, and short ways to ask it things.

use freshet_base::clock::UnixMillis;
use freshet_cache::{
    Cache, Key, LeftBy, Lookup, Marker, MissWhy, Object, ObjectSpec, Secret, Settings, StoredHead,
    Ticket, Use, Variation, WaitOutcome, Waiter,
};
use freshet_http::fields::Fields;
use freshet_http::freshness::{Freshness, Reuse};
use freshet_http::message::RequestHead;
use freshet_http::vary::{Vary, VaryRule};
use freshet_store::{Arena, Body, BodyWriter};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

pub(crate) const START: UnixMillis = UnixMillis(1_800_000_000_000);
pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn after(seconds: u64) -> UnixMillis {
    START.plus(Duration::from_secs(seconds))
}

pub(crate) fn cache(limit_bytes: u64) -> Arc<Cache> {
    cache_with(limit_bytes, Settings::default())
}

pub(crate) fn cache_with(limit_bytes: u64, settings: Settings) -> Arc<Cache> {
    let arena = Arena::new(limit_bytes).expect("the limit is large enough");
    Cache::new(arena, Secret::from_bytes([1; 16]), settings).expect("the settings are sound")
}

pub(crate) fn request(fields: &[(&str, &str)]) -> RequestHead {
    RequestHead { fields: fields.iter().copied().collect(), ..RequestHead::default() }
}

/// A head that is fresh for this long from [`START`].
pub(crate) fn head(seconds: u64) -> StoredHead {
    let fields = [("Content-Type", "text/plain")].into_iter().collect::<Fields>().compact();
    StoredHead::new(200, fields, Freshness::from_policy(START, Duration::from_secs(seconds)))
}

/// A head that may be served stale for `grace` more seconds.
pub(crate) fn graceful(seconds: u64, grace: u64) -> StoredHead {
    let mut head = head(seconds);
    head.freshness.set_stale_while_revalidate(Duration::from_secs(grace));
    head
}

pub(crate) fn variation(vary: &str, request: &RequestHead) -> Option<Variation> {
    match VaryRule::from_fields(&[("Vary", vary)].into_iter().collect()) {
        Vary::On(rule) => Some(Variation { key: rule.key(&request.fields), rule: Arc::new(rule) }),
        _ => None,
    }
}

/// A note for that many seconds that responses are not fit to be shared, to whatever request.
pub(crate) fn marker(seconds: u64) -> Marker {
    let left_by = LeftBy { fetch_id: seconds, fresh_until: after(seconds) };
    Marker { variation: None, until: after(seconds), left_by, left: None }
}

pub(crate) fn spec(cache: &Cache, head: StoredHead, bytes: usize) -> ObjectSpec {
    spec_of(head, full_body(cache, bytes))
}

pub(crate) fn spec_of(head: StoredHead, body: Arc<Body>) -> ObjectSpec {
    ObjectSpec { head, body, variation: None, tags: Box::default(), objective: None }
}

/// A complete body of this many bytes; may evict.
pub(crate) fn full_body(cache: &Cache, bytes: usize) -> Arc<Body> {
    let body = Body::new(cache.arena(), Some(bytes as u64));
    let mut writer = body.writer(0, None);
    assert!(write(&mut writer, bytes), "there is room for the body");
    writer.finish().expect("all was written");
    body
}

/// Writes this many bytes; false where there is no memory at present.
pub(crate) fn write(writer: &mut BodyWriter, bytes: usize) -> bool {
    let mut left = bytes;
    while left > 0 {
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(room)) = writer.poll_reserve(&mut cx, left) else { return false };
        let len = room.len().min(left);
        room[..len].fill(b'x');
        writer.commit(len);
        left -= len;
    }
    true
}

/// What a node without a policy would do.
pub(crate) fn by_freshness(object: &Object, now: UnixMillis) -> Use {
    match object.reuse(now) {
        Reuse::Fresh => Use::Serve,
        Reuse::StaleWhileRevalidate => Use::ServeAndRefresh,
        Reuse::Stale | Reuse::MustValidate => Use::Validate,
    }
}

pub(crate) fn look(
    cache: &Arc<Cache>,
    key: &Key,
    request: &RequestHead,
    now: UnixMillis,
) -> Lookup {
    cache.lookup(key, request, now, &mut |object| by_freshness(object, now))
}

/// Looks `/target` up with a plain request.
pub(crate) fn get(cache: &Arc<Cache>, target: &str, now: UnixMillis) -> Lookup {
    look(cache, &key(cache, target), &request(&[]), now)
}

pub(crate) fn key(cache: &Cache, target: &str) -> Key {
    cache.key("origin.test", target)
}

/// Stores a plain response, fresh for this long.
pub(crate) fn store(cache: &Arc<Cache>, target: &str, seconds: u64, bytes: usize) -> Arc<Object> {
    let (ticket, _, _) = miss(get(cache, target, START));
    ticket.insert(spec(cache, head(seconds), bytes))
}

#[track_caller]
pub(crate) fn miss(lookup: Lookup) -> (Ticket, Option<Arc<Object>>, MissWhy) {
    match lookup {
        Lookup::Miss { ticket, stale, why } => (ticket, stale, why),
        other => panic!("a miss, not {other:?}"),
    }
}

#[track_caller]
pub(crate) fn hit(lookup: Lookup) -> (Arc<Object>, Option<Ticket>) {
    match lookup {
        Lookup::Hit { object, refresh } => (object, refresh),
        other => panic!("a hit, not {other:?}"),
    }
}

#[track_caller]
pub(crate) fn waiting(lookup: Lookup) -> Waiter {
    match lookup {
        Lookup::Wait { waiter, .. } => waiter,
        other => panic!("a wait, not {other:?}"),
    }
}

#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

pub(crate) fn poll(waiter: &mut Waiter, wakes: &Arc<Wakes>) -> Poll<WaitOutcome> {
    let waker = Waker::from(Arc::clone(wakes));
    Pin::new(waiter).poll(&mut Context::from_waker(&waker))
}

/// How waiting ended; it must have.
#[track_caller]
pub(crate) fn ended(waiter: &mut Waiter) -> WaitOutcome {
    match poll(waiter, &Arc::default()) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("the waiter still waits"),
    }
}
