//! HTTP/3 (RFC 9114) for the server's side of a connection, without its sockets and its clock.
//!
//! [`Connection`] is between a connection of [`quic`](freshet_quic) and a session: streams become
//! [`Event`]s, heads and bodies become frames on streams. What a client asks for the order of
//! responses (RFC 9218) is kept here; bodies stay with the session until there is room for them on the
//! way. [`qpack`] is the compression of fields (RFC 9204).
//!
//! Everything a client can make the connection remember is bounded by the [`limits`].

mod connection;
pub mod frame;
pub mod limits;
mod one_way;
pub mod qpack;

pub use crate::head::{Request, Said};
pub use connection::{Connection, DataFrame, Event, Local};

/// The protocol's name in ALPN (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";

/// Why a stream or a connection ends (RFC 9114 §8.1, RFC 9204 §6).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u64)]
pub enum Code {
    /// Nothing went wrong.
    NoError = 0x100,
    /// The peer broke the protocol.
    GeneralProtocolError = 0x101,
    /// Something failed on our side.
    InternalError = 0x102,
    /// A stream was opened that may not be.
    StreamCreationError = 0x103,
    /// A stream ended that the connection needs.
    ClosedCriticalStream = 0x104,
    /// A frame came where it may not.
    FrameUnexpected = 0x105,
    /// A frame cannot be read.
    FrameError = 0x106,
    /// The peer makes more work than a request is worth.
    ExcessiveLoad = 0x107,
    /// A number is used in a way it may not be.
    IdError = 0x108,
    /// A setting may not be so.
    SettingsError = 0x109,
    /// The settings did not come first.
    MissingSettings = 0x10a,
    /// The request was not looked at; it can be sent again.
    RequestRejected = 0x10b,
    /// The stream is not wanted any more.
    RequestCancelled = 0x10c,
    /// The request ended within its head or its body.
    RequestIncomplete = 0x10d,
    /// What came is not a message.
    MessageError = 0x10e,
    /// The compressed fields cannot be read.
    DecompressionFailed = 0x200,
    /// The client changes its table as it may not.
    EncoderStreamError = 0x201,
    /// The client acknowledges what was never sent.
    DecoderStreamError = 0x202,
}
