//! What a machine asks the issuer, and what that answers. Both are JSON, and signed as they are written.

use super::certificate::PublicKey;
use super::sealed::{Half, Sealed};
use super::{IdentityError, Member};
use crate::limits::REQUEST_BYTES_MAX;
use aws_lc_rs::digest::{SHA256, digest};
use freshet_base::hexadecimal;
use rcgen::{KeyPair, SigningKey};
use serde::{Deserialize, Serialize};

/// What signatures are of, besides what is said: they mean nothing elsewhere.
const ASKED: &[u8] = b"freshet identity request 1\n";
const ANSWERED: &[u8] = b"freshet identity answer 1\n";

/// What is wanted.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Wish {
    /// To be let in with a token.
    Join {
        /// Its id.
        token: String,
        /// Whom to seal the fleet's secret for.
        half: Half,
    },
    /// A certificate that ends later.
    Renew {
        /// Who it is.
        node: String,
    },
}

/// A request.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Request {
    pub(super) fleet: String,
    pub(super) wish: Wish,
    /// Whose certificate it is to be.
    pub(super) key: PublicKey,
}

/// A request with who signed it.
#[derive(Deserialize, Serialize)]
struct Asked {
    /// The request's JSON.
    said: String,
    by_key: String,
    /// By the key of the token, where there is one.
    by_token: Option<String>,
}

/// What was asked, and by whom as far as it says that itself.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) request: Request,
    said: String,
    by_token: Option<String>,
}

/// An answer with its signature.
#[derive(Deserialize, Serialize)]
struct Signed {
    /// That of a [`Said`].
    said: String,
    signature: String,
}

#[derive(Deserialize, Serialize)]
struct Said {
    /// SHA-256 of the request it is to.
    to: String,
    answer: Answer,
}

/// What the issuer says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Yes.
    Given(Box<Given>),
    /// No.
    Refused {
        /// Why.
        why: String,
    },
}

/// A certificate.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Given {
    /// PEM.
    pub certificate: String,
    /// What the issuer knows the machine as.
    pub member: Member,
    /// The fleet's secret, for who joins.
    pub(super) secret: Option<Sealed>,
}

/// A signature, as digits.
pub(super) fn signature(key: &KeyPair, what: &[u8], said: &str) -> Result<String, IdentityError> {
    Ok(hexadecimal::encode(&key.sign(&[what, said.as_bytes()].concat())?))
}

fn has_signed(key: &PublicKey, what: &[u8], said: &str, signature: &str) -> bool {
    let bytes = hexadecimal::decode_all(signature);
    bytes.is_some_and(|bytes| key.has_signed(&[what, said.as_bytes()].concat(), &bytes))
}

impl Request {
    /// As it is sent, signed by the key it is for and by that of a token.
    pub(super) fn encode(
        &self,
        key: &KeyPair,
        token: Option<&KeyPair>,
    ) -> Result<Vec<u8>, IdentityError> {
        let said = serde_json::to_string(self).unwrap_or_default();
        let by_key = signature(key, ASKED, &said)?;
        let by_token = token.map(|token| signature(token, ASKED, &said)).transpose()?;
        Ok(serde_json::to_vec(&Asked { said, by_key, by_token }).unwrap_or_default())
    }
}

impl Heard {
    /// What was sent by who has the key it is for; nothing where it is no request of such.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > REQUEST_BYTES_MAX {
            return None;
        }
        let Asked { said, by_key, by_token } = serde_json::from_slice(bytes).ok()?;
        let request: Request = serde_json::from_str(&said).ok()?;
        let is_its = has_signed(&request.key, ASKED, &said, &by_key);
        is_its.then_some(Self { request, said, by_token })
    }

    /// Whether who has this key signed it as well.
    pub(super) fn is_by_token(&self, token: &PublicKey) -> bool {
        self.by_token.as_deref().is_some_and(|one| has_signed(token, ASKED, &self.said, one))
    }
}

impl Answer {
    /// As it is sent, in answer to a request.
    pub(super) fn encode(self, request: &[u8], key: &KeyPair) -> Result<Vec<u8>, IdentityError> {
        let said = Said { to: name(request), answer: self };
        let said = serde_json::to_string(&said).unwrap_or_default();
        let signature = signature(key, ANSWERED, &said)?;
        Ok(serde_json::to_vec(&Signed { said, signature }).unwrap_or_default())
    }

    /// What was sent by who has the issuing key, in answer to this request.
    pub(super) fn read(
        bytes: &[u8],
        request: &[u8],
        issuer: &PublicKey,
    ) -> Result<Self, IdentityError> {
        let wrong = |why: &str| IdentityError::PeerAnswer(why.to_owned());
        let signed = bytes.len() <= REQUEST_BYTES_MAX;
        let signed = signed.then(|| serde_json::from_slice::<Signed>(bytes).ok()).flatten();
        let Signed { said, signature } = signed.ok_or_else(|| wrong("it cannot be read"))?;
        if !has_signed(issuer, ANSWERED, &said, &signature) {
            return Err(wrong("another key signed it"));
        }
        let Said { to, answer } =
            serde_json::from_str(&said).map_err(|_| wrong("it is of another version"))?;
        if to == name(request) { Ok(answer) } else { Err(wrong("it is to another request")) }
    }
}

fn name(request: &[u8]) -> String {
    hexadecimal::encode(digest(&SHA256, request).as_ref())
}
