//! JSON Web Tokens (RFC 7519) in the compact form of RFC 7515.

use crate::denied::Denied;
use crate::keys::{Keys, Material, first_good, is_mac};
use crate::question::{Question, Source};
use crate::revoked::Revoked;
use crate::seen::Seen;
use crate::text::base64_url_bare;
use crate::times::{Named, Times, Wanted, time};
use crate::verifier::{Claims as AllClaims, Grant, Granted};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Which tokens let in, and where they are.
#[derive(Clone, Debug, Default)]
pub struct Jwt {
    /// Where tokens are.
    pub source: Source,
    /// Issuers, one of which a token has to name; empty for any.
    pub issuers: Vec<String>,
    /// Audiences, one of which a token has to name; where there are none, it may name none either. `*` is any.
    pub audiences: Vec<String>,
    /// Whether tokens may go without an end.
    pub may_be_endless: bool,
}

/// What a token says, its signature being good.
#[derive(Debug)]
pub(crate) struct JwtToken {
    times: Times,
    issuer: Option<String>,
    audiences: Vec<String>,
    grant: Arc<Grant>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
    b64: Option<Value>,
}

#[derive(Deserialize)]
struct Claims {
    exp: Option<f64>,
    nbf: Option<f64>,
    iss: Option<String>,
    aud: Option<Audience>,
    sub: Option<String>,
    jti: Option<String>,
}

/// All claims as text, the registered ones among them.
fn claims_of(text: &[u8]) -> Result<AllClaims, Denied> {
    let all: Map<String, Value> = serde_json::from_slice(text).map_err(|_| Denied::Malformed)?;
    Ok(all.iter().map(|(name, value)| (name.as_str().into(), as_text(value).into())).collect())
}

fn as_text(value: &Value) -> String {
    let is_plain = |value: &Value| !value.is_array() && !value.is_object();
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) if all.iter().all(is_plain) => {
            all.iter().map(as_text).collect::<Vec<_>>().join(",")
        }
        value => value.to_string(),
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Jwt {
    pub(crate) fn verify(
        &self,
        question: &Question<'_>,
        (keys, revoked): (&Keys, &Revoked),
        seen: &Seen<JwtToken>,
        leeway_s: u64,
    ) -> Result<Granted, Denied> {
        self.source.first_good(question, |token, place| {
            let grant = self.check(token, question, (keys, seen), leeway_s)?;
            revoked.admit(Granted { place: Some(place), ..grant.into() })
        })
    }

    fn check(
        &self,
        token: &str,
        question: &Question<'_>,
        (keys, seen): (&Keys, &Seen<JwtToken>),
        leeway_s: u64,
    ) -> Result<Arc<Grant>, Denied> {
        let read = seen.get_or(&[token.as_bytes()], || JwtToken::read(token, keys))?;
        let wanted = Wanted {
            issuers: &self.issuers,
            audiences: &self.audiences,
            may_be_endless: self.may_be_endless,
        };
        let named = Named { issuer: read.issuer.as_deref(), audiences: &read.audiences };
        wanted.check(&read.times, &named, (question.now_s, leeway_s))?;
        Ok(Arc::clone(&read.grant))
    }
}

impl JwtToken {
    /// Reads a token and checks its signature.
    fn read(token: &str, keys: &Keys) -> Result<Self, Denied> {
        let (signed, signature) = token.rsplit_once('.').ok_or(Denied::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(Denied::Malformed)?;
        let bytes = |text| base64_url_bare(text).ok_or(Denied::Malformed);
        let header: Header =
            serde_json::from_slice(&bytes(header)?).map_err(|_| Denied::Malformed)?;
        if header.crit.is_some() || header.b64.is_some() {
            return Err(Denied::Claim);
        }
        let signature = bytes(signature)?;
        let signed = signed.as_bytes();
        let id = header.kid.as_ref().map(String::as_bytes);
        let algorithm = header.alg.as_str();
        first_good(keys.meant(id), algorithm, |key| match (key, algorithm) {
            (Material::Secret(secret), "HS256") => Some(is_mac(&secret.hmac, signed, &signature)),
            (Material::P256 { fixed, .. }, "ES256") => {
                Some(fixed.verify_sig(signed, &signature).is_ok())
            }
            (Material::Ed25519(key), "EdDSA" | "Ed25519") => {
                Some(key.verify_sig(signed, &signature).is_ok())
            }
            (Material::Rsa { sha256, .. }, "RS256") => {
                Some(sha256.verify_sig(signed, &signature).is_ok())
            }
            _ => None,
        })?;
        let text = bytes(claims)?;
        let claims: Claims = serde_json::from_slice(&text).map_err(|_| Denied::Malformed)?;
        Ok(Self {
            times: Times {
                not_before_s: claims.nbf.map(time).transpose()?,
                expires_s: claims.exp.map(time).transpose()?,
            },
            issuer: claims.iss,
            audiences: match claims.aud {
                None => Vec::new(),
                Some(Audience::One(one)) => vec![one],
                Some(Audience::Many(many)) => many,
            },
            grant: Arc::new(Grant {
                subject: claims.sub.map(Into::into),
                id: claims.jti.map(Into::into),
                claims: claims_of(&text)?,
            }),
        })
    }
}
