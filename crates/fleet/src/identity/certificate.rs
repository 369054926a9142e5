//! Keys (ECDSA, P-256) and certificates (RFC 5280).

use super::IdentityError;
use crate::limits::CLOCKS_APART_MAX;
use aws_lc_rs::rand;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use freshet_base::clock::UnixMillis;
use freshet_base::hexadecimal;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
    SignatureAlgorithm,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::net::IpAddr;
use std::time::Duration;
use webpki::EndEntityCert;
use x509_cert::der::Decode;

/// A point that is not compressed (SEC 1, 2.3.3).
const POINT_BYTES: usize = 65;
/// Bytes of a random serial number: as many as may be (RFC 5280 §4.1.2.2).
const SERIAL_BYTES: usize = 16;

/// A public key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PublicKey([u8; POINT_BYTES]);

impl PublicKey {
    /// That of a pair.
    pub(super) fn of(pair: &KeyPair) -> Option<Self> {
        pair.public_key_raw().try_into().ok().map(Self)
    }

    /// The point.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether somebody who has the private key signed this.
    pub(super) fn has_signed(&self, said: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, self.0).verify(said, signature).is_ok()
    }
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hexadecimal::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = hexadecimal::decode(&text);
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("no public key of P-256"))
    }
}

/// A new private key.
pub(super) fn new_key() -> Result<KeyPair, IdentityError> {
    Ok(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)
}

/// What a certificate is to say.
pub(super) struct Wanted<'a> {
    /// Names in DNS and addresses that it proves, the first that of whom it is for.
    pub(super) names: &'a [String],
    /// Whether servers may show it, besides clients.
    pub(super) serves: bool,
    /// From when on it is wanted; it holds before, for clocks that are behind.
    pub(super) now: UnixMillis,
    /// How long it is to hold.
    pub(super) life: Duration,
}

/// What an issuing key says of itself. The same text each time: only the name and the key count for what it signs.
pub(super) fn authority(fleet: &str, now: UnixMillis, life: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("issuer of the fleet {fleet}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    hold(&mut params, now, life);
    params
}

/// A certificate for a key, PEM.
pub(super) fn issue(
    wanted: &Wanted<'_>,
    key: &PublicKey,
    issuer: &Issuer<'_, &KeyPair>,
) -> Result<String, IdentityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(wanted.names.first().map_or("", String::as_str));
    for name in wanted.names {
        params.subject_alt_names.push(match name.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(Ia5String::try_from(name.as_str())?),
        });
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if wanted.serves {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    params.use_authority_key_identifier_extension = true;
    params.serial_number = Some(serial()?);
    hold(&mut params, wanted.now, wanted.life);
    Ok(params.signed_by(key, issuer)?.pem())
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

fn hold(params: &mut CertificateParams, now: UnixMillis, life: Duration) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = Duration::from_millis(now.0);
    params.not_before = epoch + now.saturating_sub(CLOCKS_APART_MAX);
    params.not_after = epoch + now + life;
}

fn serial() -> Result<SerialNumber, IdentityError> {
    let mut bytes = [0; SERIAL_BYTES];
    rand::fill(&mut bytes).map_err(|_| IdentityError::LocalKey("no random bytes".into()))?;
    // Not below zero, and not shorter.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

/// What a certificate of a fleet says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Facts {
    /// Whose it is.
    pub key: PublicKey,
    /// From when on it was wanted.
    pub from: UnixMillis,
    /// When it ends.
    pub until: UnixMillis,
}

impl Facts {
    /// Those of the first certificate in a text; nothing where there is none of this kind.
    pub fn of(pem: &str) -> Option<Self> {
        Self::of_der(&CertificateDer::from_pem_slice(pem.as_bytes()).ok()?)
    }

    /// Those of a certificate; nothing where it is not of this kind.
    pub(super) fn of_der(der: &CertificateDer<'_>) -> Option<Self> {
        let inner = x509_cert::Certificate::from_der(der).ok()?.tbs_certificate;
        let key = inner.subject_public_key_info.subject_public_key.raw_bytes().try_into().ok()?;
        let at = |time: x509_cert::time::Time| time.to_unix_duration();
        let millis = |span: Duration| UnixMillis(0).plus(span);
        Some(Self {
            key: PublicKey(key),
            from: millis(at(inner.validity.not_before) + CLOCKS_APART_MAX),
            until: millis(at(inner.validity.not_after)),
        })
    }

    /// From when on a later one is to be asked for: a third of its life before it ends.
    pub fn renewal(&self) -> UnixMillis {
        self.from.plus(self.until.since(self.from) / 3 * 2)
    }
}

/// The names in DNS that a certificate proves, as they are written.
pub(super) fn names(der: &CertificateDer<'_>) -> Vec<String> {
    let read = EndEntityCert::try_from(der);
    read.map(|read| read.valid_dns_names().map(str::to_owned).collect()).unwrap_or_default()
}
