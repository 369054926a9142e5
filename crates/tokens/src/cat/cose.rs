//! COSE messages with one MAC or one signature (RFC 9052), with tags that say so or without.

use crate::denied::Denied;
use crate::keys::{Keys, Material, first_good, is_mac};
use crate::limits::DEPTH_MAX;
use aws_lc_rs::{digest, hmac};
use ciborium::Value;

/// Tags of CBOR: a CWT, COSE_Mac0 and COSE_Sign1.
const CWT: u64 = 61;
const MAC0: u64 = 17;
const SIGN1: u64 = 18;

/// Algorithms of COSE (RFC 9053, RFC 8812).
const HMAC_256: i128 = 5;
const ES256: i128 = -7;
const EDDSA: i128 = -8;
const PS256: i128 = -37;
const RS256: i128 = -257;

/// Labels of headers.
const ALGORITHM: i128 = 1;
const CRITICAL: i128 = 2;
const KEY_ID: i128 = 4;

/// Reads one item of CBOR, and no more.
pub(super) fn item(bytes: &[u8]) -> Result<Value, Denied> {
    let mut rest = bytes;
    let value = ciborium::de::from_reader_with_recursion_limit(&mut rest, DEPTH_MAX + 4);
    let value: Value = value.map_err(|_| Denied::Malformed)?;
    if rest.is_empty() { Ok(value) } else { Err(Denied::Malformed) }
}

/// A token whose signature is good.
pub(super) struct Opened {
    pub(super) claims: Value,
    /// With what another token is made that is good where this one is; `None` for one that is signed by a key that is
    /// not here.
    pub(super) seal: Option<Seal>,
    /// A digest of what is signed: what is around that can be written in many ways.
    pub(super) digest: u128,
}

/// The secret under which a token is, and the name that the token has for it, where it says one.
#[derive(Debug)]
pub(super) struct Seal {
    secret: hmac::Key,
    key_id: Option<Vec<u8>>,
}

/// Opens a token.
pub(super) fn open(token: &[u8], keys: &Keys) -> Result<Opened, Denied> {
    let (tag, message) = match item(token)? {
        // Its own tag is in front of one of COSE (RFC 8392 §6).
        Value::Tag(CWT, inner) => match *inner {
            Value::Tag(tag, message) => (Some(tag), *message),
            _ => return Err(Denied::Malformed),
        },
        Value::Tag(tag, message) => (Some(tag), *message),
        message => (None, message),
    };
    let Value::Array(parts) = message else { return Err(Denied::Malformed) };
    let Ok([protected, unprotected, payload, signature]) = <[Value; 4]>::try_from(parts) else {
        return Err(Denied::Malformed);
    };
    let (Value::Bytes(protected), Value::Map(unprotected)) = (protected, unprotected) else {
        return Err(Denied::Malformed);
    };
    let (Value::Bytes(payload), Value::Bytes(signature)) = (payload, signature) else {
        return Err(Denied::Malformed);
    };
    let Value::Map(header) = item(&protected)? else { return Err(Denied::Malformed) };
    if label(&header, CRITICAL)?.is_some() || label(&unprotected, CRITICAL)?.is_some() {
        return Err(Denied::Claim);
    }
    // What is not protected could be anybody's.
    let algorithm = match label(&header, ALGORITHM)? {
        Some(Value::Integer(number)) => i128::from(*number),
        Some(_) => return Err(Denied::Key),
        None => return Err(Denied::Malformed),
    };
    let id = match label(&header, KEY_ID)?.or(label(&unprotected, KEY_ID)?) {
        None => None,
        Some(Value::Bytes(id)) => Some(id.as_slice()),
        Some(_) => return Err(Denied::Malformed),
    };
    // Where a token is says what it is, so that it need not (RFC 8392 §6, RFC 9052 §2). Only a secret makes MACs.
    let tag = tag.unwrap_or(if algorithm == HMAC_256 { MAC0 } else { SIGN1 });
    let context = match tag {
        MAC0 => "MAC0",
        SIGN1 => "Signature1",
        _ => return Err(Denied::Malformed),
    };
    let signed = structure(context, protected, &payload)?;
    let name = match algorithm {
        HMAC_256 => "HS256",
        ES256 => "ES256",
        EDDSA => "EdDSA",
        PS256 => "PS256",
        RS256 => "RS256",
        _ => return Err(Denied::Key),
    };
    let key = first_good(keys.meant(id), name, |key| match (key, algorithm, tag) {
        (Material::Secret(secret), HMAC_256, MAC0) => {
            Some(is_mac(&secret.hmac, &signed, &signature))
        }
        (Material::P256 { fixed, .. }, ES256, SIGN1) => {
            Some(fixed.verify_sig(&signed, &signature).is_ok())
        }
        (Material::Ed25519(key), EDDSA, SIGN1) => Some(key.verify_sig(&signed, &signature).is_ok()),
        (Material::Rsa { pss, .. }, PS256, SIGN1) => {
            Some(pss.verify_sig(&signed, &signature).is_ok())
        }
        (Material::Rsa { sha256, .. }, RS256, SIGN1) => {
            Some(sha256.verify_sig(&signed, &signature).is_ok())
        }
        _ => None,
    })?;
    let seal = match &key.material {
        Material::Secret(secret) => {
            Some(Seal { secret: secret.hmac.clone(), key_id: id.map(<[u8]>::to_vec) })
        }
        _ => None,
    };
    Ok(Opened { claims: item(&payload)?, seal, digest: digest(&signed) })
}

/// The first half of SHA-256.
pub(super) fn digest(bytes: &[u8]) -> u128 {
    let whole = digest::digest(&digest::SHA256, bytes);
    let half = whole.as_ref().first_chunk().expect("SHA-256 has 32 bytes");
    u128::from_be_bytes(*half)
}

/// A token with these claims.
pub(super) fn sealed(claims: &Value, Seal { secret, key_id }: &Seal) -> Option<Vec<u8>> {
    let bytes = |value: &Value| {
        let mut out = Vec::new();
        ciborium::into_writer(value, &mut out).ok().map(|()| out)
    };
    let mut header = vec![(ALGORITHM.into(), HMAC_256.into())];
    header.extend(key_id.as_ref().map(|id| (KEY_ID.into(), Value::Bytes(id.clone()))));
    let (protected, payload) = (bytes(&Value::Map(header))?, bytes(claims)?);
    let signed = structure("MAC0", protected.clone(), &payload).ok()?;
    let mac = hmac::sign(secret, &signed);
    let parts = vec![
        Value::Bytes(protected),
        Value::Map(Vec::new()),
        Value::Bytes(payload),
        Value::Bytes(mac.as_ref().to_vec()),
    ];
    bytes(&Value::Tag(CWT, Box::new(Value::Tag(MAC0, Box::new(Value::Array(parts))))))
}

/// What is signed (RFC 9052 §4.4 and §6.3).
fn structure(context: &str, protected: Vec<u8>, payload: &[u8]) -> Result<Vec<u8>, Denied> {
    let parts = Value::Array(vec![
        Value::Text(context.into()),
        Value::Bytes(protected),
        Value::Bytes(Vec::new()),
        Value::Bytes(payload.to_vec()),
    ]);
    let mut out = Vec::with_capacity(payload.len() + 64);
    ciborium::into_writer(&parts, &mut out).map_err(|_| Denied::Malformed)?;
    Ok(out)
}

/// The value of a label, which is there once.
pub(super) fn label(map: &[(Value, Value)], label: i128) -> Result<Option<&Value>, Denied> {
    let is = |key: &Value| matches!(key, Value::Integer(number) if i128::from(*number) == label);
    let mut found = map.iter().filter(|(key, _)| is(key)).map(|(_, value)| value);
    let first = found.next();
    if found.next().is_some() { Err(Denied::Ambiguous) } else { Ok(first) }
}
