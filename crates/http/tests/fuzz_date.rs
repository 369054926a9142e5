//! Random dates.

mod support;

use bolero::check;
use freshet_base::clock::UnixMillis;
use freshet_http::date;

const WORDS: [&str; 32] = [
    "Sun",
    "Mon",
    "Thu",
    "Sunday",
    "Thursday",
    ", ",
    ",",
    " ",
    "  ",
    "-",
    ":",
    "06",
    "6",
    "31",
    "00",
    "Nov",
    "Feb",
    "Aug",
    "nov",
    "1994",
    "2050",
    "50",
    "77",
    "08:49:37",
    "23:59:60",
    "GMT",
    " GMT",
    "UTC",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
    "0",
];

#[test]
fn fuzz_date() {
    check!()
        .with_test_time(support::TEST_TIME)
        .with_max_len(support::INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| support::as_bytes_and_words(input, &WORDS, check_date));
}

/// What is a date is written as the same one; what "now" is matters for two-digit years only.
fn check_date(text: &[u8]) {
    let now = UnixMillis(1_795_000_000_000);
    assert_eq!(date::parse(text).is_some(), date::parse_near(text, now).is_some());
    for at in [date::parse(text), date::parse_near(text, now)].into_iter().flatten() {
        let mut written = Vec::new();
        date::write(at, &mut written);
        // A leap second at the end of the year 9999 is the only date that cannot be written.
        assert!(date::parse(&written) == Some(at) || at.seconds() == 253_402_300_800);
    }
}
