//! Shared by the fuzz targets.

mod bounds;

use bounds::check;
use freshet_media::Format;
use std::time::Duration;

/// One target runs this long under `cargo test`; a fuzzer runs as long as it is told.
pub(crate) const TEST_TIME: Duration = Duration::from_millis(1000);

/// Inputs are short: what is long is of many lines that are read alike.
pub(crate) const INPUT_BYTES_MAX: usize = 512;

/// Reads the input as it is, and the text that its bytes pick from `words`.
pub(crate) fn as_bytes_and_words(format: Format, input: &[u8], words: &[&str]) {
    check(format, input);
    let picked = input.iter().filter_map(|byte| words.get(usize::from(*byte) % words.len()));
    let text: Vec<u8> = picked.flat_map(|word| word.bytes()).collect();
    check(format, &text);
    check(format, &[words.first().unwrap_or(&"").as_bytes(), &text].concat());
}
