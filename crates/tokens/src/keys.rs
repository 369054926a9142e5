//! Keys, from files as operators have them.

use crate::denied::Denied;
use crate::key_files;
use crate::limits::{KEYS_MAX, RSA_BITS_MIN};
use aws_lc_rs::signature::{self, ParsedPublicKey, VerificationAlgorithm};
use aws_lc_rs::{constant_time, digest, hmac};

/// The keys of a verifier. Several are there while one takes the place of another.
#[derive(Debug, Default)]
pub struct Keys {
    all: Vec<Key>,
    passed_over: Vec<String>,
}

/// Why a file has no keys.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Nothing is in it.
    #[error("{name}: there is no key in it")]
    Empty {
        /// The file.
        name: String,
    },
    /// It looks like one thing and is not.
    #[error("{name}: {why}")]
    Unreadable {
        /// The file.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A key that protects nothing.
    #[error("{name}: {why}")]
    Weak {
        /// The file.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// Two keys of one name.
    #[error("two keys are named `{id}`")]
    Twice {
        /// The name.
        id: String,
    },
    /// More than anybody rotates.
    #[error("there are more than {KEYS_MAX} keys")]
    TooMany,
}

/// One key, with its name. What it is decides what a signature by it is.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) id: String,
    /// Whether a key set gives it that name, not its file.
    pub(crate) is_named: bool,
    /// The one algorithm it is for, where its material is of use for several and a key set says which.
    pub(crate) algorithm: Option<&'static str>,
    pub(crate) material: Material,
}

pub(crate) enum Material {
    /// For MACs.
    Secret(Box<Secret>),
    /// For signatures of one algorithm each, and for RSA over SHA-1 and SHA-256, as CloudFront has it.
    P256 {
        fixed: ParsedPublicKey,
        der: ParsedPublicKey,
    },
    Ed25519(ParsedPublicKey),
    Rsa {
        sha256: ParsedPublicKey,
        sha1: ParsedPublicKey,
        pss: ParsedPublicKey,
    },
}

pub(crate) struct Secret {
    pub(crate) bytes: Vec<u8>,
    pub(crate) hmac: hmac::Key,
    /// Of the same read as hexadecimal, where it is.
    pub(crate) hmac_of_hex: Option<hmac::Key>,
}

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind())
    }
}

impl Keys {
    /// Reads files, given by name and content. One with `{` is a JSON Web Key Set (RFC 7517); one with
    /// PEM blocks has public keys, whatever else stands around them; any other is a secret, without the
    /// line end, unless it looks like a public key of another form: everybody has that. The name is the
    /// key's where the file gives none.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn read<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, KeyError> {
        let mut keys = Self::default();
        for (name, content) in files {
            let before = keys.all.len();
            key_files::read(name, content, &mut keys.all, &mut keys.passed_over)?;
            if keys.all.len() == before {
                return Err(KeyError::Empty { name: name.into() });
            }
        }
        if keys.all.len() > KEYS_MAX {
            return Err(KeyError::TooMany);
        }
        for (index, key) in keys.all.iter().enumerate() {
            if keys.all[..index].iter().any(|other| other.id == key.id) {
                return Err(KeyError::Twice { id: key.id.clone() });
            }
        }
        Ok(keys)
    }

    /// Names of what sets have besides, of kinds that are not used here (RFC 7517 §5).
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// Kinds of the keys, for mistakes: `secret`, `P-256`, `Ed25519` or `RSA`.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.all.iter().map(|key| key.material.kind())
    }

    /// The first secret that is no hexadecimal, as EdgeAuth has its keys, by its name.
    pub fn not_hex(&self) -> Option<&str> {
        let is_hex = |key: &&Key| matches!(&key.material, Material::Secret(secret) if secret.hmac_of_hex.is_some());
        self.all.iter().find(|key| !is_hex(key)).map(|key| &*key.id)
    }

    /// The secrets.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.all.iter().filter_map(|key| match &key.material {
            Material::Secret(secret) => Some(&**secret),
            _ => None,
        })
    }

    /// The keys a token may mean: those of the name it gives; all, where it gives none. Where no key has that
    /// name, those that were given none: a name is a hint (RFC 7515 §4.1.4), and files go by names of their own.
    pub(crate) fn meant<'a>(&'a self, id: Option<&'a [u8]>) -> impl Iterator<Item = &'a Key> {
        let is_known = id.is_some_and(|id| self.named(id).next().is_some());
        self.all.iter().filter(move |key| match id {
            None => true,
            Some(id) if is_known => key.id.as_bytes() == id,
            Some(_) => !key.is_named,
        })
    }

    /// The keys of this name.
    pub(crate) fn named<'a>(&'a self, id: &'a [u8]) -> impl Iterator<Item = &'a Key> {
        self.all.iter().filter(move |key| key.id.as_bytes() == id)
    }
}

impl Material {
    fn kind(&self) -> &'static str {
        match self {
            Self::Secret(_) => "secret",
            Self::P256 { .. } => "P-256",
            Self::Ed25519(_) => "Ed25519",
            Self::Rsa { .. } => "RSA",
        }
    }

    pub(crate) fn secret(bytes: &[u8]) -> Self {
        let hex = std::str::from_utf8(bytes).ok().and_then(crate::text::hex);
        let hmac_of_hex = hex.filter(|hex| !hex.is_empty());
        Self::Secret(Box::new(Secret {
            bytes: bytes.to_vec(),
            hmac: hmac::Key::new(hmac::HMAC_SHA256, bytes),
            hmac_of_hex: hmac_of_hex.map(|hex| hmac::Key::new(hmac::HMAC_SHA256, &hex)),
        }))
    }

    pub(crate) fn p256(key: &[u8]) -> Option<Self> {
        Some(Self::P256 {
            fixed: parsed(&signature::ECDSA_P256_SHA256_FIXED, key)?,
            der: parsed(&signature::ECDSA_P256_SHA256_ASN1, key)?,
        })
    }

    pub(crate) fn ed25519(key: &[u8]) -> Option<Self> {
        parsed(&signature::ED25519, key).map(Self::Ed25519)
    }

    /// From a public key in DER, alone or with its head: a few bytes more than the modulus.
    pub(crate) fn rsa(key: &[u8]) -> Option<Self> {
        if key.len() < RSA_BITS_MIN / 8 {
            return None;
        }
        Some(Self::Rsa {
            sha256: parsed(&signature::RSA_PKCS1_2048_8192_SHA256, key)?,
            sha1: parsed(&signature::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, key)?,
            pss: parsed(&signature::RSA_PSS_2048_8192_SHA256, key)?,
        })
    }
}

/// Whether a MAC is that of a text, compared in constant time.
pub(crate) fn is_mac(key: &hmac::Key, text: &[u8], mac: &[u8]) -> bool {
    hmac::verify(key, text, mac).is_ok()
}

/// Whether two digests are the same, compared in constant time.
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(one, other).is_ok()
}

/// The digest of a text in hexadecimal and plain, compared with what a claim has.
pub(crate) fn is_digest(algorithm: &'static digest::Algorithm, text: &[u8], of: &[u8]) -> bool {
    let made = digest::digest(algorithm, text);
    let hex = std::str::from_utf8(of).ok().and_then(crate::text::hex);
    is_same(made.as_ref(), of) || hex.is_some_and(|hex| is_same(made.as_ref(), &hex))
}

/// The first key by which a signature of this algorithm is good, as JSON Web Keys name it (RFC 7518 §3.1); why none is,
/// otherwise. A key that is for another algorithm has no part in it (RFC 8725 §3.1).
pub(crate) fn first_good<'a>(
    keys: impl Iterator<Item = &'a Key>,
    algorithm: &str,
    mut is_good: impl FnMut(&Material) -> Option<bool>,
) -> Result<&'a Key, Denied> {
    let mut was_asked = false;
    for key in keys.filter(|key| key.algorithm.is_none_or(|only| only == algorithm)) {
        match is_good(&key.material) {
            Some(true) => return Ok(key),
            Some(false) => was_asked = true,
            None => {}
        }
    }
    Err(if was_asked { Denied::Signature } else { Denied::Key })
}

fn parsed(algorithm: &'static dyn VerificationAlgorithm, key: &[u8]) -> Option<ParsedPublicKey> {
    ParsedPublicKey::new(algorithm, key).ok()
}
