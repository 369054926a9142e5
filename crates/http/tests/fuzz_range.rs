//! Random ranges.

mod support;

use bolero::check;
use freshet_http::range::{ContentRange, RANGES_MAX, RangeRequest, Reconciled, Resolved};

const WORDS: [&str; 24] = [
    "bytes=",
    "bytes ",
    "items=",
    "0",
    "1",
    "5",
    "99",
    "100",
    "18446744073709551615",
    "18446744073709551616",
    "-",
    "0-",
    "-5",
    "5-9",
    "*",
    "/",
    "/10",
    "/*",
    ",",
    ", ",
    " ",
    "\t",
    "a",
    "bytes */",
];

#[test]
fn fuzz_range() {
    check!()
        .with_test_time(support::TEST_TIME)
        .with_max_len(support::INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| support::as_bytes_and_words(input, &WORDS, check_range));
}

fn check_range(value: &[u8]) {
    if let Some(request) = RangeRequest::parse(value) {
        assert!((1..=RANGES_MAX).contains(&request.specs().len()));
        for total in [0, 1, 10, 1000, u64::MAX] {
            check_resolved(&request.resolve(total), total);
        }
        let mut text = b"bytes=".to_vec();
        for (at, spec) in request.specs().iter().enumerate() {
            text.extend_from_slice(if at == 0 { b"" } else { b"," });
            spec.write(&mut text);
        }
        assert_eq!(RangeRequest::parse(&text), Some(request));
    }
    if let Some(range) = ContentRange::parse(value) {
        let mut text = Vec::new();
        range.write(&mut text);
        assert_eq!(ContentRange::parse(&text), Some(range));
        if let Reconciled::Shorter(shorter) = range.reconcile(5) {
            assert_eq!(shorter.reconcile(5), Reconciled::Agrees);
        }
    }
}

fn check_resolved(resolved: &Resolved, total: u64) {
    let ranges = match resolved {
        Resolved::Unsatisfiable => return,
        Resolved::One(range) => std::slice::from_ref(range),
        Resolved::Many(ranges) => ranges,
    };
    assert!(ranges.iter().all(|range| range.start < range.end && range.end <= total));
    let bytes: u128 = ranges.iter().map(|range| u128::from(range.end - range.start)).sum();
    assert!(bytes <= u128::from(total), "no byte is sent twice");
}
