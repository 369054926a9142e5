//! A certificate authority of a test, and what trusts it.

use freshet_net::address::Address;
use freshet_net::socket::Socket;
use freshet_net::stream::Stream;
use freshet_net::tls::certificate::{CertificateSource, CertificateStore};
use freshet_net::tls::client::{ClientOptions, client_config, connect};
use freshet_net::tls::server::{ServerOptions, server_config};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{ClientConfig, ServerConfig};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// An authority and the files it made, gone when dropped.
pub(crate) struct Authority {
    directory: tempfile::TempDir,
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

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    /// Writes `<file>.pem` and `<file>.key` for `names` and returns their configuration table.
    pub(crate) fn issue(&self, file: &str, names: &[&str]) -> String {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, file);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (cert, secret) = (self.path(&format!("{file}.pem")), self.path(&format!("{file}.key")));
        fs::write(&cert, certificate.pem()).unwrap();
        fs::write(&secret, key.serialize_pem()).unwrap();
        format!("[[certificate]]\ncert = \"{}\"\nkey = \"{}\"\n", cert.display(), secret.display())
    }

    /// What an origin for `localhost` serves with.
    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        self.issue("origin", &["localhost"]);
        let source = CertificateSource {
            certificate: self.path("origin.pem"),
            key: self.path("origin.key"),
            ..CertificateSource::default()
        };
        let store = CertificateStore::load(vec![source]).unwrap();
        server_config(store, &ServerOptions::default()).unwrap()
    }

    /// A client that trusts this authority only and offers `alpn`.
    pub(crate) fn client(&self, alpn: &[&str]) -> Arc<ClientConfig> {
        let alpn = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let ca = Some(self.path("ca.pem"));
        client_config(&ClientOptions { ca, alpn, ..ClientOptions::default() }).unwrap()
    }
}

/// A TLS connection for `name`.
pub(crate) async fn secure(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    name: &str,
) -> Result<Stream, freshet_net::NetError> {
    let socket = Socket::connect(&Address::Tcp(address), LIMIT).await?;
    connect(socket, config, name, LIMIT).await
}
