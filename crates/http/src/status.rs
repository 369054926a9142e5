//! What a status code means to a cache.

/// Whether a response with this status may be given a heuristic lifetime without `public` (RFC
/// 9110 §15.1).
pub fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Whether this cache knows and keeps the caching requirements of the status, as
/// `must-understand` asks (RFC 9111 §5.2.2.3): the registered final codes of RFC 9110 and RFC 6585.
pub fn is_understood(status: u16) -> bool {
    matches!(status,
        200..=206 | 300..=303 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 428 | 429 | 431 | 451
        | 500..=505 | 511)
}

/// Whether the status is one of those an operator's negative lifetime applies to: errors that say
/// something about the target and not about who asks (so not 401 or 407).
pub fn is_negative(status: u16) -> bool {
    matches!(status, 400 | 403 | 404 | 405 | 410 | 414 | 451 | 500 | 501 | 502 | 503 | 504)
}

/// Whether the status counts as an error for `stale-if-error` (RFC 5861 §4).
pub fn is_stale_if_error(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}

/// Whether a response with this status never has content (RFC 9110 §6.4.1).
pub fn has_no_content(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}
