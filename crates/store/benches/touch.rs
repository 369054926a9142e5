//! What it costs a thread to fill memory that is fresh, and memory that was made ready before.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench has nobody to tell")]

use freshet_store::Arena;
use std::sync::Arc;
use std::time::Duration;

const ARENA_BYTES: u64 = 512 << 20;
const ROUNDS: usize = 5;

/// What this thread has had of the processor so far, in the kernel too.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Nanoseconds for each KiB that is copied into all of a fresh arena.
fn fill(is_ready: bool) -> f64 {
    let arena = Arena::new(ARENA_BYTES).unwrap();
    if is_ready {
        let _ahead = arena.keep_ready(u64::MAX).unwrap();
        let mut before = u64::MAX;
        // All that the limit has room for.
        while std::mem::replace(&mut before, committed(&arena)) != committed(&arena) {
            std::thread::sleep(Duration::from_millis(500));
        }
    }
    let source = vec![7; 64 << 10];
    let begun = processor_time();
    let mut pieces = Vec::new();
    while let Some(mut piece) = arena.allocate(source.len()) {
        piece.spare()[..source.len()].copy_from_slice(&source);
        pieces.push(piece);
    }
    let took = processor_time() - begun;
    took.as_nanos() as f64 / (pieces.len() * source.len() / 1024) as f64
}

fn committed(arena: &Arc<Arena>) -> u64 {
    arena.stats().committed_bytes
}

fn main() {
    for (name, is_ready) in [("fresh", false), ("ready", true)] {
        let rounds = (0..ROUNDS).map(|_| fill(is_ready));
        let least = rounds.fold(f64::INFINITY, f64::min);
        println!("{name}: {least:.1} ns/KiB, the best of {ROUNDS}");
    }
}
