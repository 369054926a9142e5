//! What limits cost a request.
//!
//! `cargo bench -p freshet-limits`: the bound is 100 ns for a request of one of a million keys, its
//! key hashed, with the table in memory and not in the processor's caches. What the machine's memory takes of
//! it stands beside: one word of as large a table, chosen in the same way and changed in the same way.

use criterion::{Criterion, criterion_group, criterion_main};
use freshet_limits::{Block, Blocks, Cause, Counts, Rate, Rates, Secret, Ticks};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Words of a cache line.
const LINE: usize = 8;

fn requests(criterion: &mut Criterion) {
    let secret = Secret::from_bytes([5; 16]);
    let rate = Rate::parse("100/s", None).expect("it is a rate");
    let rates = Rates::new(1_000_000);
    let mut now = 0_u64;
    // A step through all keys in an order that no prefetcher follows.
    let mut number = 0_u64;
    let mut next = || {
        number =
            number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (number >> 33) % 1_000_000
    };
    criterion.bench_function("one_of_a_million_keys", |bencher| {
        bencher.iter(|| {
            now += 8;
            let key = secret.key(1, &u128::from(next()).to_le_bytes());
            black_box(rates.take(key, &rate, Ticks(now)))
        });
    });
    let memory: Vec<AtomicU64> = (0..rates.bytes() / 8).map(|_| AtomicU64::new(0)).collect();
    criterion.bench_function("a_word_of_memory_as_far_away", |bencher| {
        bencher.iter(|| {
            let key = secret.key(1, &u128::from(next()).to_le_bytes()) as usize;
            let word = &memory[key % (memory.len() / LINE) * LINE];
            let old = word.load(Relaxed);
            black_box(word.compare_exchange_weak(old, old + 1, Relaxed, Relaxed))
        });
    });
    criterion.bench_function("the_same_key", |bencher| {
        bencher.iter(|| {
            now += 8;
            black_box(rates.take(secret.key(1, &7_u128.to_le_bytes()), &rate, Ticks(now)))
        });
    });
    let counts = Counts::new(1 << 18);
    criterion.bench_function("a_request_under_way", |bencher| {
        bencher
            .iter(|| black_box(counts.enter(secret.key(2, &u128::from(next()).to_le_bytes()), 9)));
    });
    let blocks = Blocks::default();
    let address = "192.0.2.77".parse().expect("it is an address");
    criterion.bench_function("nobody_is_blocked", |bencher| {
        bencher.iter(|| black_box(blocks.find(address, Some("site"), 1)));
    });
    for number in 0..50_000_u32 {
        let network = std::net::Ipv4Addr::from_bits(number << 8).into();
        let cause = Cause::Limit("l".into());
        let block = Block { network, site: Some("site".into()), until_ms: 9, cause };
        blocks.add(block, 0).expect("there is room");
    }
    criterion.bench_function("among_50000_blocked_networks", |bencher| {
        bencher.iter(|| black_box(blocks.find(address, Some("site"), 1)));
    });
}

criterion_group!(benches, requests);
criterion_main!(benches);
