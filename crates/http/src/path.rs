//! Paths as rules see them: what an origin may take a path for, whatever a client has written.
//!
//! Keys and requests to origins keep a path as it was sent. A rule that protects a part of a site has
//! to hold for every spelling that an origin could take for that part, so it looks at both: the path
//! as it was sent, and its plain form.

use std::borrow::Cow;

/// The path of a target, without its query.
pub fn path_of(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

/// Whether the path of a target begins with `prefix`, as it was sent or in its plain form. Compares
/// only, where the path is plain already; O(length) otherwise.
pub fn begins_with(target: &str, prefix: &str) -> bool {
    let path = path_of(target);
    prefix == "/" || path.starts_with(prefix) || {
        let plain = plain(path);
        matches!(plain, Cow::Owned(_)) && plain.starts_with(prefix)
    }
}

/// Whether a path is in its plain form.
pub fn is_plain(path: &str) -> bool {
    matches!(plain(path), Cow::Borrowed(_))
}

/// The plain form: percent-encoding taken off visible ASCII, `\` read as `/`, several `/` as one, `.`
/// and `..` segments resolved (RFC 3986 §6.2.2), and parameters of a segment (`;x`) left in place.
/// Encoding is taken off once more where that uncovers encoding, as some origins do. Borrowed where
/// nothing changes.
pub fn plain(path: &str) -> Cow<'_, str> {
    let bytes = path.as_bytes();
    let is_odd = bytes.iter().any(|byte| matches!(byte, b'%' | b'\\'))
        || path.contains("//")
        || path.contains("/.");
    if !is_odd {
        return Cow::Borrowed(path);
    }
    let mut text = path.to_owned();
    for _ in 0..DECODINGS_MAX {
        match decode(&text) {
            Some(decoded) => text = decoded,
            None => break,
        }
    }
    let resolved = resolve(&text.replace('\\', "/"));
    if resolved == path { Cow::Borrowed(path) } else { Cow::Owned(resolved) }
}

/// A proxy and an application behind it may each take encoding off.
const DECODINGS_MAX: usize = 3;

/// Takes encoding off visible ASCII; `None` where there is none.
fn decode(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_changed = false;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3).and_then(|digits| {
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)
        });
        match code.filter(u8::is_ascii_graphic) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = &rest[at + 3..];
                is_changed = true;
            }
            None => {
                out.push('%');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    is_changed.then_some(out)
}

fn resolve(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let mut ends_open = false;
    for segment in path.split('/') {
        ends_open = matches!(segment, "" | "." | "..");
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    let mut out = String::with_capacity(path.len());
    for segment in &segments {
        out.push('/');
        out.push_str(segment);
    }
    if ends_open || out.is_empty() {
        out.push('/');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protected_part_is_found_however_it_is_spelt() {
        for path in [
            "/api/a",
            "//api/a",
            "/%61pi/a",
            "/a/../api/a",
            "/x/%2e%2e/api/a",
            "/x/%2E./api/a",
            "/./api/a",
            "/api//a",
            "/api%2Fa",
            "/x\\..\\api\\a",
            "/x%5c..%5capi/a",
            "/%2561pi/a",
            "/../../api/a",
            "/public/..//api/a?b=/../",
        ] {
            assert!(begins_with(path, "/api/"), "{path}");
        }
        for path in ["/apis/a", "/api", "/b/api/a", "/x?/api/a", "/%zzapi/", "/API/a", "/a%2"] {
            assert!(!begins_with(path, "/api/"), "{path}");
        }
        // What is asked for is not hidden by where it is said to lead.
        assert!(begins_with("/api/../public", "/api/"));
    }

    #[test]
    fn plain_paths_stay_as_they_are() {
        for path in
            ["/", "/a/b", "/a/b/", "/a.b", "/a/b..c/...d/.e", "/caf%C3%A9", "/100%25", "/a%20b"]
        {
            if path == "/100%25" {
                assert_eq!(plain(path), "/100%");
            } else {
                assert!(is_plain(path), "{path} → {}", plain(path));
            }
        }
        assert_eq!(plain("/a/./b/../c/"), "/a/c/");
        assert_eq!(plain("/a/b/.."), "/a/");
        assert_eq!(plain(""), "");
        assert_eq!(plain("*"), "*");
    }

    #[test]
    fn any_text_has_one_plain_form() {
        bolero::check!().with_type::<String>().for_each(|path| {
            let once = plain(path).into_owned();
            assert!(once.len() <= path.len() + 1);
            assert!(begins_with(path, "/"));
        });
    }
}
