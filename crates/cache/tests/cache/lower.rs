//! Memory of a lower class behind the first.

use crate::fixture::*;
use freshet_cache::{Cache, LowerStats, LowerTakes, Object, Purge};
use freshet_store::{Arena, Body, Next};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// How long a test waits for the thread that moves objects.
const PATIENCE: Duration = Duration::from_secs(20);

/// A cache of `first` MiB with `lower` MiB behind it.
fn cache_over(first: u64, lower: u64, bytes: RangeInclusive<u64>) -> Arc<Cache> {
    let cache = cache(first * MIB);
    let arena = Arena::new(lower * MIB).expect("address space is there");
    let takes = LowerTakes { bytes, lifetime_min: Duration::from_secs(10) };
    assert!(cache.set_lower(arena, takes));
    cache
}

fn stats(cache: &Cache) -> LowerStats {
    cache.lower_stats().expect("there is a lower class")
}

fn stored(cache: &Cache, target: &str) -> Option<Arc<Object>> {
    cache.peek(&key(cache, target)).variants.first().cloned()
}

/// All bytes of a body, which must be there.
fn bytes_of(body: &Arc<Body>) -> Vec<u8> {
    let mut reader = body.reader(..);
    let mut out = Vec::new();
    loop {
        match reader.poll_next(&mut Context::from_waker(Waker::noop()), usize::MAX) {
            Poll::Ready(Next::Data(lease)) => out.extend_from_slice(&lease),
            Poll::Ready(Next::End) => return out,
            other => panic!("the bytes are held, and not {other:?}"),
        }
    }
}

/// Runs the thread of the lower class while `act` runs.
fn served(cache: &Arc<Cache>, act: impl FnOnce()) {
    let serving = Arc::clone(cache);
    let thread = std::thread::spawn(move || serving.serve_lower());
    act();
    cache.end_lower();
    thread.join().expect("it does not panic");
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn what_the_first_class_evicts_is_served_from_the_lower_one() {
    let cache = cache_over(8, 64, 0..=u64::MAX);
    for number in 0..100 {
        assert!(store(&cache, &format!("/{number}"), 100, 300_000).is_indexed());
        let first = cache.arena().stats();
        assert!(first.committed_bytes + first.metadata_bytes <= first.limit_bytes);
    }
    let now = stats(&cache);
    assert_eq!((cache.stats().objects, cache.stats().counters.evicted), (100, 0));
    assert!(now.objects >= 70 && now.demoted == now.objects, "{now:?}");
    assert!(now.used_bytes >= now.objects * 300_000, "{now:?}");
    for number in 0..100 {
        let (object, _) = hit(get(&cache, &format!("/{number}"), START));
        assert_eq!(bytes_of(object.body()), vec![b'x'; 300_000]);
    }
    assert_eq!(stats(&cache).hits, now.objects);
    assert_eq!(cache.learned(&[], &[]).memory.capacity_bytes, 72 * MIB);
}

#[test]
fn what_is_past_its_time_is_dropped_and_does_not_move() {
    let cache = cache_over(8, 64, 0..=u64::MAX);
    for number in 0..20 {
        let (ticket, _, _) = miss(get(&cache, &format!("/{number}"), START));
        // Of no use from then on, usable as stale, and kept by somebody who knows for how long.
        let head = if number % 3 == 1 { graceful(100, 300) } else { head(100) };
        let spec = spec(&cache, head, 300_000);
        if number % 3 == 2 {
            spec.body.attach(Arc::new(()));
        }
        ticket.insert(spec);
    }
    assert_eq!(stats(&cache).objects, 0);
    // The first one, without a body, says how late it is before anything has to go.
    for number in 20..60 {
        let (ticket, _, _) = miss(get(&cache, &format!("/{number}"), after(200)));
        let mut head = head(100);
        head.freshness.received = after(200);
        ticket.insert(spec(&cache, head, if number == 20 { 0 } else { 300_000 }));
    }
    for number in 0..20 {
        let stays = stored(&cache, &format!("/{number}")).map(|object| object.is_lower());
        assert_eq!(stays, (number % 3 != 0).then_some(true), "{number}");
    }
    assert_eq!(cache.stats().counters.evicted, 8, "these and the one without a body");
}

#[test]
fn it_is_bounded_and_keeps_what_is_used() {
    let cache = cache_over(8, 16, 0..=u64::MAX);
    for number in 0..400 {
        store(&cache, &format!("/{number}"), 100, 300_000);
        if number >= 40 && number % 4 == 0 {
            hit(get(&cache, "/0", START));
        }
    }
    let now = stats(&cache);
    assert!(now.used_bytes <= 16 * MIB && now.evicted > 300, "{now:?}");
    assert_eq!(cache.stats().objects + cache.stats().counters.evicted, 400);
    assert!(stored(&cache, "/0").is_some_and(|object| object.is_lower()), "it was used all along");
    assert!(stored(&cache, "/1").is_none());
}

#[test]
fn what_is_used_there_comes_back() {
    let cache = cache_over(8, 64, 0..=u64::MAX);
    for number in 0..60 {
        store(&cache, &format!("/{number}"), 100, 300_000);
    }
    let target = (0..60)
        .map(|number| format!("/{number}"))
        .find(|target| stored(&cache, target).is_some_and(|object| object.is_lower()))
        .expect("something has moved");
    served(&cache, || {
        for _ in 0..2 {
            hit(get(&cache, &target, START));
        }
        wait_until("it does not come back", || stats(&cache).promoted == 1);
    });
    let object = stored(&cache, &target).expect("it is stored");
    assert!(!object.is_lower());
    assert_eq!(object.hits(), 2);
    assert_eq!(bytes_of(object.body()), vec![b'x'; 300_000]);
    assert_eq!(stats(&cache).promoted_bytes, 300_000);
    // It goes down again in its turn.
    for number in 100..200 {
        store(&cache, &format!("/{number}"), 100, 300_000);
    }
    assert!(stored(&cache, &target).is_some());
}

#[test]
fn purges_reach_what_has_moved() {
    let cache = cache_over(8, 64, 0..=u64::MAX);
    for number in 0..60 {
        store(&cache, &format!("/{number}"), 100, 300_000);
    }
    let before = stats(&cache);
    assert!(before.objects > 30);
    for number in 0..30 {
        assert_eq!(cache.purge(&key(&cache, &format!("/{number}")), Purge::Hard), 1);
        miss(get(&cache, &format!("/{number}"), START));
    }
    assert!(stats(&cache).objects < before.objects);
    assert_eq!(cache.purge_all(Purge::Hard), 30);
    let now = stats(&cache);
    assert_eq!((now.objects, now.used_bytes, cache.stats().objects), (0, 0, 0));
    for number in 0..60 {
        store(&cache, &format!("/{number}"), 100, 300_000);
    }
    assert_eq!(cache.stats().objects, 60);
}

#[test]
fn a_reader_keeps_its_bytes_while_they_move() {
    let cache = cache_over(8, 64, 0..=u64::MAX);
    let object = store(&cache, "/read", 100, 3_000_000);
    let mut reader = object.body().reader(..);
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Next::Data(first)) = reader.poll_next(&mut cx, usize::MAX) else {
        panic!("it has bytes")
    };
    served(&cache, || {
        cache.place_lower(&object);
        wait_until("it does not move", || object.is_lower());
    });
    assert!(first.iter().all(|byte| *byte == b'x'));
    let mut read = first.len();
    while let Poll::Ready(Next::Data(lease)) = reader.poll_next(&mut cx, usize::MAX) {
        assert!(lease.iter().all(|byte| *byte == b'x'));
        read += lease.len();
    }
    assert_eq!(read, 3_000_000);
    drop((reader, first));
    // What a rule sends there stays there.
    (0..5).for_each(|_| drop(hit(get(&cache, "/read", START))));
    assert!(object.is_lower());
    assert_eq!(stats(&cache).hits, 5);
}

#[test]
fn what_it_does_not_take_is_evicted() {
    let cache = cache_over(8, 64, 100_000..=400_000);
    for number in 0..60 {
        store(&cache, &format!("/short/{number}"), 100, 50_000);
        store(&cache, &format!("/short-lived/{number}"), 5, 200_000);
        store(&cache, &format!("/long/{number}"), 100, 500_000);
        store(&cache, &format!("/good/{number}"), 100, 200_000);
    }
    let lower = |kind: &str| {
        let all = (0..60).filter_map(|number| stored(&cache, &format!("/{kind}/{number}")));
        all.filter(|object| object.is_lower()).count()
    };
    assert_eq!((lower("short"), lower("short-lived"), lower("long")), (0, 0, 0));
    assert!(lower("good") > 40, "{}", lower("good"));
}

#[test]
fn heads_of_what_is_there_do_not_crowd_the_first_class() {
    let cache = cache_over(4, 64, 0..=u64::MAX);
    for number in 0..20_000 {
        store(&cache, &format!("/{number}"), 100, 300);
        let first = cache.arena().stats();
        assert!(first.committed_bytes + first.metadata_bytes <= first.limit_bytes, "{first:?}");
    }
    let now = stats(&cache);
    assert!(now.objects > 1_000 && now.evicted > 5_000, "{now:?}");
    // Something else still fits.
    assert!(store(&cache, "/large", 100, 900_000).is_indexed());
}
