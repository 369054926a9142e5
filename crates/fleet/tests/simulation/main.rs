//! A fleet in a seeded world: nodes behind leaves, parents among them, a log, an origin, and all that
//! goes wrong between them. Time is virtual.
//!
//! What must hold, whatever happens:
//! - A node that has said that it carried a purge out answers with nothing older from then on.
//! - One lease after a purge was accepted no node answers with anything older from what it stored,
//!   unless it has just been validated.
//! - When all is well again, all nodes serve, and are at the end of the log.
//!
//! Somebody has recorded what nodes said, and says it again to whoever waits for a purge, also when the log has lost its
//! end and gives the same numbers to others.
//!
//! Purges that the log loses after it accepted them are excepted, and nothing else is.
//!
//! `FLEET_SEEDS=10000 cargo test -p freshet-fleet --test simulation` runs more seeds, `FLEET_SEED=7`
//! one, `FLEET_NODES=10000 FLEET_MINUTES=60` a large world instead of many small ones.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]
#![allow(clippy::print_stderr, reason = "a long run says what it came to")]

mod node;
mod random;
mod schedule;
mod world;

use world::{Size, World};

/// Runs one world; what went wrong in it.
fn run(seed: u64, size: Size) -> Result<World, String> {
    let mut world = World::new(seed, size);
    world.run().map_err(|wrong| format!("seed {seed}: {wrong}"))?;
    Ok(world)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_node_answers_with_what_an_applied_or_fenced_purge_removed() {
    let (first, count) = match number("FLEET_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("FLEET_SEEDS").unwrap_or(300)),
    };
    let mut sums = world::Counts::default();
    for seed in first..first + count {
        let world = run(seed, Size::of_seed(seed)).unwrap_or_else(|wrong| panic!("{wrong}"));
        sums.add(&world.counts);
    }
    eprintln!("{count} worlds: {sums:?}");
    // A world in which nothing happens shows nothing.
    if count >= 100 {
        let at_least = [
            sums.served_stored,
            sums.purges,
            sums.lost_purges,
            sums.distrusts,
            sums.raised,
            sums.read,
            sums.past_parents,
            sums.crashes,
            sums.fenced_answers,
            sums.said_again,
        ];
        assert!(at_least.iter().all(|seen| *seen >= count / 2), "{sums:?}");
    }
}

#[test]
fn a_large_fleet_behind_leaves_keeps_its_promise() {
    let nodes = number("FLEET_NODES").unwrap_or(500);
    let minutes = number("FLEET_MINUTES").unwrap_or(2);
    let size = Size {
        nodes: nodes as usize,
        leaves: (nodes as usize / 200).max(2),
        minutes,
        requests_each_ms: 2_000,
        purge_each_ms: 2_000,
        keys: 100,
    };
    let begun = std::time::Instant::now();
    let world = run(1, size).unwrap_or_else(|wrong| panic!("{wrong}"));
    eprintln!("{nodes} nodes, {minutes} min, in {:?}: {:?}", begun.elapsed(), world.counts);
    assert!(world.counts.served_stored > nodes);
}
