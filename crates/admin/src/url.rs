//! URLs as people paste them.

use crate::problem::Problem;
use freshet_http::message::{Method, RequestHead, Scheme};
use freshet_http::target;

/// The GET request a client makes for a URL; `None` where it is none.
pub fn request_of(url: &str) -> Option<RequestHead> {
    request_for(url).ok()
}

/// What a client means with a `Host` field.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn authority_of(host: &str, scheme: Scheme) -> Result<String, Problem> {
    let authority = target::parse_authority(host.as_bytes()).map_err(|error| {
        Problem::bad_request(
            format!("`{host}` is not a host: {error}"),
            "as header=Host:www.example",
        )
    })?;
    // Clients leave out the port that is the scheme's own.
    Ok(target::without_default_port(&authority, scheme).to_owned())
}

/// The GET request a client makes for a URL.
///
/// # Errors
/// What is wrong with the URL and how it should look.
pub(crate) fn request_for(url: &str) -> Result<RequestHead, Problem> {
    let wrong = |why: &str| {
        Problem::bad_request(
            format!("`{url}` is not a URL: {why}"),
            "write it as clients ask for it: http://localhost:8000/a.mp4",
        )
    };
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Scheme::Http, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Scheme::Https, rest),
        _ => return Err(wrong("it begins with neither http:// nor https://")),
    };
    let rest = rest.split('#').next().unwrap_or(rest);
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority =
        target::parse_authority(authority.as_bytes()).map_err(|error| wrong(&error.to_string()))?;
    // Clients leave out the port that is the scheme's own.
    let authority = target::without_default_port(&authority, scheme).to_owned();
    let target = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    // As clients send it.
    let target = target::encoded(target.as_bytes())
        .ok_or_else(|| wrong("its path has characters that are in none"))?
        .into_owned();
    Ok(RequestHead { method: Method::Get, scheme, authority, target, ..RequestHead::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_become_the_requests_clients_make() {
        let parts = |url| {
            let head = request_for(url).unwrap();
            (head.scheme, head.authority, head.target)
        };
        let expect =
            |scheme, authority: &str, target: &str| (scheme, authority.into(), target.into());
        assert_eq!(parts("http://TV.example:80/a?b#c"), expect(Scheme::Http, "tv.example", "/a?b"));
        assert_eq!(parts("https://a:80"), expect(Scheme::Https, "a:80", "/"));
        assert_eq!(parts("http://[::1]:8000?x"), expect(Scheme::Http, "[::1]:8000", "/?x"));
        assert_eq!(parts("http://a/ü \"b\"").2, "/%C3%BC%20%22b%22");
    }

    #[test]
    fn what_is_wrong_is_said_with_an_example() {
        for url in ["/a", "ftp://a/", "http:///a", "http://a b/", "http://a/\t", "http://u@a/"] {
            let problem = request_for(url).unwrap_err();
            assert!(problem.detail.contains(url) && problem.help.contains("http://"), "{url}");
        }
    }
}
