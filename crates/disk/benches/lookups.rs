//! Look-ups a second in the index of a disk, on one core, in no order the processor could foresee.
#![allow(clippy::unwrap_used, reason = "a bench has nobody to tell")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use freshet_disk::bench::Lookups;
use std::hint::black_box;

/// Of the numbers asked for: coprime to the entries, so that all are met before one comes again.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// How many look-ups before its own a resource is announced: as many as a worker has requests in one
/// turn of its loop.
const AHEAD: u64 = 8;

fn lookups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("look-up");
    group.throughput(Throughput::Elements(1));
    for entries in [100_000, 1_000_000, 10_000_000] {
        let index = Lookups::new(entries).unwrap();
        assert!(index.entries() > entries * 999 / 1000, "{} entries", index.entries());
        let mut number = 0u64;
        group.bench_function(BenchmarkId::new("announced", entries), |bencher| {
            bencher.iter(|| {
                number = number.wrapping_add(STEP);
                index.prefetch(number.wrapping_add(AHEAD.wrapping_mul(STEP)) >> 20);
                black_box(index.look_up(number >> 20))
            });
        });
        group.bench_function(BenchmarkId::new("there", entries), |bencher| {
            bencher.iter(|| {
                number = number.wrapping_add(STEP);
                black_box(index.look_up(number >> 20))
            });
        });
    }
}

criterion_group!(benches, lookups);
criterion_main!(benches);
