//! How a claim describes a text: a map from kinds of match to what is matched.

use super::cose::label;
use crate::denied::Denied;
use crate::keys::is_digest;
use crate::limits::ENTRIES_MAX;
use aws_lc_rs::digest::{SHA256, SHA512_256};
use ciborium::Value;

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
}

impl Matches {
    /// Reads a map. A regular expression is not supported: who writes one means one engine's.
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
            let text = match value {
                Value::Text(text) => text.as_bytes().to_vec(),
                Value::Bytes(bytes) => bytes.clone(),
                Value::Array(_) => return Err(Denied::Claim),
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
            Match::Sha256(wanted) => is_digest(&SHA256, text, wanted),
            Match::Sha512(wanted) => is_digest(&SHA512_256, text, wanted),
        })
    }
}
