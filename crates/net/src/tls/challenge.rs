//! What proves to an authority that names are this node's, while it looks (RFC 8555 §8.3, RFC 8737).

use crate::error::NetError;
use crate::tls::provider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Proofs that are kept at a time; one order needs one, and orders come one after another.
pub const PROOFS_MAX: usize = 256;

/// Proofs for the authority, shared by all workers. Mostly there are none: then asking costs one
/// load.
#[derive(Default)]
pub struct Challenges {
    count: AtomicUsize,
    proofs: Mutex<Proofs>,
}

#[derive(Default)]
struct Proofs {
    /// By token: what a request for it is answered with.
    answers: HashMap<Box<str>, Arc<str>>,
    /// By name: what a handshake for it is answered with.
    certificates: HashMap<Box<str>, Arc<CertifiedKey>>,
}

impl Challenges {
    /// Answers requests for `/.well-known/acme-challenge/` and this token with this text. Beyond
    /// [`PROOFS_MAX`] nothing is added.
    pub fn add_answer(&self, token: &str, text: &str) {
        self.change(|proofs| {
            if proofs.answers.len() < PROOFS_MAX {
                proofs.answers.insert(token.into(), text.into());
            }
        });
    }

    /// Shows this certificate, both PEM, to who asks for `name` by `acme-tls/1` alone. Beyond
    /// [`PROOFS_MAX`] nothing is added.
    ///
    /// # Errors
    /// [`NetError::ConfigTls`] for what is no certificate and key.
    pub fn add_certificate(&self, name: &str, chain: &str, key: &str) -> Result<(), NetError> {
        let unusable = |why: String| NetError::ConfigTls { why };
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unusable(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| unusable(error.to_string()))?;
        let key = provider().key_provider.load_private_key(key);
        let key = key.map_err(|error| unusable(error.to_string()))?;
        let certified = Arc::new(CertifiedKey::new(chain, key));
        self.change(|proofs| {
            if proofs.certificates.len() < PROOFS_MAX {
                proofs.certificates.insert(name.to_ascii_lowercase().into(), certified);
            }
        });
        Ok(())
    }

    /// Forgets the answer to a token and the certificate for a name.
    pub fn remove(&self, token: &str, name: &str) {
        self.change(|proofs| {
            proofs.answers.remove(token);
            proofs.certificates.remove(name);
        });
    }

    /// The answer to a token.
    pub fn answer(&self, token: &str) -> Option<Arc<str>> {
        self.any()?.answers.get(token).cloned()
    }

    /// The certificate for a name in lower case.
    pub(super) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.any()?.certificates.get(name).cloned()
    }

    fn any(&self) -> Option<MutexGuard<'_, Proofs>> {
        (self.count.load(Relaxed) > 0).then(|| self.lock())
    }

    fn change(&self, change: impl FnOnce(&mut Proofs)) {
        let mut proofs = self.lock();
        change(&mut proofs);
        self.count.store(proofs.answers.len() + proofs.certificates.len(), Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Proofs> {
        self.proofs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Challenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenges").field("count", &self.count).finish_non_exhaustive()
    }
}
