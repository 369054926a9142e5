//! Request targets and authorities (RFC 9110 §7.1, RFC 9112 §3.2, RFC 3986).
//!
//! A target is kept as it was sent: its path is not normalised, because two spellings that one
//! origin takes for the same are different to another, and a cache that joins them can be made to
//! serve the wrong one.

use crate::error::HttpError;
use crate::message::Scheme;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::Ipv6Addr;

/// No name in the DNS is longer.
const HOST_BYTES_MAX: usize = 255;

/// The form of a request target (RFC 9112 §3.2).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TargetForm<'a> {
    /// `/path?query`
    Origin(&'a str),
    /// `http://authority/path?query`
    Absolute {
        /// The scheme.
        scheme: Scheme,
        /// The authority in one form, as [`parse_authority`] makes it.
        authority: String,
        /// Path and query, beginning with `/`.
        target: Cow<'a, str>,
    },
    /// `host:port`, for CONNECT: in one form.
    Authority(String),
    /// `*`, for OPTIONS.
    Asterisk,
}

/// Checks an authority and brings it to one form: lower case, no empty port, IPv6 addresses as RFC
/// 5952 writes them.
///
/// Stricter than RFC 3986: names have letters, digits, `-`, `.`, `_` and `~` only. What else the
/// grammar allows (percent-encoding, `,`, `;`, `=` …) occurs in no name of a host, and proxies that
/// disagree about it are how requests reach the wrong one.
///
/// # Errors
/// [`HttpError::ClientAuthority`]
pub fn parse_authority(text: &[u8]) -> Result<String, HttpError> {
    let fail = |why| Err(HttpError::ClientAuthority(why));
    if text.first() == Some(&b'[') {
        let Some(at) = text.iter().position(|byte| *byte == b']') else {
            return fail("the bracket is not closed");
        };
        let (host, rest) = text.split_at(at);
        let address = host.get(1..).and_then(|host| std::str::from_utf8(host).ok());
        let Some(Ok(address)) = address.map(str::parse::<Ipv6Addr>) else {
            return fail("not an IPv6 address");
        };
        let port = port(rest.get(1..).unwrap_or_default())?;
        return Ok(match port {
            Some(port) => format!("[{address}]:{port}"),
            None => format!("[{address}]"),
        });
    }
    let end = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
    let (host, rest) = text.split_at(end);
    if host.is_empty() {
        return fail("it is empty");
    }
    if host.len() > HOST_BYTES_MAX {
        return fail("it is too long");
    }
    let is_of_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    let Some(host) =
        str::from_utf8(host).ok().filter(|host| host.as_bytes().iter().all(is_of_name))
    else {
        return fail("it has a character that is in no name of a host");
    };
    let port = port(rest)?;
    let mut out = String::with_capacity(text.len());
    out.push_str(host);
    out.make_ascii_lowercase();
    if let Some(port) = port {
        let _ = write!(out, ":{port}");
    }
    Ok(out)
}

/// The port after a host: nothing, a colon alone, or a colon and 1 to 65535.
fn port(text: &[u8]) -> Result<Option<u16>, HttpError> {
    let fail = Err(HttpError::ClientAuthority("the port is not one"));
    let digits = match text.split_first() {
        None | Some((b':', [])) => return Ok(None),
        Some((b':', digits)) if digits.len() <= 5 => digits,
        Some(_) => return fail,
    };
    let value = digits.iter().try_fold(0_u32, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + u32::from(byte - b'0'))
    });
    match value.map(u16::try_from) {
        Some(Ok(port @ 1..)) => Ok(Some(port)),
        _ => fail,
    }
}

/// Host and port of an authority that [`parse_authority`] made. IPv6 addresses keep their brackets.
pub fn split_authority(authority: &str) -> (&str, Option<u16>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (authority, None),
        },
        _ => (authority, None),
    }
}

/// The authority without a port that is the default of the scheme (RFC 9110 §4.2.3), for keys.
pub fn without_default_port(authority: &str, scheme: Scheme) -> &str {
    let default = match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    };
    match split_authority(authority) {
        (host, Some(port)) if port == default => host,
        _ => authority,
    }
}

/// A target or reference as browsers send it: bytes above ASCII, spaces, `"`, `<` and `>`, which many other
/// clients and packagers write as they are, as `%` and two digits (WHATWG URL §1.3), so that there is one
/// spelling of them in keys and at origins. `None` where there is a control sign, which nothing stands for.
pub fn encoded(text: &[u8]) -> Option<Cow<'_, str>> {
    let stands = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>');
    encoded_but(text, stands)
}

/// A target as it was sent, with bytes above ASCII and spaces as `%` and two digits: all that is visible stands
/// for itself. `None` where there is a control sign.
pub fn with_ascii_only(text: &[u8]) -> Option<Cow<'_, str>> {
    encoded_but(text, |byte| byte.is_ascii_graphic())
}

/// Text with all but the visible signs that stand for themselves as `%` and two digits.
fn encoded_but(text: &[u8], stands: impl Fn(u8) -> bool) -> Option<Cow<'_, str>> {
    if text.iter().all(|byte| stands(*byte)) {
        return str::from_utf8(text).ok().map(Cow::Borrowed);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text {
        match *byte {
            byte if stands(byte) => out.push(char::from(byte)),
            byte if byte.is_ascii_control() => return None,
            byte => {
                let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value & 15)]);
                out.extend(['%', digit(byte >> 4), digit(byte)]);
            }
        }
    }
    Some(Cow::Owned(out))
}

/// Tells which form a target has, and checks it: visible ASCII only and no fragment.
///
/// # Errors
/// [`HttpError::ClientTarget`], or [`HttpError::ClientAuthority`] for the authority in it.
pub fn parse_target(text: &[u8]) -> Result<TargetForm<'_>, HttpError> {
    if !text.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#') {
        return Err(HttpError::ClientTarget("it has a character that must be encoded"));
    }
    let target = std::str::from_utf8(text)
        .map_err(|_| HttpError::ClientTarget("it has a character that must be encoded"))?;
    if target.starts_with('/') {
        return Ok(TargetForm::Origin(target));
    }
    if target == "*" {
        return Ok(TargetForm::Asterisk);
    }
    if let Some((scheme, rest)) = split_scheme(target) {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = parse_authority(authority.as_bytes())?;
        return Ok(TargetForm::Absolute { scheme, authority, target: rooted(path) });
    }
    match split_authority(target) {
        (_, Some(_)) => parse_authority(text).map(TargetForm::Authority),
        _ => Err(HttpError::ClientTarget("it has none of the four forms")),
    }
}

fn split_scheme(target: &str) -> Option<(Scheme, &str)> {
    let (scheme, rest) = target.split_once("://")?;
    if scheme.eq_ignore_ascii_case("http") {
        Some((Scheme::Http, rest))
    } else if scheme.eq_ignore_ascii_case("https") {
        Some((Scheme::Https, rest))
    } else {
        None
    }
}

fn rooted(path: &str) -> Cow<'_, str> {
    if path.starts_with('/') { Cow::Borrowed(path) } else { Cow::Owned(format!("/{path}")) }
}

/// The target as it stands in a cache key, and as an origin gets it that is asked for the cache:
/// without the `CMCD` query parameter, which says how the player is doing and does not change the
/// response (CTA-5004 §2.2), and with the directives of low-latency HLS in one order, as they are
/// written in any (draft-pantos-hls-rfc8216bis §6.2.5). Borrowed where nothing changes.
pub fn key_target(target: &str) -> Cow<'_, str> {
    let Some((path, query)) = target.split_once('?') else { return Cow::Borrowed(target) };
    let has_cmcd = query.contains("CMCD=") && query.split('&').any(is_cmcd);
    if !has_cmcd && has_ordered_directives(query) {
        return Cow::Borrowed(target);
    }
    let kept = || query.split('&').filter(|parameter| !is_cmcd(parameter));
    let others = kept().filter(|parameter| directive(parameter).is_none());
    let mut directives: Vec<_> = kept().filter(|one| directive(one).is_some()).collect();
    directives.sort_by_key(|one| directive(one));
    let mut out = String::with_capacity(target.len());
    out.push_str(path);
    for (at, parameter) in others.chain(directives).enumerate() {
        out.push(if at == 0 { '?' } else { '&' });
        out.push_str(parameter);
    }
    Cow::Owned(out)
}

/// The place of a directive among the directives.
fn directive(parameter: &str) -> Option<usize> {
    const IN_ORDER: [&str; 3] = ["_HLS_msn=", "_HLS_part=", "_HLS_skip="];
    IN_ORDER.iter().position(|name| parameter.starts_with(name))
}

/// Whether the directives stand behind all else, in their order.
fn has_ordered_directives(query: &str) -> bool {
    !query.contains("_HLS_")
        || query.split('&').map(|one| directive(one).map_or(0, |at| at + 1)).is_sorted()
}

fn is_cmcd(parameter: &str) -> bool {
    parameter.starts_with("CMCD=")
}

/// Authority and target that a reference such as `Location` means, seen from `base_authority` and
/// `base_target` (RFC 3986 §5.2). `None` where it is not an `http` or `https` one or not valid.
pub fn resolve(
    base_authority: &str,
    base_target: &str,
    reference: &str,
) -> Option<(String, String)> {
    let reference = reference.split('#').next().unwrap_or_default();
    let reference = &*encoded(reference.as_bytes())?;
    let rest = match split_scheme(reference) {
        Some((_, rest)) => Some(rest),
        None => reference.strip_prefix("//"),
    };
    if let Some(rest) = rest {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = parse_authority(authority.as_bytes()).ok()?;
        return Some((authority, without_dots(&rooted(path))));
    }
    let first_segment = reference.split(['/', '?']).next().unwrap_or_default();
    if first_segment.contains(':') {
        return None;
    }
    let base_path = base_target.split('?').next().unwrap_or_default();
    let target = match reference.bytes().next() {
        None => base_target.to_owned(),
        Some(b'/') => without_dots(reference),
        Some(b'?') => format!("{base_path}{reference}"),
        Some(_) => {
            let folder = base_path.rfind('/').map_or("/", |at| &base_path[..=at]);
            without_dots(&format!("{folder}{reference}"))
        }
    };
    Some((base_authority.to_owned(), target))
}

/// `target` as a reference in the answer to `base` of the same host (RFC 3986 §5.3): the last of its path where that
/// is of the same folder, else all of it.
pub fn relative<'a>(base: &str, target: &'a str) -> &'a str {
    let path = base.split('?').next().unwrap_or_default();
    let folder = path.rfind('/').and_then(|at| path.get(..=at)).unwrap_or_default();
    let rest = target.strip_prefix(folder).unwrap_or(target);
    // Behind a colon it would be a scheme's; what is nothing means the same again.
    let is_one = !rest.is_empty() && !rest.starts_with(['/', '?', '.']) && !rest.contains(':');
    if is_one { rest } else { target }
}

/// The path without `.` and `..` segments (RFC 3986 §5.2.4), the query left alone.
fn without_dots(target: &str) -> String {
    let (path, query) = match target.find('?') {
        Some(at) => target.split_at(at),
        None => (target, ""),
    };
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    let mut out = String::with_capacity(target.len());
    for segment in kept {
        out.push('/');
        out.push_str(segment);
    }
    out.push_str(query);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(text: &str) -> Option<String> {
        parse_authority(text.as_bytes()).ok()
    }

    #[test]
    fn authorities_come_to_one_form() {
        for (text, want) in [
            ("Example.COM", "example.com"),
            ("example.com:8080", "example.com:8080"),
            ("example.com:", "example.com"),
            ("a_b.c~d-e", "a_b.c~d-e"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("[2001:DB8:0::1]:0443", "[2001:db8::1]:443"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(authority(text).as_deref(), Some(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            ":80",
            "a b",
            "user@host",
            "a,b",
            "host/path",
            "host?x",
            "a%20b",
            "host:x",
            "host:0",
            "host:65536",
            "host:-1",
            "host:80:80",
            "::1",
            "[::1",
            "[::1]x",
            "[v1.x]",
            "[fe80::1%eth0]",
            "[]",
            "h\u{f6}st",
            "host#",
            "a\\b",
            "*",
            "a\0b",
        ] {
            assert_eq!(authority(text), None, "{text}");
        }
        assert_eq!(authority(&"a".repeat(HOST_BYTES_MAX + 1)), None);
    }

    #[test]
    fn hosts_ports_and_default_ports() {
        assert_eq!(split_authority("example.com:81"), ("example.com", Some(81)));
        assert_eq!(split_authority("[::1]"), ("[::1]", None));
        assert_eq!(split_authority("[::1]:81"), ("[::1]", Some(81)));
        assert_eq!(without_default_port("a:80", Scheme::Http), "a");
        assert_eq!(without_default_port("a:80", Scheme::Https), "a:80");
        assert_eq!(without_default_port("[::1]:443", Scheme::Https), "[::1]");
    }

    #[test]
    fn the_four_forms_of_a_target() {
        assert_eq!(parse_target(b"/a/../b?c"), Ok(TargetForm::Origin("/a/../b?c")));
        assert_eq!(parse_target(b"*"), Ok(TargetForm::Asterisk));
        assert_eq!(parse_target(b"Host:443"), Ok(TargetForm::Authority("host:443".into())));
        let absolute = |text: &'static str| match parse_target(text.as_bytes()) {
            Ok(TargetForm::Absolute { scheme, authority, target }) => {
                (scheme, authority, target.into_owned())
            }
            other => panic!("absolute, not {other:?}"),
        };
        let want = |scheme, target: &str| (scheme, "host".to_owned(), target.to_owned());
        assert_eq!(absolute("HTTP://Host/a?b"), want(Scheme::Http, "/a?b"));
        assert_eq!(absolute("https://host"), want(Scheme::Https, "/"));
        assert_eq!(absolute("http://host?q"), want(Scheme::Http, "/?q"));
    }

    #[test]
    fn targets_in_no_form_are_refused() {
        for text in [
            &b""[..],
            b"a",
            b"/a b",
            b"/a#b",
            b"/\xc3\xb6",
            b"/\x7f",
            b"ftp://host/",
            b"host",
            b"http://",
            b"http:///a",
            b"http://u@h/",
            b"/\r\n",
        ] {
            assert!(parse_target(text).is_err(), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn keys_do_not_have_player_statistics() {
        for (target, key) in [
            ("/a.m4s", "/a.m4s"),
            ("/a.m4s?x=CMCD", "/a.m4s?x=CMCD"),
            ("/a.m4s?xCMCD=1", "/a.m4s?xCMCD=1"),
            ("/a.m4s?CMCD=bl%3D1", "/a.m4s"),
            ("/a.m4s?a=1&CMCD=bl&b=2", "/a.m4s?a=1&b=2"),
            ("/a.m4s?CMCD=1&b=2&CMCD=3", "/a.m4s?b=2"),
            ("/a?", "/a?"),
            ("/a?_HLS_part=2&_HLS_msn=1", "/a?_HLS_msn=1&_HLS_part=2"),
            ("/a?_HLS_skip=YES&t=1&CMCD=2&_HLS_msn=1", "/a?t=1&_HLS_msn=1&_HLS_skip=YES"),
            ("/a?t=1&_HLS_msn=1&_HLS_part=2", "/a?t=1&_HLS_msn=1&_HLS_part=2"),
            ("/a?_HLS_other=1&_HLS_msn=1", "/a?_HLS_other=1&_HLS_msn=1"),
        ] {
            assert_eq!(key_target(key_target(target).as_ref()), key);
            assert_eq!(key_target(target), key);
        }
    }

    #[test]
    fn what_browsers_encode_is_encoded() {
        for (text, want) in [
            ("/a?b=c|d", Some("/a?b=c|d")),
            ("/b\u{fc}cher/\u{20ac}?q=\u{e4}", Some("/b%C3%BCcher/%E2%82%AC?q=%C3%A4")),
            ("/a b\"<c>", Some("/a%20b%22%3Cc%3E")),
            ("/%e4%zz", Some("/%e4%zz")),
            ("/a\tb", None),
            ("/a\0", None),
            ("/a\u{7f}", None),
        ] {
            assert_eq!(encoded(text.as_bytes()).as_deref(), want, "{text}");
        }
        assert_eq!(encoded(b"/\xe4").as_deref(), Some("/%E4"));
    }

    #[test]
    fn references_are_seen_from_the_target() {
        for (reference, want) in [
            ("", Some(("h", "/a/b?q"))),
            ("#f", Some(("h", "/a/b?q"))),
            ("c", Some(("h", "/a/c"))),
            ("./c/../d?x=../y", Some(("h", "/a/d?x=../y"))),
            ("../../../c/.", Some(("h", "/c/"))),
            ("..", Some(("h", "/"))),
            ("?x", Some(("h", "/a/b?x"))),
            ("/c", Some(("h", "/c"))),
            ("//Other/c", Some(("other", "/c"))),
            ("HTTP://h:80", Some(("h:80", "/"))),
            ("mailto:x", None),
            ("ftp://h/", None),
            ("http://u@h/", None),
            ("a b/\u{fc}", Some(("h", "/a/a%20b/%C3%BC"))),
            ("a\tb", None),
            ("//b\u{fc}cher.example/", None),
        ] {
            let got = resolve("h", "/a/b?q", reference);
            let got = got.as_ref().map(|(authority, target)| (&**authority, &**target));
            assert_eq!(got, want, "{reference}");
        }
    }

    #[test]
    fn what_is_made_relative_means_the_same() {
        for (base, target, reference) in [
            ("/a/1.m4s?x=/y", "/a/2.m4s", "2.m4s"),
            ("/a/1.m4s", "/a/b/2.m4s?t=1", "b/2.m4s?t=1"),
            ("/a/1.m4s", "/b/2.m4s", "/b/2.m4s"),
            ("/a/1", "/a/b:c", "/a/b:c"),
            ("/a/1", "/a/", "/a/"),
            ("/a/1", "/a/?x", "/a/?x"),
            ("/a/1", "/a//b", "/a//b"),
            ("/a/1", "/a/.b", "/a/.b"),
            ("/1", "/2", "2"),
            ("", "/2", "/2"),
        ] {
            assert_eq!(relative(base, target), reference, "{base} {target}");
            let meant = resolve("tv", base, reference).map(|(_, target)| target);
            assert_eq!(meant.as_deref(), Some(target), "{base} {reference}");
        }
    }
}
