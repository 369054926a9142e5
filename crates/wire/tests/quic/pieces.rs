//! Bodies that are sealed from where they lie, cut into packets in every way.

use crate::raw::Raw;
use std::time::Duration;

/// The pieces of one round: what is written at once, so that their ends come to lie everywhere in a
/// packet of 1,200 or 1,452 bytes.
fn pieces(round: usize) -> Vec<Vec<u8>> {
    let piece = |len: usize| (0..len).map(|at| (at * 7 + len + round) as u8).collect();
    match round % 4 {
        0 => vec![piece(900 + round)],
        1 => vec![piece(3), piece(2000 + round)],
        2 => vec![piece(1000), piece(round), piece(300)],
        _ => vec![piece(1 + round / 4), piece(250), piece(256), piece(20)],
    }
}

#[test]
fn every_byte_arrives_wherever_its_piece_ends_in_a_packet() {
    let mut raw = Raw::greedy();
    let [one, other] = [(); 2].map(|()| raw.server.quic.open().expect("it lets us open more"));
    let (mut want, mut behind) = (Vec::new(), Vec::new());
    for round in 0..600 {
        for piece in pieces(round) {
            want.extend_from_slice(&piece);
            assert!(raw.server.quic.write(one, piece));
        }
        if round % 3 == 0 {
            // Another stream shares the last packet.
            let piece = vec![round as u8; round];
            behind.extend_from_slice(&piece);
            assert!(raw.server.quic.write(other, piece));
        }
        // A PING lets it answer.
        raw.frames(&[1]);
        raw.pass(Duration::from_millis(5));
    }
    raw.pass(Duration::from_secs(1));
    let got = |stream| raw.heard.bytes.get(stream).map_or(&[][..], Vec::as_slice);
    assert_eq!((got(&one).len(), got(&other).len()), (want.len(), behind.len()));
    assert!(got(&one) == want && got(&other) == behind);
}

#[test]
fn a_near_client_gets_half_a_window_at_once() {
    let mut raw = Raw::greedy();
    let stream = raw.server.quic.open().expect("it lets us open one");
    assert!(raw.server.quic.write(stream, vec![7; 1 << 20]));
    // A window is full.
    let mut sent = 0;
    while let count @ 1.. = raw.take() {
        sent += count;
    }
    assert!(sent >= 8, "{sent}");
    // It says of two at a time that they came.
    for _ in 0..20 {
        let mut batch = 0;
        while batch == 0 {
            // Time fills the pacer's bucket.
            raw.now += Duration::from_micros(300);
            assert!(raw.acknowledge_oldest(2), "it waits for nothing");
            batch = raw.take();
        }
        assert!(batch >= 3, "{batch}");
    }
    // What is left at last does not wait.
    raw.drain(2);
    assert_eq!(raw.server.quic.unsent_of_all(), 0);
}
