//! Numbers with a prefix (RFC 7541 §5.1).

use super::HpackError;

/// No length, index or size is larger than this.
const VALUE_MAX: usize = 1 << 24;

/// Reads a number whose first part is the low `prefix_bits` of the first byte. Returns it and what
/// follows.
pub(crate) fn read(input: &[u8], prefix_bits: u32) -> Result<(usize, &[u8]), HpackError> {
    let (first, mut rest) = input.split_first().ok_or(HpackError::ClientTruncated)?;
    let mask = (1_usize << prefix_bits) - 1;
    let mut value = usize::from(*first) & mask;
    if value < mask {
        return Ok((value, rest));
    }
    // Four bytes hold 28 bits, more than is ever needed.
    for shift in [0, 7, 14, 21] {
        let (byte, after) = rest.split_first().ok_or(HpackError::ClientTruncated)?;
        rest = after;
        value += usize::from(byte & 0x7f) << shift;
        if value > VALUE_MAX {
            break;
        }
        if byte & 0x80 == 0 {
            return Ok((value, rest));
        }
    }
    Err(HpackError::ClientInteger)
}

/// Appends `value` behind the bits of `pattern` above the prefix.
pub(crate) fn write(pattern: u8, prefix_bits: u32, value: usize, out: &mut Vec<u8>) {
    let mask = (1_usize << prefix_bits) - 1;
    if value < mask {
        return out.push(pattern | value as u8);
    }
    out.push(pattern | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        for (value, bits, bytes) in
            [(10, 5, &[0b01010][..]), (1337, 5, &[0b11111, 0b1001_1010, 0b1010]), (42, 8, &[42])]
        {
            let mut out = Vec::new();
            write(0, bits, value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(read(bytes, bits), Ok((value, &[][..])));
        }
    }

    #[test]
    fn every_number_comes_back() {
        for bits in 4..=7 {
            for value in (0..1000).chain([16_383, 16_384, VALUE_MAX]) {
                let mut out = Vec::new();
                write(0, bits, value, &mut out);
                out.push(9);
                assert_eq!(read(&out, bits), Ok((value, &[9][..])));
            }
        }
    }

    #[test]
    fn endless_numbers_and_those_cut_off_are_errors() {
        assert_eq!(read(&[0x7f, 0xff, 0xff, 0xff, 0xff, 1], 7), Err(HpackError::ClientInteger));
        assert_eq!(read(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0], 7), Err(HpackError::ClientInteger));
        assert_eq!(read(&[0x7f, 0xff], 7), Err(HpackError::ClientTruncated));
        assert_eq!(read(&[], 7), Err(HpackError::ClientTruncated));
    }
}
