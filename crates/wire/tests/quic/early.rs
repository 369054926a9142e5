//! Data that comes before the handshake is over (0-RTT).

use crate::errors::numbers;
use crate::lossy::SEEDS;
use crate::raw::{Odd, Raw, parameters};
use crate::requests::get;
use crate::seeds;
use crate::world::{Dice, Way, World, early_tls};
use freshet_quic::Ecn;
use freshet_quic::error::code::PROTOCOL_VIOLATION;
use freshet_quic::packet::Kind;
use freshet_quic::parameters::Local;
use rustls::{ClientConfig, ServerConfig};
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(600);

/// A client that was here before, and comes again by `way`.
fn again(seed: u64, way: Way) -> (World, Arc<ServerConfig>) {
    let (client, server) = early_tls();
    let mut first = World::of(seed, Way::GOOD, Local::default(), client.clone(), &server);
    first.run(LIMIT, |world| !world.client.is_handshaking());
    first.ask(0, 100).expect("there is room for one");
    first.run(LIMIT, |world| world.is_done());
    (World::of(seed, way, Local::default(), client, &server), server)
}

#[test]
fn a_request_of_who_was_here_before_is_answered_in_one_round_trip() {
    let (mut world, _) = again(1, Way::GOOD);
    assert!(world.client.has_0rtt());
    world.ask(0, 1000).expect("the limits of before are known");
    world.run(LIMIT, |world| world.is_done());
    assert_eq!(world.now, 2 * Way::GOOD.delay);
    world.run(LIMIT, |world| !world.client.is_handshaking());
    assert!(world.client.accepted_0rtt());
    // What goes on is under the keys of data.
    world.ask(5000, 50_000).expect("there is room for one");
    world.run(LIMIT, |world| world.is_done());
    let server = world.server.as_ref().unwrap();
    assert!(server.is_established() && !server.is_early());
    assert_eq!(world.closed, None);
}

#[test]
fn what_was_recorded_is_taken_once() {
    let (mut world, tls) = again(1, Way::GOOD);
    world.ask(0, 1000).expect("the limits of before are known");
    world.run(LIMIT, |world| world.is_done());
    let mut other = World::of(2, Way::GOOD, Local::default(), early_tls().0, &tls);
    for datagram in world.recorded {
        other.reach_server("198.51.100.7:4000".parse().unwrap(), Ecn::NotEct, datagram);
        let server = other.server.as_mut().unwrap();
        assert!(!server.is_early() && !server.is_established());
        assert_eq!((server.next_event(), server.streams()), (None, 0));
    }
}

#[test]
fn every_byte_of_early_requests_arrives_whatever_happens_on_the_way() {
    let mut early = 0;
    let seeds = seeds::each(SEEDS, |seed| {
        let mut dice = Dice::new(seed + 1);
        let way = Way {
            delay: Duration::from_millis(1 + dice.below(60)),
            jitter: Duration::from_micros(dice.below(20_000)),
            lost: dice.below(150),
            repeated: dice.below(100),
            changed: dice.below(50),
            ..Way::GOOD
        };
        let (mut world, _) = again(seed, way);
        for _ in 0..1 + dice.below(4) {
            let upload = [0, 100, 5000, 50_000][dice.below(4) as usize];
            world.ask(upload, dice.below(60_000) as usize).expect("there is room for some");
        }
        let mut was_early = false;
        world.run(LIMIT, |world| {
            assert_eq!(world.closed, None);
            was_early |= world.server.as_ref().is_some_and(|server| server.is_early());
            world.is_done()
        });
        early += u64::from(was_early);
        world.way = Way { lost: 0, changed: 0, ..way };
        world.pass(Duration::from_secs(5));
        let server = world.server.as_ref().expect("it was there");
        assert_eq!((server.streams(), server.bytes_in_flight()), (0, 0));
    });
    assert!(seeds.is_none_or(|seeds| early > seeds / 2), "{early}");
}

/// A client that was here before and has said its first message.
fn returned() -> Raw {
    let (client, server) = early_tls();
    let new = |client: &ClientConfig| Raw::of(parameters(&[]), &[b"h3"], client.clone(), &server);
    new(&client).shake_hands();
    let mut raw = new(&client);
    let hello = raw.hello();
    raw.is_deaf = true;
    raw.say(Kind::Initial, &hello);
    raw.is_deaf = false;
    assert!(raw.server.quic.is_early());
    raw
}

#[test]
fn frames_that_may_not_come_early() {
    for frames in [
        vec![0x02, 0, 0, 0, 0],
        numbers(6, &[0, 1], &[0]),
        numbers(7, &[1], &[0]),
        numbers(0x19, &[1], &[]),
        vec![0x1b, 1, 2, 3, 4, 5, 6, 7, 8],
        vec![0x1e],
    ] {
        let mut raw = returned();
        raw.packet(Odd::of(Kind::ZeroRtt), &frames);
        assert_eq!(raw.heard.closed, Some((false, PROTOCOL_VIOLATION)), "{frames:x?}");
    }
    let mut raw = returned();
    let request = numbers(0x0b, &[0, get().len() as u64], &[]);
    raw.packet(Odd::of(Kind::ZeroRtt), &[&[1, 0][..], &request, &get()].concat());
    assert_eq!((raw.requests, raw.heard.closed), (1, None));
}

#[test]
fn what_comes_before_the_first_message_is_held_and_bounded() {
    let (client, server) = early_tls();
    let new = || Raw::of(parameters(&[]), &[b"h3"], client.clone(), &server);
    new().shake_hands();
    let mut raw = new();
    let hello = raw.hello();
    let mut request = numbers(0xb, &[0, get().len() as u64], &[]);
    request.extend(get());
    raw.packet(Odd::of(Kind::ZeroRtt), &request);
    for _ in 0..100 {
        raw.packet(Odd { bytes: 1200, ..Odd::of(Kind::ZeroRtt) }, &[1]);
    }
    assert_eq!((raw.requests, raw.heard.datagrams), (0, 0));
    raw.say(Kind::Initial, &hello);
    assert_eq!((raw.requests, raw.heard.closed), (1, None));
}
