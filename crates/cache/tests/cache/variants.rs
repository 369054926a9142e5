use crate::fixture::*;
use freshet_cache::{
    Cache, Lookup, Marker, MissWhy, Object, ObjectSpec, Ticket, Use, VARIANTS_MAX, WaitOutcome,
};
use freshet_http::message::{RequestHead, Scheme};
use std::sync::Arc;
use std::time::Instant;

fn spoken(language: &str) -> RequestHead {
    request(&[("Accept-Language", language)])
}

fn lookup(cache: &Arc<Cache>, request: &RequestHead) -> Lookup {
    look(cache, &key(cache, "/a"), request, START)
}

/// Stores the response to `request` that varies by `vary`.
#[track_caller]
fn store_variant(cache: &Arc<Cache>, vary: &str, request: &RequestHead) -> Arc<Object> {
    let (ticket, _, _) = miss(lookup(cache, request));
    ticket.insert(varying(cache, vary, request))
}

fn varying(cache: &Cache, vary: &str, request: &RequestHead) -> ObjectSpec {
    ObjectSpec { variation: variation(vary, request), ..spec(cache, head(10), 10) }
}

fn same(lookup: Lookup, object: &Arc<Object>) -> bool {
    Arc::ptr_eq(&hit(lookup).0, object)
}

#[test]
fn each_request_finds_its_variant() {
    let cache = cache(16 * MIB);
    let german = store_variant(&cache, "Accept-Language", &spoken("de"));
    let english = store_variant(&cache, "Accept-Language", &spoken("en"));
    assert!(same(lookup(&cache, &spoken("de")), &german));
    assert!(same(lookup(&cache, &spoken("EN")), &english));
    let (_, stale, why) = miss(lookup(&cache, &spoken("fr")));
    assert!(stale.is_none());
    assert_eq!(why, MissWhy::VaryMiss);
    assert_eq!(cache.peek(&key(&cache, "/a")).variants.len(), 2);
}

#[test]
fn variants_of_a_known_rule_are_fetched_side_by_side() {
    let cache = cache(16 * MIB);
    store_variant(&cache, "Accept-Language", &spoken("de"));
    let (english, _, _) = miss(lookup(&cache, &spoken("en")));
    let (french, _, _) = miss(lookup(&cache, &spoken("fr")));
    assert!(english.is_exclusive() && french.is_exclusive());
    let mut waiter = waiting(lookup(&cache, &spoken("en")));
    drop(french);
    assert!(poll(&mut waiter, &Arc::default()).is_pending());
    drop(english);
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
}

/// What says that the response to `request`, which varies by the language, was not kept.
fn marker_for(request: &RequestHead, seconds: u64) -> Marker {
    Marker { variation: variation("Accept-Language", request), ..marker(seconds) }
}

#[test]
fn of_one_variant_that_is_not_kept_the_others_are_fetched_once_for_all() {
    let cache = cache(16 * MIB);
    miss(lookup(&cache, &spoken("de"))).0.hit_for_miss(marker_for(&spoken("de"), 100));
    for _ in 0..2 {
        assert!(matches!(lookup(&cache, &spoken("de")), Lookup::HitForMiss { .. }));
    }
    // Who is known to vary does not wait for others.
    let (english, _, _) = miss(lookup(&cache, &spoken("en")));
    let (french, _, _) = miss(lookup(&cache, &spoken("fr")));
    assert!(english.is_exclusive() && french.is_exclusive());
    let mut waiter = waiting(lookup(&cache, &spoken("en")));
    let object = english.insert(varying(&cache, "Accept-Language", &spoken("en")));
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    assert!(same(lookup(&cache, &spoken("en")), &object));
    // What was kept of another says nothing of the first.
    assert!(matches!(lookup(&cache, &spoken("de")), Lookup::HitForMiss { .. }));
    drop(french);
}

#[test]
fn an_object_ends_the_markers_about_the_requests_it_answers() {
    let cache = cache(16 * MIB);
    let mark = |request: &RequestHead| match lookup(&cache, request) {
        Lookup::Miss { ticket, .. } | Lookup::HitForMiss { ticket, .. } => {
            ticket.hit_for_miss(marker_for(request, 100));
        }
        other => panic!("{other:?}"),
    };
    let marked = || cache.peek(&key(&cache, "/a")).markers.len();
    let ticket = |request: &RequestHead| match lookup(&cache, request) {
        Lookup::HitForMiss { ticket, .. } => ticket,
        other => panic!("{other:?}"),
    };
    mark(&spoken("de"));
    mark(&spoken("en"));
    mark(&spoken("de"));
    assert_eq!(marked(), 2);
    ticket(&spoken("de")).insert(varying(&cache, "Accept-Language", &spoken("de")));
    assert_eq!(marked(), 1);
    ticket(&spoken("en")).insert(spec(&cache, head(10), 10));
    assert_eq!(marked(), 0);
}

#[test]
fn markers_of_one_resource_are_bounded() {
    let cache = cache(16 * MIB);
    for number in 0..100 {
        let request = spoken(&format!("l{number}"));
        miss(lookup(&cache, &request)).0.hit_for_miss(marker_for(&request, 100));
    }
    assert_eq!(cache.peek(&key(&cache, "/a")).markers.len(), 32);
    assert!(matches!(lookup(&cache, &spoken("l99")), Lookup::HitForMiss { .. }));
    miss(lookup(&cache, &spoken("l0")));
}

#[test]
fn until_the_rule_is_known_all_wait_and_then_each_gets_its_own() {
    let cache = cache(16 * MIB);
    let (ticket, _, _) = miss(lookup(&cache, &spoken("de")));
    let mut waiter = waiting(lookup(&cache, &spoken("en")));
    ticket.insert(varying(&cache, "Accept-Language", &spoken("de")));
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    assert_eq!(miss(lookup(&cache, &spoken("en"))).2, MissWhy::VaryMiss);
}

#[test]
fn a_variant_of_equal_key_replaces_the_old_one_alone() {
    let cache = cache(16 * MIB);
    let german = store_variant(&cache, "Accept-Language", &spoken("de"));
    let english = store_variant(&cache, "Accept-Language", &spoken("en"));
    let key = key(&cache, "/a");
    let validate = cache.lookup(&key, &spoken("de"), START, &mut |_| Use::Validate);
    let (ticket, stale, _) = miss(validate);
    assert!(Arc::ptr_eq(&stale.expect("it matches"), &german));
    let newer = ticket.insert(varying(&cache, "accept-language", &spoken("DE")));
    assert!(same(lookup(&cache, &spoken("de")), &newer));
    assert!(same(lookup(&cache, &spoken("en")), &english));
    assert!(!german.is_indexed());
    assert_eq!(cache.stats().objects, 2);
}

#[test]
fn old_variants_match_by_their_own_rule_after_a_change() {
    let cache = cache(16 * MIB);
    let by_language = store_variant(&cache, "Accept-Language", &spoken("de"));
    let both = request(&[("Accept-Language", "en"), ("X-Device", "tv")]);
    let by_device = store_variant(&cache, "X-Device", &both);
    assert!(same(lookup(&cache, &spoken("de")), &by_language));
    assert!(same(lookup(&cache, &both), &by_device));
    // Both rules select this request: the newest response counts.
    let either = request(&[("Accept-Language", "de"), ("X-Device", "tv")]);
    assert!(same(lookup(&cache, &either), &by_device));
    let ignore_first = cache.lookup(&key(&cache, "/a"), &either, START, &mut |object| {
        if object.id() == by_device.id() { Use::Ignore } else { Use::Serve }
    });
    assert!(same(ignore_first, &by_language));
}

#[test]
fn the_variant_validated_last_is_the_newest() {
    let cache = cache(16 * MIB);
    let by_language = store_variant(&cache, "Accept-Language", &spoken("de"));
    let tv = request(&[("X-Device", "tv")]);
    let by_device = store_variant(&cache, "X-Device", &tv);
    let either = request(&[("Accept-Language", "de"), ("X-Device", "tv")]);
    assert!(same(lookup(&cache, &either), &by_device));
    let key = key(&cache, "/a");
    let (ticket, _, _) = miss(cache.lookup(&key, &spoken("de"), START, &mut |_| Use::Validate));
    ticket.refresh(&by_language, head(10));
    assert!(same(lookup(&cache, &either), &by_language));
}

#[test]
fn a_response_bound_to_a_scheme_is_for_that_scheme() {
    let cache = cache(16 * MIB);
    let secure = RequestHead { scheme: Scheme::Https, ..request(&[]) };
    let bound = |scheme| {
        let mut head = head(10);
        head.scheme_bound = Some(scheme);
        head
    };
    let redirect =
        miss(lookup(&cache, &request(&[]))).0.insert(spec(&cache, bound(Scheme::Http), 1));
    assert!(same(lookup(&cache, &request(&[])), &redirect));
    let content = miss(lookup(&cache, &secure)).0.insert(spec(&cache, bound(Scheme::Https), 1));
    assert!(same(lookup(&cache, &request(&[])), &redirect));
    assert!(same(lookup(&cache, &secure), &content));
}

#[test]
fn a_thousand_variants_are_told_apart() {
    let cache = cache(64 * MIB);
    let named = |name: usize| request(&[("X-Name", &name.to_string())]);
    let objects: Vec<_> =
        (0..1000).map(|name| store_variant(&cache, "X-Name", &named(name))).collect();
    for (name, object) in objects.iter().enumerate() {
        assert!(same(lookup(&cache, &named(name)), object));
    }
    miss(lookup(&cache, &named(1000)));
    // Down to one and to none again.
    for object in &objects {
        assert!(cache.forget(object));
        if let Some(last) = objects.last().filter(|last| last.is_indexed()) {
            assert!(same(lookup(&cache, &named(999)), last));
        }
    }
    assert_eq!(cache.stats().objects, 0);
    let peek = cache.peek(&key(&cache, "/a"));
    assert!(peek.variants.is_empty());
}

#[test]
fn variants_nobody_asks_for_again_leave_before_those_in_use() {
    let cache = cache(256 * MIB);
    let named = |name: usize| request(&[("X-Name", &name.to_string())]);
    let used: Vec<_> = (0..8).map(|name| store_variant(&cache, "X-Name", &named(name))).collect();
    for number in 0..3 * VARIANTS_MAX {
        store_variant(&cache, "X-Name", &named(1000 + number));
        let name = number % used.len();
        assert!(same(lookup(&cache, &named(name)), &used[name]), "{number}");
    }
    let stats = cache.stats();
    assert_eq!(stats.objects, VARIANTS_MAX as u64);
    assert_eq!(stats.counters.variants_evicted, (2 * VARIANTS_MAX + used.len()) as u64);
    assert_eq!(stats.counters.replaced, 0);
}

#[test]
fn ever_new_rules_drop_the_variants_of_the_oldest() {
    let cache = cache(16 * MIB);
    for number in 0..200 {
        let name = format!("X-{number}");
        let by_name = request(&[(&name, "1")]);
        // Only this request's own variant would be of use.
        let key = key(&cache, "/a");
        let lookup = cache.lookup(&key, &by_name, START, &mut |_| Use::Ignore);
        miss(lookup).0.insert(varying(&cache, &name, &by_name));
    }
    let kept = cache.peek(&key(&cache, "/a")).variants.len();
    assert_eq!(kept, 64);
    assert_eq!(cache.stats().objects, 64);
    hit(lookup(&cache, &request(&[("X-199", "1")])));
    hit(lookup(&cache, &request(&[("X-150", "1")])));
}

#[test]
#[allow(clippy::print_stdout, reason = "the figures are worth reading with `--nocapture`")]
fn the_fetch_of_one_variant_is_found_among_ten_thousand() {
    let cache = cache(64 * MIB);
    store_variant(&cache, "X-Name", &request(&[("X-Name", "first")]));
    let named = |name: usize| request(&[("X-Name", &name.to_string())]);
    let mut tickets: Vec<Ticket> = Vec::new();
    // The time that 500 requests take which wait, beside so many fetches; the least of some.
    let mut least = |count: usize| {
        tickets.extend((tickets.len()..count).map(|name| miss(lookup(&cache, &named(name))).0));
        let times = (0..10).map(|_| {
            let began = Instant::now();
            (0..500).for_each(|turn| drop(waiting(lookup(&cache, &named(turn * 7919 % count)))));
            began.elapsed()
        });
        times.min().expect("there were some")
    };
    let (few, many) = (least(100), least(10_000));
    println!("beside 100: {few:?}, beside 10,000: {many:?}");
    assert!(many < few * 10, "{many:?} beside {few:?}");
    // Each ends by itself, and nothing is left of any.
    let mut waiter = waiting(lookup(&cache, &named(5000)));
    tickets.truncate(5001);
    drop(tickets.pop());
    assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    drop(tickets);
    assert_eq!(cache.peek(&key(&cache, "/a")).fetches, 0);
}
