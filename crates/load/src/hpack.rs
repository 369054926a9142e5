//! As much of HPACK (RFC 7541) as a client needs that asked for no dynamic table.
//!
//! With `SETTINGS_HEADER_TABLE_SIZE` 0 a server refers to the static table only, so a block can be read
//! without memory of earlier ones. Values are decoded as far as they are visible ASCII, which is all
//! that the fields of interest have; others are skipped.

use super::head::{Signs, number};

/// What a block of response fields says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Fields {
    pub(super) status: Option<u16>,
    pub(super) length: Option<u64>,
    pub(super) signs: Signs,
}

/// Longest integer here: lengths of strings of some kilobytes.
const INTEGER_MAX: u64 = 1 << 20;

/// Names of the static table (Appendix A) that matter, by index.
const NAMES: [(u64, &[u8]); 4] =
    [(8, b":status"), (21, b"age"), (28, b"content-length"), (60, b"via")];

/// Indexes of the static table that are `:status` with a value.
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];

/// Entries of the static table.
const STATIC_MAX: u64 = 61;

/// Reads a block.
///
/// # Errors
/// What is wrong, in words.
pub(super) fn decode(block: &[u8]) -> Result<Fields, &'static str> {
    let mut fields = Fields::default();
    let mut rest = block;
    let (mut name, mut value) = (Vec::new(), Vec::new());
    while let Some(&first) = rest.first() {
        if first & 0x80 != 0 {
            let index = integer(&mut rest, 7)?;
            match index {
                8..=14 => fields.status = STATUSES.get(index as usize - 8).copied(),
                1..=STATIC_MAX => {}
                _ => return Err("a reference to a table that was not asked for"),
            }
            continue;
        }
        if first & 0xe0 == 0x20 {
            // A new size of the table; it cannot be more than the nothing we allowed.
            if integer(&mut rest, 5)? != 0 {
                return Err("a table larger than what was allowed");
            }
            continue;
        }
        let index = integer(&mut rest, if first & 0x40 != 0 { 6 } else { 4 })?;
        name.clear();
        match index {
            0 => string(&mut rest, &mut name)?,
            1..=STATIC_MAX => {
                // `:status` is there seven times.
                let index = if (8..=14).contains(&index) { 8 } else { index };
                let known = NAMES.iter().find(|(number, _)| *number == index);
                name.extend_from_slice(known.map_or(b"?", |(_, name)| name));
            }
            _ => return Err("a reference to a table that was not asked for"),
        }
        value.clear();
        string(&mut rest, &mut value)?;
        match name.as_slice() {
            b":status" => {
                let status = number(&value).and_then(|status| u16::try_from(status).ok());
                fields.status = Some(status.ok_or("a status that is no number")?);
            }
            b"content-length" => {
                fields.length = Some(number(&value).ok_or("a content-length that is no number")?);
            }
            name => fields.signs.note(name, &value),
        }
    }
    Ok(fields)
}

/// An integer with a prefix of `bits` (§5.1), taken off the front of `rest`.
fn integer(rest: &mut &[u8], bits: u32) -> Result<u64, &'static str> {
    const CUT: &str = "a block of fields that is cut off";
    let (&first, mut bytes) = rest.split_first().ok_or(CUT)?;
    let mask = (1_u64 << bits) - 1;
    let mut value = u64::from(first) & mask;
    if value == mask {
        let mut shift = 0;
        loop {
            let (&byte, after) = bytes.split_first().ok_or(CUT)?;
            bytes = after;
            value += u64::from(byte & 0x7f) << shift;
            shift += 7;
            if value > INTEGER_MAX || shift > 28 {
                return Err("a number in a block of fields that is too large");
            }
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = bytes;
    Ok(value)
}

/// A string (§5.2), appended to `out`.
fn string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    let is_huffman = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer(rest, 7)? as usize;
    if length > rest.len() {
        return Err("a block of fields that is cut off");
    }
    let (text, after) = rest.split_at(length);
    *rest = after;
    if is_huffman {
        unpack(text, out)
    } else {
        out.extend_from_slice(text)
    }
    Ok(())
}

/// Symbols of the Huffman code (Appendix B) with up to 15 bits, by length. The code is canonical:
/// within a length codes ascend with the symbols, so the lengths say it all. Longer codes are those of
/// control characters, of the backslash and of bytes beyond ASCII.
const SYMBOLS: [(u32, &[u8]); 10] = [
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\0$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
];

/// Decodes as far as it is visible ASCII; the end of the text is then missing, which no field of
/// interest has.
fn unpack(text: &[u8], out: &mut Vec<u8>) {
    let (mut window, mut bits) = (0_u64, 0_u32);
    let mut bytes = text.iter();
    loop {
        while bits <= 32
            && let Some(byte) = bytes.next()
        {
            window = window << 8 | u64::from(*byte);
            bits += 8;
        }
        let (mut code, mut length_before) = (0_u64, 0);
        let mut found = None;
        for (length, symbols) in SYMBOLS {
            code <<= length - length_before;
            length_before = length;
            if bits < length {
                break;
            }
            let seen = (window >> (bits - length)) & ((1 << length) - 1);
            if let Some(symbol) = seen.checked_sub(code).and_then(|at| symbols.get(at as usize)) {
                found = Some((length, *symbol));
                break;
            }
            code += symbols.len() as u64;
        }
        // Nothing found: the padding of ones at the end, or a symbol that is not of interest.
        let Some((length, symbol)) = found else { return };
        bits -= length;
        window &= (1 << bits) - 1;
        out.push(symbol);
    }
}

/// Appends a string without Huffman's code, for requests.
pub(super) fn write_string(text: &[u8], out: &mut Vec<u8>) {
    let length = text.len();
    if length < 127 {
        out.push(length as u8);
    } else {
        out.push(127);
        let mut left = length - 127;
        while left >= 128 {
            out.push((left % 128) as u8 | 0x80);
            left /= 128;
        }
        out.push(left as u8);
    }
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Hit;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_standard_are_read() {
        // Appendix C.6.1: the first response with Huffman's code, but with a table.
        let block = [
            0x48, 0x82, 0x64, 0x02, 0x58, 0x85, 0xae, 0xc3, 0x77, 0x1a, 0x4b, 0x61, 0x96, 0xd0,
            0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b, 0x81,
            0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff, 0x6e, 0x91, 0x9d, 0x29, 0xad, 0x17, 0x18,
            0x63, 0xc7, 0x8f, 0x0b, 0x97, 0xc8, 0xe9, 0xae, 0x82, 0xae, 0x43, 0xd3,
        ];
        assert_eq!(decode(&block).unwrap().status, Some(302));
        let mut out = Vec::new();
        unpack(
            &[
                0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b,
                0x81, 0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
            ],
            &mut out,
        );
        assert_eq!(out, b"Mon, 21 Oct 2013 20:13:21 GMT");
        let mut out = Vec::new();
        unpack(
            &[
                0x9d, 0x29, 0xad, 0x17, 0x18, 0x63, 0xc7, 0x8f, 0x0b, 0x97, 0xc8, 0xe9, 0xae, 0x82,
                0xae, 0x43, 0xd3,
            ],
            &mut out,
        );
        assert_eq!(out, b"https://www.example.com");
    }

    #[test]
    fn literals_say_the_length_and_the_cache() {
        let mut block = vec![0x88, 0x0f, 0x0d];
        write_string(b"1048576", &mut block);
        block.push(0x00);
        write_string(b"cache-status", &mut block);
        write_string(b"freshet; hit", &mut block);
        let fields = decode(&block).unwrap();
        assert_eq!((fields.status, fields.length), (Some(200), Some(1_048_576)));
        assert_eq!(fields.signs.verdict(), Hit::Yes);
    }

    #[test]
    fn tables_that_were_not_asked_for_are_refused() {
        assert!(decode(&[0xbe]).is_err());
        assert!(decode(&[0x3f, 0x10]).is_err());
        assert!(decode(&[0x20, 0x88]).is_ok());
        assert!(decode(&[0x48, 0x85, 0x64]).is_err());
    }

    proptest! {
        #[test]
        fn no_block_breaks_the_reader(block in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = decode(&block);
        }
    }
}
