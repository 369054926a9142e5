//! Origins that break: in their heads, in their bodies, or altogether.

use crate::client::{Answer, Client, get, request};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, fresh, head, response, then_close};

const FRESH: &str = "Cache-Control: max-age=3600";

/// What one client gets when the origin sends `bytes` and closes; and the node's objects then.
async fn broken(bytes: impl Into<Vec<u8>>) -> (Answer, u64) {
    let bytes = bytes.into();
    let origin = Origin::serve(move |_| then_close(bytes.clone()));
    let node = TestNode::before(&origin);
    let answer = get(&node, "/a").await;
    node.counted("fetches_failed", 1).await;
    (answer, node.objects())
}

#[test]
fn a_fill_that_breaks_is_taken_up_again_from_where_it_broke() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let whole = pattern(1, 0..500_000);
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        let asked = origin.next().await;
        asked.send(head("200 OK", &[FRESH, "ETag: \"1\""], Some(500_000)));
        asked.send(&whole[..200_000]);
        asked.close();
        let again = origin.next().await;
        let (first, last) = again.request.range().unwrap();
        assert_eq!((first, last), (200_000, 499_999));
        assert_eq!(again.request.field("if-range"), Some("\"1\""));
        // And a second time.
        let range = "Content-Range: bytes 200000-499999/500000";
        again.send(head("206 Partial Content", &[range, "ETag: \"1\""], Some(300_000)));
        again.send(&whole[200_000..300_000]);
        again.close();
        let third = origin.next().await;
        assert_eq!(third.request.range(), Some((300_000, 499_999)));
        let range = "Content-Range: bytes 300000-499999/500000";
        third.send(response("206 Partial Content", &[range, "ETag: \"1\""], &whole[300_000..]));
        let answer = client.answer("GET").await;
        assert!(answer.complete && answer.body == whole);
        assert!(get(&node, "/a").await.body == whole);
        assert_eq!(origin.count(), 3);
    });
}

#[test]
fn a_fill_is_not_taken_up_with_another_representation() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        let asked = origin.next().await;
        asked.send(head("200 OK", &[FRESH, "ETag: \"1\""], Some(1000)));
        asked.send(pattern(1, 0..500));
        asked.close();
        origin.next().await.send(response("200 OK", &[FRESH, "ETag: \"2\""], pattern(2, 0..1000)));
        let answer = client.answer("GET").await;
        assert!(!answer.complete);
        assert!(answer.body == pattern(1, 0..500));
        until(|| node.objects() == 0).await;
    });
}

#[test]
fn a_fill_that_breaks_without_a_validator_breaks_the_connection_and_is_not_kept() {
    run(async {
        for etag in ["X-None: 1", "ETag: W/\"1\""] {
            let mut bytes = head("200 OK", &[FRESH, etag], Some(1000));
            bytes.extend_from_slice(&[b'x'; 400]);
            let (answer, objects) = broken(bytes).await;
            assert_eq!((answer.status, answer.complete, answer.body.len()), (200, false, 400));
            assert_eq!(objects, 0);
        }
    });
}

#[test]
fn all_that_read_along_learn_that_a_fill_broke() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut clients = Vec::new();
        for _ in 0..20 {
            let mut client = Client::to(&node).await;
            client.ask("GET", "/a", &[]).await;
            clients.push(client);
        }
        let asked = origin.next().await;
        node.counted("waits", 19).await;
        asked.send(head("200 OK", &[FRESH], Some(1000)));
        asked.send([b'x'; 400]);
        for client in &mut clients {
            assert_eq!(client.head().await.unwrap().status(), 200);
            assert_eq!(client.some(400).await.len(), 400);
        }
        asked.close();
        for client in &mut clients {
            assert!(client.ended().await);
        }
        assert_eq!((origin.count(), node.count("responses_aborted")), (1, 20));
        until(|| node.objects() == 0).await;
    });
}

#[test]
fn a_chunked_body_without_its_end_is_not_taken_for_whole() {
    run(async {
        let mut bytes = head("200 OK", &[FRESH, "Transfer-Encoding: chunked"], None);
        bytes.extend_from_slice(b"5\r\nhello\r\n");
        let (answer, objects) = broken(bytes).await;
        assert_eq!((answer.status, answer.complete, answer.text().as_str()), (200, false, "hello"));
        assert_eq!(objects, 0);
    });
}

#[test]
fn a_broken_chunk_breaks_the_response() {
    run(async {
        for bad in ["zz\r\nhello\r\n0\r\n\r\n", "5\r\nhelloXX0\r\n\r\n", "5\nhello\n0\n\n"] {
            let mut bytes = head("200 OK", &[FRESH, "Transfer-Encoding: chunked"], None);
            bytes.extend_from_slice(b"3\r\nabc\r\n");
            bytes.extend_from_slice(bad.as_bytes());
            let (answer, objects) = broken(bytes).await;
            assert!(!answer.complete, "{bad:?}");
            assert_eq!(objects, 0);
        }
    });
}

#[test]
fn what_comes_behind_the_promised_length_is_not_part_of_the_body() {
    run(async {
        let mut bytes = head("200 OK", &[FRESH], Some(5));
        bytes.extend_from_slice(b"helloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
        let origin = Origin::serve(move |_| bytes.clone());
        let node = TestNode::before(&origin);
        for target in ["/a", "/b", "/c"] {
            assert_eq!(get(&node, target).await.text(), "hello");
        }
        // The rest was not read as the answer to anything.
        assert_eq!((origin.count(), origin.connections()), (3, 3));
    });
}

#[test]
fn heads_that_are_no_heads_are_a_502_that_says_why() {
    run(async {
        for bytes in [
            &b"garbage\r\n\r\n"[..],
            b"HTTP/1.1 abc OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        ] {
            let (answer, objects) = broken(bytes).await;
            let shown = String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(answer.status, 502, "{shown:?}: {answer:?}");
            let status = answer.field("proxy-status").unwrap_or("");
            assert!(status.starts_with("freshet; error=http_"), "{shown:?}: {status}");
            assert_eq!(objects, 0);
        }
    });
}

#[test]
fn a_head_that_is_too_long_is_a_502() {
    run(async {
        let mut bytes = b"HTTP/1.1 200 OK\r\n".to_vec();
        for index in 0..4000 {
            bytes.extend_from_slice(format!("X-{index}: {}\r\n", "y".repeat(60)).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        let (answer, _) = broken(bytes).await;
        assert_eq!(answer.status, 502);
        let status = answer.field("proxy-status").unwrap();
        assert!(status.contains("error=http_response_header"), "{status}");
    });
}

#[test]
fn a_head_cut_off_is_a_502() {
    run(async {
        let (answer, _) = broken("HTTP/1.1 200 OK\r\nContent-Le").await;
        assert_eq!(answer.status, 502);
        assert!(answer.field("proxy-status").is_some());
    });
}

#[test]
fn an_origin_that_never_answers_is_a_504() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).and("[origins]\nfirst_byte_timeout = \"50ms\"").start();
        let answer = get(&node, "/a").await;
        assert_eq!(answer.status, 504);
        let status = answer.field("proxy-status").unwrap();
        assert!(status.contains("error=http_response_timeout"), "{status}");
        assert!(answer.field("retry-after").is_some());
        origin.next().await.closed().await;
    });
}

#[test]
fn an_origin_that_stops_within_a_body_breaks_the_response() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).and("[origins]\nbetween_bytes_timeout = \"50ms\"").start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        let mut asked = origin.next().await;
        asked.send(head("200 OK", &[FRESH], Some(1000)));
        asked.send("abc");
        let answer = client.answer("GET").await;
        assert_eq!((answer.complete, answer.text().as_str()), (false, "abc"));
        asked.closed().await;
        until(|| node.objects() == 0).await;
    });
}

#[test]
fn a_body_that_ends_with_its_connection_is_kept() {
    run(async {
        let origin = Origin::serve(|_| {
            let mut bytes = head("200 OK", &[FRESH], None);
            bytes.extend_from_slice(b"to the end");
            then_close(bytes)
        });
        let node = TestNode::before(&origin);
        for _ in 0..2 {
            let answer = get(&node, "/a").await;
            assert_eq!((answer.complete, answer.text().as_str()), (true, "to the end"));
        }
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn trailers_of_the_origin_reach_clients_and_are_kept() {
    run(async {
        let origin = Origin::serve(|_| {
            let fields = [FRESH, "Transfer-Encoding: chunked", "Trailer: X-Sum"];
            let mut bytes = head("200 OK", &fields, None);
            bytes.extend_from_slice(b"5\r\nhello\r\n0\r\nX-Sum: 42\r\n\r\n");
            bytes
        });
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        let answer = client.get("/a").await;
        assert_eq!((answer.complete, answer.text().as_str()), (true, "hello"));
        // The object has a length by the time of the second request, or not; either is right.
        assert!(client.get("/a").await.complete);
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn a_connection_that_died_while_idle_is_not_an_error() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup { workers: 1, ..Setup::of(&origin) }.start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        origin.next().await.send(response("200 OK", &["Cache-Control: no-store"], "1"));
        assert_eq!(client.answer("GET").await.text(), "1");
        // The next request comes over the same connection, which dies with it.
        client.ask("GET", "/a", &[]).await;
        let second = origin.next().await;
        assert_eq!(second.request.connection, 0);
        second.close();
        let third = origin.next().await;
        assert_eq!(third.request.connection, 1);
        third.send(response("200 OK", &["Cache-Control: no-store"], "3"));
        assert_eq!(client.answer("GET").await.text(), "3");
    });
}

#[test]
fn a_304_nobody_asked_for_is_not_passed_on_as_content() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        origin.next().await.send(head("304 Not Modified", &["ETag: \"1\""], None));
        let answer = client.answer("GET").await;
        assert!(matches!(answer.status, 304 | 502), "{answer:?}");
        assert_eq!(node.objects(), 0);
    });
}

#[test]
fn a_304_for_another_representation_has_the_whole_asked_for() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        let old = ["ETag: \"1\"", "Age: 9", "Cache-Control: max-age=1, stale-if-error=60"];
        origin.next().await.send(response("200 OK", &old, "old"));
        assert_eq!(client.answer("GET").await.text(), "old");
        client.ask("GET", "/a", &[]).await;
        origin.next().await.send(head("304 Not Modified", &["ETag: \"2\""], None));
        let again = origin.next().await;
        assert_eq!(again.request.field("if-none-match"), None);
        again.send(fresh("new"));
        assert_eq!(client.answer("GET").await.text(), "new");
    });
}

#[test]
fn errors_to_head_have_no_body_and_keep_the_connection() {
    run(async {
        let node = Setup::url(&format!("http://{}", crate::origin::refusing())).start();
        let mut client = Client::to(&node).await;
        for _ in 0..2 {
            let answer = client.request("HEAD", "/a", &[]).await;
            assert_eq!(answer.status, 502);
        }
        assert_eq!(client.get("/a").await.status, 502);
        assert_eq!(request(&node, "TRACE", "/a", &[]).await.status, 405);
    });
}
