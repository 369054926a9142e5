//! Playlists of HLS: RFC 8216, its second edition (draft-pantos-hls-rfc8216bis) and low latency.

mod attributes;
mod facts;
mod lines;
mod players;
mod ranges;
mod variables;

pub use attributes::attribute;
pub use facts::read;
pub use lines::{Line, Lines, lines, milliseconds};
pub use players::{Multivariant, Part, Playlist, Segment, Variant};
pub use variables::{Given, Variables};
