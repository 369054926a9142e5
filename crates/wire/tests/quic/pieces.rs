//! Bodies that are sealed from where they lie, cut into packets in every way.

use crate::raw::Raw;

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
        raw.pass(std::time::Duration::from_millis(5));
    }
    raw.pass(std::time::Duration::from_secs(1));
    let got = |stream| raw.heard.bytes.get(stream).map_or(&[][..], Vec::as_slice);
    assert_eq!((got(&one).len(), got(&other).len()), (want.len(), behind.len()));
    assert!(got(&one) == want && got(&other) == behind);
}
