//! Content that clients know at other paths than its origin has it.

use crate::places::{PLACES, split};
use freshet_http::message::{RequestHead, ResponseHead};
use freshet_http::path;

/// Where the content of an origin begins, and which beginning of clients' paths it does not have.
///
/// The path of a request is made of segments: `/site` before `/film.mp4` is `/site/film.mp4`, and
/// `/v2` in the place of `/api/` makes `/v2/users` of `/api/users`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BasePath {
    /// Begins with a slash and does not end with one, or is empty.
    base: String,
    /// Beginnings of clients' paths that are left out, the longest first, without a slash at the end.
    left_out: Box<[String]>,
}

impl BasePath {
    /// Content below `base`, without what is `left_out` of the path clients ask for; slashes at
    /// their ends do not matter.
    pub fn new(base: &str, left_out: &[String]) -> Self {
        let trimmed = |path: &String| path.trim_end_matches('/').to_owned();
        let mut left_out: Box<[_]> = left_out.iter().map(trimmed).collect();
        left_out.sort_unstable_by_key(|path| std::cmp::Reverse(path.len()));
        Self { base: base.trim_end_matches('/').to_owned(), left_out }
    }

    /// Whether paths are the same at the origin.
    pub fn is_empty(&self) -> bool {
        self.base.is_empty() && self.left_out.is_empty()
    }

    /// What `target` begins with that its origin does not have. It ends where a segment does: `/apis` does not begin
    /// with `/api`, or what follows would be put to the base's last segment.
    fn left_out<'a>(&self, target: &'a str) -> &'a str {
        let fits = |path: &&String| {
            let rest = target.strip_prefix(path.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
        };
        let length = self.left_out.iter().find(fits).map_or(0, String::len);
        target.get(..length).unwrap_or_default()
    }

    /// `target` of a client as the origin is asked for it. `*` (RFC 9110 §9.3.7) stays. `None` where the
    /// origin may take it for a place that is not below the base (`/..`, however it is spelt).
    pub(crate) fn of_origin(&self, target: &str) -> Option<String> {
        match target.strip_prefix(self.left_out(target)) {
            Some(rest) if target.starts_with('/') => {
                let slash = if self.base.is_empty() && !rest.starts_with('/') { "/" } else { "" };
                let sent = format!("{}{slash}{rest}", self.base);
                let below = format!("{}/", self.base);
                path::stays_below(&sent, &below).then_some(sent)
            }
            _ => Some(target.to_owned()),
        }
    }

    /// Has the fields of a response to `request` of a client name places as the client knows them:
    /// paths below the base, alone or of the authority that was `sent` to the origin. One that is
    /// not the client's goes, as it would lead past this node. What is elsewhere stays.
    pub(crate) fn in_response(&self, request: &RequestHead, sent: &str, head: &mut ResponseHead) {
        for name in PLACES.into_iter().filter(|_| !self.is_empty()) {
            let Some(place) = head.fields.get_str(name) else { continue };
            let (start, path) = split(place);
            let authority = start.split_once("//").map_or("", |(_, authority)| authority);
            let is_origins = match start {
                "" => path.starts_with('/'),
                _ => authority.eq_ignore_ascii_case(sent),
            };
            let rest = path.strip_prefix(self.base.as_str()).filter(|_| is_origins);
            if let Some(rest) = rest
                && (rest.is_empty() || rest.starts_with(['/', '?', '#']))
            {
                let is_clients = authority.eq_ignore_ascii_case(&request.authority);
                let before = self.left_out(&request.target);
                let slash = if before.is_empty() && !rest.starts_with('/') { "/" } else { "" };
                let start = match if is_clients { start } else { "" } {
                    // It would be read as an authority (RFC 3986 §4.2).
                    "" if before.is_empty() && is_authority(rest) => "/.",
                    start => start,
                };
                head.fields.set(name, format!("{start}{before}{slash}{rest}"));
            }
        }
    }
}

/// Whether a reference is read as the authority of another place, by browsers also with `\`.
fn is_authority(reference: &str) -> bool {
    reference.starts_with("//") || reference.starts_with("/\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_goes_before_paths_and_takes_the_place_of_their_beginning() {
        let api = ["/api/".to_owned(), "/api/old".to_owned()];
        for (base, left_out, target, expected) in [
            ("/site", &[][..], "/", "/site/"),
            ("/site/", &[], "/film.mp4?a=/b", "/site/film.mp4?a=/b"),
            ("/site", &[], "*", "*"),
            ("/v2", &api, "/api/users", "/v2/users"),
            ("/v2", &api, "/api/", "/v2/"),
            ("/v2", &api, "/api/old/users", "/v2/users"),
            ("/v2", &api, "/other", "/v2/other"),
            ("/v2", &api, "/api?a", "/v2?a"),
            ("/v2", &api, "/apis/users", "/v2/apis/users"),
            ("/v2", &api, "/api/older", "/v2/older"),
            ("", &api, "/api/users", "/users"),
            ("/", &api, "/api/", "/"),
            ("", &api, "/api/old?a", "/?a"),
            ("", &api, "/other", "/other"),
            ("", &api, "/api/../other", "/../other"),
            ("/site", &[], "/a/../b;c//d", "/site/a/../b;c//d"),
        ] {
            let base = BasePath::new(base, left_out);
            assert_eq!(base.of_origin(target).as_deref(), Some(expected), "{target} {base:?}");
        }
    }

    #[test]
    fn nothing_leads_out_of_a_base() {
        let api = ["/api/".to_owned()];
        for (left_out, target) in [
            (&[][..], "/../other"),
            (&[], "/%2e%2e/other"),
            (&[], "/a/..;/../other"),
            (&[], "/..%5cother"),
            (&api, "/api/../other"),
            (&api, "/api/a/%2E./../other?b"),
        ] {
            let base = BasePath::new("/v2", left_out);
            assert_eq!(base.of_origin(target), None, "{target} below {base:?}");
        }
    }

    #[test]
    fn places_that_a_response_names_are_those_of_clients() {
        let api = ["/api/".to_owned()];
        for (base, left_out, target, place, expected) in [
            ("/v2", &api[..], "/api/a", "/v2/b?c#d", "/api/b?c#d"),
            ("/v2", &api, "/api/a", "http://origin.example:81/v2/b", "/api/b"),
            ("/v2", &api, "/api/a", "/v2", "/api"),
            ("/v2", &api, "/api/a", "/v22/b", "/v22/b"),
            ("/v2", &api, "/api/a", "/login", "/login"),
            ("/v2", &api, "/api/a", "b", "b"),
            ("/v2", &api, "/api/a", "//origin.example:81/v2/b", "/api/b"),
            ("/v2", &api, "/api/a", "/v2/b?to=http://x/v2", "/api/b?to=http://x/v2"),
            (
                "/v2",
                &api,
                "/api/a",
                "https://elsewhere.example/v2/b",
                "https://elsewhere.example/v2/b",
            ),
            ("/v2", &[], "/a", "/v2/b", "/b"),
            ("/v2", &[], "/a", "/v2", "/"),
            ("/v2", &[], "/a", "/v2?b", "/?b"),
            ("/v2", &[], "//evil.example/a", "/v2//evil.example/a/", "/.//evil.example/a/"),
            ("/v2", &[], "/a", "http://origin.example:81/v2//b", "/.//b"),
            ("/v2", &[], "/a", "/v2/\\evil.example", "/./\\evil.example"),
            ("/v2", &api, "/api/a", "/v2//b", "/api//b"),
            ("", &api, "/api/a", "/b", "/api/b"),
            ("", &api, "/api/a", "http://origin.example:81", "/api"),
            ("", &api, "/api/a", "?b", "?b"),
            ("", &api, "/api/a", "", ""),
        ] {
            let request = RequestHead { target: target.into(), ..RequestHead::default() };
            let mut head = ResponseHead::new(302);
            head.fields.set("Location", place);
            let base = BasePath::new(base, left_out);
            base.in_response(&request, "origin.example:81", &mut head);
            assert_eq!(head.fields.get_str("location"), Some(expected), "{target} {place}");
        }
    }

    #[test]
    fn a_client_that_is_led_to_its_own_host_by_another_scheme_still_is() {
        let request = RequestHead {
            target: "/a".into(),
            authority: "www.example".into(),
            ..RequestHead::default()
        };
        let mut head = ResponseHead::new(301);
        head.fields.set("Location", "https://WWW.example/v2/a");
        BasePath::new("/v2", &[]).in_response(&request, "www.example", &mut head);
        assert_eq!(head.fields.get_str("location"), Some("https://WWW.example/a"));
    }
}
