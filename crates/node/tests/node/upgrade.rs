//! Connections that become tunnels.

use crate::client::Client;
use crate::harness::{Setup, TestNode, pattern, run};
use crate::origin::{Asked, Origin, head, response};

const WISH: &[&str] = &["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x"];

/// A node that lets protocols of these tests through.
fn before(origin: &Origin) -> TestNode {
    Setup::of(origin).and("[origins]\nupgrades = [\"websocket\", \"echo\"]").start()
}

async fn switched(node: &TestNode, origin: &mut Origin) -> (Client, Asked) {
    let mut client = Client::to(node).await;
    client.ask("GET", "/ws", WISH).await;
    let asked = origin.next().await;
    assert_eq!(asked.request.field("upgrade"), Some("websocket"));
    assert!(asked.request.field("connection").unwrap().eq_ignore_ascii_case("upgrade"));
    assert_eq!(asked.request.field("sec-websocket-key"), Some("x"));
    let fields = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Accept: y"];
    asked.send(head("101 Switching Protocols", &fields, None));
    let answer = client.answer("GET").await;
    assert_eq!(answer.status, 101);
    assert_eq!(answer.field("upgrade"), Some("websocket"));
    assert_eq!(answer.field("sec-websocket-accept"), Some("y"));
    assert!(answer.field("connection").unwrap().eq_ignore_ascii_case("upgrade"));
    (client, asked)
}

#[test]
fn bytes_go_both_ways_after_the_switch() {
    run(async {
        let mut origin = Origin::scripted();
        let node = before(&origin);
        let (mut client, mut asked) = switched(&node, &mut origin).await;
        for round in 0..5 {
            client.send(format!("ping {round}")).await;
            assert_eq!(asked.some_body().await.unwrap(), format!("ping {round}").into_bytes());
            asked.send(format!("pong {round}"));
            assert_eq!(client.some(6).await, format!("pong {round}").into_bytes());
        }
        let much = pattern(1, 0..2_000_000);
        asked.send(much.clone());
        assert!(client.some(2_000_000).await == much);
        assert_eq!(node.count("pipes"), 1);
        // The client's end reaches the origin, and what that still says the client.
        client.finish().await;
        assert_eq!(asked.whole_body().await, b"");
        asked.send("bye");
        asked.close();
        assert_eq!(client.some(3).await, b"bye");
        assert!(client.ended().await);
    });
}

#[test]
fn bytes_sent_with_the_request_and_with_the_switch_are_not_lost() {
    run(async {
        let mut origin = Origin::scripted();
        let node = before(&origin);
        let mut client = Client::to(&node).await;
        let request = "GET /ws HTTP/1.1\r\nHost: example.test\r\nConnection: upgrade\r\n\
                       Upgrade: echo\r\n\r\nearly";
        client.send(request).await;
        let mut asked = origin.next().await;
        let mut bytes =
            head("101 Switching Protocols", &["Connection: upgrade", "Upgrade: echo"], None);
        bytes.extend_from_slice(b"hello");
        asked.send(bytes);
        assert_eq!(client.answer("GET").await.status, 101);
        assert_eq!(client.some(5).await, b"hello");
        assert_eq!(asked.some_body().await.unwrap(), b"early");
    });
}

#[test]
fn an_origin_that_goes_away_ends_the_tunnel() {
    run(async {
        let mut origin = Origin::scripted();
        let node = before(&origin);
        let (mut client, asked) = switched(&node, &mut origin).await;
        asked.send("last");
        asked.close();
        assert_eq!(client.some(4).await, b"last");
        assert!(client.ended().await);
        client.finish().await;
        node.counted("connections_closed", 1).await;
    });
}

#[test]
fn a_tunnel_in_which_nothing_moves_ends_when_the_site_says() {
    run(async {
        let mut origin = Origin::scripted();
        let keys = "[origins]\nupgrades = [\"websocket\"]\nupgrade_idle = \"200ms\"\n";
        let node = Setup::of(&origin).and(keys).start();
        let (mut client, mut asked) = switched(&node, &mut origin).await;
        // As long as something does in one direction, it goes on in both.
        for _ in 0..10 {
            tokio::time::sleep(std::time::Duration::from_millis(40)).await;
            client.send("tick").await;
            assert_eq!(asked.some_body().await.unwrap(), b"tick");
        }
        let began = std::time::Instant::now();
        assert!(client.ended().await);
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
        asked.closed().await;
    });
}

#[test]
fn an_origin_that_does_not_switch_answers_as_usual() {
    run(async {
        let mut origin = Origin::scripted();
        let node = before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("GET", "/ws", WISH).await;
        let asked = origin.next().await;
        asked.send(response("426 Upgrade Required", &["Connection: close"], "no"));
        asked.close();
        let answer = client.answer("GET").await;
        assert_eq!((answer.status, answer.text().as_str()), (426, "no"));
        assert_eq!(node.count("pipes"), 0);
    });
}

#[test]
fn a_switch_nobody_asked_for_is_a_502() {
    run(async {
        let mut origin = Origin::scripted();
        let node = before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        origin.next().await.send(head("101 Switching Protocols", &["Upgrade: x"], None));
        assert_eq!(client.answer("GET").await.status, 502);
        // Nor to another protocol than was asked for.
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", WISH).await;
        let other = ["Connection: upgrade", "Upgrade: echo"];
        origin.next().await.send(head("101 Switching Protocols", &other, None));
        assert_eq!(client.answer("GET").await.status, 502);
        assert_eq!(node.count("pipes"), 0);
    });
}
