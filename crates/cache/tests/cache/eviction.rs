use crate::fixture::*;
use freshet_cache::{Cache, Lookup, Object};
use freshet_store::{Arena, Body};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

fn assert_within_limit(arena: &Arena) {
    let stats = arena.stats();
    assert!(stats.committed_bytes + stats.metadata_bytes <= stats.limit_bytes, "{stats:?}");
}

fn is_stored(cache: &Cache, target: &str) -> bool {
    !cache.peek(&key(cache, target)).variants.is_empty()
}

#[test]
fn more_than_fits_is_stored_by_evicting() {
    let cache = cache(8 * MIB);
    for number in 0..200 {
        let object = store(&cache, &format!("/{number}"), 10, 200_000);
        assert!(object.is_indexed());
        assert_within_limit(cache.arena());
    }
    let stats = cache.stats();
    assert_eq!(stats.counters.inserted, 200);
    assert_eq!(stats.objects + stats.counters.evicted, 200);
    assert!(stats.bytes <= 8 * MIB);
    // Most of the memory is put to use.
    assert!(stats.objects >= 20, "{stats:?}");
}

#[test]
fn small_objects_are_bounded_by_their_metadata() {
    let cache = cache(4 * MIB);
    for number in 0..20_000 {
        store(&cache, &format!("/{number}"), 10, 0);
    }
    assert_within_limit(cache.arena());
    let stats = cache.stats();
    assert!((1_000..10_000).contains(&stats.objects), "{stats:?}");
}

#[test]
fn what_is_asked_for_again_outlives_what_is_not() {
    let cache = cache(16 * MIB);
    for number in 0..20 {
        store(&cache, &format!("/popular/{number}"), 1000, 100_000);
    }
    for number in 0..1000 {
        for popular in 0..20 {
            if number % 10 == 0 {
                hit(get(&cache, &format!("/popular/{popular}"), START));
            }
        }
        store(&cache, &format!("/once/{number}"), 1000, 100_000);
    }
}

#[test]
fn what_is_fetched_ahead_is_kept_as_what_was_waited_for() {
    let kept = |is_ahead: bool| {
        let cache = cache(8 * MIB);
        for number in 0..60_000_u64 {
            // Some are asked for often, and many once.
            let target = match number % 3 {
                0 => format!("/once/{number}"),
                _ => format!("/{}", number * number % 211),
            };
            let (key, request) = (key(&cache, &target), request(&[]));
            let classify = &mut |object: &Object| by_freshness(object, START);
            // Two players are foreseen to ask for it, and one does.
            for _ in 0..if is_ahead { 2 } else { 0 } {
                let found = cache.lookup_ahead(&key, &request, START, classify);
                if !matches!(found, Lookup::Hit { .. }) {
                    miss(found).0.insert(spec(&cache, head(1000), 100_000));
                }
            }
            let found = cache.lookup(&key, &request, START, classify);
            if !matches!(found, Lookup::Hit { .. }) {
                assert!(!is_ahead, "{target} was fetched ahead");
                miss(found).0.insert(spec(&cache, head(1000), 100_000));
            }
        }
        let targets =
            (0..60_000).flat_map(|number| [format!("/once/{number}"), format!("/{number}")]);
        let stored: Vec<String> = targets.filter(|target| is_stored(&cache, target)).collect();
        (stored, cache.learned(&[8 * MIB], &[8 * MIB]).requests)
    };
    assert_eq!(kept(true), kept(false));
}

#[test]
fn what_is_read_stays_while_there_is_anything_else() {
    let cache = cache(8 * MIB);
    let read = store(&cache, "/read", 10, 1_000_000);
    let _reader = read.body().reader(..);
    for number in 0..100 {
        store(&cache, &format!("/{number}"), 10, 200_000);
    }
    assert!(read.is_indexed());
}

#[test]
fn what_is_being_filled_stays_while_there_is_anything_else() {
    let cache = cache(8 * MIB);
    let body = Body::new(cache.arena(), Some(2 * MIB));
    let filling = miss(get(&cache, "/f", START)).0.insert(spec_of(head(10), Arc::clone(&body)));
    let mut writer = body.writer(0, None);
    for number in 0..100 {
        assert!(write(&mut writer, 20_000));
        store(&cache, &format!("/{number}"), 10, 200_000);
    }
    assert!(filling.is_indexed() && !body.is_transit());
}

#[test]
fn when_everything_is_read_memory_comes_as_soon_as_readers_leave() {
    let cache = cache(8 * MIB);
    let mut readers = Vec::new();
    let mut number = 0;
    // Until nothing more fits.
    let (body, mut writer) = loop {
        let body = Body::new(cache.arena(), Some(500_000));
        let target = format!("/{number}");
        let object = miss(get(&cache, &target, START)).0.insert(spec_of(head(10), body.clone()));
        readers.push(body.reader(..));
        let mut writer = body.writer(0, None);
        writer.set_allow_transit(false);
        if !write(&mut writer, 500_000) {
            drop(object);
            break (body, writer);
        }
        writer.finish().expect("all was written");
        number += 1;
        assert!(number < 100, "the limit is kept");
    };
    assert_within_limit(cache.arena());
    let mine = readers.pop();
    drop(readers);
    let left = 500_000 - usize::try_from(writer.position()).expect("it is small");
    assert!(write(&mut writer, left), "there is memory now");
    writer.finish().expect("all was written");
    assert!(body.is_complete());
    drop(mine);
}

#[test]
fn a_writer_that_waits_for_memory_is_woken_when_readers_leave() {
    let cache = cache(8 * MIB);
    let mut readers = Vec::new();
    for number in 0..10 {
        let object = store(&cache, &format!("/{number}"), 10, 500_000);
        readers.push(object.body().reader(..));
    }
    let body = Body::transit(cache.arena(), None);
    let _own = body.reader(..);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    // Others hold what is left.
    let mut held = Vec::new();
    while let Some(piece) = cache.arena().allocate(4096) {
        held.push(piece);
    }
    let mut writer = body.writer(0, None);
    assert!(writer.poll_reserve(&mut Context::from_waker(&waker), 1).is_pending());
    readers.clear();
    assert!(wakes.count() > 0);
    let Poll::Ready(Ok(_)) = writer.poll_reserve(&mut Context::from_waker(&waker), 1) else {
        panic!("there is memory now")
    };
}

#[test]
fn reclaiming_makes_progress_until_nothing_is_left() {
    let cache = cache(16 * MIB);
    let mut readers = Vec::new();
    for number in 0..30 {
        let object = store(&cache, &format!("/{number}"), 10, 50_000);
        if number % 3 == 0 {
            readers.push(object.body().reader(..));
        }
    }
    let body = Body::new(cache.arena(), None);
    miss(get(&cache, "/f", START)).0.insert(spec_of(head(10), Arc::clone(&body)));
    let mut writer = body.writer(0, None);
    assert!(write(&mut writer, 50_000));
    let freed = cache.reclaim(20 * 50_000);
    assert!(freed >= 20 * 50_000);
    assert!(is_stored(&cache, "/f") && is_stored(&cache, "/0"));
    let mut rounds = 0;
    while cache.stats().objects > 0 {
        cache.reclaim(1);
        rounds += 1;
        assert!(rounds < 100);
    }
    assert_eq!(cache.reclaim(1), 0);
    assert_eq!(cache.stats().bytes, 0);
}

#[test]
fn what_is_on_its_way_is_not_evicted_for_twice() {
    let cache = cache(16 * MIB);
    let mut readers = Vec::new();
    for number in 0..20 {
        let object = store(&cache, &format!("/{number}"), 10, 100_000);
        readers.push(object.body().reader(..));
    }
    assert_eq!(cache.reclaim(500_000), 0);
    let left = cache.stats().objects;
    assert_eq!(left, 15);
    // Each further call takes one, for the case that these readers are slow.
    assert_eq!(cache.reclaim(500_000), 0);
    assert_eq!(cache.stats().objects, left - 1);
}

#[test]
fn a_growing_object_counts_as_it_grows() {
    let cache = cache(16 * MIB);
    let body = Body::new(cache.arena(), None);
    miss(get(&cache, "/f", START)).0.insert(spec_of(head(10), Arc::clone(&body)));
    let mut writer = body.writer(0, None);
    for step in 1..=10 {
        assert!(write(&mut writer, 100_000));
        store(&cache, &format!("/{step}"), 10, 0);
        assert!(cache.stats().bytes >= step * 100_000);
    }
}
