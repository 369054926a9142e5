//! Handshakes: names, certificates, protocols, and what is refused.

use crate::common::*;
use freshet_net::error::NetError;
use freshet_net::tls::certificate::{Certificate, CertificateSource, CertificateStore, Loaded};
use freshet_net::tls::client::{ClientOptions, Identity, client_config};
use freshet_net::tls::server::{MinVersion, ServerOptions, server_config};
use freshet_net::tls::{self, ALPN_HTTP_1_1, ALPN_HTTP_2};
use rcgen::{
    BasicConstraints, CertificateParams, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519,
};
use rustls::SignatureScheme;
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use x509_cert::der::Decode as _;

const ALL: [SignatureScheme; 2] =
    [SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519];

/// The certificate a server shows for `name` to a client that understands `schemes`.
async fn shown(store: &Arc<CertificateStore>, name: &str, schemes: &[SignatureScheme]) -> Vec<u8> {
    let recorder = Recorder::new(schemes);
    let server = server_config(Arc::clone(store), &ServerOptions::default()).unwrap();
    let (client, server) = handshake(&recorder.config(), &server, name).await;
    client.unwrap();
    server.unwrap();
    let certificate = recorder.certificate.lock().unwrap();
    certificate.clone()
}

fn der(source: &CertificateSource) -> Vec<u8> {
    certificate_in(&source.certificate).to_vec()
}

#[test]
fn the_name_asked_for_chooses_the_certificate() {
    run(async {
        let authority = Authority::new();
        let first = authority.issue("first", &["first.test"]);
        let exact = authority.issue("exact", &["www.example.test"]);
        let wild = authority.issue("wild", &["*.example.test", "example.test"]);
        let mut told = authority.issue("told", &["unused.test"]);
        told.names = vec!["Told.Test".into()];
        let sources = vec![first.clone(), exact.clone(), wild.clone(), told.clone()];
        let store = CertificateStore::load(sources).unwrap();
        assert_eq!(store.loaded(), Loaded { certificates: 4, names: 5, staples: 0 });
        for (name, want) in [
            ("first.test", &first),
            ("www.example.test", &exact),
            ("other.example.test", &wild),
            ("OTHER.example.test", &wild),
            ("example.test", &wild),
            ("a.b.example.test", &first),
            ("told.test", &told),
            ("unused.test", &first),
            ("127.0.0.1", &first),
        ] {
            assert!(shown(&store, name, &ALL).await == der(want), "{name}");
        }
    });
}

#[test]
fn the_first_certificate_a_client_understands_is_shown() {
    run(async {
        let authority = Authority::new();
        let modern = authority.issue_with("modern", &["x.test"], &PKCS_ED25519);
        let usual = authority.issue_with("usual", &["x.test"], &PKCS_ECDSA_P256_SHA256);
        let store = CertificateStore::load(vec![modern.clone(), usual.clone()]).unwrap();
        for name in ["x.test", "unknown.test"] {
            assert!(shown(&store, name, &ALL).await == der(&modern));
            assert!(shown(&store, name, &ALL[..1]).await == der(&usual));
            assert!(shown(&store, name, &ALL[1..]).await == der(&modern));
        }
    });
}

#[test]
fn what_another_store_has_read_is_served_from_then_on() {
    run(async {
        let authority = Authority::new();
        let old = authority.issue("site", &["site.test"]);
        let store = CertificateStore::load(vec![old.clone()]).unwrap();
        let before = der(&old);
        let new = authority.issue("site", &["site.test"]);
        assert!(shown(&store, "site.test", &ALL).await == before, "no file is read by itself");
        store.adopt(&CertificateStore::load(vec![new.clone()]).unwrap());
        assert!(shown(&store, "site.test", &ALL).await == der(&new));
        assert_eq!(store.configured()[0].source(), &new);
        let other = authority.issue("other", &["other.test"]);
        store.adopt(&CertificateStore::load(vec![other.clone()]).unwrap());
        assert!(shown(&store, "site.test", &ALL).await == der(&other));
    });
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let one = authority.issue("one", &["one.test"]);
    let two = authority.issue("two", &["two.test"]);
    let load =
        |source: &CertificateSource| CertificateStore::load(vec![source.clone()]).unwrap_err();

    let mismatch = CertificateSource { key: two.key, ..one.clone() };
    let error = load(&mismatch);
    assert!(matches!(error, NetError::ConfigKeyMismatch { .. }));
    assert!(error.to_string().contains("two.key") && error.to_string().contains("one.pem"));

    let missing = CertificateSource { key: "/nonexistent.key".into(), ..one.clone() };
    assert!(load(&missing).to_string().contains("/nonexistent.key"));
    let reversed = authority.directory.path().join("reversed.pem");
    let chain = [&two.certificate, &one.certificate].map(|path| fs::read(path).unwrap()).concat();
    fs::write(&reversed, chain).unwrap();
    let reversed = CertificateSource { certificate: reversed, ..one.clone() };
    assert!(load(&reversed).to_string().contains("put the server's certificate first"));
    let swapped = CertificateSource { certificate: one.key.clone(), ..one.clone() };
    assert!(load(&swapped).to_string().contains("no certificate"));
    let no_staple = CertificateSource { ocsp: Some("/nonexistent.ocsp".into()), ..one.clone() };
    assert!(load(&no_staple).to_string().contains("/nonexistent.ocsp"));
    let pem_staple = CertificateSource { ocsp: Some(one.certificate.clone()), ..one };
    assert!(load(&pem_staple).to_string().contains("DER"));
    assert_eq!(CertificateStore::load(Vec::new()).unwrap_err(), NetError::ConfigCertificateMissing);
}

#[test]
fn a_certificate_that_names_no_host_is_called_by_what_it_says() {
    let authority = Authority::new();
    let source = authority.issue("one", &["one.test"]);
    for (names, common_name, called) in [
        (vec!["192.0.2.7".to_owned()], "common", "192.0.2.7"),
        (vec!["2001:db8::7".to_owned()], "common", "2001:db8::7"),
        (vec![], "common", "common"),
        (vec![], "", source.certificate.to_str().unwrap()),
        (vec!["192.0.2.7".to_owned(), "a.test".to_owned()], "common", "a.test"),
    ] {
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if !common_name.is_empty() {
            params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
        }
        let is_for_servers = common_name.is_empty();
        if !is_for_servers {
            params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        }
        let key = KeyPair::generate().unwrap();
        fs::write(&source.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(&source.key, key.serialize_pem()).unwrap();
        let read = Certificate::read(source.clone()).unwrap();
        assert_eq!(read.is_for_servers(), is_for_servers);
        assert_eq!(read.names_hosts(), called == "a.test");
        assert_eq!(*CertificateStore::of(vec![read]).expiries()[0].name, *called);
    }
}

/// An OCSP response that says a certificate is good, signed by nobody (RFC 6960 §4.2.1).
fn good_for(certificate: &[u8]) -> Vec<u8> {
    let one = |tag: u8, parts: &[&[u8]]| {
        let content = parts.concat();
        [&[tag, 0x81, u8::try_from(content.len()).unwrap()], &*content].concat()
    };
    let content = x509_cert::Certificate::from_der(certificate).unwrap().tbs_certificate;
    let serial = one(0x02, &[content.serial_number.as_bytes()]);
    let id = one(0x30, &[&one(0x30, &[]), &one(0x04, &[]), &one(0x04, &[]), &serial]);
    let now = one(0x18, &[b"20260101000000Z"]);
    let answer = one(0x30, &[&id, &one(0x80, &[]), &now]);
    let data = one(0x30, &[&one(0xa1, &[]), &now, &one(0x30, &[&answer])]);
    let kind = one(0x06, &[&[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1]]);
    let bytes = one(0x30, &[&kind, &one(0x04, &[&one(0x30, &[&data])])]);
    one(0x30, &[&one(0x0a, &[&[0]]), &one(0xa0, &[&bytes])])
}

#[test]
fn an_ocsp_response_beside_the_certificate_reaches_the_client() {
    run(async {
        let authority = Authority::new();
        let source = authority.issue("stapled", &["stapled.test"]);
        let response = good_for(&der(&source));
        fs::write(authority.directory.path().join("stapled.pem.ocsp"), &response).unwrap();
        let other = authority.issue("other", &["other.test"]);
        let wrong = authority.directory.path().join("stapled.pem.ocsp");
        // What is left of a certificate before costs the staple and no more, named or beside it.
        let named = CertificateSource { ocsp: Some(wrong.clone()), ..other.clone() };
        fs::copy(&wrong, authority.directory.path().join("other.pem.ocsp")).unwrap();
        for source in [named, other] {
            let read = Certificate::read(source).unwrap();
            let why = read.unstapled().unwrap().to_owned();
            assert!(why.contains(".ocsp: an OCSP response about another certificate"), "{why}");
            assert_eq!(CertificateStore::of(vec![read]).loaded().staples, 0);
        }
        let store = CertificateStore::load(vec![source]).unwrap();
        assert_eq!(store.loaded().staples, 1);
        let recorder = Recorder::new(&ALL);
        let server = server_config(store, &ServerOptions::default()).unwrap();
        let (client, _server) = handshake(&recorder.config(), &server, "stapled.test").await;
        client.unwrap();
        assert_eq!(*recorder.staple.lock().unwrap(), *response);
    });
}

#[test]
fn the_servers_order_of_protocols_decides_and_strangers_are_refused() {
    run(async {
        let authority = Authority::new();
        let server = localhost(
            &authority,
            &ServerOptions {
                alpn: vec![ALPN_HTTP_2.into(), ALPN_HTTP_1_1.into()],
                ..ServerOptions::default()
            },
        );
        let offering = |protocols: &[&[u8]]| {
            client_config(&ClientOptions {
                ca: Some(authority.ca()),
                alpn: protocols.iter().map(|name| name.to_vec()).collect(),
                ..ClientOptions::default()
            })
            .unwrap()
        };
        for (offer, agreed) in [
            (&[ALPN_HTTP_1_1, ALPN_HTTP_2][..], Some(ALPN_HTTP_2)),
            (&[ALPN_HTTP_1_1], Some(ALPN_HTTP_1_1)),
            (&[], None),
        ] {
            let (client, server) = tls_pair(&offering(offer), &server).await;
            assert_eq!((client.alpn(), server.alpn()), (agreed, agreed));
        }
        let (client, accepted) = handshake(&offering(&[b"gopher"]), &server, "localhost").await;
        assert!(matches!(client, Err(NetError::OriginHandshake { .. })));
        assert!(matches!(accepted, Err(NetError::ClientHandshake { .. })));
    });
}

#[test]
fn what_was_agreed_is_told() {
    run(async {
        let authority = Authority::new();
        let server = localhost(&authority, &ServerOptions::default());
        for (config, version) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
            let (client, accepted) = tls_pair(&authority.client_of(config), &server).await;
            let (ours, theirs) = (accepted.tls_info().unwrap(), client.tls_info().unwrap());
            assert_eq!((ours.version, theirs.version), (version, version));
            // The client has AES-256 first, the server decides.
            assert!(ours.suite.starts_with("TLS") && ours.suite == theirs.suite, "{}", ours.suite);
            assert!(ours.suite.contains("AES_128_GCM"), "{}", ours.suite);
            assert_eq!(ours.sni.as_deref(), Some("localhost"));
            assert!(!ours.resumed && !theirs.resumed);
            assert!(accepted.is_tls());
        }
        let (client, _server) = clear_pair().await;
        assert_eq!((client.tls_info(), client.is_tls(), client.alpn()), (None, false, None));
    });
}

#[test]
fn a_minimum_version_refuses_older_clients() {
    run(async {
        let authority = Authority::new();
        let options = ServerOptions { min_version: MinVersion::Tls13, ..ServerOptions::default() };
        let server = localhost(&authority, &options);
        let (client, accepted) =
            handshake(&authority.client_of(&TLS12), &server, "localhost").await;
        assert!(client.is_err() && accepted.is_err());
        tls_pair(&authority.client_of(&TLS13), &server).await;
    });
}

#[test]
fn a_server_that_signs_itself_is_believed_where_its_certificate_is_named() {
    run(async {
        // As `openssl req -x509` makes them: an authority of itself.
        let signed = |until: i32| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(until, 1, 1);
            let certificate = params.self_signed(&key).unwrap();
            let directory = tempfile::tempdir().unwrap();
            let source = CertificateSource {
                certificate: directory.path().join("own.pem"),
                key: directory.path().join("own.key"),
                ..CertificateSource::default()
            };
            fs::write(&source.certificate, certificate.pem()).unwrap();
            fs::write(&source.key, key.serialize_pem()).unwrap();
            let ca = Some(source.certificate.clone());
            let options = ClientOptions { ca, ..ClientOptions::default() };
            let store = CertificateStore::load(vec![source]).unwrap();
            let server = server_config(store, &ServerOptions::default()).unwrap();
            (client_config(&options).unwrap(), server)
        };
        let refused = |result| matches!(result, Err(NetError::OriginCertificate { .. }));
        let (client, server) = signed(2100);
        handshake(&client, &server, "localhost").await.0.unwrap();
        assert!(refused(handshake(&client, &server, "elsewhere.test").await.0), "wrong name");
        let (other, _) = signed(2100);
        // What is to be done is said in words.
        match handshake(&other, &server, "localhost").await.0 {
            Err(NetError::OriginCertificate { why }) => assert!(why.contains("origin.ca"), "{why}"),
            _ => panic!("another's"),
        }
        let (client, server) = signed(2002);
        assert!(refused(handshake(&client, &server, "localhost").await.0), "over");
    });
}

#[test]
fn an_origin_is_verified_unless_told_otherwise() {
    run(async {
        let authority = Authority::new();
        let server = localhost(&authority, &ServerOptions::default());
        let refused = |result| matches!(result, Err(NetError::OriginCertificate { .. }));
        let (client, _) = handshake(&authority.client(), &server, "elsewhere.test").await;
        assert!(refused(client), "wrong name");
        let (client, _) = handshake(&Authority::new().client(), &server, "localhost").await;
        assert!(refused(client), "unknown authority");
        let careless = ClientOptions { verify: false, ..ClientOptions::default() };
        let careless = client_config(&careless).unwrap();
        let (client, _) = handshake(&careless, &server, "elsewhere.test").await;
        client.unwrap();
        let (client, _) = handshake(&careless, &server, "not a name").await;
        assert_eq!(client.unwrap_err(), NetError::ConfigServerName { name: "not a name".into() });
    });
}

#[test]
fn the_systems_authorities_are_used_by_default_where_there_are_some() {
    if std::path::Path::new(tls::client::SYSTEM_AUTHORITIES).exists() {
        client_config(&ClientOptions::default()).unwrap();
    }
    let missing = ClientOptions { ca: Some("/nonexistent.pem".into()), ..ClientOptions::default() };
    let error = client_config(&missing).unwrap_err();
    assert!(error.to_string().contains("/nonexistent.pem"));
}

#[test]
fn a_client_proves_itself_to_an_origin_that_asks() {
    run(async {
        let authority = Authority::new();
        let source = authority.issue("localhost", &["localhost"]);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate_in(&authority.ca())).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_cert_resolver(CertificateStore::load(vec![source]).unwrap());
        let server = Arc::new(server);
        let edge = authority.issue("edge", &["edge.test"]);
        let with = ClientOptions {
            ca: Some(authority.ca()),
            identity: Some(Identity { certificate: edge.certificate, key: edge.key }),
            ..ClientOptions::default()
        };
        tls_pair(&client_config(&with).unwrap(), &server).await;
        let (_, accepted) = handshake(&authority.client(), &server, "localhost").await;
        assert!(matches!(accepted, Err(NetError::ClientHandshake { .. })));
    });
}

#[test]
fn a_silent_peer_ends_a_handshake_in_time() {
    run(async {
        let authority = Authority::new();
        let server = localhost(&authority, &ServerOptions::default());
        let limit = Duration::from_millis(20);
        let (connecting, accepted) = sockets().await;
        let refused = tls::server::accept(accepted, &server, limit).await;
        assert_eq!(refused.unwrap_err(), NetError::ClientHandshakeTimeout);
        drop(connecting);
        let (connecting, _accepted) = sockets().await;
        let refused =
            tls::client::connect(connecting, &authority.client(), "localhost", limit).await;
        assert_eq!(refused.unwrap_err(), NetError::OriginHandshakeTimeout);
    });
}

#[test]
fn bytes_that_are_no_handshake_are_refused_and_so_is_leaving() {
    run(async {
        let authority = Authority::new();
        let server = localhost(&authority, &ServerOptions::default());
        for bytes in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"\x16\x03\x01", b""] {
            let (connecting, accepted) = sockets().await;
            let mut client = freshet_net::stream::Stream::from(connecting);
            client.write(bytes).await.unwrap();
            client.shutdown().await.unwrap();
            let refused = tls::server::accept(accepted, &server, LIMIT).await;
            assert!(matches!(refused, Err(NetError::ClientHandshake { .. })), "{refused:?}");
        }
    });
}

#[test]
fn a_crowd_of_handshakes_all_end_well() {
    run(async {
        let authority = Authority::new();
        let server = localhost(&authority, &ServerOptions::default());
        let client = authority.client();
        let listener = loopback();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let (client, server) = (Arc::clone(&client), Arc::clone(&server));
            let connecting = connect(listener.local_address()).await;
            let (accepted, _) = listener.accept().await.unwrap();
            tasks.spawn_local(async move {
                tls::client::connect(connecting, &client, "localhost", LIMIT).await.unwrap();
            });
            tasks.spawn_local(async move {
                tls::server::accept(accepted, &server, LIMIT).await.unwrap();
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    });
}
