//! Conditional requests (RFC 9110 §13, RFC 9111 §4.3).

use crate::date;
use crate::fields::Fields;
use crate::message::Method;
use freshet_base::clock::UnixMillis;

/// What the validators of a stored response are. Dates count in whole seconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Validators<'a> {
    /// `ETag` as it was sent.
    pub etag: Option<&'a [u8]>,
    /// `Last-Modified`, where it is a date.
    pub last_modified: Option<UnixMillis>,
    /// `Date`, or when the response was received: stands in for a missing `Last-Modified` (RFC
    /// 9111 §4.3.2).
    pub date: Option<UnixMillis>,
}

impl<'a> Validators<'a> {
    /// The validators in the fields of a response. A stored response keeps the parsed ones.
    pub fn from_fields(response: &'a Fields) -> Self {
        Self {
            etag: response.get("ETag"),
            last_modified: response.get("Last-Modified").and_then(date::parse),
            date: response.get("Date").and_then(date::parse),
        }
    }
}

/// What the conditions of a request mean for the answer.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// Answer as if there were no condition.
    Proceed,
    /// 304: the client has the current representation.
    NotModified,
    /// 412
    PreconditionFailed,
}

/// Evaluates all conditions of a request but `If-Range`, in the order of RFC 9110 §13.2.2, against
/// a response with this status. Conditions on a response that is not successful are ignored
/// (§13.2.1). Allocates nothing; without conditions it is one walk over the fields.
pub fn evaluate(
    request: &Fields,
    method: &Method,
    validators: &Validators<'_>,
    status: u16,
) -> Outcome {
    if !(200..300).contains(&status) || !is_conditional(request) {
        return Outcome::Proceed;
    }
    let reads = matches!(method, Method::Get | Method::Head);
    if request.contains("If-Match") {
        if !any_tag(request, "If-Match", validators.etag, strong_eq) {
            return Outcome::PreconditionFailed;
        }
    } else if let (Some(limit), Some(modified)) =
        (only_date(request, "If-Unmodified-Since"), validators.last_modified)
        && modified.seconds() > limit.seconds()
    {
        return Outcome::PreconditionFailed;
    }
    if request.contains("If-None-Match") {
        return match any_tag(request, "If-None-Match", validators.etag, weak_eq) {
            true if reads => Outcome::NotModified,
            true => Outcome::PreconditionFailed,
            false => Outcome::Proceed,
        };
    }
    let since = only_date(request, "If-Modified-Since").filter(|_| reads);
    match (since, validators.last_modified.or(validators.date)) {
        (Some(since), Some(modified)) if modified.seconds() <= since.seconds() => {
            Outcome::NotModified
        }
        _ => Outcome::Proceed,
    }
}

/// Whether the value of `If-Range` names the stored representation, so that a part of it may be
/// sent (RFC 9110 §13.1.5). Only strong validators do: no weak entity tag, and a date only if
/// `Last-Modified` is the same and was at least a second old when the response was made
/// (§8.8.2.2).
pub fn if_range_matches(value: &[u8], validators: &Validators<'_>) -> bool {
    if value.starts_with(b"\"") || value.starts_with(b"W/") {
        return validators.etag.is_some_and(|etag| strong_eq(etag, value));
    }
    match (date::parse(value), validators.last_modified, validators.date) {
        (Some(wanted), Some(modified), Some(made)) => {
            wanted.seconds() == modified.seconds() && made.seconds() > modified.seconds()
        }
        _ => false,
    }
}

/// Whether the request has a condition other than `If-Range`.
pub fn is_conditional(request: &Fields) -> bool {
    request.iter().any(|(name, _)| is_condition(name))
}

/// Removes all conditions, `If-Range` and `Range`: what is asked of the origin when the whole is
/// to be stored.
pub fn strip(request: &mut Fields) {
    request.retain(|name, _| {
        !is_condition(name)
            && !name.eq_ignore_ascii_case(b"If-Range")
            && !name.eq_ignore_ascii_case(b"Range")
    });
}

/// Turns a request into one that validates a stored response (RFC 9111 §4.3.1): the conditions of
/// the client are replaced by the validators of its bytes, which are sent back as they came.
pub fn validate(request: &mut Fields, etag: Option<&[u8]>, last_modified: Option<&[u8]>) {
    strip(request);
    for (validator, condition) in [(etag, "If-None-Match"), (last_modified, "If-Modified-Since")] {
        if let Some(value) = validator {
            request.append(condition, value);
        }
    }
}

/// The fields of a 304 made from a stored response (RFC 9110 §15.4.5): without what describes the
/// content, and without `Last-Modified` where there is an entity tag.
pub fn not_modified_fields(stored: &Fields) -> Fields {
    const CONTENT: [&[u8]; 9] = [
        b"Accept-Ranges",
        b"Content-Encoding",
        b"Content-Language",
        b"Content-Length",
        b"Content-MD5",
        b"Content-Range",
        b"Content-Type",
        b"Content-Digest",
        b"Trailer",
    ];
    let mut out = stored.clone();
    let has_tag = stored.contains("ETag");
    out.retain(|name, _| {
        !(CONTENT.iter().any(|content| content.eq_ignore_ascii_case(name))
            || (has_tag && name.eq_ignore_ascii_case(b"Last-Modified")))
    });
    out
}

/// Whether two entity tags are the same by strong comparison (RFC 9110 §8.8.3.2).
pub fn strong_eq(one: &[u8], other: &[u8]) -> bool {
    one == other && !one.starts_with(b"W/")
}

/// Whether two entity tags are the same by weak comparison.
pub fn weak_eq(one: &[u8], other: &[u8]) -> bool {
    let opaque = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
    opaque(one) == opaque(other)
}

fn is_condition(name: &[u8]) -> bool {
    let names: [&[u8]; 4] =
        [b"If-None-Match", b"If-Modified-Since", b"If-Match", b"If-Unmodified-Since"];
    matches!(name.first(), Some(b'I' | b'i'))
        && names.iter().any(|condition| condition.eq_ignore_ascii_case(name))
}

fn any_tag(
    request: &Fields,
    name: &str,
    etag: Option<&[u8]>,
    same: impl Fn(&[u8], &[u8]) -> bool,
) -> bool {
    request.get_all(name).any(|value| {
        value.trim_ascii() == b"*"
            || etag.is_some_and(|etag| EntityTags { rest: value }.any(|tag| same(tag, etag)))
    })
}

/// The date of a field that has one line and a valid value; other ones are ignored.
fn only_date(request: &Fields, name: &str) -> Option<UnixMillis> {
    let mut values = request.get_all(name);
    let value = values.next()?;
    if values.next().is_some() { None } else { date::parse(value.trim_ascii()) }
}

/// The members of a list of entity tags. What is not in quotes is taken as it stands, up to the
/// next comma: some origins send such tags and their clients send them back.
struct EntityTags<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for EntityTags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|b| !matches!(b, b',' | b' ' | b'\t'))?;
        let text = self.rest.get(start..)?;
        let open = match text {
            [b'"', ..] => Some(0),
            [b'W', b'/', b'"', ..] => Some(2),
            _ => None,
        };
        let quoted = open.and_then(|open| {
            let close = text.get(open + 1..)?.iter().position(|byte| *byte == b'"')?;
            Some(open + 1 + close + 1)
        });
        let bare = || text.iter().position(|byte| *byte == b',').unwrap_or(text.len());
        let (tag, rest) = text.split_at_checked(quoted.unwrap_or_else(bare))?;
        self.rest = rest;
        Some(tag.trim_ascii_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODIFIED: &str = "Thu, 19 Nov 2026 12:00:00 GMT";
    const BEFORE: &str = "Thu, 19 Nov 2026 11:59:59 GMT";
    const AFTER: &str = "Thu, 19 Nov 2026 12:00:01 GMT";

    fn validators() -> Validators<'static> {
        Validators {
            etag: Some(b"\"a,b\""),
            last_modified: date::parse(MODIFIED.as_bytes()),
            date: date::parse(AFTER.as_bytes()),
        }
    }

    fn get(lines: &[(&str, &str)]) -> Outcome {
        evaluate(&lines.iter().copied().collect(), &Method::Get, &validators(), 200)
    }

    #[test]
    fn any_of_several_tags_on_any_line_matches_weakly() {
        for value in ["\"a,b\"", "W/\"a,b\"", "\"x\", \"a,b\",\"y\"", ", \"x\" ,W/\"a,b\"", "*"] {
            assert_eq!(get(&[("If-None-Match", value)]), Outcome::NotModified, "{value}");
        }
        let lines = [("If-None-Match", "\"x\""), ("if-none-match", "\"a,b\"")];
        assert_eq!(get(&lines), Outcome::NotModified);
        for value in ["", "\"a\"", "a,b", "\"a", "\"x\", a", "w/\"a,b\"", "\"A,B\"", "\"a,b"] {
            assert_eq!(get(&[("If-None-Match", value)]), Outcome::Proceed, "{value}");
        }
    }

    #[test]
    fn tags_without_quotes_match_as_they_stand() {
        let validators = Validators { etag: Some(b"abc"), ..Validators::default() };
        let matches = |value: &str| {
            let request = [("If-None-Match", value)].into_iter().collect();
            evaluate(&request, &Method::Get, &validators, 200) == Outcome::NotModified
        };
        assert!(matches("abc") && matches("\"x\", abc ,y"));
        assert!(!matches("\"abc\"") && !matches("ab"));
    }

    #[test]
    fn tags_go_before_dates() {
        let matching = [("If-None-Match", "\"a,b\""), ("If-Modified-Since", BEFORE)];
        assert_eq!(get(&matching), Outcome::NotModified);
        let other = [("If-None-Match", "\"x\""), ("If-Modified-Since", AFTER)];
        assert_eq!(get(&other), Outcome::Proceed);
        let unmodified = [("If-Match", "\"a,b\""), ("If-Unmodified-Since", BEFORE)];
        assert_eq!(get(&unmodified), Outcome::Proceed);
    }

    #[test]
    fn dates_compare_with_last_modified() {
        assert_eq!(get(&[("If-Modified-Since", MODIFIED)]), Outcome::NotModified);
        assert_eq!(get(&[("If-Modified-Since", AFTER)]), Outcome::NotModified);
        assert_eq!(get(&[("If-Modified-Since", BEFORE)]), Outcome::Proceed);
        let obsolete = "Thursday, 19-Nov-26 12:00:00 GMT";
        assert_eq!(get(&[("If-Modified-Since", obsolete)]), Outcome::NotModified);
        assert_eq!(get(&[("If-Modified-Since", "yesterday")]), Outcome::Proceed);
        let two = [("If-Modified-Since", AFTER), ("If-Modified-Since", AFTER)];
        assert_eq!(get(&two), Outcome::Proceed);
        assert_eq!(get(&[("If-Unmodified-Since", MODIFIED)]), Outcome::Proceed);
        assert_eq!(get(&[("If-Unmodified-Since", BEFORE)]), Outcome::PreconditionFailed);
    }

    #[test]
    fn date_stands_in_for_last_modified_and_says_what_it_says() {
        let validators = Validators { last_modified: None, ..validators() };
        let get = |since| {
            let request = [("If-Modified-Since", since)].into_iter().collect();
            evaluate(&request, &Method::Get, &validators, 200)
        };
        assert_eq!(get(AFTER), Outcome::NotModified);
        assert_eq!(get(MODIFIED), Outcome::Proceed, "it may have changed between the two");
        let nothing = Validators::default();
        let request = [("If-Modified-Since", AFTER)].into_iter().collect();
        assert_eq!(evaluate(&request, &Method::Get, &nothing, 200), Outcome::Proceed);
    }

    #[test]
    fn if_match_is_strong() {
        assert_eq!(get(&[("If-Match", "\"x\", \"a,b\"")]), Outcome::Proceed);
        assert_eq!(get(&[("If-Match", "*")]), Outcome::Proceed);
        assert_eq!(get(&[("If-Match", "W/\"a,b\"")]), Outcome::PreconditionFailed);
        assert_eq!(get(&[("If-Match", "\"x\"")]), Outcome::PreconditionFailed);
    }

    #[test]
    fn methods_that_change_are_told_and_errors_are_left_alone() {
        let request: Fields = [("If-None-Match", "*")].into_iter().collect();
        let evaluate = |method, status| evaluate(&request, &method, &validators(), status);
        assert_eq!(evaluate(Method::Head, 200), Outcome::NotModified);
        assert_eq!(evaluate(Method::Put, 200), Outcome::PreconditionFailed);
        assert_eq!(evaluate(Method::Get, 404), Outcome::Proceed);
        assert_eq!(evaluate(Method::Get, 301), Outcome::Proceed);
    }

    #[test]
    fn if_range_wants_a_strong_validator() {
        let stored = validators();
        assert!(if_range_matches(b"\"a,b\"", &stored));
        assert!(!if_range_matches(b"W/\"a,b\"", &stored));
        assert!(!if_range_matches(b"\"x\"", &stored));
        assert!(if_range_matches(MODIFIED.as_bytes(), &stored));
        assert!(!if_range_matches(AFTER.as_bytes(), &stored));
        let weak = Validators { etag: Some(b"W/\"x\""), date: stored.last_modified, ..stored };
        assert!(!if_range_matches(b"W/\"x\"", &weak));
        assert!(!if_range_matches(MODIFIED.as_bytes(), &weak));
    }

    #[test]
    fn validation_sends_the_validators_back_as_they_came() {
        let mut request: Fields =
            [("If-None-Match", "\"mine\""), ("Range", "bytes=0-1"), ("Accept", "*/*")]
                .into_iter()
                .collect();
        validate(&mut request, Some(b"W/\"s\""), Some(MODIFIED.as_bytes()));
        let want =
            [("Accept", "*/*"), ("If-None-Match", "W/\"s\""), ("If-Modified-Since", MODIFIED)];
        assert_eq!(request, want.into_iter().collect());
        validate(&mut request, None, None);
        assert_eq!(request, [("Accept", "*/*")].into_iter().collect());
    }

    #[test]
    fn a_304_says_nothing_about_the_content() {
        let stored: Fields = [
            ("Date", AFTER),
            ("Content-Type", "text/plain"),
            ("ETag", "\"x\""),
            ("Last-Modified", MODIFIED),
            ("Content-Location", "/x"),
            ("Set-Cookie", "a=b"),
        ]
        .into_iter()
        .collect();
        let names: Vec<_> =
            not_modified_fields(&stored).iter().map(|(name, _)| name.to_vec()).collect();
        assert_eq!(names, [&b"Date"[..], b"ETag", b"Content-Location", b"Set-Cookie"]);
        let untagged: Fields = [("Last-Modified", MODIFIED)].into_iter().collect();
        assert_eq!(not_modified_fields(&untagged), untagged);
    }
}
