//! Files of keys, in the forms that operators have.

use crate::keys::{Key, KeyError, Material};
use crate::limits::{HS256_BYTES_MIN, RSA_BITS_MIN};
use crate::text::base64_url;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;

/// What editors put before a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Algorithms (RFC 7518 §3.1, RFC 8037) that signatures are verified by.
const ALGORITHMS: &[&str] = &["HS256", "ES256", "EdDSA", "Ed25519", "RS256", "PS256"];

/// Reads one file: keys of it are added to `keys`, and names of those that are not used here to `passed_over`.
pub(crate) fn read(
    name: &str,
    content: &[u8],
    keys: &mut Vec<Key>,
    passed_over: &mut Vec<String>,
) -> Result<(), KeyError> {
    let content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
    let start = content.trim_ascii_start();
    // Programs write what is in a key before its block, and people write what it is for.
    if has(content, b"-----BEGIN ") {
        return read_pem(name, content, keys);
    }
    if start.starts_with(b"{") {
        return read_set(name, content, keys, passed_over);
    }
    if start.is_empty() {
        return Ok(());
    }
    if let Some(what) = public(content) {
        let why = format!(
            "it is {what}, which everybody may have, so it cannot be a secret; a public key is read as PEM (openssl pkey -pubout) or from a JSON Web Key Set"
        );
        return Err(KeyError::Unreadable { name: name.into(), why });
    }
    let secret = content.strip_suffix(b"\n").unwrap_or(content);
    let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
    let material = Material::secret(secret);
    keys.push(Key { id: name.into(), is_named: false, algorithm: None, material });
    Ok(())
}

/// What form of a public key a file has that is not read here. Taken for a secret, all who have it could sign.
fn public(content: &[u8]) -> Option<&'static str> {
    const HEADS: [&[u8]; 4] = [b"ssh-", b"ecdsa-sha2-", b"sk-ssh-", b"sk-ecdsa-"];
    let start = content.trim_ascii_start();
    if HEADS.iter().any(|head| start.starts_with(head)) {
        return Some("a key of SSH");
    }
    if has(content, b"PUBLIC KEY") || has(content, b"\"kty\"") || has(content, b"KeyValue>") {
        return Some("a public key");
    }
    let text: Vec<u8> =
        content.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let is_der = |bytes: &[u8]| {
        let oids = [OID_P256, OID_RSA, OID_ED25519, OID_EC];
        bytes.first() == Some(&0x30) && oids.iter().any(|oid| has(bytes, oid))
    };
    let decoded = STANDARD.decode(text).ok();
    if is_der(content) || decoded.is_some_and(|bytes| is_der(&bytes)) {
        return Some("a public key or a certificate in DER");
    }
    None
}

fn has(content: &[u8], part: &[u8]) -> bool {
    content.windows(part.len()).any(|window| window == part)
}

/// Object identifiers in the head of a public key (RFC 5480, RFC 8017, RFC 8410).
const OID_P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const OID_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const OID_ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const OID_EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

fn read_pem(name: &str, content: &[u8], keys: &mut Vec<Key>) -> Result<(), KeyError> {
    let unreadable = |why: &str| KeyError::Unreadable { name: name.into(), why: why.into() };
    let blocks = SubjectPublicKeyInfoDer::pem_slice_iter(content);
    for (index, block) in blocks.enumerate() {
        let block = block.map_err(|error| unreadable(&format!("it is no PEM: {error:?}")))?;
        let head = &block[..block.len().min(40)];
        let material = if has(head, OID_P256) {
            Material::p256(&block)
        } else if has(head, OID_RSA) {
            Material::rsa(&block)
        } else if has(head, OID_ED25519) {
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
        keys.push(Key { id, is_named: false, algorithm: None, material });
    }
    if has(content, b"PRIVATE KEY") {
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

fn read_set(
    name: &str,
    content: &[u8],
    keys: &mut Vec<Key>,
    passed_over: &mut Vec<String>,
) -> Result<(), KeyError> {
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
        if !key.is_of_a_kind_used() {
            passed_over.push(id);
            continue;
        }
        let material = key.material();
        let material = material.ok_or_else(|| weak(format!("key `{id}` is broken or weak")))?;
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
        // The others have one algorithm by what they are.
        let algorithm = ["RS256", "PS256"].into_iter().find(|one| key.alg.as_deref() == Some(one));
        keys.push(Key { id, is_named: key.kid.is_some(), algorithm, material });
    }
    Ok(())
}

impl WebKey {
    /// Whether its type, curve and algorithm are among those that are verified with. A set has others as well: they
    /// are passed over, so that one that comes to it takes nothing from the rest (RFC 7517 §5).
    fn is_of_a_kind_used(&self) -> bool {
        let is_type = matches!(
            (self.kty.as_str(), self.crv.as_deref()),
            ("oct" | "RSA", _) | ("EC", Some("P-256")) | ("OKP", Some("Ed25519"))
        );
        is_type && self.alg.as_deref().is_none_or(|alg| ALGORITHMS.contains(&alg))
    }

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
    use crate::keys::Keys;

    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEP+Y7dq0k6diD3IcsLf8Ql2zu3T9t\n\
        SZX8sczVGOGI1nOGnkdlM2j8p5sRrDz0w5imm3C6pktpiwo5u0ehG8284g==\n\
        -----END PUBLIC KEY-----\n";

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
    fn a_public_key_is_one_whatever_stands_around_it() {
        for around in [
            "\u{feff}",
            "of the player's team\n",
            "Public-Key: (256 bit)\npub:\n    04:7f\n",
            "\r\n",
        ] {
            assert_eq!(read(&format!("{around}{PUBLIC}")), Ok(vec!["P-256"]), "{around:?}");
        }
        assert_eq!(
            read(&format!("{PUBLIC}that was it\n").replace('\n', "\r\n")),
            Ok(vec!["P-256"])
        );
        let set = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        assert_eq!(read(&format!("\u{feff}{set}")), Ok(vec!["Ed25519"]));
        assert_eq!(read("\u{feff}secret\r\n"), read("secret"));
    }

    #[test]
    fn a_public_key_is_never_taken_for_a_secret() {
        let base64: String = PUBLIC.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(&base64).unwrap();
        assert!(Keys::read([("f", &*der)]).unwrap_err().to_string().contains("in DER"));
        for (content, says) in [
            (&*base64, "in DER"),
            (&base64.replace("DQYJ", "\nDQYJ"), "in DER"),
            ("ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY me@here", "of SSH"),
            ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI me@here", "of SSH"),
            ("---- BEGIN SSH2 PUBLIC KEY ----\nAAAAB3Nz\n", "a public key"),
            (r#"[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS"}]"#, "a public key"),
            ("<RSAKeyValue><Modulus>AQAB</Modulus></RSAKeyValue>", "a public key"),
        ] {
            let error = read(content).expect_err(content).to_string();
            assert!(error.contains(says) && error.contains("pkey -pubout"), "{content}: {error}");
        }
    }

    #[test]
    fn what_a_set_has_besides_takes_nothing_from_the_rest() {
        let set = |more: &str| {
            let set = format!(
                r#"{{"keys":[{more},{{"kty":"OKP","crv":"Ed25519",
                    "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}}]}}"#
            );
            Keys::read([("f", set.as_bytes())])
        };
        for other in [
            r#"{"kty":"EC","crv":"P-384","kid":"b","alg":"ES384","x":"AA","y":"AA"}"#,
            r#"{"kty":"OKP","crv":"Ed448","kid":"b","x":"AA"}"#,
            r#"{"kty":"AKP","alg":"ML-DSA-44","kid":"b","pub":"AA"}"#,
            r#"{"kty":"RSA","alg":"RS512","kid":"b","n":"AQAB","e":"AQAB"}"#,
            r#"{"kty":"RSA","alg":"RSA-OAEP","kid":"b","n":"AQAB","e":"AQAB"}"#,
        ] {
            let keys = set(other).expect(other);
            assert_eq!(keys.kinds().collect::<Vec<_>>(), ["Ed25519"]);
            assert_eq!(keys.passed_over(), ["b"], "{other}");
        }
        let alone = r#"{"keys":[{"kty":"EC","crv":"P-384","x":"AA","y":"AA"}]}"#;
        assert!(read(alone).unwrap_err().to_string().contains("no key"));
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
