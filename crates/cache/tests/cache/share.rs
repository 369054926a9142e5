//! What objects with one tag may have together.

use crate::fixture::*;
use freshet_cache::{Cache, Object, ObjectSpec, Purge};
use freshet_store::Body;
use proptest::prelude::*;
use std::sync::Arc;

const TV: u64 = 7;
const NEWS: u64 = 8;

fn store_of(cache: &Arc<Cache>, tag: u64, target: &str, bytes: usize) -> Arc<Object> {
    let (ticket, _, _) = miss(get(cache, target, START));
    let spec = spec(cache, head(1000), bytes);
    ticket.insert(ObjectSpec { tags: [1, tag].into(), ..spec })
}

/// Targets with this beginning that are stored, of so many.
fn stored(cache: &Cache, name: &str, count: usize) -> Vec<usize> {
    let is_stored =
        |number: &usize| !cache.peek(&key(cache, &format!("/{name}/{number}"))).variants.is_empty();
    (0..count).filter(is_stored).collect()
}

#[test]
fn a_share_is_not_passed_and_takes_nothing_from_others() {
    let cache = cache(64 * MIB);
    cache.set_shares(&[(TV, 4 * MIB)]);
    let mut leaving_bytes = 0;
    for number in 0..30 {
        let object = store_of(&cache, TV, &format!("/tv/{number}"), 500_000);
        leaving_bytes += if number < 22 { 500_000 + object.charged_bytes() } else { 0 };
        assert!(cache.share_bytes(TV).unwrap() <= 4 * MIB);
        store_of(&cache, NEWS, &format!("/news/{number}"), 500_000);
    }
    assert_eq!(stored(&cache, "tv", 30), (22..30).collect::<Vec<_>>());
    assert_eq!(stored(&cache, "news", 30).len(), 30);
    assert_eq!(cache.share_bytes(NEWS), None);
    let stats = cache.stats();
    assert_eq!((stats.counters.evicted, stats.evicted_bytes), (22, leaving_bytes));
}

#[test]
fn what_is_used_stays_and_what_is_purged_makes_room() {
    let cache = cache(64 * MIB);
    cache.set_shares(&[(TV, 4 * MIB)]);
    for number in 0..30 {
        store_of(&cache, TV, &format!("/tv/{number}"), 500_000);
        for used in (0..2).take_while(|used| *used < number) {
            hit(get(&cache, &format!("/tv/{used}"), START));
        }
    }
    let kept = stored(&cache, "tv", 30);
    assert!(kept.starts_with(&[0, 1]) && kept.len() == 8, "{kept:?}");
    assert_eq!(cache.purge_tag(TV, Purge::Hard), 8);
    assert_eq!(cache.share_bytes(TV), Some(0));
    store_of(&cache, TV, "/tv/0", 500_000);
    assert_eq!(stored(&cache, "tv", 30), [0]);
}

#[test]
fn a_share_that_comes_later_holds_for_what_is_there() {
    let cache = cache(64 * MIB);
    for number in 0..20 {
        store_of(&cache, TV, &format!("/tv/{number}"), 500_000);
    }
    cache.set_shares(&[(TV, 2 * MIB)]);
    assert_eq!(stored(&cache, "tv", 20).len(), 4);
    assert!((3 * MIB / 2..=2 * MIB).contains(&cache.share_bytes(TV).unwrap()));
    cache.set_shares(&[]);
    for number in 0..20 {
        if stored(&cache, "tv", 20).contains(&number) {
            continue;
        }
        store_of(&cache, TV, &format!("/tv/{number}"), 500_000);
    }
    assert_eq!(stored(&cache, "tv", 20).len(), 20, "nothing bounds it any more");
    cache.set_shares(&[(TV, MIB)]);
    assert_eq!(stored(&cache, "tv", 20).len(), 2);
}

#[test]
fn what_is_being_filled_counts_with_its_whole_length() {
    let cache = cache(64 * MIB);
    cache.set_shares(&[(TV, 4 * MIB)]);
    let (ticket, _, _) = miss(get(&cache, "/tv/0", START));
    let body = Body::new(cache.arena(), Some(3 * MIB));
    let mut writer = body.writer(0, None);
    let object = ticket.insert(ObjectSpec { tags: [TV].into(), ..spec_of(head(1000), body) });
    assert!(cache.share_bytes(TV).unwrap() > 3 * MIB);
    for number in 1..10 {
        store_of(&cache, TV, &format!("/tv/{number}"), 600_000);
    }
    assert_eq!(stored(&cache, "tv", 10), [0, 9], "what is on its way is not taken back");
    assert!(write(&mut writer, 3 << 20));
    writer.finish().unwrap();
    drop(object);
    store_of(&cache, TV, "/tv/10", 600_000);
    assert!(cache.share_bytes(TV).unwrap() <= 4 * MIB);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However objects come, are used, purged and pushed out by others, a share's sum is that of its objects, and not
    /// above its bound.
    #[test]
    fn the_sum_is_that_of_what_is_there(
        steps in prop::collection::vec((0..4_u8, 0..40_usize, 1..900_000_usize), 1..120),
        bound in 1..12_u64,
    ) {
        let cache = cache(16 * MIB);
        cache.set_shares(&[(TV, bound * MIB)]);
        for (what, number, bytes) in steps {
            let name = format!("/tv/{number}");
            match what {
                0 | 1 if cache.peek(&key(&cache, &name)).variants.is_empty() => {
                    store_of(&cache, TV, &name, bytes);
                }
                0 | 1 => drop(get(&cache, &name, START)),
                2 => drop(cache.purge(&key(&cache, &name), Purge::Hard)),
                _ => {
                    let other = format!("/news/{number}");
                    if cache.peek(&key(&cache, &other)).variants.is_empty() {
                        store_of(&cache, NEWS, &other, bytes);
                    }
                }
            }
            let mut sum = 0;
            cache.each_object(&mut |object| {
                if object.tags().contains(&TV) {
                    sum += object.charged_bytes() + object.body().held_bytes().max(object.body().total().unwrap_or(0));
                }
            });
            prop_assert_eq!(cache.share_bytes(TV), Some(sum));
            prop_assert!(sum <= bound * MIB);
        }
    }
}
