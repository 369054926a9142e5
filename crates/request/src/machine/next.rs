//! What a player asks for next: by what it says itself (`nor` and `nrr` of CTA-5004), and by the film it
//! is in.

use freshet_base::clock::UnixMillis;
use freshet_channels::Wanted;
use freshet_fetch::{Foreseen, Next, is_fetched_in_part};
use freshet_http::message::{Method, RequestHead};
use freshet_http::range::RangeRequest;
use freshet_http::{conditional, target, unkeyed};
use freshet_media::Format;
use freshet_media::cmcd::{self, Cmcd};
use freshet_site::keys::id_of;
use freshet_site::sites::SiteRef;
use freshet_worker::worker::Worker;

/// What this request is followed by, as the client would send it. `says`: whether its player says
/// something of itself.
pub(super) fn of(worker: &Worker, site: &SiteRef, head: &RequestHead, says: bool) -> Vec<Next> {
    if !foresees(site) || head.method != Method::Get {
        return Vec::new();
    }
    // What lets each request in or not would have to let in what a client names, too.
    let is_open = site.tokens.is_empty() && site.access.is_empty() && site.rate_limits.is_empty();
    let said = if is_open && says { said(head) } else { None };
    let said = said.map(|head| Next { head, by: Foreseen::ByPlayer });
    said.into_iter().chain(of_film(worker, site, head)).collect()
}

/// Whether a request is to be kept as it came, as its policy may make something else of it: what it leads
/// to may be asked for before a client does, by the policy's rules.
pub(super) fn keeps(worker: &Worker, site: &SiteRef, head: &RequestHead) -> bool {
    let (rules, makes_own) = (&site.settings.rules, site.semantics.makes_own_keys);
    let may_change = makes_own || !rules.paths.is_empty() || !rules.caching.is_empty();
    if !may_change || !foresees(site) {
        return false;
    }
    let is_channels = makes_own && worker.shared.channels.count() > 0;
    is_channels || Format::of(None, &head.target).is_some()
}

fn foresees(site: &SiteRef) -> bool {
    site.settings.media.read && site.settings.media.ahead > 0
}

/// The request a player says it sends next: of the same host, with the same fields, and without what it
/// says of itself. `None` where it says nothing of use.
fn said(head: &RequestHead) -> Option<RequestHead> {
    let follow = |said: &Cmcd<'_>| {
        // The next part of what is asked for is fetched when that is, as a part of the same.
        let target = resolved(head, said.next?, said.version)?;
        // Of a part that cannot be read nothing is known: the whole may be much more than the player wants.
        let range = match said.next_range {
            Some(text) => Some(bytes_of(text)?),
            None => None,
        };
        Some(request(head, target, range))
    };
    cmcd::of(&head.target, &head.fields, follow)?
}

/// What comes next in the film that this is of.
fn of_film(worker: &Worker, site: &SiteRef, head: &RequestHead) -> Vec<Next> {
    let films = &worker.shared.films;
    if films.is_empty() {
        return Vec::new();
    }
    let target = target::key_target(&head.target);
    let secret = worker.shared.cache.secret();
    let key = id_of(site, secret, &head.authority, &target);
    let range = head.fields.get("range").and_then(RangeRequest::parse);
    let start = range.map_or(0, |range| range.start());
    let wanted = films.after(&key, start, UnixMillis::now());
    let fits = |wanted: &Wanted| wanted.range.is_none() || is_fetched_in_part(site);
    let wanted = wanted.into_iter().filter(fits);
    let next = wanted.map(|Wanted { target, range }| Next {
        head: request(
            head,
            target,
            range.map(|range| format!("bytes={}-{}", range.start, range.end - 1)),
        ),
        by: Foreseen::ByManifest,
    });
    next.collect()
}

/// The same request for another target.
fn request(head: &RequestHead, target: String, range: Option<String>) -> RequestHead {
    let mut next = RequestHead { target, ..head.clone() };
    conditional::strip(&mut next.fields);
    next.fields.retain(|name, _| !unkeyed::is_cmcd(name) && !name.eq_ignore_ascii_case(b"range"));
    if let Some(range) = range {
        next.fields.append("Range", range);
    }
    next
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
    // A field may have spaces, and several ranges.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let field = format!("bytes={text}");
    let is_range = is_plain && RangeRequest::parse(field.as_bytes()).is_some();
    is_range.then_some(field)
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
            ("a b", Some(2), Some("/c/v/a%20b")),
            ("%0d%0a", Some(1), None),
            ("%", Some(1), None),
        ] {
            assert_eq!(resolved(&head, next, version).as_deref(), want, "{next}");
        }
    }

    #[test]
    fn nothing_is_fetched_for_a_range_that_cannot_be_read() {
        let next = |query: &str| {
            let target = format!("/c/1.m4s?CMCD=nor%3D%222.m4s%22{query}");
            let head =
                RequestHead { authority: "tv.example".into(), target, ..RequestHead::default() };
            said(&head).map(|head| head.fields.get("range").map(<[u8]>::to_vec))
        };
        assert_eq!(next(""), Some(None));
        assert_eq!(next("%2Cnrr%3D%220-99%22"), Some(Some(b"bytes=0-99".to_vec())));
        for text in ["abc", "0-9%2C20-29", "100-50"] {
            assert_eq!(next(&format!("%2Cnrr%3D%22{text}%22")), None, "{text}");
        }
    }

    #[test]
    fn ranges_are_numbers() {
        for (text, want) in [("0-99", true), ("7-", true), ("-5", true)] {
            assert_eq!(bytes_of(text).is_some(), want, "{text}");
        }
        for text in ["-", "", "1", "a-b", "0-1,3-4", "0-1\r\nX: y", "100-50"] {
            assert_eq!(bytes_of(text), None, "{text}");
        }
    }
}
