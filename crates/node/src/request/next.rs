//! What a player says it asks for next (`nor` and `nrr` of CTA-5004).

use crate::exchange::Request;
use crate::sites::SiteRef;
use freshet_http::message::{Method, RequestHead};
use freshet_http::{conditional, target, unkeyed};
use freshet_media::cmcd::{self, Cmcd};

/// The request a player says it sends next, as it would: of the same host, with the same fields, and
/// without what it says of itself. `None` where it says nothing of use, or its site does not listen.
pub(super) fn of(site: &SiteRef, request: &Request) -> Option<RequestHead> {
    let (head, media) = (&request.head, &site.settings.media);
    // What lets each request in or not would have to let this one in, too.
    let is_open = site.tokens.is_empty() && site.access.is_empty() && site.rate_limits.is_empty();
    // What came with an include of a page is the page's.
    let listens = is_open && media.read && media.ahead > 0 && head.method == Method::Get;
    if !request.has_player || !listens {
        return None;
    }
    let (mut room, mut said) = ([0; cmcd::BYTES_MAX], Cmcd::default());
    cmcd::read(cmcd::said(&head.target, &head.fields, &mut room)?, &mut said);
    // The next part of what is asked for is fetched when that is, as a part of the same.
    let (target, range) = (resolved(head, said.next?, said.version)?, said.next_range);
    let mut next = RequestHead { target, ..head.clone() };
    conditional::strip(&mut next.fields);
    next.fields.retain(|name, _| !unkeyed::is_cmcd(name) && !name.eq_ignore_ascii_case(b"range"));
    if let Some(range) = range.and_then(bytes_of) {
        next.fields.append("Range", range);
    }
    Some(next)
}

/// A reference against what was asked for, of the same host. Version 1 has it percent-encoded as a
/// whole.
fn resolved(head: &RequestHead, next: &str, version: Option<u8>) -> Option<String> {
    let mut room = [0; cmcd::BYTES_MAX];
    let is_encoded = version.unwrap_or(1) < 2;
    let next = if is_encoded { cmcd::decoded(next, &mut room)? } else { next };
    let (authority, target) = target::resolve(&head.authority, &head.target, next)?;
    let target = target::key_target(&target).into_owned();
    let is_other = target != target::key_target(&head.target);
    (authority == head.authority && is_other).then_some(target)
}

/// `0-99` as a field has it.
fn bytes_of(text: &str) -> Option<String> {
    let (first, last) = text.split_once('-')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_range = is_number(first) && is_number(last) && text.len() > 1;
    is_range.then(|| format!("bytes={text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_next_is_of_the_same_host() {
        let head = RequestHead {
            authority: "tv.example".into(),
            target: "/c/v/1.m4s?CMCD=x".into(),
            ..RequestHead::default()
        };
        for (next, version, want) in [
            ("2.m4s", None, Some("/c/v/2.m4s")),
            ("..%2Fa%2F2.m4s", Some(1), Some("/c/a/2.m4s")),
            ("../a/2.m4s?t=1&CMCD=bs", Some(2), Some("/c/a/2.m4s?t=1")),
            ("/x", Some(2), Some("/x")),
            ("//tv.example/x", Some(2), Some("/x")),
            ("1.m4s", None, None),
            ("http://10.0.0.1/x", Some(2), None),
            ("//other.example/x", Some(2), None),
            ("a b", Some(2), None),
            ("%0d%0a", Some(1), None),
            ("%", Some(1), None),
        ] {
            assert_eq!(resolved(&head, next, version).as_deref(), want, "{next}");
        }
    }

    #[test]
    fn ranges_are_numbers() {
        for (text, want) in [("0-99", true), ("7-", true), ("-5", true)] {
            assert_eq!(bytes_of(text).is_some(), want, "{text}");
        }
        for text in ["-", "", "1", "a-b", "0-1,3-4", "0-1\r\nX: y"] {
            assert_eq!(bytes_of(text), None, "{text}");
        }
    }
}
