//! Finding where a run of allowed bytes ends. These loops see every byte of every head.

/// Bytes of a token: names of methods and fields (RFC 9110 §5.6.2).
const TOKEN: [bool; 256] = table(b"!#$%&'*+-.^_`|~");

/// Bytes taken in a request target: RFC 3986 without `#`, which starts a fragment and never
/// belongs there (RFC 9112 §3.2), plus `\ ^ { | }` and the backtick, which browsers send as they
/// are. Not in it: controls, space, and `"`, `<`, `>` and bytes above ASCII, which they encode.
const TARGET: [bool; 256] = table(b"-._~:/?[]@!$&'()*+,;=%\\^`{|}");

const fn table(marks: &[u8]) -> [bool; 256] {
    let mut out = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        out[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < marks.len() {
        out[marks[index] as usize] = true;
        index += 1;
    }
    out
}

/// Whether `byte` may stand in a token.
#[inline]
pub(super) fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// Length of the token at the start of `bytes`, 0 where there is none.
#[inline]
pub(super) fn token_len(bytes: &[u8]) -> usize {
    run_len(bytes, &TOKEN)
}

/// Length of the run of target bytes at the start of `bytes`.
#[inline]
pub(super) fn target_len(bytes: &[u8]) -> usize {
    run_len(bytes, &TARGET)
}

/// Whether `byte` is one that others than browsers send in a target although it is to be encoded there.
#[inline]
pub(super) fn is_to_encode(byte: u8) -> bool {
    byte >= 0x80 || matches!(byte, b'"' | b'<' | b'>')
}

/// The same as [`target_len`], with what is to be encoded.
#[cold]
pub(super) fn loose_target_len(bytes: &[u8]) -> usize {
    let is_taken = |byte: u8| TARGET[usize::from(byte)] || is_to_encode(byte);
    bytes.iter().position(|byte| !is_taken(*byte)).unwrap_or(bytes.len())
}

/// Whether `bytes` is a host name already in its one form, as nearly every client sends it: lower
/// case, no port.
#[inline]
pub(super) fn is_plain_name(bytes: &[u8]) -> bool {
    let is_plain = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    !bytes.is_empty() && bytes.iter().all(is_plain)
}

#[inline]
fn run_len(bytes: &[u8], allowed: &[bool; 256]) -> usize {
    bytes.iter().position(|byte| !allowed[usize::from(*byte)]).unwrap_or(bytes.len())
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Length of the run at the start of `bytes` that may stand in a field value or reason phrase:
/// visible ASCII, space, tab and bytes above ASCII (RFC 9110 §5.5).
#[inline]
pub(super) fn value_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += plain_len(&bytes[at..]);
        match bytes.get(at) {
            Some(b'\t') => at += 1,
            _ => return at,
        }
    }
}

/// Length of the run without controls, tab included, eight bytes at a time.
#[inline]
fn plain_len(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let below_space = word.wrapping_sub(ONES * 0x20) & !word;
        let flipped = word ^ (ONES * 0x7f);
        let delete = flipped.wrapping_sub(ONES) & !flipped;
        // A borrow can mark a byte wrongly only above one that is marked rightly, and the lowest
        // mark is the one that counts.
        let found = (below_space | delete) & HIGHS;
        if found != 0 {
            return index * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let start = words.len() * 8;
    start + rest.iter().position(|byte| *byte < 0x20 || *byte == 0x7f).unwrap_or(rest.len())
}

/// Where the first empty line of `bytes` ends: the index after the first CR LF CR LF.
#[inline]
pub(super) fn head_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(offset) = find_line_feed(&bytes[at..]) {
        at += offset + 1;
        let ends_line = at >= 2 && bytes[at - 2] == b'\r';
        if ends_line && bytes[at..].starts_with(b"\r\n") {
            return Some(at + 2);
        }
    }
    None
}

#[inline]
fn find_line_feed(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let flipped = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'\n'));
        let found = flipped.wrapping_sub(ONES) & !flipped & HIGHS;
        if found != 0 {
            return Some(index * 8 + (found.trailing_zeros() / 8) as usize);
        }
    }
    rest.iter().position(|byte| *byte == b'\n').map(|at| words.len() * 8 + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_value(byte: u8) -> bool {
        byte == b'\t' || (byte >= 0x20 && byte != 0x7f)
    }

    #[test]
    fn every_byte_is_judged_at_every_place_of_a_word() {
        for byte in 0..=255u8 {
            for place in 0..17 {
                let mut text = [b'a'; 17];
                text[place] = byte;
                let want = if is_value(byte) { 17 } else { place };
                assert_eq!(value_len(&text), want, "byte {byte:#x} at {place}");
            }
        }
    }

    proptest! {
        #[test]
        fn word_scans_agree_with_byte_scans(bytes in proptest::collection::vec(
            prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'\t'), Just(b'a'), any::<u8>()], 0..80)) {
            let naive = bytes.iter().position(|byte| !is_value(*byte)).unwrap_or(bytes.len());
            prop_assert_eq!(value_len(&bytes), naive);
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
            prop_assert_eq!(head_end(&bytes), end);
        }
    }
}
