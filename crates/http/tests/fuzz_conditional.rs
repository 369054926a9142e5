//! Random conditions.

mod support;

use bolero::check;
use freshet_http::conditional::{Outcome, Validators, evaluate, if_range_matches, weak_eq};
use freshet_http::date;
use freshet_http::fields::Fields;
use freshet_http::message::Method;

const WORDS: [&str; 20] = [
    "\"a\"",
    "W/\"a\"",
    "\"b\"",
    "\"a,b\"",
    "\"",
    "W/",
    "w/\"a\"",
    "a",
    "*",
    ",",
    ", ",
    " ",
    "\t",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "\\",
    "é",
    "\"\"",
    "Sun, 06 Nov 1994 08:49:38 GMT",
    "0",
];

#[test]
fn fuzz_conditional() {
    check!()
        .with_test_time(support::TEST_TIME)
        .with_max_len(support::INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| support::as_bytes_and_words(input, &WORDS, check_condition));
}

fn check_condition(value: &[u8]) {
    let modified = date::parse(b"Sun, 06 Nov 1994 08:49:37 GMT");
    let stored = Validators { etag: Some(b"\"a\""), last_modified: modified, date: None };
    let outcome = |name: &str, method, stored: &Validators<'_>| {
        let request: Fields = [(name, value)].into_iter().collect();
        evaluate(&request, &method, stored, 200)
    };
    let none_match = outcome("If-None-Match", Method::Get, &stored);
    let unsafe_one = outcome("If-None-Match", Method::Put, &stored);
    assert_eq!(none_match == Outcome::NotModified, unsafe_one == Outcome::PreconditionFailed);
    // A strong match is a weak one.
    if outcome("If-Match", Method::Get, &stored) == Outcome::Proceed {
        assert_eq!(none_match, Outcome::NotModified);
    }
    // Dates are no entity tags.
    let since = outcome("If-Modified-Since", Method::Get, &stored);
    assert!(since == Outcome::Proceed || date::parse(value.trim_ascii()).is_some());
    if if_range_matches(value, &stored) {
        assert!(weak_eq(value, b"\"a\""));
    }
    // Whatever the stored tag is, the client can send it back alone.
    let own = Validators { etag: Some(value), ..Validators::default() };
    let sound = value.first() == Some(&b'"') && value.len() > 1 && value.last() == Some(&b'"');
    if sound && value.iter().filter(|byte| **byte == b'"').count() == 2 {
        assert_eq!(outcome("If-None-Match", Method::Get, &own), Outcome::NotModified);
    }
}
