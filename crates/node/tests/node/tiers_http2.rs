//! Tiers that speak HTTP/2 with each other.

use crate::authority::Authority;
use crate::client::{Client, get, get_with};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, fresh, head, ranged, response};
use freshet_net::tls::server::ServerOptions;

/// A parent that asks for certificates, and the table for it with the edge's.
fn guarded(origin: &Origin, authority: &Authority, rest: &str) -> (TestNode, String) {
    let certificate = authority.issue("parent", &["localhost"]);
    authority.issue("edge", &["e1.edge.test"]);
    let path = |file: &str| authority.path(file).display().to_string();
    let mut setup = Setup::of(origin);
    setup.listen.push_str(&format!(
        "tls = true\nclient_ca = \"{}\"\nclient_certificates = \"required\"\n",
        path("ca.pem")
    ));
    let cache = "[cache]\nname = \"parent\"\npeer_names = [\"*.edge.test\"]";
    let parent = setup.and(&certificate).and(cache).and(rest).start();
    let table = format!(
        "[[parent]]\nname = \"parent\"\nurl = \"https://localhost:{}\"\nca = \"{}\"\n\
         certificate = \"{}\"\nkey = \"{}\"\n",
        parent.address().port(),
        path("ca.pem"),
        path("edge.pem"),
        path("edge.key"),
    );
    (parent, table)
}

/// An edge of one worker, so that there is one pool.
fn edge(origin: &Origin, rest: &str) -> TestNode {
    let mut setup = Setup::of(origin);
    setup.workers = 1;
    let patient = "[origins]\nconnect_timeout = \"60s\"";
    setup.and("[cache]\nname = \"edge\"").and(rest).and(patient).start()
}

/// Versions and names of clients of all requests so far.
async fn seen(parent: &TestNode, count: usize) -> Vec<String> {
    let mut records = Vec::new();
    until(|| {
        records = parent.node.shared.log.recent(usize::MAX);
        records.len() >= count
    })
    .await;
    let told = |record: &[u8]| {
        let record = freshet_node::log::decode(&mut &record[..]).unwrap();
        format!("{} {}", record.version, record.client_name)
    };
    let mut seen: Vec<_> = records.iter().map(|record| told(record)).collect();
    seen.sort();
    seen.dedup();
    seen
}

#[test]
fn many_requests_of_an_edge_share_a_connection_with_a_certificate() {
    run(async {
        for http in ["2", "auto"] {
            let mut origin = Origin::scripted();
            let authority = Authority::new();
            let (parent, table) = guarded(&origin, &authority, "");
            let edge = edge(&origin, &format!("{table}http = \"{http}\"\n"));
            let mut clients = Vec::new();
            for number in 0..20 {
                let mut client = Client::to(&edge).await;
                client.ask("GET", &format!("/{number}"), &["Priority: u=1"]).await;
                clients.push(client);
            }
            // All of them are under way at once.
            let mut asked = Vec::new();
            for _ in 0..20 {
                asked.push(origin.next().await);
            }
            for one in &asked {
                assert_eq!(one.request.field("priority"), Some("u=1"));
                assert_eq!(one.request.field("via"), Some("1.1 edge, 2 parent"));
                one.send(fresh(one.request.target()));
            }
            for (number, client) in clients.iter_mut().enumerate() {
                let answer = client.answer("GET").await;
                assert_eq!(answer.text(), format!("/{number}"));
                assert_eq!(answer.field("via"), Some("1.1 parent, 2 edge"));
            }
            assert_eq!(seen(&parent, 20).await, ["HTTP/2 e1.edge.test"]);
            assert_eq!(parent.count("connections_accepted"), 1);
        }
    });
}

#[test]
fn ranges_validations_uploads_and_large_bodies_go_through() {
    run(async {
        let whole = pattern(3, 0..3_000_000);
        let body = whole.clone();
        let origin = Origin::serve(move |request| match request.method() {
            "POST" => response("200 OK", &["Cache-Control: no-store"], &request.body),
            _ if request.field("if-none-match") == Some("\"1\"") => {
                head("304 Not Modified", &["ETag: \"1\"", "Cache-Control: max-age=60"], None)
            }
            _ if request.target() == "/stale" => {
                response("200 OK", &["ETag: \"1\"", "Cache-Control: max-age=0"], "stale")
            }
            _ => ranged(request, &body, "\"1\"", &["Cache-Control: max-age=60"]),
        });
        let authority = Authority::new();
        let (parent, table) = guarded(&origin, &authority, "");
        let edge = edge(&origin, &format!("{table}http = \"2\"\n"));
        let part = get_with(&edge, "/film", &["Range: bytes=1000000-1999999"]).await;
        assert_eq!(part.status, 206);
        assert!(part.body == whole[1_000_000..2_000_000]);
        assert!(get(&edge, "/film").await.body == whole);
        assert_eq!(get(&edge, "/stale").await.text(), "stale");
        assert_eq!(get(&edge, "/stale").await.text(), "stale");
        let last = origin.requests().into_iter().rfind(|one| one.target() == "/stale").unwrap();
        assert_eq!(last.field("if-none-match"), Some("\"1\""));
        let mut client = Client::to(&edge).await;
        let sent = pattern(4, 0..2_000_000);
        client.ask("POST", "/up", &["Content-Length: 2000000"]).await;
        client.send(&sent).await;
        assert!(client.answer("POST").await.body == sent);
        assert_eq!(seen(&parent, 1).await, ["HTTP/2 e1.edge.test"]);
    });
}

#[test]
fn a_client_that_leaves_costs_a_stream_and_no_connection() {
    run(async {
        let mut origin = Origin::scripted();
        let authority = Authority::new();
        let (parent, table) = guarded(&origin, &authority, "");
        let edge = edge(&origin, &format!("{table}http = \"2\"\n"));
        let mut client = Client::to(&edge).await;
        // What is for one client alone ends with it.
        client.ask("POST", "/live", &["Content-Length: 0"]).await;
        let live = origin.next().await;
        live.send(head("200 OK", &["Cache-Control: no-store"], Some(10_000_000)));
        live.send("some of it");
        assert_eq!(client.head().await.expect("a head").status(), 200);
        drop(client);
        // Through both tiers, the origin hears of it when it sends on.
        until(|| {
            live.send("more");
            live.is_closed()
        })
        .await;
        let mut other = Client::to(&edge).await;
        other.ask("GET", "/next", &[]).await;
        origin.next().await.send(fresh("next"));
        assert_eq!(other.answer("GET").await.text(), "next");
        assert_eq!(parent.count("connections_accepted"), 1);
    });
}

#[test]
fn an_origin_without_http2_gets_what_it_speaks() {
    run(async {
        let authority = Authority::new();
        let old = Origin::serve_at(
            freshet_net::address::Address::Tcp(([127, 0, 0, 1], 0).into()),
            Some(authority.server()),
            |_| response("200 OK", &["Cache-Control: no-store"], "x"),
        );
        assert_eq!(ServerOptions::default().alpn, [b"http/1.1".to_vec()]);
        let of = |http: &str| {
            let mut setup = Setup::of(&old);
            let ca = authority.path("ca.pem").display().to_string();
            setup.origins.push_str(&format!("ca = \"{ca}\"\nhttp = \"{http}\"\n"));
            setup.workers = 1;
            setup.start()
        };
        let either = of("auto");
        for _ in 0..3 {
            assert_eq!(get(&either, "/a").await.text(), "x");
        }
        assert_eq!(old.connections(), 1);
        let only = of("2");
        let answer = get(&only, "/a").await;
        assert_eq!(answer.status, 502);
        assert!(answer.cache().contains("origin-tls"), "{}", answer.cache());
    });
}

#[test]
fn a_tunnel_goes_over_http1() {
    run(async {
        let mut origin = Origin::scripted();
        let mut setup = Setup::of(&origin);
        setup.origins.push_str("http = \"2\"\n");
        let node = setup.and("[origins]\nupgrades = [\"websocket\"]").start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/ws", &["Connection: Upgrade", "Upgrade: websocket"]).await;
        let mut asked = origin.next().await;
        let fields = ["Connection: Upgrade", "Upgrade: websocket"];
        asked.send(head("101 Switching Protocols", &fields, None));
        assert_eq!(client.answer("GET").await.status, 101);
        client.send("ping").await;
        assert_eq!(asked.some_body().await.unwrap(), b"ping");
    });
}
