//! The Huffman code of RFC 7541 Appendix B.
//!
//! The code is canonical: among codes of equal length the order is that of the symbols, and each
//! length continues where the shorter one ended. So the lengths are all there is to know.

use super::HpackError;

/// Bits of each byte's code; the last is of the sign for the end.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const SYMBOLS: usize = LENGTHS.len();
const END: u16 = 256;
const BITS_MIN: u8 = 5;
const BITS_MAX: u8 = 30;
const SHORT_BITS_MAX: u8 = 8;

/// What follows from the lengths.
struct Codes {
    /// Each symbol's code, in the low bits.
    codes: [u32; SYMBOLS],
    /// The symbols by length and then by value.
    ordered: [u16; SYMBOLS],
    /// For each length: the first 32 bits, as a number, of what comes behind its last code.
    ends: [u64; BITS_MAX as usize + 1],
    /// For each length: its first code, to be subtracted, and the place of that code's symbol.
    firsts: [(u32, u16); BITS_MAX as usize + 1],
    /// For each beginning of [`SHORT_BITS_MAX`] bits: the symbol whose code it begins with and the bits of that
    /// code, 0 where it is longer. All that is usual in text is here.
    short: [(u8, u8); 1 << SHORT_BITS_MAX],
}

static CODES: Codes = codes();

const fn codes() -> Codes {
    let mut out = Codes {
        codes: [0; SYMBOLS],
        ordered: [0; SYMBOLS],
        ends: [0; BITS_MAX as usize + 1],
        firsts: [(0, 0); BITS_MAX as usize + 1],
        short: [(0, 0); 1 << SHORT_BITS_MAX],
    };
    let (mut code, mut place, mut bits) = (0, 0, BITS_MIN);
    while bits <= BITS_MAX {
        out.firsts[bits as usize] = (code, place as u16);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] == bits {
                out.codes[symbol] = code;
                out.ordered[place] = symbol as u16;
                if bits <= SHORT_BITS_MAX {
                    let open = SHORT_BITS_MAX - bits;
                    let mut beginning = (code as usize) << open;
                    let end = (code as usize + 1) << open;
                    while beginning < end {
                        out.short[beginning] = (symbol as u8, bits);
                        beginning += 1;
                    }
                }
                code += 1;
                place += 1;
            }
            symbol += 1;
        }
        out.ends[bits as usize] = (code as u64) << (32 - bits);
        code <<= 1;
        bits += 1;
    }
    out
}

/// The symbol whose code `window` begins with, and its bits.
fn symbol(window: u32) -> Option<(u16, u32)> {
    let (symbol, bits) = CODES.short[(window >> (32 - SHORT_BITS_MAX)) as usize];
    if bits > 0 {
        return Some((symbol.into(), bits.into()));
    }
    for bits in SHORT_BITS_MAX + 1..=BITS_MAX {
        let at = usize::from(bits);
        if u64::from(window) < *CODES.ends.get(at)? {
            let (first, place) = *CODES.firsts.get(at)?;
            let offset = (window >> (32 - bits)) - first;
            return Some((*CODES.ordered.get(usize::from(place) + offset as usize)?, bits.into()));
        }
    }
    None
}

/// Appends what `input` says to `out`; at most 8/5 of its length.
///
/// # Errors
/// [`HpackError`]: a sign for the end within the text, or padding that is not the beginning of one or
/// too long (RFC 7541 §5.2).
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    out.reserve(input.len() * 8 / usize::from(BITS_MIN));
    let mut input = input.iter();
    // Unread bits, from the highest down, and how many there are.
    let (mut bits, mut count) = (0_u64, 0_u32);
    loop {
        while count <= 56 {
            let Some(byte) = input.next() else { break };
            bits |= u64::from(*byte) << (56 - count);
            count += 8;
        }
        if count == 0 {
            return Ok(());
        }
        // Behind the end all is as if padding went on.
        let window = ((bits | u64::MAX.checked_shr(count).unwrap_or(0)) >> 32) as u32;
        let (symbol, length) = symbol(window).ok_or(HpackError::ClientHuffman)?;
        if length > count {
            let is_padding = count < 8 && window == u32::MAX;
            return if is_padding { Ok(()) } else { Err(HpackError::ClientHuffman) };
        }
        // The sign for the end is not a byte.
        out.push(u8::try_from(symbol).map_err(|_| HpackError::ClientHuffman)?);
        debug_assert!(symbol < END);
        bits <<= length;
        count -= length;
    }
}

/// Bytes that `text` takes in this code.
pub fn encoded_bytes(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the code of `text` to `out`.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    // Bits that are not written yet, in the low end: less than 32 and one code.
    let (mut bits, mut count) = (0_u64, 0_u32);
    for byte in text {
        let at = usize::from(*byte);
        let length = u32::from(LENGTHS[at]);
        bits = bits << length | u64::from(CODES.codes[at]);
        count += length;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    while count >= 8 {
        count -= 8;
        out.push((bits >> count) as u8);
    }
    if count > 0 {
        // The beginning of the sign for the end is all ones.
        out.push((bits << (8 - count)) as u8 | (0xff >> count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_code_is_all_ones() {
        assert_eq!(CODES.codes[usize::from(END)], (1 << 30) - 1);
        assert_eq!(CODES.ends[usize::from(BITS_MAX)], 1 << 32);
    }

    #[test]
    fn padding_is_at_most_seven_ones() {
        let decoded = |input: &[u8]| {
            let mut out = Vec::new();
            decode(input, &mut out).map(|()| out)
        };
        assert_eq!(decoded(&[0b0000_0111]), Ok(b"0".to_vec()));
        for wrong in [&[0b0000_0110][..], &[0b0000_0111, 0xff], &[0xff], &[0xff; 4], &[0b0000_0011]]
        {
            assert_eq!(decoded(wrong), Err(HpackError::ClientHuffman), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (mut coded, mut back) = (Vec::new(), Vec::new());
            encode(&text, &mut coded);
            prop_assert_eq!(coded.len(), encoded_bytes(&text));
            prop_assert_eq!(decode(&coded, &mut back), Ok(()));
            prop_assert_eq!(back, text);
        }
    }
}
