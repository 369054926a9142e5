//! Keys made of what clients choose.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// A secret that keys are hashed with. Who does not know it cannot find two keys that share a place.
#[derive(Clone)]
pub struct Secret(SipHasher13);

impl Secret {
    /// From 16 random bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(SipHasher13::new_with_key(&bytes))
    }

    /// The key of what a rule goes by: a network, a path, a value. O(length).
    #[inline]
    pub fn key(&self, rule: u64, what: &[u8]) -> u64 {
        let mut hasher = self.0;
        hasher.write_u64(rule);
        hasher.write(what);
        hasher.finish()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_of_its_rule_its_text_and_its_secret() {
        let secret = Secret::from_bytes([1; 16]);
        let key = secret.key(1, b"a");
        assert_eq!(key, secret.key(1, b"a"));
        for other in [secret.key(2, b"a"), secret.key(1, b"b"), secret.key(1, b"")] {
            assert_ne!(key, other);
        }
        assert_ne!(key, Secret::from_bytes([2; 16]).key(1, b"a"));
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
