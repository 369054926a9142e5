//! Ways that take less than they did.

use crate::world::{Way, World};
use freshet_quic::parameters::Local;
use std::time::Duration;

/// A client that gets a large body, over a way that takes datagrams of 1,300 bytes at most from the middle of it on.
fn narrowed(seed: u64) -> World {
    let mut world = World::new(seed, Way::GOOD, Local { streams_max: 1000, ..Local::default() });
    world.run(Duration::from_secs(30), |world| !world.client.is_handshaking());
    let large = world.ask(0, 20_000_000).expect("there is room");
    world.run(Duration::from_secs(30), |world| world.asked[&large].got.len() > 5_000_000);
    world.most_bytes = 1300;
    world
}

#[test]
fn a_body_goes_on_where_larger_datagrams_arrive_no_more() {
    let mut world = narrowed(1);
    world.run(Duration::from_secs(30), |world| world.is_done());
}

/// What is small arrives, so that something is always heard.
#[test]
fn a_body_goes_on_there_while_small_answers_arrive() {
    for every_ms in [7, 20, 50, 200] {
        let mut world = narrowed(2);
        let (end, mut next) = (world.now + Duration::from_secs(30), world.now);
        let large = *world.asked.keys().next().expect("it was asked for");
        while !world.asked[&large].is_done {
            // Where nothing goes on there is no room for more at last.
            let _ = world.ask(0, 100);
            next += Duration::from_millis(every_ms);
            world.pass(next - world.now);
            let got = world.asked[&large].got.len();
            assert!(world.now < end, "asked every {every_ms} ms: {got} bytes");
        }
        let small = world.asked.values().filter(|asked| asked.is_done).count();
        assert!(small > 1, "{small}");
    }
}
