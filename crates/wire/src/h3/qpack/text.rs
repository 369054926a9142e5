//! Text, packed or not (RFC 9204 §4.1.2).

use crate::h2::hpack::{HpackError, huffman, integer};

/// Appends text, packed or not, to `out` and returns what follows.
pub(super) fn text<'a>(
    input: &'a [u8],
    prefix_bits: u32,
    out: &mut Vec<u8>,
) -> Result<&'a [u8], HpackError> {
    let is_packed = input.first().is_some_and(|first| first >> prefix_bits & 1 != 0);
    let (len, rest) = integer::read(input, prefix_bits)?;
    let (text, rest) = rest.split_at_checked(len).ok_or(HpackError::ClientTruncated)?;
    if is_packed {
        huffman::decode(text, out)?;
    } else {
        out.extend_from_slice(text);
    }
    Ok(rest)
}

/// Appends text, packed where that is shorter.
pub(super) fn write_text(pattern: u8, prefix_bits: u32, text: &[u8], out: &mut Vec<u8>) {
    let packed = huffman::encoded_bytes(text);
    if packed < text.len() {
        integer::write(pattern | 1 << prefix_bits, prefix_bits, packed, out);
        huffman::encode(text, out);
    } else {
        integer::write(pattern, prefix_bits, text.len(), out);
        out.extend_from_slice(text);
    }
}
