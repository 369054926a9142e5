//! Places that an answer names.

use freshet_http::fields::Fields;
use freshet_http::message::RequestHead;

/// Fields of a response that name places of the origin (RFC 9110 §§ 8.7, 10.2.2).
pub(crate) const PLACES: [&str; 2] = ["location", "content-location"];

/// Has places of the site that was `asked` leave its name out: they are then of whatever port a client came to,
/// and without it a redirection to `http://host/a` leads clients of `http://host:8080` to another server.
pub fn of_any_port(asked: &RequestHead, fields: &mut Fields) {
    below(&format!("{}://{}", asked.scheme.as_str(), asked.authority), fields);
}

/// Has places at `here`, a scheme and an authority, leave that out.
pub(crate) fn below(here: &str, fields: &mut Fields) {
    for name in PLACES {
        let path = fields.get_str(name).and_then(|place| path_at(here, place)).map(str::to_owned);
        if let Some(path) = path {
            fields.set(name, path);
        }
    }
}

/// The path and what follows it of a `place` at the scheme and authority that are `here`, unless it is elsewhere.
fn path_at<'a>(here: &str, place: &'a str) -> Option<&'a str> {
    let (start, path) = split(place);
    // A path that begins with two slashes would be read as an authority (RFC 3986 §4.2).
    let is_path = path.starts_with('/') && !path.starts_with("//");
    match path {
        _ if !start.eq_ignore_ascii_case(here) => None,
        "" => Some("/"),
        _ => Some(path).filter(|_| is_path),
    }
}

/// A reference (RFC 3986 §4.1) up to the end of its authority, if it has one, and what follows.
pub(crate) fn split(reference: &str) -> (&str, &str) {
    let is_scheme = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let begin = match reference.split_once("//") {
        Some(("", _)) => 2,
        Some((before, _)) if before.strip_suffix(':').is_some_and(is_scheme) => before.len() + 2,
        _ => return ("", reference),
    };
    let rest = reference.get(begin..).unwrap_or_default();
    reference.split_at(begin + rest.find(['/', '?', '#']).unwrap_or(rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_the_site_lose_its_name_and_others_stay() {
        let asked = RequestHead { authority: "tv.example".into(), ..RequestHead::default() };
        for (place, expected) in [
            ("http://tv.example/a?b#c", "/a?b#c"),
            ("HTTP://TV.example", "/"),
            ("http://tv.example:8080/a", "http://tv.example:8080/a"),
            ("https://tv.example/a", "https://tv.example/a"),
            ("http://tv.example.org/a", "http://tv.example.org/a"),
            ("http://tv.example//evil.example/a", "http://tv.example//evil.example/a"),
            ("http://tv.example?a", "http://tv.example?a"),
            ("http://tv.ex\u{e4}mple/a", "http://tv.ex\u{e4}mple/a"),
            ("//tv.example/a", "//tv.example/a"),
            ("/a", "/a"),
            ("a", "a"),
        ] {
            let mut fields: Fields = [("Location", place)].into_iter().collect();
            of_any_port(&asked, &mut fields);
            assert_eq!(fields.get_str("location"), Some(expected), "{place}");
        }
    }
}
