//! A whole connection with whatever a client that has its keys can say: an input is read as packets with their
//! frames, in the clear, and as time between them.

use crate::malformed::assert_bounded;
use crate::raw::{Odd, Raw};
use bolero::check;
use freshet_quic::packet::Kind;
use std::net::SocketAddr;
use std::time::Duration;

const TEST_TIME: Duration = Duration::from_millis(1500);
const ITERATIONS: usize = 5000;
const INPUT_BYTES_MAX: usize = 2048;
/// Frames of a packet at most.
const PAYLOAD_BYTES_MAX: usize = 1100;

/// What an input has next.
enum Step<'a> {
    /// Milliseconds pass.
    Time(u64),
    /// A packet comes from one of four addresses, after a jump of its number.
    Packet { address: u8, skipped: u64, frames: &'a [u8] },
}

/// Reads a step: two bytes with what it is and how long, and its frames.
fn step<'a>(input: &mut &'a [u8]) -> Option<Step<'a>> {
    let (&[head, low], rest) = input.split_first_chunk()?;
    let len = usize::from(head >> 5) << 8 | usize::from(low);
    if head & 0x10 != 0 {
        *input = rest;
        return Some(Step::Time(len as u64 * 4));
    }
    let (frames, rest) = rest.split_at(len.min(rest.len()).min(PAYLOAD_BYTES_MAX));
    *input = rest;
    let skipped = if head & 0x08 != 0 { u64::from(head & 0x04) + 1 } else { 0 };
    Some(Step::Packet { address: head & 0x03, skipped, frames })
}

#[test]
fn fuzz_quic_connection() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|mut input: &[u8]| {
            let mut raw = Raw::connected();
            let home = raw.address;
            while let Some(step) = step(&mut input) {
                match step {
                    Step::Time(ms) => {
                        raw.pass(Duration::from_millis(ms));
                    }
                    Step::Packet { address, skipped, frames } => {
                        raw.address = match address {
                            0 => home,
                            other => SocketAddr::from(([203, 0, 113, other], 7)),
                        };
                        raw.skip_numbers(skipped);
                        raw.packet(Odd::of(Kind::OneRtt), frames);
                    }
                }
                assert_bounded(&raw);
            }
            // Nothing comes from it any more: it is over, and soon.
            raw.is_deaf = true;
            let steps = raw.pass(Duration::from_secs(600));
            assert!(raw.server.quic.is_over() && steps < 1000, "{steps}");
        });
}
