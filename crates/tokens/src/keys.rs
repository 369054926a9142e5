//! Keys, from files as operators have them.

use crate::denied::Denied;
use crate::limits::{HS256_BYTES_MIN, KEYS_MAX, RSA_BITS_MIN};
use crate::text::base64_url;
use aws_lc_rs::signature::{self, ParsedPublicKey, VerificationAlgorithm};
use aws_lc_rs::{constant_time, digest, hmac};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;

/// The keys of a verifier. Several are there while one takes the place of another.
#[derive(Debug, Default)]
pub struct Keys(Vec<Key>);

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
    /// PEM blocks has public keys; any other is a secret, without the line end. The name is the key's
    /// where the file gives none.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn read<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, KeyError> {
        let mut keys: Vec<Key> = Vec::new();
        for (name, content) in files {
            let before = keys.len();
            let start = content.trim_ascii_start();
            if start.starts_with(b"{") {
                read_set(name, content, &mut keys)?;
            } else if start.starts_with(b"-----BEGIN") {
                read_pem(name, content, &mut keys)?;
            } else if !start.is_empty() {
                let secret = content.strip_suffix(b"\n").unwrap_or(content);
                let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
                keys.push(Key { id: name.into(), material: Material::secret(secret) });
            }
            if keys.len() == before {
                return Err(KeyError::Empty { name: name.into() });
            }
        }
        if keys.len() > KEYS_MAX {
            return Err(KeyError::TooMany);
        }
        for (index, key) in keys.iter().enumerate() {
            if keys[..index].iter().any(|other| other.id == key.id) {
                return Err(KeyError::Twice { id: key.id.clone() });
            }
        }
        Ok(Self(keys))
    }

    /// Kinds of the keys, for mistakes: `secret`, `P-256`, `Ed25519` or `RSA`.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|key| key.material.kind())
    }

    /// The secrets.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.0.iter().filter_map(|key| match &key.material {
            Material::Secret(secret) => Some(&**secret),
            _ => None,
        })
    }

    /// The keys a token may mean: those of the name it gives; all, where it gives none.
    pub(crate) fn named<'a>(&'a self, id: Option<&'a [u8]>) -> impl Iterator<Item = &'a Key> {
        self.0.iter().filter(move |key| id.is_none_or(|id| key.id.as_bytes() == id))
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

    fn secret(bytes: &[u8]) -> Self {
        let hex = std::str::from_utf8(bytes).ok().and_then(crate::text::hex);
        let hmac_of_hex = hex.filter(|hex| !hex.is_empty());
        Self::Secret(Box::new(Secret {
            bytes: bytes.to_vec(),
            hmac: hmac::Key::new(hmac::HMAC_SHA256, bytes),
            hmac_of_hex: hmac_of_hex.map(|hex| hmac::Key::new(hmac::HMAC_SHA256, &hex)),
        }))
    }

    fn p256(key: &[u8]) -> Option<Self> {
        Some(Self::P256 {
            fixed: parsed(&signature::ECDSA_P256_SHA256_FIXED, key)?,
            der: parsed(&signature::ECDSA_P256_SHA256_ASN1, key)?,
        })
    }

    fn ed25519(key: &[u8]) -> Option<Self> {
        parsed(&signature::ED25519, key).map(Self::Ed25519)
    }

    /// From a public key in DER, alone or with its head: a few bytes more than the modulus.
    fn rsa(key: &[u8]) -> Option<Self> {
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

/// The first key by which a signature is good; why none is, otherwise.
pub(crate) fn first_good<'a>(
    keys: impl Iterator<Item = &'a Key>,
    mut is_good: impl FnMut(&Material) -> Option<bool>,
) -> Result<(), Denied> {
    let mut was_asked = false;
    for key in keys {
        match is_good(&key.material) {
            Some(true) => return Ok(()),
            Some(false) => was_asked = true,
            None => {}
        }
    }
    Err(if was_asked { Denied::Signature } else { Denied::Key })
}

fn parsed(algorithm: &'static dyn VerificationAlgorithm, key: &[u8]) -> Option<ParsedPublicKey> {
    ParsedPublicKey::new(algorithm, key).ok()
}

/// Object identifiers in the head of a public key (RFC 5480, RFC 8017, RFC 8410).
const OID_P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const OID_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const OID_ED25519: &[u8] = &[0x2b, 0x65, 0x70];

fn read_pem(name: &str, content: &[u8], keys: &mut Vec<Key>) -> Result<(), KeyError> {
    let unreadable = |why: &str| KeyError::Unreadable { name: name.into(), why: why.into() };
    let blocks = SubjectPublicKeyInfoDer::pem_slice_iter(content);
    for (index, block) in blocks.enumerate() {
        let block = block.map_err(|error| unreadable(&format!("it is no PEM: {error:?}")))?;
        let head = &block[..block.len().min(40)];
        let has = |oid: &[u8]| head.windows(oid.len()).any(|window| window == oid);
        let material = if has(OID_P256) {
            Material::p256(&block)
        } else if has(OID_RSA) {
            Material::rsa(&block)
        } else if has(OID_ED25519) {
            // The key itself is what follows 12 bytes of head (RFC 8410 §4).
            block.get(12..).filter(|key| key.len() == 32).and_then(Material::ed25519)
        } else {
            return Err(unreadable("a key is of no kind that is used here: P-256, Ed25519, RSA"));
        };
        let material = material.ok_or_else(|| KeyError::Weak {
            name: name.into(),
            why: format!("a public key is broken, or of RSA and below {RSA_BITS_MIN} bits"),
        })?;
        let id = if index == 0 { name.to_owned() } else { format!("{name}-{}", index + 1) };
        keys.push(Key { id, material });
    }
    if content.windows(11).any(|window| window == b"PRIVATE KEY") {
        let why = "it has a private key; the node needs the public one: openssl pkey -pubout";
        return Err(unreadable(why));
    }
    Ok(())
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<WebKey>,
}

/// A key of a set (RFC 7517, RFC 7518 §6, RFC 8037).
#[derive(Deserialize)]
struct WebKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    k: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    d: Option<String>,
}

fn read_set(name: &str, content: &[u8], keys: &mut Vec<Key>) -> Result<(), KeyError> {
    let unreadable = |why: String| KeyError::Unreadable { name: name.into(), why };
    let set: Set = serde_json::from_slice(content)
        .map_err(|error| unreadable(format!("it is no JSON Web Key Set: {error}")))?;
    for (index, key) in set.keys.into_iter().enumerate() {
        if key.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
            continue;
        }
        let id = key.kid.clone().unwrap_or_else(|| match index {
            0 => name.to_owned(),
            _ => format!("{name}-{}", index + 1),
        });
        let weak = |why: String| KeyError::Weak { name: name.into(), why };
        if key.kty != "oct" && key.d.is_some() {
            let why = format!("key `{id}` has its private part; the node needs the public one");
            return Err(unreadable(why));
        }
        let material = key.material();
        let material = material
            .ok_or_else(|| weak(format!("key `{id}` is broken, weak, or of no kind used here")))?;
        let is_right = match key.alg.as_deref() {
            None => true,
            Some("HS256") => matches!(material, Material::Secret(_)),
            Some("ES256") => matches!(material, Material::P256 { .. }),
            Some("EdDSA" | "Ed25519") => matches!(material, Material::Ed25519(_)),
            Some("RS256" | "PS256") => matches!(material, Material::Rsa { .. }),
            Some(_) => false,
        };
        if !is_right {
            let alg = key.alg.unwrap_or_default();
            return Err(unreadable(format!("key `{id}` is of no kind for `{alg}`")));
        }
        keys.push(Key { id, material });
    }
    Ok(())
}

impl WebKey {
    fn material(&self) -> Option<Material> {
        let part = |text: &Option<String>| base64_url(text.as_deref()?);
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("oct", _) => {
                let secret = part(&self.k)?;
                (secret.len() >= HS256_BYTES_MIN).then(|| Material::secret(&secret))
            }
            ("EC", Some("P-256")) => {
                let (x, y) = (part(&self.x)?, part(&self.y)?);
                let is_whole = x.len() == 32 && y.len() == 32;
                is_whole.then(|| Material::p256(&[&[4][..], &x, &y].concat())).flatten()
            }
            ("OKP", Some("Ed25519")) => {
                part(&self.x).filter(|x| x.len() == 32).and_then(|x| Material::ed25519(&x))
            }
            ("RSA", _) => Material::rsa(&rsa_public_key(&part(&self.n)?, &part(&self.e)?)),
            _ => None,
        }
    }
}

/// An RSA public key in DER (RFC 8017 §A.1.1).
fn rsa_public_key(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len();
        let mut out = vec![tag];
        match length {
            0..0x80 => out.push(length as u8),
            _ => {
                let bytes = (length as u32).to_be_bytes();
                let short = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
                out.push(0x80 | short.len() as u8);
                out.extend_from_slice(short);
            }
        }
        out.extend_from_slice(content);
        out
    }
    let integer = |bytes: &[u8]| {
        let start = bytes.iter().take_while(|byte| **byte == 0).count();
        let bytes = &bytes[start..];
        let sign: &[u8] = if bytes.first().is_none_or(|first| *first >= 0x80) { &[0] } else { &[] };
        wrap(2, &[sign, bytes].concat())
    };
    wrap(0x30, &[integer(modulus), integer(exponent)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> Result<Vec<&'static str>, KeyError> {
        Keys::read([("f", content.as_bytes())]).map(|keys| keys.kinds().collect())
    }

    #[test]
    fn files_are_read_as_what_they_are() {
        assert_eq!(read("secret\n"), Ok(vec!["secret"]));
        let set = r#"{"keys":[
            {"kty":"oct","kid":"a","k":"QDaX3oevZGEcHTKgXasP4fy3FahqtDXx7BkZLXlWk4g"},
            {"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
            {"kty":"EC","crv":"P-256","alg":"ES256","use":"sig",
             "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
             "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
            {"kty":"EC","crv":"P-256","use":"enc"}]}"#;
        assert_eq!(read(set), Ok(vec!["secret", "Ed25519", "P-256"]));
    }

    #[test]
    fn what_protects_nothing_is_refused() {
        for (content, says) in [
            ("", "no key"),
            (" \n", "no key"),
            ("{}", "no JSON Web Key Set"),
            (r#"{"keys":[]}"#, "no key"),
            (r#"{"keys":[{"kty":"oct","k":"c2hvcnQ"}]}"#, "weak"),
            (r#"{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}"#, "weak"),
            (r#"{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}"#, "broken"),
            (r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA","d":"AA"}]}"#, "private part"),
            ("-----BEGIN PUBLIC KEY-----\nAAAA\n", "PEM"),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "private key"),
        ] {
            let error = read(content).expect_err(content).to_string();
            assert!(error.contains(says), "{content}: {error}");
        }
        let wrong = r#"{"keys":[{"kty":"oct","alg":"RS256",
            "k":"QDaX3oevZGEcHTKgXasP4fy3FahqtDXx7BkZLXlWk4g"}]}"#;
        assert!(read(wrong).unwrap_err().to_string().contains("of no kind for"));
        let twice = Keys::read([("a", b"1".as_slice()), ("a", b"2".as_slice())]);
        assert_eq!(twice.unwrap_err(), KeyError::Twice { id: "a".into() });
    }
}
