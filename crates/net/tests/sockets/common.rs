//! Certificates, pairs of streams and a runtime like a worker's.

use freshet_net::address::Address;
use freshet_net::error::NetError;
use freshet_net::listener::{ListenOptions, Listener};
use freshet_net::socket::Socket;
use freshet_net::stream::Stream;
use freshet_net::tls::certificate::{CertificateSource, CertificateStore};
use freshet_net::tls::client::{ClientOptions, client_config};
use freshet_net::tls::server::{ServerOptions, server_config};
use freshet_net::tls::{client, server};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    SignatureAlgorithm,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Long enough for a loaded machine; nothing waits for it to pass.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Runs `test` as a worker would.
pub(crate) fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT * 2, test).await.expect("test hangs") })
}

/// An authority and the files it made, gone when dropped.
pub(crate) struct Authority {
    pub(crate) directory: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "Test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let directory = tempfile::tempdir().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(directory.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { directory, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// Writes `<file>.pem` and `<file>.key` for `names`.
    pub(crate) fn issue(&self, file: &str, names: &[&str]) -> CertificateSource {
        self.issue_with(file, names, &PKCS_ECDSA_P256_SHA256)
    }

    pub(crate) fn issue_with(
        &self,
        file: &str,
        names: &[&str],
        algorithm: &'static SignatureAlgorithm,
    ) -> CertificateSource {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, file);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let source = CertificateSource {
            certificate: self.directory.path().join(format!("{file}.pem")),
            key: self.directory.path().join(format!("{file}.key")),
            ..CertificateSource::default()
        };
        fs::write(&source.certificate, certificate.pem()).unwrap();
        fs::write(&source.key, key.serialize_pem()).unwrap();
        source
    }

    /// A client that trusts this authority only.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        let ca = Some(self.ca());
        client_config(&ClientOptions { ca, ..ClientOptions::default() }).unwrap()
    }

    /// As [`Authority::client`], speaking one version of TLS.
    pub(crate) fn client_of(
        &self,
        version: &'static rustls::SupportedProtocolVersion,
    ) -> Arc<ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate_in(&self.ca())).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    }
}

/// A server for `localhost` with `options`.
pub(crate) fn localhost(authority: &Authority, options: &ServerOptions) -> Arc<ServerConfig> {
    let source = authority.issue("localhost", &["localhost"]);
    server_config(CertificateStore::load(vec![source]).unwrap(), options).unwrap()
}

/// The same server with rustls' own records, which ours are compared with.
pub(crate) fn records_by_rustls(config: &ServerConfig) -> Arc<ServerConfig> {
    let mut config = config.clone();
    config.enable_secret_extraction = false;
    Arc::new(config)
}

pub(crate) fn certificate_in(path: &std::path::Path) -> CertificateDer<'static> {
    use rustls_pki_types::pem::PemObject;
    CertificateDer::from_pem_file(path).unwrap()
}

pub(crate) fn loopback() -> Listener {
    Listener::bind(&"127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap()
}

pub(crate) async fn connect(address: &Address) -> Socket {
    Socket::connect(address, LIMIT).await.unwrap()
}

/// Two connected sockets: the connecting one and the accepted one.
pub(crate) async fn sockets() -> (Socket, Socket) {
    let listener = loopback();
    let connecting = connect(listener.local_address()).await;
    (connecting, listener.accept().await.unwrap().0)
}

/// A pair in the clear: client and server.
pub(crate) async fn clear_pair() -> (Stream, Stream) {
    let (client, server) = sockets().await;
    (client.into(), server.into())
}

/// Both results of a handshake for `name`: client's and server's.
pub(crate) async fn handshake(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
    name: &str,
) -> (Result<Stream, NetError>, Result<Stream, NetError>) {
    let (connecting, accepted) = sockets().await;
    tokio::join!(
        client::connect(connecting, client, name, LIMIT),
        server::accept(accepted, server, LIMIT)
    )
}

/// A pair under TLS for `localhost`: client and server.
pub(crate) async fn tls_pair(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
) -> (Stream, Stream) {
    let (client, server) = handshake(client, server, "localhost").await;
    (client.unwrap(), server.unwrap())
}

/// `len` bytes that differ from their neighbours at any distance that matters.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(len)
    .collect()
}

/// Reads exactly `len` bytes in portions of at most `portion`.
pub(crate) async fn read_exactly(stream: &mut Stream, len: usize, portion: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    let mut filled = 0;
    while filled < len {
        let end = len.min(filled + portion);
        let count = stream.read(&mut out[filled..end]).await.unwrap();
        assert!(count > 0, "ended after {filled} of {len} bytes");
        filled += count;
    }
    out
}

/// A client that accepts anything and notes what the server showed.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) certificate: Mutex<Vec<u8>>,
    pub(crate) staple: Mutex<Vec<u8>>,
    schemes: Vec<SignatureScheme>,
}

impl Recorder {
    /// With the signature schemes the client understands.
    pub(crate) fn new(schemes: &[SignatureScheme]) -> Arc<Self> {
        Arc::new(Self { schemes: schemes.into(), ..Self::default() })
    }

    pub(crate) fn config(self: &Arc<Self>) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(self) as _)
            .with_no_client_auth();
        Arc::new(config)
    }
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp_response: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.certificate.lock().unwrap() = end_entity.to_vec();
        *self.staple.lock().unwrap() = ocsp_response.into();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
