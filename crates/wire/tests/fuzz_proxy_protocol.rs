//! Random PROXY headers.

mod support;

use bolero::check;
use freshet_wire::proxy_protocol::parse;
use std::time::Duration;

const TEST_TIME: Duration = Duration::from_millis(1500);
const ITERATIONS: usize = 200_000;
const INPUT_BYTES_MAX: usize = 256;

#[test]
fn fuzz_proxy_protocol() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            support::as_bytes_and_words(input, check_header);
            // Behind the fixed part of version 2, so that addresses and TLVs are reached.
            let len = u16::try_from(input.len()).expect("inputs are short").to_be_bytes();
            for family in [0x00, 0x11, 0x21, 0x31] {
                let fixed = [b"\r\n\r\n\0\r\nQUIT\n\x21", &[family][..], &len].concat();
                check_header(&[&fixed, input].concat());
            }
        });
}

fn check_header(text: &[u8]) {
    let whole = parse(text);
    let prefix = parse(&text[..support::cut(text)]);
    if prefix != Ok(None) {
        assert_eq!(prefix, whole);
    }
    if let Ok(Some((header, taken))) = whole {
        assert!(taken <= text.len());
        assert_eq!(parse(&text[..taken - 1]), Ok(None));
        assert!(!header.local || header.source.is_none());
    }
}
