//! One rule of the protocol at a time.

use crate::world::{Way, World};
use freshet_quic::Closed;
use freshet_quic::limits::REST_AFTER;
use freshet_quic::parameters::Local;
use quinn_proto::VarInt;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn asked(answer_bytes: usize) -> World {
    let mut world = World::new(1, Way::GOOD, Local::default());
    world.run(LIMIT, |world| !world.client.is_handshaking());
    world.ask(10, answer_bytes).expect("there is room for one");
    world
}

#[test]
fn a_handshake_takes_one_round_trip_and_a_request_another() {
    let mut world = World::new(1, Way::GOOD, Local::default());
    world.run(LIMIT, |world| !world.client.is_handshaking());
    assert_eq!(world.now, 2 * Way::GOOD.delay);
    // The request goes with the client's last message, and the answer comes with ours.
    world.ask(0, 100).expect("there is room for one");
    world.run(LIMIT, |world| world.is_done());
    assert_eq!(world.now, 4 * Way::GOOD.delay);
}

#[test]
fn who_is_not_known_to_be_there_gets_little() {
    let mut world = World::new(1, Way::GOOD, Local::default());
    world.run(LIMIT, |world| world.server.is_some());
    world.is_cut = true;
    world.pass(Duration::from_secs(120));
    assert!(world.bytes_to_client > 0);
    assert!(world.bytes_to_client <= 3 * world.bytes_to_server, "{}", world.bytes_to_client);
    let server = world.server.as_ref().expect("it was there");
    assert!(server.is_over() && server.closed() == Some(Closed::Idle));
}

#[test]
fn a_client_that_vanishes_is_given_up_and_hears_less_and_less() {
    let mut world = asked(10_000_000);
    world.run(LIMIT, |world| world.asked.values().any(|asked| asked.got.len() > 100_000));
    let before = world.bytes_to_client;
    world.is_cut = true;
    world.pass(Duration::from_secs(120));
    let server = world.server.as_ref().expect("it was there");
    assert!(server.is_over() && server.closed() == Some(Closed::Idle));
    assert!(world.bytes_to_client - before < 1_500_000, "{}", world.bytes_to_client - before);
}

#[test]
fn a_way_that_was_cut_for_a_while_is_used_again() {
    let mut world = asked(3_000_000);
    world.run(LIMIT, |world| world.asked.values().any(|asked| asked.got.len() > 100_000));
    world.is_cut = true;
    world.pass(Duration::from_secs(4));
    world.is_cut = false;
    world.run(LIMIT, |world| world.is_done());
}

#[test]
fn the_window_of_a_way_without_losses_is_used() {
    let mut world = asked(4_000_000);
    world.run(LIMIT, |world| world.is_done());
    // A window of 200,000 bytes for each round trip of 20 ms comes to 10 MB in a second.
    assert!(world.now < Duration::from_millis(700), "{:?}", world.now);
    assert_eq!(world.server.as_ref().expect("it is there").statistics().packets_lost, 0);
}

#[test]
fn keys_are_updated_as_the_client_does() {
    let mut world = asked(3_000_000);
    for round in 1..5 {
        let bytes = round * 400_000;
        world.run(LIMIT, |world| world.asked.values().any(|asked| asked.got.len() > bytes));
        world.client.force_key_update();
        world.pass(Duration::from_millis(300));
    }
    world.run(LIMIT, |world| world.is_done());
}

#[test]
fn keys_are_updated_after_a_rest_too() {
    let mut world = asked(100_000);
    for _ in 0..3 {
        world.run(LIMIT, |world| world.is_done());
        world.pass(2 * REST_AFTER);
        world.client.force_key_update();
        world.ask(0, 100_000).expect("the client may ask");
    }
    world.run(LIMIT, |world| world.is_done());
}

#[test]
fn a_client_is_followed_to_another_port_and_another_address() {
    let mut world = asked(3_000_000);
    for (at, address) in ["198.51.100.7:5000", "203.0.113.9:6000"].into_iter().enumerate() {
        let bytes = (at + 1) * 500_000;
        world.run(LIMIT, |world| world.asked.values().any(|asked| asked.got.len() > bytes));
        world.client_address = address.parse().expect("it is an address");
        if at == 1 {
            world.client.local_address_changed();
        }
        world.pass(Duration::from_secs(1));
    }
    world.run(LIMIT, |world| world.is_done());
    let server = world.server.as_ref().expect("it is there");
    assert_eq!(server.route().remote, world.client_address);
}

#[test]
fn both_sides_can_end_it() {
    let mut world = asked(3_000_000);
    world.run(LIMIT, |world| world.asked.values().any(|asked| asked.got.len() > 100_000));
    let now = world.now;
    world.server.as_mut().expect("it is there").close(0x100, now);
    world.run(LIMIT, |world| world.closed.is_some());
    assert!(world.closed.as_ref().is_some_and(|why| why.contains("256")), "{:?}", world.closed);
    world.pass(Duration::from_secs(5));
    assert!(world.server.as_ref().expect("it was there").is_over());

    let mut world = asked(3_000_000);
    world.run(LIMIT, |world| world.asked.values().any(|asked| asked.got.len() > 100_000));
    let now = std::time::Instant::now();
    world.client.close(now, VarInt::from_u32(77), "enough".into());
    world.pass(Duration::from_secs(5));
    let server = world.server.as_ref().expect("it was there");
    assert_eq!(server.closed(), Some(Closed::ByClient { is_application: true, code: 77 }));
    assert!(server.is_over());
}

#[test]
fn streams_that_are_given_up_make_room() {
    let mut world = World::new(1, Way::GOOD, Local { streams_max: 4, ..Local::default() });
    world.run(LIMIT, |world| !world.client.is_handshaking());
    for _ in 0..40 {
        let mut stream = None;
        world.run(LIMIT, |world| {
            stream = stream.or_else(|| world.ask(10, 1_000_000));
            stream.is_some()
        });
        let stream = stream.expect("it was opened");
        world.run(LIMIT, |world| world.asked[&stream].got.len() > 10_000);
        world.asked.remove(&stream);
        world.client.recv_stream(stream).stop(VarInt::from_u32(5)).expect("it is open");
    }
    world.pass(Duration::from_secs(1));
    assert_eq!(world.server.as_ref().expect("it is there").streams(), 0);
}
