//! What a resource is called: a hash for the index and the text it was made from.
//!
//! The hash is SipHash-2-4 with 128 bits of output under a secret of the process. Nobody outside
//! can find two texts with one hash, so the index compares hashes only and never touches the text
//! of a stored key on the hit path; the text is kept for listings and explanations.

use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt;
use std::hash::Hasher;

/// The secret under which keys are hashed. All keys used with one cache come from one secret.
#[derive(Clone)]
pub struct Secret([u8; 16]);

impl Secret {
    /// A secret nobody knows.
    pub fn random() -> Self {
        Self(freshet_base::random::secret())
    }

    /// A given secret: for tests, and for an index that outlives the process.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The key of a target as it is by default: `authority` (lower case, with its port if any) and
    /// `target` (path and query). One allocation.
    pub fn key(&self, authority: &str, target: &str) -> Key {
        KeyBuilder::new(self).parts([authority.as_bytes(), target.as_bytes()]).build()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The name of a resource in the cache; all its variants share it.
#[derive(Clone, Eq, PartialEq)]
pub struct Key {
    hash: u128,
    text: Box<[u8]>,
}

impl Key {
    /// The keyed hash of the text; evenly spread over all 128 bits.
    pub fn hash(&self) -> u128 {
        self.hash
    }

    /// The parts the key was made from, with a NUL byte between each two.
    pub fn text(&self) -> &[u8] {
        &self.text
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// The parts with a space between each two, bytes that are not UTF-8 replaced.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.text.split(|byte| *byte == 0).enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            f.write_str(&String::from_utf8_lossy(part))?;
        }
        Ok(())
    }
}

/// Makes a [`Key`] from parts. Parts hold no NUL bytes, as nothing from a valid request does, so
/// different lists of parts have different texts.
#[derive(Debug)]
pub struct KeyBuilder<'a> {
    secret: &'a Secret,
    text: Vec<u8>,
    parts: usize,
}

impl<'a> KeyBuilder<'a> {
    /// A key of no parts yet.
    pub fn new(secret: &'a Secret) -> Self {
        Self { secret, text: Vec::new(), parts: 0 }
    }

    /// Adds parts, with one allocation.
    #[must_use]
    pub fn parts<const N: usize>(mut self, parts: [&[u8]; N]) -> Self {
        let bytes: usize = parts.iter().map(|part| part.len() + 1).sum();
        // There is no NUL in front of the first of all.
        self.text.reserve_exact(bytes - usize::from(self.parts == 0 && N > 0));
        parts.into_iter().fold(self, Self::part)
    }

    /// Adds a part. By default there are two, the authority and the target; a policy may add more
    /// or others.
    #[must_use]
    pub fn part(mut self, part: &[u8]) -> Self {
        if self.parts > 0 {
            self.text.push(0);
        }
        self.text.extend_from_slice(part);
        self.parts += 1;
        self
    }

    /// The key.
    pub fn build(self) -> Key {
        let hash = SipHasher24::new_with_key(&self.secret.0).hash(&self.text).as_u128();
        Key { hash, text: self.text.into_boxed_slice() }
    }
}

/// Adds what can be hashed to a keyed hash that is short enough for memory-only use; see
/// [`crate::object::tag`].
pub(crate) fn hash64(bytes: &[u8]) -> u64 {
    // A fixed key: the callers need the same number in every process and collisions only cost a
    // needless purge.
    let mut hasher = SipHasher24::new_with_keys(0x6672_6573_6865_7431, 0x7461_6773);
    hasher.write(bytes);
    hasher.finish128().h1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_parts_under_the_same_secret_are_the_same_key() {
        let secret = Secret::from_bytes([7; 16]);
        assert_eq!(secret.key("a.test", "/x?y"), secret.key("a.test", "/x?y"));
        assert_ne!(secret.key("a.test", "/x").hash(), secret.key("a.test", "/y").hash());
        assert_ne!(secret.key("a", "b").hash(), secret.key("ab", "").hash());
    }

    #[test]
    fn another_secret_gives_another_hash() {
        let (a, b) = (Secret::random(), Secret::random());
        assert_ne!(a.key("a.test", "/").hash(), b.key("a.test", "/").hash());
    }

    #[test]
    fn the_text_shows_the_parts() {
        let key = Secret::from_bytes([0; 16]).key("a.test", "/x");
        assert_eq!(key.text(), b"a.test\0/x");
        assert_eq!(key.to_string(), "a.test /x");
    }
}
