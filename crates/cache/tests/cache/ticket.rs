use crate::fixture::*;
use freshet_cache::{Lookup, Object, WaitOutcome};
use freshet_store::Body;
use std::sync::Arc;

#[test]
fn without_room_for_its_head_an_object_serves_its_own_request_only() {
    let cache = cache(4 * MIB);
    let mut step = MIB;
    while step >= 16 {
        if cache.arena().charge_metadata(step).is_err() {
            step /= 2;
        }
    }
    let (ticket, _, _) = miss(get(&cache, "/a", START));
    let mut waiter = waiting(get(&cache, "/a", START));
    let object = ticket.insert(spec_of(head(10), Body::new(cache.arena(), None)));
    assert!(!object.is_indexed() && object.charged_bytes() == 0);
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    assert_eq!(cache.stats().refused_room, 1);
    miss(get(&cache, "/a", START));
}

#[test]
fn of_two_side_by_side_the_later_insertion_stays() {
    let cache = cache(16 * MIB);
    miss(get(&cache, "/a", START)).0.hit_for_miss(marker(10));
    let tickets = [(); 2].map(|()| match get(&cache, "/a", START) {
        Lookup::HitForMiss { ticket, .. } => ticket,
        other => panic!("{other:?}"),
    });
    let [first, second] = tickets.map(|ticket| ticket.insert(spec(&cache, head(10), 1)));
    assert!(!first.is_indexed() && second.is_indexed());
    assert!(Arc::ptr_eq(&hit(get(&cache, "/a", START)).0, &second));
    assert_eq!(cache.stats().objects, 1);
}

#[test]
fn a_replaced_object_gives_its_memory_back_when_its_readers_have_left() {
    let cache = cache(16 * MIB);
    let old = store(&cache, "/a", 10, 500_000);
    let reader = old.body().reader(..);
    miss(get(&cache, "/a", after(20))).0.insert(spec(&cache, head(100), 10));
    assert!(!old.is_indexed());
    assert!(old.body().held_bytes() >= 500_000);
    drop(reader);
    assert_eq!(old.body().held_bytes(), 0);
}

#[test]
fn a_validated_object_that_was_evicted_meanwhile_stays_out() {
    let cache = cache(16 * MIB);
    let object = store(&cache, "/a", 10, 10);
    let (ticket, stale, _) = miss(get(&cache, "/a", after(20)));
    cache.reclaim(1);
    assert!(!object.is_indexed());
    assert!(!ticket.refresh(&stale.expect("it was there"), head(100)));
    miss(get(&cache, "/a", after(20)));
}

#[test]
fn heads_are_charged_as_long_as_their_objects_live() {
    let cache = cache(16 * MIB);
    let charged = |cache: &freshet_cache::Cache| cache.arena().stats().metadata_bytes;
    let before = charged(&cache);
    let body = Body::new(cache.arena(), Some(0));
    let with_body = charged(&cache);
    let object = miss(get(&cache, "/a", START)).0.insert(spec_of(head(10), body));
    assert_eq!(charged(&cache) - with_body, object.charged_bytes());
    let mut long = head(10);
    long.fields.append("X-Long", "x".repeat(5000));
    let first = object.charged_bytes();
    miss(get(&cache, "/a", after(20))).0.refresh(&object, long);
    assert!(object.charged_bytes() >= first + 5000);
    assert_eq!(charged(&cache) - with_body, object.charged_bytes());
    assert!(cache.forget(&object) && !cache.forget(&object));
    drop(object);
    assert_eq!(charged(&cache), before);
}

#[test]
fn dropping_the_cache_gives_all_memory_back() {
    let cache = cache(16 * MIB);
    let arena = Arc::clone(cache.arena());
    let before = arena.stats();
    for number in 0..100 {
        store(&cache, &format!("/{number}"), 10, 1000);
    }
    drop(cache);
    let stats = arena.stats();
    assert_eq!((stats.used_bytes, stats.metadata_bytes), (0, before.metadata_bytes));
}

#[test]
fn an_object_whose_body_enters_transit_leaves_the_index() {
    let cache = cache(16 * MIB);
    let body = Body::new(cache.arena(), Some(10 * MIB));
    let object = miss(get(&cache, "/a", START)).0.insert(spec_of(head(10), Arc::clone(&body)));
    let _reader = body.reader(..);
    let mut writer = body.writer(0, None);
    assert!(write(&mut writer, 1000));
    hit(get(&cache, "/a", START));
    body.enter_transit();
    assert!(!object.is_indexed());
    miss(get(&cache, "/a", START));
    assert!(write(&mut writer, 1000), "its own fill goes on");
}

#[test]
fn a_body_in_transit_from_the_beginning_is_not_kept() {
    let cache = cache(16 * MIB);
    let body = Body::transit(cache.arena(), None);
    let object = miss(get(&cache, "/a", START)).0.insert(spec_of(head(10), body));
    assert!(!object.is_indexed());
    assert_eq!(cache.stats().objects, 0);
}

#[test]
fn what_is_good_for_one_alone_changes_nothing_for_others_that_ask_about_the_same() {
    let cache = cache(16 * MIB);
    let object = store(&cache, "/a", 10, 10);
    miss(get(&cache, "/a", after(20))).0.hit_for_miss(marker(100));
    let [first, second] = [(); 2].map(|()| match get(&cache, "/a", after(20)) {
        Lookup::HitForMiss { ticket, stale: Some(stale), .. } => (ticket, stale),
        other => panic!("{other:?}"),
    });
    let own = first.0.refresh_for_one(&first.1, head(30), marker(100));
    let other = second.0.refresh_for_one(&second.1, head(40), marker(100));
    let seconds = |one: &Arc<Object>| one.with_head(|head| head.freshness.lifetime().as_secs());
    assert_eq!([&own, &other, &object].map(seconds), [30, 40, 10]);
    assert!([&own, &other].iter().all(|one| Arc::ptr_eq(one.body(), object.body())));
    assert!(![&own, &other, &object].iter().any(|one| one.is_indexed()));
    assert_eq!(own.charged_bytes(), 0);
    // It still serves nobody but those.
    assert!(matches!(get(&cache, "/a", after(20)), Lookup::HitForMiss { stale: None, .. }));
}
