//! What is in the log.

use crate::freshness::Nonce;
use crate::limits::{CHANGES_MAX, ENTRY_BYTES_MAX, TEXT_BYTES_MAX};
use crate::signature::{SIGNED_BYTES, SignatureError};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use thiserror::Error;

/// A digest of an entry and all before it. It finds accidents; it is no signature
/// ([`Signers`](crate::signature::Signers)).
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Digest(pub u64);

/// A place in the log: behind the entry of this number, 0 before the first.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Place {
    /// Number of the entry, from 1.
    pub sequence: u64,
    /// Its digest.
    pub digest: Digest,
}

/// An entry of the log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry<C> {
    /// Its number and digest.
    pub place: Place,
    /// The digest of the entry before it, as its author knew it; `None` where nobody believes the author.
    pub before: Option<Digest>,
    /// What it changes.
    pub changes: C,
}

/// Which sites a change is for.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Scope {
    /// The site of this name; where there is none, the only one, or all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
}

/// One thing an entry has nodes do. It names what is meant as people do: each node makes its own keys.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Change {
    /// Purges a URL with all its variants.
    Purge {
        /// As clients ask for it.
        url: String,
        /// Whether it is kept as stale.
        #[serde(default)]
        soft: bool,
    },
    /// Purges all that has a tag.
    PurgeTag {
        /// A tag of `Surrogate-Key` or `Cache-Tag`.
        tag: String,
        /// Whether it is kept as stale.
        #[serde(default)]
        soft: bool,
        /// Whose.
        #[serde(flatten)]
        scope: Scope,
    },
    /// Purges everything.
    PurgeAll {
        /// Whether it is kept as stale.
        #[serde(default)]
        soft: bool,
        /// Whose.
        #[serde(flatten)]
        scope: Scope,
    },
    /// Bans what a text says, as policies write it.
    Ban {
        /// The ban.
        text: String,
    },
    /// Something this version does not know: whoever meets it trusts nothing stored before.
    #[serde(other)]
    Unknown,
}

/// Why bytes are no entry, or changes cannot be one.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum EntryError {
    /// It is longer than [`ENTRY_BYTES_MAX`].
    #[error("an entry of {0} bytes; the most are {ENTRY_BYTES_MAX}")]
    TooLong(usize),
    /// It has more than [`CHANGES_MAX`] changes, or none.
    #[error("an entry of {0} changes; 1 to {CHANGES_MAX} are taken")]
    Changes(usize),
    /// A URL, tag or ban is empty or longer than [`TEXT_BYTES_MAX`].
    #[error("a URL, tag or ban of {0} bytes; 1 to {TEXT_BYTES_MAX} are taken")]
    Text(usize),
    /// It is not JSON of an entry.
    #[error("no entry: {0}")]
    Malformed(String),
    /// Whoever has published it is not believed.
    #[error(transparent)]
    Signature(#[from] SignatureError),
}

/// As the log keeps it.
#[derive(Deserialize, Serialize)]
struct Written {
    before: Digest,
    /// Makes the digest one that no entry had before: the same changes at the same place of a log that has lost its end
    /// are another entry, and who names the digest has heard of this one.
    #[serde(default)]
    nonce: Nonce,
    changes: Vec<Change>,
}

/// Writes changes as an entry behind `before`, which has other bytes each time.
///
/// # Errors
/// There are too many of them, they are too long, or the system gives no random bytes.
pub fn encode(before: Digest, changes: &[Change]) -> Result<Vec<u8>, EntryError> {
    check(changes)?;
    let written = Written { before, nonce: Nonce::random()?, changes: changes.to_vec() };
    let bytes =
        serde_json::to_vec(&written).map_err(|error| EntryError::Malformed(error.to_string()))?;
    if bytes.len() > ENTRY_BYTES_MAX { Err(EntryError::TooLong(bytes.len())) } else { Ok(bytes) }
}

/// Reads the entry of this number, of which `believe` says what is said in it.
///
/// What cannot be read is an entry all the same, of one [`Change::Unknown`], with what is wrong with
/// it: if it stopped the log, all behind it would be lost too. What is not believed is one of no change:
/// the log has it, and nobody carries it out.
pub fn decode<'a>(
    sequence: u64,
    bytes: &'a [u8],
    believe: impl FnOnce(&'a [u8]) -> Result<&'a [u8], SignatureError>,
) -> (Entry<Vec<Change>>, Option<EntryError>) {
    let place = place(sequence, bytes);
    let nobody = Some(Digest::default());
    let read = || {
        if bytes.len() > ENTRY_BYTES_MAX + SIGNED_BYTES {
            return Err((nobody, vec![Change::Unknown], EntryError::TooLong(bytes.len())));
        }
        let said = believe(bytes).map_err(|error| (None, Vec::new(), error.into()))?;
        let written: Written = serde_json::from_slice(said).map_err(|error| {
            (nobody, vec![Change::Unknown], EntryError::Malformed(error.to_string()))
        })?;
        check(&written.changes)
            .map_err(|error| (Some(written.before), vec![Change::Unknown], error))?;
        Ok(written)
    };
    match read() {
        Ok(Written { before, changes, .. }) => {
            (Entry { place, before: Some(before), changes }, None)
        }
        Err((before, changes, error)) => (Entry { place, before, changes }, Some(error)),
    }
}

/// The place behind the entry of this number and these bytes, whoever has published it.
pub fn place(sequence: u64, bytes: &[u8]) -> Place {
    Place { sequence, digest: digest(sequence, bytes) }
}

/// The digest of an entry: of its number and its bytes, which have that of the one before it.
fn digest(sequence: u64, bytes: &[u8]) -> Digest {
    let mut hasher = SipHasher13::new_with_keys(0x6672_6573_6865_7421, 0x666c_6565_7400_0001);
    hasher.write_u64(sequence);
    hasher.write(bytes);
    // 0 stands for the beginning of the log.
    Digest(hasher.finish().max(1))
}

fn check(changes: &[Change]) -> Result<(), EntryError> {
    if changes.is_empty() || changes.len() > CHANGES_MAX {
        return Err(EntryError::Changes(changes.len()));
    }
    let texts = changes.iter().filter_map(|change| match change {
        Change::Purge { url, .. } => Some(url),
        Change::PurgeTag { tag, .. } => Some(tag),
        Change::Ban { text } => Some(text),
        Change::PurgeAll { .. } | Change::Unknown => None,
    });
    match texts.map(String::len).find(|len| !(1..=TEXT_BYTES_MAX).contains(len)) {
        Some(len) => Err(EntryError::Text(len)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn changes() -> Vec<Change> {
        let scope = Scope { site: Some("tv".into()) };
        vec![
            Change::Purge { url: "http://tv.example/a".into(), soft: false },
            Change::PurgeTag { tag: "news".into(), soft: true, scope: scope.clone() },
            Change::PurgeAll { soft: false, scope },
            Change::Ban { text: "req.url ~ ^/a".into() },
        ]
    }

    #[test]
    fn what_is_written_is_read_and_names_what_was_before_it() {
        let bytes = encode(Digest(7), &changes()).unwrap();
        let (entry, wrong) = decode(3, &bytes, Ok);
        assert_eq!((&entry.changes, entry.before, wrong), (&changes(), Some(Digest(7)), None));
        // The same changes elsewhere in a log are another entry.
        assert_ne!(place(4, &bytes).digest, entry.place.digest);
        let other = encode(Digest(8), &changes()).unwrap();
        assert_ne!(place(3, &other).digest, entry.place.digest);
    }

    #[test]
    fn the_same_again_at_the_same_place_is_another_entry() {
        let again = || place(3, &encode(Digest(7), &changes()).unwrap());
        assert_ne!(again(), again());
        // As entries were before they had one.
        let before = br#"{"before":7,"changes":[{"kind":"ban","text":"t"}]}"#;
        assert_eq!(decode(3, before, Ok).1, None);
    }

    #[test]
    fn what_is_not_believed_has_its_place_and_changes_nothing() {
        let bytes = encode(Digest(7), &changes()).unwrap();
        let (entry, wrong) = decode(3, &bytes, |_| Err(SignatureError::PeerUnsigned));
        assert_eq!(wrong, Some(EntryError::Signature(SignatureError::PeerUnsigned)));
        assert_eq!((entry.changes, entry.before), (Vec::new(), None));
        assert_eq!(entry.place, place(3, &bytes));
    }

    #[test]
    fn a_change_of_a_later_version_is_unknown_and_no_mistake() {
        let bytes =
            br#"{"before":5,"changes":[{"kind":"drain","node":"x"},{"kind":"ban","text":"t"}]}"#;
        let (entry, wrong) = decode(1, bytes, Ok);
        assert_eq!((entry.before, wrong), (Some(Digest(5)), None));
        assert_eq!(entry.changes, [Change::Unknown, Change::Ban { text: "t".into() }]);
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_and_read_as_unknown() {
        let tag =
            |text: String| Change::PurgeTag { tag: text, soft: false, scope: Scope::default() };
        let short = |count: usize| vec![tag("a".into()); count];
        assert_eq!(encode(Digest(0), &[]), Err(EntryError::Changes(0)));
        assert_eq!(encode(Digest(0), &short(1001)), Err(EntryError::Changes(1001)));
        assert_eq!(encode(Digest(0), &[tag(String::new())]), Err(EntryError::Text(0)));
        assert_eq!(encode(Digest(0), &[tag("a".repeat(9000))]), Err(EntryError::Text(9000)));
        let long = vec![tag("a".repeat(500)); 200];
        assert!(matches!(encode(Digest(0), &long), Err(EntryError::TooLong(_))));
        assert!(encode(Digest(0), &short(1000)).is_ok());
        let written = Written { before: Digest(9), nonce: Nonce::default(), changes: short(1001) };
        let many = serde_json::to_vec(&written).unwrap();
        let (entry, wrong) = decode(1, &many, Ok);
        assert_eq!((entry.before, wrong), (Some(Digest(9)), Some(EntryError::Changes(1001))));
        assert_eq!(entry.changes, [Change::Unknown]);
    }

    proptest! {
        #[test]
        fn nothing_in_a_log_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (entry, wrong) = decode(1, &bytes, Ok);
            prop_assert!(wrong.is_none() || entry.changes == [Change::Unknown]);
        }
    }
}
