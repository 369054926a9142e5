//! Random packets, frames, parameters and fields of QUIC and HTTP/3.

use bolero::check;
use freshet_wire::h3::frame::{Head, read_settings};
use freshet_wire::h3::qpack;
use freshet_wire::quic::frame::Frame;
use freshet_wire::quic::packet::{Invariant, Kind, Protected};
use freshet_wire::quic::parameters::Peer;
use freshet_wire::quic::varint::{Reader, varint_bytes, write_varint};
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

#[test]
fn fuzz_h3_frames() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            if let Some(head) = Head::read(input) {
                assert!(head.bytes >= 2 && head.bytes <= input.len().min(16));
            }
            let _ = read_settings(input);
        });
}

#[test]
fn fuzz_qpack() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            let mut fields = Vec::new();
            let read = qpack::decode(input, |name, value| {
                fields.push((name.to_ascii_lowercase(), value.to_vec()));
            });
            if read.is_err() {
                return;
            }
            // Without a table a byte stands for 70 at most.
            let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
            assert!(bytes <= 90 * input.len());
            let (mut out, mut again) = (Vec::new(), Vec::new());
            qpack::begin(&mut out);
            for (at, (name, value)) in fields.iter().enumerate() {
                qpack::encode(name, value, at % 2 == 0, &mut out);
            }
            let read = qpack::decode(&out, |name, value| {
                again.push((name.to_vec(), value.to_vec()));
            });
            assert_eq!((read, again), (Ok(()), fields));
        });
}

#[test]
fn fuzz_qpack_tables() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            let Some((cut, input)) = input.split_first() else { return };
            let (told, block) = input.split_at(usize::from(*cut).min(input.len()));
            let mut decoder = qpack::Decoder::new(4096);
            let read = decoder.instructions(&[&[0x3f, 0xe1, 0x1f], told].concat());
            if let Ok((done, _)) = read {
                assert!(done <= told.len() + 3);
                let mut bytes = 0;
                let required =
                    decoder.decode(block, |name, value| bytes += name.len() + value.len());
                // A byte stands for an entry of the table at most.
                assert!(bytes <= 4096 * block.len());
                if let Ok(required) = required {
                    decoder.acknowledge(4, required);
                    assert!(decoder.take_said().len() <= 12);
                }
            }
            let mut encoder = qpack::Encoder::new(4096, 4096);
            if let Ok(done) = encoder.instructions(input) {
                assert!(done <= input.len());
            }
        });
}
