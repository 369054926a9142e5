//! Bytes as digits that people copy: of keys, digests and secrets.

use std::fmt::Write as _;

/// Two lower-case digits for each byte.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// What was written as exactly `N` bytes, in digits of either case; nothing else is taken, no sign and no
/// white space.
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    decode_all(text)?.try_into().ok()
}

/// As [`decode`], of however many bytes.
pub fn decode_all(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |digits: &[u8; 2]| {
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        u8::try_from(high? << 4 | low?).ok()
    };
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_digits_of_that_length_is_taken() {
        assert_eq!(decode("00fFa0"), Some([0, 255, 160]));
        for wrong in ["", "00ff", "00ffa", "00ffa0a0", "+0ffa0", " 0ffa0", "00ffg0", "0éffa"] {
            assert_eq!(decode::<3>(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes: [u8; 256] = std::array::from_fn(|at| u8::try_from(at).expect("a byte"));
        assert_eq!(decode(&encode(&bytes)), Some(bytes));
        assert_eq!(encode(&bytes[..3]), "000102");
    }
}
