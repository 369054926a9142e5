//! Several nodes in a row: edges, parents, an origin.

use crate::authority::Authority;
use crate::client::{Answer, Client, get, get_with, request};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Asked, Origin, fresh, head, ranged, refusing, response, then_close};
use freshet_base::clock::UnixMillis;
use freshet_cache::Purge;
use freshet_http::applied::Position;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const PEERS: &str = "peers = [\"127.0.0.0/8\"]";

/// A parent before `origin`, whose peers are on loopback.
pub(crate) fn parent(origin: &Origin, name: &str) -> Setup {
    Setup::of(origin).and(&format!("[cache]\nname = \"{name}\"\nloop_id = \"{name}\"\n{PEERS}"))
}

/// A table for a parent.
pub(crate) fn table(name: &str, node: &TestNode) -> String {
    at(name, 1, &format!("http://{}", node.address()))
}

pub(crate) fn at(name: &str, group: u8, url: &str) -> String {
    format!("[[parent]]\nname = \"{name}\"\ngroup = {group}\nurl = \"{url}\"\n")
}

/// An edge with these tables.
pub(crate) fn edge(origin: &Origin, name: &str, tables: &str) -> Setup {
    let cache = format!("[cache]\nname = \"{name}\"\nloop_id = \"{name}\"");
    Setup::of(origin).and(&cache).and(tables)
}

/// A parent before `origin`, and an edge before that.
fn two_tiers(origin: &Origin) -> (TestNode, TestNode) {
    let parent = parent(origin, "parent").start();
    let edge = edge(origin, "edge", &table("parent", &parent)).start();
    (parent, edge)
}

/// An origin that numbers its answers, which may be kept.
pub(crate) fn numbering() -> Origin {
    let count = AtomicU64::new(0);
    Origin::serve(move |_| fresh(count.fetch_add(1, SeqCst).to_string()))
}

fn place(number: u64) -> Position {
    Position::new("test", number).expect("a name")
}

/// Answers a crowd: all have the first bytes before the origin has sent the last.
pub(crate) async fn share(asked: &Asked, clients: &mut [Client]) {
    asked.send(head("200 OK", &["Cache-Control: max-age=60"], Some(6)));
    asked.send("abc");
    for client in clients.iter_mut() {
        assert_eq!(client.head().await.expect("a head").status(), 200);
        assert_eq!(client.some(3).await, b"abc");
    }
    asked.send("def");
    for client in clients {
        assert_eq!(client.some(3).await, b"def");
    }
}

/// Carries out the purge of this number.
fn purge(node: &TestNode, target: &str, number: u64) {
    purge_as(node, target, number, Purge::Hard);
}

fn purge_as(node: &TestNode, target: &str, number: u64, how: Purge) {
    let shared = &node.node.shared;
    let key = shared.cache.key(crate::client::HOST, target);
    let is_durable =
        shared.applied.carry_out(place(number), || shared.purge(&key, how).durability.wait());
    assert!(is_durable);
}

#[test]
fn a_crowd_at_two_edges_is_one_request_at_the_origin() {
    run(async {
        let mut origin = Origin::scripted();
        let parent = parent(&origin, "parent").start();
        let edges: Vec<_> =
            ["e1", "e2"].map(|name| edge(&origin, name, &table("parent", &parent)).start()).into();
        let mut clients = Vec::new();
        for number in 0..40 {
            let mut client = Client::to(&edges[number % 2]).await;
            client.ask("GET", "/a", &[]).await;
            clients.push(client);
        }
        let asked = origin.next().await;
        for edge in &edges {
            edge.counted("waits", 19).await;
        }
        parent.counted("waits", 1).await;
        share(&asked, &mut clients).await;
        assert_eq!((origin.count(), parent.count("fetches")), (1, 1));
    });
}

#[test]
fn each_tier_says_what_it_did() {
    run(async {
        let origin =
            Origin::serve(|_| response("200 OK", &["Cache-Control: max-age=60", "Age: 7"], "x"));
        let parent = parent(&origin, "parent").start();
        let [first, second] =
            ["e1", "e2"].map(|name| edge(&origin, name, &table("parent", &parent)).start());
        let lines = |answer: &Answer| -> Vec<String> {
            let lines = answer.head.fields.iter();
            let lines = lines.filter(|(name, _)| name.eq_ignore_ascii_case("cache-status"));
            lines.flat_map(|(_, value)| value.split(", ").map(str::to_owned)).collect()
        };
        let answer = get(&first, "/a").await;
        let said = lines(&answer);
        assert!(said.len() == 2 && said[0].starts_with("parent; fwd=uri-miss"), "{said:?}");
        assert!(said[1].starts_with("e1; fwd=uri-miss"), "{said:?}");
        let answer = get(&second, "/a").await;
        let said = lines(&answer);
        assert!(said.len() == 2 && said[0].starts_with("parent; hit"), "{said:?}");
        assert!(said[1].starts_with("e2; fwd=uri-miss; stored"), "{said:?}");
        let age: u64 = answer.head.number("age").expect("an age");
        assert!((7..60).contains(&age), "{age}");
        let again = get(&second, "/a").await;
        assert!(again.head.number("age").expect("an age") >= age);
        assert_eq!(again.head.fields.iter().filter(|(name, _)| name == "Age").count(), 1);
        let asked = &origin.requests()[0];
        assert_eq!(asked.field("cdn-loop"), Some("e1, parent"));
        assert_eq!(asked.field("via"), Some("1.1 e1, 1.1 parent"));
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn an_edge_is_not_filled_with_what_its_parent_has_still_to_purge() {
    run(async {
        let origin = numbering();
        let (parent, edge) = two_tiers(&origin);
        for node in [&parent, &edge] {
            node.node.shared.applied.advance(place(1));
        }
        assert_eq!(get(&edge, "/a").await.text(), "0");
        purge(&edge, "/a", 2);
        // The parent has it still, and may not give it.
        let answer = get(&edge, "/a").await;
        assert_eq!(answer.text(), "1");
        assert!(answer.cache().contains("detail=pass-behind"), "{}", answer.cache());
        // Nor may it keep what it fetched meanwhile as if that were from after its own purge.
        assert_eq!(parent.count("misses"), 1);
        purge(&parent, "/a", 2);
        assert_eq!(get(&edge, "/a").await.text(), "1");
        assert_eq!(get(&parent, "/a").await.text(), "2");
        assert_eq!(origin.count(), 3);
    });
}

#[test]
fn what_is_asked_for_while_a_purge_reaches_the_disks_is_from_behind_it() {
    run(async {
        let origin = numbering();
        let (parent, edge) = two_tiers(&origin);
        for node in [&parent, &edge] {
            node.node.shared.applied.advance(place(1));
        }
        assert_eq!(get(&edge, "/a").await.text(), "0");
        let shared = Arc::clone(&edge.node.shared);
        let (is_gone, gone) = tokio::sync::oneshot::channel();
        let (disks, is_on_disk) = std::sync::mpsc::channel::<()>();
        let purging = std::thread::spawn(move || {
            let key = shared.cache.key(crate::client::HOST, "/a");
            shared.applied.carry_out(place(2), || {
                let _ = shared.purge(&key, Purge::Hard);
                is_gone.send(()).expect("it is waited for");
                is_on_disk.recv().expect("it is on them");
            });
        });
        gone.await.expect("it is purged");
        // It is gone here; the parent has it still.
        assert_eq!(get(&edge, "/a").await.text(), "1");
        disks.send(()).expect("it waits");
        purging.join().expect("it ends");
        purge(&parent, "/a", 2);
        assert_eq!(get(&edge, "/a").await.text(), "1");
    });
}

#[test]
fn an_edge_never_keeps_as_fresh_what_its_parent_has_softly_purged() {
    run(async {
        let count = AtomicU64::new(0);
        let mut origin = Origin::serve(move |_| {
            let fields = "Cache-Control: max-age=60, stale-while-revalidate=60, stale-if-error=60";
            response("200 OK", &[fields], count.fetch_add(1, SeqCst).to_string())
        });
        let (parent, node) = two_tiers(&origin);
        assert_eq!(get(&node, "/a").await.text(), "0");
        for (each, number) in [(&node, 2), (&parent, 2)] {
            purge_as(each, "/a", number, Purge::Soft(UnixMillis::now()));
        }
        // The old one is served while it is refreshed, and then the new one.
        assert_eq!(get(&node, "/a").await.text(), "0");
        until(|| node.count("fetches") == 2 && origin.count() == 2).await;
        while get(&node, "/a").await.text() != "1" {}
        // Where nobody can be asked the parent's helps an edge that has none, and is stale there too.
        purge_as(&parent, "/a", 3, Purge::Soft(UnixMillis::now()));
        origin.kill();
        let other = edge(&origin, "other", &table("parent", &parent)).start();
        for _ in 0..2 {
            let answer = get(&other, "/a").await;
            assert_eq!(answer.text(), "1");
            assert!(answer.head.number("age").expect("an age") >= 60);
            assert!(!answer.cache().contains("other; hit;"), "{}", answer.cache());
        }
    });
}

#[test]
fn a_parent_that_hears_of_the_purge_meanwhile_answers_as_always() {
    run(async {
        let origin = numbering();
        let (parent, edge) = two_tiers(&origin);
        parent.node.shared.applied.advance(place(1));
        assert_eq!(get(&edge, "/a").await.text(), "0");
        purge(&edge, "/a", 2);
        let mut client = Client::to(&edge).await;
        client.ask("GET", "/a", &[]).await;
        parent.counted("requests", 2).await;
        purge(&parent, "/a", 2);
        let answer = client.answer("GET").await;
        assert_eq!(answer.text(), "1");
        assert!(!answer.cache().contains("pass-behind"), "{}", answer.cache());
        assert_eq!(get(&parent, "/a").await.text(), "1");
    });
}

#[test]
fn a_purge_reaches_over_a_parent_to_the_next_one() {
    run(async {
        let origin = numbering();
        let top = parent(&origin, "top").start();
        let middle = parent(&origin, "middle").and(&table("top", &top)).start();
        let edge = edge(&origin, "edge", &table("middle", &middle)).start();
        for node in [&top, &middle, &edge] {
            node.node.shared.applied.advance(place(1));
        }
        assert_eq!(get(&edge, "/a").await.text(), "0");
        purge(&edge, "/a", 2);
        assert_eq!(get(&edge, "/a").await.text(), "1");
        assert_eq!((top.count("passes"), middle.count("passes")), (1, 1));
        // An origin hears nothing of all that.
        assert!(origin.requests().iter().all(|asked| asked.field("freshet-applied").is_none()));
    });
}

#[test]
fn what_a_stranger_says_it_has_applied_goes_nowhere() {
    run(async {
        let origin = numbering();
        let (seen, heard) = (Arc::new(AtomicU64::new(0)), Origin::serve(|_| fresh("x")));
        let node = Setup::of(&origin).start();
        node.node.shared.applied.advance(place(1));
        for _ in 0..3 {
            let answer = get_with(&node, "/a", &["Freshet-Applied: test.9"]).await;
            seen.fetch_add(u64::from(answer.text() == "0"), SeqCst);
        }
        assert_eq!((seen.load(SeqCst), origin.count()), (3, 1));
        // Nor to a parent that would believe it.
        let edge = edge(&heard, "edge", &at("parent", 1, &heard.url())).start();
        for number in ["test.9", "garbage"] {
            let said = format!("Freshet-Applied: {number}");
            request(&edge, "POST", "/a", &[&said, "Content-Length: 0"]).await;
            get_with(&edge, &format!("/{number}"), &[&said]).await;
        }
        assert!(heard.requests().iter().all(|asked| asked.field("freshet-applied").is_none()));
    });
}

#[test]
fn what_changes_a_resource_makes_it_invalid_at_every_tier() {
    run(async {
        let origin = numbering();
        let (_parent, edge) = two_tiers(&origin);
        // As clients name a node whose port is not the usual one.
        let host = format!("Host: {}", edge.address());
        let ask = async |method: &str| {
            let mut client = Client::to(&edge).await;
            client
                .send(&format!("{method} /a HTTP/1.1\r\n{host}\r\nContent-Length: 0\r\n\r\n"))
                .await;
            client.answer(method).await.text().to_owned()
        };
        assert_eq!(ask("GET").await, "0");
        assert_eq!(ask("POST").await, "1");
        assert_eq!(ask("GET").await, "2");
    });
}

#[test]
fn what_is_for_caches_reaches_edges_and_no_clients() {
    run(async {
        let origin = Origin::serve(|_| {
            response("200 OK", &["Cache-Control: max-age=60", "Surrogate-Key: news"], "x")
        });
        let (parent, edge) = two_tiers(&origin);
        assert_eq!(get(&edge, "/a").await.field("surrogate-key"), None);
        assert_eq!(get(&parent, "/a").await.field("surrogate-key"), Some("news"));
        // The edge knows the tag all the same.
        let tag = edge.node.snapshot().sites.all()[0].name.tag(b"news");
        assert_eq!(edge.node.shared.purge_tag(tag, Purge::Hard).objects, 1);
    });
}

/// Requests for each of `count` targets, by the parent that got them.
fn asked_by_parent(parents: &[TestNode]) -> Vec<u64> {
    parents.iter().map(|parent| parent.count("requests")).collect()
}

#[test]
fn keys_have_one_home_among_parents_whichever_edge_asks() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let parents: Vec<_> =
            ["p1", "p2", "p3"].iter().map(|name| parent(&origin, name).start()).collect();
        let tables = |order: [usize; 3]| -> String {
            order.iter().map(|at| table(&format!("p{at}"), &parents[*at])).collect()
        };
        let edges =
            [[0, 1, 2], [2, 0, 1]].map(|order| edge(&origin, "edge", &tables(order)).start());
        for edge in &edges {
            let mut client = Client::to(edge).await;
            for number in 0..60 {
                assert_eq!(client.get(&format!("/{number}")).await.status, 200);
            }
        }
        // Each was fetched once, by its home.
        assert_eq!(origin.count(), 60);
        let asked = asked_by_parent(&parents);
        assert!(
            asked.iter().all(|count| *count >= 20) && asked.iter().sum::<u64>() == 120,
            "{asked:?}"
        );
    });
}

#[test]
fn groups_are_asked_one_after_the_other_and_then_the_origin() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &["Cache-Control: no-store"], "x"));
        let far = parent(&origin, "far").start();
        let gone = |name| at(name, 1, &format!("http://{}", refusing()));
        let near: String = ["n1", "n2", "n3"].map(gone).concat();
        let beyond = at("far", 2, &format!("http://{}", far.address()));
        let node = edge(&origin, "edge", &(near.clone() + &beyond)).start();
        for number in 0..10 {
            let answer = get(&node, &format!("/{number}")).await;
            assert!(
                answer.status == 200 && answer.cache().contains("far; fwd"),
                "{}",
                answer.cache()
            );
        }
        assert_eq!(far.count("requests"), 10);
        let direct = edge(&origin, "edge", &near).start();
        assert_eq!(get(&direct, "/direct").await.text(), "x");
        assert_eq!(far.count("requests"), 10);
        let alone = edge(&origin, "edge", &(near + "[parents]\ndirect = false\n")).start();
        let count = origin.count();
        assert_eq!(get(&alone, "/alone").await.status, 502);
        assert_eq!(origin.count(), count);
    });
}

#[test]
fn a_parent_that_says_it_cannot_is_one_of_several() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &["Cache-Control: no-store"], "x"));
        let busy = Origin::serve(|_| {
            response("503 No", &["Proxy-Status: p1; error=connection_limit_reached"], "busy")
        });
        let sick = Origin::serve(|_| response("503 No", &["Cache-Control: no-store"], "sick"));
        let node = edge(&origin, "edge", &at("busy", 1, &busy.url())).start();
        assert_eq!(get(&node, "/a").await.text(), "x");
        // What changes something is not sent twice.
        assert_eq!(request(&node, "POST", "/a", &["Content-Length: 0"]).await.text(), "busy");
        // An origin's own word is the answer.
        let node = edge(&origin, "edge", &at("sick", 1, &sick.url())).start();
        assert_eq!(get(&node, "/b").await.text(), "sick");
        assert_eq!((busy.count(), sick.count(), origin.count()), (2, 1, 1));
    });
}

#[test]
fn a_parent_that_breaks_off_before_it_has_answered_is_one_of_several() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &["Cache-Control: no-store"], "x"));
        // One says nothing, and one not all of a head.
        let mute = Origin::serve(|_| then_close(""));
        let cut = Origin::serve(|_| then_close("HTTP/1.1 200 OK\r\nCache-"));
        let tables = at("mute", 1, &mute.url()) + &at("cut", 1, &cut.url());
        let node = edge(&origin, "edge", &tables).start();
        assert_eq!(get(&node, "/a").await.text(), "x");
        assert_eq!((mute.count(), cut.count(), origin.count()), (1, 1, 1));
        // Nobody knows what became of a POST.
        let answer = request(&node, "POST", "/a", &["Content-Length: 0"]).await;
        assert_eq!((answer.status, origin.count()), (502, 1));
    });
}

#[test]
fn a_circle_of_parents_ends_at_the_origin() {
    run(async {
        let origin = numbering();
        let first = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let second = edge(&origin, "b", &at("a", 1, &format!("http://{first}"))).start();
        let mut setup = edge(&origin, "a", &table("b", &second));
        setup.listen = format!("[[listen]]\naddress = \"{first}\"\n");
        let node = setup.start();
        let answer = get(&node, "/a").await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "0"));
        assert_eq!((node.count("requests"), second.count("requests")), (2, 1));
        assert_eq!(origin.requests()[0].field("cdn-loop"), Some("a, b"));
        // Asked at once, neither waits for the other for long.
        let both = async |target: &str| {
            let (one, two) = tokio::join!(get(&node, target), get(&second, target));
            assert_eq!((one.status, two.status), (200, 200), "{target}");
        };
        tokio::join!(both("/1"), both("/2"), both("/3"), both("/4"));
    });
}

#[test]
fn a_range_is_a_range_in_every_tier() {
    run(async {
        let whole = pattern(3, 0..5_000_000);
        let served = whole.clone();
        let origin = Origin::serve(move |asked| {
            ranged(asked, &served, "\"1\"", &["Cache-Control: max-age=60"])
        });
        let (parent, edge) = two_tiers(&origin);
        let answer = get_with(&edge, "/a", &["Range: bytes=1000000-1000999"]).await;
        assert_eq!((answer.status, answer.body.len()), (206, 1000));
        assert!(answer.body == whole[1_000_000..1_001_000]);
        assert_eq!(origin.requests()[0].range(), Some((1_000_000, 1_000_999)));
        // What is there is served from there; what is not is fetched, and no more.
        get_with(&edge, "/a", &["Range: bytes=1000100-1000199"]).await;
        assert_eq!((origin.count(), parent.count("requests")), (1, 1));
        let answer = get(&edge, "/a").await;
        assert!(answer.complete && answer.body == whole);
        let fetched: u64 = origin
            .requests()
            .iter()
            .map(|asked| asked.range().map_or(5_000_000, |(first, last)| last - first + 1))
            .sum();
        assert_eq!(fetched, 5_000_000);
    });
}

#[test]
fn a_stale_object_is_confirmed_through_all_tiers() {
    run(async {
        let origin = Origin::serve(|asked| match asked.field("if-none-match") {
            Some("\"1\"") => head("304 Same", &["ETag: \"1\"", "Cache-Control: max-age=60"], None),
            _ => response("200 OK", &["ETag: \"1\"", "Cache-Control: max-age=0"], "abc"),
        });
        let (parent, edge) = two_tiers(&origin);
        assert_eq!(get(&edge, "/a").await.text(), "abc");
        let answer = get(&edge, "/a").await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "abc"));
        assert_eq!(get(&edge, "/a").await.text(), "abc");
        let conditions: Vec<_> =
            origin.requests().iter().map(|asked| asked.field("if-none-match").is_some()).collect();
        assert_eq!(conditions, [false, true]);
        assert_eq!((parent.count("revalidated"), edge.count("revalidated")), (1, 1));
    });
}

#[test]
fn interim_responses_and_trailers_come_through() {
    run(async {
        let mut origin = Origin::scripted();
        let (_parent, edge) = two_tiers(&origin);
        let mut client = Client::to(&edge).await;
        client.ask("GET", "/a", &["TE: trailers"]).await;
        let asked = origin.next().await;
        asked.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n");
        let hint = client.head().await.expect("a hint");
        assert_eq!((hint.status(), hint.field("link")), (103, Some("</a.css>; rel=preload")));
        asked.send(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\
             Trailer: X-Sum\r\n\r\n3\r\nabc\r\n",
        );
        // Once it is all there it has a length, and HTTP/1 has no trailers behind that.
        assert_eq!(client.head().await.expect("a head").status(), 200);
        assert_eq!(client.chunk().await.expect("a chunk"), b"abc");
        asked.send("0\r\nX-Sum: 7\r\n\r\n");
        assert_eq!(client.chunk().await.expect("the end"), b"");
        assert_eq!(client.some(12).await, b"X-Sum: 7\r\n\r\n");
    });
}

#[test]
fn a_hot_key_has_several_homes_and_others_have_one() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &["Cache-Control: no-store"], "x"));
        let parents: Vec<_> =
            ["p0", "p1", "p2"].iter().map(|name| parent(&origin, name).start()).collect();
        let tables: String =
            parents.iter().enumerate().map(|(at, node)| table(&format!("p{at}"), node)).collect();
        let homes = async |hot_rate: u32| {
            let rules = format!("{tables}[parents]\nhot_rate = {hot_rate}\nhot_copies = 2\n");
            let node = edge(&origin, "edge", &rules).start();
            let before = asked_by_parent(&parents);
            let mut client = Client::to(&node).await;
            for _ in 0..200 {
                assert_eq!(client.get("/hot").await.status, 200);
            }
            let after = asked_by_parent(&parents);
            after.iter().zip(before).filter(|(after, before)| *after > before).count()
        };
        assert_eq!((homes(0).await, homes(10).await), (1, 2));
    });
}

#[test]
fn health_checks_of_parents_take_one_out() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &["Cache-Control: no-store"], "x"));
        let well = Arc::new(AtomicU64::new(200));
        let says = Arc::clone(&well);
        let parent = Origin::serve(move |asked| match asked.target() {
            "/up" => response(&format!("{} Now", says.load(SeqCst)), &[], ""),
            _ => response("200 OK", &["Cache-Control: no-store"], "parent"),
        });
        let checks = "[parents]\nhealth_path = \"/up\"\n[health]\ninterval = \"10ms\"\nwindow = 1\n\
                      threshold = 1\n";
        let node = edge(&origin, "edge", &(at("parent", 1, &parent.url()) + checks)).start();
        let mut client = Client::to(&node).await;
        while client.get("/1").await.text() != "parent" {}
        well.store(503, SeqCst);
        while client.get("/2").await.text() != "x" {}
        well.store(200, SeqCst);
        while client.get("/3").await.text() != "parent" {}
        assert!(origin.requests().iter().all(|asked| asked.target() != "/up"));
    });
}

/// A parent whose listener asks for certificates of `authority`, with more of `[cache]`.
fn guarded(origin: &Origin, authority: &Authority, how: &str, cache: &str) -> Setup {
    let certificate = authority.issue("parent", &["localhost"]);
    let mut setup = Setup::of(origin);
    setup.listen.push_str(&format!(
        "tls = true\nclient_ca = \"{}\"\nclient_certificates = \"{how}\"\n",
        authority.path("ca.pem").display()
    ));
    setup.and(&certificate).and(&format!("[cache]\nname = \"parent\"\n{cache}"))
}

/// The table for such a parent, with the certificate `shown`, if any.
fn secured(node: &TestNode, authority: &Authority, shown: Option<(&Authority, &str)>) -> String {
    let url = format!("https://localhost:{}", node.address().port());
    let ca = authority.path("ca.pem").display().to_string();
    let mut table = at("parent", 1, &url) + &format!("ca = \"{ca}\"\n");
    if let Some((issuer, file)) = shown {
        issuer.issue(file, &[&format!("{file}.edge.test")]);
        for (key, end) in [("certificate", "pem"), ("key", "key")] {
            let path = issuer.path(&format!("{file}.{end}"));
            table.push_str(&format!("{key} = \"{}\"\n", path.display()));
        }
    }
    table
}

#[test]
fn a_parent_knows_its_edges_by_their_certificates() {
    run(async {
        let log = tempfile::NamedTempFile::new().unwrap();
        let origin = Origin::serve(|_| {
            response("200 OK", &["Cache-Control: no-store", "Surrogate-Key: news"], "x")
        });
        let (authority, stranger) = (Authority::new(), Authority::new());
        let cache = "peer_names = [\"*.edge.test\"]";
        let access = format!("[log]\naccess = \"{}\"\n", log.path().display());
        for minimum in ["1.2", "1.3"] {
            let rest = format!("{access}[tls]\nmin_version = \"{minimum}\"\n");
            let parent = guarded(&origin, &authority, "required", cache).and(&rest).start();
            let table = secured(&parent, &authority, Some((&authority, "e1")));
            let node = edge(&origin, "edge", &table).start();
            for _ in 0..2 {
                let answer = get(&node, "/a").await;
                assert!(answer.cache().contains("parent; fwd"), "{}", answer.cache());
            }
            assert_eq!(parent.count("requests"), 2);
            // One with a certificate of somebody else, and one without.
            for shown in [Some((&stranger, "e2")), None] {
                let alone = secured(&parent, &authority, shown) + "[parents]\ndirect = false\n";
                let other = edge(&origin, "edge", &alone).start();
                assert_eq!(get(&other, "/a").await.status, 502);
            }
            assert_eq!(parent.count("requests"), 2);
            assert_eq!(parent.count("tls_resumed"), 0);
        }
        let text = || std::fs::read_to_string(log.path()).unwrap();
        until(|| text().matches("\"client_name\":\"e1.edge.test\"").count() == 4).await;
    });
}

#[test]
fn a_certificate_that_is_asked_for_may_be_missing_and_makes_a_peer() {
    run(async {
        let origin = Origin::serve(|_| {
            response("200 OK", &["Cache-Control: no-store", "Surrogate-Key: news"], "x")
        });
        let authority = Authority::new();
        let parent =
            guarded(&origin, &authority, "optional", "peer_names = [\"e1.edge.test\"]").start();
        let mut seen = BTreeMap::new();
        for file in ["e1", "e2", ""] {
            let shown = Some((&authority, file)).filter(|_| !file.is_empty());
            let mut setup = edge(&origin, "edge", &secured(&parent, &authority, shown));
            // So that what comes from the parent goes on to the client.
            setup.rest = setup.rest.replace("[cache]", &format!("[cache]\n{PEERS}"));
            let node = setup.start();
            let answer = get(&node, "/a").await;
            assert!(answer.cache().contains("parent; fwd"), "{}", answer.cache());
            seen.insert(file, answer.field("surrogate-key").map(str::to_owned));
        }
        let key = Some("news".to_owned());
        assert_eq!(seen, BTreeMap::from([("e1", key), ("e2", None), ("", None)]));
    });
}
