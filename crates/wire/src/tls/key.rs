//! Keys of one direction, and the nonces made with them.

use super::Version;
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce,
    UnboundKey,
};
use std::fmt;
use thiserror::Error;
use zeroize::Zeroize;

/// How records are sealed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cipher {
    /// AES-128 in Galois/Counter mode.
    Aes128Gcm,
    /// AES-256 in Galois/Counter mode.
    Aes256Gcm,
    /// ChaCha20 with Poly1305 (RFC 8439).
    Chacha20Poly1305,
}

impl Cipher {
    /// Bytes of its key.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::Chacha20Poly1305 => 32,
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::Aes256Gcm => &AES_256_GCM,
            Self::Chacha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

/// Why a key cannot be used.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum KeyError {
    /// The key does not have the length its cipher needs.
    #[error("a key of {got} bytes where the cipher needs {expected}")]
    Length {
        /// Bytes the cipher needs.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// The cipher refused the key.
    #[error("the cipher refused the key")]
    Refused,
}

/// What one direction is sealed with until its next key update. Overwritten when dropped.
pub struct TrafficKey {
    cipher: Cipher,
    key: [u8; 32],
    iv: [u8; NONCE_LEN],
}

impl TrafficKey {
    /// A copy of what the key schedule came to. `iv` is the whole of it: for AES-GCM under TLS 1.2
    /// the implicit part followed by where the explicit part starts counting.
    ///
    /// # Errors
    /// [`KeyError::Length`].
    pub fn new(cipher: Cipher, key: &[u8], iv: &[u8; NONCE_LEN]) -> Result<Self, KeyError> {
        let (expected, got) = (cipher.key_bytes(), key.len());
        if expected != got {
            return Err(KeyError::Length { expected, got });
        }
        let mut padded = [0; 32];
        padded[..got].copy_from_slice(key);
        Ok(Self { cipher, key: padded, iv: *iv })
    }

    /// How it seals.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    fn overwrite(&mut self) {
        self.key.zeroize();
        self.iv.zeroize();
    }
}

impl Drop for TrafficKey {
    fn drop(&mut self) {
        self.overwrite();
    }
}

impl fmt::Debug for TrafficKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrafficKey").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

/// A key ready for use: its schedule is computed, in memory that AWS-LC overwrites when it is freed.
pub(super) struct Protection {
    pub(super) version: Version,
    pub(super) cipher: Cipher,
    pub(super) aead: LessSafeKey,
    iv: [u8; NONCE_LEN],
}

impl Protection {
    pub(super) fn new(version: Version, key: &TrafficKey) -> Result<Self, KeyError> {
        let bytes = &key.key[..key.cipher.key_bytes()];
        let unbound =
            UnboundKey::new(key.cipher.algorithm(), bytes).map_err(|_| KeyError::Refused)?;
        Ok(Self { version, cipher: key.cipher, aead: LessSafeKey::new(unbound), iv: key.iv })
    }

    /// Bytes of the nonce that travel in front of each fragment (RFC 5288 §3).
    pub(super) fn explicit_nonce_bytes(&self) -> usize {
        match (self.version, self.cipher) {
            (Version::Tls12, Cipher::Aes128Gcm | Cipher::Aes256Gcm) => 8,
            _ => 0,
        }
    }

    /// The nonce of record number `sequence` (RFC 8446 §5.3, RFC 7905 §2). TLS 1.2 leaves the
    /// explicit part of AES-GCM's to the sender; the same rule makes it unique.
    pub(super) fn nonce(&self, sequence: u64) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, count) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= count;
        }
        nonce
    }

    /// The nonce of a record that came with an explicit part.
    pub(super) fn nonce_with(&self, explicit: &[u8; 8]) -> Nonce {
        let mut nonce = self.iv;
        nonce[4..].copy_from_slice(explicit);
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Drop for Protection {
    fn drop(&mut self) {
        self.iv.zeroize();
    }
}

/// What is authenticated beside the plaintext under TLS 1.2 (RFC 5246 §6.2.3.3).
pub(super) fn additional_data_12(
    sequence: u64,
    content: u8,
    version: [u8; 2],
    plaintext_bytes: u16,
) -> [u8; 13] {
    let mut data = [0; 13];
    data[..8].copy_from_slice(&sequence.to_be_bytes());
    data[8] = content;
    data[9..11].copy_from_slice(&version);
    data[11..].copy_from_slice(&plaintext_bytes.to_be_bytes());
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leaves_nothing_behind_and_is_never_written_out() {
        let secret = [0xA5; 32];
        for cipher in [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Chacha20Poly1305] {
            let key = &secret[..cipher.key_bytes()];
            let mut key =
                TrafficKey::new(cipher, key, &[0x5A; NONCE_LEN]).expect("the lengths fit");
            let text = format!("{key:?}");
            assert!(!text.contains("165") && !text.to_lowercase().contains("a5"), "{text}");
            assert_ne!((key.key, key.iv), ([0; 32], [0; NONCE_LEN]));
            // What its drop does.
            key.overwrite();
            assert_eq!((key.key, key.iv), ([0; 32], [0; NONCE_LEN]));
        }
    }
}
