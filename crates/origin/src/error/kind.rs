//! Classes of failure, and what is said of each.

use freshet_http::proxy_status::ProxyError;

/// A class of failure: the closed set that metrics count and `Proxy-Status` names.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(usize)]
pub enum FailureKind {
    /// Name resolution failed.
    Name,
    /// Name resolution timed out.
    NameTimeout,
    /// Connection refused.
    Refused,
    /// Not tried, for it refused a connection a moment ago.
    HeldDown,
    /// No route.
    Unreachable,
    /// Connecting timed out.
    ConnectTimeout,
    /// TLS failed.
    Tls,
    /// Certificate not accepted.
    Certificate,
    /// Our own limit on connections.
    ConnectionLimit,
    /// Our own lack of descriptors, ports or memory.
    LocalResources,
    /// Closed or broken before a response head was complete.
    Closed,
    /// Origin does not take the request.
    WriteTimeout,
    /// No response head in time.
    FirstByteTimeout,
    /// Body stopped for too long.
    BodyTimeout,
    /// Response head malformed or against protocol.
    HeadMalformed,
    /// Response head too large.
    HeadTooLarge,
    /// Unasked protocol switch.
    Upgrade,
    /// Body ended early.
    BodyIncomplete,
    /// Chunked coding malformed.
    BodyMalformed,
    /// The client's request body failed.
    ClientBody,
    /// The path of the client's request may lead out of what the origin is asked for.
    ClientPath,
    /// Configuration cannot be used.
    Config,
}

/// What is said about a [`FailureKind`]: metrics label, RFC 9209 §2.3 type, status of the answer, and
/// what to do about it or where to look.
struct Row(FailureKind, &'static str, ProxyError, u16, &'static str);

/// In the order of the enum, so that a kind is its own index. Statuses are those RFC 9209
/// recommends with three exceptions: a client that broke its own request gets 400, and what RFC
/// 9209 would answer with 500 (configuration, our resources) is 503, because another node or a
/// later try may well answer.
const TABLE: [Row; 22] = [
    Row(
        FailureKind::Name,
        "name",
        ProxyError::DnsError,
        502,
        "is the name right, and does this machine resolve it?",
    ),
    Row(
        FailureKind::NameTimeout,
        "name-timeout",
        ProxyError::DnsTimeout,
        504,
        "this machine's name server does not answer in time",
    ),
    Row(
        FailureKind::Refused,
        "refused",
        ProxyError::ConnectionRefused,
        502,
        "does it run, and listen on that port?",
    ),
    Row(
        FailureKind::HeldDown,
        "held-down",
        ProxyError::ConnectionRefused,
        502,
        "does it run, and listen on that port?",
    ),
    Row(
        FailureKind::Unreachable,
        "unreachable",
        ProxyError::DestinationIpUnroutable,
        502,
        "is there a route to it, and no firewall between?",
    ),
    Row(
        FailureKind::ConnectTimeout,
        "connect-timeout",
        ProxyError::ConnectionTimeout,
        504,
        "does it run, and does no firewall drop what is sent to it?",
    ),
    Row(
        FailureKind::Tls,
        "tls",
        ProxyError::TlsProtocolError,
        502,
        "does it speak TLS on that port, and a version of it that this node does?",
    ),
    Row(
        FailureKind::Certificate,
        "certificate",
        ProxyError::TlsCertificateError,
        502,
        "renew it if its time is over; name its authority in origin.ca or its name in origin.sni, or \
         give up origin.verify",
    ),
    Row(
        FailureKind::ConnectionLimit,
        "connection-limit",
        ProxyError::ConnectionLimitReached,
        503,
        "raise origin.connections_max if it can take more",
    ),
    Row(
        FailureKind::LocalResources,
        "local-resources",
        ProxyError::ProxyInternalError,
        503,
        "this machine is short of descriptors, ports or memory",
    ),
    Row(
        FailureKind::Closed,
        "closed",
        ProxyError::ConnectionTerminated,
        502,
        "its own log says why it closes; if it wants a certificate, name one in origin.certificate",
    ),
    Row(
        FailureKind::WriteTimeout,
        "write-timeout",
        ProxyError::ConnectionWriteTimeout,
        504,
        "it takes requests too slowly; origins.between_bytes_timeout is the limit",
    ),
    Row(
        FailureKind::FirstByteTimeout,
        "first-byte-timeout",
        ProxyError::HttpResponseTimeout,
        504,
        "it answers too slowly; origins.first_byte_timeout is the limit",
    ),
    Row(
        FailureKind::BodyTimeout,
        "body-timeout",
        ProxyError::ConnectionReadTimeout,
        504,
        "its answers stop on the way; origins.between_bytes_timeout is the limit",
    ),
    Row(
        FailureKind::HeadMalformed,
        "head-malformed",
        ProxyError::HttpProtocolError,
        502,
        "does it speak HTTP on that port, and the version that origin.http has?",
    ),
    Row(
        FailureKind::HeadTooLarge,
        "head-too-large",
        ProxyError::HttpResponseHeaderSectionSize,
        502,
        "its answers carry more fields than this node takes",
    ),
    Row(
        FailureKind::Upgrade,
        "upgrade",
        ProxyError::HttpUpgradeFailed,
        502,
        "it does not keep to HTTP/1.1",
    ),
    Row(
        FailureKind::BodyIncomplete,
        "body-incomplete",
        ProxyError::HttpResponseIncomplete,
        502,
        "its own log says why it breaks answers off",
    ),
    Row(
        FailureKind::BodyMalformed,
        "body-malformed",
        ProxyError::HttpResponseTransferCoding,
        502,
        "it does not keep to HTTP/1.1",
    ),
    Row(
        FailureKind::ClientBody,
        "client-body",
        ProxyError::HttpRequestError,
        400,
        "its client did not send all of the request",
    ),
    Row(
        FailureKind::ClientPath,
        "client-path",
        ProxyError::HttpRequestError,
        400,
        "its client asked for something that is not below the path of origin.url",
    ),
    Row(
        FailureKind::Config,
        "config",
        ProxyError::ProxyConfigurationError,
        503,
        "correct its settings",
    ),
];

impl FailureKind {
    /// How many kinds there are.
    pub const COUNT: usize = TABLE.len();

    /// Every kind, in the order of [`FailureKind::index`].
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// Place in tables of counters, below [`FailureKind::COUNT`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Label for metrics and logs, kebab case.
    pub fn label(self) -> &'static str {
        self.row().1
    }

    /// Error type for `Proxy-Status` (RFC 9209 §2.3).
    pub fn proxy_status(self) -> ProxyError {
        self.row().2
    }

    /// Status to answer with.
    pub fn status(self) -> u16 {
        self.row().3
    }

    /// What to do about it or where to look, for logs.
    pub fn cure(self) -> &'static str {
        self.row().4
    }

    fn row(self) -> &'static Row {
        TABLE.get(self.index()).expect("the table has a row for every kind, as a test proves")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_table_is_in_the_order_of_the_kinds_and_labels_are_unique() {
        for (index, kind) in FailureKind::all().enumerate() {
            assert_eq!(kind.index(), index);
            assert!(matches!(kind.status(), 400 | 502..=504));
        }
        let labels: HashSet<_> = FailureKind::all().map(FailureKind::label).collect();
        assert_eq!(labels.len(), FailureKind::COUNT);
    }
}
