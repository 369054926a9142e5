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

/// Whether the status says something about how a request was made or who made it, so that it is no
/// answer to other requests for the same target, whatever lifetime comes with it: credentials (401,
/// 407), content, conditions, ranges and expectations a GET for a cache does not have (411 to 417
/// but 414, 422 to 424), the connection (408, 421, 425, 426, 505, 511), what the client may accept or
/// send (406, 431, 510) or how often (428, 429). RFC 6585 forbids to store some of these.
pub fn is_of_request(status: u16) -> bool {
    matches!(status,
        226 | 401 | 406..=408 | 411..=413 | 415..=417 | 421..=426 | 428 | 429 | 431 | 505 | 510 | 511)
}

/// Whether the status says that the request was successful (RFC 9110 §15.3).
pub fn is_successful(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Whether the status is an error about the form of a request more often than about its target.
pub fn is_about_form(status: u16) -> bool {
    matches!(status, 400 | 405 | 414 | 501)
}

/// Whether the status is one of those an operator's negative lifetime applies to: errors that say
/// something about the target and not about who asks (so not 401 or 407, nor 403 and 451, which origins give to
/// clients of one kind, place or address).
pub fn is_negative(status: u16) -> bool {
    matches!(status, 400 | 404 | 405 | 410 | 414 | 500 | 501 | 502 | 503 | 504)
}

/// Whether the status is one of those a lifetime an operator gives is for: content, and redirects for
/// good. What is an error has [`is_negative`].
pub fn takes_lifetime(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308)
}

/// Whether the status counts as an error for `stale-if-error` (RFC 5861 §4).
pub fn is_stale_if_error(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}

/// Whether a response with this status never has content (RFC 9110 §6.4.1).
pub fn has_no_content(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}
