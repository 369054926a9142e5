//! Certificates that clients show: who has to have signed them, and which names they prove.

use crate::error::NetError;
use crate::limits::CLIENT_AUTHORITIES_MAX;
use crate::tls::handshake_context::present;
use crate::tls::validity::Validity;
use crate::tls::{pem, provider};
use aws_lc_rs::digest;
use freshet_base::hexadecimal;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use webpki::EndEntityCert;
use x509_cert::der::Decode as _;

/// Names of a client's certificate that are kept; it may have thousands.
const NAMES_MAX: usize = 32;

/// Whose certificates a listener asks clients for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientAuth {
    /// PEM file of the authorities that sign them.
    pub ca: PathBuf,
    /// Whether a client without one is refused. One with a wrong one always is.
    pub required: bool,
}

impl ClientAuth {
    /// What checks certificates. Reads the file.
    ///
    /// # Errors
    /// [`NetError::ConfigFile`] and [`NetError::ConfigTls`].
    pub fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, NetError> {
        let roots = Arc::new(pem::authorities(&self.ca)?);
        let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider()));
        let builder = if self.required { builder } else { builder.allow_unauthenticated() };
        let verifier = builder.build();
        let verifier = verifier.map_err(|error| NetError::ConfigTls { why: error.to_string() })?;
        Ok(Arc::new(Bounded(verifier)))
    }
}

/// Refuses chains that are longer than [`CLIENT_AUTHORITIES_MAX`] allows; the rest is of another.
#[derive(Debug)]
struct Bounded(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Bounded {
    fn offer_client_auth(&self) -> bool {
        let offers = self.0.offer_client_auth();
        present(|handshake| handshake.ask(|| offers, |_| offers))
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        first: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if others.len() > CLIENT_AUTHORITIES_MAX {
            let why =
                format!("more than {CLIENT_AUTHORITIES_MAX} certificates beside the client's");
            return Err(rustls::Error::General(why));
        }
        self.0.verify_client_cert(first, others, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// What a client shows: its own certificate, and those of authorities up to one that is known.
pub type Chain<'a> = [CertificateDer<'a>];

/// Who says of which names clients are asked for a certificate.
pub trait AsksClients: fmt::Debug + Send + Sync {
    /// Whether one that wants to speak to the server of this name is, which is in lower case and empty
    /// where a client names none.
    fn asks(&self, name: &str) -> bool;

    /// Whether there is any name of which they are.
    fn asks_any(&self) -> bool;

    /// Whether one that has shown these when it was asked, or nothing, is let in at such a name: otherwise its
    /// session is not continued.
    fn lets_in(&self, name: &str, chain: &Chain<'_>) -> bool;
}

/// Asks for certificates by the name a client asked for, and takes any whose key the client has. Whose
/// it has to be is for the site to say, which is known with a request only: it refuses one of a version that
/// cannot be verified, of which nothing is asked here.
#[derive(Debug)]
pub(crate) struct BySite {
    asks: Arc<dyn AsksClients>,
}

impl BySite {
    pub(crate) fn new(asks: Arc<dyn AsksClients>) -> Self {
        Self { asks }
    }

    fn algorithms() -> &'static WebPkiSupportedAlgorithms {
        &provider().signature_verification_algorithms
    }

    /// Whether [`Authorities::verify`] refuses a certificate whoever has signed it: only version 3 says what it may
    /// be used for. A client that shows another is told so by the answer to its request, not by an alert.
    fn is_of_other_version(certificate: &CertificateDer<'_>) -> bool {
        matches!(EndEntityCert::try_from(certificate), Err(webpki::Error::UnsupportedCertVersion))
    }
}

impl ClientCertVerifier for BySite {
    fn offer_client_auth(&self) -> bool {
        present(|handshake| handshake.ask(|| self.asks.asks_any(), |name| self.asks.asks(name)))
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None: sites come and go with a reload, and a hint is none (RFC 8446 §4.2.4).
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if Self::is_of_other_version(certificate) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        rustls::crypto::verify_tls12_signature(message, certificate, signed, Self::algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if Self::is_of_other_version(certificate) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        rustls::crypto::verify_tls13_signature(message, certificate, signed, Self::algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        Self::algorithms().supported_schemes()
    }
}

/// The authorities of a site, and certificates of clients that sign themselves.
pub struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl Authorities {
    /// Those in a PEM file.
    ///
    /// # Errors
    /// As [`ClientAuth::verifier`].
    pub fn read(ca: &Path) -> Result<Self, NetError> {
        let verifier = ClientAuth { ca: ca.into(), required: true }.verifier()?;
        Ok(Self { verifier, named: pem::certificates(ca)? })
    }

    /// Whether one of them has signed a certificate, by way of the others that were shown with it, or it is
    /// among them itself, as what `openssl req -x509` makes may be, and it holds at `now_s` of Unix time. Some 100 µs.
    ///
    /// # Errors
    /// Why not.
    pub fn verify(&self, chain: &Chain<'_>, now_s: u64) -> Result<(), String> {
        let Some((first, others)) = chain.split_first() else {
            return Err("there is none".into());
        };
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now_s));
        // Of another version nobody has seen the key.
        if self.named.contains(first) && EndEntityCert::try_from(first).is_ok() {
            return holds(first, now_s);
        }
        let verified = self.verifier.verify_client_cert(first, others, now);
        verified.map(drop).map_err(|error| error.to_string())
    }
}

/// Whether a certificate holds at `now_s`, by what it says.
fn holds(certificate: &CertificateDer<'_>, now_s: u64) -> Result<(), String> {
    let validity = Validity::of(certificate).ok_or("it does not say how long it holds")?;
    let now_s = i64::try_from(now_s).unwrap_or(i64::MAX);
    match (now_s < validity.from_s, now_s > validity.until_s) {
        (true, _) => Err("it does not hold yet".into()),
        (_, true) => Err("it has expired".into()),
        _ => Ok(()),
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorities")
    }
}

/// A certificate that a client showed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// DNS names, in lower case, and URIs (RFC 5280 §4.2.1.6), `NAMES_MAX` at most.
    pub names: Box<[Box<str>]>,
    /// The common name of whom it is for, where there is one.
    pub common_name: Box<str>,
    /// Whom it is for, as RFC 4514 writes names: `CN=anna,O=Example`.
    pub subject: Box<str>,
    /// Who signed it, in the same way.
    pub issuer: Box<str>,
    /// Its number, in hexadecimal digits.
    pub serial: Box<str>,
    /// SHA-256 of it, in hexadecimal digits.
    pub fingerprint: Box<str>,
}

impl ClientCertificate {
    /// It, and the others that were shown with it.
    pub fn chain(&self) -> &Chain<'static> {
        &self.chain
    }

    /// The first of its DNS names and URIs; empty where it has none.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", |name| &**name)
    }

    /// The first of a chain; `None` where there is none, or none that can be read.
    pub(crate) fn read(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let first = chain.first()?;
        let content = x509_cert::Certificate::from_der(first).ok()?.tbs_certificate;
        let printed = |name: x509_cert::name::Name| cut(&printed(&name)).into();
        Some(Self {
            names: names(first),
            common_name: cut(&common_name(&content.subject)).into(),
            subject: printed(content.subject),
            issuer: printed(content.issuer),
            serial: hexadecimal::encode(without_sign(content.serial_number.as_bytes())).into(),
            fingerprint: hexadecimal::encode(digest::digest(&digest::SHA256, first).as_ref())
                .into(),
            chain: chain.iter().map(|one| one.clone().into_owned()).collect(),
        })
    }
}

/// A name as RFC 4514 writes it, its last part first, with the words for types of `openssl` and nginx.
fn printed(name: &x509_cert::name::Name) -> String {
    let part = |part: &x509_cert::name::RelativeDistinguishedName| {
        let words = part.0.iter().map(|word| {
            let word = word.to_string();
            let known =
                WORDS.iter().find_map(|(short, long)| Some((long, word.strip_prefix(short)?)));
            known.map_or_else(|| word.clone(), |(long, value)| format!("{long}{value}"))
        });
        words.collect::<Vec<_>>().join("+")
    };
    name.0.iter().rev().map(part).collect::<Vec<_>>().join(",")
}

/// Types of parts that RFC 4514 has no word for, by the word of the library and that of everybody else.
const WORDS: [(&str, &str); 2] = [("EMAIL=", "emailAddress="), ("SERIALNUMBER=", "serialNumber=")];

pub(super) fn common_name(name: &x509_cert::name::Name) -> String {
    let parts = name.0.iter().flat_map(|part| part.0.iter());
    let common =
        parts.map(ToString::to_string).find_map(|part| Some(part.strip_prefix("CN=")?.to_owned()));
    common.unwrap_or_default()
}

/// Longest name of a subject or an issuer that is kept, in bytes.
const NAME_BYTES_MAX: usize = 1024;

/// What fields and logs may have of a name: no control characters, and no more than some.
fn cut(text: &str) -> String {
    let plain = text.chars().map(|one| if one.is_control() { '?' } else { one });
    let mut out = String::new();
    for one in plain {
        if out.len() + one.len_utf8() > NAME_BYTES_MAX {
            break;
        }
        out.push(one);
    }
    out
}

/// The bytes of a number without the one that says it is not below zero.
fn without_sign(bytes: &[u8]) -> &[u8] {
    match bytes {
        [0, rest @ ..] if !rest.is_empty() => rest,
        bytes => bytes,
    }
}

fn names(certificate: &CertificateDer<'_>) -> Box<[Box<str>]> {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Box::default() };
    let dns = certificate.valid_dns_names().map(|name| name.to_ascii_lowercase().into());
    let uris = certificate.valid_uri_names().map(Into::into);
    dns.chain(uris).take(NAMES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};

    fn made(params: &CertificateParams) -> ClientCertificate {
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        ClientCertificate::read(&[made.der().clone()]).unwrap()
    }

    #[test]
    fn what_a_certificate_says_is_read() {
        let mut params = CertificateParams::new(vec!["Edge-1.example".to_owned()]).unwrap();
        let uri = "spiffe://fleet/edge-1".try_into().unwrap();
        params.subject_alt_names.push(SanType::URI(uri));
        params.distinguished_name.push(DnType::OrganizationName, "Example, Inc.");
        params.serial_number = Some(vec![0x0a, 0xff].into());
        let found = made(&params);
        assert_eq!(
            &*found.names,
            [Box::from("edge-1.example"), Box::from("spiffe://fleet/edge-1")]
        );
        assert!(found.subject.contains("O=Example\\, Inc."), "{}", found.subject);
        assert_eq!((&*found.serial, found.fingerprint.len()), ("0aff", 64));
        for (of, value) in
            [([1, 2, 840, 113_549, 1, 9, 1].as_slice(), "a@b.example"), (&[2, 5, 4, 5], "5")]
        {
            params.distinguished_name.push(DnType::CustomDnType(of.into()), value);
        }
        let found = made(&params);
        let end = found.subject.split(',').take(2).collect::<Vec<_>>();
        assert_eq!(end, ["serialNumber=5", "emailAddress=a@b.example"], "{}", found.subject);
        assert_eq!(found.issuer, found.subject);
        assert_eq!(ClientCertificate::read(&[]), None);
        assert_eq!(ClientCertificate::read(&[CertificateDer::from(&b"none"[..])]), None);
    }

    #[test]
    fn no_more_is_kept_than_the_limits() {
        let many: Vec<_> = (0..100).map(|number| format!("edge-{number}.example")).collect();
        let mut params = CertificateParams::new(many).unwrap();
        params.distinguished_name.push(DnType::OrganizationName, "line\nbreak".to_owned());
        params.distinguished_name.push(DnType::CommonName, "x".repeat(3000));
        let found = made(&params);
        assert_eq!((found.names.len(), found.subject.len()), (NAMES_MAX, NAME_BYTES_MAX));
        assert!(!found.subject.contains('\n'), "{}", found.subject);
    }

    #[test]
    fn a_certificate_is_verified_by_its_authority_while_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let authority = |name: &str| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(DnType::CommonName, name);
            let key = KeyPair::generate().unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, params.self_signed(&key).unwrap().pem()).unwrap();
            (Authorities::read(&path).unwrap(), Issuer::new(params, key))
        };
        let ((ours, issuer), (theirs, _)) = (authority("ours"), authority("theirs"));
        let mut params = CertificateParams::new(vec!["anna.example".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        let signed = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        let shown = ClientCertificate::read(&[signed.der().clone()]).unwrap();
        let (within, after) = (1_800_000_000, 2_000_000_000);
        assert_eq!(ours.verify(shown.chain(), within), Ok(()));
        assert!(ours.verify(shown.chain(), after).unwrap_err().contains("xpired"));
        // With no more others than a way to an authority has.
        let with = |others: usize| {
            [&[signed.der().clone()][..], &vec![signed.der().clone(); others]].concat()
        };
        assert_eq!(ours.verify(&with(CLIENT_AUTHORITIES_MAX), within), Ok(()));
        let why = ours.verify(&with(CLIENT_AUTHORITIES_MAX + 1), within).unwrap_err();
        assert!(why.contains("more than 6"), "{why}");
        assert!(theirs.verify(shown.chain(), within).is_err());
        // Who signs itself is let in where it is named, and by nobody else.
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let itself = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let path = folder.path().join("itself");
        std::fs::write(&path, itself.pem()).unwrap();
        let (named, shown) =
            (Authorities::read(&path).unwrap(), ClientCertificate::read(&[itself.der().clone()]));
        let shown = shown.unwrap();
        assert_eq!(named.verify(shown.chain(), within), Ok(()));
        assert!(named.verify(shown.chain(), after).unwrap_err().contains("xpired"));
        assert!(named.verify(shown.chain(), 1_000_000_000).is_err());
        assert!(ours.verify(shown.chain(), within).is_err());
        assert!(Authorities::read(&folder.path().join("none")).is_err());
    }
}
