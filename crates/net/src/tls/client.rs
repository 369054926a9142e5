//! TLS towards origins.

use crate::error::NetError;
use crate::socket::Socket;
use crate::stream::Stream;
use crate::tls::handshake::{self, Failure};
use crate::tls::session::Session;
use crate::tls::validity::Validity;
use crate::tls::{ALPN_HTTP_1_1, HandshakeContext, pem, provider};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Where Debian and its relatives, Alpine and most container images keep the public authorities.
pub const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// How to speak TLS to an origin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientOptions {
    /// PEM file of the authorities to trust in place of [`SYSTEM_AUTHORITIES`], and of certificates of
    /// servers that sign themselves.
    pub ca: Option<PathBuf>,
    /// Whether the origin's certificate must be valid for the name. Without it anybody between
    /// here and the origin can read and change everything.
    pub verify: bool,
    /// What this end proves itself with, if the origin asks.
    pub identity: Option<Identity>,
    /// Protocols offered, best first.
    pub alpn: Vec<Vec<u8>>,
}

/// A certificate chain and its private key, both PEM files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// The chain, this end's certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Default for ClientOptions {
    /// Verified against the system's authorities, `http/1.1`, no certificate of our own.
    fn default() -> Self {
        Self { ca: None, verify: true, identity: None, alpn: vec![ALPN_HTTP_1_1.into()] }
    }
}

/// Makes a configuration, to be kept and used for every connection to the same kind of origin: it
/// remembers sessions so that later handshakes are short. Reads the files named in `options`.
///
/// # Errors
/// [`NetError::ConfigFile`] and [`NetError::ConfigTls`].
pub fn client_config(options: &ClientOptions) -> Result<Arc<ClientConfig>, NetError> {
    let tls = |error: rustls::Error| NetError::ConfigTls { why: error.to_string() };
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider()))
        .with_safe_default_protocol_versions()
        .map_err(tls)?;
    let verifier: Arc<dyn ServerCertVerifier> = if options.verify {
        let roots = pem::authorities(
            options.ca.as_deref().unwrap_or_else(|| Path::new(SYSTEM_AUTHORITIES)),
        )?;
        let authorities =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider()))
                .build()
                .map_err(|error| NetError::ConfigTls { why: error.to_string() })?;
        match &options.ca {
            Some(file) => Arc::new(Named { authorities, named: pem::certificates(file)? }),
            None => authorities,
        }
    } else {
        Arc::new(AcceptAny::new(provider()))
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match &options.identity {
        Some(identity) => builder
            .with_client_auth_cert(
                pem::certificates(&identity.certificate)?,
                pem::private_key(&identity.key)?,
            )
            .map_err(|error| NetError::file(&identity.key, error))?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols.clone_from(&options.alpn);
    Ok(Arc::new(config))
}

/// Runs the client's side of a handshake within `limit`. `server_name` is a host name or an IP
/// address; it is sent as SNI (names only) and is what the certificate must be valid for.
///
/// # Errors
/// [`NetError::ConfigServerName`], [`NetError::OriginCertificate`], [`NetError::OriginHandshake`]
/// and [`NetError::OriginHandshakeTimeout`].
pub async fn connect(
    socket: Socket,
    config: &Arc<ClientConfig>,
    server_name: &str,
    limit: Duration,
) -> Result<Stream, NetError> {
    let name = ServerName::try_from(server_name.to_owned())
        .map_err(|_| NetError::ConfigServerName { name: server_name.into() })?;
    let connection = ClientConnection::new(Arc::clone(config), name)
        .map_err(|error| NetError::ConfigTls { why: error.to_string() })?;
    let mut session =
        Box::new(Session::new(connection.into(), socket, HandshakeContext::default()));
    match timeout(limit, handshake::run(&mut *session)).await {
        Ok(Ok(())) => Ok(session.into()),
        Ok(Err(Failure::Tls(rustls::Error::InvalidCertificate(error)))) => {
            Err(NetError::OriginCertificate { why: why_refused(&error) })
        }
        Ok(Err(failure)) => Err(NetError::OriginHandshake { why: failure.why() }),
        Err(_) => Err(NetError::OriginHandshakeTimeout),
    }
}

/// What is wrong with a certificate, for who has to mend it. What most say who made one by themselves has no words in
/// the library.
fn why_refused(error: &CertificateError) -> String {
    let said = match error {
        CertificateError::Other(other) => other.0.downcast_ref::<webpki::Error>(),
        _ => None,
    };
    match said {
        Some(webpki::Error::CaUsedAsEndEntity) => {
            "it signs itself, or is an authority's: name it in `origin.ca`".into()
        }
        Some(webpki::Error::UnsupportedCertVersion) => "it is not of version 3 of X.509".into(),
        Some(other) => other.to_string(),
        None => error.to_string(),
    }
}

/// Believes authorities, and a peer whose own certificate is named beside them: what `openssl req -x509`
/// makes says of itself that it is an authority, as which it is no server's.
#[derive(Debug)]
struct Named {
    authorities: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.named.contains(end_entity) {
            return self.authorities.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
        }
        let validity = Validity::of(end_entity).ok_or(CertificateError::BadEncoding)?;
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now_s < validity.from_s {
            return Err(CertificateError::NotValidYet.into());
        }
        if now_s > validity.until_s {
            return Err(CertificateError::Expired.into());
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Takes any certificate, but still wants the peer to own its key.
#[derive(Debug)]
pub struct AcceptAny(Arc<CryptoProvider>);

impl AcceptAny {
    /// A verifier that checks signatures with this provider.
    pub fn new(provider: &Arc<CryptoProvider>) -> Self {
        Self(Arc::clone(provider))
    }
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
