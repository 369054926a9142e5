//! Groups of responses that an origin makes invalid together (RFC 9875).

use crate::client::{Client, get, request};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, Request, response};
use crate::siblings::place;
use std::sync::atomic::{AtomicU32, Ordering};

/// An origin whose pages have the numbers of their answers, and are of the groups that their paths name: `/of/a,b`
/// of `a` and `b`. A request for `/ends/a,b` names them as invalid with what it answers.
fn grouping() -> Origin {
    let count = AtomicU32::new(0);
    Origin::serve(move |asked: &Request| {
        let (what, groups) = asked.target()[1..].split_once('/').unwrap_or_default();
        let groups: Vec<_> = groups.split(',').map(|group| format!("\"{group}\"")).collect();
        let groups = groups.join(", ");
        let fields = match what {
            "of" => format!("Cache-Groups: {groups}"),
            _ => format!("Cache-Group-Invalidation: {groups}"),
        };
        let status = if what == "fails" { "500 Internal Server Error" } else { "200 OK" };
        let number = count.fetch_add(1, Ordering::Relaxed);
        response(status, &["Cache-Control: max-age=60", &fields], number.to_string())
    })
}

/// Which of these are answered by the cache.
async fn hits(node: &TestNode, targets: &[&str]) -> Vec<bool> {
    let mut all = Vec::new();
    for target in targets {
        all.push(get(node, target).await.cache().contains("hit"));
    }
    all
}

const EMPTY: [&str; 1] = ["Content-Length: 0"];

#[test]
fn what_is_of_a_group_ends_with_it_and_nothing_else_does() {
    run(async {
        let origin = grouping();
        let node = TestNode::before(&origin);
        let pages = ["/of/a", "/of/b", "/of/a,b", "/of/c"];
        hits(&node, &pages).await;
        assert_eq!(hits(&node, &pages).await, [true; 4]);
        assert_eq!(request(&node, "POST", "/ends/a", &EMPTY).await.status, 200);
        assert_eq!(hits(&node, &pages).await, [false, true, false, true]);
        request(&node, "POST", "/ends/b,c", &EMPTY).await;
        assert_eq!(hits(&node, &pages).await, [true, false, false, false]);
    });
}

#[test]
fn only_unsafe_requests_that_succeed_end_groups() {
    run(async {
        let origin = grouping();
        let node = TestNode::before(&origin);
        get(&node, "/of/a").await;
        get(&node, "/ends/a").await;
        request(&node, "QUERY", "/ends/a", &EMPTY).await;
        request(&node, "POST", "/fails/a", &EMPTY).await;
        assert_eq!(hits(&node, &["/of/a"]).await, [true]);
    });
}

#[test]
fn a_group_is_of_one_host() {
    run(async {
        let origin = grouping();
        let node = TestNode::before(&origin);
        get(&node, "/of/a").await;
        let mut other = Client::to(&node).await;
        let text = "POST /ends/a HTTP/1.1\r\nHost: other.example\r\nContent-Length: 0\r\n\r\n";
        other.send(text).await;
        assert_eq!(other.answer("POST").await.status, 200);
        assert_eq!(hits(&node, &["/of/a"]).await, [true]);
    });
}

#[test]
fn siblings_end_groups_too() {
    run(async {
        let origin = grouping();
        let nodes = place(&origin, &["a", "b"]);
        let pages = ["/of/g,1", "/of/g,2", "/of/g,3", "/of/g,4", "/of/h"];
        for node in &nodes {
            hits(node, &pages).await;
        }
        assert_eq!(request(&nodes[0], "POST", "/ends/g", &EMPTY).await.status, 200);
        let asked = origin.count();
        for node in nodes.iter().rev() {
            hits(node, &pages).await;
        }
        // Each of the group once more, for both nodes.
        assert_eq!(origin.count(), asked + 4);
    });
}

#[test]
fn groups_that_end_all_the_time_cost_one_walk_at_a_time() {
    run(async {
        let origin = grouping();
        let node = Setup::of(&origin).start();
        get(&node, "/of/a").await;
        let mut clients = Vec::new();
        for _ in 0..20 {
            let mut client = Client::to(&node).await;
            client.ask("POST", "/ends/a,b,c", &EMPTY).await;
            clients.push(client);
        }
        for mut client in clients {
            assert_eq!(client.answer("POST").await.status, 200);
        }
        assert_eq!(hits(&node, &["/of/a", "/of/a"]).await, [false, true]);
    });
}
