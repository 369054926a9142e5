//! The signature of a manifest: CMS (RFC 5652), detached, at the manifest's end (NFV-SOL 004 §5.1, first
//! option), by a certificate that the operator names. There is no chain: who may sign is a short list.

use crate::PackageError;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use cms::content_info::ContentInfo;
use cms::signed_data::{SignedData, SignerIdentifier, SignerInfo};
use der::asn1::{ObjectIdentifier, OctetString};
use der::{Decode, DecodePem, Encode};
use x509_cert::Certificate;

const BEGIN: &str = "-----BEGIN CMS-----";
const END: &str = "-----END CMS-----";
const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");
const CONTENT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.3");
const MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");
const SHA_256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
/// Ways of signing with SHA-256, and the keys they are for.
const ECDSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const RSA: [ObjectIdentifier; 2] = [
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1"),
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11"),
];

/// Whose packages are taken.
#[derive(Debug)]
pub struct Trust(Option<Vec<Certificate>>);

impl Trust {
    /// Packages that one of these certificates has signed; each is PEM.
    ///
    /// # Errors
    /// The certificate that is none, by its place in the list.
    pub fn signers(certificates: &[String]) -> Result<Self, PackageError> {
        let read = |(index, text): (usize, &String)| {
            Certificate::from_pem(text.trim()).map_err(|error| {
                PackageError::client(format!("certificate {}", index + 1), error.to_string())
            })
        };
        certificates
            .iter()
            .enumerate()
            .map(read)
            .collect::<Result<_, _>>()
            .map(|all| Self(Some(all)))
    }

    /// All packages, signed or not: whoever can bring one can run what is in it.
    pub fn anybody() -> Self {
        Self(None)
    }
}

/// What of a manifest is signed: all before the signature.
pub(crate) fn content(manifest: &str) -> &str {
    manifest.find(BEGIN).map_or(manifest, |at| &manifest[..at])
}

/// The subject of who has signed a manifest.
pub(crate) fn verify(
    name: &str,
    manifest: &str,
    trust: &Trust,
    now_s: u64,
) -> Result<Option<String>, PackageError> {
    let Trust(Some(signers)) = trust else { return Ok(None) };
    let wrong = |what: &str| PackageError::client(name, what);
    let content = content(manifest);
    let block = &manifest[content.len()..];
    let end = block.find(END).ok_or_else(|| wrong("is not signed"))?;
    if !block[end + END.len()..].trim().is_empty() {
        return Err(wrong("has something after its signature"));
    }
    let (label, bytes) = der::pem::decode_vec(&block.as_bytes()[..end + END.len()])
        .map_err(|error| wrong(&format!("has a signature that is no PEM: {error}")))?;
    let malformed = |error: der::Error| wrong(&format!("has a signature that is no CMS: {error}"));
    let info = ContentInfo::from_der(&bytes).map_err(malformed)?;
    if label != "CMS" || info.content_type != SIGNED_DATA {
        return Err(wrong("has a signature that is no CMS of signed data"));
    }
    let signed: SignedData = info.content.decode_as().map_err(malformed)?;
    let [signer_info] = signed.signer_infos.0.as_slice() else {
        return Err(wrong("must have one signature"));
    };
    let certificate = signers
        .iter()
        .find(|certificate| is_named(signer_info, certificate))
        .ok_or_else(|| wrong("is signed by nobody whose packages are taken"))?;
    let validity = &certificate.tbs_certificate.validity;
    let [from_s, to_s] =
        [validity.not_before, validity.not_after].map(|time| time.to_unix_duration().as_secs());
    if !(from_s..=to_s).contains(&now_s) {
        return Err(wrong("is signed by a certificate that does not hold now"));
    }
    if !holds(signer_info, certificate, content.as_bytes()).map_err(malformed)? {
        return Err(wrong("has a signature that is not of it"));
    }
    Ok(Some(certificate.tbs_certificate.subject.to_string()))
}

/// Whether a signature says that it is by a certificate.
fn is_named(signer: &SignerInfo, certificate: &Certificate) -> bool {
    match &signer.sid {
        SignerIdentifier::IssuerAndSerialNumber(named) => {
            named.issuer == certificate.tbs_certificate.issuer
                && named.serial_number == certificate.tbs_certificate.serial_number
        }
        SignerIdentifier::SubjectKeyIdentifier(_) => false,
    }
}

/// Whether a signature is of this content, by this certificate's key (RFC 5652 §5.4, §5.6).
fn holds(signer: &SignerInfo, certificate: &Certificate, content: &[u8]) -> der::Result<bool> {
    if signer.digest_alg.oid != SHA_256 {
        return Ok(false);
    }
    let Some(attributes) = &signer.signed_attrs else { return Ok(false) };
    let one = |wanted: ObjectIdentifier| {
        let mut found = attributes.iter().filter(|one| one.oid == wanted);
        let values = found.next().filter(|_| found.next().is_none())?.values.as_slice();
        let [value] = values else { return None };
        Some(value)
    };
    let (Some(kind), Some(hash)) = (one(CONTENT_TYPE), one(MESSAGE_DIGEST)) else {
        return Ok(false);
    };
    let hash: OctetString = hash.decode_as()?;
    if kind.decode_as::<ObjectIdentifier>()? != DATA
        || hash.as_bytes() != digest(&SHA256, content).as_ref()
    {
        return Ok(false);
    }
    let key = &certificate.tbs_certificate.subject_public_key_info;
    let Some(key) = key.subject_public_key.as_bytes() else { return Ok(false) };
    let way = signer.signature_algorithm.oid;
    let algorithm: &'static dyn VerificationAlgorithm = if way == ECDSA {
        &ECDSA_P256_SHA256_ASN1
    } else if RSA.contains(&way) {
        &RSA_PKCS1_2048_8192_SHA256
    } else {
        return Ok(false);
    };
    // What is signed is the set of attributes, with the tag of a set.
    let signed = attributes.to_der()?;
    let key = UnparsedPublicKey::new(algorithm, key);
    Ok(key.verify(&signed, signer.signature.as_bytes()).is_ok())
}
