//! What a client may not do, and how long it may take.

use crate::authority::Authority;
use crate::client::{Client, get};
use crate::h2_frames::{END_STREAM, Frames};
use crate::h3_client::H3Client;
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, fresh, response};

fn limited(origin: &Origin, limits: &str) -> TestNode {
    Setup::of(origin).and(&format!("[limits]\n{limits}")).start()
}

fn page() -> Origin {
    Origin::serve(|_| fresh("page"))
}

#[test]
fn a_head_that_does_not_come_is_a_408() {
    run(async {
        let origin = page();
        let node = limited(&origin, "request_timeout = \"100ms\"\nidle_timeout = \"30s\"");
        let mut client = Client::to(&node).await;
        client.send("GET /a HTTP/1.1\r\nHost: exam").await;
        let answer = client.answer("GET").await;
        assert_eq!((answer.status, answer.field("connection")), (408, Some("close")));
        assert!(client.ended().await);
        assert_eq!((node.count("timeouts"), origin.count()), (1, 0));
    });
}

#[test]
fn a_head_that_trickles_is_a_408_as_well() {
    run(async {
        let origin = page();
        let node = limited(&origin, "request_timeout = \"200ms\"\nidle_timeout = \"30s\"");
        let mut client = Client::to(&node).await;
        // Bytes keep coming, one field each 20 ms, so that a limit on each wait would never pass.
        let mut ticks = tokio::time::interval(std::time::Duration::from_millis(20));
        client.send("GET /a HTTP/1.1\r\n").await;
        let trickle = async {
            for index in 0..80 {
                ticks.tick().await;
                client.send(format!("X-{index}: 1\r\n")).await;
                if node.count("timeouts") > 0 {
                    return true;
                }
            }
            false
        };
        assert!(trickle.await, "a head may take for ever");
        assert_eq!(client.answer("GET").await.status, 408);
    });
}

#[test]
fn an_idle_connection_is_closed() {
    run(async {
        let origin = page();
        let node = limited(&origin, "idle_timeout = \"100ms\"");
        let mut silent = Client::to(&node).await;
        assert!(silent.ended().await);
        let mut client = Client::to(&node).await;
        assert_eq!(client.get("/a").await.text(), "page");
        assert!(client.ended().await);
        node.counted("connections_closed", 2).await;
    });
}

#[test]
fn a_client_that_does_not_read_is_given_up() {
    run(async {
        let origin = Origin::serve(|_| fresh(pattern(1, 0..30_000_000)));
        let node = limited(&origin, "send_timeout = \"200ms\"");
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        node.counted("timeouts", 1).await;
        node.counted("connections_closed", 1).await;
        assert_eq!(node.count("responses_aborted"), 1);
        // One that reads gets all of it.
        assert!(get(&node, "/a").await.body == pattern(1, 0..30_000_000));
    });
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    run(async {
        let origin = page();
        let node = limited(&origin, "connections_max = 2");
        let (mut one, mut two) = (Client::to(&node).await, Client::to(&node).await);
        assert_eq!(one.get("/a").await.text(), "page");
        assert_eq!(two.get("/a").await.text(), "page");
        let mut three = Client::to(&node).await;
        assert!(three.ended().await);
        assert_eq!(node.count("connections_refused"), 1);
        drop(one);
        node.counted("connections_closed", 2).await;
        assert_eq!(get(&node, "/a").await.text(), "page");
    });
}

#[test]
fn heads_and_targets_over_the_limits_are_refused() {
    run(async {
        let origin = page();
        let limits = "head_bytes_max = \"4KiB\"\ntarget_bytes_max = \"1KiB\"\nfields_max = 10";
        let node = limited(&origin, limits);
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[&format!("X-Large: {}", "x".repeat(5000))]).await;
        assert_eq!(client.answer("GET").await.status, 431);
        assert!(client.ended().await);
        let fields: Vec<String> = (0..12).map(|index| format!("X-{index}: 1")).collect();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let mut client = Client::to(&node).await;
        assert_eq!(client.get_with("/a", &fields).await.status, 431);
        let mut client = Client::to(&node).await;
        assert_eq!(client.get(&format!("/{}", "x".repeat(2000))).await.status, 414);
        assert!(client.ended().await);
        let mut client = Client::to(&node).await;
        assert_eq!(client.get(&format!("/{}", "x".repeat(1000))).await.status, 200);
        assert_eq!((origin.count(), node.count("requests_refused")), (1, 3));
        until(|| node.node.shared.log.recent(usize::MAX).len() == 4).await;
        for record in node.node.shared.log.recent(usize::MAX) {
            let record = freshet_node::log::decode(&mut &record[..]).unwrap();
            assert!(record.head_bytes > 0 && record.body_bytes > 0, "{record:?}");
        }
        assert!(node.count("head_bytes") > 0);
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    run(async {
        let origin = Origin::serve(|asked| {
            let body = format!("{}{}", asked.target(), String::from_utf8_lossy(&asked.body));
            response("200 OK", &["Cache-Control: no-store"], body)
        });
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        let mut text = String::new();
        for index in 0..50 {
            let body = if index % 3 == 0 { "body" } else { "" };
            let (method, length) = match body {
                "" => ("GET", String::new()),
                body => ("POST", format!("Content-Length: {}\r\n", body.len())),
            };
            text.push_str(&format!(
                "{method} /{index} HTTP/1.1\r\nHost: example.test\r\n{length}\r\n{body}"
            ));
        }
        client.send(text).await;
        for index in 0..50 {
            let body = if index % 3 == 0 { "body" } else { "" };
            assert_eq!(client.answer("GET").await.text(), format!("/{index}{body}"));
        }
    });
}

#[test]
fn pipelined_requests_behind_a_refused_one_are_not_answered() {
    run(async {
        let origin = page();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client
            .send(
                "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\n\r\n\
                 GET /c HTTP/1.1\r\nHost: a\r\n\r\n",
            )
            .await;
        assert_eq!(client.answer("GET").await.status, 200);
        assert_eq!(client.answer("GET").await.status, 400);
        assert!(client.ended().await);
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn http_1_0_closes_unless_asked_to_keep() {
    run(async {
        let origin = page();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.send("GET /a HTTP/1.0\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.answer("GET").await.text(), "page");
        assert!(client.ended().await);
        let mut client = Client::to(&node).await;
        for _ in 0..3 {
            client.send("GET /a HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n").await;
            let answer = client.answer("GET").await;
            assert_eq!(answer.text(), "page");
            assert!(answer.field("connection").unwrap().eq_ignore_ascii_case("keep-alive"));
        }
    });
}

#[test]
fn http_1_0_gets_no_chunks() {
    run(async {
        let origin = Origin::serve(|_| {
            let fields = ["Cache-Control: no-store", "Transfer-Encoding: chunked"];
            let mut bytes = crate::origin::head("200 OK", &fields, None);
            bytes.extend_from_slice(b"5\r\nhello\r\n0\r\n\r\n");
            bytes
        });
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.send("GET /a HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n").await;
        let answer = client.answer("GET").await;
        assert_eq!(answer.field("transfer-encoding"), None);
        assert_eq!(answer.text(), "hello");
        assert!(client.ended().await);
    });
}

#[test]
fn a_client_that_asks_to_close_is_closed() {
    run(async {
        let origin = page();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        let answer = client.get_with("/a", &["Connection: close"]).await;
        assert_eq!((answer.text().as_str(), answer.field("connection")), ("page", Some("close")));
        assert!(client.ended().await);
    });
}

#[test]
fn a_client_that_has_said_all_still_gets_its_answer() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        client.finish().await;
        origin.next().await.send(fresh("page"));
        assert_eq!(client.answer("GET").await.text(), "page");
        assert!(client.ended().await);
    });
}

#[test]
fn a_head_may_come_byte_by_byte() {
    run(async {
        let origin = page();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        for byte in b"GET /a HTTP/1.1\r\nHost: example.test\r\n\r\n" {
            client.send([*byte]).await;
        }
        assert_eq!(client.answer("GET").await.text(), "page");
    });
}

/// What the log has of requests that were refused, once there are so many: each one's status, why, which it was,
/// and whether its client was told anything.
async fn refusals(node: &TestNode, count: u64) -> Vec<(u16, &'static str, String, bool)> {
    node.counted("requests_refused", count).await;
    let mut seen = Vec::new();
    until(|| {
        seen = node.node.shared.log.recent(usize::MAX);
        seen.len() as u64 >= count
    })
    .await;
    let rows = seen.iter().map(|record| {
        let record = freshet_node::log::decode(&mut &record[..]).unwrap();
        let reason = record.reason().unwrap().code();
        (record.status, reason, record.target.to_owned(), record.head_bytes > 0)
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

#[test]
fn what_is_refused_is_counted_and_logged_alike_in_all_protocols() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let authority = Authority::new();
        let limits = "[limits]\nbody_bytes_max = 10\nhead_bytes_max = \"4KiB\"\n";
        let node = Setup::of(&origin).and(limits).start();
        let long = "v".repeat(8_000);
        let heads = [
            "GET / HTTP/1.1\r\nHost: a\r\nbad name: x\r\n\r\n".to_owned(),
            format!("GET / HTTP/1.1\r\nHost: a\r\nLong: {long}\r\n\r\n"),
            "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n".to_owned(),
        ];
        let mut clients = Vec::new();
        for head in heads {
            let mut client = Client::to(&node).await;
            client.send(head).await;
            clients.push(client);
        }
        let row = |status, reason, target: &str, told| (status, reason, target.to_owned(), told);
        let malformed = |told| row(400, "client-malformed", "/", told);
        let long_body = row(413, "client-body-too-large", "/up", true);
        let long_head = row(431, "client-head-too-large", "/", true);
        assert_eq!(
            refusals(&node, 3).await,
            [malformed(true), long_body.clone(), long_head.clone()]
        );
        // What is malformed is reset over the others.
        let alike = [malformed(false), long_body, long_head];

        let node = Setup::of(&origin).and(limits).start();
        let mut frames = Frames::connect(&node, 65_535).await;
        frames.ask(0, 1, "/up", &[("content-length", "11")]).await;
        frames.ask(END_STREAM, 3, "/", &[(":status", "200")]).await;
        frames.ask(END_STREAM, 5, "/", &[("long", &long)]).await;
        assert_eq!(refusals(&node, 3).await, alike);

        let setup = Setup::of(&origin).and(limits).encrypted(&authority, "http3 = true\n");
        let node = setup.start();
        let mut client = H3Client::connect(node.address(), &authority).await;
        let stream = client.ask("POST", "/up", &[("content-length", "11")], Some(b"hello world"));
        assert_eq!(client.answer(stream).await.status, 413);
        let stream = client.ask("GET", "/", &[(":status", "200")], None);
        client.until(|client| client.streams[&stream].reset.is_some()).await;
        let stream = client.ask("GET", "/", &[("long", &long)], None);
        assert_eq!(client.answer(stream).await.status, 431);
        assert_eq!(refusals(&node, 3).await, alike);
    });
}

#[test]
fn what_is_not_http_is_counted_and_logged() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = Setup::of(&origin).start();
        let mut client = Client::to(&node).await;
        client.send("SSH-2.0-x y z\r\n\r\n").await;
        let rows = refusals(&node, 1).await;
        let want = (400, "client-malformed", "SSH-2.0-x y z".to_owned(), false);
        assert_eq!(rows, [want]);
    });
}
