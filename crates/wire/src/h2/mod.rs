//! HTTP/2 (RFC 9113) without its sockets and its clock.
//!
//! [`Connection`] takes the bytes a peer sends, frame by frame, and answers with [`Event`]s; what
//! it has to say itself it appends to a buffer of control bytes. Bodies never pass through it: a
//! session says how many bytes of a stream are there and is told which stream may send how many of
//! them next. [`hpack`] is the compression of fields (RFC 7541), [`Priority`] what a client asks for
//! (RFC 9218).
//!
//! [`Connection::new`] is the server's side, [`Connection::client`] that of one that asks an origin:
//! it [asks](Connection::ask) instead of [responding](Connection::respond), and is otherwise the same.
//!
//! Everything a peer can make the connection remember is bounded by the [`limits`], and whoever
//! only makes it work is told to go (RFC 9113 §10.5).

mod calm;
pub mod conduct;
mod connection;
mod frame;
pub mod hpack;
pub mod limits;
mod settings;
mod upgrade;
mod window;

pub use crate::answer::{Answer, AnswerError};
pub use crate::head::{Request, Said};
pub use conduct::Conduct;
pub use connection::{Ask, Connection, DataFrame, Event, Failed, Received};
pub use frame::{FRAME_HEADER_BYTES, data_frame_header};
pub use freshet_http::priority::Priority;
pub use settings::Local;
pub use upgrade::Upgrade;

/// What a client with prior knowledge, or after ALPN, sends first (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Why a stream or a connection ends (RFC 9113 §7). A peer may send other numbers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u32)]
pub enum Code {
    /// Nothing went wrong.
    NoError = 0,
    /// The peer broke the protocol.
    ProtocolError = 1,
    /// Something failed on our side.
    InternalError = 2,
    /// The peer sent more than it was allowed to.
    FlowControlError = 3,
    /// A frame came for a stream, or half of one, that is closed.
    StreamClosed = 5,
    /// A frame has a length that its type does not allow.
    FrameSizeError = 6,
    /// The stream was not looked at; the request can be sent again.
    RefusedStream = 7,
    /// The stream is not wanted any more.
    Cancel = 8,
    /// The compressed fields cannot be read, and so no later ones.
    CompressionError = 9,
    /// The peer makes more work than a request is worth.
    EnhanceYourCalm = 11,
    /// The request has to be sent over HTTP/1.1.
    Http11Required = 13,
}
