//! Heads of requests and responses, the same for every protocol version.

use crate::fields::Fields;
use std::fmt;

/// A request method. Names are case-sensitive (RFC 9110 §9.1).
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub enum Method {
    /// `GET`
    #[default]
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// `OPTIONS`
    Options,
    /// `TRACE`
    Trace,
    /// `CONNECT`
    Connect,
    /// `PATCH`
    Patch,
    /// `PURGE`, which is ours: a request to forget the target
    Purge,
    /// Any other token, as it was sent.
    Other(Box<str>),
}

impl Method {
    /// The method of this name; any text is taken, parsers check that it is a token.
    pub fn from_name(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            "TRACE" => Self::Trace,
            "CONNECT" => Self::Connect,
            "PATCH" => Self::Patch,
            "PURGE" => Self::Purge,
            other => Self::Other(other.into()),
        }
    }

    /// The name as it is sent.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Connect => "CONNECT",
            Self::Patch => "PATCH",
            Self::Purge => "PURGE",
            Self::Other(name) => name,
        }
    }

    /// Whether some servers take it for another method: `get`, which frameworks bring to upper case,
    /// or `PRI`, which begins HTTP/2 (RFC 9113 §11.6).
    pub fn is_lookalike(&self) -> bool {
        match self {
            Self::Other(name) if &**name == "PRI" => true,
            Self::Other(name) => {
                let has_lower = name.bytes().any(|byte| byte.is_ascii_lowercase());
                has_lower && !matches!(Self::from_name(&name.to_ascii_uppercase()), Self::Other(_))
            }
            _ => false,
        }
    }

    /// Whether the method is registered as safe (RFC 9110 §9.2.1, and §16.1.1 for those of other documents: RFC 3253,
    /// 4918, 5323 and 10008). An unknown one is not.
    pub fn is_safe(&self) -> bool {
        match self {
            Self::Get | Self::Head | Self::Options | Self::Trace => true,
            Self::Other(name) => matches!(&**name, "PROPFIND" | "QUERY" | "REPORT" | "SEARCH"),
            _ => false,
        }
    }

    /// Whether the method is defined as idempotent (RFC 9110 §9.2.2), so that it may be sent again
    /// on a fresh connection.
    pub fn is_idempotent(&self) -> bool {
        self.is_safe() || matches!(self, Self::Put | Self::Delete)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The protocol version a message came in.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
    /// HTTP/2
    Http2,
    /// HTTP/3
    Http3,
}

impl Version {
    /// As `HTTP/1.1`, for logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Http3 => "HTTP/3",
        }
    }

    /// As `1.1`, for `Via` (RFC 9110 §7.6.3).
    pub fn number(self) -> &'static str {
        match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
            Self::Http2 => "2",
            Self::Http3 => "3",
        }
    }
}

/// The scheme of the target URI.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Scheme {
    /// `http`
    #[default]
    Http,
    /// `https`
    Https,
}

impl Scheme {
    /// `http` or `https`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// A request without its body, in the form every protocol is brought to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RequestHead {
    /// Method.
    pub method: Method,
    /// Scheme the client used, or said by a trusted proxy in front.
    pub scheme: Scheme,
    /// Host and optional port, lower case, from the target's authority or `Host`; empty for an
    /// HTTP/1.0 request without either. The `Host` field itself is not in `fields`.
    pub authority: String,
    /// Path and query as sent, beginning with `/`, or `*` for `OPTIONS *`.
    pub target: String,
    /// Version the client spoke.
    pub version: Version,
    /// All other fields, hop-by-hop ones still there.
    pub fields: Fields,
}

/// A response without its body.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ResponseHead {
    /// Status code, 100 to 999.
    pub status: u16,
    /// Reason phrase where the origin sent another than the usual one.
    pub reason: Option<Box<str>>,
    /// Version the origin spoke.
    pub version: Version,
    /// Fields.
    pub fields: Fields,
}

impl ResponseHead {
    /// A response of this status without fields.
    pub fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// The reason phrase to send over HTTP/1. Policies may have statuses above 999 among themselves, of
    /// which the last three digits are sent.
    pub fn reason_phrase(&self) -> &str {
        self.reason.as_deref().unwrap_or_else(|| reason_phrase(self.status % 1000))
    }
}

/// The registered reason phrase of a status code, or `""` (RFC 9110 §15, RFC 6585, RFC 8297).
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        510 => "Not Extended",
        511 => "Network Authentication Required",
        _ => "",
    }
}
