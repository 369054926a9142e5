//! Framing without sockets: bytes in, heads and body pieces out, and back again.
//!
//! This crate owns the wire forms of the protocols Freshet speaks: HTTP/1 heads and bodies
//! ([`h1`]), the PROXY protocol in front of them ([`proxy_protocol`]), the records of TLS under
//! them ([`tls`]), and the connections of HTTP/2 ([`h2`]) and HTTP/3 ([`h3`]). Each parser takes a buffer that starts where its message starts and answers one
//! of three things: a message and how many bytes it took, "not all there yet", or an error that
//! names what was wrong.
//!
//! What it must never know: sockets, clocks, caching, configuration files. It keeps no buffers;
//! the caller owns the bytes and asks again when more have arrived. Every length that a peer
//! chooses has a named maximum, enforced on messages that are not complete as well.
//!
//! It is deliberately the strict side of RFC 9112. A form that two parsers could frame in two ways
//! is refused, because what this proxy reads one way and an origin reads another is a smuggled
//! request. Only a response is repaired, and only where RFC 9112 says how.
//!
//! Neighbours: `freshet_http` has the heads that are filled here, `freshet_quic` the streams under
//! HTTP/3; sessions and origin connections call this crate from above.
//!
//! ```
//! use freshet_http::message::Scheme;
//! use freshet_wire::h1::{Framing, Limits, request};
//!
//! let bytes = b"GET /live/1.ts HTTP/1.1\r\nHost: Cdn.Example\r\n\r\n";
//! let limits = Limits::default();
//! assert_eq!(request::parse(&bytes[..30], Scheme::Http, &limits), Ok(None));
//! let request = request::parse(bytes, Scheme::Http, &limits)?.expect("the head is complete");
//! assert_eq!(request.head.authority, "cdn.example");
//! assert_eq!((request.framing, request.head_bytes), (Framing::None, bytes.len()));
//! # Ok::<(), freshet_wire::h1::request::RequestError>(())
//! ```
#![forbid(unsafe_code)]

mod answer;
mod error_table;
pub mod h1;
pub mod h2;
pub mod h3;
mod head;
mod outgoing;
pub mod proxy_protocol;
pub mod tls;
#[cfg(test)]
mod vectors;
