//! Certificates that clients show: who has to have signed them, and which names they prove.

use crate::error::NetError;
use crate::tls::{pem, provider};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::CertificateDer;
use std::path::PathBuf;
use std::sync::Arc;
use webpki::EndEntityCert;

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
        builder.build().map_err(|error| NetError::ConfigTls { why: error.to_string() })
    }
}

/// The DNS names, in lower case, and URIs a verified chain's first certificate is for (RFC 5280
/// §4.2.1.6), [`NAMES_MAX`] at most.
pub(crate) fn names(chain: &[CertificateDer<'_>]) -> Box<[Box<str>]> {
    let certificate = chain.first().and_then(|first| EndEntityCert::try_from(first).ok());
    let Some(certificate) = certificate else { return Box::default() };
    let dns = certificate.valid_dns_names().map(|name| name.to_ascii_lowercase().into());
    let uris = certificate.valid_uri_names().map(Into::into);
    dns.chain(uris).take(NAMES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, SanType};

    #[test]
    fn names_and_uris_are_read_and_no_certificate_has_none() {
        let mut params = CertificateParams::new(vec!["Edge-1.example".to_owned()]).unwrap();
        let uri = "spiffe://fleet/edge-1".try_into().unwrap();
        params.subject_alt_names.push(SanType::URI(uri));
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let found = names(&[made.der().clone()]);
        assert_eq!(&*found, [Box::from("edge-1.example"), Box::from("spiffe://fleet/edge-1")]);
        assert!(names(&[]).is_empty());
        assert!(names(&[CertificateDer::from(&b"none"[..])]).is_empty());
    }

    #[test]
    fn no_more_names_are_kept_than_the_limit() {
        let many: Vec<_> = (0..100).map(|number| format!("edge-{number}.example")).collect();
        let params = CertificateParams::new(many).unwrap();
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(names(&[made.der().clone()]).len(), NAMES_MAX);
    }
}
