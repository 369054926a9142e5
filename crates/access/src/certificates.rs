//! What clients prove with certificates: for a listener, and for each site that has authorities of its
//! own.

use crate::client::Client;
use arc_swap::ArcSwap;
use freshet_base::clock::UnixMillis;
use freshet_config::{Mistake, SiteSettings};
use freshet_http::reason::Reason;
use freshet_net::tls::client_auth::{Authorities, Chain, ClientCertificate};
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// How long is believed what was found of a certificate: connections live for hours, and one may end
/// meanwhile.
const BELIEVED_MS: u64 = 60_000;

/// What a site wants of certificates.
#[derive(Debug)]
pub struct SiteAuth {
    authorities: Authorities,
    is_required: bool,
}

/// A certificate that a client has shown.
#[derive(Debug)]
pub struct Shown {
    certificate: Arc<ClientCertificate>,
    /// Whether the listener has verified it, by authorities of its own.
    by_listener: bool,
    /// What was found last.
    found: RefCell<Option<Found>>,
}

/// Whether a site's authorities have signed it.
#[derive(Clone)]
struct Found {
    auth: Arc<SiteAuth>,
    at: UnixMillis,
    verdict: Result<(), String>,
}

impl Found {
    /// Whether it is of these authorities and still believed.
    fn is_of(&self, auth: &Arc<SiteAuth>) -> bool {
        let is_new = UnixMillis::now().0.abs_diff(self.at.0) < BELIEVED_MS;
        is_new && Arc::ptr_eq(&self.auth, auth)
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found").field("verdict", &self.verdict).finish_non_exhaustive()
    }
}

thread_local! {
    /// What this worker found last, and of what: a handshake asks when it continues a session, for each ticket and
    /// with the first request.
    static LAST: RefCell<Option<(Box<Chain<'static>>, Found)>> = const { RefCell::new(None) };
}

impl SiteAuth {
    /// Whether a client that has shown this when it was asked is let in.
    pub fn lets_in(self: &Arc<Self>, chain: &Chain<'_>) -> bool {
        if chain.is_empty() { !self.is_required } else { self.find(chain).verdict.is_ok() }
    }

    fn find(self: &Arc<Self>, chain: &Chain<'_>) -> Found {
        LAST.with_borrow_mut(|last| {
            let known = last.as_ref().filter(|(known, _)| **known == *chain);
            if let Some((_, found)) = known.filter(|(_, found)| found.is_of(self)) {
                return found.clone();
            }
            let at = UnixMillis::now();
            let verdict = self.authorities.verify(chain, at.0 / 1000);
            let found = Found { auth: Arc::clone(self), at, verdict };
            let chain = chain.iter().map(|one| one.clone().into_owned()).collect();
            *last = Some((chain, found.clone()));
            found
        })
    }
}

/// Names in certificates that are good for nothing any more, whoever has signed them.
#[derive(Debug, Default)]
pub struct RefusedNames(ArcSwap<HashSet<Box<str>>>);

impl RefusedNames {
    /// From now on it is these, in lower case.
    pub fn set(&self, names: impl IntoIterator<Item = Box<str>>) {
        self.0.store(Arc::new(names.into_iter().collect()));
    }

    /// Whether one that a client has shown is such.
    pub fn has(&self, shown: &Shown) -> bool {
        let names = self.0.load();
        !names.is_empty() && shown.certificate.names.iter().any(|name| names.contains(name))
    }
}

/// What the settings of a site want, with their file read.
///
/// # Errors
/// What is wrong with the file.
pub fn load(settings: &SiteSettings) -> Result<Option<Arc<SiteAuth>>, Mistake> {
    let Some(wanted) = &settings.client_auth else { return Ok(None) };
    let authorities = Authorities::read(&wanted.ca).map_err(|error| {
        Mistake::error(settings.client_auth_place, format!("client_ca: {error}"))
    })?;
    Ok(Some(Arc::new(SiteAuth { authorities, is_required: wanted.required })))
}

/// Whether a request for a site with these authorities may go on, by what its client has shown. `is_of` says
/// whether the name of a handshake is one of the site's.
///
/// # Errors
/// The status and the reason of its refusal.
pub fn admit(
    auth: &Arc<SiteAuth>,
    client: &Client,
    is_of: impl FnOnce(&str) -> bool,
) -> Result<(), (u16, Reason)> {
    // Whom the client has shown it to is of that handshake (RFC 9110 §7.4, §15.5.20).
    let sni = client.tls.as_ref().map(|tls| tls.sni.as_deref().unwrap_or_default());
    if sni.is_some_and(|name| !is_of(name)) {
        return Err((421, Reason::HandshakeOfOther));
    }
    // Nor was one asked before the site had authorities.
    if client.tls.as_ref().is_some_and(|tls| !tls.was_asked) {
        return Err((421, Reason::HandshakeOfOther));
    }
    match &client.shown {
        Some(shown) if shown.is_verified_by(auth) => Ok(()),
        Some(_) => Err((403, Reason::CertificateWrong)),
        None if auth.is_required => Err((403, Reason::CertificateMissing)),
        None => Ok(()),
    }
}

impl Shown {
    /// The certificate of a handshake, and whether the listener verifies those.
    pub fn new(certificate: &Arc<ClientCertificate>, by_listener: bool) -> Self {
        let certificate = Arc::clone(certificate);
        Self { certificate, by_listener, found: RefCell::default() }
    }

    /// The certificate, where it proves something to a site with these authorities, or without any to the
    /// listener.
    pub fn proved_to(&self, auth: Option<&Arc<SiteAuth>>) -> Option<&ClientCertificate> {
        let is_proved = match auth {
            Some(auth) => self.is_verified_by(auth),
            None => self.by_listener,
        };
        is_proved.then_some(&*self.certificate)
    }

    fn is_verified_by(&self, auth: &Arc<SiteAuth>) -> bool {
        let mut known = self.found.borrow_mut();
        if let Some(found) = known.as_ref().filter(|found| found.is_of(auth)) {
            return found.verdict.is_ok();
        }
        let found = known.insert(auth.find(self.certificate.chain()));
        if let Err(why) = &found.verdict {
            let subject = &self.certificate.subject;
            tracing::debug!(%subject, why, "a certificate is not one of this site's");
        }
        found.verdict.is_ok()
    }
}
