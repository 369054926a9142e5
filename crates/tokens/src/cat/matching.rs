//! How a claim describes a text: a map from kinds of match to what is matched.

use super::cose::label;
use crate::denied::Denied;
use crate::keys::is_digest;
use crate::limits::{ENTRIES_MAX, EXPRESSION_BYTES_MAX};
use aws_lc_rs::digest::{SHA256, SHA512_256};
use ciborium::Value;
use regex::bytes::{Regex, RegexBuilder};

/// A text has to be as all of these say.
#[derive(Debug)]
pub(super) struct Matches(Vec<Match>);

#[derive(Debug)]
enum Match {
    Exact(Vec<u8>),
    Prefix(Vec<u8>),
    Suffix(Vec<u8>),
    Contains(Vec<u8>),
    Sha256(Vec<u8>),
    Sha512(Vec<u8>),
    Expression(Regex, Vec<Option<String>>),
}

const EXPRESSION: i128 = 4;

/// A regular expression, alone or in a list before what its groups have to match, of which those that
/// are null may match anything. They are what POSIX's extended ones and ECMAScript's have in common, and what they match
/// they match in time in proportion to the text. What the engine here would read otherwise than both is refused.
fn expression(value: &Value) -> Result<Match, Denied> {
    let (pattern, groups) = match value {
        Value::Text(pattern) => (pattern, &[][..]),
        Value::Array(all) => match all.split_first() {
            Some((Value::Text(pattern), groups)) if groups.len() <= ENTRIES_MAX => {
                (pattern, groups)
            }
            _ => return Err(Denied::Malformed),
        },
        _ => return Err(Denied::Malformed),
    };
    if !has_plain_sets(pattern) {
        return Err(Denied::Claim);
    }
    let expression =
        RegexBuilder::new(pattern).unicode(false).size_limit(EXPRESSION_BYTES_MAX).build();
    let groups = groups.iter().map(|group| match group {
        Value::Null => Ok(None),
        Value::Text(text) => Ok(Some(text.clone())),
        _ => Err(Denied::Claim),
    });
    let expression = expression.map_err(|_| Denied::Claim)?;
    Ok(Match::Expression(expression, groups.collect::<Result<_, _>>()?))
}

/// Whether no set in brackets has sets in it, but for classes by name, or two sets joined by an operator: to others
/// these are collating elements, or nothing but characters.
fn has_plain_sets(pattern: &str) -> bool {
    let mut bytes = pattern.bytes().peekable();
    let mut is_in_set = false;
    while let Some(byte) = bytes.next() {
        let next = bytes.peek().copied();
        match (is_in_set, byte) {
            (_, b'\\') => {
                bytes.next();
            }
            (false, b'[') => {
                is_in_set = true;
                bytes.next_if_eq(&b'^');
                bytes.next_if_eq(&b']');
            }
            (true, b'[') if next == Some(b':') => {
                while bytes.next().is_some_and(|byte| byte != b']') {}
            }
            (true, b'[') => return false,
            (true, b'&' | b'-' | b'~') if next == Some(byte) => return false,
            (true, b']') => is_in_set = false,
            _ => {}
        }
    }
    true
}

impl Matches {
    /// Reads a map.
    pub(super) fn read(value: &Value) -> Result<Self, Denied> {
        let Value::Map(map) = value else { return Err(Denied::Malformed) };
        if map.is_empty() || map.len() > ENTRIES_MAX {
            return Err(Denied::Malformed);
        }
        let mut all = Vec::with_capacity(map.len());
        for (kind, value) in map {
            let Value::Integer(kind) = kind else { return Err(Denied::Claim) };
            let kind = i128::from(*kind);
            label(map, kind)?;
            if kind == EXPRESSION {
                all.push(expression(value)?);
                continue;
            }
            let text = match value {
                Value::Text(text) => text.as_bytes().to_vec(),
                Value::Bytes(bytes) => bytes.clone(),
                _ => return Err(Denied::Malformed),
            };
            all.push(match kind {
                0 => Match::Exact(text),
                1 => Match::Prefix(text),
                2 => Match::Suffix(text),
                3 => Match::Contains(text),
                -1 => Match::Sha256(text),
                -2 => Match::Sha512(text),
                _ => return Err(Denied::Claim),
            });
        }
        Ok(Self(all))
    }

    pub(super) fn is_met(&self, text: &[u8]) -> bool {
        self.0.iter().all(|one| match one {
            Match::Exact(wanted) => text == wanted.as_slice(),
            Match::Prefix(wanted) => text.starts_with(wanted),
            Match::Suffix(wanted) => text.ends_with(wanted),
            Match::Contains(wanted) => {
                wanted.is_empty() || text.windows(wanted.len()).any(|window| window == wanted)
            }
            Match::Expression(expression, groups) if groups.is_empty() => expression.is_match(text),
            Match::Expression(expression, groups) => {
                expression.captures(text).is_some_and(|found| {
                    (1..).zip(groups).all(|(at, wanted)| {
                        let has = || found.get(at).map(|group| group.as_bytes());
                        wanted.as_ref().is_none_or(|wanted| has() == Some(wanted.as_bytes()))
                    })
                })
            }
            Match::Sha256(wanted) => is_digest(&SHA256, text, wanted),
            Match::Sha512(wanted) => is_digest(&SHA512_256, text, wanted),
        })
    }
}
