//! Compression of fields (RFC 7541).

mod decode;
mod encode;
pub mod huffman;
pub(crate) mod integer;
pub(crate) mod statics;
mod table;

#[cfg(test)]
mod tests;

pub use decode::Decoder;
pub(crate) use decode::text;
pub use encode::Encoder;
pub use table::Indexing;

use thiserror::Error;

/// Why compressed fields cannot be read. No later ones of the connection can be read either.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum HpackError {
    /// The fields end within one.
    #[error("the fields end within one")]
    ClientTruncated,
    /// A number is larger than anything it could stand for.
    #[error("a number is too large")]
    ClientInteger,
    /// No field has this number.
    #[error("no field has this index")]
    ClientIndex,
    /// Text is not in the Huffman code.
    #[error("text is not in the Huffman code")]
    ClientHuffman,
    /// The table would be larger than allowed, or changes its size between fields.
    #[error("the table's size changes where or as it may not")]
    ClientTableSize,
}
