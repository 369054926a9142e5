//! What a method means to a cache (RFC 9110 §9, RFC 9111 §4, §4.4).

use crate::fields::Fields;
use crate::message::{Method, RequestHead};
use crate::target;

/// Whether a stored response may answer this method.
pub fn may_use_stored(method: &Method) -> bool {
    matches!(method, Method::Get | Method::Head)
}

/// Whether a response with this status to this method makes what is stored for the target invalid:
/// the method is not known to be safe, and the answer is no error (RFC 9111 §4.4).
pub fn invalidates(method: &Method, status: u16) -> bool {
    !method.is_safe() && (200..400).contains(&status)
}

/// Authority and target of everything that a response makes invalid: the target itself, and what
/// `Location` and `Content-Location` name under the same authority. Empty where the method or the
/// status does not call for it; at most three.
pub fn invalidated(request: &RequestHead, status: u16, response: &Fields) -> Vec<(String, String)> {
    if !invalidates(&request.method, status) {
        return Vec::new();
    }
    let mut out = vec![(request.authority.clone(), request.target.clone())];
    for name in ["Location", "Content-Location"] {
        let named = response
            .get_str(name)
            .and_then(|reference| target::resolve(&request.authority, &request.target, reference));
        // Another authority's responses are not this origin's to invalidate.
        out.extend(named.filter(|(authority, _)| *authority == request.authority));
    }
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invalidated_by(method: &str, status: u16, lines: &[(&str, &str)]) -> Vec<String> {
        let request = RequestHead {
            method: Method::from_name(method),
            authority: "h".into(),
            target: "/a/b?q".into(),
            ..RequestHead::default()
        };
        let response = lines.iter().copied().collect();
        invalidated(&request, status, &response).into_iter().map(|(_, target)| target).collect()
    }

    #[test]
    fn unsafe_and_unknown_methods_invalidate_unless_they_fail() {
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
            assert_eq!(invalidated_by(method, 204, &[]), ["/a/b?q"], "{method}");
            assert_eq!(invalidated_by(method, 302, &[]), ["/a/b?q"], "{method}");
            assert!(invalidated_by(method, 404, &[]).is_empty(), "{method}");
            assert!(invalidated_by(method, 500, &[]).is_empty(), "{method}");
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "QUERY", "REPORT", "SEARCH"] {
            assert!(invalidated_by(method, 200, &[]).is_empty(), "{method}");
        }
    }

    #[test]
    fn locations_under_the_same_authority_are_invalidated_too() {
        let lines = [("Location", "/c"), ("Content-Location", "d")];
        assert_eq!(invalidated_by("PUT", 201, &lines), ["/a/b?q", "/c", "/a/d"]);
        let lines = [("Location", "http://other/c"), ("Content-Location", "http://H/e")];
        assert_eq!(invalidated_by("PUT", 201, &lines), ["/a/b?q", "/e"]);
    }
}
