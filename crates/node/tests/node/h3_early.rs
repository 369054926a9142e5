//! Clients of HTTP/3 that come again and ask before their handshake is over (0-RTT).

use crate::authority::Authority;
use crate::h3_client::H3Client;
use crate::harness::{Setup, TestNode, run, until};
use crate::origin::{Origin, fresh};
use freshet_config::Settings;
use freshet_config::document::Document;
use quinn_proto::Dir;
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, NamedGroup};
use std::sync::{Arc, Mutex};
use tokio::net::UdpSocket;

fn setup(origin: &Origin, authority: &Authority) -> Setup {
    Setup::of(origin).encrypted(authority, "http3 = true\nearly_data = true\n")
}

/// Sessions that a client could continue.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Vec<Tls13ClientSessionValue>>);

impl Sessions {
    pub(crate) fn are_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.lock().unwrap().push(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.lock().unwrap().pop()
    }
}

/// Clients that come again.
struct Returning {
    sessions: Arc<Sessions>,
    tls: Arc<ClientConfig>,
}

impl Returning {
    fn of(authority: &Authority) -> Self {
        let sessions = Arc::new(Sessions::default());
        let mut tls = ClientConfig::clone(&authority.client(&["h3"]));
        tls.enable_early_data = true;
        tls.resumption = Resumption::store(sessions.clone());
        Self { sessions, tls: Arc::new(tls) }
    }

    /// A client gets `/a`, which is in the cache then, and a session to continue.
    async fn first(&self, node: &TestNode) {
        self.sessions.0.lock().unwrap().clear();
        let tls = self.tls.clone();
        let mut client = H3Client::connect_as(node.address(), tls, "example.test").await;
        assert_eq!(client.get("/a").await.status, 200);
        client.until(|_| !self.sessions.are_empty()).await;
        client.close();
    }

    /// One of them, of which the handshake is not over.
    async fn again(&self, node: &TestNode) -> H3Client {
        self.again_from([127, 0, 0, 1], node).await
    }

    async fn again_from(&self, from: [u8; 4], node: &TestNode) -> H3Client {
        H3Client::start_early(from, node.address(), self.tls.clone()).await
    }
}

/// A handshake that is no continuation of before serves as any other.
async fn serves_late(node: &TestNode, mut client: H3Client) {
    let early = node.count("requests_early");
    if client.connection.has_0rtt() {
        client.ask("GET", "/a", &[], None);
    }
    client.until(|client| client.lost.is_some() || !client.connection.is_handshaking()).await;
    assert_eq!((client.lost.as_ref(), client.connection.accepted_0rtt()), (None, false));
    // What was early is forgotten, and is said again.
    client.streams.clear();
    client.open(Dir::Uni, &[0, 4, 0], false);
    assert_eq!(client.get("/a").await.status, 200);
    assert_eq!(node.count("requests_early"), early);
}

#[test]
fn early_requests_are_answered_from_the_cache_and_go_to_an_origin_when_the_client_is_there() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let authority = Authority::new();
        let node = setup(&origin, &authority).start();
        let clients = Returning::of(&authority);
        clients.first(&node).await;
        let mut client = clients.again(&node).await;
        assert!(client.connection.has_0rtt(), "it has a session");
        let asked = [("GET", "/a"), ("GET", "/b"), ("POST", "/c"), ("DELETE", "/a")];
        let asked = asked.map(|(method, target)| client.ask(method, target, &[], None));
        // It sends all of that and hears nothing, so its handshake is not over.
        client.hear_nothing();
        until(|| node.count("requests_early") == 4 && node.count("hits") == 1).await;
        assert_eq!((origin.count(), node.count("tls_handshakes")), (1, 1));
        for stream in asked {
            assert_eq!(client.answer(stream).await.status, 200);
        }
        assert!(client.connection.accepted_0rtt());
        assert_eq!((origin.count(), node.count("tls_resumed")), (4, 1));
        // What comes now is not early.
        assert_eq!(client.get("/d").await.status, 200);
        assert_eq!(node.count("requests_early"), 4);
    });
}

#[test]
fn what_waits_for_a_client_that_never_comes_reaches_nobody() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let authority = Authority::new();
        let limits = "[tls]\nhandshake_timeout = \"1s\"\n";
        let node = setup(&origin, &authority).and(limits).start();
        let clients = Returning::of(&authority);
        clients.first(&node).await;
        let mut client = clients.again(&node).await;
        for (method, target) in [("GET", "/b"), ("POST", "/c"), ("GET", "/a")] {
            client.ask(method, target, &[], None);
        }
        client.hear_nothing();
        until(|| node.count("requests_early") == 3 && node.count("hits") == 1).await;
        node.counted("tls_failed", 1).await;
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn what_was_recorded_is_answered_once() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let authority = Authority::new();
        let node = setup(&origin, &authority).start();
        let clients = Returning::of(&authority);
        clients.first(&node).await;
        let mut client = clients.again(&node).await;
        let stream = client.ask("GET", "/a", &[], None);
        client.hear_nothing();
        let recorded = client.first.clone();
        // While the connection is there, from elsewhere: it belongs to that.
        let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        for datagram in &recorded {
            other.send_to(datagram, node.address()).await.unwrap();
        }
        assert_eq!(client.answer(stream).await.status, 200);
        assert!(client.connection.accepted_0rtt());
        client.close();
        // When nothing is known of that any more, it is a client whose session is over.
        let mut datagram = [0; 2000];
        let mut again = tokio::time::interval(std::time::Duration::from_millis(20));
        loop {
            tokio::select! {
                biased;
                received = other.recv_from(&mut datagram) => {
                    received.unwrap();
                    if node.count("connections_accepted") == 3 {
                        break;
                    }
                }
                _ = again.tick() => for datagram in &recorded {
                    other.send_to(datagram, node.address()).await.unwrap();
                }
            }
        }
        assert_eq!((node.count("requests_early"), node.count("hits")), (1, 1));
    });
}

#[test]
fn a_session_is_continued_early_under_the_same_limits_and_from_the_same_address_alone() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let authority = Authority::new();
        let setup = setup(&origin, &authority);
        let node = setup.start();
        let clients = Returning::of(&authority);

        clients.first(&node).await;
        let client = clients.again_from([127, 0, 0, 2], &node).await;
        assert!(client.connection.has_0rtt());
        serves_late(&node, client).await;

        clients.first(&node).await;
        let limits = setup.and("[limits]\nstreams_max = 7\n");
        let mut settings = (*node.node.snapshot().settings).clone();
        settings.limits = limits.settings().limits;
        node.node.reload(settings).unwrap();
        let client = clients.again(&node).await;
        assert!(client.connection.has_0rtt());
        serves_late(&node, client).await;

        // Another process knows nothing of it.
        clients.first(&node).await;
        let other = limits.start();
        let client = clients.again(&other).await;
        assert!(client.connection.has_0rtt());
        serves_late(&other, client).await;
        assert_eq!((node.count("tls_resumed"), other.count("tls_resumed")), (0, 0));
    });
}

#[test]
fn what_was_recorded_at_one_node_is_nothing_to_another_that_has_the_same_tickets() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let authority = Authority::new();
        let keys = authority.path("keys");
        std::fs::write(&keys, (1..=80).collect::<Vec<u8>>()).unwrap();
        let shared = format!("[tls]\nticket_keys = [\"{}\"]\n", keys.display());
        let setup = setup(&origin, &authority).and(&shared);
        let (node, other) = (setup.start(), setup.start());
        let clients = Returning::of(&authority);
        for each in [&other, &node] {
            clients.first(each).await;
        }
        let mut client = clients.again(&node).await;
        let stream = client.ask("GET", "/a", &[], None);
        client.hear_nothing();
        let recorded = client.first.clone();
        assert_eq!(client.answer(stream).await.status, 200);
        assert!(client.connection.accepted_0rtt());
        let thief = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        for _ in 0..2 {
            for datagram in &recorded {
                thief.send_to(datagram, other.address()).await.unwrap();
            }
            // Its handshake has begun: what came early has been looked at, or comes now.
            thief.recv_from(&mut [0; 2000]).await.unwrap();
        }
        assert_eq!(other.count("connections_accepted"), 2);
        // The client itself is served there as one that was never here.
        clients.first(&node).await;
        let client = clients.again(&other).await;
        assert!(client.connection.has_0rtt());
        serves_late(&other, client).await;
        assert_eq!((other.count("requests_early"), other.count("hits")), (0, 1));
    });
}

#[test]
fn early_data_is_refused_where_nobody_allows_it() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let authority = Authority::new();
        let mut setup = setup(&origin, &authority);
        setup.listen = setup.listen.replace("early_data = true", "early_data = false");
        let node = setup.start();
        let clients = Returning::of(&authority);
        clients.first(&node).await;
        let client = clients.again(&node).await;
        assert!(!client.connection.has_0rtt());
        serves_late(&node, client).await;
        assert_eq!(node.count("tls_resumed"), 1);
    });
}

#[test]
fn early_data_is_for_listeners_of_http_3_that_ask_for_no_certificates() {
    for (listen, want) in [
        ("", "listeners with HTTP/3"),
        ("tls = true\nhttp3 = false\n", "listeners with HTTP/3"),
        ("tls = true\nclient_ca = \"ca.pem\"\n", "exclude each other"),
    ] {
        let text = format!(
            "[[listen]]\naddress = \":80\"\nearly_data = true\n{listen}[[origin]]\nurl = \"http://a\"\n"
        );
        let wrong = Settings::from_document(&Document::parse(&text).unwrap()).unwrap_err();
        assert!(wrong.iter().any(|one| one.message.contains(want)), "{wrong:?}");
    }
}
