//! Who is believed about a node: that node, by a certificate of the fleet's issuer that holds.

use super::certificate::{Facts, names};
use super::statement::{Statement, whole};
use super::{IdentityError, Removed, node_name};
use crate::limits::{CERTIFICATES_MAX, CLOCKS_APART_MAX};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ParsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use freshet_base::clock::UnixMillis;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thiserror::Error;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert, aws_lc_rs::ECDSA_P256_SHA256};

/// Why something that was said in a node's name is not believed.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum Disbelief {
    /// It has no signature, as what versions before this one say.
    #[error("not signed")]
    NotSigned,
    /// It is in another form.
    #[error("not in a form that this version reads")]
    Malformed,
    /// Somebody else gave the certificate that it comes with.
    #[error("not signed with a certificate of the fleet's issuer ({0})")]
    Certificate(String),
    /// The certificate does not hold now.
    #[error(
        "signed with a certificate that has ended, or does not hold yet by this machine's clock"
    )]
    Ended,
    /// The certificate is for another name.
    #[error("signed with a certificate that is not this node's")]
    Name,
    /// The node was removed.
    #[error("signed by a node that was removed from the fleet")]
    Removed,
    /// Another machine has a later certificate for the name.
    #[error("signed by a machine in whose place another one has joined under this name")]
    Superseded,
    /// The signature is not of this.
    #[error("not signed by whose certificate it comes with")]
    Forged,
}

impl Serialize for Disbelief {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Verifies what nodes of one fleet say of themselves. It knows the certificates that it has verified, of [`CERTIFICATES_MAX`]
/// nodes at most.
pub struct Verifier {
    fleet: String,
    issuer: CertificateDer<'static>,
    known: Mutex<HashMap<String, Arc<Known>>>,
}

/// The last certificate that a node has shown.
struct Known {
    /// As it came.
    text: Box<str>,
    facts: Facts,
    key: ParsedPublicKey,
}

impl Verifier {
    /// By the certificate of a fleet's issuing key in this file, PEM.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn new(fleet: &str, ca: &Path) -> Result<Self, IdentityError> {
        let pem = std::fs::read(ca).map_err(IdentityError::file(ca))?;
        let wrong = |why: String| IdentityError::ConfigContent { path: ca.to_owned(), why };
        let issuer =
            CertificateDer::from_pem_slice(&pem).map_err(|error| wrong(error.to_string()))?;
        anchor_from_trusted_cert(&issuer).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { fleet: fleet.to_owned(), issuer, known: Mutex::default() })
    }

    /// Whether a node has said this that is in the fleet at `now`.
    ///
    /// # Errors
    /// Why that is not known.
    pub fn verify(
        &self,
        node: &str,
        statement: &Statement<'_>,
        removed: &Removed,
        now: UnixMillis,
    ) -> Result<(), Disbelief> {
        if removed.until(node, now).is_some() {
            return Err(Disbelief::Removed);
        }
        let signature = STANDARD.decode(statement.signature).map_err(|_| Disbelief::Malformed)?;
        let whole = whole(&self.fleet, statement.signed);
        // Others verify meanwhile.
        let known = self.known().get(node).cloned();
        if let Some(known) = known.filter(|known| *known.text == *statement.certificate) {
            return known.has_signed(&whole, &signature, now);
        }
        let shown = self.shown(node, statement.certificate, now)?;
        shown.has_signed(&whole, &signature, now)?;
        let mut all = self.known();
        if all.get(node).is_some_and(|known| known.supersedes(&shown)) {
            return Err(Disbelief::Superseded);
        }
        if all.len() >= CERTIFICATES_MAX {
            all.clear();
        }
        all.insert(node.to_owned(), Arc::new(shown));
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Known>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A certificate that a node shows, if it is its own and the fleet's issuer gave it (RFC 5280 §6.1).
    fn shown(&self, node: &str, text: &str, now: UnixMillis) -> Result<Known, Disbelief> {
        let der = STANDARD.decode(text).map_err(|_| Disbelief::Malformed)?;
        let der = CertificateDer::from(der);
        let wrong = |error: webpki::Error| Disbelief::Certificate(error.to_string());
        let facts = Facts::of_der(&der).ok_or(Disbelief::Malformed)?;
        let anchors = [anchor_from_trusted_cert(&self.issuer).map_err(wrong)?];
        let certificate = EndEntityCert::try_from(&der).map_err(wrong)?;
        let time = UnixTime::since_unix_epoch(Duration::from_millis(now.0));
        let verified = certificate.verify_for_usage(
            &[ECDSA_P256_SHA256],
            &anchors,
            &[],
            time,
            KeyUsage::client_auth(),
            None,
            None,
        );
        match verified {
            Ok(_) => {}
            Err(webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. }) => {
                return Err(Disbelief::Ended);
            }
            Err(error) => return Err(wrong(error)),
        }
        if !names(&der).contains(&node_name(&self.fleet, node)) {
            return Err(Disbelief::Name);
        }
        let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, facts.key.bytes());
        let key = key.map_err(|_| Disbelief::Malformed)?;
        Ok(Known { text: text.into(), facts, key })
    }
}

impl Known {
    fn has_signed(&self, whole: &[u8], signature: &[u8], now: UnixMillis) -> Result<(), Disbelief> {
        let Facts { from, until, .. } = self.facts;
        if now > until || now.plus(CLOCKS_APART_MAX) < from {
            return Err(Disbelief::Ended);
        }
        self.key.verify_sig(whole, signature).map_err(|_| Disbelief::Forged)
    }

    /// Whether another machine than that of `other` has this one, which is later.
    fn supersedes(&self, other: &Self) -> bool {
        self.facts.key != other.facts.key && self.facts.from > other.facts.from
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("fleet", &self.fleet).finish_non_exhaustive()
    }
}
