//! Random frames, and random copies of signalling.

mod support;

use bolero::check;
use freshet_router::model::{Ingress, Out, Reason};
use freshet_router::packet::parse;
use freshet_router::session::pfcp::Copies;
use std::time::Duration;
use support::{Random, World};

const TEST_TIME: Duration = Duration::from_millis(1500);
const ITERATIONS: usize = 100_000;

/// Nothing a frame holds makes the router stumble, and what it does not understand goes on as it came.
#[test]
fn fuzz_frame() {
    let networks = support::networks();
    let world = |tunnelled| (tunnelled, support::world(&mut Random(5), tunnelled, &networks));
    let worlds = std::sync::Mutex::new([true, false].map(world));
    check!().with_test_time(TEST_TIME).with_iterations(ITERATIONS).with_max_len(200).for_each(
        move |input: &[u8]| {
            let mut worlds = worlds.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            for (tunnelled, World { model, sessions, .. }) in worlds.iter_mut() {
                let tunnelled = *tunnelled;
                // Plain bytes, and a good frame with some of its bytes replaced.
                let seed = input.iter().fold(0_u64, |seed, byte| seed << 8 | u64::from(*byte));
                let (_, mut made) = support::frame(&mut Random(seed), tunnelled, sessions);
                for pair in input.chunks_exact(2).take(8) {
                    let place = usize::from(pair[0]) % made.len();
                    made[place] = pair[1];
                }
                for frame in [input, &made] {
                    for ingress in [Ingress::Access, Ingress::Core, Ingress::App(0, 0)] {
                        let verdict = model.decide(ingress, frame);
                        if ingress == Ingress::App(0, 0) {
                            continue;
                        }
                        if let Err(why) = parse(frame, tunnelled) {
                            assert_eq!(verdict.reason, Reason::from(why));
                            assert!(matches!(verdict.out, Out::Wire(_)));
                            assert_eq!(verdict.frame, frame);
                        }
                    }
                }
            }
        },
    );
}

/// A copy of signalling is understood or refused.
#[test]
fn fuzz_pfcp() {
    let ends = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
    check!().with_test_time(TEST_TIME).with_iterations(ITERATIONS).with_max_len(120).for_each(
        move |input: &[u8]| {
            let mut copies = Copies::new(support::networks());
            for kind in [50, 51, 52, 53, 54, 55] {
                let length = (input.len() + 12) as u16;
                let mut message = vec![0x21, kind];
                message.extend(length.to_be_bytes());
                message.extend([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0]);
                message.extend(input);
                let _ = copies.message(
                    ends[usize::from(kind % 2)],
                    ends[usize::from((kind + 1) % 2)],
                    &message,
                );
                let _ = copies.message(ends[0], ends[1], input);
            }
        },
    );
}

/// An answer of a resolver is understood or refused.
#[test]
fn fuzz_dns() {
    use freshet_router::dns::{Kind, answer, question};
    check!().with_test_time(TEST_TIME).with_iterations(ITERATIONS).with_max_len(120).for_each(
        |input: &[u8]| {
            let _ = answer(input, 7, "www.example.com", Kind::A);
            let mut message = question(7, "www.example.com", Kind::Aaaa);
            message[2] |= 0x80;
            message[7] = 3;
            message.extend(input);
            if let Ok(answer) = answer(&message, 7, "www.example.com", Kind::Aaaa) {
                assert!(answer.addresses.len() <= freshet_router::dns::ADDRESSES_MAX);
            }
        },
    );
}
