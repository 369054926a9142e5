//! What tokens are made with.

use super::random;
use super::token::TokenKey;
use crate::limits::VISITS_REMEMBERED;
use crate::socket::canonical;
use aws_lc_rs::hmac;
use freshet_quic::Id;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Bytes that [`Secrets`] are made of.
pub const SECRET_BYTES: usize = 64;

/// What all workers of a process share, and the process after it: secrets for tokens. And which tokens were
/// used, as far as this process knows.
pub struct Secrets {
    pub(super) tokens: TokenKey,
    reset: hmac::Key,
    bytes: [u8; SECRET_BYTES],
    /// The nonces of tokens that were used lately, each at a place that it says itself.
    used: Box<[AtomicU64]>,
}

impl Secrets {
    /// Random ones.
    pub fn random() -> Self {
        Self::from_bytes(&random())
    }

    /// Those of another process.
    pub fn from_bytes(bytes: &[u8; SECRET_BYTES]) -> Self {
        let (tokens, reset) = bytes.split_first_chunk().expect("there are more bytes than that");
        Self {
            tokens: TokenKey::new(tokens),
            reset: hmac::Key::new(hmac::HMAC_SHA256, reset),
            bytes: *bytes,
            used: (0..VISITS_REMEMBERED).map(|_| AtomicU64::default()).collect(),
        }
    }

    /// For another process.
    pub fn as_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.bytes
    }

    /// What a packet ends with that says we know nothing of an id (RFC 9000 §10.3.2).
    pub fn reset_token(&self, id: &Id) -> [u8; 16] {
        let tag = hmac::sign(&self.reset, id.as_bytes());
        tag.as_ref().first_chunk().copied().unwrap_or_default()
    }

    /// Whether a token shows that a client was here before, at this address, and was not used for that yet
    /// (RFC 9000 §8.1.4). It is used by that.
    pub(super) fn knows(&self, client: SocketAddr, token: &[u8], now: Duration) -> bool {
        let Some(nonce) = self.tokens.open_visit(canonical(client).ip(), token, now) else {
            return false;
        };
        let place = nonce as usize % self.used.len();
        self.used.get(place).is_some_and(|used| used.swap(nonce, Relaxed) != nonce)
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(hidden)")
    }
}
