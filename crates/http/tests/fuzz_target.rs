//! Random targets, authorities and references.

mod support;

use bolero::check;
use freshet_http::message::Scheme;
use freshet_http::target::{
    TargetForm, key_target, parse_authority, parse_target, resolve, split_authority,
    without_default_port,
};

const WORDS: [&str; 36] = [
    "/",
    "//",
    "a",
    "b.c",
    ".",
    "..",
    "./",
    "../",
    "?",
    "&",
    "=",
    "CMCD=",
    "CMCD=bl%3D1",
    "#",
    ":",
    ":80",
    ":443",
    ":0",
    "65536",
    "@",
    "[",
    "]",
    "[::1]",
    "::1",
    "[2001:DB8::1]",
    "http://",
    "https://",
    "HTTP://",
    "ftp://",
    "*",
    "%20",
    " ",
    "\\",
    "é",
    "EXAMPLE",
    ",",
];

#[test]
fn fuzz_target() {
    check!()
        .with_test_time(support::TEST_TIME)
        .with_max_len(support::INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| support::as_bytes_and_words(input, &WORDS, check_target));
}

fn check_target(text: &[u8]) {
    if let Ok(authority) = parse_authority(text) {
        assert_sound(&authority);
    }
    match parse_target(text) {
        Ok(TargetForm::Origin(target)) => {
            assert!(target.starts_with('/'));
            let key = key_target(target);
            assert!(key.starts_with('/') && key.len() <= target.len());
            assert_eq!(key_target(&key), key, "taking away once is enough");
        }
        Ok(TargetForm::Absolute { authority, target, .. }) => {
            assert_sound(&authority);
            assert!(target.starts_with('/'));
        }
        Ok(TargetForm::Authority(authority)) => assert_sound(&authority),
        Ok(TargetForm::Asterisk) | Err(_) => {}
    }
    let Ok(reference) = std::str::from_utf8(text) else { return };
    if let Some((authority, target)) = resolve("h", "/a/b?q", reference) {
        assert_sound(&authority);
        let form = parse_target(target.as_bytes());
        assert!(matches!(form, Ok(TargetForm::Origin(_))), "{target}");
        let path = target.split('?').next().expect("there is a first part");
        assert!(path.split('/').all(|segment| segment != "." && segment != ".."));
    }
}

/// One form stays as it is, and its parts can be found.
fn assert_sound(authority: &str) {
    assert_eq!(parse_authority(authority.as_bytes()).as_deref(), Ok(authority));
    let (host, port) = split_authority(authority);
    assert!(!host.is_empty() && port != Some(0));
    let shorter = without_default_port(authority, Scheme::Https);
    assert!(shorter == authority || shorter == host);
}
