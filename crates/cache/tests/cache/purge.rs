use crate::fixture::*;
use freshet_cache::{
    Cache, Lookup, MissWhy, ObjectSpec, Purge, StoredHead, Ticket, WaitOutcome, tag,
};
use freshet_http::freshness::{Lifetimes, Reuse};
use std::sync::Arc;
use std::time::Duration;

fn tagged(cache: &Cache, head: StoredHead, tags: &[&str]) -> ObjectSpec {
    let tags = tags.iter().map(|name| tag(name.as_bytes())).collect();
    ObjectSpec { tags, ..spec(cache, head, 10) }
}

fn shared_ticket(lookup: Lookup) -> Ticket {
    match lookup {
        Lookup::HitForMiss { ticket, .. } => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_purged_key_is_a_miss_with_all_its_variants() {
    let cache = cache(16 * MIB);
    let key = key(&cache, "/a");
    for language in ["de", "en"] {
        let request = request(&[("Accept-Language", language)]);
        let (ticket, _, _) = miss(look(&cache, &key, &request, START));
        let variation = variation("Accept-Language", &request);
        ticket.insert(ObjectSpec { variation, ..spec(&cache, head(10), 10) });
    }
    store(&cache, "/b", 10, 10);
    assert_eq!(cache.purge(&key, Purge::Hard), 2);
    assert_eq!(cache.purge(&key, Purge::Hard), 0);
    assert_eq!(miss(get(&cache, "/a", START)).2, MissWhy::UriMiss);
    hit(get(&cache, "/b", START));
    let stats = cache.stats();
    assert_eq!((stats.objects, stats.counters.purged), (1, 2));
}

#[test]
fn what_was_being_fetched_during_a_purge_is_not_kept() {
    let cache = cache(16 * MIB);
    let key = key(&cache, "/a");
    let (before, _, _) = miss(get(&cache, "/a", START));
    let mut waiter = waiting(get(&cache, "/a", START));
    assert_eq!(cache.invalidate(&key), 0);
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    let (later, _, _) = miss(get(&cache, "/a", START));
    assert!(later.is_exclusive(), "nobody waits for the old fetch any more");

    let old = before.insert(spec(&cache, head(10), 10));
    assert!(!old.is_indexed());
    assert_eq!(old.body().held_bytes(), 10, "its own request is still answered from it");
    waiting(get(&cache, "/a", START));
    let new = later.insert(spec(&cache, head(10), 10));
    assert!(Arc::ptr_eq(&hit(get(&cache, "/a", START)).0, &new));
    assert_eq!(cache.stats().counters.refused_purged, 1);
}

#[test]
fn fetches_side_by_side_are_subject_to_purges_too() {
    let cache = cache(16 * MIB);
    miss(get(&cache, "/a", START)).0.hit_for_miss(marker(100));
    let before = shared_ticket(get(&cache, "/a", START));
    cache.purge(&key(&cache, "/a"), Purge::Soft(START));
    let later = shared_ticket(get(&cache, "/a", START));
    assert!(!before.insert(spec(&cache, head(10), 10)).is_indexed());
    assert!(later.insert(spec(&cache, head(10), 10)).is_indexed());
}

#[test]
fn what_says_that_nothing_is_kept_goes_with_a_purge() {
    let cache = cache(16 * MIB);
    miss(get(&cache, "/a", START)).0.hit_for_miss(marker(100));
    cache.purge(&key(&cache, "/a"), Purge::Hard);
    assert!(miss(get(&cache, "/a", START)).0.is_exclusive());
}

#[test]
fn a_softly_purged_object_is_stale_from_then_on() {
    let cache = cache(16 * MIB);
    let key = key(&cache, "/a");
    miss(get(&cache, "/a", START)).0.insert(spec(&cache, graceful(1000, 20), 10));
    assert_eq!(cache.purge(&key, Purge::Soft(after(100))), 1);
    // Also for a worker whose clock is behind.
    let (object, refresh) = hit(get(&cache, "/a", after(99)));
    assert_eq!(object.reuse(after(99)), Reuse::StaleWhileRevalidate);
    drop(refresh.expect("it is to be refreshed"));
    let (_, refresh) = hit(get(&cache, "/a", after(119)));
    let refresh = refresh.expect("it is still to be refreshed");
    assert_eq!(object.reuse(after(120)), Reuse::Stale);
    // A second purge does not prolong it.
    cache.purge(&key, Purge::Soft(after(115)));
    assert_eq!(object.reuse(after(120)), Reuse::Stale);

    // The refresh began before the second purge: it does not make the object fresh.
    let mut renewed = graceful(1000, 20);
    renewed.freshness.received = after(119);
    assert!(refresh.refresh(&object, renewed.clone()));
    assert_ne!(object.reuse(after(120)), Reuse::Fresh);
    let refresh = match get(&cache, "/a", after(120)) {
        Lookup::Hit { refresh, .. } => refresh.expect("a new turn"),
        Lookup::Miss { ticket, .. } => ticket,
        other => panic!("{other:?}"),
    };
    assert!(refresh.refresh(&object, renewed));
    assert_eq!(object.reuse(after(120)), Reuse::Fresh);
    assert_eq!(object.soft_purged_at(), None);
}

#[test]
fn an_object_that_is_given_other_lifetimes_has_them_until_it_is_validated() {
    let cache = cache(16 * MIB);
    let object = miss(get(&cache, "/a", START)).0.insert(spec(&cache, graceful(10, 20), 10));
    let key = object.key();
    let seconds = Duration::from_secs;
    let longer = Lifetimes { from: after(5), ttl: seconds(100), grace: None, keep: None };
    assert_eq!(cache.purge(key, Purge::Given(longer)), 1);
    assert_eq!(object.reuse(after(104)), Reuse::Fresh);
    assert_eq!(object.reuse(after(124)), Reuse::StaleWhileRevalidate);
    assert_eq!(object.soft_purged_at(), None);
    let grace = Some(seconds(3));
    let ended = Lifetimes { from: after(50), ttl: Duration::ZERO, grace, keep: None };
    assert_eq!(cache.purge(key, Purge::Given(ended)), 1);
    assert_eq!(object.reuse(after(50)), Reuse::StaleWhileRevalidate);
    assert_eq!(object.reuse(after(53)), Reuse::Stale);
    // The last word counts.
    assert_eq!(cache.purge(key, Purge::Given(longer)), 1);
    assert_eq!(object.reuse(after(60)), Reuse::Fresh);
    assert_eq!(cache.purge(key, Purge::Given(ended)), 1);
    let (_, refresh) = hit(get(&cache, "/a", after(51)));
    let mut renewed = graceful(10, 20);
    renewed.freshness.received = after(51);
    assert!(refresh.expect("it is to be refreshed").refresh(&object, renewed));
    assert_eq!(object.reuse(after(60)), Reuse::Fresh);
}

#[test]
fn a_soft_purge_does_not_let_through_what_must_be_validated() {
    let cache = cache(16 * MIB);
    let mut strict = head(1000);
    strict.freshness.must_revalidate = true;
    let object = miss(get(&cache, "/a", START)).0.insert(spec(&cache, strict, 10));
    cache.purge(object.key(), Purge::Soft(after(1)));
    assert_eq!(object.reuse(after(2)), Reuse::MustValidate);
    assert!(!object.freshness().may_serve_on_error(after(2)));
}

#[test]
fn a_soft_purge_of_what_was_stale_already_changes_nothing() {
    let cache = cache(16 * MIB);
    let object = miss(get(&cache, "/a", START)).0.insert(spec(&cache, graceful(10, 20), 10));
    cache.purge(object.key(), Purge::Soft(after(25)));
    assert_eq!(object.reuse(after(29)), Reuse::StaleWhileRevalidate);
    assert_eq!(object.reuse(START.plus(Duration::from_secs(30))), Reuse::Stale);
}

#[test]
fn a_tag_takes_its_objects_and_no_others() {
    let cache = cache(16 * MIB);
    for (target, tags) in [("/a", &["x", "y"][..]), ("/b", &["y", "y"]), ("/c", &["z"])] {
        miss(get(&cache, target, START)).0.insert(tagged(&cache, head(10), tags));
    }
    assert_eq!(cache.purge_tag(tag(b"y"), Purge::Hard), 2);
    assert_eq!(cache.purge_tag(tag(b"y"), Purge::Hard), 0);
    hit(get(&cache, "/c", START));
    assert_eq!(cache.purge_tag(tag(b"z"), Purge::Soft(START)), 1);
    assert_eq!(miss(get(&cache, "/c", START)).2, MissWhy::Stale);
    assert_eq!(cache.stats().objects, 1);
}

#[test]
fn what_turns_out_to_have_a_tag_purged_meanwhile_is_not_kept() {
    let cache = cache(16 * MIB);
    let (a, _, _) = miss(get(&cache, "/a", START));
    let (b, _, _) = miss(get(&cache, "/b", START));
    let mut waiter = waiting(get(&cache, "/a", START));
    assert_eq!(cache.purge_tag(tag(b"x"), Purge::Hard), 0);
    assert!(poll(&mut waiter, &Arc::default()).is_pending(), "its tags are not known yet");
    assert!(!a.insert(tagged(&cache, head(10), &["w", "x"])).is_indexed());
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    assert!(b.insert(tagged(&cache, head(10), &["w"])).is_indexed());
    let (later, _, _) = miss(get(&cache, "/a", START));
    assert!(later.insert(tagged(&cache, head(10), &["x"])).is_indexed());
}

#[test]
fn a_refresh_begun_before_its_tag_was_purged_does_not_bring_it_back() {
    let cache = cache(16 * MIB);
    miss(get(&cache, "/a", START)).0.insert(tagged(&cache, graceful(10, 100), &["x"]));
    let (object, refresh) = hit(get(&cache, "/a", after(20)));
    assert_eq!(cache.purge_tag(tag(b"x"), Purge::Hard), 1);
    let refresh = refresh.expect("one refreshes");
    assert!(!refresh.refresh(&object, head(1000)));
    assert!(!object.is_indexed());
    miss(get(&cache, "/a", after(20)));
}

#[test]
fn everything_can_be_purged() {
    let cache = cache(16 * MIB);
    for number in 0..500 {
        store(&cache, &format!("/{number}"), 10, 10);
    }
    let (ticket, _, _) = miss(get(&cache, "/new", START));
    let mut waiter = waiting(get(&cache, "/new", START));
    assert_eq!(cache.purge_all(Purge::Hard), 500);
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    assert!(!ticket.insert(spec(&cache, head(10), 10)).is_indexed());
    let stats = cache.stats();
    assert_eq!((stats.objects, stats.bytes), (0, 0));
    store(&cache, "/new", 10, 10);
    hit(get(&cache, "/new", START));
}

#[test]
fn purged_memory_comes_free_at_once_and_readers_read_on() {
    let cache = cache(16 * MIB);
    let read = store(&cache, "/a", 10, 300_000);
    let unread = store(&cache, "/b", 10, 300_000);
    let mut reader = read.body().reader(..);
    cache.purge_all(Purge::Hard);
    assert_eq!(unread.body().held_bytes(), 0);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut bytes = 0;
    while let std::task::Poll::Ready(freshet_store::Next::Data(lease)) =
        reader.poll_next(&mut cx, 100_000)
    {
        assert!(lease.iter().all(|byte| *byte == b'x'));
        bytes += lease.len();
    }
    assert_eq!(bytes, 300_000);
    drop(reader);
    assert_eq!(read.body().held_bytes(), 0);
}

#[test]
fn a_fetch_that_begins_behind_a_purge_is_kept() {
    let cache = cache(16 * MIB);
    let key = key(&cache, "/a");
    let (mut ticket, _, _) = miss(get(&cache, "/a", START));
    let mut waiter = waiting(get(&cache, "/a", START));
    cache.purge(&key, Purge::Hard);
    ticket.begin_now();
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    assert!(ticket.insert(spec(&cache, head(10), 1)).is_indexed());
    hit(get(&cache, "/a", START));
    // A purge of something else lets them wait on.
    let (mut ticket, _, _) = miss(get(&cache, "/c", START));
    let mut waiter = waiting(get(&cache, "/c", START));
    cache.purge(&key, Purge::Hard);
    ticket.begin_now();
    assert!(ticket.is_exclusive());
    assert!(ticket.insert(spec(&cache, head(10), 1)).is_indexed());
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    hit(get(&cache, "/c", START));
    // One that is not told so brings what may have been purged.
    let (ticket, _, _) = miss(get(&cache, "/b", START));
    cache.purge(&crate::fixture::key(&cache, "/b"), Purge::Hard);
    assert!(!ticket.insert(spec(&cache, head(10), 1)).is_indexed());
}

#[test]
fn what_is_made_of_another_object_is_as_old_as_that() {
    let cache = cache(16 * MIB);
    cache.fence(u64::MAX);
    let came = cache.usable_from(START);
    let (first, _, _) = miss(get(&cache, "/a", START));
    assert!(first.born_seq() >= came, "it was asked for since");
    let came = cache.usable_from(START);
    assert!(first.born_seq() < came, "and before whoever comes now");
    let object = first.insert(spec(&cache, head(10), 1));
    let (other, _, _) = miss(get(&cache, "/b", START));
    assert!(other.born_seq() >= came);
    let made = other.insert_older(spec(&cache, head(10), 1), object.born_seq());
    assert!(made.is_indexed() && made.born_seq() < came);
    // Without a fence over everything all that begins behind the same purge is alike.
    cache.fence(0);
    let tickets = ["/c", "/d"].map(|target| miss(get(&cache, target, START)).0.born_seq());
    assert_eq!(tickets[0], tickets[1]);
    cache.trust_until(START);
    assert_eq!((cache.fenced_below(START), cache.fenced_below(after(0))), (u64::MAX, u64::MAX));
}
