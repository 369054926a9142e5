//! Signed requests: JSON Web Signatures in flattened form (RFC 7515 §7.2.2, RFC 8555 §6.2).

use crate::error::{AcmeError, FailureKind};
use crate::plan::ExternalAccount;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// The key of an account: ECDSA on P-256, which every authority takes.
pub(crate) struct AccountKey {
    pair: EcdsaKeyPair,
    jwk: Value,
    thumbprint: String,
}

/// Whom a request is signed as.
pub(crate) enum Signer<'a> {
    /// Who has this key; before there is an account.
    Key,
    /// The account at this URL.
    Account(&'a str),
}

impl AccountKey {
    /// A new key, and its PKCS #8 form.
    pub(crate) fn generate() -> Result<(Self, Vec<u8>), AcmeError> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING);
        let pair = pair.map_err(|_| no_key("an account's key could not be made"))?;
        let document = pair.to_pkcs8v1().map_err(|_| no_key("an account's key has no form"))?;
        let bytes = document.as_ref().to_vec();
        Ok((Self::of(pair)?, bytes))
    }

    /// A key from its PKCS #8 form.
    pub(crate) fn read(pkcs8: &[u8]) -> Result<Self, AcmeError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8);
        Self::of(pair.map_err(|error| no_key(&format!("no key of an account: {error}")))?)
    }

    fn of(pair: EcdsaKeyPair) -> Result<Self, AcmeError> {
        let point = pair.public_key().as_ref();
        // Uncompressed (SEC 1 §2.3.3): 4, then both coordinates.
        let coordinates = point.strip_prefix(&[4]).filter(|rest| rest.len() == 64);
        let (x, y) = coordinates.ok_or_else(|| no_key("a key that is no point"))?.split_at(32);
        let (x, y) = (encode(x), encode(y));
        // RFC 7638 §3.2: these members in this order, without white space.
        let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let thumbprint = encode(digest(&SHA256, canonical.as_bytes()).as_ref());
        let jwk = json!({"crv": "P-256", "kty": "EC", "x": x, "y": y});
        Ok(Self { pair, jwk, thumbprint })
    }

    /// What proves to have the token's answer from this account (RFC 8555 §8.1).
    pub(crate) fn key_authorization(&self, token: &str) -> String {
        format!("{token}.{}", self.thumbprint)
    }

    /// A signed request; without a payload it asks (POST-as-GET, RFC 8555 §6.3).
    pub(crate) fn sign(
        &self,
        signer: &Signer<'_>,
        url: &str,
        nonce: &str,
        payload: Option<&Value>,
    ) -> Result<Vec<u8>, AcmeError> {
        let mut protected = json!({"alg": "ES256", "nonce": nonce, "url": url});
        match signer {
            Signer::Key => protected["jwk"] = self.jwk.clone(),
            Signer::Account(account) => protected["kid"] = json!(account),
        }
        let payload =
            payload.map_or_else(String::new, |value| encode(value.to_string().as_bytes()));
        let protected = encode(protected.to_string().as_bytes());
        let signed = format!("{protected}.{payload}");
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|_| no_key("a request could not be signed"))?;
        let whole = json!({
            "protected": protected,
            "payload": payload,
            "signature": encode(signature.as_ref()),
        });
        Ok(whole.to_string().into_bytes())
    }

    /// What says that this key belongs to an account elsewhere (RFC 8555 §7.3.4).
    pub(crate) fn binding(&self, account: &ExternalAccount, url: &str) -> Value {
        let protected = json!({"alg": "HS256", "kid": account.key_id, "url": url}).to_string();
        let (protected, payload) =
            (encode(protected.as_bytes()), encode(self.jwk.to_string().as_bytes()));
        let key = hmac::Key::new(hmac::HMAC_SHA256, &account.hmac_key);
        let tag = hmac::sign(&key, format!("{protected}.{payload}").as_bytes());
        json!({"protected": protected, "payload": payload, "signature": encode(tag.as_ref())})
    }
}

/// Base64 as JOSE has it.
pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn no_key(message: &str) -> AcmeError {
    AcmeError::new(FailureKind::Storage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_after_it_was_written() {
        let (key, bytes) = AccountKey::generate().unwrap();
        let read = AccountKey::read(&bytes).unwrap();
        assert_eq!(key.key_authorization("t"), read.key_authorization("t"));
        assert!(AccountKey::read(&bytes[1..]).is_err());
    }
}
