//! What arrives of what is sent without end: over ways that lose, with queues that are long and short, beside
//! others, and beside quinn-proto's own servers.
//!
//! `bench/http3/loss` prints the whole table; with every test a part of it is looked at.

use crate::race::{Bottleneck, Race, Sender};
use freshet_quic::{Algorithm, Statistics};
use quinn_proto::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// 20 Mbit/s.
const RATE: u64 = 2_500_000;
const CUBIC: Sender = Sender::Ours(Algorithm::Cubic);
const BBR: Sender = Sender::Ours(Algorithm::Bbr);

/// A way of so many round trips' worth of queue, in per cent, and of a thousand datagrams so many lost.
fn way(rate: u64, trip_ms: u64, queue_percent: u64, lost: u64) -> Bottleneck {
    let pipe = rate * trip_ms / 1000;
    let queue_bytes = (pipe * queue_percent / 100).max(3 * 1452);
    let trip = Duration::from_millis(trip_ms);
    Bottleneck { rate, trip, queue_bytes, lost, late: 0, late_by: Duration::ZERO }
}

/// Ways on which of a thousand datagrams so many come later, by up to so many milliseconds; and what is left at least of
/// what there is without that.
fn reordering() -> impl Iterator<Item = (Bottleneck, f64)> {
    let ways = [
        (20, 10, 2, 0.95),
        (20, 10, 5, 0.95),
        (20, 100, 5, 0.9),
        (50, 10, 5, 0.95),
        (50, 10, 20, 0.95),
        (50, 100, 40, 0.7),
    ];
    ways.into_iter().map(|(trip_ms, late, late_ms, least)| {
        let late_by = Duration::from_millis(late_ms);
        (Bottleneck { late, late_by, ..way(2 * RATE, trip_ms, 100, 0) }, least)
    })
}

/// The share of a way that one has for itself, in so many seconds after the first five.
fn share(sender: &Sender, way: Bottleneck, seed: u64, seconds: u32) -> f64 {
    let mut race = Race::new(seed, way);
    race.enter(sender);
    race.run(5 * SECOND);
    race.run(seconds * SECOND)[0] / way.rate as f64
}

#[test]
fn a_way_without_losses_is_filled_by_both() {
    for (trip_ms, queue_percent) in [(5, 200), (50, 100), (200, 100)] {
        let way = way(RATE, trip_ms, queue_percent, 0);
        for sender in [CUBIC, BBR] {
            let share = share(&sender, way, 1, 10);
            assert!(share > 0.8, "{share} of {way:?}");
        }
    }
}

#[test]
fn bbr_bears_losses_that_cubic_does_not() {
    let way = way(RATE, 50, 100, 10);
    let [cubic, bbr] = [CUBIC, BBR].map(|sender| share(&sender, way, 2, 15));
    assert!(bbr > 0.7 && bbr > 2.0 * cubic, "{bbr} beside {cubic}");
}

#[test]
fn bbr_fills_what_has_a_short_queue() {
    let share = share(&BBR, way(RATE, 50, 10, 0), 3, 15);
    assert!(share > 0.75, "{share}");
}

#[test]
fn what_doubles_and_halves_is_found() {
    for sender in [CUBIC, BBR] {
        let mut race = Race::new(4, way(RATE, 30, 100, 0));
        race.enter(&sender);
        race.run(5 * SECOND);
        race.way = way(2 * RATE, 30, 100, 0);
        race.run(10 * SECOND);
        let doubled = race.run(5 * SECOND)[0] / (2 * RATE) as f64;
        race.way = way(RATE, 30, 100, 0);
        race.run(5 * SECOND);
        let halved = race.run(5 * SECOND)[0] / RATE as f64;
        assert!(doubled > 0.8 && halved > 0.8, "{doubled}, {halved}");
    }
}

#[test]
fn what_only_comes_later_is_not_taken_for_lost_for_long() {
    for (name, sender) in [("CUBIC", CUBIC), ("BBR", BBR)] {
        for (way, least) in reordering() {
            let in_order = share(&sender, Bottleneck { late: 0, ..way }, 7, 5);
            let late = share(&sender, way, 7, 5);
            println!("{name}: {late:.3} beside {in_order:.3} of {way:?}");
            assert!(late > least * in_order, "{name}: {late} beside {in_order} of {way:?}");
        }
    }
}

/// How long it takes until so many bytes have arrived, to 10 ms, and what was counted until then.
fn takes(sender: &Sender, way: Bottleneck, seed: u64, bytes: u64) -> (Duration, Statistics) {
    let mut race = Race::new(seed, way);
    let flow = race.enter(sender);
    while race.flows[flow].received < bytes {
        race.run(SECOND / 100);
        assert!(race.now < 60 * SECOND, "it does not end");
    }
    (race.now, race.flows[flow].counted())
}

#[test]
fn what_only_comes_later_lets_a_download_begin_as_fast() {
    for (late, late_ms) in [(10, 5), (10, 20), (100, 20)] {
        let way = way(4 * RATE, 50, 100, 0);
        let (in_order, counted) = takes(&CUBIC, way, 1, 5_000_000);
        println!("{in_order:?} in order: {counted:?}");
        let way = Bottleneck { late, late_by: Duration::from_millis(late_ms), ..way };
        for seed in 1..=8 {
            let (took, counted) = takes(&CUBIC, way, seed, 5_000_000);
            println!("{took:?} beside {in_order:?} of {way:?}: {counted:?}");
            assert!(took < in_order * 14 / 10, "{took:?} beside {in_order:?} of {way:?}");
            assert!(counted.packets_late > 0, "{counted:?} of {way:?}");
        }
    }
}

#[test]
fn what_is_lost_counts_as_much_where_others_come_later() {
    for way in [10, 50].map(|lost| way(RATE, 50, 100, lost)) {
        let lost = share(&CUBIC, way, 8, 15);
        let late_by = Duration::from_millis(10);
        let both = share(&CUBIC, Bottleneck { late: 20, late_by, ..way }, 8, 15);
        println!("{both:.3} beside {lost:.3} of {way:?}");
        assert!(both > 0.6 * lost && both < 1.5 * lost, "{both} beside {lost} of {way:?}");
    }
}

#[test]
fn two_share_a_way() {
    // A queue of two round trips is what CUBIC fills and BBR does not; a short one is what CUBIC does not
    // fill. Nobody is starved: a tenth is what is left of a half under five times the harm of one's like.
    for (queue_percent, senders) in
        [(100, [CUBIC, BBR]), (200, [CUBIC, BBR]), (100, [BBR, BBR]), (100, [CUBIC, CUBIC])]
    {
        let mut race = Race::new(5, way(2 * RATE, 40, queue_percent, 0));
        for sender in &senders {
            race.enter(sender);
            race.run(2 * SECOND);
        }
        race.run(10 * SECOND);
        let shares = race.run(20 * SECOND);
        let sum: f64 = shares.iter().sum();
        assert!(sum > 0.85 * (2 * RATE) as f64, "{shares:?} in {queue_percent}");
        for share in &shares {
            assert!(share / sum > 0.1, "{shares:?} in {queue_percent}");
        }
    }
}

#[test]
fn who_has_little_to_send_has_all_of_it_sent_and_more_when_there_is_more() {
    for sender in [CUBIC, BBR] {
        let mut race = Race::new(6, way(RATE, 50, 100, 0));
        let flow = race.enter(&sender);
        race.flows[flow].supply = 0;
        let mut received = 0.0;
        for _ in 0..100 {
            // A tenth of what could be.
            race.flows[flow].supply += RATE / 100;
            received += race.run(SECOND / 10)[0] / 10.0;
        }
        assert!(received > 0.95 * RATE as f64, "{received}");
        race.flows[flow].supply = u64::MAX;
        race.run(3 * SECOND);
        let share = race.run(5 * SECOND)[0] / RATE as f64;
        assert!(share > 0.8, "{share}");
    }
}

/// Set for the whole table: how many seeds each way has.
const LONG: &str = "FRESHET_QUIC_GOODPUT";

#[test]
fn goodput_beside_others() {
    let long = std::env::var(LONG).ok().and_then(|seeds| seeds.parse::<u64>().ok());
    let senders: [(&str, Sender); 5] = [
        ("Freshet CUBIC", CUBIC),
        ("Freshet BBR", BBR),
        ("quinn CUBIC", Sender::Theirs(Arc::new(CubicConfig::default()))),
        ("quinn NewReno", Sender::Theirs(Arc::new(NewRenoConfig::default()))),
        ("quinn BBR", Sender::Theirs(Arc::new(BbrConfig::default()))),
    ];
    let ways: Vec<Bottleneck> = match long {
        None => vec![way(RATE, 50, 100, 10), way(RATE, 50, 100, 50)],
        Some(_) => {
            // More lost at once, as where slow start ends on a longer way, are too many gaps for the client.
            let slow = [(5, 200), (50, 10), (50, 100), (50, 400), (200, 100)].map(|it| (RATE, it));
            let fast = [(5, 200), (50, 10), (50, 100)].map(|it| (5 * RATE, it));
            let mut ways = Vec::new();
            for (rate, (trip_ms, queue_percent)) in slow.into_iter().chain(fast) {
                ways.extend([0, 10, 50].map(|lost| way(rate, trip_ms, queue_percent, lost)));
            }
            ways
        }
    };
    let names: Vec<&str> = senders.iter().map(|(name, _)| *name).collect();
    println!("| Mbit/s | RTT ms | queue KB | loss % | {} |", names.join(" | "));
    println!("|{}", "---:|".repeat(4 + senders.len()));
    for way in ways {
        let seeds = long.unwrap_or(1);
        let seconds = if long.is_some() { 20 } else { 10 };
        let mbits = |sender: &Sender| {
            let shares = (0..seeds).map(|seed| share(sender, way, seed, seconds));
            shares.sum::<f64>() / seeds as f64 * way.rate as f64 * 8.0 / 1e6
        };
        let found: Vec<f64> = senders.iter().map(|(_, sender)| mbits(sender)).collect();
        let cells: Vec<String> = found.iter().map(|mbits| format!("{mbits:.1}")).collect();
        let Bottleneck { rate, trip, queue_bytes, lost, .. } = way;
        println!(
            "| {} | {} | {} | {} | {} |",
            rate * 8 / 1_000_000,
            trip.as_millis(),
            queue_bytes / 1000,
            lost as f64 / 10.0,
            cells.join(" | ")
        );
        let [cubic, bbr, others @ ..] = &found[..] else { unreachable!("there are five") };
        if lost > 0 {
            // Who is chosen for losses is not below those that take every loss for too much.
            let most = cubic.max(others[0]).max(others[1]);
            assert!(*bbr >= 0.9 * most, "{found:?}");
        }
    }
}
