use crate::fixture::*;
use freshet_cache::{Cache, Objective, Settings};
use std::sync::Arc;

/// Requests objects in a loop, storing what is missing; hits.
fn ask(cache: &Arc<Cache>, targets: impl Iterator<Item = u64>, bytes: usize, second: u64) -> u64 {
    let mut hits = 0;
    for target in targets {
        let target = format!("/{target}");
        match get(cache, &target, after(second)) {
            freshet_cache::Lookup::Hit { .. } => hits += 1,
            lookup => {
                miss(lookup).0.insert(spec(cache, head(1_000_000), bytes));
            }
        }
    }
    hits
}

#[test]
fn the_curve_says_what_more_memory_would_do() {
    let cache = cache(16 * MIB);
    // A loop over 20 MB in 16 MiB: the last object is always the one that left.
    for round in 0..40 {
        ask(&cache, 0..200, 100_000, round);
    }
    let capacities = [8 * MIB, 16 * MIB, 32 * MIB, 64 * MIB];
    let learned = cache.learned(&capacities, &capacities);
    assert_eq!((learned.memory.capacity_bytes, learned.requests), (16 * MIB, 8_000));
    assert_eq!(learned.memory.sample_rate, 1.0);
    assert_eq!(learned.memory.requests_sampled, 8_000);
    assert_eq!(learned.disks, None);
    let ratios: Vec<f64> =
        learned.memory.points.iter().map(|point| point.request_hit_ratio).collect();
    // The first requests for each object are all that a cache with room for everything misses.
    assert!(ratios[0] < 0.2 && ratios[1] < 0.2, "{ratios:?}");
    assert!(ratios[2] > 0.9 && ratios[3] > 0.9, "{ratios:?}");
    assert_eq!(learned.memory.points[3].capacity_bytes, 64 * MIB);
}

#[test]
fn another_curve_says_what_more_disk_would_do() {
    let settings = Settings { disk_bytes: 64 * MIB, ..Settings::default() };
    let cache = cache_with(16 * MIB, settings);
    // A loop over 100 MB: 16 MiB of memory and 64 MiB of disk have nothing of it in that order.
    for round in 0..20 {
        ask(&cache, 0..1000, 100_000, round);
    }
    let learned = cache.learned(&[16 * MIB], &[32 * MIB, 64 * MIB, 128 * MIB, 256 * MIB]);
    let disks = learned.disks.expect("there are disks");
    assert_eq!(disks.capacity_bytes, 64 * MIB);
    assert!(disks.sample_rate < 1.0 && disks.requests_sampled > 1_000, "{disks:?}");
    let capacities: Vec<u64> = disks.points.iter().map(|point| point.capacity_bytes).collect();
    assert_eq!(capacities, [32 * MIB, 64 * MIB, 128 * MIB, 256 * MIB]);
    let ratios: Vec<f64> = disks.points.iter().map(|point| point.byte_hit_ratio).collect();
    assert!(ratios[0] < 0.1 && ratios[1] < 0.1, "{ratios:?}");
    assert!(ratios[2] > 0.9 && ratios[3] > 0.9, "{ratios:?}");
}

#[test]
fn what_is_not_stored_is_not_in_the_curve() {
    let cache = cache(16 * MIB);
    for number in 0..5_000 {
        let (ticket, _, _) = miss(get(&cache, &format!("/{number}"), START));
        drop(ticket);
    }
    let learned = cache.learned(&[16 * MIB], &[]);
    assert_eq!((learned.requests, learned.memory.requests_sampled), (0, 0));
    assert_eq!(learned.memory.points[0].request_hit_ratio, 0.0);
}

#[test]
fn a_loop_that_does_not_fit_is_answered_in_part() {
    // Least-recently-used order has nothing of it; some tactic keeps a part.
    let cache = cache(16 * MIB);
    let mut last = 0;
    for round in 0..60 {
        last = ask(&cache, 0..220, 100_000, round);
    }
    assert!(last > 60, "{last} of 220, {:?}", cache.learned(&[], &[]));
}

#[test]
fn what_the_monitor_takes_is_within_the_limit() {
    for limit in [4 * MIB, 64 * MIB] {
        let cache = cache(limit);
        let before = cache.arena().stats().metadata_bytes;
        assert!(before > 0 && before <= limit / 10);
        ask(&cache, 0..30_000, 0, 0);
        let stats = cache.arena().stats();
        assert!(stats.committed_bytes + stats.metadata_bytes <= limit, "{stats:?}");
    }
}

#[test]
fn small_objects_are_kept_rather_than_large_ones_where_requests_count() {
    let hits = |objective| {
        let cache = cache_with(16 * MIB, Settings { objective, ..Settings::default() });
        let mut hits = 0;
        for round in 0..20 {
            // Small ones fit all together, large ones do not, all are asked for alike.
            hits += ask(&cache, 0..300, 10_000, round);
            ask(&cache, 1_000..1_020, 1_000_000, round);
        }
        hits
    };
    let (requests, bytes) = (hits(Objective::Requests), hits(Objective::Bytes));
    assert!(requests > 5_000, "{requests} of 6000, {bytes} for bytes");
}
