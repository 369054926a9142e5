//! What a request asks of the way it goes: another protocol, and how far.

use freshet_http::message::{Method, RequestHead};

/// Whether `protocol`, a member of `Upgrade`, is one of those that are allowed. Its version may
/// stand behind a slash.
pub fn allows_upgrade(allowed: &[String], protocol: &[u8]) -> bool {
    let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default();
    let is = |text: &[u8], known: &str| text.eq_ignore_ascii_case(known.as_bytes());
    allowed.iter().any(|known| is(protocol, known) || is(name, known))
}

/// How many caches and proxies a question for what is possible may still pass (RFC 9110 §7.6.2).
pub fn hops_left(request: &RequestHead) -> Option<u64> {
    let value =
        request.fields.get_str("max-forwards").filter(|_| request.method == Method::Options)?;
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| value.parse().unwrap_or(u64::MAX))
}
