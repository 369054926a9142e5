//! Fewer acknowledgements, both ways (draft-ietf-quic-ack-frequency).

use crate::raw::Raw;
use crate::world::{Way, World};
use freshet_quic::Frequency;
use freshet_quic::error::code::PROTOCOL_VIOLATION;
use freshet_quic::frame::write_ack_frequency;
use freshet_quic::parameters::Local;
use quinn_proto::{AckFrequencyConfig, VarInt};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const MS: Duration = Duration::from_millis(1);

#[test]
fn a_client_that_gets_much_acknowledges_less_and_gets_it_as_soon() {
    let mut world = World::new(1, Way::GOOD, Local::default());
    world.run(LIMIT, |world| !world.client.is_handshaking());
    world.ask(10, 6_000_000).expect("there is room for one");
    world.run(LIMIT, |world| world.is_done());
    let stats = world.client.stats();
    let (packets, acks) = (stats.udp_rx.datagrams, stats.frame_tx.acks);
    assert!(stats.frame_rx.ack_frequency > 0 && stats.frame_rx.ack_frequency < 10, "{stats:?}");
    // Not every second one: some go with what lets more come.
    assert!(packets > 6 * acks, "{packets} {acks}");
    // A window of 200,000 bytes for each round trip of 20 ms comes to 10 MB in a second.
    assert!(world.now < 900 * MS, "{:?}", world.now);
    let server = world.server.as_mut().expect("it is there");
    assert_eq!(server.statistics().packets_lost, 0);
    assert_eq!(server.take_marks().frequencies_asked, stats.frame_rx.ack_frequency);
}

#[test]
fn a_client_that_gets_little_is_left_alone() {
    let mut world = World::new(1, Way::GOOD, Local::default());
    world.run(LIMIT, |world| !world.client.is_handshaking());
    world.ask(10, 5_000).expect("there is room for one");
    world.run(LIMIT, |world| world.is_done());
    assert_eq!(world.client.stats().frame_rx.ack_frequency, 0);
}

/// Acknowledgements of an upload of 2 MB.
fn acknowledged(asks: Option<(u32, Duration)>) -> u64 {
    let mut world = match asks {
        Some((threshold, delay_max)) => {
            let mut asks = AckFrequencyConfig::default();
            asks.ack_eliciting_threshold(VarInt::from_u32(threshold));
            asks.max_ack_delay(Some(delay_max));
            World::that_asks(1, Way::GOOD, Local::default(), asks)
        }
        None => World::new(1, Way::GOOD, Local::default()),
    };
    world.run(LIMIT, |world| !world.client.is_handshaking());
    world.ask(2_000_000, 10).expect("there is room for one");
    world.run(LIMIT, |world| world.is_done());
    world.client.stats().frame_rx.acks
}

#[test]
fn a_client_that_sends_much_is_acknowledged_as_it_asks() {
    let usual = acknowledged(None);
    let seldom = acknowledged(Some((20, 20 * MS)));
    assert!(seldom * 5 < usual, "{seldom} {usual}");
    let each = acknowledged(Some((0, 20 * MS)));
    assert!(each * 2 > usual * 3, "{each} {usual}");
}

/// A client that has asked for `asked`, and everything before is acknowledged to.
fn that_asks(asked: Frequency) -> Raw {
    let mut raw = Raw::connected();
    raw.acknowledges = false;
    let mut frame = Vec::new();
    write_ack_frequency(7, &asked, &mut frame);
    raw.frames(&frame);
    raw.pass(asked.delay_max);
    raw.heard.acks = 0;
    raw
}

#[test]
fn an_acknowledgement_waits_as_long_as_is_asked_and_no_longer() {
    let asked = Frequency { threshold: 5, delay_max: 200 * MS, reordering: 3 };
    let mut raw = that_asks(asked);
    (0..5).for_each(|_| raw.frames(&[1]));
    raw.pass(190 * MS);
    assert_eq!(raw.heard.acks, 0);
    raw.pass(20 * MS);
    assert_eq!(raw.heard.acks, 1);
    (0..5).for_each(|_| raw.frames(&[1]));
    assert_eq!(raw.heard.acks, 1);
    raw.frames(&[1]);
    assert_eq!(raw.heard.acks, 2);
    // At once where that is said.
    raw.frames(&[1]);
    assert_eq!(raw.heard.acks, 2);
    raw.frames(&[0x1f]);
    assert_eq!((raw.heard.acks, raw.heard.closed), (3, None));
    // What was said before counts no more.
    let mut frame = Vec::new();
    write_ack_frequency(6, &Frequency { threshold: 0, ..asked }, &mut frame);
    raw.frames(&frame);
    assert_eq!((raw.heard.acks, raw.heard.closed), (3, None));
    assert_eq!(raw.server.quic.take_marks().frequencies_obeyed, 2);
}

#[test]
fn who_wants_more_and_more_acknowledgements_is_sent_away() {
    let mut raw = Raw::connected();
    raw.acknowledges = false;
    raw.frames(&[0x1f; 1000]);
    assert_eq!(raw.heard.closed, None);
    raw.frames(&[0x1f; 1000]);
    assert_eq!(raw.heard.closed, Some((false, PROTOCOL_VIOLATION)));
}
