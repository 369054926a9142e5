//! Which fields of a response are stored, and what a later response changes in them (RFC 9111
//! §3.1, §3.2, §4.3.4, §4.3.5).

use crate::conditional::weak_eq;
use crate::fields::Fields;
use crate::freshness::{Received, SetCookie, Settings, Storability, storability};
use crate::message::Method;
use crate::{cache_control, date, hop_by_hop};

/// Fields of a stored response that a 304 cannot change: they belong to the bytes that are stored,
/// which are not sent again.
const BOUND_TO_CONTENT: [&[u8]; 3] = [b"Content-Encoding", b"Content-Length", b"Content-Range"];

/// Fields that are said anew of what is stored.
const COMPUTED: [&[u8]; 3] = [b"Age", b"Content-Length", b"Content-Range"];

/// The fields to store of a response:
/// - without those for one connection, or for a proxy (§3.1);
/// - without those that `no-cache="…"` and, in a shared cache, `private="…"` name;
/// - without `Set-Cookie`, where the settings say so;
/// - without `Age`, which is computed anew, and `Content-Length`, which the body knows, and of a
///   206 without `Content-Range`;
/// - with `Date`, where it had none that is valid (RFC 9110 §6.6.1).
pub fn stored_fields(received: &Received<'_>, settings: &Settings) -> Fields {
    let mut out = received.response.clone();
    hop_by_hop::strip_for_storage(&mut out);
    let unstored = cache_control::unstored_fields(received.response, settings);
    let computed = if received.status == 206 { &COMPUTED[..] } else { &COMPUTED[..2] };
    let strips_cookies = strips_cookies(settings);
    out.retain(|name, _| {
        let same = |other: &[u8]| other.eq_ignore_ascii_case(name);
        (!strips_cookies || !same(b"Set-Cookie"))
            && !computed.iter().any(|other| same(other))
            && !unstored.iter().any(|other| same(other))
    });
    ensure_date(&mut out, received);
    out.compact()
}

/// The fields of a response that are not stored because a directive names them: they are for the one whose
/// request it answers (§5.2.2.4, §5.2.2.7). `Set-Cookie` is not among them where the settings take it away.
pub fn fields_for_one(received: &Received<'_>, settings: &Settings) -> Fields {
    let named = cache_control::unstored_fields(received.response, settings);
    if named.is_empty() {
        return Fields::new();
    }
    let mut out = received.response.clone();
    hop_by_hop::strip_for_storage(&mut out);
    let strips_cookies = strips_cookies(settings);
    out.retain(|name, _| {
        let same = |other: &[u8]| other.eq_ignore_ascii_case(name);
        named.iter().any(|other| same(other))
            && (!strips_cookies || !same(b"Set-Cookie"))
            && !COMPUTED.iter().any(|other| same(other))
    });
    out
}

/// Whether nobody gets a `Set-Cookie` of what is stored.
fn strips_cookies(settings: &Settings) -> bool {
    settings.shared && settings.set_cookie == SetCookie::Strip
}

/// Whether a 304 is about this stored response (§4.3.3): its validators are the stored ones. A
/// cache that gets another one asks again without conditions.
///
/// Where one of two tags is weak they are compared weakly, as the origin did (RFC 9110 §13.1.2), though §4.3.4
/// would have a strong one in the 304 select strong ones only: that tells one of several stored responses from
/// others, and here only one was asked about. nginx weakens the tag of what it packs, and not that of its 304.
pub fn validates(stored: &Fields, not_modified: &Fields) -> bool {
    if let Some(tag) = not_modified.get("ETag") {
        return stored.get("ETag").is_some_and(|stored| weak_eq(stored, tag));
    }
    match (not_modified.get("Last-Modified"), stored.get("Last-Modified")) {
        (Some(new), Some(old)) => new == old || date::parse(new) == date::parse(old),
        (Some(_), None) => stored.contains("ETag"),
        (None, _) => true,
    }
}

/// Whether a successful response to HEAD describes this stored response of `stored_bytes` (§4.3.5):
/// then it updates the stored fields, otherwise the stored response is out of date.
pub fn head_describes(stored: &Fields, stored_bytes: Option<u64>, head: &Fields) -> bool {
    let same = |name: &str| head.get(name).is_none_or(|value| stored.get(name) == Some(value));
    let head_bytes = head.get_str("Content-Length").map(|text| text.parse::<u64>().ok());
    let same_length = match (head_bytes, stored_bytes) {
        (Some(Some(head)), Some(stored)) => head == stored,
        (Some(None), _) => false,
        _ => true,
    };
    same("ETag") && same("Last-Modified") && same_length
}

/// A stored response after validation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Updated {
    /// The fields to store in the place of the old ones.
    pub fields: Fields,
    /// The new freshness, or why it may not be kept: then it is used once more and forgotten.
    pub storability: Storability,
}

/// Applies a 304, or a HEAD response that [`head_describes`] it, to the fields of a stored
/// response with `stored_status`. New fields replace old ones of the same name (§3.2), except those
/// that belong to the stored content.
pub fn update(
    stored_status: u16,
    stored: &Fields,
    received: &Received<'_>,
    settings: &Settings,
) -> Updated {
    let mut newer = received.response.clone();
    hop_by_hop::strip_for_storage(&mut newer);
    newer.retain(|name, _| !BOUND_TO_CONTENT.iter().any(|kept| kept.eq_ignore_ascii_case(name)));
    if settings.shared && settings.set_cookie != SetCookie::Store {
        // What is confirmed goes to all that wait for it.
        newer.remove("Set-Cookie");
    }
    ensure_date(&mut newer, received);

    let mut merged = stored.clone();
    merged.retain(|name, _| !newer.contains(name));
    for (name, value) in newer.iter() {
        merged.append(name, value);
    }
    // What is stored of a partial response has lost its `Content-Range`, and is known to be sound.
    let status = if stored_status == 206 { 200 } else { stored_status };
    let as_stored = Received { method: &Method::Get, status, response: &merged, ..*received };
    Updated {
        fields: stored_fields(&as_stored, settings),
        storability: storability(&as_stored, settings),
    }
}

fn ensure_date(fields: &mut Fields, received: &Received<'_>) {
    if fields.get("Date").and_then(date::parse).is_none() {
        let mut now = Vec::with_capacity(date::IMF_FIXDATE_BYTES);
        date::write(received.response_time, &mut now);
        fields.set("Date", now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;
    use freshet_base::clock::UnixMillis;
    use std::time::Duration;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
    const NOW_TEXT: &str = "Fri, 15 Jan 2027 08:00:00 GMT";
    const EARLIER: &str = "Fri, 15 Jan 2027 07:00:00 GMT";

    fn fields(lines: &[(&str, &str)]) -> Fields {
        lines.iter().copied().collect()
    }

    fn received<'a>(status: u16, response: &'a Fields, request: &'a Fields) -> Received<'a> {
        Received {
            method: &Method::Get,
            request,
            status,
            response,
            request_time: NOW,
            response_time: NOW,
            authority: "h",
            target: "/",
        }
    }

    fn store(status: u16, lines: &[(&str, &str)]) -> Fields {
        let response = fields(lines);
        stored_fields(&received(status, &response, &Fields::new()), &Settings::default())
    }

    fn apply(stored: &[(&str, &str)], newer: &[(&str, &str)]) -> Updated {
        let response = fields(newer);
        let request = Fields::new();
        let settings = Settings::default();
        update(200, &fields(stored), &received(304, &response, &request), &settings)
    }

    #[test]
    fn what_is_about_the_connection_or_computed_is_not_stored() {
        let got = store(
            200,
            &[
                ("Connection", "a"),
                ("a", "1"),
                ("Age", "5"),
                ("Content-Length", "3"),
                ("Content-Range", "bytes 0-1/2"),
                ("Proxy-Authenticate", "x"),
                ("Set-Cookie", "a=b"),
                ("Date", EARLIER),
            ],
        );
        let want = [("Content-Range", "bytes 0-1/2"), ("Set-Cookie", "a=b"), ("Date", EARLIER)];
        assert_eq!(got, fields(&want));
        assert!(!store(206, &[("Content-Range", "bytes 0-1/2")]).contains("Content-Range"));
    }

    #[test]
    fn a_missing_or_invalid_date_becomes_the_time_of_arrival() {
        assert_eq!(store(200, &[]).get_str("Date"), Some(NOW_TEXT));
        assert_eq!(store(200, &[("Date", "foo")]), fields(&[("Date", NOW_TEXT)]));
    }

    #[test]
    fn fields_that_directives_name_are_not_stored() {
        let control = "private=\"A\", max-age=5, no-cache=\"b, C\"";
        let lines = [("a", "1"), ("B", "2"), ("c", "3"), ("d", "4"), ("Date", NOW_TEXT)];
        let with = |name, value| {
            let mut all = vec![(name, value)];
            all.extend(lines);
            let stored = store(200, &all);
            stored.iter().skip(1).map(|(name, _)| name.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(with("Cache-Control", control), [&b"d"[..], b"Date"]);
        assert_eq!(with("CDN-Cache-Control", "no-cache=\"d\""), [&b"a"[..], b"B", b"c", b"Date"]);
    }

    #[test]
    fn what_directives_name_is_for_the_one_that_asked() {
        let control = ("Cache-Control", "max-age=5, private=\"Set-Cookie, Age\", no-cache=X-User");
        let response = fields(&[control, ("Set-Cookie", "a=b"), ("Age", "1"), ("X-User", "anna")]);
        let request = Fields::new();
        let of_one =
            |settings: &Settings| fields_for_one(&received(200, &response, &request), settings);
        let (cookie, user) = (("Set-Cookie", "a=b"), ("X-User", "anna"));
        assert_eq!(of_one(&Settings::default()), fields(&[cookie, user]));
        let strips = Settings { set_cookie: SetCookie::Strip, ..Settings::default() };
        assert_eq!(of_one(&strips), fields(&[user]));
    }

    #[test]
    fn a_304_replaces_what_it_has_and_leaves_the_rest() {
        let updated = apply(
            &[
                ("Date", EARLIER),
                ("A", "1"),
                ("a", "2"),
                ("B", "3"),
                ("Cache-Control", "max-age=2"),
            ],
            &[("Date", NOW_TEXT), ("a", "9"), ("Cache-Control", "max-age=60"), ("Age", "7")],
        );
        let want = [("B", "3"), ("Date", NOW_TEXT), ("a", "9"), ("Cache-Control", "max-age=60")];
        assert_eq!(updated.fields, fields(&want));
        let Storability::Store(freshness) = updated.storability else { panic!("stored") };
        assert_eq!(freshness.lifetime(), Duration::from_secs(60));
        assert_eq!(freshness.age(NOW), Duration::from_secs(7));
    }

    #[test]
    fn a_304_without_a_date_makes_the_response_new() {
        let stored = [("Date", EARLIER), ("Cache-Control", "max-age=2"), ("ETag", "\"x\"")];
        let updated = apply(&stored, &[]);
        assert_eq!(updated.fields.get_str("Date"), Some(NOW_TEXT));
        let Storability::Store(freshness) = updated.storability else { panic!("stored") };
        assert_eq!(freshness.ttl_ms(NOW), 2000);
    }

    #[test]
    fn what_belongs_to_the_stored_content_stays() {
        let updated = apply(
            &[("Content-Encoding", "gzip"), ("Content-Type", "a/b"), ("ETag", "\"x\"")],
            &[
                ("Content-Encoding", "br"),
                ("Content-Length", "1"),
                ("Content-Range", "bytes 0-0/1"),
                ("Content-Type", "c/d"),
                ("Connection", "z"),
                ("z", "1"),
                ("Date", NOW_TEXT),
            ],
        );
        let want = [
            ("Content-Encoding", "gzip"),
            ("ETag", "\"x\""),
            ("Content-Type", "c/d"),
            ("Date", NOW_TEXT),
        ];
        assert_eq!(updated.fields, fields(&want));
    }

    #[test]
    fn a_304_can_end_the_storing() {
        let updated = apply(&[("ETag", "\"x\"")], &[("Cache-Control", "no-store")]);
        assert_eq!(updated.storability, Storability::Refuse(Reason::NoStore));
    }

    #[test]
    fn a_304_with_other_validators_is_about_something_else() {
        let tagged = fields(&[("ETag", "\"x\""), ("Last-Modified", EARLIER)]);
        let ok = |lines: &[(&str, &str)]| validates(&tagged, &fields(lines));
        assert!(ok(&[]) && ok(&[("ETag", "\"x\"")]) && ok(&[("ETag", "W/\"x\"")]));
        assert!(ok(&[("Last-Modified", EARLIER)]));
        assert!(!ok(&[("ETag", "\"y\"")]) && !ok(&[("Last-Modified", NOW_TEXT)]));
        let weak = fields(&[("ETag", "W/\"x\"")]);
        assert!(validates(&weak, &fields(&[("ETag", "\"x\"")])));
        assert!(!validates(&weak, &fields(&[("ETag", "\"y\"")])));
        assert!(!validates(&Fields::new(), &fields(&[("Last-Modified", EARLIER)])));
    }

    #[test]
    fn a_head_response_describes_what_has_the_same_validators_and_length() {
        let stored = fields(&[("ETag", "\"x\""), ("Last-Modified", EARLIER)]);
        let ok = |lines: &[(&str, &str)]| head_describes(&stored, Some(5), &fields(lines));
        assert!(ok(&[]) && ok(&[("ETag", "\"x\""), ("Content-Length", "5")]));
        assert!(!ok(&[("Content-Length", "6")]) && !ok(&[("Content-Length", "x")]));
        assert!(!ok(&[("ETag", "\"y\"")]) && !ok(&[("Last-Modified", NOW_TEXT)]));
    }
}
