//! The PROXY protocol, versions 1 and 2: the client's address as a load balancer in front saw it.
//!
//! Whether a peer may be believed is the caller's decision; this only reads what it says, and writes
//! it for an origin.

mod crc32c;
mod v1;
mod v2;
mod write;

pub use write::write;

use crate::error_table::error_table;
use std::fmt;
use std::net::SocketAddr;

/// What stood in front of a connection.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Header {
    /// Who connected to the proxy in front; `None` where it does not say, or over a Unix socket.
    pub source: Option<SocketAddr>,
    /// Where the client connected to.
    pub destination: Option<SocketAddr>,
    /// Further facts; version 2 only.
    pub tlvs: Tlvs,
    /// The proxy speaks for itself (a health check): the addresses of the socket are the real ones.
    pub local: bool,
    /// Whether it was of version 2.
    pub is_binary: bool,
    /// Why its addresses say nothing, where they do not; version 2 only.
    pub ignored: Option<Ignored>,
}

/// Why the addresses of a header say nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ignored {
    /// There are none.
    Unspecified,
    /// They are of a family and protocol that are not those of connections over IP, as this byte has it.
    Family(u8),
    /// There are fewer bytes than they have, this many.
    Short(Family, usize),
}

/// Whose addresses a header has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Family {
    /// IPv4's.
    Ipv4,
    /// IPv6's.
    Ipv6,
}

/// What is done where receivers do otherwise. Two mixtures exist: [`SPECIFIED`] and [`VARNISH`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Conduct {
    /// Addresses of version 2 that are of an unknown family, or not all there, say nothing: the connection is
    /// its peer's own. Otherwise they are refused.
    pub ignores_unknown: bool,
    /// Bytes of version 2 behind the fixed part.
    pub variable_bytes_max: usize,
}

/// As the protocol asks. It allows 64 KiB of addresses and type-length-values; this has room for every one
/// with names at their longest and a certificate chain's leaf.
pub const SPECIFIED: Conduct = Conduct { ignores_unknown: false, variable_bytes_max: 8 << 10 };

/// As Varnish does.
pub const VARNISH: Conduct = Conduct { ignores_unknown: true, variable_bytes_max: 1 << 10 };

/// The type-length-values of version 2 that mean something here; others are skipped.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tlvs {
    /// The protocol agreed by ALPN, as bytes (`h2`).
    pub alpn: Option<Box<[u8]>>,
    /// The host name the client sent, usually as SNI.
    pub authority: Option<Box<str>>,
    /// An identifier of the connection, at most 128 bytes.
    pub unique_id: Option<Box<[u8]>>,
    /// The TLS connection that the proxy in front has ended.
    pub ssl: Option<Ssl>,
}

/// The TLS connection between the client and the proxy in front.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ssl {
    /// The client connected over TLS.
    pub over_tls: bool,
    /// The client gave a certificate on this connection.
    pub certificate_on_connection: bool,
    /// The client gave a certificate at least once in this TLS session.
    pub certificate_in_session: bool,
    /// 0 where the certificate was verified, or none was asked for; else what OpenSSL's
    /// `SSL_get_verify_result` says.
    pub verify_result: u32,
    /// Version of TLS, as `TLSv1.3`.
    pub version: Option<Box<str>>,
    /// Common name of the client's certificate.
    pub common_name: Option<Box<str>>,
    /// Cipher, as `TLS_AES_128_GCM_SHA256`.
    pub cipher: Option<Box<str>>,
    /// Signature algorithm of the certificate.
    pub signature_algorithm: Option<Box<str>>,
    /// Key algorithm of the certificate.
    pub key_algorithm: Option<Box<str>>,
}

error_table! {
    /// Why what stands in front of a connection is not a PROXY header. The connection must be
    /// closed; the status is for logs, an answer is not expected.
    Error {
        ClientDestinationInvalid = 400, "the destination in the PROXY header is malformed";
        ClientChecksum = 400, "the checksum of the PROXY header does not match";
        ClientFamilyUnknown = 400, "the address family of the PROXY header is unknown";
        ClientFieldsTooFew = 400, "the PROXY line has too few fields";
        ClientFieldsTooMany = 400, "the PROXY line has too many fields";
        ClientHeaderTooLarge = 400, "the PROXY header is too large";
        ClientLineInvalid = 400, "the PROXY line is malformed";
        ClientNoHeader = 400, "the connection does not start with a PROXY header";
        ClientSourceInvalid = 400, "the source in the PROXY header is malformed";
        ClientTlvInvalid = 400, "a TLV of the PROXY header is malformed";
        ClientTlvTooLong = 400, "a TLV of the PROXY header does not fit where it is";
        ClientTlvTruncated = 400, "the PROXY header ends within the head of a TLV";
        ClientTruncated = 400, "the PROXY header is shorter than its addresses";
        ClientVersionUnsupported = 400, "the PROXY header has an unknown version or command";
    }
}

/// Reads the header at the start of `buffer`: the header and how many bytes it took, or `None`
/// where more bytes are needed. Something else than a header is told at its first wrong byte, an
/// oversized one as soon as it says its length.
///
/// # Errors
/// [`Error`]
pub fn parse(buffer: &[u8]) -> Result<Option<(Header, usize)>, Error> {
    parse_by(SPECIFIED, buffer)
}

/// The same by another conduct.
///
/// # Errors
/// [`Error`]
pub fn parse_by(conduct: Conduct, buffer: &[u8]) -> Result<Option<(Header, usize)>, Error> {
    match buffer.first() {
        None => Ok(None),
        Some(b'P') => v1::parse(buffer),
        Some(_) => v2::parse(conduct, buffer),
    }
}

impl fmt::Display for Ignored {
    /// In the words of Varnish's log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unspecified => write!(f, "Ignoring UNSPEC|UNSPEC addresses"),
            Self::Family(byte) => write!(f, "Ignoring unsupported protocol (0x{byte:02x})"),
            Self::Short(family, bytes) => {
                let family = match family {
                    Family::Ipv4 => "IPv4",
                    Family::Ipv6 => "IPv6",
                };
                write!(f, "Ignoring short {family} addresses ({bytes})")
            }
        }
    }
}

/// Whether `buffer` starts with `start` as far as both go; `Some(true)` where all of it is there.
fn starts_with(buffer: &[u8], start: &[u8]) -> Option<bool> {
    let len = buffer.len().min(start.len());
    (buffer[..len] == start[..len]).then_some(len == start.len())
}

#[cfg(test)]
mod tests;
