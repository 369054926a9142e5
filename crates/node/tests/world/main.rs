//! Whole nodes in a seeded world: edges and parents with their real sessions, state machine, cache and
//! connections, between clients that ask in all ways and origins that lie, break off and stall; in virtual
//! time, and each world from one seed.
//!
//! An oracle ([`oracle`]) knows what each byte has to be and judges every response: whether it is whole or
//! visibly broken off, of one version, of the right site, for the one who asked, as fresh as its origin
//! wants it, and not from before a purge.
//!
//! `cargo test -p freshet-node --features freshet-node/simulation --test world` runs the first worlds;
//! with `WORLD_SEEDS=10000` more of them, from `WORLD_FIRST` on, and with `WORLD_SEED=7` that one, with its
//! transcript.

mod client;
mod disks;
mod entity;
mod http2;
mod http3;
mod message;
mod nodes;
mod oracle;
mod origin;
mod policy;
mod purging;
mod random;
mod time;
mod way;
mod world;

use world::{Outcome, Size, run};

/// Seeds that are run unless more are asked for.
const SEEDS: u64 = 300;
const SIZE: Size = Size { clients: 6, requests: 25 };

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The end of a transcript.
fn end_of(outcome: &Outcome) -> String {
    let lines = &outcome.transcript;
    lines[lines.len().saturating_sub(number("WORLD_LINES").unwrap_or(60) as usize)..].join("\n")
}

#[test]
fn what_clients_get_is_what_origins_allow() {
    let (first, count) = match number("WORLD_SEED") {
        Some(seed) => (seed, 1),
        None => (number("WORLD_FIRST").unwrap_or(0), number("WORLD_SEEDS").unwrap_or(SEEDS)),
    };
    let (mut requests, mut lasted, mut wrong) = (0, 0, 0);
    for seed in first..first + count {
        let outcome = run(seed, SIZE);
        // The worlds behind a bad one are of interest as well.
        if let Some(what) = &outcome.wrong {
            println!("{}\nseed {seed}: {what}", end_of(&outcome));
            wrong += 1;
        }
        if count == 1 {
            println!("{}", end_of(&outcome));
        }
        requests += outcome.requests;
        lasted += outcome.lasted.as_secs();
    }
    println!("{count} worlds, {wrong} wrong, {requests} requests, {lasted} s of virtual time");
    assert!(requests >= count * SIZE.clients * SIZE.requests / 2, "{requests} requests");
    assert_eq!(wrong, 0, "worlds went wrong; each says its seed above");
}

#[test]
fn a_seed_is_one_world() {
    for seed in 0..20 {
        let (one, other) = (run(seed, SIZE), run(seed, SIZE));
        let differs = one.transcript.iter().zip(&other.transcript).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(one.transcript.len(), other.transcript.len(), "seed {seed}");
    }
}
