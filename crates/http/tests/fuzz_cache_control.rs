//! Random cache directives.

mod support;

use bolero::check;
use freshet_http::cache_control::{CacheControl, RequestCacheControl, delta_seconds, directives};
use freshet_http::fields::Fields;

const WORDS: [&str; 40] = [
    "max-age",
    "s-maxage",
    "no-cache",
    "no-store",
    "private",
    "public",
    "must-revalidate",
    "proxy-revalidate",
    "must-understand",
    "immutable",
    "stale-while-revalidate",
    "stale-if-error",
    "only-if-cached",
    "max-stale",
    "min-fresh",
    "NO-STORE",
    "=",
    "= ",
    " =",
    ",",
    ", ",
    " ",
    "\t",
    "\"",
    "\\\"",
    "\\",
    "\"a, b\"",
    "=\"max-age=5\"",
    "60",
    "0",
    "-1",
    "1.5",
    "99999999999999999999",
    "'",
    "x",
    ";",
    "=60",
    ",,",
    "=?1",
    "é",
];

#[test]
fn fuzz_cache_control() {
    check!()
        .with_test_time(support::TEST_TIME)
        .with_max_len(support::INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| support::as_bytes_and_words(input, &WORDS, check_directives));
}

fn check_directives(value: &[u8]) {
    let whole: Fields = [("Cache-Control", value)].into_iter().collect();
    let control = CacheControl::from_fields(&whole);
    RequestCacheControl::from_fields(&whole);
    assert!(directives(&whole, "Cache-Control").all(|directive| !directive.name.is_empty()));
    assert!(value.len() < 64 || delta_seconds(value).is_none_or(|span| span.as_secs() < 1 << 32));

    // A directive in front does not hide those behind it.
    let mut with_more = b"x=\"no-transform\", no-store,".to_vec();
    with_more.extend_from_slice(value);
    let longer = [("Cache-Control", &with_more)].into_iter().collect();
    assert_eq!(CacheControl::from_fields(&longer), CacheControl { no_store: true, ..control });

    let targeted: Fields = [("CDN-Cache-Control", value)].into_iter().collect();
    if let Some((targeted, _)) = CacheControl::targeted(&targeted, &["CDN-Cache-Control"]) {
        // A dictionary that says not to store says the same where it is read as directives.
        assert!(!targeted.no_store || control.no_store);
    }
}
