//! Whether the bytes of a sampled response are the right ones.
//!
//! Where the content is known beforehand (the laboratory's own origin) each byte is compared. Where it
//! is not, a digest is compared with that of the same path seen before.

use crate::content::Content;
use std::collections::HashMap;
use std::sync::Mutex;

/// Paths whose digests are remembered: some 3 MB.
const DIGESTS_MAX: usize = 65_536;

/// What an origin serves at a path, if that is known.
pub type KnownContent = dyn Fn(&str) -> Option<Content> + Send + Sync;

/// Digests of bodies by digest of their path.
#[derive(Debug, Default)]
pub(super) struct Digests(Mutex<HashMap<u64, (u64, u64)>>);

/// Follows one body.
#[derive(Debug)]
pub(super) struct Checker {
    path: u64,
    expected: Option<Content>,
    digest: u64,
    bytes: u64,
    is_right: bool,
}

impl Checker {
    pub(super) fn new(path: &[u8], known: Option<&KnownContent>) -> Self {
        let expected = known.and_then(|known| known(std::str::from_utf8(path).ok()?));
        Self { path: fnv(FNV_START, path), expected, digest: FNV_START, bytes: 0, is_right: true }
    }

    /// Takes the next bytes of the body.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let Some(expected) = &mut self.expected else {
            self.digest = fnv(self.digest, bytes);
            return;
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(piece) = expected.take_front(rest.len()) else {
                self.is_right = false;
                return;
            };
            let (now, later) = rest.split_at(piece.len().min(rest.len()));
            self.is_right &= now == &piece[..];
            rest = later;
        }
    }

    /// Whether the body, now complete, was right.
    pub(super) fn is_right(&self, digests: &Digests) -> bool {
        if let Some(rest) = &self.expected {
            return self.is_right && rest.is_empty();
        }
        let Ok(mut digests) = digests.0.lock() else { return true };
        let found = (self.digest, self.bytes);
        if digests.len() >= DIGESTS_MAX && !digests.contains_key(&self.path) {
            return true;
        }
        *digests.entry(self.path).or_insert(found) == found
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a. Slow and simple, which is right for a sample that may be cut anywhere.
fn fnv(digest: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(digest, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(known: Option<&KnownContent>, digests: &Digests, pieces: &[&[u8]]) -> bool {
        let mut checker = Checker::new(b"/a", known);
        for piece in pieces {
            checker.take(piece);
        }
        checker.is_right(digests)
    }

    #[test]
    fn known_content_is_compared_byte_by_byte() {
        let known = |path: &str| (path == "/a").then(|| Content::new("hello", 3, 9));
        let right = Content::new("hello", 3, 9).to_vec();
        let digests = Digests::default();
        assert!(check(Some(&known), &digests, &[&right]));
        assert!(check(Some(&known), &digests, &[&right[..2], &right[2..]]));
        assert!(!check(Some(&known), &digests, &[&right[..7]]));
        assert!(!check(Some(&known), &digests, &[&right, b"x"]));
        assert!(!check(Some(&known), &digests, &[b"hellO", &right[5..]]));
    }

    #[test]
    fn unknown_content_must_stay_the_same() {
        let digests = Digests::default();
        assert!(check(None, &digests, &[b"one"]));
        assert!(check(None, &digests, &[b"o", b"ne"]));
        assert!(!check(None, &digests, &[b"two"]));
        assert!(!check(None, &digests, &[b"on"]));
    }
}
