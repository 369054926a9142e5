//! CRC-32C (Castagnoli), as RFC 9260 appendix A has it. Headers are short and rare, so a table of
//! one byte's steps is enough.

/// The polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut out = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        out[index] = value;
        index += 1;
    }
    out
};

/// The checksum of the parts one behind the other.
pub(super) fn crc32c(parts: [&[u8]; 3]) -> u32 {
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)];
    !parts.iter().flat_map(|part| part.iter()).fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_checksums_come_out() {
        assert_eq!(crc32c([b"123456789", b"", b""]), 0xe306_9283);
        assert_eq!(crc32c([b"1234", b"", b"56789"]), 0xe306_9283);
        // RFC 3720 appendix B.4: 32 bytes of zeros and of ones.
        assert_eq!(crc32c([&[0; 32], b"", b""]), 0x8a91_36aa);
        assert_eq!(crc32c([&[0xff; 32], b"", b""]), 0x62a8_ab43);
    }
}
