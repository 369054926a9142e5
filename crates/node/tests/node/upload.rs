//! Request bodies on their way to the origin.

use crate::client::Client;
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, head, response};

const OK: &[&str] = &["Cache-Control: no-store"];

/// An origin that answers with the body it got, as framed.
fn echo() -> Origin {
    Origin::serve(|asked| response("200 OK", OK, &asked.body))
}

#[test]
fn a_body_of_known_length_arrives_whole() {
    run(async {
        let origin = echo();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        for bytes in [1, 70_000, 3_000_000] {
            let body = pattern(1, 0..bytes);
            client.ask("POST", "/u", &[&format!("Content-Length: {bytes}")]).await;
            client.send(&body).await;
            let answer = client.answer("POST").await;
            assert!(answer.status == 200 && answer.body == body, "{bytes}");
        }
        assert_eq!(node.count("request_body_bytes"), 3_070_001);
        assert_eq!(origin.requests()[0].field("content-length"), Some("1"));
    });
}

#[test]
fn a_chunked_body_arrives_whole() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("PUT", "/u", &["Transfer-Encoding: chunked"]).await;
        client.send("5\r\nhello\r\n").await;
        let mut asked = origin.next().await;
        assert_eq!(asked.request.field("transfer-encoding"), Some("chunked"));
        // It goes on as it comes.
        let mut got = Vec::new();
        while !got.windows(5).any(|five| five == b"hello") {
            got.extend_from_slice(&asked.some_body().await.unwrap());
        }
        client.send("6\r\n world\r\n0\r\n\r\n").await;
        got.extend_from_slice(&asked.whole_body().await);
        assert_eq!(String::from_utf8(got).unwrap(), "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
        asked.send(response("201 Created", OK, "made"));
        let answer = client.answer("PUT").await;
        assert_eq!((answer.status, answer.text().as_str()), (201, "made"));
        // And the connection goes on.
        client.ask("GET", "/g", &[]).await;
        origin.next().await.send(response("200 OK", OK, "next"));
        assert_eq!(client.answer("GET").await.text(), "next");
    });
}

#[test]
fn a_client_that_expects_100_is_told_to_continue_when_the_body_is_wanted() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Content-Length: 5", "Expect: 100-continue"]).await;
        assert_eq!(client.head().await.unwrap().status(), 100);
        client.send("hello").await;
        let mut asked = origin.next().await;
        assert_eq!(asked.whole_body().await, b"hello");
        asked.send(response("200 OK", OK, "ok"));
        assert_eq!(client.answer("POST").await.text(), "ok");
    });
}

#[test]
fn a_client_that_expects_100_may_be_refused_before_its_body() {
    run(async {
        let origin = echo();
        let node = Setup::of(&origin).and("[limits]\nbody_bytes_max = \"1KB\"").start();
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Content-Length: 5000", "Expect: 100-continue"]).await;
        let answer = client.answer("POST").await;
        assert_eq!((answer.status, answer.interim.len()), (413, 0));
        assert!(client.ended().await);
        assert_eq!(origin.count(), 0);
    });
}

#[test]
fn a_body_that_is_declared_too_long_is_refused_as_all_else_is() {
    run(async {
        let origin = echo();
        let page = tempfile::Builder::new().suffix(".html").tempfile().unwrap();
        std::fs::write(&page, "<h1>Too much</h1>").unwrap();
        let rules = format!(
            "[limits]\nbody_bytes_max = 10\n[cors]\norigins = [\"https://a.example\"]\n\
             [[header]]\nname = \"X-Frame-Options\"\nvalue = \"DENY\"\n\
             [[error_page]]\nstatus = [\"413\"]\nfile = \"{}\"\n",
            page.path().display()
        );
        let node = Setup::of(&origin).and(&rules).start();
        for framing in
            ["Content-Length: 11", "Content-Length: 5000000", "Transfer-Encoding: chunked"]
        {
            let mut client = Client::to(&node).await;
            client.ask("POST", "/u", &[framing, "Origin: https://a.example"]).await;
            if framing.ends_with("chunked") {
                client.send("b\r\nxxxxxxxxxxx\r\n").await;
            }
            let answer = client.answer("POST").await;
            assert_eq!((answer.status, &*answer.text()), (413, "<h1>Too much</h1>"), "{framing}");
            // What comes without a length has been passed on before it is too long, and fails as a fetch does.
            if !framing.ends_with("chunked") {
                let allowed = answer.field("access-control-allow-origin");
                assert_eq!(allowed, Some("https://a.example"), "{framing}");
                assert_eq!(answer.field("x-frame-options"), Some("DENY"), "{framing}");
            }
            assert!(answer.cache().contains("client-body-too-large"), "{}", answer.cache());
        }
        let mut over_http2 = crate::h2::connect(&node).await;
        let fields = [("content-length", "11")];
        let (response, _stream) = crate::h2::begin(&mut over_http2, "POST", &fields).await;
        let answer = crate::h2::answer(response).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (413, &b"<h1>Too much</h1>"[..]));
        assert!(answer.fields.get("x-frame-options").is_some());
        assert_eq!(node.count("requests_refused"), 3);
        until(|| node.node.shared.log.recent(usize::MAX).len() == 4).await;
        for record in node.node.shared.log.recent(usize::MAX) {
            let record = freshet_node::log::decode(&mut &record[..]).unwrap();
            let reason = record.reason().unwrap().code();
            assert_eq!(
                (record.status, reason, record.body_bytes),
                (413, "client-body-too-large", 17)
            );
            assert!(record.head_bytes > 0 && record.total_us > 0, "{record:?}");
        }
    });
}

#[test]
fn bodies_of_any_length_are_taken_without_a_bound() {
    run(async {
        let origin = echo();
        let node = Setup::of(&origin).and("[limits]\nbody_bytes_max = 0\n").start();
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Content-Length: 5"]).await;
        client.send("hello").await;
        assert_eq!(client.answer("POST").await.text(), "hello");
    });
}

#[test]
fn an_answer_may_come_before_the_body_is_over() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Content-Length: 10000000"]).await;
        client.send([b'x'; 1000]).await;
        let asked = origin.next().await;
        asked.send(response("403 Forbidden", OK, "no"));
        let answer = client.answer("POST").await;
        assert_eq!((answer.status, answer.text().as_str()), (403, "no"));
        // The rest of the body is not waited for.
        assert_eq!(answer.field("connection"), Some("close"));
        assert!(client.ended().await);
    });
}

#[test]
fn a_body_arrives_at_the_origin_that_works() {
    run(async {
        let two = echo();
        for (framing, body) in [
            ("Content-Length: 0", Vec::new()),
            ("Content-Length: 3", b"abc".to_vec()),
            ("Content-Length: 200000", pattern(1, 0..200_000)),
            ("Transfer-Encoding: chunked", b"3\r\nabc\r\n0\r\n\r\n".to_vec()),
        ] {
            let mut one = Origin::scripted();
            let order = "[origins]\ndirector = \"fallback\"";
            let node = Setup::of(&one).origin(&two.url()).and(order).start();
            one.kill();
            let mut client = Client::to(&node).await;
            client.ask("POST", "/u", &[framing]).await;
            client.send(&body).await;
            let answer = client.answer("POST").await;
            assert!(answer.status == 200 && answer.body == body, "{framing}");
        }
    });
}

#[test]
fn a_client_and_an_origin_may_talk() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Transfer-Encoding: chunked"]).await;
        client.send("5\r\nping1\r\n").await;
        let mut asked = origin.next().await;
        let mut got = Vec::new();
        while !got.ends_with(b"ping1\r\n") {
            got.extend_from_slice(&asked.some_body().await.unwrap());
        }
        asked.send(head("200 OK", OK, Some(10)));
        asked.send("pong1");
        assert_eq!(client.head().await.unwrap().status(), 200);
        assert_eq!(client.some(5).await, b"pong1");
        client.send("5\r\nping2\r\n0\r\n\r\n").await;
        assert_eq!(asked.whole_body().await, b"5\r\nping2\r\n0\r\n\r\n");
        asked.send("pong2");
        assert_eq!(client.some(5).await, b"pong2");
        assert!(client.ended().await);
    });
}

#[test]
fn a_body_that_nobody_reads_is_read_away() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", OK, "next"));
        let node = Setup::of(&origin)
            .and("[[redirect]]\nfrom = \"/old\"\nto = \"/new\"\nstatus = 308")
            .start();
        let mut client = Client::to(&node).await;
        let whole = "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n";
        for (framing, first, rest) in [
            ("Content-Length: 5", "hello", ""),
            ("Content-Length: 5", "", "hello"),
            ("Transfer-Encoding: chunked", whole, ""),
            ("Transfer-Encoding: chunked", &whole[..7], &whole[7..]),
        ] {
            client.ask("POST", "/old", &[framing]).await;
            client.send(first).await;
            // The answer does not wait for what is still to come of it.
            let answer = client.answer("POST").await;
            assert_eq!((answer.status, answer.field("connection")), (308, None), "{framing}");
            client.send(rest).await;
            client.ask("GET", "/next", &[]).await;
            assert_eq!(client.answer("GET").await.text(), "next", "{framing}");
        }
        // A client that sends what is no body, or without an end, is let go.
        for rest in ["nonsense\r\n", &format!("20000\r\n{}", "x".repeat(0x20000))] {
            let mut client = Client::to(&node).await;
            client.ask("POST", "/old", &["Transfer-Encoding: chunked"]).await;
            assert_eq!(client.answer("POST").await.status, 308);
            client.send(rest).await;
            assert!(client.ended().await);
        }
    });
}

#[test]
fn a_body_over_the_limit_is_a_413() {
    run(async {
        let origin = echo();
        let node = Setup::of(&origin).and("[limits]\nbody_bytes_max = \"100KB\"").start();
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Content-Length: 100001"]).await;
        assert_eq!(client.answer("POST").await.status, 413);
        // Chunked, so that only the bytes tell.
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Transfer-Encoding: chunked"]).await;
        for _ in 0..3 {
            client.send(format!("c350\r\n{}\r\n", "x".repeat(50_000))).await;
        }
        let answer = client.answer("POST").await;
        assert_eq!(answer.status, 413);
        assert!(client.ended().await);
        // At the limit it goes.
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Content-Length: 100000"]).await;
        client.send(vec![b'x'; 100_000]).await;
        assert_eq!(client.answer("POST").await.status, 200);
    });
}

#[test]
fn an_upload_whose_client_goes_away_ends_at_the_origin() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        for framing in ["Content-Length: 100000", "Transfer-Encoding: chunked"] {
            let mut client = Client::to(&node).await;
            client.ask("POST", "/u", &[framing]).await;
            client.send("5\r\nhello\r\n").await;
            let mut asked = origin.next().await;
            assert!(asked.some_body().await.is_some());
            drop(client);
            asked.closed().await;
        }
        assert_eq!(origin.count(), 2);
        node.counted("connections_closed", 2).await;
        until(|| node.node.shared.log.recent(usize::MAX).len() == 2).await;
        for record in node.node.shared.log.recent(usize::MAX) {
            let record = freshet_node::log::decode(&mut &record[..]).unwrap();
            assert_eq!((record.reason().unwrap().code(), record.aborted), ("client-gone", true));
        }
    });
}

/// Sends a byte after another until `is_over`; whether that came to be.
async fn drip(is_over: impl Fn() -> bool, mut send: impl AsyncFnMut()) -> bool {
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(20));
    for _ in 0..500 {
        ticks.tick().await;
        if is_over() {
            return true;
        }
        send().await;
    }
    false
}

#[test]
fn a_body_that_stops_or_drips_is_a_408_and_lets_its_origin_go() {
    run(async {
        let mut origin = Origin::scripted();
        let limits = "[limits]\nbody_timeout = \"200ms\"\nbody_rate_min = \"1KB\"";
        let node = Setup::of(&origin).and(limits).start();
        // So long that it is not read before the origin is asked.
        for (count, framing) in
            ["Content-Length: 100000", "Transfer-Encoding: chunked"].iter().enumerate()
        {
            // With nothing to come and with a byte each 20 ms.
            for drips in [false, true] {
                let mut client = Client::to(&node).await;
                client.ask("POST", "/u", &[framing]).await;
                client.send("1\r\nx\r\n").await;
                let mut asked = origin.next().await;
                let is_over = || node.count("timeouts") > 2 * count as u64 + u64::from(drips);
                if drips {
                    let byte = if count == 0 { "x" } else { "1\r\nx\r\n" };
                    assert!(drip(is_over, async || client.send(byte).await).await, "{framing}");
                }
                asked.closed().await;
                assert_eq!(client.answer("POST").await.status, 408, "{framing}");
                assert!(client.ended().await);
            }
        }
        assert_eq!(node.count("timeouts"), 4);
    });
}

#[test]
fn a_body_that_comes_at_the_least_rate_may_take_longer_than_the_timeout() {
    run(async {
        let origin = echo();
        let limits = "[limits]\nbody_timeout = \"300ms\"\nbody_rate_min = \"1KB\"";
        let node = Setup::of(&origin).and(limits).start();
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Content-Length: 4000"]).await;
        let mut ticks = tokio::time::interval(std::time::Duration::from_millis(50));
        for _ in 0..20 {
            ticks.tick().await;
            client.send([b'x'; 200]).await;
        }
        assert_eq!(client.answer("POST").await.status, 200);
        assert_eq!(node.count("timeouts"), 0);
    });
}

#[test]
fn a_broken_chunk_of_a_client_is_a_400_and_never_whole_at_the_origin() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Transfer-Encoding: chunked"]).await;
        client.send("5\r\nhello\r\n").await;
        let mut asked = origin.next().await;
        client.send("zz\r\n").await;
        asked.closed().await;
        assert!(!asked.whole_body().await.ends_with(b"0\r\n\r\n"));
        let answer = client.answer("POST").await;
        assert_eq!(answer.status, 400);
        assert!(client.ended().await);
    });
}

#[test]
fn a_post_is_not_sent_twice_when_the_connection_dies_with_it() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup { workers: 1, ..Setup::of(&origin) }.start();
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Content-Length: 2"]).await;
        client.send("ab").await;
        origin.next().await.send(response("200 OK", OK, "1"));
        assert_eq!(client.answer("POST").await.text(), "1");
        client.ask("POST", "/u", &["Content-Length: 2"]).await;
        client.send("cd").await;
        let mut asked = origin.next().await;
        assert_eq!(asked.whole_body().await, b"cd");
        asked.close();
        assert_eq!(client.answer("POST").await.status, 502);
        assert_eq!(origin.count(), 2);
    });
}

#[test]
fn many_uploads_at_once_arrive_whole() {
    run(async {
        let origin = echo();
        let node = TestNode::before(&origin);
        let mut clients = Vec::new();
        for seed in 0..30_u64 {
            let address = node.address();
            clients.push(tokio::task::spawn_local(async move {
                let mut client = Client::connect(address).await;
                let body = pattern(seed, 0..200_000 + seed);
                client.ask("PUT", "/u", &[&format!("Content-Length: {}", body.len())]).await;
                client.send(&body).await;
                client.answer("PUT").await.body == body
            }));
        }
        for client in clients {
            assert!(client.await.unwrap());
        }
    });
}

#[test]
fn a_request_that_may_have_content_and_has_none_says_so() {
    run(async {
        let origin = echo();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        for (method, fields, said) in [
            ("POST", &["Content-Length: 0"][..], Some("0")),
            ("PUT", &["Content-Length: 0"], Some("0")),
            ("PATCH", &[], Some("0")),
            ("DELETE", &[], None),
            ("GET", &["Cache-Control: no-store"], None),
        ] {
            assert_eq!(client.request(method, "/u", fields).await.status, 200);
            assert_eq!(origin.requests().pop().unwrap().field("content-length"), said, "{method}");
        }
    });
}
