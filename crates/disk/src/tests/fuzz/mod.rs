//! What is read from a disk may be anything: structures that were written, changed as an input says, as they are
//! then and with their checksums made right, since hardly any other come further.

mod parts;
mod sealing;
mod store;

use std::time::Duration;

/// One target runs this long under `cargo test`; a fuzzer runs as long as it is told.
const TEST_TIME: Duration = Duration::from_millis(500);

/// Some ten changes.
const INPUT_BYTES_MAX: usize = 96;

/// The next change of an input: where it begins, in a structure of `len` bytes, and what is there then, a number at
/// its end in every fourth.
fn next_change<'a>(input: &mut &'a [u8], len: usize) -> Option<(usize, &'a [u8])> {
    let ([low, high, count], rest) = input.split_first_chunk()?;
    let count_max = usize::from(count % 9);
    let (bytes, rest) = match count >> 6 {
        3 => (&[0xff; 8][..count_max.min(8)], rest),
        _ => rest.split_at(count_max.min(rest.len())),
    };
    *input = rest;
    let at = usize::from(u16::from_le_bytes([*low, *high])) % len.max(1);
    Some((at, bytes.get(..len - at).unwrap_or(bytes)))
}

/// A structure after all changes of an input.
fn changed(written: &[u8], mut input: &[u8]) -> Vec<u8> {
    let mut bytes = written.to_vec();
    while let Some((at, change)) = next_change(&mut input, bytes.len()) {
        bytes[at..at + change.len()].copy_from_slice(change);
    }
    bytes
}
