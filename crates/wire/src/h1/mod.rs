//! HTTP/1.0 and HTTP/1.1 message syntax (RFC 9112).
//!
//! [`request::parse`] and [`response::parse`] read heads, [`chunked`] reads and writes bodies of
//! unknown length, [`write`](mod@write) writes heads. All of them agree on one value: the
//! [`Framing`] of the body, which is decided once by the parser and then never derived from fields
//! again.

pub mod chunked;
pub(crate) mod line;
pub mod request;
pub mod response;
mod scan;
pub mod write;

/// How the end of a body is found (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Framing {
    /// No body follows the head.
    None,
    /// This many bytes follow; may be 0, which is said aloud in the head.
    Length(u64),
    /// Chunks follow (RFC 9112 §7.1).
    Chunked,
    /// All bytes until the connection closes; responses only.
    UntilClose,
}

/// What a peer may send before it is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Bytes of a head, start line and empty line included. 32 KiB holds the cookies of real sites
    /// several times over, and is what a connection may pin while its head is incomplete.
    pub head_bytes_max: usize,
    /// Field lines of a head. Look-ups walk the lines, so this bounds their cost too.
    pub fields_max: usize,
    /// Bytes of a request target. RFC 9112 §3 asks for at least 8000.
    pub target_bytes_max: usize,
    /// Refuse responses whose transfer coding is unknown, contradicts a `Content-Length` or comes
    /// from HTTP/1.0, instead of reading them in the way RFC 9112 §6.3 says and closing.
    pub strict_transfer_coding: bool,
    /// Refuse responses whose transfer coding is unknown, whatever else they say.
    pub refuses_unknown_codings: bool,
    /// Request heads are read as Varnish reads them, whose policies expect to see what a client
    /// sent: see [`request::parse`]. Otherwise as RFC 9112 asks of a gateway: what others could read
    /// in another way is refused.
    pub takes_loose_heads: bool,
    /// Bytes of one field line of a loose head.
    pub line_bytes_max: usize,
    /// Whether targets of loose heads with `https:` are split as those with `http:` are.
    pub splits_https: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 32 * 1024,
            fields_max: 100,
            target_bytes_max: 8 * 1024,
            strict_transfer_coding: false,
            line_bytes_max: 32 * 1024,
            refuses_unknown_codings: false,
            takes_loose_heads: false,
            splits_https: false,
        }
    }
}
