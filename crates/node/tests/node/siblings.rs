//! Nodes of one place, of which each key has its home at one.

use crate::client::{Answer, Client, get, get_with, request};
use crate::harness::{Setup, TestNode, run, until};
use crate::origin::{Origin, fresh, refusing, response};
use crate::tiers::share;
use freshet_cache::Purge;
use freshet_http::applied::Position;
use freshet_net::address::Address;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::net::TcpSocket;

/// Nodes before `origin` that know each other.
pub(crate) fn place(origin: &Origin, names: &[&str]) -> Vec<TestNode> {
    place_with(origin, names, "")
}

/// The same with more of a configuration.
pub(crate) fn place_with(origin: &Origin, names: &[&str], more: &str) -> Vec<TestNode> {
    place_of(origin, names, "", more)
}

/// The same with more of `[cache]` as well.
pub(crate) fn place_of(origin: &Origin, names: &[&str], cache: &str, more: &str) -> Vec<TestNode> {
    let of_cache = cache;
    // Bound until all have started: nobody else gets these addresses, and who says so may listen there.
    let held: Vec<_> = names.iter().map(|_| reserved()).collect();
    let at: Vec<_> = held.iter().map(|socket| socket.local_addr().unwrap()).collect();
    let row = |(name, at)| format!("[[sibling]]\nname = \"{name}\"\nurl = \"http://{at}\"\n");
    let rows: String = names.iter().zip(&at).map(row).collect();
    let start = |(name, at)| {
        let mut setup = Setup::of(origin);
        setup.listen = format!("[[listen]]\naddress = \"{at}\"\n");
        let cache = format!(
            "[cache]\nname = \"{name}\"\nloop_id = \"{name}\"\npeers = [\"127.0.0.0/8\"]\n{of_cache}"
        );
        setup.and(&cache).and(&rows).and(more).start()
    };
    names.iter().zip(&at).map(start).collect()
}

fn reserved() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}

/// What the node that was asked says of its cache: the last line, behind those of others.
pub(crate) fn said(answer: &Answer) -> &str {
    let lines = answer.head.fields.iter();
    let mut lines = lines.filter(|(name, _)| name.eq_ignore_ascii_case("cache-status"));
    lines.next_back().map_or("", |(_, value)| value.rsplit(", ").next().unwrap_or(value))
}

/// An origin that numbers its answers, which may be kept.
fn numbering() -> Origin {
    let count = AtomicU64::new(0);
    Origin::serve(move |_| fresh(count.fetch_add(1, SeqCst).to_string()))
}

/// An origin that answers with the number of changes so far. `/refused` cannot be changed.
fn changing() -> Origin {
    let count = AtomicU64::new(0);
    Origin::serve(move |asked| match (asked.method(), asked.target()) {
        ("GET", _) => fresh(count.load(SeqCst).to_string()),
        (_, "/refused") => response("403 Forbidden", &[], ""),
        ("POST", _) => {
            count.fetch_add(1, SeqCst);
            let named = asked.field("x-named").unwrap_or("/elsewhere");
            response("201 Created", &[&format!("Location: {named}")], "done")
        }
        _ => {
            count.fetch_add(1, SeqCst);
            response("200 OK", &[], "done")
        }
    })
}

/// Asks for a target until the node has a copy of its own.
async fn heat(node: &TestNode, target: &str) {
    let mut client = Client::to(node).await;
    while !said(&client.get(target).await).contains("hit") {}
}

/// A target whose home is `home`, which `node` has asked for it.
pub(crate) async fn homed_at(home: &TestNode, node: &TestNode) -> String {
    for number in 0..100 {
        let (target, before) = (format!("/homed/{number}"), home.count("requests"));
        assert_eq!(get(node, &target).await.status, 200);
        if home.count("requests") > before {
            return target;
        }
    }
    panic!("it has no keys");
}

#[test]
fn a_place_fetches_each_object_once_whichever_node_is_asked() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let nodes = place(&origin, &["a", "b", "c"]);
        for node in &nodes {
            for number in 0..60 {
                let answer = get(node, &format!("/{number}")).await;
                assert_eq!((answer.status, answer.text().as_str()), (200, "x"));
            }
        }
        assert_eq!(origin.count(), 60);
        // Each key is asked for twice at its home by the others, and never anywhere else.
        let from_siblings: Vec<_> = nodes.iter().map(|node| node.count("requests") - 60).collect();
        assert_eq!(from_siblings.iter().sum::<u64>(), 120, "{from_siblings:?}");
        assert!(from_siblings.iter().all(|count| *count >= 10), "{from_siblings:?}");
        // It lives there alone: memory of the place is for different objects.
        until(|| nodes.iter().map(TestNode::objects).sum::<u64>() == 60).await;
        assert!(nodes.iter().all(|node| node.objects() >= 10));
    });
}

#[test]
fn what_is_asked_for_often_is_kept_by_each_node_and_its_home_is_spared() {
    run(async {
        let origin = numbering();
        let nodes = place(&origin, &["a", "b", "c"]);
        let target = homed_at(&nodes[1], &nodes[0]).await;
        let at_origin = origin.count();
        for node in [&nodes[0], &nodes[2]] {
            // Nothing has to come from its home any more once it was asked for a few times.
            let mut client = Client::to(node).await;
            let first = client.get(&target).await;
            assert!(!said(&first).contains("stored"), "{}", said(&first));
            while !said(&client.get(&target).await).contains("hit") {}
            let asked = nodes[1].count("requests");
            for _ in 0..100 {
                assert_eq!(client.get(&target).await.text(), first.text());
            }
            assert_eq!(nodes[1].count("requests"), asked);
        }
        assert_eq!(origin.count(), at_origin);
    });
}

#[test]
fn a_crowd_asks_the_home_once_and_has_the_first_bytes_at_once() {
    run(async {
        let mut origin = Origin::scripted();
        let nodes = place(&origin, &["a", "b"]);
        let mut number = 0;
        // Until there is one whose home is the other node.
        let (target, asked, first) = loop {
            let target = format!("/crowd/{number}");
            let mut client = Client::to(&nodes[0]).await;
            client.ask("GET", &target, &[]).await;
            let asked = origin.next().await;
            let been_at = asked.request.field("cdn-loop").unwrap_or_default();
            if been_at.contains(',') {
                break (target, asked, client);
            }
            asked.send(fresh("x"));
            assert_eq!(client.answer("GET").await.text(), "x");
            number += 1;
        };
        let before = nodes[0].count("waits");
        let mut clients = vec![first];
        for _ in 0..20 {
            let mut client = Client::to(&nodes[0]).await;
            client.ask("GET", &target, &[]).await;
            clients.push(client);
        }
        nodes[0].counted("waits", before + 20).await;
        let requests = nodes[1].count("requests");
        share(&asked, &mut clients).await;
        assert_eq!(nodes[1].count("requests"), requests);
    });
}

#[test]
fn whoever_wants_it_keeps_all_that_comes_from_siblings() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let nodes = place_with(&origin, &["a", "b"], "[parents]\nsibling_keep_rate = 0\n");
        let target = homed_at(&nodes[1], &nodes[0]).await;
        let asked = nodes[1].count("requests");
        let answer = get(&nodes[0], &target).await;
        assert!(said(&answer).contains("hit"), "{}", said(&answer));
        assert_eq!(nodes[1].count("requests"), asked);
    });
}

#[test]
fn a_request_goes_to_one_sibling_at_most_and_what_is_not_kept_to_none() {
    run(async {
        let origin = numbering();
        let nodes = place(&origin, &["a", "b", "c"]);
        let target = homed_at(&nodes[1], &nodes[0]).await;
        let purge = |node: &TestNode| {
            let shared = &node.node.shared;
            let key = shared.cache.key(crate::client::HOST, &target);
            assert!(shared.purge(&key, Purge::Hard).durability.wait());
        };
        let (asked, at_origin) = (nodes[1].count("requests"), origin.count());
        purge(&nodes[0]);
        // It was at another node of the place, which may think otherwise of who is well.
        let fields = ["CDN-Loop: elsewhere, C;v=1"];
        assert_eq!(get_with(&nodes[0], &target, &fields).await.status, 200);
        assert_eq!((nodes[1].count("requests"), origin.count()), (asked, at_origin + 1));
        purge(&nodes[0]);
        assert_eq!(request(&nodes[0], "POST", &target, &["Content-Length: 0"]).await.status, 200);
        // It hears that there was one, and nothing else.
        assert_eq!((nodes[1].count("requests"), origin.count()), (asked + 1, at_origin + 2));
        assert_eq!((nodes[1].count("changes_heard"), nodes[1].count("purges")), (1, 0));
        assert_eq!(get(&nodes[0], &target).await.status, 200);
        assert_eq!(nodes[1].count("requests"), asked + 2);
    });
}

#[test]
fn a_sibling_that_is_gone_costs_a_try() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let mut nodes = place(&origin, &["a", "b"]);
        let target = homed_at(&nodes[1], &nodes[0]).await;
        drop(nodes.pop());
        let asked = origin.count();
        for number in 0..30 {
            let answer = get(&nodes[0], &format!("/gone/{number}")).await;
            assert_eq!((answer.status, answer.text().as_str()), (200, "x"));
        }
        assert_eq!(origin.count(), asked + 30);
        // What lived there is fetched once more, and lives here.
        for _ in 0..2 {
            assert_eq!(get(&nodes[0], &target).await.text(), "x");
        }
        assert_eq!(origin.count(), asked + 31);
    });
}

#[test]
fn a_node_is_not_filled_with_what_its_sibling_has_still_to_purge() {
    run(async {
        let origin = numbering();
        let nodes = place(&origin, &["a", "b"]);
        let at = |number| Position::new("test", number).expect("a name");
        for node in &nodes {
            node.node.shared.applied.advance(at(1));
        }
        let target = homed_at(&nodes[1], &nodes[0]).await;
        let old = get(&nodes[0], &target).await.text();
        let purge = |node: &TestNode| {
            let shared = &node.node.shared;
            let key = shared.cache.key(crate::client::HOST, &target);
            assert!(shared.purge(&key, Purge::Hard).durability.wait());
            shared.applied.advance(at(2));
        };
        purge(&nodes[0]);
        let answer = get(&nodes[0], &target).await;
        assert_ne!(answer.text(), old);
        assert!(answer.cache().contains("detail=pass-behind"), "{}", answer.cache());
        // Nor does the sibling keep what it fetched meanwhile.
        assert_eq!(get(&nodes[1], &target).await.text(), old);
    });
}

#[test]
fn what_is_changed_by_way_of_one_node_is_new_at_each() {
    run(async {
        let origin = changing();
        let nodes = place(&origin, &["a", "b", "c"]);
        let target = homed_at(&nodes[1], &nodes[0]).await;
        for (changes, writer) in (1..).zip(&nodes) {
            // One that is asked for often is at all of them.
            for node in &nodes {
                heat(node, &target).await;
            }
            let fields = ["Content-Length: 0"];
            assert_eq!(request(writer, "PUT", &target, &fields).await.text(), "done");
            for node in &nodes {
                assert_eq!(get(node, &target).await.text(), changes.to_string());
            }
        }
        // What an answer names is changed as well, wherever its home is.
        for (changes, home) in (4..).zip(&nodes) {
            let asked_by = nodes.iter().find(|node| !std::ptr::eq(*node, home)).expect("another");
            let named = homed_at(home, asked_by).await;
            let fields = ["Content-Length: 0", &format!("X-Named: {named}")];
            assert_eq!(request(&nodes[0], "POST", "/all", &fields).await.status, 201);
            for node in &nodes {
                assert_eq!(get(node, &named).await.text(), changes.to_string());
            }
        }
    });
}

#[test]
fn what_an_origin_refuses_to_change_stays() {
    run(async {
        let origin = changing();
        let nodes = place(&origin, &["a", "b"]);
        get(&nodes[0], "/refused").await;
        let asked = origin.count();
        for node in &nodes {
            let fields = ["Content-Length: 0"];
            assert_eq!(request(node, "DELETE", "/refused", &fields).await.status, 403);
            assert_eq!(get(node, "/refused").await.text(), "0");
        }
        assert_eq!(origin.count(), asked + 2);
    });
}

#[test]
fn the_word_for_a_change_passes_the_doors_of_its_site_and_comes_from_nodes_alone() {
    run(async {
        let origin = changing();
        let names = ["a", "b"];
        let nodes = place_with(
            &origin,
            &names,
            "[[access]]\npath = \"/closed\"\ndeny = [\"127.0.0.0/8\"]\n",
        );
        let word = |from| [from, "Freshet-Changed: ?1"];
        let (of_a, of_b) = (word("CDN-Loop: a"), word("CDN-Loop: b"));
        assert_eq!(get(&nodes[0], "/closed").await.status, 403);
        assert_eq!(request(&nodes[0], "PURGE", "/closed", &[]).await.status, 403);
        assert_eq!(request(&nodes[0], "PURGE", "/closed", &of_b).await.status, 204);
        let asked = origin.count();
        for node in &nodes {
            get(node, "/a").await;
        }
        for (node, word) in nodes.iter().zip([&of_b, &of_a]) {
            assert_eq!(request(node, "PURGE", "/a", word).await.status, 204);
            assert_eq!(node.objects(), 0);
        }
        get(&nodes[0], "/a").await;
        assert_eq!(origin.count(), asked + 2);
        assert_eq!((nodes[0].count("changes_heard"), nodes[1].count("changes_heard")), (2, 1));
        // Others may not say it, nor do caches hand it on, which are none of these nodes or name one that it has been at before;
        // nor is it one where there are no nodes beside it.
        let strangers = "peers = [\"192.0.2.0/24\"]\npurge_from = [\"192.0.2.0/24\"]\n";
        let sibling =
            |name| format!("[[sibling]]\nname = \"{name}\"\nurl = \"http://{}\"\n", refusing());
        let rows = sibling("a") + &sibling("b");
        let peers = "peers = [\"127.0.0.0/8\"]\npurge_from = [\"192.0.2.0/24\"]\n";
        let [of_others, of_peers] =
            [strangers, peers].map(|who| format!("[cache]\nloop_id = \"a\"\n{who}"));
        for (cache, rows, word) in [
            (&of_others, rows.as_str(), &of_b),
            (&of_peers, rows.as_str(), &word("CDN-Loop: edge")),
            (&of_peers, rows.as_str(), &word("CDN-Loop: b, edge")),
            (&of_peers, "", &of_b),
        ] {
            let node = Setup::of(&origin).and(cache).and(rows).start();
            let first = get(&node, "/a").await.text();
            assert_eq!(request(&node, "PURGE", "/a", word).await.status, 405);
            assert!(get(&node, "/a").await.cache().contains("hit"));
            assert_eq!(get(&node, "/a").await.text(), first);
        }
    });
}

#[test]
fn a_node_that_is_away_hears_of_changes_when_it_is_back_and_nobody_waits_for_it() {
    run(async {
        let origin = changing();
        let at = refusing();
        let row = |name, at| format!("[[sibling]]\nname = \"{name}\"\nurl = \"http://{at}\"\n");
        let setup = Setup::of(&origin).and("[cache]\nloop_id = \"a\"\n");
        let node = setup.and(&row("a", refusing())).and(&row("b", at)).start();
        let begun = Instant::now();
        for number in 0..20 {
            let target = format!("/{number}");
            let fields = ["Content-Length: 0"];
            assert_eq!(request(&node, "PUT", &target, &fields).await.status, 200);
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        let back =
            Origin::serve_at(Address::Tcp(at), None, |_| response("204 No Content", &[], ""));
        until(|| back.count() == 20).await;
        for asked in back.requests() {
            assert_eq!(asked.method(), "PURGE");
            assert_eq!(asked.field("host"), Some(crate::client::HOST));
            assert_eq!(asked.field("cdn-loop"), Some("a"));
        }
        let targets: BTreeSet<_> =
            back.requests().iter().map(|asked| asked.target().to_owned()).collect();
        assert_eq!(targets.len(), 20);
    });
}
