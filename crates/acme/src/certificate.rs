//! Keys, requests for certificates, and what came back.

use crate::error::{AcmeError, FailureKind};
use crate::limits::CHAIN_MAX;
use crate::plan::KeyType;
use der::pem::LineEnding;
use der::{Encode, EncodePem};
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, PublicKeyData, RsaKeySize,
};
use x509_cert::Certificate;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, SubjectAltName};

/// What a certificate says of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Facts {
    /// Its first second, of Unix time.
    pub(crate) from_s: i64,
    /// Its last.
    pub(crate) until_s: i64,
    /// What renewal information goes by (RFC 9773 §4.1); `None` where its issuer has no key
    /// identifier.
    pub(crate) renewal_id: Option<String>,
}

/// A new key for a certificate, as PEM.
pub(crate) fn new_key(kind: KeyType) -> Result<String, AcmeError> {
    let made = match kind {
        KeyType::P256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        KeyType::P384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
        KeyType::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
        KeyType::Rsa4096 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_4096),
    };
    Ok(made.map_err(|error| unusable(&error))?.serialize_pem())
}

/// A request for a certificate for one name (RFC 2986), DER.
pub(crate) fn request(key_pem: &str, name: &str) -> Result<Vec<u8>, AcmeError> {
    let key = KeyPair::from_pem(key_pem).map_err(|error| unusable(&error))?;
    let mut params =
        CertificateParams::new(vec![name.to_owned()]).map_err(|error| unusable(&error))?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key).map_err(|error| unusable(&error))?;
    Ok(request.der().to_vec())
}

/// A certificate that proves a name in a handshake (RFC 8737 §3): chain and key as PEM.
pub(crate) fn challenge(name: &str, digest: &[u8]) -> Result<(String, String), AcmeError> {
    let mut params =
        CertificateParams::new(vec![name.to_owned()]).map_err(|error| unusable(&error))?;
    params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
    let key = KeyPair::generate().map_err(|error| unusable(&error))?;
    let made = params.self_signed(&key).map_err(|error| unusable(&error))?;
    Ok((made.pem(), key.serialize_pem()))
}

/// What a certificate says and its chain as it is kept, once all is as it was ordered: the key, the
/// name, and that it holds at `now_s`.
///
/// # Errors
/// [`FailureKind::Certificate`] with what is not.
pub(crate) fn check(
    chain_pem: &str,
    key_pem: &str,
    name: &str,
    now_s: i64,
) -> Result<(Facts, String), AcmeError> {
    let chain = chain(chain_pem)?;
    let first = chain.first().ok_or_else(|| wrong("it is empty"))?;
    let key = KeyPair::from_pem(key_pem).map_err(|error| unusable(&error))?;
    let own = &first.tbs_certificate.subject_public_key_info.subject_public_key;
    if own.raw_bytes() != PublicKeyData::der_bytes(&key) {
        return Err(wrong("it is for another key"));
    }
    let names = first.tbs_certificate.get::<SubjectAltName>();
    let names = names.map_err(|_| wrong("its names cannot be read"))?;
    let is_name = |one: &GeneralName| match one {
        GeneralName::DnsName(dns) => dns.as_str().eq_ignore_ascii_case(name),
        _ => false,
    };
    if !names.is_some_and(|(_, names)| names.0.iter().any(is_name)) {
        return Err(wrong(&format!("it is not for {name}")));
    }
    let facts = facts_of(first);
    if facts.until_s <= now_s {
        return Err(wrong("it has expired already"));
    }
    let mut clean = String::new();
    for one in &chain {
        let pem = one.to_pem(LineEnding::LF);
        clean.push_str(&pem.map_err(|error| wrong(&format!("it cannot be written: {error}")))?);
    }
    Ok((facts, clean))
}

fn chain(chain_pem: &str) -> Result<Vec<Certificate>, AcmeError> {
    let begin = "-----BEGIN CERTIFICATE-----";
    let count = chain_pem.matches(begin).count();
    if !(1..=CHAIN_MAX).contains(&count) {
        return Err(wrong(&format!("it is a chain of {count}, not of 1 to {CHAIN_MAX}")));
    }
    let pem = chain_pem.find(begin).and_then(|at| chain_pem.get(at..)).unwrap_or_default();
    Certificate::load_pem_chain(pem.as_bytes())
        .map_err(|error| wrong(&format!("it cannot be read: {error}")))
}

fn facts_of(certificate: &Certificate) -> Facts {
    let inner = &certificate.tbs_certificate;
    let seconds = |time: x509_cert::time::Time| {
        i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
    };
    let issuer = inner.get::<AuthorityKeyIdentifier>().ok().flatten();
    let issuer = issuer.and_then(|(_, identifier)| identifier.key_identifier);
    // RFC 9773 §4.1: the content of the serial number's encoding, a leading zero byte included.
    let serial = inner.serial_number.to_der().ok();
    let serial = serial.as_deref().and_then(|der| der.get(2..));
    let renewal_id = issuer.zip(serial).map(|(issuer, serial)| {
        format!("{}.{}", crate::jose::encode(issuer.as_bytes()), crate::jose::encode(serial))
    });
    Facts {
        from_s: seconds(inner.validity.not_before),
        until_s: seconds(inner.validity.not_after),
        renewal_id,
    }
}

fn wrong(message: &str) -> AcmeError {
    let message = format!("the authority's certificate is not what was ordered: {message}");
    AcmeError::new(FailureKind::Certificate, message)
}

fn unusable(error: &rcgen::Error) -> AcmeError {
    AcmeError::new(FailureKind::Storage, format!("a key or request could not be made: {error}"))
}
