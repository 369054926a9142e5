//! The page at `/console`: what there is, for operators. It knows no more than whoever signs in on it may ask.
//!
//! Its files are in the program, so that it needs nothing of the network.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;

/// Nothing but what is here, and nobody's frame: what clients have sent is shown on it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page, where that is what is asked for.
pub(super) fn page(method: &str, path: &str) -> Option<Response> {
    let (text, kind) = match path {
        "/console" | "/console/" => (include_str!("index.html"), "text/html; charset=utf-8"),
        "/console/page.css" => (include_str!("page.css"), "text/css; charset=utf-8"),
        "/console/page.js" => (include_str!("page.js"), "text/javascript; charset=utf-8"),
        _ => return None,
    };
    if !matches!(method, "GET" | "HEAD") {
        return None;
    }
    // Of a HEAD the server sends the fields only.
    let mut response = Response::new(Body::from(text));
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Some(response)
}
