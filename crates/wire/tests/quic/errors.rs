//! What a client may not do to a connection, and by which code it ends then: the rules that RFC 9000,
//! 9001 and 9002 give servers, one a line.

use crate::raw::{Odd, Raw, own, parameters};
use freshet_quic::error::code::{
    CONNECTION_ID_LIMIT_ERROR, CRYPTO_BUFFER_EXCEEDED, CRYPTO_ERROR, FINAL_SIZE_ERROR,
    FLOW_CONTROL_ERROR, FRAME_ENCODING_ERROR, PROTOCOL_VIOLATION, STREAM_LIMIT_ERROR,
    STREAM_STATE_ERROR, TRANSPORT_PARAMETER_ERROR,
};
use freshet_quic::packet::Kind;
use freshet_quic::varint::write_varint;
use freshet_quic::{Id, frame};
use std::time::Duration;

/// A frame of a type, some numbers and what follows.
pub(crate) fn numbers(kind: u8, numbers: &[u64], rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_numbers(kind, numbers, &mut out);
    out.extend_from_slice(rest);
    out
}

const MAX: u64 = (1 << 62) - 1;

/// What frames end the connection with; nothing where it goes on.
fn ends(frames: &[u8]) -> Option<(bool, u64)> {
    let mut raw = Raw::connected();
    raw.frames(frames);
    if raw.heard.closed.is_none() {
        // It has to be alive then.
        raw.stream(0, 0, &request(), true);
        assert_eq!((raw.requests, raw.heard.closed), (1, None), "{frames:x?}");
    }
    raw.heard.closed
}

/// A request of which the fields are all in the table that everybody has.
fn request() -> Vec<u8> {
    let mut block = vec![0, 0, 0xc0 | 17, 0xc0 | 23, 0xc0 | 1, 0x50, 1, b'a'];
    let mut out = vec![1, block.len() as u8];
    out.append(&mut block);
    out
}

/// Frames of data that no client may send, by the rule, and the code that ends the connection.
pub(crate) fn illegal() -> Vec<(&'static str, Vec<u8>, u64)> {
    let id = |bytes: usize| [&[bytes as u8][..], &vec![4; bytes], &[0; 16]].concat();
    vec![
        ("§12.4 no frame of that type", vec![0x20], FRAME_ENCODING_ERROR),
        ("§12.4 a type that is too long", vec![0x40, 0x01], FRAME_ENCODING_ERROR),
        ("§12.4 no frame at all", vec![], PROTOCOL_VIOLATION),
        ("§19.3 an acknowledgement below zero", vec![2, 0, 0, 0, 1], FRAME_ENCODING_ERROR),
        ("§13.1 of what was never sent", numbers(2, &[9000, 0, 0, 0], &[]), PROTOCOL_VIOLATION),
        ("§19.6 a handshake beyond 2^62", numbers(6, &[MAX, 1], &[0]), FRAME_ENCODING_ERROR),
        ("§7.5 one far ahead", numbers(6, &[1 << 20, 1], &[0]), CRYPTO_BUFFER_EXCEEDED),
        ("§19.7 a token from a client", numbers(7, &[1], &[0]), PROTOCOL_VIOLATION),
        ("§19.7 an empty one", vec![7, 0], FRAME_ENCODING_ERROR),
        ("§19.20 a handshake confirmed by a client", vec![0x1e], PROTOCOL_VIOLATION),
        ("§19.4 the end of our stream", numbers(4, &[3, 0, 0], &[]), STREAM_STATE_ERROR),
        ("§19.5 a stop of its own one-way stream", numbers(5, &[2, 0], &[]), STREAM_STATE_ERROR),
        ("§19.5 of ours that is not open", numbers(5, &[7, 0], &[]), STREAM_STATE_ERROR),
        ("§19.5 of ours both ways", numbers(5, &[1, 0], &[]), STREAM_STATE_ERROR),
        ("§19.8 bytes on our stream", numbers(8, &[3], b"a"), STREAM_STATE_ERROR),
        ("§19.8 on ours both ways", numbers(8, &[1], b"a"), STREAM_STATE_ERROR),
        ("§19.8 beyond 2^62", numbers(0xc, &[0, MAX], b"ab"), FRAME_ENCODING_ERROR),
        ("§4.6 a stream too many", numbers(8, &[40], b"a"), STREAM_LIMIT_ERROR),
        ("§4.6 one way", numbers(8, &[34], b"a"), STREAM_LIMIT_ERROR),
        ("§4.6 only named", numbers(5, &[40, 0], &[]), STREAM_LIMIT_ERROR),
        ("§4.1 more than a stream takes", numbers(0xc, &[0, 1 << 18], b"a"), FLOW_CONTROL_ERROR),
        ("§4.5 an end beyond that", numbers(4, &[0, 0, 1 << 30], &[]), FLOW_CONTROL_ERROR),
        ("§19.10 a limit for its own", numbers(0x11, &[2, 9], &[]), STREAM_STATE_ERROR),
        ("§19.10 for ours that is not open", numbers(0x11, &[7, 9], &[]), STREAM_STATE_ERROR),
        (
            "§19.11 more streams than there are",
            numbers(0x12, &[1 << 61], &[]),
            FRAME_ENCODING_ERROR,
        ),
        ("§19.11 one way", numbers(0x13, &[1 << 61], &[]), FRAME_ENCODING_ERROR),
        ("§19.14 blocked beyond that", numbers(0x16, &[1 << 61], &[]), FRAME_ENCODING_ERROR),
        ("§19.14 one way", numbers(0x17, &[1 << 61], &[]), FRAME_ENCODING_ERROR),
        ("§19.13 our stream blocked", numbers(0x15, &[3, 0], &[]), STREAM_STATE_ERROR),
        ("§19.15 an id of nothing", numbers(0x18, &[1, 0], &id(0)), FRAME_ENCODING_ERROR),
        ("§19.15 of 21 bytes", numbers(0x18, &[1, 0], &id(21)), FRAME_ENCODING_ERROR),
        ("§19.15 that retires itself", numbers(0x18, &[1, 2], &id(8)), FRAME_ENCODING_ERROR),
        ("§19.15 that is cut off", numbers(0x18, &[1, 0], &[8, 1]), FRAME_ENCODING_ERROR),
        ("§19.15 another for a number", numbers(0x18, &[0, 0], &id(8)), PROTOCOL_VIOLATION),
        (
            "§5.1.1 more ids than are kept",
            (1..5_u8)
                .flat_map(|at| numbers(0x18, &[at.into(), 0], &[&[1, at][..], &[0; 16]].concat()))
                .collect(),
            CONNECTION_ID_LIMIT_ERROR,
        ),
        ("§19.16 an id that never was", numbers(0x19, &[9], &[]), PROTOCOL_VIOLATION),
        ("§19.16 the one it came for", numbers(0x19, &[0], &[]), PROTOCOL_VIOLATION),
        (
            "ack-frequency §4 sooner than the server can",
            vec![0x40, 0xaf, 0, 1, 0x43, 0xe7, 1],
            PROTOCOL_VIOLATION,
        ),
        ("ack-frequency §4 cut off", vec![0x40, 0xaf, 0, 1, 0x43, 0xe8], FRAME_ENCODING_ERROR),
        ("§19.17 a challenge cut off", vec![0x1a, 1, 2, 3], FRAME_ENCODING_ERROR),
        (
            "RFC 9001 §6 a message after the handshake",
            numbers(6, &[0, 5], &[24, 0, 0, 1, 0]),
            CRYPTO_ERROR + 10,
        ),
    ]
}

#[test]
fn frames_that_may_not_be() {
    for (section, frames, code) in illegal() {
        assert_eq!(ends(&frames), Some((false, code)), "{section}");
    }
}

#[test]
fn frames_that_may_be() {
    let id = |at: u8| numbers(0x18, &[at.into(), 0], &[&[8][..], &[at; 8], &[0; 16]].concat());
    for frames in [
        vec![0; 30],
        vec![1],
        numbers(4, &[0, 7, 0], &[]),
        numbers(0x10, &[0], &[]),
        numbers(0x12, &[1 << 60], &[]),
        numbers(0x14, &[MAX], &[]),
        numbers(0x15, &[8, MAX], &[]),
        numbers(0x16, &[1 << 60], &[]),
        [id(1), id(2), id(3), id(3)].concat(),
        numbers(0x19, &[1], &[]),
        vec![0x1a, 1, 2, 3, 4, 5, 6, 7, 8],
        // An answer to no challenge.
        vec![0x1b, 1, 2, 3, 4, 5, 6, 7, 8],
        numbers(8, &[36], &[]),
        // As soon, as late and as seldom as can be.
        vec![0x1f, 0x40, 0xaf, 0, 0, 0x43, 0xe8, 0],
        [&[0x40, 0xaf][..], &[0xff; 32]].concat(),
    ] {
        let mut raw = Raw::connected();
        raw.frames(&frames);
        assert_eq!(raw.heard.closed, None, "{frames:x?}");
        raw.stream(4, 0, &request(), true);
        assert_eq!(raw.requests, 1, "{frames:x?}");
    }
}

#[test]
fn ends_of_streams_that_change() {
    for (section, first, second) in [
        (
            "§4.5 bytes behind the end",
            numbers(0xf, &[0, 5, 1], b"a"),
            numbers(0xe, &[0, 6, 1], b"a"),
        ),
        ("§4.5 another end", numbers(0xf, &[0, 5, 1], b"a"), numbers(0xf, &[0, 4, 1], b"a")),
        (
            "§4.5 an end before what came",
            numbers(0xe, &[0, 5, 1], b"a"),
            numbers(0xf, &[0, 4, 1], b"a"),
        ),
        (
            "§4.5 given up below what came",
            numbers(0xe, &[0, 5, 1], b"a"),
            numbers(4, &[0, 0, 5], &[]),
        ),
        (
            "§4.5 given up at another end",
            numbers(0xf, &[0, 5, 1], b"a"),
            numbers(4, &[0, 0, 7], &[]),
        ),
    ] {
        let mut raw = Raw::connected();
        raw.frames(&first);
        assert_eq!(raw.heard.closed, None, "{section}");
        raw.frames(&second);
        assert_eq!(raw.heard.closed, Some((false, FINAL_SIZE_ERROR)), "{section}");
    }
}

#[test]
fn all_streams_have_a_limit_together() {
    let mut raw = Raw::connected();
    // Each within its own: the last byte of three, which leave no room for a fourth.
    for stream in [4, 8, 12] {
        raw.frames(&numbers(0xc, &[stream, (1 << 18) - 1], b"a"));
        assert_eq!(raw.heard.closed, None, "{stream}");
    }
    raw.frames(&numbers(0xc, &[16, (1 << 18) - 1], b"a"));
    assert_eq!(raw.heard.closed, Some((false, FLOW_CONTROL_ERROR)));
}

#[test]
fn heads_of_packets_that_may_not_be() {
    // RFC 9000 §17.2, §17.3.1: bits that are kept free, seen once the packet is proved.
    let mut raw = Raw::connected();
    raw.packet(Odd { bits: 0x08, ..Odd::of(Kind::OneRtt) }, &[1]);
    assert_eq!(raw.heard.closed, Some((false, PROTOCOL_VIOLATION)));
    for kind in [Kind::Initial, Kind::Handshake] {
        let mut raw = Raw::new(parameters(&[]), &[b"h3"]);
        let hello = raw.hello();
        if kind == Kind::Handshake {
            // The first message in two parts, so that the handshake is under way and not over.
            raw.say(Kind::Initial, &hello[..20]);
        }
        let keys = if kind == Kind::Handshake { Kind::Initial } else { kind };
        raw.packet(Odd { bits: 0x04, ..Odd::of(keys) }, &[1, 1, 1, 1]);
        assert_eq!(raw.heard.closed, Some((false, PROTOCOL_VIOLATION)), "{kind:?}");
    }
    // §17.2: a packet without the bit that all have is nobody's.
    let mut raw = Raw::connected();
    raw.packet(Odd { bits: 0x40, ..Odd::of(Kind::OneRtt) }, &[0x1e]);
    assert_eq!(raw.heard.closed, None);
    // §7.2: a client's id does not change during the handshake. §14.1: a first packet fills its
    // datagram. What is otherwise is not looked at.
    for odd in [
        Odd { sender: Id::new(&[6; 8]).unwrap(), ..Odd::of(Kind::Initial) },
        Odd { bytes: 1199, ..Odd::of(Kind::Initial) },
    ] {
        let mut raw = Raw::new(parameters(&[]), &[b"h3"]);
        raw.packet(odd, &[0x20]);
        assert_eq!((raw.heard.closed, raw.heard.datagrams), (None, 0), "{odd:?}");
        raw.shake_hands();
        raw.stream(2, 0, &[0, 4, 0], false);
        raw.stream(0, 0, &request(), true);
        assert_eq!(raw.requests, 1);
    }
}

#[test]
fn frames_that_a_handshake_may_not_have() {
    for frames in [
        numbers(8, &[0], b"a"),
        numbers(4, &[0, 0, 0], &[]),
        numbers(0x10, &[9], &[]),
        numbers(0x18, &[1, 0], &[&[8][..], &[4; 8], &[0; 16]].concat()),
        vec![0x1a, 1, 2, 3, 4, 5, 6, 7, 8],
        vec![0x1d, 0, 0],
        vec![0x1e],
    ] {
        let mut raw = Raw::new(parameters(&[]), &[b"h3"]);
        raw.packet(Odd::of(Kind::Initial), &frames);
        assert_eq!(raw.heard.closed, Some((false, PROTOCOL_VIOLATION)), "{frames:x?}");
    }
    // RFC 9001 §4.1.3: what goes on under the keys of before.
    let mut raw = Raw::new(parameters(&[]), &[b"h3"]);
    let hello = raw.hello();
    let more = [&hello[..], &[20, 0, 0, 32]].concat();
    raw.say(Kind::Initial, &more);
    assert!(
        raw.heard
            .closed
            .is_some_and(|(_, code)| code == PROTOCOL_VIOLATION || code == CRYPTO_ERROR + 10)
    );
    let mut raw = Raw::new(parameters(&[]), &[b"h3"]);
    let hello = raw.hello();
    let mut frames = Vec::new();
    frame::write_crypto_head(0, hello.len(), &mut frames);
    frames.extend_from_slice(&hello);
    frame::write_crypto_head(hello.len() as u64 + 9, 1, &mut frames);
    frames.push(0);
    raw.packet(Odd::of(Kind::Initial), &frames);
    assert_eq!(raw.heard.closed, Some((false, PROTOCOL_VIOLATION)));
}

#[test]
fn parameters_that_may_not_be() {
    let error = Some((false, TRANSPORT_PARAMETER_ERROR));
    let number = |value: u64| {
        let mut out = Vec::new();
        write_varint(value, &mut out);
        out
    };
    for (section, key, value) in [
        ("§7.3 no id of the client", 0x0f, None),
        ("§7.3 another one", 0x0f, Some(vec![6; 8])),
        ("§18.2 what only servers say: the first id", 0x00, Some(vec![8; 8])),
        ("§18.2 a token to end with", 0x02, Some(vec![0; 16])),
        ("§18.2 another address", 0x0d, Some(vec![0; 49])),
        ("§18.2 the id of a Retry", 0x10, Some(vec![9; 8])),
        ("§18.2 datagrams below 1,200 bytes", 0x03, Some(number(1199))),
        ("§18.2 an exponent above 20", 0x0a, Some(number(21))),
        ("§18.2 a delay of 2^14 ms", 0x0b, Some(number(1 << 14))),
        ("§18.2 fewer ids than two", 0x0e, Some(number(1))),
        ("§4.6 more streams than there are", 0x08, Some(number((1 << 60) + 1))),
        ("§4.6 one way", 0x09, Some(number((1 << 60) + 1))),
        ("§18 a number and more", 0x04, Some(vec![1, 1])),
        ("§18.2 a word that has none", 0x0c, Some(vec![1])),
        ("ack-frequency §3 longer at least than at most", 0xff04_de1b, Some(number(25_001))),
    ] {
        let mut raw = Raw::new(parameters(&[(key, value.as_deref())]), &[b"h3"]);
        raw.shake_hands();
        assert_eq!(raw.heard.closed, error, "{section}");
    }
    for wrong in [&[4, 1, 9][..], &[0x21, 5, 1]] {
        let mut raw = Raw::new([&parameters(&[]), wrong].concat(), &[b"h3"]);
        raw.shake_hands();
        assert_eq!(raw.heard.closed, error, "{wrong:?}");
    }
    // Those that nobody knows are for others.
    let mut raw = Raw::new(parameters(&[(0x5f, Some(&[1, 2, 3]))]), &[b"h3"]);
    raw.shake_hands();
    assert_eq!(raw.heard.closed, None);
}

#[test]
fn handshakes_that_may_not_be() {
    // RFC 9001 §8.1: a protocol has to be agreed on.
    for protocols in [&[][..], &[&b"h2"[..]]] {
        let mut raw = Raw::new(parameters(&[]), protocols);
        raw.shake_hands();
        assert_eq!(raw.heard.closed, Some((false, CRYPTO_ERROR + 120)), "{protocols:?}");
    }
    // §8.2: parameters have to be there. Their extension is made one that nobody knows.
    let mut raw = Raw::new(parameters(&[]), &[b"h3"]);
    let mut hello = raw.hello();
    let mark = [&[0x0f, 8][..], own().as_bytes()].concat();
    let inside = hello.windows(mark.len()).position(|part| part == mark).unwrap();
    let at = hello[..inside].windows(2).rposition(|kind| kind == [0, 0x39]).unwrap();
    hello[at] = 0x7a;
    raw.say(Kind::Initial, &hello);
    assert_eq!(raw.heard.closed, Some((false, CRYPTO_ERROR + 109)));
    // RFC 9000 §7.5: one that has no end.
    let mut raw = Raw::new(parameters(&[]), &[b"h3"]);
    raw.packet(Odd::of(Kind::Initial), &numbers(6, &[16 << 10, 1], &[0]));
    assert_eq!(raw.heard.closed, Some((false, CRYPTO_BUFFER_EXCEEDED)));
}

#[test]
fn who_was_told_why_is_told_again_and_less_and_less_often() {
    let mut raw = Raw::connected();
    raw.frames(&[0x20]);
    let before = raw.heard.datagrams;
    (0..64).for_each(|_| raw.frames(&[1]));
    assert!((1..10).contains(&(raw.heard.datagrams - before)), "{}", raw.heard.datagrams - before);
    raw.pass(Duration::from_secs(60));
    assert!(raw.server.quic.is_over());
}
