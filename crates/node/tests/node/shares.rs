//! How much of the origins' connections one network's clients may have, and who notices that a client
//! has left.

use crate::client::{Client, get};
use crate::h2_frames::{END_STREAM, Frames};
use crate::harness::{Setup, TestNode, proxied, run, until};
use crate::origin::{Asked, Origin, fresh, head, response};
use std::time::Duration;

const PRIVATE: &[&str] = &["Cache-Control: no-store"];

/// A node that takes the client's address from a PROXY header, with so many connections to its
/// origin, of which a network may have half.
fn shared_out(origin: &Origin, connections_max: u32) -> TestNode {
    let mut setup = Setup { workers: 1, ..Setup::of(origin) }.behind_proxy();
    setup.origins.push_str(&format!("connections_max = {connections_max}\n"));
    setup.start()
}

/// A connection of a client at this address.
async fn from(node: &TestNode, address: &str) -> Client {
    let mut client = Client::to(node).await;
    client.send(proxied(address)).await;
    client
}

#[test]
fn clients_of_one_network_leave_connections_for_others() {
    run(async {
        let mut origin = Origin::scripted();
        let node = shared_out(&origin, 32);
        let mut waiting = Vec::new();
        let mut greedy = Vec::new();
        for index in 0..20 {
            let mut client = from(&node, "192.0.2.1").await;
            client.ask("GET", &format!("/slow/{index}"), &[]).await;
            greedy.push(client);
            if index < 16 {
                waiting.push(origin.next().await);
            }
        }
        // Those over the share are told after a while, and nobody else is kept from anything.
        let mut refused = 0;
        for client in &mut greedy[16..] {
            let answer = client.answer("GET").await;
            assert_eq!(answer.status, 503);
            refused += 1;
        }
        assert_eq!((refused, waiting.len()), (4, 16));
        let mut other = from(&node, "192.0.2.2").await;
        other.ask("GET", "/page", &[]).await;
        origin.next().await.send(fresh("page"));
        assert_eq!(other.answer("GET").await.text(), "page");
        // A place that comes free is theirs again.
        waiting[0].send(response("200 OK", PRIVATE, "slow"));
        assert_eq!(greedy[0].answer("GET").await.text(), "slow");
        greedy[0].ask("GET", "/next", &[]).await;
        origin.next().await.send(response("200 OK", PRIVATE, "next"));
        assert_eq!(greedy[0].answer("GET").await.text(), "next");
    });
}

#[test]
fn who_waits_for_the_fetch_of_a_network_over_its_share_gets_the_turn() {
    run(async {
        let mut origin = Origin::scripted();
        let node = shared_out(&origin, 32);
        let mut greedy = Vec::new();
        for index in 0..16 {
            let mut client = from(&node, "192.0.2.1").await;
            client.ask("GET", &format!("/slow/{index}"), &[]).await;
            greedy.push((client, origin.next().await));
        }
        let mut first = from(&node, "192.0.2.1").await;
        first.ask("GET", "/page", &[]).await;
        until(|| node.count("misses") == 17).await;
        let mut other = from(&node, "192.0.2.2").await;
        other.ask("GET", "/page", &[]).await;
        node.counted("waits", 1).await;
        assert_eq!(first.answer("GET").await.status, 503);
        origin.next().await.send(fresh("page"));
        assert_eq!(other.answer("GET").await.text(), "page");
    });
}

/// Asks for something that the origin does not answer, and leaves.
async fn leave(node: &TestNode, origin: &mut Origin, method: &str) -> Asked {
    let mut client = Client::to(node).await;
    client.ask(method, "/slow", &[]).await;
    origin.next().await
}

#[test]
fn a_pass_whose_client_left_gives_its_connection_back() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut asked = leave(&node, &mut origin, "DELETE").await;
        asked.closed().await;
        node.counted("fetches_abandoned", 1).await;
        // Over HTTP/2 too.
        let mut client = Frames::connect(&node, 1000).await;
        client.ask(END_STREAM, 1, "/slow", &[]).await;
        let first = origin.next().await;
        drop(client);
        drop(first);
        node.counted("responses_aborted", 2).await;
    });
}

#[test]
fn a_miss_that_nobody_waits_for_ends_after_a_while() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).and("[origins]\nabandoned_timeout = \"100ms\"").start();
        let mut asked = leave(&node, &mut origin, "GET").await;
        asked.closed().await;
        node.counted("fetches_abandoned", 1).await;
        // With somebody who waits it goes on.
        let mut first = Client::to(&node).await;
        first.ask("GET", "/page", &[]).await;
        let asked = origin.next().await;
        let mut second = Client::to(&node).await;
        second.ask("GET", "/page", &[]).await;
        node.counted("waits", 1).await;
        drop(first);
        node.counted("responses_aborted", 2).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        asked.send(fresh("page"));
        assert_eq!(second.answer("GET").await.text(), "page");
        assert_eq!(node.count("fetches_abandoned"), 1);
        assert_eq!(get(&node, "/page").await.text(), "page");
    });
}

#[test]
fn a_client_that_closed_its_side_gets_its_answer_if_that_comes_soon() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        for method in ["GET", "DELETE"] {
            let mut client = Client::to(&node).await;
            client.ask(method, "/page", &[]).await;
            client.finish().await;
            origin.next().await.send(response("200 OK", PRIVATE, "page"));
            assert_eq!(client.answer(method).await.text(), "page");
        }
    });
}

#[test]
fn a_client_that_leaves_while_its_body_pauses_gives_the_connection_back() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("GET", "/slow", &[]).await;
        let mut asked = origin.next().await;
        asked.send(head("200 OK", PRIVATE, Some(1000)));
        asked.send("first");
        assert_eq!(client.head().await.unwrap().status(), 200);
        assert_eq!(client.some(5).await, b"first");
        drop(client);
        asked.closed().await;
        node.counted("responses_aborted", 1).await;
        // One that closed its own side gets what comes within a second of the last piece.
        let mut client = Client::to(&node).await;
        client.ask("GET", "/slow", &[]).await;
        client.finish().await;
        let asked = origin.next().await;
        asked.send(head("200 OK", PRIVATE, Some(10)));
        asked.send("first");
        assert_eq!(client.head().await.unwrap().status(), 200);
        assert_eq!(client.some(5).await, b"first");
        asked.send("again");
        assert_eq!(client.some(5).await, b"again");
    });
}

#[test]
fn a_small_body_that_does_not_come_costs_the_origin_nothing() {
    run(async {
        let origin = Origin::serve(|_| fresh("page"));
        let limits = "[limits]\nbody_timeout = \"200ms\"\nbody_rate_min = \"1KB\"";
        let node = Setup::of(&origin).and(limits).start();
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Content-Length: 1000"]).await;
        client.send("x").await;
        assert_eq!(client.answer("POST").await.status, 408);
        let mut client = Client::to(&node).await;
        client.ask("POST", "/u", &["Content-Length: 1000"]).await;
        client.finish().await;
        node.counted("connections_closed", 2).await;
        assert_eq!(origin.count(), 0);
    });
}

#[test]
fn a_small_body_is_there_before_a_connection_is_taken() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut slow = Client::to(&node).await;
        slow.ask("POST", "/u", &["Content-Length: 10"]).await;
        slow.send("hello").await;
        node.counted("passes", 1).await;
        let mut client = Client::to(&node).await;
        client.ask("GET", "/g", &[]).await;
        let asked = origin.next().await;
        assert_eq!(asked.request.target(), "/g");
        asked.send(fresh("page"));
        assert_eq!(client.answer("GET").await.text(), "page");
        assert_eq!(origin.count(), 1);
        slow.send("world").await;
        let mut asked = origin.next().await;
        assert_eq!(asked.whole_body().await, b"helloworld");
        asked.send(response("200 OK", PRIVATE, "done"));
        assert_eq!(slow.answer("POST").await.text(), "done");
    });
}
