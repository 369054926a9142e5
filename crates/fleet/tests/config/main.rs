//! The configuration of a fleet: bundles, and roll-outs in a seeded world where nodes refuse, fare
//! worse, die and fall silent, two operators and two drivers act at once, and all that is said comes
//! late or not at all. Time is virtual.
//!
//! What must hold, whatever happens:
//! - A stage opens only when each node of the stages before has kept the version.
//! - No node tries again what it has refused, or died of.
//! - When all is well again, no node runs what it refused, and each runs what its group's document says
//!   unless it refused that.
//!
//! `FLEET_SEEDS=100000 cargo test -p freshet-fleet --test config` runs more seeds, `FLEET_SEED=7` one.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]
#![allow(clippy::print_stderr, reason = "a long run says what it came to")]

mod bundle;
mod health;
#[path = "../simulation/random.rs"]
mod random;
mod world;

use world::{Seen, World};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_version_goes_no_further_than_its_health_is_confirmed_and_nobody_stays_on_a_bad_one() {
    let (first, count) = match number("FLEET_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("FLEET_SEEDS").unwrap_or(2000)),
    };
    let mut sums = Seen::default();
    for seed in first..first + count {
        let mut world = World::new(seed);
        world.run().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        sums.add(&mut world.seen);
    }
    eprintln!("{count} worlds: {sums:?}");
    // A world in which nothing happens shows nothing.
    if count >= 100 {
        assert!(sums.least() >= count / 4, "{sums:?}");
    }
}
