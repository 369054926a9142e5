//! TLS 1.2 and 1.3 by rustls with the AWS-LC provider.
//!
//! rustls does the handshake, the key schedule and the records; the module `session` moves its bytes
//! over a non-blocking socket. [`server`] and [`client`] make configurations and run handshakes,
//! [`certificate`] keeps what a server proves its names with and [`ticket`] lets clients come back
//! without a full handshake.

pub mod certificate;
pub mod client;
mod handshake;
mod pem;
pub mod server;
pub(crate) mod session;
pub mod ticket;

use rustls::crypto::CryptoProvider;
use std::sync::{Arc, LazyLock};

/// The protocol name of HTTP/1.1 in ALPN (RFC 7301 §6).
pub const ALPN_HTTP_1_1: &[u8] = b"http/1.1";

/// The protocol name of HTTP/2 over TLS in ALPN (RFC 9113 §3.1).
pub const ALPN_HTTP_2: &[u8] = b"h2";

/// What a handshake agreed on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsInfo {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite's registered name.
    pub suite: &'static str,
    /// The name the client asked for, lower case. Known on the server side only.
    pub sni: Option<Box<str>>,
    /// The protocol agreed on.
    pub alpn: Option<Box<[u8]>>,
    /// Whether the session continues an earlier one.
    pub resumed: bool,
}

/// The cryptography everything here uses, made once.
fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    &PROVIDER
}
