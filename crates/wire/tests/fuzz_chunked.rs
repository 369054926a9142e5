//! Random chunked bodies.

mod support;

use bolero::check;
use freshet_http::fields::Fields;
use freshet_wire::h1::chunked::{ChunkError, Decoder};
use std::time::Duration;

const TEST_TIME: Duration = Duration::from_millis(1500);
const ITERATIONS: usize = 200_000;
/// Short, so that a fair share of what is made of it is a good body.
const INPUT_BYTES_MAX: usize = 48;

#[test]
fn fuzz_chunked() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            support::as_bytes_and_words(input, check_chunked);
            let words = support::spoken(input);
            check_chunked(&[b"1;a=", &words[..], b"\r\nx\r\n0\r\n\r\n"].concat());
            check_chunked(&[b"5\r\nhello\r\n0\r\nX: ", &words[..], b"\r\n\r\n"].concat());
        });
}

/// However the bytes arrive, the outcome is the same.
fn check_chunked(text: &[u8]) {
    let whole = decode(&[text]);
    let (first, second) = text.split_at(support::cut(text));
    assert_eq!(decode(&[first, second]), whole);
    let single: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(decode(&single), whole);
}

/// Content, trailers, whether the body ended, and the bytes it took.
type Outcome = (Vec<u8>, Fields, bool, usize);

fn decode(pieces: &[&[u8]]) -> Result<Outcome, ChunkError> {
    let mut decoder = Decoder::new();
    let (mut content, mut taken) = (Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() && !decoder.is_done() {
            let progress = decoder.decode(rest)?;
            assert!(progress.consumed > 0 && progress.data.end <= progress.consumed);
            content.extend_from_slice(&rest[progress.data]);
            taken += progress.consumed;
            rest = &rest[progress.consumed..];
        }
    }
    let done = decoder.is_done();
    Ok((content, decoder.take_trailers(), done, taken))
}
