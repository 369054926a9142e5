//! Random configuration files, log formats and log records: mistakes are named, nothing panics.

use bolero::check;
use freshet_config::Settings;
use freshet_config::document::Document;
use freshet_config::mistake::render;
use freshet_geo::Geo;
use freshet_node::log::{Format, decode};
use std::time::Duration;

const TEST_TIME: Duration = Duration::from_millis(1500);
const ITERATIONS: usize = 100_000;
const INPUT_BYTES_MAX: usize = 256;

/// Pieces of real files, picked by the random bytes, so that more than the lexer is reached.
const PIECES: [&str; 16] = [
    "memory",
    " = ",
    "\"1GiB\"",
    "\n",
    "[cache]",
    "grace",
    "\"10s\"",
    "[[origin]]",
    "url",
    "\"http://a\"",
    "[[listen]]",
    "address",
    "\":80\"",
    "limits.fields_max",
    "100",
    "{ é = [",
];

#[test]
fn fuzz_configuration() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            check_document(&String::from_utf8_lossy(input));
            let pieces = input.iter().map(|byte| PIECES[usize::from(byte % 16)]);
            check_document(&pieces.collect::<String>());
        });
}

#[test]
fn fuzz_log() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            let mut rest = input;
            let record = decode(&mut rest);
            let Ok(format) = Format::parse(&String::from_utf8_lossy(input)) else { return };
            let mut line = String::new();
            format.write(&record.unwrap_or_default(), &Geo::default(), &mut line);
            assert!(line.ends_with('\n'));
        });
}

fn check_document(text: &str) {
    match Document::parse(text) {
        Ok(document) => {
            if let Err(wrong) = Settings::from_document(&document) {
                assert!(!render("freshet.toml", text, &wrong).is_empty());
            }
        }
        Err(mistakes) => assert!(!render("freshet.toml", text, &mistakes).is_empty()),
    }
}
