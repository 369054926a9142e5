//! Clients that speak TLS.

use crate::authority::{Authority, secure};
use crate::client::Client;
use crate::h3_client::H3Client;
use crate::harness::{Setup, TestNode, pattern, run, run_within};
use crate::origin::{Origin, fresh, response};
use freshet_net::handover::Inherited;
use freshet_net::stream::Stream;
use freshet_node::node::Node;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, NamedGroup, RootCertStore};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

fn encrypted(origin: &Origin, certificates: &str) -> Setup {
    let mut setup = Setup::of(origin);
    setup.listen.push_str("tls = true\n");
    setup.and(certificates)
}

async fn connect(node: &TestNode, config: &Arc<ClientConfig>) -> Stream {
    secure(node.address(), config, "example.test").await.unwrap()
}

#[test]
fn http_1_is_spoken_where_the_client_wants_it() {
    run(async {
        let authority = Authority::new();
        let certificate = authority.issue("a", &["example.test"]);
        let origin = Origin::serve(|asked| {
            let scheme = asked.field("x-forwarded-proto").unwrap().to_owned();
            response("200 OK", &["Cache-Control: no-store"], scheme)
        });
        let node = encrypted(&origin, &certificate).start();
        for alpn in [&["http/1.1"][..], &[]] {
            let stream = connect(&node, &authority.client(alpn)).await;
            let agreed = alpn.first().map(|name| name.as_bytes());
            assert_eq!(stream.alpn(), agreed);
            let mut client = Client::over(stream);
            for _ in 0..2 {
                assert_eq!(client.get("/a").await.text(), "https");
            }
        }
        assert_eq!(node.count("tls_handshakes"), 2);
    });
}

#[test]
fn http_2_is_preferred_and_carries_large_bodies() {
    run(async {
        let authority = Authority::new();
        let certificate = authority.issue("a", &["example.test"]);
        let origin = Origin::serve(|_| fresh(pattern(1, 0..3_000_000)));
        let node = encrypted(&origin, &certificate).start();
        let stream = connect(&node, &authority.client(&["http/1.1", "h2"])).await;
        assert_eq!(stream.alpn(), Some(&b"h2"[..]));
        let mut client = crate::h2::over(stream, h2::client::Builder::new()).await;
        for _ in 0..2 {
            let answer = crate::h2::get(&mut client, "https", "/a").await;
            assert!(answer.status == 200 && answer.body == pattern(1, 0..3_000_000));
        }
        let mut client = Client::over(connect(&node, &authority.client(&["http/1.1"])).await);
        assert!(client.get("/a").await.body == pattern(1, 0..3_000_000));
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn the_name_a_client_asks_for_picks_the_certificate() {
    run(async {
        let authority = Authority::new();
        let certificates = [
            authority.issue("first", &["first.test"]),
            authority.issue("second", &["second.test", "*.wild.test"]),
        ]
        .concat();
        let origin = Origin::serve(|_| fresh("x"));
        let node = encrypted(&origin, &certificates).start();
        let config = authority.client(&["http/1.1"]);
        for name in ["first.test", "second.test", "a.wild.test"] {
            let stream = secure(node.address(), &config, name).await.unwrap();
            assert_eq!(Client::over(stream).get("/a").await.text(), "x", "{name}");
        }
        // A name without a certificate gets the first one, which is not good for it.
        for name in ["third.test", "a.b.wild.test"] {
            assert!(secure(node.address(), &config, name).await.is_err(), "{name}");
        }
        assert_eq!(node.count("tls_handshakes"), 3);
        node.counted("tls_failed", 2).await;
    });
}

#[test]
fn a_reload_swaps_the_certificate_and_leaves_connections_alone() {
    run(async {
        let (before, after) = (Authority::new(), Authority::new());
        let origin = Origin::serve(|_| fresh("x"));
        let setup = encrypted(&origin, &before.issue("a", &["example.test"]));
        let node = setup.start();
        let mut open = Client::over(connect(&node, &before.client(&["http/1.1"])).await);
        assert_eq!(open.get("/a").await.text(), "x");
        let next = encrypted(&origin, &after.issue("a", &["example.test"])).settings();
        node.node.reload(next).unwrap();
        let config = before.client(&["http/1.1"]);
        assert!(secure(node.address(), &config, "example.test").await.is_err());
        let mut new = Client::over(connect(&node, &after.client(&["http/1.1"])).await);
        assert_eq!(new.get("/a").await.text(), "x");
        assert_eq!(open.get("/a").await.text(), "x");
    });
}

#[test]
fn a_reload_with_a_broken_certificate_renews_all_else() {
    run(async {
        let authority = Authority::new();
        let certificate = authority.issue("a", &["example.test"]);
        let origin = Origin::serve(|_| fresh("x"));
        let node = encrypted(&origin, &certificate).and("[cache]\nname = \"before\"").start();
        std::fs::write(authority.path("bad.pem"), "nonsense").unwrap();
        let bad = certificate.replace("/a.pem", "/bad.pem");
        let next = encrypted(&origin, &bad).and("[cache]\nname = \"after\"").settings();
        let error = Node::start(next.clone(), &mut Inherited::default()).err().unwrap().to_string();
        assert!(error.contains("bad.pem"), "{error}");
        node.node.reload(next).unwrap();
        let stayed = node.node.snapshot().stayed;
        assert!(
            matches!(&*stayed, [one] if one.site.is_none() && one.why.contains("bad.pem")),
            "{stayed:?}"
        );
        let config = authority.client(&["http/1.1"]);
        // Workers hear of it by and by.
        while {
            let mut client = Client::over(connect(&node, &config).await);
            client.get("/a").await.cache().starts_with("before;")
        } {}
    });
}

#[test]
fn certificates_of_the_top_level_that_cannot_be_used_stay_as_they_were() {
    run(async {
        let (before, after) = (Authority::new(), Authority::new());
        let origin = Origin::serve(|_| fresh("x"));
        let setup = |top: &str, of_b: &str, grace: u64| {
            let site = |name: &str, more: &str| {
                let url = origin.url();
                format!(
                    "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.test\"]\n\
                     [site.cache]\ngrace = \"{grace}s\"\n{more}[[site.origin]]\nurl = \"{url}\"\n"
                )
            };
            let mut setup = encrypted(&origin, top).and(&site("a", "")).and(&site("b", of_b));
            setup.origins = String::new();
            setup
        };
        let own = |table: String| table.replace("[[certificate]]", "[[site.certificate]]");
        let top = before.issue("top", &["a.test"]);
        let good = std::fs::read(before.path("top.pem")).unwrap();
        let node = setup(&top, &own(before.issue("b", &["b.test"])), 1).start();
        let is_shown = async |authority: &Authority, host: &str| {
            let config = authority.client(&["http/1.1"]);
            secure(node.address(), &config, host).await.is_ok()
        };
        let graces = || {
            let snapshot = node.node.snapshot();
            let sites = snapshot.sites.all().iter();
            sites.map(|site| site.settings.cache.grace.as_secs()).collect::<Vec<_>>()
        };
        let renewed = own(after.issue("b", &["b.test"]));
        let other = before.issue("other", &["a.test"]);
        let unlike = top.replace("top.key", "other.key");
        let gone = other.replace("other.pem", "gone.pem");
        // What is no certificate; a key that does not fit; a file that is not there. It does not matter how often.
        for (grace, top, content, why) in [
            (2, &top, &b"nonsense"[..], "top.pem"),
            (3, &unlike, &good, "top.pem"),
            (4, &gone, &good, "gone.pem"),
        ] {
            std::fs::write(before.path("top.pem"), content).unwrap();
            node.node.reload(setup(top, &renewed, grace).settings()).unwrap();
            let stayed = node.node.snapshot().stayed;
            assert!(
                matches!(&*stayed, [one] if one.site.is_none() && one.why.contains(why)),
                "{stayed:?}"
            );
            assert_eq!(graces(), [grace; 2]);
            assert!(is_shown(&before, "a.test").await);
            assert!(!is_shown(&before, "b.test").await && is_shown(&after, "b.test").await);
        }
        // A site that has given up its own for one that cannot be used.
        node.node.reload(setup(&gone, "", 5).settings()).unwrap();
        node.node.reload(setup(&gone, "", 6).settings()).unwrap();
        assert_eq!(graces(), [6; 2]);
        assert!(is_shown(&before, "a.test").await && is_shown(&after, "b.test").await);
        let whole = after.issue("whole", &["a.test", "b.test"]);
        node.node.reload(setup(&whole, "", 7).settings()).unwrap();
        assert!(node.node.snapshot().stayed.is_empty());
        assert_eq!(node.node.certificates().unwrap().loaded().certificates, 1);
        assert!(is_shown(&after, "a.test").await && !is_shown(&before, "a.test").await);
    });
}

#[test]
fn a_session_is_resumed_and_counted() {
    run(async {
        let authority = Authority::new();
        let certificate = authority.issue("a", &["example.test"]);
        let origin = Origin::serve(|_| fresh("x"));
        let node = encrypted(&origin, &certificate).start();
        let config = authority.client(&["http/1.1"]);
        // Whichever worker takes it: they share the keys.
        for resumed in 0..6 {
            let mut client = Client::over(connect(&node, &config).await);
            // Tickets come behind the handshake; with a response they are there.
            assert_eq!(client.get("/a").await.text(), "x");
            node.counted("tls_handshakes", resumed + 1).await;
            assert_eq!(node.count("tls_resumed"), resumed);
        }
    });
}

#[test]
fn a_session_is_resumed_at_another_node_that_has_the_key() {
    // Files are looked at once a second, and a machine may have other things to do.
    run_within(Duration::from_secs(300), async {
        let authority = Authority::new();
        let certificate = authority.issue("a", &["example.test"]);
        let origin = Origin::serve(|_| fresh("x"));
        let key = |seed: u8| (seed..seed + 48).collect::<Vec<_>>();
        let (shared, alone) = (authority.path("shared"), authority.path("alone"));
        std::fs::write(&shared, key(1)).unwrap();
        std::fs::write(&alone, key(100)).unwrap();
        let start = |file: &std::path::Path| {
            let keys = format!("[tls]\nticket_keys = [\"{}\"]", file.display());
            encrypted(&origin, &certificate).and(&keys).start()
        };
        let (one, two, other) = (start(&shared), start(&shared), start(&alone));
        let config = authority.client(&["http/1.1"]);
        // A client offers the newest ticket it has.
        let visit = async |node: &TestNode| {
            let mut client = Client::over(connect(node, &config).await);
            assert_eq!(client.get("/a").await.text(), "x");
            node.count("tls_resumed")
        };
        assert_eq!((visit(&one).await, visit(&two).await, visit(&one).await), (0, 1, 1));
        assert_eq!(visit(&other).await, 0, "it has other keys");
        // Its file is rewritten: what the others sealed opens there, by itself.
        std::fs::write(&alone, [key(100), key(1)].concat()).unwrap();
        visit(&one).await;
        while visit(&other).await == 0 {
            visit(&one).await;
        }
        // A broken file leaves the keys as they are.
        std::fs::write(&alone, "broken").unwrap();
        let next = (*other.node.snapshot().settings).clone();
        let error = other.node.reload(next).unwrap_err().to_string();
        assert!(error.contains("are no keys"), "{error}");
        let before = other.count("tls_resumed");
        visit(&one).await;
        assert_eq!(visit(&other).await, before + 1);
    });
}

#[test]
fn a_session_is_resumed_at_the_other_nodes_of_a_fleet_and_nowhere_else() {
    run(async {
        let authority = Authority::new();
        let certificate = authority.issue("a", &["example.test"]);
        let origin = Origin::serve(|_| fresh("x"));
        let secret = |name: &str, digit: &str| {
            std::fs::write(authority.path(name), digit.repeat(64)).unwrap();
            authority.path(name)
        };
        let (ours, theirs) = (secret("ours", "a"), secret("theirs", "b"));
        // Nobody is there to ask for keys, and nobody needs to be.
        let start = |name: &str, secret: &std::path::Path| {
            let mut setup = encrypted(&origin, &certificate);
            setup.listen.push_str("http3 = true\n");
            let fleet = format!(
                "[fleet]\nservers = [\"nats://127.0.0.1:1\"]\nname = \"{name}\"\ntickets = true\n\
                 secret = \"{}\"",
                secret.display()
            );
            setup.and(&fleet).start()
        };
        let (one, two) = (start("fleet", &ours), start("fleet", &ours));
        let (other, stranger) = (start("other", &ours), start("fleet", &theirs));
        let tcp = authority.client(&["http/1.1"]);
        let over_tcp = async |node: &TestNode| {
            let before = node.count("tls_resumed");
            let mut client = Client::over(connect(node, &tcp).await);
            assert_eq!(client.get("/a").await.text(), "x");
            node.count("tls_resumed") - before
        };
        let quic = authority.client(&["h3"]);
        let over_quic = async |node: &TestNode| {
            let before = node.count("tls_resumed");
            let tls = Arc::clone(&quic);
            let mut client = H3Client::connect_as(node.address(), tls, "example.test").await;
            assert_eq!(client.get("/a").await.status, 200);
            client.close();
            node.count("tls_resumed") - before
        };
        for (node, resumed) in [(&one, 0), (&two, 1), (&one, 1), (&other, 0), (&one, 0)] {
            assert_eq!(over_tcp(node).await, resumed);
            assert_eq!(over_quic(node).await, resumed);
        }
        assert_eq!((over_tcp(&stranger).await, over_quic(&stranger).await), (0, 0));
    });
}

#[test]
fn a_client_that_does_not_speak_tls_is_turned_away() {
    run(async {
        let authority = Authority::new();
        let certificate = authority.issue("a", &["example.test"]);
        let origin = Origin::serve(|_| fresh("x"));
        let node =
            encrypted(&origin, &certificate).and("[tls]\nhandshake_timeout = \"100ms\"").start();
        // Who has written `http://` for `https://` is told.
        let told = Client::to(&node).await.get("/a").await;
        assert_eq!((told.status, told.complete), (400, true));
        assert!(told.text().contains("this port speaks HTTPS"), "{}", told.text());
        node.counted("tls_failed", 1).await;
        // Neither is one that says nothing.
        let mut silent = Client::to(&node).await;
        assert!(silent.ended().await);
        node.counted("tls_failed", 2).await;
        assert_eq!(origin.count(), 0);
    });
}

#[test]
fn a_listener_in_the_clear_and_one_with_tls_share_the_cache() {
    run(async {
        let authority = Authority::new();
        let certificate = authority.issue("a", &["example.test"]);
        let origin = Origin::serve(|_| fresh("x"));
        let mut setup = encrypted(&origin, &certificate);
        setup.listen.push_str("[[listen]]\naddress = \"127.0.0.1:0\"\n");
        let node = setup.start();
        let addresses = node.node.socket_addresses();
        let config = authority.client(&["http/1.1"]);
        let stream = secure(addresses[0], &config, "example.test").await.unwrap();
        assert_eq!(Client::over(stream).get("/a").await.text(), "x");
        let clear = *addresses.last().unwrap();
        assert_ne!(clear.port(), addresses[0].port());
        assert_eq!(Client::connect(clear).await.get("/a").await.text(), "x");
        assert_eq!(origin.count(), 1);
    });
}

/// A client that agrees on keys in no other way than by X25519 and ML-KEM-768 together.
fn hybrid_client(authority: &Authority, alpn: &[u8]) -> Arc<ClientConfig> {
    let provider =
        CryptoProvider { kx_groups: vec![kx_group::X25519MLKEM768], ..default_provider() };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.path("ca.pem")).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    Arc::new(config)
}

#[test]
fn keys_are_agreed_on_by_a_hybrid_group_over_tcp_and_quic() {
    run(async {
        let authority = Authority::new();
        let origin = Origin::serve(|_| fresh("x"));
        let node = Setup::of(&origin).encrypted(&authority, "http3 = true\n").start();
        let config = hybrid_client(&authority, b"http/1.1");
        let name = "example.test".try_into().unwrap();
        let mut connection = ClientConnection::new(config, name).unwrap();
        let mut socket = TcpStream::connect(node.address()).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).unwrap();
        }
        let group = connection.negotiated_key_exchange_group().unwrap().name();
        assert_eq!(group, NamedGroup::X25519MLKEM768);
        // Its first flight is more than one datagram.
        let config = hybrid_client(&authority, b"h3");
        let mut client = H3Client::connect_as(node.address(), config, "example.test").await;
        assert_eq!(client.get("/a").await.body, b"x");
        assert_eq!(node.count("tls_handshakes"), 2);
    });
}
