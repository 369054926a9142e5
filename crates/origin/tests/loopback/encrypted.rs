//! Origins that speak TLS.

use crate::support::*;
use freshet_net::socket::Socket;
use freshet_net::stream::Stream;
use freshet_net::tls::certificate::{CertificateSource, CertificateStore};
use freshet_net::tls::server::{self, ServerOptions, server_config};
use freshet_origin::definition::TlsSettings;
use freshet_origin::error::FailureKind;
use freshet_origin::{Origin, OriginError, OriginSettings, pool::Pool};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;

/// A certificate for `origin.example`, its own authority, with files beside.
struct Certificate {
    directory: TempDir,
}

impl Certificate {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["origin.example".to_owned()]).unwrap();
        std::fs::write(directory.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(directory.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Self { directory }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Answers requests over TLS, one connection after another, in pieces of `close`ing or not.
    async fn serve(&self, answer: &'static str) -> SocketAddr {
        let source = CertificateSource {
            certificate: self.file("cert.pem"),
            key: self.file("key.pem"),
            ..CertificateSource::default()
        };
        let store = CertificateStore::load(vec![source]).unwrap();
        let config = server_config(store, &ServerOptions::default()).unwrap();
        let (address, _) = serve(|listener: TcpListener| async move {
            loop {
                let socket = Socket::from(listener.accept().await.unwrap().0);
                let limit = Duration::from_secs(5);
                let Ok(stream) = server::accept(socket, &config, limit).await else { continue };
                tokio::spawn(answer_all(stream, answer));
            }
        })
        .await;
        address
    }

    fn origin(&self, address: SocketAddr, tls: TlsSettings) -> Arc<Origin> {
        Origin::new(OriginSettings { tls: Some(tls), ..settings(address) }).unwrap()
    }

    fn trusted(&self, name: &str) -> TlsSettings {
        let ca = Some(self.file("cert.pem"));
        TlsSettings { server_name: Some(name.into()), ca, ..TlsSettings::default() }
    }
}

async fn answer_all(mut stream: Stream, answer: &'static str) {
    let mut head = [0; 1024];
    while stream.read(&mut head).await.is_ok_and(|count| count > 0) {
        if answer.is_empty() || stream.write(answer.as_bytes()).await.is_err() {
            // Cut off, without a close_notify.
            return;
        }
        if answer.contains("Connection: close") {
            return;
        }
    }
}

#[tokio::test]
async fn an_encrypted_origin_is_verified_and_its_connection_used_again() {
    let certificate = Certificate::new();
    let address = certificate.serve("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret").await;
    let origin = certificate.origin(address, certificate.trusted("origin.example"));
    let pool = Pool::new();
    for reused in [false, true] {
        let mut response = get(&pool, &origin).await.unwrap();
        assert_eq!(response.facts.reused, reused);
        assert_eq!(text(&mut response.body).await.unwrap(), "secret");
    }
    assert_eq!(origin.stats.connects.value(), 1);
    assert_eq!(origin.scheme(), freshet_http::message::Scheme::Https);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_or_for_another_name_is_refused() {
    let certificate = Certificate::new();
    let address = certificate.serve("HTTP/1.1 204 No Content\r\n\r\n").await;
    let other = Certificate::new();
    let foreign =
        TlsSettings { ca: Some(other.file("cert.pem")), ..certificate.trusted("origin.example") };
    for tls in [foreign, certificate.trusted("other.example")] {
        let origin = certificate.origin(address, tls);
        let error = get(&Pool::new(), &origin).await.unwrap_err();
        assert_eq!((error.kind(), error.status()), (FailureKind::Certificate, 502), "{error}");
        assert!(error.marks_down());
        assert_eq!(origin.stats.open.value(), 0);
    }
    let careless = TlsSettings { verify: false, ca: None, ..certificate.trusted("other.example") };
    let origin = certificate.origin(address, careless);
    assert_eq!(get(&Pool::new(), &origin).await.unwrap().head.status, 204);
}

#[tokio::test]
async fn a_body_cut_off_without_a_goodbye_is_incomplete() {
    let certificate = Certificate::new();
    let address = certificate.serve("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npart of it").await;
    let origin = certificate.origin(address, certificate.trusted("origin.example"));
    let mut response = get(&Pool::new(), &origin).await.unwrap();
    let error = text(&mut response.body).await.unwrap_err();
    assert_eq!(error, OriginError::OriginBodyIncomplete { received: 10, declared: None });
}

#[tokio::test(start_paused = true)]
async fn a_handshake_nobody_answers_ends_with_the_connect_timeout() {
    let certificate = Certificate::new();
    let (address, _server) = serve(|listener| async move {
        let _peer = Peer::accept(&listener).await;
        std::future::pending::<()>().await;
    })
    .await;
    let origin = certificate.origin(address, certificate.trusted("origin.example"));
    let limit = origin.settings.timeouts.connect;
    let error = get(&Pool::new(), &origin).await.unwrap_err();
    assert_eq!(error, OriginError::OriginTlsTimeout { limit });
    assert_eq!(error.status(), 504);
}

#[test]
fn unusable_tls_settings_name_the_file_or_the_setting() {
    let settings: OriginSettings = "https://origin.example".parse().unwrap();
    let tls = TlsSettings { ca: Some("/nowhere/ca.pem".into()), ..TlsSettings::default() };
    let error = Origin::new(OriginSettings { tls: Some(tls), ..settings }).unwrap_err();
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
    assert_eq!(error.kind(), FailureKind::Config);
    let settings: OriginSettings = "unix:/run/origin.sock".parse().unwrap();
    let settings = OriginSettings { tls: Some(TlsSettings::default()), ..settings };
    assert!(Origin::new(settings).unwrap_err().to_string().contains("server_name"));
}
