//! `Freshet-Changed`: what was changed by way of another node of the place.
//!
//! ```text
//! PURGE /news HTTP/1.1
//! Host: www.example
//! CDN-Loop: edge-1
//! Freshet-Changed: ?1
//! Cache-Group-Invalidation: "news"
//! ```
//!
//! An unsafe request that succeeds makes invalid what the node it went through has stored of its target (RFC 9111
//! §4.4). Nodes that keep things for one another say so to one another with this request, which goes no further and
//! is answered with 204. The groups that it makes invalid as well (RFC 9875 §3) come with it. To a node that does not know the field it is a purge like any other, which is allowed or
//! is not.

use crate::cache_groups;
use crate::fields::Fields;
use crate::message::{Method, RequestHead, Scheme};

/// The name of the field.
pub const NAME: &str = "Freshet-Changed";

/// What it says (RFC 9651 §3.3.6).
const YES: &str = "?1";

/// The word of the node of this name for a target that was changed, and for these groups of its origin's.
pub fn word(
    loop_id: &str,
    scheme: Scheme,
    (authority, target): (&str, &str),
    groups: Vec<String>,
) -> RequestHead {
    let mut fields: Fields = [("CDN-Loop", loop_id), (NAME, YES)].into_iter().collect();
    if !groups.is_empty() {
        fields.append(cache_groups::INVALIDATION, cache_groups::value(groups));
    }
    RequestHead {
        method: Method::Purge,
        scheme,
        authority: authority.to_owned(),
        target: target.to_owned(),
        fields,
        ..RequestHead::default()
    }
}

/// Whether a request is such a word, whoever says it. It is its author's own, so it has been at one node: what other caches
/// hand on has been at more.
#[inline]
pub fn is_word(request: &RequestHead) -> bool {
    request.method == Method::Purge
        && request.fields.get(NAME) == Some(YES.as_bytes())
        && has_been_at_one(&request.fields)
}

fn has_been_at_one(fields: &Fields) -> bool {
    let mut lines = fields.get_all("CDN-Loop");
    lines.next().is_some_and(|line| !line.contains(&b',')) && lines.next().is_none()
}

/// Whether a node that answers with this status has forgotten what was changed: also one that takes the word for a
/// purge, whether it had anything (200, 404) or knows of a disk that is away (202).
pub fn is_heard(status: u16) -> bool {
    matches!(status, 200..=299 | 404)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_known_as_one_and_no_purge_is() {
        let mut request = word("edge-1", Scheme::Http, ("h", "/a?b"), vec!["g".into()]);
        assert!(is_word(&request));
        assert_eq!((&*request.authority, &*request.target), ("h", "/a?b"));
        assert_eq!(request.fields.get("cdn-loop"), Some(&b"edge-1"[..]));
        assert_eq!(cache_groups::invalidated(&request.fields), ["g"]);
        request.method = Method::Get;
        assert!(!is_word(&request));
        request.method = Method::Purge;
        request.fields.append_to_list("CDN-Loop", b"edge-2");
        assert!(!is_word(&request));
        request.fields.remove("CDN-Loop");
        assert!(!is_word(&request));
        request = word("edge-1", Scheme::Http, ("h", "/a?b"), Vec::new());
        request.fields.remove(NAME);
        assert!(!is_word(&request));
    }

    #[test]
    fn who_does_not_allow_purges_has_forgotten_nothing() {
        assert!([200, 202, 204, 404].into_iter().all(is_heard));
        assert!(![302, 400, 403, 405, 500, 503].into_iter().any(is_heard));
    }
}
