//! What bundles are named and sealed with, so that the log's servers know nothing of them and can make
//! none up.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{digest, hmac, rand};
use freshet_base::hexadecimal;
use std::fmt;
use thiserror::Error;

const SECRET_BYTES: usize = 32;
/// What a sealed bundle begins with. A plain one begins with `{`.
const SEALED: &[u8] = b"freshet sealed bundle 1\n";

/// The secret of a fleet, which its nodes have in files and its servers do not have.
#[derive(Clone)]
pub struct Secret([u8; SECRET_BYTES]);

/// What cannot be opened, or is no secret.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum SecretError {
    /// Some other text.
    #[error("a fleet's secret is {} hexadecimal digits, as `freshet fleet secret` makes it", 2 * SECRET_BYTES)]
    ConfigSecret,
    /// There is no secret to open it with.
    #[error("the bundle is sealed, and there is no secret to open it with: give fleet.secret")]
    ConfigMissing,
    /// There is a secret, and what came is not sealed with it.
    #[error("the bundle is not sealed with this fleet's secret")]
    PeerUnsealed,
    /// It is not what its name says.
    #[error("the bundle is not the one that its name says")]
    PeerName,
    /// The system gives no random bytes.
    #[error("there are no random bytes to be had")]
    LocalRandom,
}

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn random() -> Result<Self, SecretError> {
        let mut bytes = [0; SECRET_BYTES];
        rand::fill(&mut bytes).map_err(|_| SecretError::LocalRandom)?;
        Ok(Self(bytes))
    }

    /// From the text of its file.
    ///
    /// # Errors
    /// It is not that.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        hexadecimal::decode(text.trim()).map(Self).ok_or(SecretError::ConfigSecret)
    }

    /// The text of its file, without the end of the line.
    pub fn text(&self) -> String {
        hexadecimal::encode(&self.0)
    }

    fn tag(&self, parts: &[&[u8]]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.0));
        parts.iter().for_each(|part| context.update(part));
        context.sign()
    }

    /// Each name has a key of its own, and a name is for one text: the nonce never meets another.
    fn key(&self, name: &str) -> LessSafeKey {
        let tag = self.tag(&[b"key of a bundle\n", name.as_bytes()]);
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, tag.as_ref()).expect("a tag has 32 bytes"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The name of a bundle: its digest, which says nothing of it to who has not the secret.
pub(super) fn name_of(plain: &[u8], secret: Option<&Secret>) -> String {
    match secret {
        Some(secret) => hexadecimal::encode(secret.tag(&[b"name of a bundle\n", plain]).as_ref()),
        None => hexadecimal::encode(digest::digest(&digest::SHA256, plain).as_ref()),
    }
}

/// The bytes that servers keep under `name`.
pub(super) fn seal(name: &str, plain: Vec<u8>, secret: Option<&Secret>) -> Vec<u8> {
    let Some(secret) = secret else { return plain };
    let mut bytes = plain;
    let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
    let sealed = secret.key(name).seal_in_place_append_tag(nonce, Aad::empty(), &mut bytes);
    sealed.expect("a bundle is shorter than what a key may seal");
    [SEALED, &bytes].concat()
}

/// What was sealed. Whoever has a secret believes nothing that is not.
pub(super) fn open(
    name: &str,
    kept: Vec<u8>,
    secret: Option<&Secret>,
) -> Result<Vec<u8>, SecretError> {
    let plain = match (kept.strip_prefix(SEALED), secret) {
        (Some(_), None) => return Err(SecretError::ConfigMissing),
        (None, Some(_)) => return Err(SecretError::PeerUnsealed),
        (None, None) => kept,
        (Some(sealed), Some(secret)) => {
            let (nonce, mut bytes) =
                (Nonce::assume_unique_for_key([0; NONCE_LEN]), sealed.to_vec());
            let opened = secret.key(name).open_in_place(nonce, Aad::empty(), &mut bytes);
            let length = opened.map_err(|_| SecretError::PeerUnsealed)?.len();
            bytes.truncate(length);
            bytes
        }
    };
    if name_of(&plain, secret) == name { Ok(plain) } else { Err(SecretError::PeerName) }
}
