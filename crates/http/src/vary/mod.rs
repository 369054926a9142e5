//! Which stored variant a request selects (RFC 9111 §4.1).
//!
//! A response with `Vary` leaves a [`VaryRule`]: the names of the selecting fields. The rule turns
//! a request into a [`VaryKey`]; the stored response fits a request where both keys are equal.
//! Values are brought to one form first, so that requests that mean the same have the same key: lines
//! are combined, and for `Accept-Language` and `Accept-Encoding` case, white space, empty members and the
//! spelling of weights do not count, nor does the order of codings and of languages with other weights.
//! What other fields mean is not known here, so nothing in them is left out.

mod normalise;

use crate::coding::Coding;
use crate::fields::{Fields, is_token_byte};
use std::borrow::Borrow;
use std::fmt;

/// A response that varies by more fields than this is treated as varying by everything: no honest
/// one does, and each costs time in each look-up.
pub const VARY_FIELDS_MAX: usize = 32;

/// What `Vary` says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Vary {
    /// Nothing: the response fits every request.
    None,
    /// `*`: the response fits no other request.
    Any,
    /// The response fits requests with an equal key.
    On(VaryRule),
}

impl Vary {
    /// Whether some line of `Vary` has a member `*` or one that names no field, or there are too
    /// many members.
    pub fn is_any(response: &Fields) -> bool {
        let names_none =
            |name: &[u8]| name == b"*" || !name.iter().all(|byte| is_token_byte(*byte));
        response
            .tokens("Vary")
            .enumerate()
            .any(|(at, name)| names_none(name) || at >= VARY_FIELDS_MAX)
    }
}

/// The selecting fields of a response. Rules with the same fields are equal, whatever their order.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct VaryRule {
    /// Lower case, sorted, each once.
    names: Box<[Box<[u8]>]>,
    /// The language the response is in, lower case, where it was chosen by `Accept-Language`.
    language: Option<Box<[u8]>>,
    /// Whether the coding that a request names first selects, of those that are kept apart.
    by_coding: bool,
}

/// The values of the selecting fields in a request, in one form. Compares and hashes as bytes.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct VaryKey(Box<[u8]>);

impl VaryRule {
    /// What the fields of a response say it varies by. Where it varies by `Accept-Language` and
    /// has one `Content-Language`, a request that likes that language best selects it, whatever
    /// other languages it names (RFC 9111 §4.1 allows to select by what a field means).
    pub fn from_fields(response: &Fields) -> Vary {
        Self::of(response, None, false)
    }

    /// The same without `Accept-Encoding`: for a cache that gives every client the coding it
    /// takes, whichever was stored.
    pub fn from_fields_but_encoding(response: &Fields) -> Vary {
        Self::of(response, Some(b"accept-encoding"), false)
    }

    /// The same for a cache that keeps a response in several codings and has every request name
    /// first in `Accept-Encoding` the one it is to get. gzip and none are one: gzip is taken off on
    /// the way to a client.
    pub fn from_fields_by_coding(response: &Fields) -> Vary {
        Self::of(response, Some(b"accept-encoding"), true)
    }

    fn of(response: &Fields, ignored: Option<&[u8]>, by_coding: bool) -> Vary {
        if Vary::is_any(response) {
            return Vary::Any;
        }
        let mut names: Vec<Box<[u8]>> = response
            .tokens("Vary")
            .map(<[u8]>::to_ascii_lowercase)
            .filter(|name| Some(name.as_slice()) != ignored)
            .map(Into::into)
            .collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() && !by_coding {
            return Vary::None;
        }
        let by_language = names.iter().any(|name| **name == *b"accept-language");
        let mut languages = response.tokens("Content-Language").filter(|_| by_language);
        let language = match (languages.next(), languages.next()) {
            (Some(only), None) => Some(only.to_ascii_lowercase().into()),
            _ => None,
        };
        Vary::On(Self { names: names.into(), language, by_coding })
    }

    /// The key of a request. Allocates once or twice; [`VaryRule::write_key`] can do without.
    pub fn key(&self, request: &Fields) -> VaryKey {
        let mut out = Vec::new();
        self.write_key(request, &mut out);
        VaryKey(out.into())
    }

    /// Appends the bytes of [`VaryRule::key`] to `out`, for look-ups with a buffer that is kept.
    pub fn write_key(&self, request: &Fields, out: &mut Vec<u8>) {
        for name in &self.names {
            if !request.contains(name) {
                out.push(ABSENT);
                continue;
            }
            let start = out.len();
            out.extend_from_slice(&[PRESENT, 0, 0, 0, 0]);
            match &**name {
                b"accept-language" => {
                    normalise::languages(request, self.language.as_deref(), out);
                }
                b"accept-encoding" => normalise::codings(request, out),
                name => normalise::joined(request.get_all(name), out),
            }
            // The length makes keys unambiguous whatever bytes the values have.
            let len = u32::try_from(out.len() - start - 5).unwrap_or(u32::MAX);
            if let Some(place) = out.get_mut(start + 1..start + 5) {
                place.copy_from_slice(&len.to_be_bytes());
            }
        }
        if self.by_coding {
            out.push(apart(request));
        }
    }

    /// Names of the selecting fields, lower case: sorted, but for `Accept-Encoding` where it is a
    /// coding that selects.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        let coding = self.by_coding.then_some(&b"accept-encoding"[..]);
        self.names.iter().map(|name| &**name).chain(coding)
    }

    /// Whether keys of this rule differ in the coding they name, and in nothing else.
    pub fn differs_in_coding_only(&self, one: &VaryKey, other: &VaryKey) -> bool {
        match (one.0.split_last(), other.0.split_last()) {
            (Some((coding, rest)), Some((other_coding, other_rest))) => {
                self.by_coding && coding != other_coding && rest == other_rest
            }
            _ => false,
        }
    }

    /// Bytes of heap this rule holds.
    pub fn heap_bytes(&self) -> usize {
        let names = self.names.iter().map(|name| name.len() + size_of::<Box<[u8]>>());
        names.sum::<usize>() + self.language.as_ref().map_or(0, |language| language.len())
    }
}

/// Which of the codings that are kept apart a request names first.
fn apart(request: &Fields) -> u8 {
    match Coding::first(request) {
        Coding::Gzip => 0,
        Coding::Brotli => 1,
        Coding::Zstd => 2,
    }
}

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;

impl VaryKey {
    /// A key from its bytes, as another process with the same code wrote them.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for VaryKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for VaryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VaryKey({})", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&str, &str)]) -> Fields {
        lines.iter().copied().collect()
    }

    fn rule(lines: &[(&str, &str)]) -> VaryRule {
        match VaryRule::from_fields(&fields(lines)) {
            Vary::On(rule) => rule,
            other => panic!("a rule, not {other:?}"),
        }
    }

    fn same(rule: &VaryRule, one: &[(&str, &str)], other: &[(&str, &str)]) -> bool {
        rule.key(&fields(one)) == rule.key(&fields(other))
    }

    #[test]
    fn a_star_anywhere_is_any_and_nothing_is_none() {
        for lines in [
            &["*"][..],
            &["*, *"],
            &["*", "*"],
            &[", *"],
            &["", "*"],
            &["*, Foo"],
            &["Foo, *"],
            &["Foo", "Bar,*"],
            &[": Foo"],
        ] {
            let response: Fields = lines.iter().map(|line| ("vary", line)).collect();
            assert_eq!(VaryRule::from_fields(&response), Vary::Any, "{lines:?}");
        }
        assert_eq!(VaryRule::from_fields(&fields(&[("Vary", " , ")])), Vary::None);
    }

    #[test]
    fn a_cache_that_codes_itself_does_not_vary_by_encoding() {
        let of = |value| VaryRule::from_fields_but_encoding(&fields(&[("Vary", value)]));
        assert_eq!(of("accept-ENCODING"), Vary::None);
        assert_eq!(of("Accept-Encoding, X"), VaryRule::from_fields(&fields(&[("Vary", "x")])));
        assert_eq!(VaryRule::from_fields(&fields(&[])), Vary::None);
        let many = "a,".repeat(VARY_FIELDS_MAX + 1);
        assert_eq!(VaryRule::from_fields(&fields(&[("Vary", &many)])), Vary::Any);
    }

    #[test]
    fn a_coding_that_is_kept_apart_is_selected_by_the_first_that_is_named() {
        let of = |value| match VaryRule::from_fields_by_coding(&fields(&[("Vary", value)])) {
            Vary::On(rule) => rule,
            other => panic!("a rule, not {other:?}"),
        };
        let by_both = of("Accept-Encoding, X");
        let key = |coding, x| by_both.key(&fields(&[("Accept-Encoding", coding), ("X", x)]));
        assert_eq!(key("br, gzip", "1"), key("br", "1"));
        assert_eq!(key("gzip", "1"), key("identity", "1"));
        assert_ne!(key("zstd", "1"), key("br", "1"));
        assert_ne!(key("br", "1"), key("br", "2"));
        let only = |one, other| by_both.differs_in_coding_only(&one, &other);
        assert!(only(key("br", "1"), key("zstd", "1")) && !only(key("br", "1"), key("zstd", "2")));
        assert_eq!(of("").names().collect::<Vec<_>>(), [b"accept-encoding"]);
    }

    #[test]
    fn rules_do_not_depend_on_order_case_or_lines() {
        let one = rule(&[("Vary", "Foo, bar"), ("Vary", "foo")]);
        assert_eq!(one, rule(&[("vary", "BAR,foo")]));
        assert_eq!(one.names().collect::<Vec<_>>(), [&b"bar"[..], b"foo"]);
    }

    #[test]
    fn every_selecting_field_must_match_and_absence_is_a_value() {
        let rule = rule(&[("Vary", "Foo, Bar")]);
        let stored = [("Foo", "1"), ("Bar", "abc")];
        assert!(same(&rule, &stored, &[("bar", "abc"), ("other", "x"), ("foo", "1")]));
        assert!(!same(&rule, &stored, &[("Foo", "2"), ("Bar", "abc")]));
        assert!(!same(&rule, &stored, &[("Foo", "1"), ("Bar", "abcde")]));
        assert!(!same(&rule, &stored, &[("Foo", "1")]));
        assert!(!same(&rule, &[], &[("Foo", "")]));
        assert!(same(&rule, &[("Foo", "1")], &[("Foo", "1")]));
        assert!(!same(&rule, &[("Foo", "1\u{1}2")], &[("Foo", "1"), ("Bar", "2")]));
    }

    #[test]
    fn lines_are_combined_and_all_in_them_counts() {
        let rule = rule(&[("Vary", "Foo")]);
        assert!(same(&rule, &[("Foo", "1, 2")], &[("Foo", "1"), ("foo", "2")]));
        assert!(!same(&rule, &[("Foo", "1,2")], &[("Foo", "1, 2")]));
        assert!(!same(&rule, &[("Foo", "https://a")], &[("Foo", ",https://a")]));
        assert!(!same(&rule, &[("Foo", "a")], &[("Foo", "a,")]));
        assert!(!same(&rule, &[("Foo", "")], &[("Foo", ",")]));
        assert!(!same(&rule, &[("Foo", "1, 2")], &[("Foo", "2, 1")]));
        assert!(!same(&rule, &[("Foo", "a b")], &[("Foo", "a  b")]));
        assert!(!same(&rule, &[("Foo", "\"1, 2\"")], &[("Foo", "\"1,2\"")]));
        assert!(!same(&rule, &[("Foo", "a")], &[("Foo", "A")]));
    }

    #[test]
    fn languages_and_codings_have_no_case_or_spelling() {
        for name in ["Accept-Language", "Accept-Encoding"] {
            let rule = rule(&[("Vary", name)]);
            let stored = [(name, "en, de;q=0.5")];
            assert!(same(&rule, &stored, &[(name, "DE;q=0.50 ,, eN;Q=1")]));
            assert!(same(&rule, &stored, &[(name, "de; q=0.500"), (name, " en")]));
            assert!(!same(&rule, &stored, &[(name, "en, de")]));
            assert!(!same(&rule, &stored, &[(name, "en")]));
            assert!(!same(&rule, &stored, &[]));
            // What cannot be understood stays as it is.
            assert!(!same(&rule, &[(name, "en;q=x, de")], &[(name, "en;q=x,de")]));
            assert!(same(&rule, &[(name, "en;q=x, de")], &[(name, "en;q=x"), (name, "de")]));
        }
    }

    #[test]
    fn the_order_of_codings_does_not_count_and_that_of_languages_does() {
        for (name, is_same) in [("Accept-Encoding", true), ("Accept-Language", false)] {
            let rule = rule(&[("Vary", name)]);
            assert_eq!(same(&rule, &[(name, "en, de")], &[(name, "de, en")]), is_same, "{name}");
            let (one, other) = ("fr;q=0.5, en, de;q=0.7, it", "en, it, de;q=0.7, fr;q=0.5");
            assert!(same(&rule, &[(name, one)], &[(name, other)]));
        }
    }

    #[test]
    fn more_members_than_are_sorted_still_make_a_key() {
        let rule = rule(&[("Vary", "Accept-Encoding")]);
        let many = (0..40).map(|n| format!("c{n}")).collect::<Vec<_>>().join(", ");
        assert!(same(&rule, &[("Accept-Encoding", &many)], &[("Accept-Encoding", &many)]));
        assert!(!same(&rule, &[("Accept-Encoding", &many)], &[("Accept-Encoding", "c1")]));
    }

    #[test]
    fn a_language_that_is_liked_best_selects_the_response_in_it() {
        let rule = rule(&[("Vary", "Accept-Language"), ("Content-Language", "de")]);
        let stored = [("Accept-Language", "de, en")];
        assert!(same(&rule, &stored, &[("Accept-Language", "fr;q=0.5, de;q=1.0")]));
        assert!(same(&rule, &stored, &[("Accept-Language", "fr;q=0.5, de, fr")]));
        // Whoever ranks by order would have had the other page.
        assert!(!same(&rule, &stored, &[("Accept-Language", "en, de")]));
        assert!(same(&rule, &stored, &[("Accept-Language", "DE")]));
        assert!(!same(&rule, &stored, &[("Accept-Language", "en")]));
        assert!(!same(&rule, &stored, &[("Accept-Language", "fr, de;q=0.9")]));
        assert!(!same(&rule, &stored, &[("Accept-Language", "de;q=0")]));
        assert!(!same(&rule, &stored, &[]));
    }

    #[test]
    fn a_response_in_a_language_nobody_asked_for_fits_only_equal_requests() {
        let rule = rule(&[("Vary", "Accept-Language"), ("Content-Language", "de")]);
        let stored = [("Accept-Language", "fr, en;q=0.1")];
        assert!(same(&rule, &stored, &[("Accept-Language", "en;q=0.1,fr")]));
        assert!(!same(&rule, &stored, &[("Accept-Language", "de")]));
        assert!(!same(&rule, &stored, &[("Accept-Language", "fr")]));
    }
}
