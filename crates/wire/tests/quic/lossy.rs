//! Seeds that decide what is asked for and what happens on the way.

use crate::mishaps::{Counts, Mishaps};
use crate::seeds;
use crate::world::{Dice, Way, World};
use freshet_quic::Algorithm;
use freshet_quic::parameters::Local;
use quinn_proto::{AckFrequencyConfig, VarInt};
use std::time::Duration;

pub(crate) const SEEDS: u64 = 200;

#[test]
fn every_byte_arrives_whatever_happens_on_the_way() {
    let (mut lost, mut congested) = (0, 0);
    let mut counts = Counts::default();
    let seeds = seeds::each(SEEDS, |seed| {
        let mut dice = Dice::new(seed + 1);
        let is_bad = dice.below(4) > 0;
        let is_near = dice.below(6) == 0;
        let way = Way {
            delay: Duration::from_micros(if is_near { 50 } else { 1000 + dice.below(60_000) }),
            jitter: Duration::from_micros(dice.below(if is_near { 500 } else { 20_000 })),
            lost: if is_bad { dice.below(150) } else { 0 },
            repeated: dice.below(100),
            changed: if is_bad { dice.below(50) } else { 0 },
            congested: [0, 0, 10, 200][dice.below(4) as usize],
            is_bleached: dice.below(4) == 0,
        };
        // A machine that sleeps during the handshake takes the round trip for as long, and for as long waits between two probes.
        let idle_timeout = Duration::from_secs(300);
        let local = Local { streams_max: 10, idle_timeout, ..Local::default() };
        let mut world = match dice.below(3) {
            0 => {
                let mut asks = AckFrequencyConfig::default();
                let number = |number| VarInt::from_u64(number).expect("it is small");
                asks.ack_eliciting_threshold(number(dice.below(100)));
                asks.reordering_threshold(number(dice.below(5)));
                asks.max_ack_delay(Some(Duration::from_millis(1 + dice.below(100))));
                World::that_asks(seed, way, local, asks)
            }
            _ => World::new(seed, way, local),
        };
        world.config.congestion = if seed % 2 == 0 { Algorithm::Cubic } else { Algorithm::Bbr };
        world.piece_bytes = 1 + dice.below(40_000) as usize;
        let requests = 1 + dice.below(30);
        let mut left = requests;
        let mut sizes = Dice::new(seed + 2);
        let mut mishaps = Mishaps::draw(&mut Dice::new(seed + 3));
        world.run(Duration::from_secs(600), |world| {
            mishaps.happen(world, &mut counts);
            while left > 0 {
                let upload = [0, 100, 5000, 400_000][sizes.below(4) as usize];
                let answer = [0, 1, 3000, 20_000, 500_000][sizes.below(5) as usize];
                if world.ask(upload, answer).is_none() {
                    break;
                }
                left -= 1;
            }
            assert_eq!(world.closed, None);
            left == 0 && world.is_done()
        });
        let server = world.server.as_ref().expect("it was there");
        assert_eq!(world.asked.len() as u64, requests);
        lost += server.statistics().packets_lost;
        congested += server.statistics().packets_congested;
        // When the last acknowledgements are there nothing is left.
        world.way = Way { lost: 0, changed: 0, ..way };
        world.is_cut = false;
        world.alarm = None;
        world.pass(Duration::from_secs(15));
        let server = world.server.as_ref().expect("it was there");
        assert_eq!((server.streams(), server.bytes_in_flight()), (0, 0));
        assert!(world.client.stats().frame_rx.new_token > 0);
    });
    let Counts { silences, moves, sleeps } = counts;
    println!("{silences} silences, {moves} moves, {sleeps} sleeps");
    if seeds.is_some() {
        assert!(lost > 0 && congested > 0, "the way was too good");
        assert!(silences > 0 && moves > 0 && sleeps > 0, "nothing happened");
    }
}
