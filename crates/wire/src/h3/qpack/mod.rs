//! Compression of fields (RFC 9204): a table that everybody knows, and one for each direction that the
//! side fills which sends the fields.
//!
//! No head waits for what is told in advance: ours refer to nothing that the peer has not said that it
//! has, and of a peer's only as many may wait as it was allowed, which is none where nobody says otherwise.

mod decode;
mod encode;
mod statics;
mod table;

#[cfg(test)]
mod tests;

pub use decode::{Decoder, Unread, decode};
pub use encode::{Draft, Encoder, SECTIONS_MAX, begin, encode};
