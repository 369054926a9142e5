//! Random frames and fields of HTTP/3.

use bolero::check;
use freshet_wire::h3::frame::{Head, read_settings};
use freshet_wire::h3::qpack;
use std::time::Duration;

const TEST_TIME: Duration = Duration::from_millis(1500);
const ITERATIONS: usize = 200_000;
const INPUT_BYTES_MAX: usize = 256;

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
