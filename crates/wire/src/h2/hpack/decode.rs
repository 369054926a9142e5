//! Compressed fields into fields.

use super::table::Table;
use super::{HpackError, huffman, integer};

/// Reads the fields of a connection's heads, in the order they were sent.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// What the client may let the table grow to.
    table_bytes_max: usize,
    /// Where text is unpacked.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// A decoder whose table has at most `table_bytes_max`.
    pub fn new(table_bytes_max: usize) -> Self {
        let table = Table::new(table_bytes_max);
        Self { table, table_bytes_max, name: Vec::new(), value: Vec::new() }
    }

    /// Reads all fields of one head and gives each to `field`, which must bound what it keeps: a
    /// byte of `block` can stand for a field as large as the table.
    ///
    /// # Errors
    /// [`HpackError`]; the connection has to end with COMPRESSION_ERROR.
    pub fn decode(
        &mut self,
        block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let mut rest = self.take_sizes(block)?;
        while let Some(first) = rest.first() {
            match first {
                0x80.. => {
                    let (index, after) = integer::read(rest, 7)?;
                    let (name, value) = self.table.field(index).ok_or(HpackError::ClientIndex)?;
                    field(name, value);
                    rest = after;
                }
                0x20..0x40 => return Err(HpackError::ClientTableSize),
                _ => {
                    let is_kept = *first >= 0x40;
                    let (index, after) = integer::read(rest, if is_kept { 6 } else { 4 })?;
                    self.name.clear();
                    rest = if index == 0 {
                        text(after, 7, &mut self.name)?
                    } else {
                        let (name, _) = self.table.field(index).ok_or(HpackError::ClientIndex)?;
                        self.name.extend_from_slice(name);
                        after
                    };
                    self.value.clear();
                    rest = text(rest, 7, &mut self.value)?;
                    if is_kept {
                        self.table.insert(&self.name, &self.value);
                    }
                    field(&self.name, &self.value);
                }
            }
        }
        // A large head is rare; its memory goes.
        self.name.shrink_to(TEXT_BYTES_KEPT);
        self.value.shrink_to(TEXT_BYTES_KEPT);
        Ok(())
    }

    /// Changes of the table's size come before the first field (RFC 7541 §4.2).
    fn take_sizes<'a>(&mut self, mut rest: &'a [u8]) -> Result<&'a [u8], HpackError> {
        while let Some(0x20..0x40) = rest.first() {
            let (size, after) = integer::read(rest, 5)?;
            if size > self.table_bytes_max {
                return Err(HpackError::ClientTableSize);
            }
            self.table.resize(size);
            rest = after;
        }
        Ok(rest)
    }

    #[cfg(test)]
    pub(super) fn table_bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// Memory for text kept between heads.
const TEXT_BYTES_KEPT: usize = 256;

/// Appends text, packed or not, to `out` and returns what follows. Its length has so many bits of the first
/// byte, 7 in HPACK (RFC 7541 §5.2, RFC 9204 §4.1.2).
#[inline]
pub(crate) fn text<'a>(
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
