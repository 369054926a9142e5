//! Random structured fields.

mod support;

use bolero::check;
use freshet_http::structured::{Dictionary, Item, List};

const WORDS: [&str; 40] = [
    "a",
    "b-c",
    "*k",
    "A",
    "/x",
    ":",
    "=",
    ";",
    "; ",
    ",",
    ", ",
    "\t",
    " ",
    "(",
    ")",
    "\"",
    "\\\"",
    "\\",
    "%\"",
    "%c3%bc",
    "%",
    "?0",
    "?1",
    "@",
    "-",
    "1",
    "999999999999999",
    "0.5",
    ".",
    "12.125",
    ":aGk=:",
    ":aGk:",
    "=?1",
    "a=1",
    "b;c",
    "\u{7f}",
    "é",
    "Z_",
    "0",
    "e",
];

#[test]
fn fuzz_structured() {
    check!()
        .with_test_time(support::TEST_TIME)
        .with_max_len(support::INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| support::as_bytes_and_words(input, &WORDS, check_value));
}

/// What parses can be written, and is the same when it is read again.
fn check_value(value: &[u8]) {
    if let Ok(item) = Item::parse(value) {
        let text = item.serialize().expect("what was read can be written");
        assert_eq!(Item::parse(text.as_bytes()), Ok(item));
    }
    if let Ok(list) = List::parse(value) {
        let text = list.serialize().expect("what was read can be written");
        assert_eq!(List::parse(text.as_bytes()), Ok(list));
    }
    if let Ok(dictionary) = Dictionary::parse(value) {
        let text = dictionary.serialize().expect("what was read can be written");
        assert_eq!(Dictionary::parse(text.as_bytes()), Ok(dictionary));
    }
}
