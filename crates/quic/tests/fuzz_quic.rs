//! Random packets, frames, parameters and numbers.

use bolero::check;
use freshet_quic::frame::Frame;
use freshet_quic::packet::{Invariant, Kind, Protected};
use freshet_quic::parameters::Peer;
use freshet_quic::varint::{Reader, varint_bytes, write_varint};
use std::time::Duration;

const TEST_TIME: Duration = Duration::from_millis(1500);
const ITERATIONS: usize = 200_000;
const INPUT_BYTES_MAX: usize = 256;

#[test]
fn fuzz_quic_packets() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            let invariant = Invariant::read(input);
            let Some(packet) = Protected::read(input) else { return };
            let invariant = invariant.expect("what is a packet here is one in all versions");
            assert_eq!(invariant.receiver, packet.receiver.as_bytes());
            assert_eq!(invariant.version.is_none(), packet.kind == Kind::OneRtt);
            assert!(packet.number_at <= packet.end && packet.end <= input.len());
            assert!(packet.token.end <= packet.number_at.max(packet.end));
        });
}

#[test]
fn fuzz_quic_frames() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            let mut reader = Reader::new(input);
            while !reader.is_empty() {
                let before = reader.rest().len();
                let Ok(frame) = Frame::read(&mut reader) else { return };
                assert!(reader.rest().len() < before, "a frame takes something");
                if let Frame::Ack(ack) = frame {
                    let mut below = ack.largest + 1;
                    for range in ack.ranges() {
                        assert!(range.start() <= range.end() && *range.end() < below);
                        below = *range.start();
                    }
                }
            }
        });
}

#[test]
fn fuzz_quic_parameters() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            let Ok(peer) = Peer::read(input) else { return };
            assert!(peer.datagram_bytes_max >= 1200 && peer.ack_delay_exponent <= 20);
            // One that is not known makes no difference, and one that is known may not come twice.
            let and = |more: &[u8]| Peer::read(&[input, more].concat());
            assert_eq!(and(&[0x7f, 0xff, 2, 1, 2]), Ok(peer));
            assert!(and(&[4, 1, 1, 4, 1, 1]).is_err());
        });
}

#[test]
fn fuzz_quic_numbers() {
    check!().with_test_time(TEST_TIME).with_iterations(ITERATIONS).with_max_len(16).for_each(
        |input: &[u8]| {
            let mut reader = Reader::new(input);
            let Some(number) = reader.varint() else { return };
            let mut out = Vec::new();
            write_varint(number, &mut out);
            assert_eq!(out.len(), varint_bytes(number));
            assert!(out.len() <= input.len() - reader.rest().len());
            assert_eq!(Reader::new(&out).varint(), Some(number));
        },
    );
}
