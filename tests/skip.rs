//! What a test does that cannot do its work where it runs. Tests of any crate read this file by its
//! path. `cargo test` calls such a test passed and shows nothing of what it printed, so it says so in
//! the file `$FRESHET_SKIPS` names, whose lines `tools/test` counts.
#![allow(
    clippy::print_stderr,
    dead_code,
    unreachable_pub,
    reason = "tests, of which each uses a part of this"
)]

use std::fmt::Display;
use std::io::Write;

/// Names the file that skipped tests write a line to.
const SKIPS: &str = "FRESHET_SKIPS";
/// Says that all programs were installed: then one that is missing is a failure.
const IS_SET_UP: &str = "FRESHET_IS_SET_UP";

/// Notes that a test did nothing because this machine, or whoever started it, does not let it.
///
/// # Panics
/// When the file cannot be written.
pub fn skip(why: impl Display) {
    eprintln!("skipped: {why}");
    if let Some(file) = std::env::var_os(SKIPS) {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
        let written =
            file.and_then(|mut file| file.write_all(format!("{test}: {why}\n").as_bytes()));
        written.expect("skipped tests are noted in a file that can be written");
    }
}

/// As [`skip`], for a program that `tools/setup test` installs.
///
/// # Panics
/// When that has run.
pub fn missing(program: &str) {
    assert!(
        std::env::var_os(IS_SET_UP).is_none(),
        "{program} is not installed: tools/setup should have done that"
    );
    skip(format_args!("{program} is not installed"));
}
