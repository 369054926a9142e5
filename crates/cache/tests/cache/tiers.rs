//! Memory over a disk beside one cache of the size of both.

use freshet_cache::eviction::{Demand, Objective, Tiers};
use freshet_disk::tactic::{TACTICS, Tactic};
use std::collections::{BTreeMap, HashMap};

/// Numbers that look random, the same each time.
fn mix(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn demand(name: u64) -> Demand {
    let fingerprint = mix(name + 1);
    let point = (mix(fingerprint) >> 32) as u32;
    Demand { point, fingerprint, bytes: 1, objective: Objective::Bytes }
}

/// Names whose popularity falls with rank, about as it does with pages, and of ten one that nobody
/// asks for again.
fn pages(count: u64) -> Vec<u64> {
    let name = |time: u64| {
        let unit = (mix(time * 2) >> 11) as f64 / (1_u64 << 53) as f64;
        match mix(time * 2 + 1) % 10 {
            0 => (1 << 40) + time,
            // The rank of a share of requests where popularity falls with rank to the power of 0.8.
            _ => (20_000.0 * unit.powi(5)) as u64,
        }
    };
    (0..count).map(name).collect()
}

/// The same while everything in turn is read once, and again.
fn scanned(count: u64) -> Vec<u64> {
    let mut names = pages(count);
    names.iter_mut().enumerate().filter(|(at, _)| at % 3 == 0).for_each(|(at, name)| {
        *name = (1 << 50) + at as u64 % 20_000;
    });
    names
}

/// What was new is asked for a few times, long after, and then no more.
fn late(count: u64) -> Vec<u64> {
    let name = |time: u64| (time / 3).saturating_sub((mix(time) % 3) * 600);
    (0..count).map(name).collect()
}

/// Misses in 1,000 of one cache that evicts what was used least recently.
fn least_recent(names: &[u64], capacity: usize) -> u64 {
    let (mut used, mut order, mut misses) = (HashMap::new(), BTreeMap::new(), 0);
    for (time, name) in names.iter().enumerate() {
        match used.insert(*name, time) {
            Some(before) => drop(order.remove(&before)),
            None => misses += 1,
        }
        order.insert(time, *name);
        if used.len() > capacity
            && let Some((_, oldest)) = order.pop_first()
        {
            used.remove(&oldest);
        }
    }
    misses * 1000 / names.len() as u64
}

/// Misses in 1,000, and bytes written in 1,000 asked for, of a tenth of memory over a disk.
fn tiers(names: &[u64], capacity: u64, disk: Option<Tactic>) -> (u64, u64) {
    let memory = capacity / 10;
    let beneath = (capacity - memory, 64, capacity);
    let mut tiers = Tiers::new(Objective::Bytes, memory, beneath, disk.ok_or(2048));
    let misses = names.iter().filter(|name| !tiers.request(&demand(**name))).count();
    let (written, all) = (tiers.disk().written(), names.len() as u64);
    (misses as u64 * 1000 / all, (written.admitted_bytes + written.kept_bytes) * 1000 / all)
}

/// The short form of `bench/store/tiers`, which says what comes of public traces.
#[test]
fn memory_over_a_disk_misses_as_little_as_one_cache_of_their_size_and_writes_less_than_a_log() {
    let (count, capacity) = (80_000, 2000);
    let [.., takes_all] = TACTICS;
    let mut table = String::new();
    // Misses in 1,000 more than those of one cache, at most, and percent of what a log writes.
    let mut row = |name: &str, names: &[u64], apart_max: i64, written_max: u64| {
        let lru = least_recent(names, capacity as usize) as i64;
        let (log, log_written) = tiers(names, capacity, Some(takes_all));
        let (measured, written) = tiers(names, capacity, None);
        let (log, apart) = (log as i64 - lru, measured as i64 - lru);
        let percent = written * 100 / log_written;
        table += &format!("{name}: {lru}; log {log:+}, measured {apart:+} for {percent} %\n");
        apart <= apart_max && percent <= written_max
    };
    let good = [
        row("pages", &pages(count), -50, 40),
        row("scanned", &scanned(count), -50, 20),
        row("late", &late(count), 20, 105),
    ];
    assert_eq!(good, [true; 3], "\n{table}");
}
