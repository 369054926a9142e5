//! QUIC versions 1 (RFC 9000, 9001, 9002) and 2 (RFC 9369) for the server's side of a connection, without
//! its sockets and its clock.
//!
//! What it must never know: sockets, clocks, and what is said on its streams. Neighbours:
//! `freshet_http` says which stream sends next; `freshet_wire` makes HTTP/3 of the streams, and its tests
//! hold both against clients; `freshet_net` has the sockets and sorts what arrives.
//!
//! [`Connection`] takes the datagrams a client sends and fills batches of datagrams for it. Handshakes
//! and keys are those of rustls; packets, losses, congestion, flow control and streams are here.
//!
//! Sending is pull: a stream owns the pieces of a body, whatever they are, as long as they can be
//! seen as bytes; a packet is cut from them when there is room on the way for it, and once more when
//! it was lost. What arrived gives its piece back.
//!
//! Everything a client can make a connection remember is bounded by the [`limits`].
#![forbid(unsafe_code)]

mod ack_frequency;
mod batch;
mod bbr;
pub mod cipher;
mod congestion;
mod connection;
mod cubic;
mod datagram_size;
pub mod ecn;
pub mod error;
pub mod frame;
mod id;
mod ids;
pub mod keys;
pub mod limits;
mod one_rtt;
mod pacer;
pub mod packet;
pub mod parameters;
mod path;
mod random;
mod ranges;
mod receive;
mod refusal;
mod reordering;
pub mod retry;
mod route;
mod rtt;
mod send;
mod sent;
mod sessions;
mod space;
mod stream;
mod streams;
pub mod varint;
mod version;

pub use ack_frequency::Frequency;
pub use batch::Batch;
pub use congestion::Algorithm;
pub use connection::{Accept, Closed, Config, Connection, Marks, Statistics};
pub use ecn::Ecn;
pub use error::Error;
pub use id::{ID_BYTES_MAX, Id};
pub use ids::ResetTokens;
pub use refusal::Refused;
pub use route::Route;
pub use streams::StreamEvent;
pub use version::Version;
