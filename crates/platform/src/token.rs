//! Access tokens: JWTs of RFC 9068, signed with ECDSA on P-256 (RFC 7518 §3.4).
//!
//! There is one algorithm and one type. What a token's header says is compared with what ours say
//! and chooses nothing: `none`, another algorithm, another key and another type are all refused.
//!
//! A signature costs 100 µs to verify, and anybody may write what looks like a token: so `jti` has a mark
//! besides, a MAC of what the token says, without which no signature is looked at: that costs a seventh of it.

use crate::limits::{TOKEN_BYTES_MAX, TOKEN_S, TOKENS_MAX};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::OnceLock;

/// What a token says (RFC 9068 §2.2).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Claims {
    pub(crate) iss: String,
    pub(crate) exp: u64,
    pub(crate) aud: String,
    pub(crate) sub: String,
    pub(crate) client_id: String,
    pub(crate) iat: u64,
    pub(crate) jti: String,
    #[serde(default)]
    pub(crate) scope: String,
    /// What its holder has to prove besides (RFC 7800 §3.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cnf: Option<Confirmation>,
}

/// The certificate that a token is bound to (RFC 8705 §3.1).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Confirmation {
    /// Its SHA-256.
    #[serde(rename = "x5t#S256")]
    thumbprint: String,
}

impl Claims {
    /// As they are signed.
    fn said(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("claims are plain data")
    }

    /// The thumbprint of the certificate it is bound to.
    pub(crate) fn certificate(&self) -> Option<&str> {
        self.cnf.as_ref().map(|cnf| cnf.thumbprint.as_str())
    }
}

/// The SHA-256 of a certificate as tokens have it.
pub(crate) fn thumbprint(certificate: &[u8; 32]) -> String {
    BASE64.encode(certificate)
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TokenError {
    /// It is no signed JWT of three parts.
    #[error("it is no access token of this platform")]
    ClientForm,
    /// Its header is not that of our tokens.
    #[error("its type or algorithm is not `at+jwt` and ES256")]
    ClientHeader,
    /// Somebody else signed it, or it was changed.
    #[error("its signature is not this platform's")]
    ClientSignature,
    /// It is for somebody else, or from somebody else.
    #[error("its issuer or audience is another one")]
    ClientAudience,
    /// It holds no longer, or not yet.
    #[error("it has expired, or is of the future")]
    ClientTime,
}

/// Issues tokens and verifies them.
pub struct Issuer {
    pair: EcdsaKeyPair,
    /// Which key: its thumbprint (RFC 7638).
    key_id: String,
    issuer: String,
    audience: String,
    /// What secrets of app instances are made with.
    secrets: hmac::Key,
    /// What marks of tokens are.
    marks: hmac::Key,
    /// When it was asked for something first, in seconds since 1970: tokens of a version before this one are older.
    since_s: OnceLock<u64>,
}

/// Bytes of a mark that are in a token.
const MARK_BYTES: usize = 16;

impl std::fmt::Debug for Issuer {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Issuer({})", self.key_id)
    }
}

impl Issuer {
    /// A new key, as PKCS #8.
    pub fn new_key() -> Vec<u8> {
        let key =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        key.expect("the system has randomness").as_ref().to_vec()
    }

    /// An issuer with a key of [`Issuer::new_key`]; `None` where it is no such key. `issuer` is the
    /// URL of the platform, `audience` whom its tokens are for.
    pub fn new(key: &[u8], issuer: &str, audience: &str) -> Option<Self> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key).ok()?;
        let [x, y] = coordinates(pair.public_key().as_ref())?;
        let thumbprint = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let key_id = BASE64.encode(digest(&SHA256, thumbprint.as_bytes()));
        let secrets = hmac::Key::new(hmac::HMAC_SHA256, digest(&SHA256, key).as_ref());
        let marks = digest(&SHA256, &[b"marks of tokens", key].concat());
        let marks = hmac::Key::new(hmac::HMAC_SHA256, marks.as_ref());
        let (issuer, audience) = (issuer.to_owned(), audience.to_owned());
        let since_s = OnceLock::new();
        Some(Self { pair, key_id, issuer, audience, secrets, marks, since_s })
    }

    /// Puts a mark on claims.
    fn mark(&self, claims: &mut Claims) {
        let mark = hmac::sign(&self.marks, &claims.said());
        claims.jti.push('.');
        claims.jti.push_str(&BASE64.encode(&mark.as_ref()[..MARK_BYTES]));
    }

    /// Whether claims have their mark. Those of a version before this one have none: they are older than this process,
    /// and end within [`TOKEN_S`] of its beginning.
    fn is_marked(&self, claims: &Claims, now_s: u64) -> bool {
        let Some((id, _)) = claims.jti.rsplit_once('.') else {
            let since_s = *self.since_s.get_or_init(|| now_s);
            return claims.iat <= since_s && claims.exp <= since_s + TOKEN_S;
        };
        let mut wanted = Claims { jti: id.to_owned(), ..claims.clone() };
        self.mark(&mut wanted);
        verify_slices_are_equal(wanted.jti.as_bytes(), claims.jti.as_bytes()).is_ok()
    }

    /// A secret for a client that the platform itself makes: it is nowhere kept.
    pub(crate) fn secret_of(&self, client: &str) -> String {
        BASE64.encode(hmac::sign(&self.secrets, client.as_bytes()))
    }

    /// The public key, as a set of keys (RFC 7517 §5).
    pub fn keys(&self) -> Value {
        let [x, y] = coordinates(self.pair.public_key().as_ref()).expect("a point has two");
        json!({ "keys": [{
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.key_id, "x": x, "y": y,
        }] })
    }

    /// A token for a client, that holds for [`TOKEN_S`] from `now_s`, in seconds since 1970.
    /// `id` is unlike that of any other; a `certificate`, by its SHA-256, is what it is bound to.
    pub(crate) fn issue(
        &self,
        (client, scope): (&str, &str),
        certificate: Option<&[u8; 32]>,
        id: &str,
        now_s: u64,
    ) -> String {
        self.since_s.get_or_init(|| now_s);
        let mut claims = Claims {
            iss: self.issuer.clone(),
            exp: now_s + TOKEN_S,
            aud: self.audience.clone(),
            sub: client.to_owned(),
            client_id: client.to_owned(),
            iat: now_s,
            jti: id.to_owned(),
            scope: scope.to_owned(),
            cnf: certificate.map(|one| Confirmation { thumbprint: thumbprint(one) }),
        };
        self.mark(&mut claims);
        let header = json!({ "typ": "at+jwt", "alg": "ES256", "kid": self.key_id });
        self.sign(&header, &claims.said())
    }

    fn sign(&self, header: &Value, claims: &[u8]) -> String {
        let mut token = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims));
        let signature = self.pair.sign(&SystemRandom::new(), token.as_bytes());
        let signature = signature.expect("the system has randomness");
        token.push('.');
        token.push_str(&BASE64.encode(signature.as_ref()));
        token
    }

    /// What a token says, if it is ours and holds at `now_s`. About 100 µs; what somebody made up is refused in
    /// a seventh of that.
    pub(crate) fn verify(&self, token: &str, now_s: u64) -> Result<Claims, TokenError> {
        #[derive(Deserialize)]
        struct Header {
            typ: String,
            alg: String,
            kid: String,
            /// Extensions that must be understood (RFC 7515 §4.1.11): we have none.
            crit: Option<Value>,
        }
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::ClientForm);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::ClientForm)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::ClientForm)?;
        let decode = |text: &str| BASE64.decode(text).map_err(|_| TokenError::ClientForm);
        let header: Header =
            serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::ClientHeader)?;
        let is_our_type = ["at+jwt", "application/at+jwt"]
            .iter()
            .any(|known| header.typ.eq_ignore_ascii_case(known));
        if !is_our_type || header.alg != "ES256" || header.crit.is_some() {
            return Err(TokenError::ClientHeader);
        }
        if header.kid != self.key_id {
            return Err(TokenError::ClientSignature);
        }
        let claims: Claims =
            serde_json::from_slice(&decode(claims)?).map_err(|_| TokenError::ClientForm)?;
        if !self.is_marked(&claims, now_s) {
            return Err(TokenError::ClientSignature);
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        key.verify(signed.as_bytes(), &decode(signature)?)
            .map_err(|_| TokenError::ClientSignature)?;
        if claims.iss != self.issuer || claims.aud != self.audience {
            return Err(TokenError::ClientAudience);
        }
        // Both are of our own clock, which may have been set back by a second.
        if claims.exp <= now_s || claims.iat > now_s + 1 {
            return Err(TokenError::ClientTime);
        }
        Ok(claims)
    }
}

/// The coordinates of an uncompressed point (SEC 1 §2.3.3), as a key has them.
fn coordinates(point: &[u8]) -> Option<[String; 2]> {
    let point = point.strip_prefix(&[4]).filter(|point| point.len() == 64)?;
    Some([BASE64.encode(&point[..32]), BASE64.encode(&point[32..])])
}

/// Tokens that were verified, by their digests: at most [`TOKENS_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Verified(HashMap<[u8; 32], Claims>);

impl Verified {
    /// As [`Issuer::verify`], without the signature's cost for a token that was seen before.
    pub(crate) fn verify(
        &mut self,
        issuer: &Issuer,
        token: &str,
        now_s: u64,
    ) -> Result<Claims, TokenError> {
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        match self.0.get(&key) {
            Some(claims) if claims.exp > now_s => return Ok(claims.clone()),
            Some(_) => {
                self.0.remove(&key);
                return Err(TokenError::ClientTime);
            }
            None => {}
        }
        let claims = issuer.verify(token, now_s)?;
        if self.0.len() >= TOKENS_MAX {
            self.0.retain(|_, claims| claims.exp > now_s);
        }
        // A crowd of tokens that all hold: each is verified anew until some expire.
        if self.0.len() < TOKENS_MAX {
            self.0.insert(key, claims.clone());
        }
        Ok(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_800_000_000;

    fn issuer() -> Issuer {
        Issuer::new(&Issuer::new_key(), "https://mec.example", "mec").unwrap()
    }

    #[test]
    fn a_token_holds_until_it_expires() {
        let issuer = issuer();
        let token = issuer.issue(("app", "rni:read"), None, "1", NOW_S);
        let claims = issuer.verify(&token, NOW_S + TOKEN_S - 1).unwrap();
        assert_eq!((claims.client_id.as_str(), claims.scope.as_str()), ("app", "rni:read"));
        assert_eq!(issuer.verify(&token, NOW_S + TOKEN_S), Err(TokenError::ClientTime));
        assert_eq!(issuer.verify(&token, NOW_S - 10), Err(TokenError::ClientTime));
        let mut verified = Verified::default();
        assert!(verified.verify(&issuer, &token, NOW_S).is_ok());
        assert!(verified.verify(&issuer, &token, NOW_S).is_ok());
        assert_eq!(verified.verify(&issuer, &token, NOW_S + TOKEN_S), Err(TokenError::ClientTime));
    }

    #[test]
    fn what_is_not_of_our_key_and_for_us_is_refused() {
        let (ours, other) = (issuer(), issuer());
        let token = ours.issue(("app", ""), None, "1", NOW_S);
        let parts: Vec<&str> = token.split('.').collect();
        let verify = |token: &str| ours.verify(token, NOW_S).unwrap_err();
        let header = |text: &str| BASE64.encode(text);
        let none = header(r#"{"typ":"at+jwt","alg":"none","kid":""}"#);
        assert_eq!(verify(&format!("{none}.{}.", parts[1])), TokenError::ClientHeader);
        assert_eq!(verify(&format!("{none}.{}.{}", parts[1], parts[2])), TokenError::ClientHeader);
        for alg in ["HS256", "ES384", "es256", "None"] {
            let claims = BASE64.decode(parts[1]).unwrap();
            let head = json!({ "typ": "at+jwt", "alg": alg, "kid": ours.key_id });
            assert_eq!(verify(&ours.sign(&head, &claims)), TokenError::ClientHeader, "{alg}");
        }
        let claims = BASE64.decode(parts[1]).unwrap();
        let plain = json!({ "typ": "JWT", "alg": "ES256", "kid": ours.key_id });
        assert_eq!(verify(&ours.sign(&plain, &claims)), TokenError::ClientHeader);
        let critical =
            json!({ "typ": "at+jwt", "alg": "ES256", "kid": ours.key_id, "crit": ["x"] });
        assert_eq!(verify(&ours.sign(&critical, &claims)), TokenError::ClientHeader);
        // Another's key, under its own name and under ours.
        assert_eq!(
            verify(&other.issue(("app", ""), None, "1", NOW_S)),
            TokenError::ClientSignature
        );
        let swapped = json!({ "typ": "at+jwt", "alg": "ES256", "kid": ours.key_id });
        assert_eq!(verify(&other.sign(&swapped, &claims)), TokenError::ClientSignature);
        let changed = BASE64.encode(String::from_utf8(claims).unwrap().replace("app", "boss"));
        assert_eq!(
            verify(&format!("{}.{changed}.{}", parts[0], parts[2])),
            TokenError::ClientSignature
        );
        assert_eq!(verify(&format!("{}.{}.", parts[0], parts[1])), TokenError::ClientSignature);
        for form in ["", "..", "a.b", "a.b.c", &"a".repeat(TOKEN_BYTES_MAX + 1)] {
            assert!(ours.verify(form, NOW_S).is_err(), "{form}");
        }
    }

    #[test]
    fn no_signature_is_looked_at_under_what_somebody_made_up() {
        let issuer = issuer();
        let token = issuer.issue(("app", ""), None, "1", NOW_S);
        let given = issuer.verify(&token, NOW_S).unwrap();
        // The signature is right, so that only the mark can be what is wrong.
        let signed = |claims: &Claims| {
            let header = json!({ "typ": "at+jwt", "alg": "ES256", "kid": issuer.key_id });
            issuer.sign(&header, &claims.said())
        };
        for made_up in [
            Claims { sub: "boss".to_owned(), client_id: "boss".to_owned(), ..given.clone() },
            Claims { scope: "rni".to_owned(), ..given.clone() },
            Claims { exp: given.exp + 1, ..given.clone() },
            Claims {
                jti: "1".to_owned(),
                iat: NOW_S + 1,
                exp: NOW_S + 1 + TOKEN_S,
                ..given.clone()
            },
            Claims { jti: "1".to_owned(), exp: given.exp + 1, ..given.clone() },
            Claims { jti: format!("{}x", given.jti), ..given.clone() },
            Claims { jti: "1.".to_owned(), ..given.clone() },
        ] {
            let refused = issuer.verify(&signed(&made_up), NOW_S + 1);
            assert_eq!(refused, Err(TokenError::ClientSignature), "{made_up:?}");
        }
        // What a version before this one gave holds to its end.
        let before =
            Claims { jti: "1".to_owned(), iat: NOW_S - 10, exp: NOW_S - 10 + TOKEN_S, ..given };
        let token = signed(&before);
        assert_eq!(issuer.verify(&token, NOW_S), Ok(before));
        assert_eq!(issuer.verify(&token, NOW_S - 10 + TOKEN_S), Err(TokenError::ClientTime));
    }

    #[test]
    fn tokens_for_others_are_refused() {
        let key = Issuer::new_key();
        let of = |issuer, audience| Issuer::new(&key, issuer, audience).unwrap();
        let token = of("https://mec.example", "mec").issue(("app", ""), None, "1", NOW_S);
        for (issuer, audience) in [("https://mec.example", "else"), ("https://else.example", "mec")]
        {
            let refused = of(issuer, audience).verify(&token, NOW_S);
            assert_eq!(refused, Err(TokenError::ClientAudience));
        }
    }

    #[test]
    fn the_memory_of_verified_tokens_is_bounded() {
        let issuer = issuer();
        let mut verified = Verified::default();
        let claims = issuer.verify(&issuer.issue(("app", ""), None, "1", NOW_S), NOW_S).unwrap();
        for id in 0..TOKENS_MAX as u64 {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&id.to_le_bytes());
            verified.0.insert(key, claims.clone());
        }
        let token = issuer.issue(("app", ""), None, "2", NOW_S);
        assert!(verified.verify(&issuer, &token, NOW_S).is_ok());
        assert_eq!(verified.0.len(), TOKENS_MAX);
        // Those that have expired make room.
        let later = issuer.issue(("app", ""), None, "3", NOW_S + TOKEN_S);
        assert!(verified.verify(&issuer, &later, NOW_S + TOKEN_S).is_ok());
        assert_eq!(verified.0.len(), 1);
    }
}
