//! Heads between the `http` crate's types, which `h2` speaks, and ours.

use crate::config::settings::Limits;
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead, ResponseHead, Scheme, Version};
use freshet_http::target;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode, request};

/// Why a stream is refused.
pub(super) enum Refusal {
    /// Not a request: the stream is reset (RFC 9113 §8.1.1).
    Malformed,
    /// A request over a limit.
    Status(u16),
}

/// Fields that HTTP/2 forbids, because they are about a connection (RFC 9113 §8.2.2).
const CONNECTION_FIELDS: [&str; 5] =
    ["connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"];

/// A request head in our form. Where a policy decides what a request has to say, it may lack an
/// authority.
pub(super) fn request(
    parts: &request::Parts,
    scheme: Scheme,
    limits: &Limits,
    needs_authority: bool,
) -> Result<RequestHead, Refusal> {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    if target.len() > limits.target_bytes_max {
        return Err(Refusal::Status(414));
    }
    if parts.headers.len() > limits.fields_max {
        return Err(Refusal::Status(431));
    }
    let mut fields = Fields::with_capacity(parts.headers.len(), 512);
    let mut cookies: Vec<u8> = Vec::new();
    for (name, value) in &parts.headers {
        let name = name.as_str();
        if CONNECTION_FIELDS.contains(&name) || (name == "te" && value != "trailers") {
            return Err(Refusal::Malformed);
        }
        match name {
            "host" => {}
            // Split for compression on the way, one field for everybody else (RFC 9113 §8.2.3).
            "cookie" => {
                if !cookies.is_empty() {
                    cookies.extend_from_slice(b"; ");
                }
                cookies.extend_from_slice(value.as_bytes());
            }
            _ => fields.append(name, value.as_bytes()),
        }
    }
    if !cookies.is_empty() {
        fields.append("cookie", cookies);
    }
    let authority = authority(parts, needs_authority)?;
    let method = Method::from_name(parts.method.as_str());
    if method != Method::Connect && !(target.starts_with('/') || target == "*") {
        return Err(Refusal::Malformed);
    }
    Ok(RequestHead {
        method,
        scheme,
        authority,
        target: target.to_owned(),
        version: Version::Http2,
        fields,
    })
}

/// `:authority`, or `Host` without it; both must agree where both are there (RFC 9113 §8.3.1).
fn authority(parts: &request::Parts, is_needed: bool) -> Result<String, Refusal> {
    let mut hosts = parts.headers.get_all("host").iter();
    let host =
        hosts.next().map(|value| value.to_str().map_err(|_| Refusal::Malformed)).transpose()?;
    if hosts.next().is_some() {
        return Err(Refusal::Malformed);
    }
    let authority = match (parts.uri.authority().map(|a| a.as_str()), host) {
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
            return Err(Refusal::Malformed);
        }
        (Some(authority), _) => authority,
        (None, Some(host)) => host,
        (None, None) if is_needed => return Err(Refusal::Status(400)),
        (None, None) => return Ok(String::new()),
    };
    target::parse_authority(authority.as_bytes()).map_err(|_| Refusal::Status(400))
}

/// A response head for the wire.
pub(super) fn response(head: &ResponseHead, length: Option<u64>) -> Response<()> {
    let mut out = Response::new(());
    *out.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *out.headers_mut() = fields(&head.fields);
    if let Some(length) = length {
        out.headers_mut().insert(http::header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    out
}

/// A response of this status with nothing in it.
pub(super) fn empty(status: u16) -> Response<()> {
    response(&ResponseHead::new(status), Some(0))
}

/// Fields as a map. Ours were checked where they came in, so one that does not fit is dropped.
pub(super) fn fields(fields: &Fields) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields.iter() {
        let is_connection =
            CONNECTION_FIELDS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        let name = HeaderName::from_bytes(name);
        let value = HeaderValue::from_bytes(value);
        if let (false, Ok(name), Ok(value)) = (is_connection, name, value) {
            map.append(name, value);
        }
    }
    map
}
