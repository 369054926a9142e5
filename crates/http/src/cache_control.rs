//! Cache directives of responses and requests (RFC 9111 §5.2, RFC 5861, RFC 8246, RFC 9213).
//!
//! Reading allocates nothing. All lines of the field are one list; names compare without case; a
//! value may be a token or a quoted string. Where a directive that limits reuse cannot be
//! understood (`max-age=1.5`), it reads as zero, so that the response counts as stale (RFC 9111
//! §4.2.1). Where a directive is repeated, the first counts.

use crate::fields::Fields;
use crate::freshness::Settings;
use crate::structured::{BareItem, Dictionary, Item, Member};
use std::time::Duration;

/// The largest number of seconds a directive or `Age` can carry; larger ones read as this (RFC
/// 9111 §1.2.2).
pub const DELTA_SECONDS_MAX: u64 = 1 << 31;

/// The directives of a response.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheControl {
    /// `max-age`; zero where it is not a number.
    pub max_age: Option<Duration>,
    /// `s-maxage`; zero where it is not a number.
    pub s_maxage: Option<Duration>,
    /// `stale-while-revalidate` (RFC 5861 §3); not there where it is not a number.
    pub stale_while_revalidate: Option<Duration>,
    /// `stale-if-error` (RFC 5861 §4); not there where it is not a number.
    pub stale_if_error: Option<Duration>,
    /// `no-store`
    pub no_store: bool,
    /// `no-cache` without field names.
    pub no_cache: bool,
    /// `no-cache="…"`: see [`listed_fields`].
    pub no_cache_fields: bool,
    /// `private` without field names.
    pub private: bool,
    /// `private="…"`: see [`listed_fields`].
    pub private_fields: bool,
    /// `public`
    pub public: bool,
    /// `must-revalidate`
    pub must_revalidate: bool,
    /// `proxy-revalidate`
    pub proxy_revalidate: bool,
    /// `must-understand`
    pub must_understand: bool,
    /// `immutable` (RFC 8246)
    pub immutable: bool,
    /// `no-transform`
    pub no_transform: bool,
}

impl CacheControl {
    /// The directives of all `Cache-Control` lines.
    pub fn from_fields(fields: &Fields) -> Self {
        let mut out = Self::default();
        for directive in directives(fields, "Cache-Control") {
            out.apply(&directive);
        }
        out
    }

    /// Whether a shared cache may store a response although its request had `Authorization` (RFC 9111 §3.5).
    pub const fn permits_authorized(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage.is_some()
    }

    /// The directives of the first targeted field in `names` that is there, parses as a dictionary
    /// and is not empty, with its name (RFC 9213 §2.2). They stand in the place of `Cache-Control`
    /// and `Expires`. A field that does not parse, or has a directive of the wrong type, is passed
    /// over whole. Allocates only where such a field is there.
    pub fn targeted<'n, N: AsRef<str>>(fields: &Fields, names: &'n [N]) -> Option<(Self, &'n str)> {
        names.iter().map(AsRef::as_ref).find_map(|name| {
            let dictionary = Dictionary::parse(&fields.joined(name)?).ok()?;
            if dictionary.is_empty() {
                return None;
            }
            let mut out = Self::default();
            for (key, member) in dictionary.iter() {
                out.apply_structured(key, member)?;
            }
            Some((out, name))
        })
    }

    fn apply(&mut self, directive: &Directive<'_>) {
        let has_argument = directive.argument.is_some_and(|argument| !argument.is_empty());
        let name = directive.name;
        match find(name, &RESPONSE_NAMES) {
            Some(Name::MaxAge) => first(&mut self.max_age, directive.seconds_or_zero()),
            Some(Name::SMaxage) => first(&mut self.s_maxage, directive.seconds_or_zero()),
            Some(Name::StaleWhileRevalidate) => {
                first(&mut self.stale_while_revalidate, directive.seconds());
            }
            Some(Name::StaleIfError) => first(&mut self.stale_if_error, directive.seconds()),
            Some(Name::NoCache) if has_argument => self.no_cache_fields = true,
            Some(Name::Private) if has_argument => self.private_fields = true,
            Some(other) => self.set_flag(other),
            None => {}
        }
    }

    fn set_flag(&mut self, name: Name) {
        match name {
            Name::NoStore => self.no_store = true,
            Name::NoCache => self.no_cache = true,
            Name::Private => self.private = true,
            Name::Public => self.public = true,
            Name::MustRevalidate => self.must_revalidate = true,
            Name::ProxyRevalidate => self.proxy_revalidate = true,
            Name::MustUnderstand => self.must_understand = true,
            Name::Immutable => self.immutable = true,
            Name::NoTransform => self.no_transform = true,
            _ => {}
        }
    }

    /// `None` where the member has a type its directive cannot have.
    fn apply_structured(&mut self, key: &str, member: &Member) -> Option<()> {
        let Some(name) = find(key.as_bytes(), &RESPONSE_NAMES) else { return Some(()) };
        let Member::Item(item) = member else { return None };
        let slot = match name {
            Name::MaxAge => &mut self.max_age,
            Name::SMaxage => &mut self.s_maxage,
            Name::StaleWhileRevalidate => &mut self.stale_while_revalidate,
            Name::StaleIfError => &mut self.stale_if_error,
            _ => {
                match (&item.value, name) {
                    (BareItem::Boolean(true), _) => self.set_flag(name),
                    (BareItem::Boolean(false), _) => {}
                    (BareItem::String(_), Name::NoCache) => self.no_cache_fields = true,
                    (BareItem::String(_), Name::Private) => self.private_fields = true,
                    _ => return None,
                }
                return Some(());
            }
        };
        let BareItem::Integer(seconds) = item.value else { return None };
        let seconds = u64::try_from(seconds).unwrap_or(0).min(DELTA_SECONDS_MAX);
        *slot = Some(Duration::from_secs(seconds));
        Some(())
    }
}

/// The directives of a request. They are advice (RFC 9111 §5.2.1): whether they are followed is a
/// matter of [`crate::freshness::Settings`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RequestCacheControl {
    /// `max-age`; zero where it is not a number.
    pub max_age: Option<Duration>,
    /// `max-stale`; [`Duration::MAX`] where it has no argument.
    pub max_stale: Option<Duration>,
    /// `min-fresh`
    pub min_fresh: Option<Duration>,
    /// `stale-if-error` (RFC 5861 §4)
    pub stale_if_error: Option<Duration>,
    /// `no-cache`, or `Pragma: no-cache` without any `Cache-Control` (RFC 9111 §5.4).
    pub no_cache: bool,
    /// `no-store`
    pub no_store: bool,
    /// `no-transform`
    pub no_transform: bool,
    /// `only-if-cached`
    pub only_if_cached: bool,
}

impl RequestCacheControl {
    /// The directives of all `Cache-Control` lines, or of `Pragma` where there are none.
    pub fn from_fields(fields: &Fields) -> Self {
        let mut out = Self::default();
        if !fields.contains("Cache-Control") {
            out.no_cache = fields.has_token("Pragma", "no-cache");
            return out;
        }
        for directive in directives(fields, "Cache-Control") {
            match find(directive.name, &REQUEST_NAMES) {
                Some(Name::MaxAge) => first(&mut out.max_age, directive.seconds_or_zero()),
                Some(Name::MaxStale) if directive.argument.is_none() => {
                    first(&mut out.max_stale, Some(Duration::MAX));
                }
                Some(Name::MaxStale) => first(&mut out.max_stale, directive.seconds()),
                Some(Name::MinFresh) => first(&mut out.min_fresh, directive.seconds()),
                Some(Name::StaleIfError) => first(&mut out.stale_if_error, directive.seconds()),
                Some(Name::NoCache) => out.no_cache = true,
                Some(Name::NoStore) => out.no_store = true,
                Some(Name::NoTransform) => out.no_transform = true,
                Some(Name::OnlyIfCached) => out.only_if_cached = true,
                _ => {}
            }
        }
        out
    }
}

/// One directive as it stands in a field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Directive<'a> {
    /// The name, in any case.
    pub name: &'a [u8],
    /// What follows `=`: a token as it is, or the inside of a quoted string with its escapes.
    pub argument: Option<&'a [u8]>,
    /// Whether there was space around the `=`, which makes the argument unusable.
    spaced: bool,
}

impl Directive<'_> {
    fn seconds(&self) -> Option<Duration> {
        if self.spaced { None } else { delta_seconds(self.argument?) }
    }

    fn seconds_or_zero(&self) -> Option<Duration> {
        Some(self.seconds().unwrap_or(Duration::ZERO))
    }
}

/// All directives of the lines named `name`, in order.
pub fn directives<'a>(fields: &'a Fields, name: &'a str) -> impl Iterator<Item = Directive<'a>> {
    fields.get_all(name).flat_map(|value| Directives { rest: value })
}

/// The names of fields that are not stored because `no-cache="…"` or, in a shared cache,
/// `private="…"` lists them (RFC 9111 §5.2.2.4, §5.2.2.7). To leave them out of what is reused is
/// the simpler half of what the first allows; the other is to validate. Allocates only where such
/// a directive or a targeted field is there.
pub fn unstored_fields(response: &Fields, settings: &Settings) -> Vec<Vec<u8>> {
    let directives = if settings.shared { &["no-cache", "private"][..] } else { &["no-cache"] };
    let dictionary = settings
        .targeted
        .iter()
        .filter(|name| response.contains(name))
        .find_map(|name| CacheControl::targeted(response, std::slice::from_ref(name)))
        .and_then(|(_, name)| Dictionary::from_fields(response, name).ok());
    let Some(dictionary) = dictionary else {
        let listed = directives.iter().flat_map(|name| listed_fields(response, name));
        return listed.map(<[u8]>::to_vec).collect();
    };
    let values = directives.iter().filter_map(|name| match dictionary.get(name) {
        Some(Member::Item(Item { value: BareItem::String(names), .. })) => Some(names),
        _ => None,
    });
    let names = values.flat_map(|names| names.split(','));
    names.map(|name| name.trim().as_bytes().to_vec()).collect()
}

/// The names of fields that `directive="a, b"` lists in `Cache-Control`.
pub fn listed_fields<'a>(
    fields: &'a Fields,
    directive: &'a str,
) -> impl Iterator<Item = &'a [u8]> + 'a {
    directives(fields, "Cache-Control")
        .filter(move |found| found.name.eq_ignore_ascii_case(directive.as_bytes()))
        .filter_map(|found| found.argument)
        .flat_map(|argument| argument.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|name| !name.is_empty())
}

/// A number of seconds: digits only, at most [`DELTA_SECONDS_MAX`] (RFC 9111 §1.2.2).
pub fn delta_seconds(text: &[u8]) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    let seconds = text.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some((value * 10 + digit).min(DELTA_SECONDS_MAX))
    })?;
    Some(Duration::from_secs(seconds))
}

struct Directives<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Directives<'a> {
    type Item = Directive<'a>;

    fn next(&mut self) -> Option<Directive<'a>> {
        loop {
            let start = self.rest.iter().position(|b| !matches!(b, b',' | b' ' | b'\t'))?;
            self.rest = self.rest.split_at_checked(start)?.1;
            let name = self.take_until(|byte| matches!(byte, b'=' | b',' | b';' | b' ' | b'\t'));
            let before = self.skip_space();
            if self.rest.first() != Some(&b'=') {
                // What stands between a name and the next comma belongs to nothing known; some
                // origins write `no-store; max-age=0`, and mean at least the first.
                self.take_until(|byte| byte == b',');
                if name.is_empty() {
                    continue;
                }
                return Some(Directive { name, argument: None, spaced: false });
            }
            self.rest = self.rest.split_at_checked(1)?.1;
            let after = self.skip_space();
            let argument = self.argument();
            if name.is_empty() {
                continue;
            }
            return Some(Directive { name, argument: Some(argument), spaced: before || after });
        }
    }
}

impl<'a> Directives<'a> {
    fn take_until(&mut self, end: impl Fn(u8) -> bool) -> &'a [u8] {
        let len = self.rest.iter().position(|byte| end(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn skip_space(&mut self) -> bool {
        !self.take_until(|byte| !matches!(byte, b' ' | b'\t')).is_empty()
    }

    /// A token up to the next comma, or the inside of a quoted string. A string that does not end
    /// takes the rest of the line, so that nothing inside it is taken for a directive.
    fn argument(&mut self) -> &'a [u8] {
        let Some((b'"', inside)) = self.rest.split_first() else {
            return self.take_until(|byte| byte == b',').trim_ascii_end();
        };
        let mut escaped = false;
        let end = inside.iter().position(|byte| {
            let ends = *byte == b'"' && !escaped;
            escaped = *byte == b'\\' && !escaped;
            ends
        });
        let end = end.unwrap_or(inside.len());
        let (argument, rest) = inside.split_at(end);
        self.rest = rest.split_first().map_or(rest, |(_, rest)| rest);
        // `"3600"5` is no number: text after the closing quote spoils the argument.
        let tail = self.take_until(|byte| byte == b',');
        if tail.trim_ascii().is_empty() { argument } else { b"?" }
    }
}

#[derive(Clone, Copy)]
enum Name {
    Immutable,
    MaxAge,
    MaxStale,
    MinFresh,
    MustRevalidate,
    MustUnderstand,
    NoCache,
    NoStore,
    NoTransform,
    OnlyIfCached,
    Private,
    ProxyRevalidate,
    Public,
    SMaxage,
    StaleIfError,
    StaleWhileRevalidate,
}

const RESPONSE_NAMES: [(&[u8], Name); 13] = [
    (b"max-age", Name::MaxAge),
    (b"s-maxage", Name::SMaxage),
    (b"public", Name::Public),
    (b"stale-while-revalidate", Name::StaleWhileRevalidate),
    (b"stale-if-error", Name::StaleIfError),
    (b"no-cache", Name::NoCache),
    (b"no-store", Name::NoStore),
    (b"private", Name::Private),
    (b"must-revalidate", Name::MustRevalidate),
    (b"immutable", Name::Immutable),
    (b"proxy-revalidate", Name::ProxyRevalidate),
    (b"must-understand", Name::MustUnderstand),
    (b"no-transform", Name::NoTransform),
];

const REQUEST_NAMES: [(&[u8], Name); 8] = [
    (b"no-cache", Name::NoCache),
    (b"max-age", Name::MaxAge),
    (b"no-store", Name::NoStore),
    (b"max-stale", Name::MaxStale),
    (b"min-fresh", Name::MinFresh),
    (b"no-transform", Name::NoTransform),
    (b"only-if-cached", Name::OnlyIfCached),
    (b"stale-if-error", Name::StaleIfError),
];

fn find(name: &[u8], names: &[(&[u8], Name)]) -> Option<Name> {
    names.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, found)| *found)
}

fn first(slot: &mut Option<Duration>, value: Option<Duration>) {
    *slot = slot.or(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(lines: &[&str]) -> CacheControl {
        CacheControl::from_fields(&lines.iter().map(|line| ("cache-control", line)).collect())
    }

    fn seconds(value: u64) -> Option<Duration> {
        Some(Duration::from_secs(value))
    }

    #[test]
    fn names_have_no_case_and_lines_are_one_list() {
        let read = response(&["MaX-AgE=60,, NO-cache", "S-MAXAGE=0005 , x=1"]);
        assert_eq!((read.max_age, read.s_maxage), (seconds(60), seconds(5)));
        assert!(read.no_cache && !read.no_store);
        assert!(response(&["no-store; max-age=5"]).no_store);
    }

    #[test]
    fn a_lifetime_that_is_no_number_is_zero() {
        for text in [
            "max-age=-5",
            "max-age=5.0",
            "max-age='5'",
            "max-age=5a",
            "max-age=a5",
            "max-age=",
            "max-age",
            "max-age =5",
            "max-age= 5",
            "max-age=5;x=1",
            "max-age=\"5\"5",
            "max-age=5 6",
            "max-age=\"\\5\"",
        ] {
            assert_eq!(response(&[text]).max_age, seconds(0), "{text}");
        }
        assert_eq!(response(&["stale-if-error=x"]).stale_if_error, None);
    }

    #[test]
    fn quoted_arguments_are_read_and_hide_what_is_in_them() {
        assert_eq!(response(&["max-age=\"60\""]).max_age, seconds(60));
        let read = response(&["a=\"max-age=9, \\\" no-store\", max-age=1"]);
        assert_eq!((read.max_age, read.no_store), (seconds(1), false));
        assert_eq!(response(&["a=\"max-age=9, no-store"]), CacheControl::default());
    }

    #[test]
    fn the_first_of_a_repeated_directive_counts() {
        assert_eq!(response(&["max-age=9, max-age=1"]).max_age, seconds(9));
        assert_eq!(response(&["max-age=1", "max-age=9"]).max_age, seconds(1));
    }

    #[test]
    fn large_numbers_saturate() {
        assert_eq!(response(&["max-age=99999999999"]).max_age, seconds(DELTA_SECONDS_MAX));
        let digits = format!("max-age={}", "9".repeat(500));
        assert_eq!(response(&[&digits]).max_age, seconds(DELTA_SECONDS_MAX));
    }

    #[test]
    fn directives_with_field_names_are_told_from_those_without() {
        let fields: Fields = [("Cache-Control", "no-cache=\"a, B\", private=c, no-cache=\"d\"")]
            .into_iter()
            .collect();
        let read = CacheControl::from_fields(&fields);
        assert!(read.no_cache_fields && read.private_fields && !read.no_cache && !read.private);
        let names: Vec<_> = listed_fields(&fields, "no-cache").collect();
        assert_eq!(names, [&b"a"[..], b"B", b"d"]);
    }

    #[test]
    fn a_targeted_field_is_a_dictionary_or_nothing() {
        let targeted = |value: &str| {
            let fields: Fields = [("CDN-Cache-Control", value)].into_iter().collect();
            CacheControl::targeted(&fields, &["CDN-Cache-Control"]).map(|(read, _)| read)
        };
        let read = targeted("max-age=99999999999, foo=(1 2);x, must-revalidate").unwrap();
        assert_eq!(read.max_age, seconds(DELTA_SECONDS_MAX));
        assert!(read.must_revalidate);
        assert_eq!(targeted("max-age=1, max-age=7").unwrap().max_age, seconds(7));
        assert_eq!(targeted("max-age=-7").unwrap().max_age, seconds(0));
        assert!(!targeted("no-store=?0").unwrap().no_store);
        assert!(targeted("private=\"x\"").unwrap().private_fields);
        for text in [
            "",
            "max-age=\"7\"",
            "max-age",
            "max-age =7",
            "Max-Age=7",
            "max-age=7, &&",
            "no-store=1",
        ] {
            assert_eq!(targeted(text), None, "{text}");
        }
    }

    #[test]
    fn the_first_usable_targeted_field_counts() {
        let fields: Fields =
            [("A-Cache-Control", "&"), ("B-Cache-Control", "max-age=2"), ("C-Cache-Control", "x")]
                .into_iter()
                .collect();
        let names = ["C2-Cache-Control", "A-Cache-Control", "B-Cache-Control", "C-Cache-Control"];
        let (read, name) = CacheControl::targeted(&fields, &names).unwrap();
        assert_eq!((read.max_age, name), (seconds(2), "B-Cache-Control"));
    }

    #[test]
    fn request_directives_and_pragma() {
        let read = |name: &str, value: &str| {
            RequestCacheControl::from_fields(&[(name, value)].into_iter().collect())
        };
        let all = read("cache-control", "no-store, max-stale, min-fresh=3, only-if-cached");
        assert!(all.no_store && all.only_if_cached && !all.no_cache);
        assert_eq!((all.max_stale, all.min_fresh), (Some(Duration::MAX), seconds(3)));
        assert!(read("Pragma", "no-cache").no_cache);
        let both: Fields =
            [("Pragma", "no-cache"), ("Cache-Control", "max-age=5")].into_iter().collect();
        assert!(!RequestCacheControl::from_fields(&both).no_cache);
    }
}
