//! How much of the memory under the limit is payload.
#![allow(clippy::print_stdout, reason = "the figures are worth reading with `--nocapture`")]

use freshet_store::{Arena, Body, BodyError};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

const LIMIT_BYTES: u64 = 256 << 20;

/// Fills a fresh arena with bodies of these lengths until nothing more fits; returns what memory
/// costs beyond the payload: of the committed frames, and of those with all metadata.
fn overhead(lens: impl FnMut(usize) -> u64, is_known: bool) -> (f64, f64) {
    overhead_of(LIMIT_BYTES, lens, is_known)
}

/// The same of an arena with this limit.
fn overhead_of(limit_bytes: u64, mut lens: impl FnMut(usize) -> u64, is_known: bool) -> (f64, f64) {
    let arena = Arena::new(limit_bytes).expect("address space is free");
    let mut bodies: Vec<Arc<Body>> = Vec::new();
    while fill(&arena, lens(bodies.len()), is_known, &mut bodies) {}
    let payload: u64 = bodies.iter().map(|body| body.held_bytes()).sum();
    let stats = arena.stats();
    assert!(stats.committed_bytes + stats.metadata_bytes <= limit_bytes + 1024, "{stats:?}");
    let over = |bytes: u64| bytes as f64 / payload as f64 - 1.0;
    (over(stats.committed_bytes), over(stats.committed_bytes + stats.metadata_bytes))
}

/// Adds one body, without touching its memory; false when it does not fit any more.
fn fill(arena: &Arc<Arena>, len: u64, is_known: bool, bodies: &mut Vec<Arc<Body>>) -> bool {
    let body = Body::new(arena, is_known.then_some(len));
    let mut writer = body.writer(0, None);
    writer.set_allow_transit(false);
    bodies.push(body);
    while writer.position() < len {
        let left = (len - writer.position()) as usize;
        match writer.poll_reserve(&mut Context::from_waker(Waker::noop()), 16 << 10) {
            Poll::Ready(Ok(room)) => {
                let n = room.len().min(left);
                writer.commit(n);
            }
            Poll::Ready(Err(BodyError::NoMemory)) => return false,
            other => panic!("neither room nor its absence: {:?}", other.map_ok(|room| room.len())),
        }
    }
    writer.finish().is_ok()
}

fn check(name: &str, lens: impl FnMut(usize) -> u64, is_known: bool, max: f64) {
    let (frames, all) = overhead(lens, is_known);
    println!("{name}: {:.2} % in frames, {:.2} % with metadata", frames * 100.0, all * 100.0);
    assert!(all <= max, "{name}: {:.2} % is more than {:.2} %", all * 100.0, max * 100.0);
}

#[test]
fn segments_of_72_kb_cost_at_most_3_percent() {
    check("72,000 B", |_| 72_000, true, 0.03);
    check("72 KiB", |_| 72 << 10, true, 0.03);
    check("50 to 94 KB", |at| 50_000 + at as u64 * 7919 % 44_000, true, 0.03);
}

#[test]
fn objects_of_1_mb_cost_at_most_half_a_percent() {
    check("1,000,000 B", |_| 1_000_000, true, 0.005);
    check("1 MiB", |_| 1 << 20, true, 0.005);
    check("0.7 to 1.3 MB", |at| 700_000 + at as u64 * 79_193 % 600_000, true, 0.005);
}

#[test]
fn bodies_of_unknown_length_cost_little_more() {
    check("1 MB, chunked", |at| 700_000 + at as u64 * 79_193 % 600_000, false, 0.01);
    check("72 KB, chunked", |at| 50_000 + at as u64 * 7919 % 44_000, false, 0.05);
}

/// As [`overhead`], after every body was replaced some times, the oldest first.
fn overhead_in_the_long_run(mut lens: impl FnMut(usize) -> u64, is_known: bool) -> (f64, f64) {
    let arena = Arena::new(64 << 20).expect("address space is free");
    let held: Arc<Mutex<VecDeque<Arc<Body>>>> = Arc::default();
    let evict = held.clone();
    arena.set_reclaim(Box::new(move |bytes| {
        let mut freed = 0;
        while freed < bytes {
            let oldest = evict.lock().expect("no test panics under it").pop_front();
            let Some(oldest) = oldest else { break };
            freed += oldest.clear();
        }
        freed
    }));
    let (mut sum, mut at) = (0, 0);
    while sum < 12 * arena.limit_bytes() {
        let len = lens(at);
        let mut one = Vec::new();
        assert!(fill(&arena, len, is_known, &mut one), "the oldest make room");
        held.lock().expect("no test panics under it").extend(one);
        sum += len;
        at += 1;
    }
    let payload: u64 =
        held.lock().expect("no test panics under it").iter().map(|body| body.held_bytes()).sum();
    let stats = arena.stats();
    held.lock().expect("no test panics under it").clear();
    assert_eq!(arena.stats().used_bytes, 0);
    let over = |bytes: u64| bytes as f64 / payload as f64 - 1.0;
    (over(stats.committed_bytes), over(stats.committed_bytes + stats.metadata_bytes))
}

/// Lengths between two bounds in a fixed random order.
fn mixed(from: u64, to: u64) -> impl FnMut(usize) -> u64 {
    let mut state = 1u64;
    move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        from + (state >> 33) % (to - from)
    }
}

#[test]
fn memory_does_not_crumble_as_bodies_come_and_go() {
    // Beside rounding: what the last eviction freed and nobody has taken yet, some 1 %.
    for (name, from, to, is_known, max) in [
        ("50 to 94 KB", 50_000, 94_000, true, 0.05),
        ("50 to 94 KB, chunked", 50_000, 94_000, false, 0.08),
        ("1 KB to 2 MB", 1_000, 2_000_000, true, 0.06),
        ("1 KB to 2 MB, chunked", 1_000, 2_000_000, false, 0.08),
    ] {
        let (frames, all) = overhead_in_the_long_run(mixed(from, to), is_known);
        println!("{name}: {:.2} % in frames, {:.2} % with all", frames * 100.0, all * 100.0);
        assert!(all <= max, "{name}: {:.2} %", all * 100.0);
    }
}

#[test]
fn small_objects_do_not_take_a_page_each() {
    check("300 B to 3 KB", |at| 300 + at as u64 * 7919 % 2700, true, 0.31);
}

/// The most of the memory that may be neither bytes of objects nor what describes them.
const WASTED_MAX: f64 = 0.06;

/// The part of the memory that is neither, of an arena that is full of bodies of these lengths.
fn wasted(lens: impl FnMut(usize) -> u64) -> f64 {
    let (frames, all) = overhead_of(32 << 20, lens, true);
    frames / (1.0 + all)
}

/// Numbers that follow from a seed.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |end| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end.max(1)
    }
}

/// A length between 64 B and 4 MB, each power of two as often as another. Shorter ones take 64 B.
fn length(random: &mut impl FnMut(u64) -> u64) -> u64 {
    let power = 6 + random(16);
    (1 << power) + random(1 << power)
}

#[test]
fn no_single_size_wastes_much() {
    let mut next = random(1);
    // Where something begins or ends, and in between.
    let edges = (6..22).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]);
    let pages = [1, 2, 3, 5, 9, 17, 25, 86, 103, 129, 171, 200, 255, 257];
    let pages = pages.iter().flat_map(|pages| [pages * 4096 - 127, pages * 4096 + 1]);
    let named = [1025, 3073, 3841, 3969, 7000, 20_000, 100_000, 330_000, 530_000, 700_000];
    let others = std::iter::from_fn(|| Some(length(&mut next))).take(100);
    let mut worst = (0.0, 0);
    for len in edges.chain(pages).chain(named).chain(others) {
        let part = wasted(|_| len);
        assert!(part <= WASTED_MAX, "{len} B: {:.2} %", part * 100.0);
        worst = if part > worst.0 { (part, len) } else { worst };
    }
    println!("of single sizes {} B waste most: {:.2} %", worst.1, worst.0 * 100.0);
}

#[test]
fn no_mixture_of_sizes_wastes_much() {
    let mut worst = 0.0_f64;
    for seed in 0..60 {
        let mut next = random(seed);
        let lens: Vec<u64> = (0..=next(8)).map(|_| length(&mut next)).collect();
        let part = wasted(|_| lens[next(lens.len() as u64) as usize]);
        assert!(part <= WASTED_MAX, "{lens:?}: {:.2} %", part * 100.0);
        worst = worst.max(part);
    }
    println!("of mixtures the worst wastes {:.2} %", worst * 100.0);
}

#[test]
fn single_sizes_do_not_crumble_either() {
    for len in [1025, 7000, 20_000, 100_000, 330_000, 700_000] {
        let (frames, all) = overhead_in_the_long_run(|_| len, true);
        let part = frames / (1.0 + all);
        println!("{len} B in the long run: {:.2} %", part * 100.0);
        assert!(part <= WASTED_MAX, "{len} B: {:.2} %", part * 100.0);
    }
}
