//! Fields into compressed fields.

use super::table::{Found, Indexing, Table};
use super::{huffman, integer};

/// Writes the fields of a connection's heads.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    /// Sizes of the table to be told before the next fields: the smallest it had since the last
    /// ones, and the present one (RFC 7541 §4.2).
    sizes: Option<(usize, usize)>,
    name: Vec<u8>,
}

impl Encoder {
    /// An encoder whose table has at most `table_bytes_max`, and no more than a peer allows that
    /// said nothing.
    pub fn new(table_bytes_max: usize) -> Self {
        Self { table: Table::new(table_bytes_max), sizes: None, name: Vec::new() }
    }

    /// The peer allows a table of this size.
    pub fn resize(&mut self, table_bytes_max: usize) {
        if table_bytes_max == self.table.bytes_max() {
            return;
        }
        let smallest = self.sizes.map_or(table_bytes_max, |(smallest, _)| smallest);
        self.sizes = Some((smallest.min(table_bytes_max), table_bytes_max));
        self.table.resize(table_bytes_max);
    }

    /// Begins the fields of one head.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some((smallest, size)) = self.sizes.take() {
            if smallest < size {
                integer::write(0x20, 5, smallest, out);
            }
            integer::write(0x20, 5, size, out);
        }
    }

    /// Appends a field. Its name is written in lower case, as HTTP/2 has it (RFC 9113 §8.2).
    pub fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        self.name.clear();
        self.name.extend(name.iter().map(u8::to_ascii_lowercase));
        let found = self.table.find(&self.name, value);
        if let (Found::Whole(index), false) = (found, indexing == Indexing::Never) {
            return integer::write(0x80, 7, index, out);
        }
        let (pattern, prefix_bits) = match indexing {
            Indexing::Kept => (0x40, 6),
            Indexing::Once => (0, 4),
            Indexing::Never => (0x10, 4),
        };
        match found {
            Found::Whole(index) | Found::Name(index) => {
                integer::write(pattern, prefix_bits, index, out);
            }
            Found::Nothing => {
                integer::write(pattern, prefix_bits, 0, out);
                text(&self.name, out);
            }
        }
        text(value, out);
        if indexing == Indexing::Kept {
            self.table.insert(&self.name, value);
        }
    }

    #[cfg(test)]
    pub(super) fn table_bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// Appends text, packed where that is not longer, as the examples of the RFC have it.
fn text(text: &[u8], out: &mut Vec<u8>) {
    let packed = huffman::encoded_bytes(text);
    if packed <= text.len() {
        integer::write(0x80, 7, packed, out);
        huffman::encode(text, out);
    } else {
        integer::write(0, 7, text.len(), out);
        out.extend_from_slice(text);
    }
}
