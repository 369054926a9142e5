//! How a client is followed to other addresses, or not.

use crate::errors::numbers;
use crate::raw::{Odd, Raw};
use crate::requests::get;
use crate::world::{Way, World};
use freshet_quic::packet::Kind;
use freshet_quic::parameters::Local;
use freshet_quic::{Closed, Id};
use std::net::SocketAddr;
use std::time::Duration;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A client with ids in reserve.
fn connected() -> Raw {
    let mut raw = Raw::connected();
    for at in 1..4_u8 {
        let frame = numbers(0x18, &[at.into(), 0], &[&[8][..], &[at; 8], &[at; 16]].concat());
        raw.frames(&frame);
    }
    raw.heard = Default::default();
    raw
}

const CHALLENGE: [u8; 9] = [0x1a, 1, 2, 3, 4, 5, 6, 7, 8];
const BYTES: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

#[test]
fn a_way_that_a_client_tries_is_answered_there_and_not_gone_to() {
    let mut raw = connected();
    let (home, other) = (raw.address, address("203.0.113.9:6000"));
    raw.address = other;
    // An acknowledgement from there would say that it has moved.
    raw.acknowledges = false;
    raw.packet(Odd { bytes: 1200, ..Odd::of(Kind::OneRtt) }, &CHALLENGE);
    assert_eq!(raw.heard.responses, [(other, BYTES, 1200)]);
    assert_eq!(raw.server.quic.route().remote, home);
    // For an id of its own, so that nobody sees that both ways are one connection's.
    let there = raw.heard.receivers.iter().filter(|(to, _)| *to == other);
    let ids: Vec<Id> = there.map(|(_, id)| *id).collect();
    assert!(!ids.is_empty() && ids.iter().all(|id| *id == Id::new(&[1; 8]).unwrap()), "{ids:?}");
    // Then it goes there, and that id is the one that is used.
    raw.heard = Default::default();
    raw.packet(Odd { bytes: 1200, ..Odd::of(Kind::OneRtt) }, &[1]);
    assert_eq!(raw.server.quic.route().remote, other);
    let asked = raw.heard.challenges.iter().find(|asked| asked.0 == other).copied();
    let (_, bytes, size) = asked.expect("it is asked whether it is there");
    assert_eq!(size, 1200);
    // And where it was before, it is asked to speak.
    assert!(raw.heard.challenges.iter().any(|asked| asked.0 == home && asked.2 == 1200));
    for (to, id) in &raw.heard.receivers {
        let want = if *to == other { Id::new(&[1; 8]).unwrap() } else { crate::raw::own() };
        assert_eq!(*id, want, "{to}");
    }
    raw.frames(&[&[0x1b][..], &bytes].concat());
    raw.pass(Duration::from_secs(2));
    assert_eq!((raw.server.quic.route().remote, raw.heard.closed), (other, None));
}

#[test]
fn a_small_datagram_gets_three_times_its_bytes_where_nobody_is_known_to_be() {
    let mut raw = connected();
    raw.address = address("203.0.113.9:6000");
    let mut datagram = raw.sealed(Odd::of(Kind::OneRtt), &CHALLENGE);
    let bytes = datagram.len();
    raw.bring(&mut datagram);
    let (_, _, size) = raw.heard.responses[0];
    assert!(size <= 3 * bytes, "{size} for {bytes}");
}

#[test]
fn a_client_that_gets_little_is_asked_in_all_of_it_whether_it_is_there() {
    let mut raw = connected();
    raw.acknowledges = false;
    let there = address("203.0.113.9:6000");
    raw.address = there;
    raw.stream(0, 0, &get(), true);
    for _ in 0..6 {
        raw.frames(&[1]);
    }
    let datagrams = raw.heard.receivers.iter().filter(|(to, _)| *to == there).count();
    let asked = raw.heard.challenges.iter().filter(|(to, ..)| *to == there).count();
    assert!(datagrams >= 4, "{datagrams}");
    assert_eq!(asked, datagrams);
}

#[test]
fn a_client_that_was_not_heard_hears_soon_where_it_is_now() {
    let mut raw = connected();
    raw.acknowledges = false;
    raw.stream(0, 0, &get(), true);
    raw.pass(Duration::from_secs(10));
    let probes = raw.server.quic.statistics().probes;
    assert!(probes > 4, "{probes}");
    // How long it takes there is not known, and that nothing came back elsewhere says nothing of it.
    raw.address = address("203.0.113.9:6000");
    raw.frames(&[1]);
    raw.pass(Duration::from_millis(1200));
    assert_eq!(raw.server.quic.statistics().probes, probes + 1);
}

#[test]
fn a_client_that_knows_nothing_of_it_any_more_is_believed_where_it_is_spoken_to() {
    let mut raw = connected();
    let reset = |token: u8, bytes: usize| [vec![0x41; bytes], vec![token; 16]].concat();
    // No packet was for any of these ids yet.
    for token in 1..4 {
        raw.bring(&mut reset(token, 25));
    }
    assert_eq!((raw.server.quic.closed(), raw.server.quic.take_reset_tokens()), (None, None));
    let there = address("203.0.113.9:6000");
    raw.address = there;
    raw.frames(&[1]);
    let tokens = raw.server.quic.take_reset_tokens().expect("the id of there has one");
    assert_eq!((tokens.new, tokens.gone), (vec![[1; 16]], vec![]));
    raw.address = address("203.0.113.10:6000");
    raw.bring(&mut reset(1, 25));
    raw.address = there;
    raw.bring(&mut reset(2, 25));
    raw.bring(&mut reset(1, 4));
    assert_eq!(raw.server.quic.closed(), None);
    raw.stream(0, 0, &get(), true);
    raw.heard = Default::default();
    raw.bring(&mut reset(1, 5));
    assert_eq!(raw.server.quic.closed(), Some(Closed::ByReset));
    // It has nobody to say anything to.
    raw.pass(Duration::from_secs(20));
    assert_eq!((raw.heard.datagrams, raw.server.quic.is_over()), (0, true));
}

#[test]
fn who_repeats_a_packet_from_elsewhere_keeps_nobody_from_being_heard() {
    let mut raw = connected();
    let home = raw.address;
    for round in 0..8 {
        raw.address = address(&format!("203.0.113.9:{}", 6000 + round));
        raw.frames(&[1]);
        assert_eq!(raw.server.quic.route().remote, raw.address);
        raw.address = home;
        raw.frames(&[1]);
        assert_eq!(raw.server.quic.route().remote, home);
    }
    // Or says nothing more: it was never there.
    raw.address = address("203.0.113.10:7000");
    raw.frames(&[1]);
    raw.address = home;
    raw.pass(Duration::from_secs(10));
    assert_eq!((raw.server.quic.route().remote, raw.heard.closed), (home, None));
}

#[test]
fn many_ways_that_are_tried_have_an_end() {
    let mut raw = connected();
    raw.acknowledges = false;
    for round in 0..2000_u32 {
        raw.address = SocketAddr::from((std::net::Ipv4Addr::from(0xcb00_7100 + round % 256), 7));
        raw.packet(Odd { bytes: 1200, ..Odd::of(Kind::OneRtt) }, &CHALLENGE);
        if raw.heard.closed.is_some() {
            break;
        }
    }
    assert!(raw.heard.closed.is_some(), "it goes on for ever");
    // An answer for each id that the client has given, and none without.
    assert_eq!(raw.heard.responses.len(), 3);
}

/// Whoever the network gives another port while the handshake goes on.
#[test]
fn a_client_is_answered_at_the_port_its_handshake_goes_on_at() {
    for after in [1, 2, 3] {
        let mut world = World::new(after, Way::GOOD, Local::default());
        // The first message, the answer to it, or that to both is at the old port or on its way there.
        world.pass(Way::GOOD.delay * after as u32 - Duration::from_millis(1));
        let port = world.client_address.port();
        world.client_address.set_port(port + 1);
        world.run(Duration::from_secs(10), |world| !world.client.is_handshaking());
        world.ask(0, 100_000).unwrap();
        world.run(Duration::from_secs(10), |world| world.is_done());
        let server = world.server.as_ref().unwrap();
        assert_eq!(server.route().remote, world.client_address);
        assert!(world.bytes_to_client > 100_000);
    }
}

#[test]
fn who_is_elsewhere_before_the_handshake_is_over_draws_no_answer_there() {
    let mut world = World::new(7, Way::GOOD, Local::default());
    world.pass(Way::GOOD.delay / 2);
    let home = world.client_address;
    world.client_address = address("203.0.113.9:6000");
    world.pass(Duration::from_secs(5));
    assert_eq!(world.server.as_ref().unwrap().route().remote, home);
}

/// What is on its way to where it was is lost, and the node does not know yet that it is where it went to first.
#[test]
fn a_client_that_moves_twice_at_once_is_found_where_it_stays() {
    for seed in 0..24_u64 {
        let delay = Duration::from_micros([100, 1000, 10_000][seed as usize % 3]);
        let is_elsewhere = seed % 2 == 1;
        let mut world = World::new(seed, Way { delay, ..Way::GOOD }, Local::default());
        world.run(Duration::from_secs(10), |world| !world.client.is_handshaking());
        world.ask(0, 3_000_000).unwrap();
        for round in 0..40_u8 {
            for stay in [Duration::from_millis(30), Duration::from_micros(1000 + seed * 10)] {
                world.pass(stay);
                let port = world.client_address.port();
                let ip = [198, 51, if is_elsewhere { round } else { 100 }, 7];
                world.client_address = (ip, port + 1).into();
                world.client.local_address_changed();
            }
        }
        let (moved, got) = (world.now, world.asked.values().next().unwrap().got.len());
        world.pass(Duration::from_secs(5));
        let server = world.server.as_ref().unwrap();
        assert_eq!((world.closed.as_ref(), server.closed()), (None, None), "seed {seed}");
        assert_eq!(server.route().remote, world.client_address, "seed {seed}, {got} at {moved:?}");
        assert!(world.is_done(), "seed {seed}, {got} at {moved:?}");
    }
}

#[test]
fn a_way_that_was_asked_by_little_is_asked_whether_it_takes_what_is_full() {
    for answers in [true, false] {
        let mut raw = connected();
        let (home, other) = (raw.address, address("203.0.113.9:6000"));
        raw.address = other;
        raw.acknowledges = false;
        raw.frames(&[1]);
        let asked = |raw: &Raw| {
            let last = raw.heard.challenges.iter().rfind(|asked| asked.0 == other).copied();
            last.map(|(_, bytes, size)| (bytes, size)).expect("it is asked")
        };
        let (bytes, size) = asked(&raw);
        assert!(size < 1200, "{size}");
        raw.frames(&[&[0x1b][..], &bytes].concat());
        assert_eq!(raw.server.quic.known_route().remote, other);
        let (again, size) = asked(&raw);
        assert!(again != bytes && size == 1200, "{size}");
        if answers {
            raw.frames(&[&[0x1b][..], &again].concat());
        }
        raw.pass(Duration::from_secs(10));
        assert_eq!(raw.server.quic.route().remote, if answers { other } else { home });
    }
}
