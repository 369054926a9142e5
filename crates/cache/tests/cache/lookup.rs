use crate::fixture::*;
use freshet_cache::{Failure, Lookup, MissWhy, Settings, Use, WaitOutcome};
use freshet_http::reason::Reason;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn what_was_inserted_is_hit_until_it_is_stale() {
    let cache = cache(16 * MIB);
    let object = store(&cache, "/a", 10, 100);
    assert!(object.is_indexed());
    let (found, refresh) = hit(get(&cache, "/a", after(9)));
    assert!(Arc::ptr_eq(&found, &object) && refresh.is_none());
    assert_eq!(found.hits(), 1);
    let (_ticket, stale, why) = miss(get(&cache, "/a", after(10)));
    assert_eq!(why, MissWhy::Stale);
    assert!(Arc::ptr_eq(&stale.expect("it can be validated"), &object));
}

#[test]
fn an_unknown_key_is_a_miss_and_the_next_request_waits() {
    let cache = cache(16 * MIB);
    let (ticket, stale, why) = miss(get(&cache, "/a", START));
    assert!(ticket.is_exclusive() && stale.is_none());
    assert_eq!(why, MissWhy::UriMiss);
    let mut waiter = waiting(get(&cache, "/a", START));
    let wakes = Arc::new(Wakes::default());
    assert!(poll(&mut waiter, &wakes).is_pending());
    assert_eq!(ticket.waiters(), 1);

    ticket.insert(spec(&cache, head(10), 1));
    assert_eq!(wakes.count(), 1);
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    hit(get(&cache, "/a", START));
}

#[test]
fn other_keys_do_not_wait() {
    let cache = cache(16 * MIB);
    let _ticket = miss(get(&cache, "/a", START));
    miss(get(&cache, "/b", START));
}

#[test]
fn exactly_one_of_many_refreshes_a_stale_object() {
    let cache = cache(16 * MIB);
    let (ticket, _, _) = miss(get(&cache, "/a", START));
    ticket.insert(spec(&cache, graceful(10, 60), 10));
    let mut tickets = Vec::new();
    for _ in 0..20 {
        let (_, refresh) = hit(get(&cache, "/a", after(20)));
        tickets.extend(refresh);
    }
    assert_eq!(tickets.len(), 1);
    // The one who has to validate waits for the refresher as well.
    let mut waiter = waiting(get(&cache, "/a", after(100)));
    drop(tickets);
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    let (_, refresh) = hit(get(&cache, "/a", after(20)));
    assert!(refresh.is_some(), "the turn of a dropped ticket goes to the next");
}

#[test]
fn while_one_validates_nobody_gets_a_turn_to_refresh() {
    let cache = cache(16 * MIB);
    let (ticket, _, _) = miss(get(&cache, "/a", START));
    ticket.insert(spec(&cache, graceful(10, 60), 10));
    let key = key(&cache, "/a");
    let (validating, _, _) =
        miss(cache.lookup(&key, &request(&[]), after(20), &mut |_| Use::Validate));
    let (_, refresh) = hit(get(&cache, "/a", after(20)));
    assert!(refresh.is_none());
    drop(validating);
    assert!(hit(get(&cache, "/a", after(20))).1.is_some());
}

#[test]
fn a_marker_lets_all_fetch_side_by_side_until_its_end() {
    let cache = cache(16 * MIB);
    let (ticket, _, _) = miss(get(&cache, "/a", START));
    let mut waiter = waiting(get(&cache, "/a", START));
    ticket.hit_for_miss(marker(5));
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    let mut tickets = Vec::new();
    for _ in 0..3 {
        let Lookup::HitForMiss { left_by, ticket, stale, .. } = get(&cache, "/a", after(4)) else {
            panic!("the marker is still good")
        };
        assert!(!ticket.is_exclusive() && stale.is_none());
        assert_eq!(left_by, marker(5).left_by);
        tickets.push(ticket);
    }
    let (exclusive, _, _) = miss(get(&cache, "/a", after(5)));
    assert!(exclusive.is_exclusive());
    assert!(cache.peek(exclusive.key()).markers.is_empty());
}

#[test]
fn a_response_fit_to_be_stored_ends_a_marker() {
    let cache = cache(16 * MIB);
    miss(get(&cache, "/a", START)).0.hit_for_miss(marker(100));
    let Lookup::HitForMiss { ticket, .. } = get(&cache, "/a", START) else {
        panic!("there is a marker")
    };
    ticket.insert(spec(&cache, head(1), 5));
    hit(get(&cache, "/a", START));
    assert!(miss(get(&cache, "/a", after(2))).0.is_exclusive());
}

#[test]
fn markers_are_bounded_and_leave_nothing_behind() {
    let cache = cache(16 * MIB);
    for number in 0..200_000 {
        miss(get(&cache, &format!("/{number}"), START)).0.hit_for_miss(marker(100));
    }
    let marked = (0..200_000)
        .filter(|number| {
            let key = key(&cache, &format!("/{number}"));
            !cache.peek(&key).markers.is_empty()
        })
        .count();
    assert!((30_000..=65_536).contains(&marked), "{marked}");
}

#[test]
fn what_the_caller_ignores_is_passed_over_without_waiting() {
    let cache = cache(16 * MIB);
    store(&cache, "/a", 10, 5);
    let key = key(&cache, "/a");
    let ignore = || cache.lookup(&key, &request(&[]), START, &mut |_| Use::Ignore);
    let (first, stale, why) = miss(ignore());
    assert!(first.is_exclusive() && stale.is_none());
    assert_eq!(why, MissWhy::Request);
    let (second, _, _) = miss(ignore());
    assert!(!second.is_exclusive());
    hit(get(&cache, "/a", START));
}

#[test]
fn a_failure_is_shared_and_the_next_request_tries_again() {
    let cache = cache(16 * MIB);
    let (ticket, _, _) = miss(get(&cache, "/a", START));
    let mut waiters = [waiting(get(&cache, "/a", START)), waiting(get(&cache, "/a", START))];
    let failure = Arc::new(Failure {
        status: 502,
        error: None,
        reason: Reason::OriginRefused,
        detail: "connect: refused".into(),
    });
    ticket.fail(Arc::clone(&failure));
    for waiter in &mut waiters {
        assert_eq!(ended(waiter), WaitOutcome::Failed(Arc::clone(&failure)));
    }
    miss(get(&cache, "/a", START));
}

#[test]
fn waiters_have_the_stale_object_for_when_the_fetch_fails() {
    let cache = cache(16 * MIB);
    let object = store(&cache, "/a", 10, 5);
    let _ticket = miss(get(&cache, "/a", after(20)));
    let Lookup::Wait { stale, .. } = get(&cache, "/a", after(20)) else { panic!("a wait") };
    assert!(Arc::ptr_eq(&stale.expect("it is still there"), &object));
}

#[test]
fn a_dropped_ticket_wakes_all_and_one_of_them_gets_the_next() {
    let cache = cache(16 * MIB);
    let (ticket, _, _) = miss(get(&cache, "/a", START));
    let mut waiters: Vec<_> = (0..5).map(|_| waiting(get(&cache, "/a", START))).collect();
    drop(ticket);
    let mut tickets = 0;
    let mut again = Vec::new();
    for waiter in &mut waiters {
        assert_eq!(ended(waiter), WaitOutcome::TryAgain);
        match get(&cache, "/a", START) {
            Lookup::Miss { ticket, .. } => {
                tickets += 1;
                again.push(ticket);
            }
            Lookup::Wait { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(tickets, 1);
}

#[test]
fn the_number_that_waits_is_bounded() {
    let settings = Settings { waiters_max: 2, ..Settings::default() };
    let cache = cache_with(16 * MIB, settings);
    let _ticket = miss(get(&cache, "/a", START));
    let first = waiting(get(&cache, "/a", START));
    let _second = waiting(get(&cache, "/a", START));
    assert!(matches!(get(&cache, "/a", START), Lookup::Crowded { stale: None }));
    drop(first);
    waiting(get(&cache, "/a", START));
    assert_eq!(cache.stats().counters.waits_refused, 1);
}

#[test]
fn an_object_being_filled_is_hit() {
    let cache = cache(16 * MIB);
    let body = freshet_store::Body::new(cache.arena(), Some(300_000));
    let (ticket, _, _) = miss(get(&cache, "/a", START));
    let object = ticket.insert(spec_of(head(10), Arc::clone(&body)));
    let mut writer = body.writer(0, None);
    assert!(write(&mut writer, 200_000));
    let (found, _) = hit(get(&cache, "/a", START));
    assert!(Arc::ptr_eq(&found, &object) && !found.body().is_complete());
    assert!(found.body().held_bytes() >= 200_000);
    assert!(write(&mut writer, 100_000));
    writer.finish().expect("all was written");
    store(&cache, "/b", 10, 1);
    assert!(cache.stats().bytes >= 300_000);
}

#[test]
fn a_partial_object_is_a_hit_and_left_to_the_caller() {
    let cache = cache(16 * MIB);
    let body = freshet_store::Body::new(cache.arena(), Some(1000));
    let mut writer = body.writer(500, Some(600));
    assert!(write(&mut writer, 100));
    writer.finish().expect("all was written");
    let mut partial = head(10);
    partial.partial = true;
    miss(get(&cache, "/a", START)).0.insert(spec_of(partial, body));
    let (found, _) = hit(get(&cache, "/a", START));
    assert!(found.with_head(|head| head.partial));
}

#[test]
fn figures_add_up() {
    let cache = cache(16 * MIB);
    store(&cache, "/a", 10, 1000);
    hit(get(&cache, "/a", START));
    let ticket = miss(get(&cache, "/b", START));
    waiting(get(&cache, "/b", START));
    drop(ticket);
    let stats = cache.stats();
    assert_eq!(stats.objects, 1);
    assert!(stats.bytes >= 1000);
    let counters = stats.counters;
    assert_eq!(
        (counters.lookups, counters.hits, counters.misses_uri, counters.waits),
        (4, 1, 2, 1)
    );
}

#[test]
fn a_listing_has_every_object_once_however_it_is_cut() {
    let cache = cache(64 * MIB);
    for number in 0..300 {
        store(&cache, &format!("/{number}"), 10, 1);
    }
    for objects_max in [1, 7, 100, 1000, usize::MAX] {
        let (mut from, mut ids) = (0, Vec::new());
        loop {
            let page = cache.page(from, objects_max);
            assert!(page.objects.len() <= objects_max);
            ids.extend(page.objects.iter().map(|object| object.id()));
            let Some(next) = page.next else { break };
            from = next;
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 300);
    }
}

#[test]
fn peeking_changes_nothing() {
    let cache = cache(16 * MIB);
    let object = store(&cache, "/a", 10, 1);
    let before = cache.stats();
    let peek = cache.peek(object.key());
    assert_eq!((peek.variants.len(), peek.fetches, peek.waiters), (1, 0, 0));
    assert_eq!((object.hits(), object.frequency()), (0, 0));
    assert_eq!(cache.stats(), before);
    let none = cache.peek(&key(&cache, "/never"));
    assert!(none.variants.is_empty() && none.markers.is_empty());
}

#[test]
fn a_validated_object_is_fresh_again() {
    let cache = cache(16 * MIB);
    let object = store(&cache, "/a", 10, 100);
    let (ticket, stale, _) = miss(get(&cache, "/a", after(20)));
    let mut waiter = waiting(get(&cache, "/a", after(20)));
    let before = object.head();
    let mut renewed = head(10);
    renewed.freshness.received = after(20);
    renewed.fields.set("X-New", "a longer list of fields than before");
    assert!(ticket.refresh(&stale.expect("it is there"), renewed));
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    let (found, _) = hit(get(&cache, "/a", after(25)));
    assert!(Arc::ptr_eq(&found, &object));
    assert!(found.head().fields.contains("x-new") && !before.fields.contains("x-new"));
    assert_eq!(
        found.reuse(after(20).plus(Duration::from_secs(10))),
        freshet_http::freshness::Reuse::Stale
    );
}
