//! Shared by the fuzz targets.

use std::time::Duration;

/// One target runs this long under `cargo test`; a fuzzer runs as long as it is told.
pub(crate) const TEST_TIME: Duration = Duration::from_millis(1000);

/// Inputs are short: field values are, and long ones find nothing more.
pub(crate) const INPUT_BYTES_MAX: usize = 128;

/// Runs `check` on the input as it is, and on the text that its bytes pick from `words`: bytes
/// alone seldom make anything that parses.
pub(crate) fn as_bytes_and_words(input: &[u8], words: &[&str], check: impl Fn(&[u8])) {
    check(input);
    let picked = input.iter().filter_map(|byte| words.get(usize::from(*byte) % words.len()));
    let text: Vec<u8> = picked.flat_map(|word| word.bytes()).take(4 * INPUT_BYTES_MAX).collect();
    check(&text);
}
