//! Paths as rules see them: what an origin may take a path for, whatever a client has written.
//!
//! Keys and requests to origins keep a path as it was sent. A rule that protects a part of a site has
//! to hold for every spelling that an origin could take for that part, so it looks at all
//! [`Readings`] of a path.

use std::borrow::Cow;

/// Most ways a path is read. One that can be read in more is for every rule: nobody sends it in good
/// faith.
const READINGS_MAX: usize = 64;

/// Bytes of all of them together, so that a long path costs no more than a short one.
const READINGS_BYTES_MAX: usize = 128 << 10;

/// The path of a target, without its query.
pub fn path_of(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

/// What a path may be taken for on its way through proxies and applications, each of which may take
/// percent-encoding off, read `\` as `/` and several `/` as one, leave parameters of segments out
/// (`;x`, as servlets do), and resolve `.` and `..` (RFC 3986 §6.2.2), or not: whatever some of that
/// makes of it, in any order and any number of times.
#[derive(Clone, Debug)]
pub struct Readings<'a> {
    sent: &'a [u8],
    others: Vec<Vec<u8>>,
    /// Whether there are more than are looked at.
    is_endless: bool,
}

/// Of rules in an order, of which the first that fits counts, those that count for a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Firsts {
    /// The same one, or none, however the path is read.
    Same(Option<usize>),
    /// One or the other of these, or none, in the order of the rules.
    Differ(Vec<usize>),
}

impl Firsts {
    /// Places of the rules that count for some reading.
    pub fn places(self) -> impl Iterator<Item = usize> {
        let (one, several) = match self {
            Self::Same(one) => (one, Vec::new()),
            Self::Differ(several) => (None, several),
        };
        one.into_iter().chain(several)
    }
}

impl<'a> Readings<'a> {
    /// Those of a target's path. Looks at each byte once where there is one reading, as nearly always.
    pub fn of(target: &'a str) -> Self {
        Self::of_path(path_of(target).as_bytes())
    }

    /// Those of a path.
    pub fn of_path(sent: &'a [u8]) -> Self {
        let mut readings = Self { sent, others: Vec::new(), is_endless: false };
        if sent.first() == Some(&b'/') && is_odd(sent) {
            readings.find();
        }
        readings
    }

    fn find(&mut self) {
        let mut bytes = self.sent.len();
        let mut current = Cow::Borrowed(self.sent);
        let mut looked_at = 0;
        loop {
            for step in STEPS {
                let Some(read) = step(&current) else { continue };
                if read == self.sent || self.others.contains(&read) {
                    continue;
                }
                bytes += read.len();
                if self.others.len() + 1 >= READINGS_MAX || bytes > READINGS_BYTES_MAX {
                    self.is_endless = true;
                    return;
                }
                self.others.push(read);
            }
            let Some(next) = self.others.get(looked_at) else { return };
            current = Cow::Owned(next.clone());
            looked_at += 1;
        }
    }

    /// Those that are known: the path as it was sent, then others.
    fn known(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.sent).chain(self.others.iter().map(Vec::as_slice))
    }

    /// Whether `is` holds for one of them at least.
    pub fn any(&self, is: impl FnMut(&[u8]) -> bool) -> bool {
        self.is_endless || self.known().any(is)
    }

    /// Whether `is` holds for each of them.
    pub fn all(&self, is: impl FnMut(&[u8]) -> bool) -> bool {
        !self.is_endless && self.known().all(is)
    }

    /// Which of `rules` count, where the first that `fits` a reading counts for it.
    pub fn firsts<R>(&self, rules: &[R], fits: impl Fn(&R, &[u8]) -> bool) -> Firsts {
        let first = |path: &[u8]| rules.iter().position(|rule| fits(rule, path));
        if self.is_endless {
            return match rules.len() {
                0 => Firsts::Same(None),
                count => Firsts::Differ((0..count).collect()),
            };
        }
        let of_sent = first(self.sent);
        let mut places: Vec<_> = self.others.iter().map(|path| first(path)).collect();
        if places.iter().all(|place| *place == of_sent) {
            return Firsts::Same(of_sent);
        }
        places.push(of_sent);
        places.sort_unstable();
        places.dedup();
        Firsts::Differ(places.into_iter().flatten().collect())
    }
}

/// Whether the path of a target begins with `prefix`, however both are spelt.
pub fn begins_with(target: &str, prefix: &str) -> bool {
    prefix == "/" || Readings::of(target).any(|path| is_below(path, prefix))
}

/// Whether a reading of a path begins with `prefix`, as it stands there or without its encoding.
pub fn is_below(path: &[u8], prefix: &str) -> bool {
    prefix == "/"
        || path.starts_with(prefix.as_bytes())
        || decoded(prefix.as_bytes()).is_some_and(|prefix| path.starts_with(&prefix))
}

/// One form of a path, for counting what is asked for: encoding taken off, `\` read as `/`, several
/// `/` as one, `.` and `..` resolved, and parameters of segments left in place.
pub fn plain(path: &str) -> Cow<'_, [u8]> {
    let mut plain = Cow::Borrowed(path.as_bytes());
    if !path.starts_with('/') || !is_odd(&plain) {
        return plain;
    }
    if plain.contains(&b'%') {
        plain = decoded_throughout(&plain).into();
    }
    for step in [slashed, merged, resolved] {
        if let Some(read) = step(&plain) {
            plain = read.into();
        }
    }
    plain
}

/// Whether a path has anything that one of [`STEPS`] could change.
fn is_odd(path: &[u8]) -> bool {
    let mut before = 0;
    path.iter().any(|byte| {
        let is_odd = match byte {
            b'%' | b'\\' | b';' => true,
            b'/' | b'.' => before == b'/',
            _ => false,
        };
        before = *byte;
        is_odd
    })
}

/// Something that may be done to a path on its way; `None` where it changes nothing. None makes a path
/// longer, so that there is an end to them.
type Step = fn(&[u8]) -> Option<Vec<u8>>;

const STEPS: [Step; 5] = [decoded, slashed, merged, without_parameters, resolved];

/// A path without its percent-encoding, which is taken off once; `None` where it has none.
pub fn decoded(path: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut out = Vec::new();
    let mut rest = path;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let (before, behind) = rest.split_at(at);
        out.extend_from_slice(before);
        let code = digit(behind.get(1)).zip(digit(behind.get(2)));
        let (byte, length) = match code.and_then(|(high, low)| u8::try_from((high << 4) | low).ok())
        {
            Some(byte) => (byte, 3),
            None => (b'%', 1),
        };
        out.push(byte);
        rest = behind.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    (out.len() < path.len()).then_some(out)
}

/// A path without percent-encoding, however often it was put on, in one walk: what comes off may
/// make the end of what is read another encoded byte.
fn decoded_throughout(path: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    for byte in path {
        out.push(*byte);
        while let [.., b'%', high, low] = *out
            && let Some((high, low)) = digit(high).zip(digit(low))
            && let Ok(byte) = u8::try_from((high << 4) | low)
        {
            out.truncate(out.len() - 3);
            out.push(byte);
        }
    }
    out
}

/// Whether a target that begins with `beginning` stays there, whatever its path is taken for. One
/// that ends with a slash is also what it is without.
pub fn stays_below(target: &str, beginning: &str) -> bool {
    if beginning.len() <= 1 {
        return true;
    }
    let whole = beginning.strip_suffix('/');
    let beginnings = Readings::of_path(whole.unwrap_or(beginning).as_bytes());
    Readings::of(target).all(|path| {
        beginnings.any(|begun| {
            let rest = path.strip_prefix(begun);
            rest.is_some_and(|rest| whole.is_none() || matches!(rest, [] | [b'/', ..]))
        })
    })
}

/// Reads `\` as `/`.
fn slashed(path: &[u8]) -> Option<Vec<u8>> {
    let slash = |byte: &u8| if *byte == b'\\' { b'/' } else { *byte };
    path.contains(&b'\\').then(|| path.iter().map(slash).collect())
}

/// Reads several `/` as one.
fn merged(path: &[u8]) -> Option<Vec<u8>> {
    let mut out = path.to_vec();
    out.dedup_by(|one, other| *one == b'/' && *other == b'/');
    (out.len() < path.len()).then_some(out)
}

/// Leaves parameters of segments out.
fn without_parameters(path: &[u8]) -> Option<Vec<u8>> {
    let mut is_parameter = false;
    let mut out = path.to_vec();
    out.retain(|byte| {
        is_parameter = *byte != b'/' && (is_parameter || *byte == b';');
        !is_parameter
    });
    (out.len() < path.len()).then_some(out)
}

/// Resolves `.` and `..` segments. An empty segment is one like others.
fn resolved(path: &[u8]) -> Option<Vec<u8>> {
    let below = path.strip_prefix(b"/")?;
    let is_dots = |segment: &[u8]| matches!(segment, b"." | b"..");
    if !below.split(|byte| *byte == b'/').any(is_dots) {
        return None;
    }
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut ends_open = false;
    for segment in below.split(|byte| *byte == b'/') {
        ends_open = is_dots(segment);
        match segment {
            b"." => {}
            b".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    if ends_open {
        segments.push(b"");
    }
    let mut out = Vec::with_capacity(path.len());
    for segment in segments {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if out.is_empty() {
        out.push(b'/');
    }
    Some(out)
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
            // Encoded once only, slashes as they are, or resolved between two decodings.
            "/%61pi/%252e%252e/",
            "/%61pi/a%252f..%252f..%252f",
            "/x/%2e%2e/%61pi/%252e%252e/",
            "/%61pi//../x",
            "//x/../../api//../x",
            "/p/q%252fr/../%252e%252e/api/",
            "/x/../%61pi/..\\",
            // Parameters of segments.
            "/api;x/a",
            "/public/..;/api/a",
            "/public/..;x=1/api/a",
            "/public/%2e%2e%3bx/api/a",
            "/;x/api/a",
        ] {
            assert!(begins_with(path, "/api/"), "{path}");
        }
        for path in ["/apis/a", "/api", "/b/api/a", "/x?/api/a", "/%zzapi/", "/API/a", "/a%2"] {
            assert!(!begins_with(path, "/api/"), "{path}");
        }
        // What is asked for is not hidden by where it is said to lead.
        assert!(begins_with("/api/../public", "/api/"));
        for (path, prefix) in
            [("/caf%c3%a9/a", "/caf%C3%A9/"), ("/caf%C3%A9/a", "/café/"), ("/a%20b/", "/a%20b/")]
        {
            assert!(begins_with(path, prefix), "{path}");
        }
    }

    #[test]
    fn what_was_encoded_more_than_once_is_read_in_one_walk() {
        const BYTES: &[u8] = b"%2541";
        for length in 0..8 {
            for number in 0..BYTES.len().pow(length) {
                let digit = |place: u32| BYTES[number / BYTES.len().pow(place) % BYTES.len()];
                let path: Vec<u8> = (0..length).map(digit).collect();
                let mut expected = path.clone();
                while let Some(read) = decoded(&expected) {
                    expected = read;
                }
                assert_eq!(decoded_throughout(&path), expected, "{}", path.escape_ascii());
            }
        }
        assert_eq!(&*plain(&format!("/%{}2e./a", "25".repeat(4_000))), b"/a");
    }

    #[test]
    fn a_target_stays_below_its_beginning_however_it_is_read() {
        for (target, beginning, stays) in [
            ("/a?b=/../c", "/", true),
            ("/../a", "/", true),
            ("/v2/a", "/v2/", true),
            ("/v2", "/v2/", true),
            ("/v2?a", "/v2/", true),
            ("/v2/a;b=c/%20//d", "/v2/", true),
            ("/v2/a/../b?c=..", "/v2/", true),
            ("/v2/../v2/b", "/v2/", true),
            ("/v2;x/a%20b", "/v2;x/", true),
            ("/v%20w/a/../b", "/v%20w/", true),
            ("/bb;x", "/b", true),
            ("/v2/../a", "/v2/", false),
            ("/v2/../v20/a", "/v2/", false),
            ("/v2/..;/a", "/v2/", false),
            ("/v2/%2e%2e/a", "/v2/", false),
            ("/v2/%252e%252e/a", "/v2/", false),
            ("/v2/x/..\\..\\a", "/v2/", false),
            ("/v2/a/../../b", "/v2/", false),
        ] {
            assert_eq!(stays_below(target, beginning), stays, "{target} below {beginning}");
        }
    }

    #[test]
    fn the_first_rule_of_each_reading_counts() {
        let of = |target, rules: &[&str]| {
            Readings::of(target).firsts(rules, |rule, path| is_below(path, rule))
        };
        let rules = ["/public/", "/admin/", "/"];
        assert_eq!(of("/public/a", &rules), Firsts::Same(Some(0)));
        assert_eq!(of("/public/a%20b;v=1", &rules), Firsts::Same(Some(0)));
        assert_eq!(of("/x//y", &rules), Firsts::Same(Some(2)));
        assert_eq!(of("/x", &rules[..2]), Firsts::Same(None));
        assert_eq!(of("/public/../admin/", &rules), Firsts::Differ(vec![0, 1]));
        assert_eq!(of("/%61dmin/", &rules), Firsts::Differ(vec![1, 2]));
        assert_eq!(of("/%61dmin/", &rules[..2]), Firsts::Differ(vec![1]));
    }

    #[test]
    fn what_can_be_read_in_too_many_ways_is_for_every_rule() {
        let many = "/a;b/..\\%252561//./".repeat(20);
        assert!(begins_with(&many, "/other/"));
        let firsts = Readings::of(&many).firsts(&["/b/", "/c/"], |rule, path| is_below(path, rule));
        assert_eq!(firsts, Firsts::Differ(vec![0, 1]));
        let long = format!("/{}", "%2561".repeat(16 << 10));
        assert!(Readings::of(&long).is_endless);
    }

    #[test]
    fn plain_paths_have_one_reading() {
        for path in ["/", "/a/b", "/a/b/", "/a.b", "/a/b..c/d.e", "*", "", "example.com:443"] {
            assert!(Readings::of(path).others.is_empty() && plain(path) == path.as_bytes());
        }
        assert_eq!(&*plain("/a/./b/../c/"), b"/a/c/");
        assert_eq!(&*plain("/a/b/.."), b"/a/");
        assert_eq!(&*plain("//a\\b/%2561"), b"/a/b/a");
        assert_eq!(&*plain("/100%25"), b"/100%");
    }

    #[test]
    fn any_text_has_readings_within_bounds() {
        bolero::check!().with_type::<String>().for_each(|text| {
            let target = format!("/{text}");
            let readings = Readings::of(&target);
            assert!(readings.others.len() < READINGS_MAX);
            assert!(readings.others.iter().all(|path| path.len() <= target.len()));
            assert!(readings.others.iter().all(|path| path.first() == Some(&b'/')));
            assert!(readings.any(|path| path == path_of(&target).as_bytes()));
            assert!(begins_with(&target, "/"));
        });
    }
}
