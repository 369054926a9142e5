//! The certificates a server proves its names with.
//!
//! A table from names to certificates is swapped whole on reload: handshakes that run keep the one
//! they began with, and a reload that fails leaves the old table in place. All of a table's files
//! are read when it is made and none during a handshake.
//!
//! Besides the certificates that are configured there are managed ones, which somebody gets by
//! himself and gives in any time. A configured one for the same name goes before.

use crate::error::NetError;
use crate::tls::challenge::Challenges;
use crate::tls::client_auth::common_name;
use crate::tls::handshake_context::present;
use crate::tls::on_demand::OnDemand;
use crate::tls::validity::Validity;
use crate::tls::{ALPN_ACME_TLS, ocsp, pem, provider};
use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use webpki::EndEntityCert;
use x509_cert::TbsCertificate;
use x509_cert::der::Decode as _;
use x509_cert::der::oid::db::rfc5280::{ANY_EXTENDED_KEY_USAGE, ID_KP_SERVER_AUTH};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{ExtendedKeyUsage, SubjectAltName};

/// Where one certificate comes from.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct CertificateSource {
    /// PEM file of the chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
    /// DER file of an OCSP response to staple (RFC 6066 §8). Without it a file beside the
    /// certificate with `.ocsp` added to its name is taken, where there is one. It is sent for as long
    /// as it says that the certificate is good: keeping it fresh is the job of whoever writes the file
    /// and reloads. One of the certificate before is not sent ([`Certificate::unstapled`]).
    pub ocsp: Option<PathBuf>,
    /// Names to serve this certificate for, such as `example.org` or `*.example.org`. When empty,
    /// the DNS names in the certificate.
    pub names: Vec<String>,
}

/// What a load found.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Loaded {
    /// Certificates in the table.
    pub certificates: usize,
    /// Names they are served for.
    pub names: usize,
    /// Certificates with an OCSP response.
    pub staples: usize,
}

/// All certificates of a listener. A client's name is looked up exactly, then as a wildcard of one
/// label, and otherwise gets the first certificate. Where several certificates have the same name
/// (an ECDSA and an RSA one), the first whose key the client can verify is used.
pub struct CertificateStore {
    table: ArcSwap<Table>,
    /// Held during a reload, so that a slow old one cannot overtake a new one.
    sources: Mutex<Sources>,
    challenges: Arc<Challenges>,
    on_demand: ArcSwap<Option<Arc<dyn OnDemand>>>,
}

/// What a table is made of.
struct Sources {
    configured: Vec<Certificate>,
    managed: Vec<Certificate>,
}

/// One certificate as it was read.
#[derive(Clone)]
pub struct Certificate {
    source: CertificateSource,
    certified: Arc<CertifiedKey>,
    /// As it is when its staple is over.
    bare: Option<Bare>,
    unstapled: Option<String>,
    names: Vec<Box<str>>,
    /// What it is called: the first of its names, or what else is known of it.
    called: Box<str>,
    is_for_servers: bool,
    validity: Option<Validity>,
}

/// A certificate without its staple.
#[derive(Clone)]
struct Bare {
    /// The last second in which the staple says something, of Unix time.
    staple_until_s: i64,
    certified: Arc<CertifiedKey>,
}

/// Names are chosen by clients, so the map keeps its keyed default hasher.
struct Table {
    by_name: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
    default: Vec<Arc<CertifiedKey>>,
    /// Those whose staples end, with what is served from then on.
    ending: Vec<(Arc<CertifiedKey>, Bare)>,
    loaded: Loaded,
    expiries: Vec<Expiry>,
}

/// When a certificate ends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Expiry {
    /// The first of its names; of one that names no host its address, whom it is for, or its file.
    pub name: Box<str>,
    /// Its last second, of Unix time.
    pub until_s: i64,
}

impl CertificateStore {
    /// Loads `sources`; the first is the default.
    ///
    /// # Errors
    /// [`NetError::ConfigCertificateMissing`], and the first that [`Certificate::read`] has.
    pub fn load(sources: Vec<CertificateSource>) -> Result<Arc<Self>, NetError> {
        if sources.is_empty() {
            return Err(NetError::ConfigCertificateMissing);
        }
        Ok(Self::of(sources.into_iter().map(Certificate::read).collect::<Result<_, _>>()?))
    }

    /// Those that were read; the first is the default. Without any, handshakes are refused until there are some, by
    /// [`CertificateStore::adopt`] or [`CertificateStore::manage`].
    pub fn of(configured: Vec<Certificate>) -> Arc<Self> {
        let table = ArcSwap::from_pointee(Table::of(&configured, &[]));
        let sources = Mutex::new(Sources { configured, managed: Vec::new() });
        Arc::new(Self { table, sources, challenges: Arc::default(), on_demand: ArcSwap::default() })
    }

    /// The configured ones, as they were read.
    pub fn configured(&self) -> Vec<Certificate> {
        self.lock().configured.clone()
    }

    /// Serves from here on what another store has configured.
    pub fn adopt(&self, other: &Self) {
        let configured = other.configured();
        let mut sources = self.lock();
        sources.configured = configured;
        self.install(&sources);
    }

    /// Serves these besides the configured ones, in place of those managed before. Those that cannot
    /// be read are left out. Reads files: not for a worker's thread.
    ///
    /// # Errors
    /// What is wrong with each that was left out.
    pub fn manage(&self, managed: &[CertificateSource]) -> Result<(), Vec<NetError>> {
        let mut errors = Vec::new();
        let read = managed.iter().filter_map(|source| {
            Certificate::read(source.clone()).map_err(|error| errors.push(error)).ok()
        });
        let read = read.collect();
        let mut sources = self.lock();
        sources.managed = read;
        self.install(&sources);
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// What the present table holds.
    pub fn loaded(&self) -> Loaded {
        self.table.load().loaded
    }

    /// When each certificate ends that says so; managed ones come last.
    pub fn expiries(&self) -> Vec<Expiry> {
        self.table.load().expiries.clone()
    }

    /// Whether a configured certificate is for this name, which is in lower case.
    pub fn has_configured(&self, name: &str) -> bool {
        let wildcard = name.split_once('.').map(|(_, rest)| format!("*.{rest}"));
        let is_for = |known: &str| known == name || wildcard.as_deref() == Some(known);
        self.lock().configured.iter().any(|one| one.names.iter().any(|known| is_for(known)))
    }

    /// What proves to an authority that names are ours.
    pub fn challenges(&self) -> &Arc<Challenges> {
        &self.challenges
    }

    /// Has clients that ask for a name without a certificate wait for this one to get it; for nobody,
    /// who is answered at once.
    pub fn set_on_demand(&self, provider: Option<Arc<dyn OnDemand>>) {
        self.on_demand.store(Arc::new(provider));
    }

    /// Whether somebody gets certificates for names that clients ask for.
    pub(super) fn is_provided(&self) -> bool {
        self.on_demand.load().is_some()
    }

    /// Who gets a certificate for this name, in lower case, where there is none and somebody may.
    pub(super) fn provider_for(&self, name: &str) -> Option<Arc<dyn OnDemand>> {
        let provider = self.on_demand.load();
        let provider = provider.as_ref().as_ref()?;
        (!self.has(name)).then(|| Arc::clone(provider))
    }

    /// Whether there is a certificate for this name, in lower case, configured or managed.
    pub fn has(&self, name: &str) -> bool {
        self.table.load().named(name).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn install(&self, sources: &Sources) {
        self.table.store(Arc::new(Table::of(&sources.configured, &sources.managed)));
    }
}

impl ResolvesServerCert for CertificateStore {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        present(|handshake| handshake.note_name(hello.server_name().unwrap_or_default()));
        if is_validation(&hello) {
            return self.challenges.certificate(&hello.server_name()?.to_ascii_lowercase());
        }
        let table = self.table.load();
        let candidates = table.candidates(hello.server_name());
        let usable =
            |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        // Where none is usable, rustls refuses with the right alert.
        let found = candidates.iter().find(usable).or_else(|| candidates.first())?;
        Some(Arc::clone(table.as_of(found, now_s())))
    }
}

impl fmt::Debug for CertificateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateStore").field("loaded", &self.loaded()).finish_non_exhaustive()
    }
}

/// Whether an authority looks for the proof of a name (RFC 8737 §3): it offers that protocol alone.
fn is_validation(hello: &ClientHello<'_>) -> bool {
    let Some(mut offered) = hello.alpn() else { return false };
    offered.next() == Some(ALPN_ACME_TLS) && offered.next().is_none()
}

impl Certificate {
    /// Reads the files of one. Not for a worker's thread.
    ///
    /// # Errors
    /// [`NetError::ConfigFile`] and [`NetError::ConfigKeyMismatch`].
    pub fn read(source: CertificateSource) -> Result<Self, NetError> {
        let mut certified = certified_key(&source)?;
        let staple = staple(&source, &mut certified)?;
        let (bare, unstapled) = match staple {
            Staple::Sent(bare) => (bare, None),
            Staple::Unsent(why) => (None, Some(why)),
        };
        let names = match source.names.as_slice() {
            [] => names_in(&source.certificate, &certified)?,
            names => names.iter().map(|name| name.to_ascii_lowercase().into()).collect(),
        };
        let first = certified.end_entity_cert().ok();
        let validity = first.and_then(Validity::of);
        let content = first.and_then(|first| x509_cert::Certificate::from_der(first).ok());
        let content = content.map(|content| content.tbs_certificate);
        let called = names.first().cloned().or_else(|| called_otherwise(content.as_ref()?));
        let called = called.unwrap_or_else(|| source.certificate.display().to_string().into());
        let is_for_servers = content.as_ref().is_none_or(is_for_servers);
        let certified = Arc::new(certified);
        Ok(Self { source, certified, bare, unstapled, names, called, is_for_servers, validity })
    }

    /// Where it comes from.
    pub fn source(&self) -> &CertificateSource {
        &self.source
    }

    /// The names it is served for, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Whether it is for hosts by name: otherwise clients are shown it only where it is the first of all.
    pub fn names_hosts(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether it is for servers, by what it says of its use (RFC 5280 §4.2.1.12): clients refuse others.
    pub fn is_for_servers(&self) -> bool {
        self.is_for_servers
    }

    /// Why the OCSP response there is for it is not sent, naming the file.
    pub fn unstapled(&self) -> Option<&str> {
        self.unstapled.as_deref()
    }

    /// From when until when it holds; `None` for one that does not say it.
    pub fn validity(&self) -> Option<Validity> {
        self.validity
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Table {
    fn of(configured: &[Certificate], managed: &[Certificate]) -> Self {
        let mut table = Self {
            by_name: HashMap::new(),
            default: Vec::new(),
            ending: Vec::new(),
            loaded: Loaded::default(),
            expiries: Vec::new(),
        };
        for one in configured.iter().chain(managed) {
            let Certificate { certified, bare, names, called, validity, .. } = one;
            table.ending.extend(bare.clone().map(|bare| (Arc::clone(certified), bare)));
            if let Some(validity) = validity {
                let expiry = Expiry { name: called.clone(), until_s: validity.until_s };
                table.expiries.push(expiry);
            }
            if table.default.is_empty() || names.iter().any(|name| table.is_default_name(name)) {
                table.default.push(Arc::clone(certified));
            }
            table.loaded.certificates += 1;
            table.loaded.staples += usize::from(certified.ocsp.is_some());
            for name in names {
                table.by_name.entry(name.clone()).or_default().push(Arc::clone(certified));
            }
        }
        table.loaded.names = table.by_name.len();
        table
    }

    /// Whether the first certificate of all is served for this name, so that another one with the
    /// same name belongs to the default as well.
    fn is_default_name(&self, name: &str) -> bool {
        let first = self.default.first();
        self.by_name
            .get(name)
            .and_then(|certified| certified.first())
            .is_some_and(|certified| first.is_some_and(|first| Arc::ptr_eq(first, certified)))
    }

    /// A certificate as it is served now.
    fn as_of<'a>(&'a self, found: &'a Arc<CertifiedKey>, now_s: i64) -> &'a Arc<CertifiedKey> {
        let mut over = self.ending.iter().filter(|(_, bare)| bare.staple_until_s < now_s);
        over.find(|(one, _)| Arc::ptr_eq(one, found)).map_or(found, |(_, bare)| &bare.certified)
    }

    fn candidates(&self, name: Option<&str>) -> &[Arc<CertifiedKey>] {
        let Some(name) = name else { return &self.default };
        self.named(&name.to_ascii_lowercase()).unwrap_or(&self.default)
    }

    /// Those for this name, in lower case, or for a wildcard that it is of.
    fn named(&self, name: &str) -> Option<&[Arc<CertifiedKey>]> {
        let below = || self.by_name.get(format!("*.{}", name.split_once('.')?.1).as_str());
        self.by_name.get(name).or_else(below).map(Vec::as_slice)
    }
}

fn certified_key(source: &CertificateSource) -> Result<CertifiedKey, NetError> {
    let chain = pem::certificates(&source.certificate)?;
    let key = pem::private_key(&source.key)?;
    let is_short = is_short_rsa(&key);
    let why_not = |error: rustls::Error| match is_short {
        true => "an RSA key of fewer than 2048 bits is too short for TLS".to_owned(),
        false => error.to_string(),
    };
    let key = provider()
        .key_provider
        .load_private_key(key)
        .map_err(|error| NetError::file(&source.key, why_not(error)))?;
    let certified = CertifiedKey::new(chain, key);
    let fits = |one: &CertificateDer<'static>| {
        let key = Arc::clone(&certified.key);
        CertifiedKey::new(vec![one.clone()], key).keys_match().is_ok()
    };
    match certified.keys_match() {
        Ok(()) => {}
        Err(_) if certified.cert.iter().skip(1).any(fits) => {
            let why = "the key fits a later certificate in it: put the server's certificate first";
            return Err(NetError::file(&source.certificate, why));
        }
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
            return Err(NetError::ConfigKeyMismatch {
                certificate: source.certificate.clone(),
                key: source.key.clone(),
            });
        }
        Err(error) => return Err(NetError::file(&source.certificate, error)),
    }
    Ok(certified)
}

/// Whether a key is of RSA and has fewer than 2048 bits: with those it has 1190 bytes.
fn is_short_rsa(key: &PrivateKeyDer<'_>) -> bool {
    const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
    let (bytes, is_rsa) = match key {
        PrivateKeyDer::Pkcs1(key) => (key.secret_pkcs1_der(), true),
        PrivateKeyDer::Pkcs8(key) => {
            let bytes = key.secret_pkcs8_der();
            (bytes, bytes.windows(RSA_ENCRYPTION.len()).take(32).any(|part| part == RSA_ENCRYPTION))
        }
        _ => return false,
    };
    is_rsa && bytes.len() < 1100
}

/// What became of an OCSP response.
enum Staple {
    /// It is sent, where there is one; what is served when it is over.
    Sent(Option<Bare>),
    /// It is not; why.
    Unsent(String),
}

/// Staples what there is to a certificate.
fn staple(source: &CertificateSource, certified: &mut CertifiedKey) -> Result<Staple, NetError> {
    let beside = with_suffix(&source.certificate, ".ocsp");
    let (path, is_wanted) = match &source.ocsp {
        Some(path) => (path, true),
        None if beside.exists() => (&beside, false),
        None => return Ok(Staple::Sent(None)),
    };
    let first = certified.end_entity_cert().map_err(|error| NetError::file(path, error))?;
    let unsent = |why: &str| Ok(Staple::Unsent(format!("{}: {why}: not sent", path.display())));
    let unread = |error: NetError| match is_wanted {
        true => Err(error),
        false => Ok(Staple::Unsent(format!("{error}: not sent"))),
    };
    let bytes = match pem::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return unread(error),
    };
    let said = match ocsp::read(&bytes, first) {
        Ok(said) => said,
        Err(ocsp::OF_ANOTHER) => return unsent(ocsp::OF_ANOTHER),
        Err(why) => return unread(NetError::file(path, why)),
    };
    if !said.is_good {
        return unsent("an OCSP response that says the certificate is revoked, or unknown");
    }
    if said.until_s.is_some_and(|until_s| until_s < now_s()) {
        return unsent("an OCSP response whose time is over");
    }
    let bare = said
        .until_s
        .map(|staple_until_s| Bare { staple_until_s, certified: Arc::new(certified.clone()) });
    certified.ocsp = Some(bytes);
    Ok(Staple::Sent(bare))
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn names_in(path: &Path, certified: &CertifiedKey) -> Result<Vec<Box<str>>, NetError> {
    let first = certified.end_entity_cert().map_err(|error| NetError::file(path, error))?;
    let certificate = EndEntityCert::try_from(first)
        .map_err(|error| NetError::file(path, format!("not a server certificate: {error}")))?;
    Ok(certificate.valid_dns_names().map(|name| name.to_ascii_lowercase().into()).collect())
}

/// What a certificate is called that names no host: the first of its addresses, or whom it is for.
fn called_otherwise(content: &TbsCertificate) -> Option<Box<str>> {
    let names = content.get::<SubjectAltName>().ok().flatten();
    let address = names.as_ref().and_then(|(_, names)| names.0.iter().find_map(address_of));
    let common = || Some(common_name(&content.subject)).filter(|name| !name.is_empty());
    address.map(|address| address.to_string()).or_else(common).map(Into::into)
}

fn address_of(name: &GeneralName) -> Option<IpAddr> {
    let GeneralName::IpAddress(bytes) = name else { return None };
    let bytes = bytes.as_bytes();
    let short = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    short.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

fn is_for_servers(content: &TbsCertificate) -> bool {
    let uses = content.get::<ExtendedKeyUsage>().ok().flatten();
    let is_any = |uses: &ExtendedKeyUsage| {
        uses.0.iter().any(|one| *one == ID_KP_SERVER_AUTH || *one == ANY_EXTENDED_KEY_USAGE)
    };
    uses.is_none_or(|(_, uses)| is_any(&uses))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
