//! Random packets of a client that has all keys: frames of every type, streams of every purpose,
//! numbers at their bounds. Whatever comes, nothing panics, goes round in circles, or grows. And where
//! one thing among many that are right is wrong, the code is that of its rule.

use crate::errors::{illegal, numbers};
use crate::raw::{Odd, Raw, parameters};
use crate::requests::{get, illegal_one_way, illegal_requests};
use crate::seeds;
use crate::world::Dice;
use freshet_quic::frame::write_stream_head;
use freshet_quic::packet::Kind;
use freshet_quic::varint::{VARINT_MAX, write_varint};
use freshet_wire::h3::frame::write_head;
use std::net::SocketAddr;
use std::time::Duration;

const SEEDS: u64 = 150;
const PACKETS: u64 = 60;

fn number(dice: &mut Dice) -> u64 {
    const BOUNDS: [u64; 14] =
        [0, 1, 2, 3, 4, 63, 64, 1200, 16_383, 16_384, 1 << 18, 1 << 20, 1 << 60, VARINT_MAX];
    match dice.below(4) {
        0 => BOUNDS[dice.below(BOUNDS.len() as u64) as usize],
        1 => dice.below(VARINT_MAX),
        _ => dice.below(48),
    }
}

fn bytes(dice: &mut Dice, max: u64) -> Vec<u8> {
    (0..dice.below(max)).map(|_| dice.below(256) as u8).collect()
}

/// What a stream of HTTP/3 might have.
fn inside(dice: &mut Dice) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..dice.below(4) {
        let kind = [0, 1, 1, 3, 4, 5, 7, 0xd, 0x21, 0xf_0700, 0xf_0701][dice.below(11) as usize];
        let payload = match dice.below(3) {
            0 => vec![0, 0, 0xc0 | 17, 0xc0 | 23, 0xc0 | 1, 0x50, 1, b'a'],
            1 => [&[0, 0][..], &bytes(dice, 40)].concat(),
            _ => bytes(dice, 40),
        };
        let len = if dice.below(8) == 0 { number(dice) } else { payload.len() as u64 };
        write_head(kind, len as usize, &mut out);
        out.extend(payload);
    }
    out
}

fn frames(dice: &mut Dice, places: &mut [u64; 48]) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..1 + dice.below(4) {
        let kind = match dice.below(0x25) {
            0x24 => 0xaf,
            kind => kind,
        };
        write_varint(kind, &mut out);
        match kind {
            // Streams that go on where they were, now and then not.
            0x08..=0x0f => {
                let stream = dice.below(48);
                let payload = if dice.below(4) == 0 { bytes(dice, 100) } else { inside(dice) };
                let place = &mut places[stream as usize];
                let offset = if dice.below(6) == 0 { number(dice) } else { *place };
                write_varint(stream, &mut out);
                if kind & 4 != 0 {
                    write_varint(offset, &mut out);
                }
                if kind & 2 != 0 {
                    write_varint(payload.len() as u64, &mut out);
                }
                *place = offset.saturating_add(payload.len() as u64).min(VARINT_MAX);
                out.extend(payload);
            }
            0x06 => {
                let payload = bytes(dice, 60);
                write_varint(number(dice), &mut out);
                write_varint(payload.len() as u64, &mut out);
                out.extend(payload);
            }
            0x18 => {
                let sequence = dice.below(6);
                write_varint(sequence, &mut out);
                write_varint(dice.below(sequence + 1), &mut out);
                out.push(8);
                out.extend([sequence as u8; 24]);
            }
            0x1a | 0x1b => out.extend([dice.below(3) as u8; 8]),
            _ => (0..dice.below(5)).for_each(|_| write_varint(number(dice), &mut out)),
        }
        if dice.below(16) == 0 {
            out.truncate(dice.below(out.len() as u64 + 1) as usize);
        }
    }
    out.truncate(1100);
    out
}

/// What a client cannot make more of, whatever it says.
pub(crate) fn assert_bounded(raw: &Raw) {
    let quic = &raw.server.quic;
    assert!(quic.streams() <= 10 + 8 + 1 && quic.ids().count() <= 5, "{quic:?}");
    assert!(quic.kept() <= 100_000 && quic.bytes_in_flight() <= 200_000, "{quic:?}");
}

#[test]
fn whatever_a_client_with_keys_sends_is_borne() {
    let mut ended = 0;
    let seeds = seeds::each(SEEDS, |seed| {
        let mut dice = Dice::new(seed + 1);
        let mut places = [0; 48];
        let mut raw = match dice.below(4) {
            0 => Raw::new(parameters(&[]), &[b"h3"]),
            1 => Raw::established(),
            _ => {
                places[2] = 3;
                Raw::connected()
            }
        };
        let has_begun = raw.server.quic.is_established();
        let home = raw.address;
        for _ in 0..PACKETS {
            let frames = frames(&mut dice, &mut places);
            let kind = if has_begun { Kind::OneRtt } else { Kind::Initial };
            let mut odd = Odd::of(kind);
            if dice.below(40) == 0 {
                odd.bits = 1 << dice.below(8);
            }
            raw.address = match dice.below(30) {
                0 => SocketAddr::from(([203, 0, 113, dice.below(4) as u8], 7)),
                _ => home,
            };
            let mut datagram = raw.sealed(odd, &frames);
            if dice.below(20) == 0 {
                let at = dice.below(datagram.len() as u64) as usize;
                datagram[at] ^= 1 << dice.below(8);
            }
            raw.bring(&mut datagram);
            assert_bounded(&raw);
            if dice.below(10) == 0 {
                let time = Duration::from_millis(dice.below(3000));
                raw.pass(time);
            }
        }
        ended += u64::from(raw.heard.closed.is_some());
        // Nobody speaks any more: it is over, and soon.
        let steps = raw.pass(Duration::from_secs(600));
        assert!(raw.server.quic.is_over() && steps < 1000, "{steps}");
    });
    let is_right = |seeds: u64| ended > seeds / 4 && ended <= seeds;
    assert!(seeds.is_none_or(is_right), "{ended} were told why");
}

/// A frame that a client may send at any time.
fn legal(dice: &mut Dice) -> Vec<u8> {
    match dice.below(8) {
        0 => vec![0; 1 + dice.below(20) as usize],
        1 => vec![1],
        2 => numbers(0x10, &[number(dice)], &[]),
        3 => numbers(0x11, &[4 * dice.below(10), number(dice)], &[]),
        4 => numbers(0x14, &[number(dice)], &[]),
        5 => numbers(0x15, &[4 * dice.below(10), number(dice)], &[]),
        6 => numbers(0x1b, &[], &[dice.below(256) as u8; 8]),
        _ => numbers(0x12, &[number(dice).min(1 << 60)], &[]),
    }
}

/// Cuts a stream's bytes into frames, and has some of these come twice and all in any order.
fn shuffled(dice: &mut Dice, stream: u64, bytes: &[u8], finishes: bool) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut at = 0;
    while at < bytes.len() || (finishes && at == 0 && frames.is_empty()) {
        let end = (at + 1 + dice.below(12) as usize).min(bytes.len());
        let mut out = legal(dice);
        let ends = finishes && end == bytes.len();
        write_stream_head(stream, at as u64, end - at, ends, &mut out);
        out.extend_from_slice(&bytes[at..end]);
        if dice.below(4) == 0 {
            frames.push(out.clone());
        }
        frames.push(out);
        at = end;
    }
    for place in (1..frames.len()).rev() {
        frames.swap(place, dice.below(place as u64 + 1) as usize);
    }
    frames
}

#[test]
fn one_wrong_thing_among_many_that_are_right_ends_it_by_its_code() {
    // What is too many depends on what came before.
    let is_alone = |section: &str| !section.starts_with("§4.6");
    seeds::each(SEEDS / 10, |seed| {
        let mut dice = Dice::new(seed + 1);
        for (section, frames, code) in illegal() {
            if !is_alone(section) {
                continue;
            }
            let mut raw = Raw::connected();
            for request in 0..dice.below(4) {
                let sent = shuffled(&mut dice, 16 + 4 * request, &get(), true);
                sent.iter().for_each(|frame| raw.frames(frame));
            }
            assert_eq!(raw.heard.closed, None, "before {section}");
            // No frame in front of nothing, which is what is wrong then.
            let before = if frames.is_empty() { Vec::new() } else { legal(&mut dice) };
            raw.frames(&[before, frames].concat());
            assert_eq!(raw.heard.closed, Some((false, code)), "{section}");
        }
        let requests = illegal_requests();
        let requests = requests.into_iter().map(|(section, bytes, finishes, code)| {
            (section, 4 * dice.below(10), bytes, finishes, code)
        });
        let all: Vec<_> = requests.chain(illegal_one_way()).collect();
        for (section, stream, bytes, finishes, code) in all {
            let mut raw = if stream == 2 { Raw::established() } else { Raw::connected() };
            for frame in shuffled(&mut dice, stream, &bytes, finishes) {
                raw.frames(&frame);
            }
            let ended = raw.heard.closed;
            assert_eq!(ended, Some((true, code as u64)), "{section}, not {code:?}");
        }
    });
}
