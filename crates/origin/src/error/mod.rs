//! What can go wrong between this node and an origin, by whose fault, and what to answer for it.
//!
//! [`OriginError`] carries the particulars for a log line; [`FailureKind`] is the same without
//! them, a small closed table that metrics, `Proxy-Status` and the answer's status are read from.

mod kind;
mod probe_failure;

pub use kind::FailureKind;
pub use probe_failure::ProbeFailure;

use freshet_http::proxy_status::ProxyError;
use freshet_net::NetError;
use freshet_wire::h1::chunked::ChunkError;
use freshet_wire::h1::response::ResponseError;
use freshet_wire::h2::{AnswerError, Code};
use std::fmt;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// A failed exchange with an origin. Variants are named by blame; [`OriginError::kind`] sorts them.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum OriginError {
    /// The source of the request body failed before its end: the client is gone or broke framing.
    #[error("the request body ended early: {reason}")]
    ClientBody {
        /// What the body's provider said.
        reason: String,
    },
    /// The origin may take the request's path for one that is not below what it is asked for.
    #[error("the path may lead out of what the origin is asked for")]
    ClientPath,
    /// The origin's settings cannot be used.
    #[error("origin `{origin}`: {reason}")]
    Config {
        /// Name or address as configured.
        origin: String,
        /// What is wrong and what was expected.
        reason: String,
    },
    /// Every connection the origin may have is in use and none became free in time.
    #[error("all {connections_max} connections to the origin are in use (waited {waited:?})")]
    LocalConnectionLimit {
        /// The limit that was met, `connections_max`.
        connections_max: u32,
        /// How long this exchange waited.
        waited: Duration,
    },
    /// The clients of one network have all connections they may have, and none came free in time.
    #[error("clients of one network may use {share_max} connections, none came free in {waited:?}")]
    LocalShareLimit {
        /// Their share.
        share_max: u32,
        /// How long was waited.
        waited: Duration,
    },
    /// Too many exchanges of this worker wait for a connection already.
    #[error("{waiting_max} exchanges of this worker wait for a connection to the origin already")]
    LocalQueueFull {
        /// The limit that was met, `connection_waiters_max`.
        waiting_max: usize,
    },
    /// This machine refused what a connection needs: descriptors, memory or ports.
    #[error("no connection to the origin could be opened: {reason}")]
    LocalResources {
        /// What the operating system said.
        reason: String,
    },
    /// The origin's name does not resolve.
    #[error("the origin's name `{name}` does not resolve: {reason}")]
    OriginNameUnknown {
        /// The host looked up.
        name: String,
        /// What the resolver said.
        reason: String,
    },
    /// The origin's name was not resolved in time.
    #[error("the origin's name `{name}` was not resolved within {limit:?}")]
    OriginNameTimeout {
        /// The host looked up.
        name: String,
        /// The connect timeout.
        limit: Duration,
    },
    /// The last address tried refused the connection.
    #[error("the origin at {address} refused the connection")]
    OriginRefused {
        /// The address.
        address: String,
    },
    /// It refused a connection a moment ago, and was not tried again.
    #[error("the origin at {address} refused a connection a moment ago and is not tried yet")]
    OriginHeldDown {
        /// The address.
        address: String,
    },
    /// No route to the origin, or its network said no.
    #[error("the origin at {address} cannot be reached: {reason}")]
    OriginUnreachable {
        /// The address.
        address: String,
        /// What the operating system said.
        reason: String,
    },
    /// No connection within the connect timeout.
    #[error("no connection to the origin at {address} within {limit:?}")]
    OriginConnectTimeout {
        /// The address tried last.
        address: String,
        /// The connect timeout.
        limit: Duration,
    },
    /// The TLS handshake failed.
    #[error("the TLS handshake with the origin failed: {reason}")]
    OriginTls {
        /// What the TLS library said.
        reason: String,
    },
    /// The TLS handshake did not end within the connect timeout.
    #[error("the TLS handshake with the origin took longer than {limit:?}")]
    OriginTlsTimeout {
        /// The connect timeout.
        limit: Duration,
    },
    /// The origin's certificate was not accepted.
    #[error("the origin's certificate was not accepted: {reason}")]
    OriginCertificate {
        /// What is wrong with it.
        reason: String,
    },
    /// The connection ended before a response head was complete.
    #[error("the origin closed the connection after {response_bytes} bytes of a response head")]
    OriginClosed {
        /// Bytes of the unfinished head.
        response_bytes: usize,
    },
    /// The connection broke in a way other than a close.
    #[error("the connection to the origin broke: {reason}")]
    OriginBroken {
        /// What the operating system or the TLS library said.
        reason: String,
    },
    /// Its machine acknowledged nothing of what was sent: it is gone, or the way to it.
    #[error("nothing came back from the origin's machine, not even that it had the request")]
    OriginVanished,
    /// The origin did not take the request in time.
    #[error("the origin took no byte of the request for {limit:?}")]
    OriginWriteTimeout {
        /// The limit between two bytes.
        limit: Duration,
    },
    /// No complete response head in time.
    #[error("the origin sent no response head within {limit:?}")]
    OriginFirstByteTimeout {
        /// The first-byte timeout.
        limit: Duration,
    },
    /// The response body stopped for too long.
    #[error("the origin sent nothing of the response body for {limit:?}")]
    OriginBodyTimeout {
        /// The limit between two bytes.
        limit: Duration,
    },
    /// The response head is not HTTP/1.
    #[error("the origin's response head is malformed: {reason}")]
    OriginHeadMalformed {
        /// The rule broken.
        reason: ResponseError,
    },
    /// The response head is larger than we take.
    #[error("the origin's response head is larger than allowed: {reason}")]
    OriginHeadTooLarge {
        /// Which limit was met.
        reason: ResponseError,
    },
    /// The fields of a response in HTTP/2 are refused.
    #[error("the origin's response is refused: {reason}")]
    OriginAnswer {
        /// The rule broken, or the limit met.
        reason: AnswerError,
    },
    /// The origin broke HTTP/2, which ends the connection.
    #[error("the origin does not keep to HTTP/2: {reason}")]
    OriginProtocol {
        /// What it did.
        reason: &'static str,
    },
    /// The origin did not look at a request in HTTP/2, which any other may be sent.
    #[error("the origin did not look at the request: {reason}")]
    OriginUnseen {
        /// How it said so.
        reason: &'static str,
    },
    /// The origin ended the stream before the head of a response.
    #[error("the origin ended the stream with {}", CodeName(*.code))]
    OriginStreamReset {
        /// RFC 9113 §7
        code: u32,
    },
    /// The stream or connection of HTTP/2 ended within a body.
    #[error("the origin's response body ended after {received} of {} bytes: {reason}", Declared(*.declared))]
    OriginStreamBroken {
        /// Body bytes received.
        received: u64,
        /// `Content-Length`, where it was said.
        declared: Option<u64>,
        /// How it ended.
        reason: String,
    },
    /// More interim responses than we take for one request.
    #[error("the origin sent more than {interim_max} interim responses to one request")]
    OriginInterimFlood {
        /// The limit that was met.
        interim_max: u32,
    },
    /// `101 Switching Protocols` although no upgrade was asked for (RFC 9110 §15.2.2).
    #[error("the origin switched protocols without being asked")]
    OriginUnaskedUpgrade,
    /// The body ended before its declared length or its last chunk.
    #[error("the origin's response body ended after {received} of {} bytes", Declared(*.declared))]
    OriginBodyIncomplete {
        /// Body bytes received.
        received: u64,
        /// `Content-Length`, or `None` for a chunked body without its last chunk.
        declared: Option<u64>,
    },
    /// The chunked coding of the body is malformed.
    #[error("the origin's chunked body is malformed: {reason}")]
    OriginBodyMalformed {
        /// The rule broken.
        reason: ChunkError,
    },
}

impl OriginError {
    /// The class of this failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::ClientBody { .. } => FailureKind::ClientBody,
            Self::ClientPath => FailureKind::ClientPath,
            Self::Config { .. } => FailureKind::Config,
            Self::LocalConnectionLimit { .. }
            | Self::LocalQueueFull { .. }
            | Self::LocalShareLimit { .. } => FailureKind::ConnectionLimit,
            Self::LocalResources { .. } => FailureKind::LocalResources,
            Self::OriginNameUnknown { .. } => FailureKind::Name,
            Self::OriginNameTimeout { .. } => FailureKind::NameTimeout,
            Self::OriginRefused { .. } => FailureKind::Refused,
            Self::OriginHeldDown { .. } => FailureKind::HeldDown,
            Self::OriginUnreachable { .. } => FailureKind::Unreachable,
            Self::OriginConnectTimeout { .. } | Self::OriginTlsTimeout { .. } => {
                FailureKind::ConnectTimeout
            }
            Self::OriginTls { .. } => FailureKind::Tls,
            Self::OriginCertificate { .. } => FailureKind::Certificate,
            Self::OriginClosed { .. }
            | Self::OriginBroken { .. }
            | Self::OriginVanished
            | Self::OriginUnseen { .. } => FailureKind::Closed,
            Self::OriginStreamReset { code } => kind_of_reset(*code),
            Self::OriginAnswer { reason: AnswerError::OriginTooLarge(_) } => {
                FailureKind::HeadTooLarge
            }
            Self::OriginAnswer { .. } | Self::OriginProtocol { .. } => FailureKind::HeadMalformed,
            Self::OriginWriteTimeout { .. } => FailureKind::WriteTimeout,
            Self::OriginFirstByteTimeout { .. } => FailureKind::FirstByteTimeout,
            Self::OriginBodyTimeout { .. } => FailureKind::BodyTimeout,
            Self::OriginHeadMalformed { .. } | Self::OriginInterimFlood { .. } => {
                FailureKind::HeadMalformed
            }
            Self::OriginHeadTooLarge { .. } => FailureKind::HeadTooLarge,
            Self::OriginUnaskedUpgrade => FailureKind::Upgrade,
            Self::OriginBodyIncomplete { .. } | Self::OriginStreamBroken { .. } => {
                FailureKind::BodyIncomplete
            }
            Self::OriginBodyMalformed { .. } => FailureKind::BodyMalformed,
        }
    }

    /// The error type for `Proxy-Status` (RFC 9209 §2.3).
    pub fn proxy_status(&self) -> ProxyError {
        self.kind().proxy_status()
    }

    /// The status to answer with when there is nothing stale to serve: 502 for a bad answer, 504
    /// for one too slow, 503 where the fault is here, 400 where it is the client's.
    pub fn status(&self) -> u16 {
        self.kind().status()
    }

    /// Whether the request did not reach an HTTP server, so that any method may be sent to another
    /// origin. A failed connection is; a response that never came is not. What was taken of a
    /// request body before is still gone: only a connection comes before the body is asked for.
    pub fn not_sent(&self) -> bool {
        matches!(
            self.kind(),
            FailureKind::LocalResources
                | FailureKind::ConnectionLimit
                | FailureKind::Config
                | FailureKind::HeldDown
        ) || self.marks_down()
            // RFC 9113 §8.7
            || matches!(self, Self::OriginUnseen { .. })
    }

    /// Whether the connection ended before a whole head had come, or that took too long, so that what may
    /// be asked twice may be asked of another origin.
    pub fn is_unanswered(&self) -> bool {
        matches!(self.kind(), FailureKind::Closed | FailureKind::FirstByteTimeout)
    }

    /// Whether the failure speaks against the origin's health: it could not be connected to.
    pub fn marks_down(&self) -> bool {
        matches!(
            self.kind(),
            FailureKind::Name
                | FailureKind::NameTimeout
                | FailureKind::Refused
                | FailureKind::Unreachable
                | FailureKind::ConnectTimeout
                | FailureKind::Tls
                | FailureKind::Certificate
        )
    }

    /// The error for a connection or handshake that failed.
    pub(crate) fn from_connect(error: NetError, limit: Duration) -> Self {
        use io::ErrorKind as K;
        match error {
            NetError::OriginConnect { address, kind, why } => match kind {
                // A Unix socket path that is not there is a refusal too.
                K::ConnectionRefused | K::ConnectionReset | K::NotFound => {
                    Self::OriginRefused { address: address.to_string() }
                }
                K::HostUnreachable | K::NetworkUnreachable | K::NetworkDown | K::TimedOut => {
                    Self::OriginUnreachable { address: address.to_string(), reason: why }
                }
                // Whatever else a connect gives (descriptors, ports, memory, rights) is ours.
                _ => Self::LocalResources { reason: format!("{address}: {why}") },
            },
            NetError::OriginConnectTimeout { address } => {
                Self::OriginConnectTimeout { address: address.to_string(), limit }
            }
            NetError::OriginCertificate { why } => Self::OriginCertificate { reason: why },
            NetError::OriginHandshakeTimeout => Self::OriginTlsTimeout { limit },
            NetError::OriginHandshake { why } => Self::OriginTls { reason: why },
            other => Self::LocalResources { reason: other.to_string() },
        }
    }

    /// The error for a response head that was refused.
    pub(crate) fn from_head(reason: ResponseError) -> Self {
        use ResponseError as E;
        match reason {
            E::OriginHeadTooLarge | E::OriginFieldsTooMany | E::OriginFieldNameTooLong => {
                Self::OriginHeadTooLarge { reason }
            }
            _ => Self::OriginHeadMalformed { reason },
        }
    }

    /// The error for a connection that failed between request and response head.
    pub(crate) fn from_io(error: &io::Error, response_bytes: usize) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::OriginClosed { response_bytes },
            io::ErrorKind::TimedOut => Self::OriginVanished,
            _ => Self::OriginBroken { reason: error.to_string() },
        }
    }
}

/// Codes that say that one of the two does not keep to the protocol are no accident of a server
/// (RFC 9113 §7).
fn kind_of_reset(code: u32) -> FailureKind {
    const BROKEN: [Code; 6] = [
        Code::ProtocolError,
        Code::FlowControlError,
        Code::StreamClosed,
        Code::FrameSizeError,
        Code::CompressionError,
        Code::Http11Required,
    ];
    if BROKEN.iter().any(|known| *known as u32 == code) {
        FailureKind::HeadMalformed
    } else {
        FailureKind::Closed
    }
}

/// A code by its name, as far as it has one.
struct CodeName(u32);

impl fmt::Display for CodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        match NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "code {}", self.0),
        }
    }
}

/// A declared length for people.
struct Declared(Option<u64>);

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) => write!(f, "{bytes}"),
            None => f.write_str("an unknown number of"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_slow_is_504_and_a_bad_answer_502() {
        let limit = Duration::from_secs(1);
        assert_eq!(OriginError::OriginFirstByteTimeout { limit }.status(), 504);
        assert_eq!(OriginError::OriginBodyTimeout { limit }.status(), 504);
        assert_eq!(OriginError::OriginClosed { response_bytes: 0 }.status(), 502);
        let malformed = OriginError::from_head(ResponseError::OriginStatusInvalid);
        assert_eq!(
            (malformed.status(), malformed.proxy_status()),
            (502, ProxyError::HttpProtocolError)
        );
        let large = OriginError::from_head(ResponseError::OriginFieldsTooMany);
        assert_eq!(large.kind(), FailureKind::HeadTooLarge);
    }

    fn connect_error(kind: io::ErrorKind) -> OriginError {
        let address = "192.0.2.1:80".parse().unwrap();
        let error = NetError::OriginConnect { address, kind, why: kind.to_string() };
        OriginError::from_connect(error, Duration::from_secs(3))
    }

    #[test]
    fn only_failures_before_the_request_let_any_method_go_elsewhere() {
        let refused = connect_error(io::ErrorKind::ConnectionRefused);
        assert!(refused.not_sent() && refused.marks_down());
        let closed = OriginError::OriginClosed { response_bytes: 0 };
        assert!(!closed.not_sent() && !closed.marks_down());
        let full = OriginError::LocalQueueFull { waiting_max: 1 };
        assert!(full.not_sent() && !full.marks_down());
    }

    #[test]
    fn errors_of_connect_say_whose_fault_it_was() {
        let kind = |kind| connect_error(kind).kind();
        assert_eq!(kind(io::ErrorKind::ConnectionRefused), FailureKind::Refused);
        assert_eq!(kind(io::ErrorKind::HostUnreachable), FailureKind::Unreachable);
        // What EMFILE reads as has no stable name.
        let descriptors = io::Error::from_raw_os_error(24).kind();
        assert_eq!(kind(descriptors), FailureKind::LocalResources);
        assert!(!connect_error(descriptors).marks_down());
    }

    #[test]
    fn an_incomplete_body_says_how_much_came() {
        let text =
            |declared| OriginError::OriginBodyIncomplete { received: 3, declared }.to_string();
        assert!(text(Some(9)).ends_with("after 3 of 9 bytes"));
        assert!(text(None).contains("of an unknown number of bytes"));
    }
}
