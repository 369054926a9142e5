//! The fleet's secret on its way to a machine that joins, which nobody between can read.
//!
//! X25519 (RFC 7748) with a key of each side that is used once, the two and what they agree on hashed to a key for
//! AES-256-GCM. Who is at the other side is proved by the signatures of the request and of its answer.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::rand::SystemRandom;
use freshet_base::hexadecimal;
use serde::{Deserialize, Serialize};

const KEY_BYTES: usize = 32;

/// The half of an agreement that others see.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Half([u8; KEY_BYTES]);

impl TryFrom<String> for Half {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        hexadecimal::decode(&text).map(Self).ok_or("no key of X25519")
    }
}

impl From<Half> for String {
    fn from(half: Half) -> Self {
        hexadecimal::encode(&half.0)
    }
}

/// What is sealed, and with whom.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Sealed {
    half: Half,
    /// Hexadecimal digits.
    sealed: String,
}

/// One side of an agreement.
pub(super) struct Own {
    private: EphemeralPrivateKey,
    half: Half,
}

impl Own {
    /// A new one; nothing where there are no random bytes.
    pub(super) fn new() -> Option<Self> {
        let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).ok()?;
        let half = Half(private.compute_public_key().ok()?.as_ref().try_into().ok()?);
        Some(Self { private, half })
    }

    pub(super) fn half(&self) -> Half {
        self.half
    }

    /// Seals for who has the other half.
    pub(super) fn seal(self, other: Half, text: &str) -> Option<Sealed> {
        let half = self.half;
        let mut bytes = text.as_bytes().to_vec();
        let key = self.agree(other, other, half)?;
        key.seal_in_place_append_tag(nonce(), Aad::empty(), &mut bytes).ok()?;
        Some(Sealed { half, sealed: hexadecimal::encode(&bytes) })
    }

    /// Opens what was sealed for this half.
    pub(super) fn open(self, sealed: &Sealed) -> Option<String> {
        let half = self.half;
        let mut bytes = hexadecimal::decode_all(&sealed.sealed)?;
        let key = self.agree(sealed.half, half, sealed.half)?;
        let plain = key.open_in_place(nonce(), Aad::empty(), &mut bytes).ok()?;
        String::from_utf8(plain.to_vec()).ok()
    }

    fn agree(self, other: Half, opens: Half, seals: Half) -> Option<LessSafeKey> {
        let public = UnparsedPublicKey::new(&X25519, other.0);
        agree_ephemeral(self.private, public, (), |agreed| {
            let mut context = Context::new(&SHA256);
            for part in [&b"freshet secret of a fleet 1\n"[..], agreed, &opens.0, &seals.0] {
                context.update(part);
            }
            let key = UnboundKey::new(&AES_256_GCM, context.finish().as_ref());
            key.map(LessSafeKey::new).map_err(drop)
        })
        .ok()
    }
}

/// Each key seals once.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_other_half_opens_it() {
        let (asks, stranger) = (Own::new().unwrap(), Own::new().unwrap());
        let sealed = Own::new().unwrap().seal(asks.half(), "a secret").unwrap();
        assert!(!sealed.sealed.contains(&hexadecimal::encode(b"secret")));
        assert_eq!(stranger.open(&sealed), None);
        assert_eq!(asks.open(&sealed).as_deref(), Some("a secret"));
    }
}
