//! Many requests for one thing: one fetch.

use crate::client::{Client, get, get_with};
use crate::harness::{Setup, TestNode, pattern, run, run_within, until};
use crate::origin::{Origin, fresh, head, response};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_local};

/// Clients that have asked and are reading.
async fn crowd(node: &TestNode, count: usize, target: &str, fields: &[&str]) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = Client::to(node).await;
        client.ask("GET", target, fields).await;
        clients.push(client);
    }
    clients
}

#[test]
fn two_hundred_clients_share_one_fetch_from_its_first_byte() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let whole = pattern(1, 0..300_000);
        let mut clients = crowd(&node, 200, "/a", &[]).await;
        let asked = origin.next().await;
        node.counted("waits", 199).await;
        asked.send(head("200 OK", &["Cache-Control: max-age=60"], Some(300_000)));
        asked.send(&whole[..1000]);
        // The origin holds the rest until every client has its part of the first bytes.
        let mut hits = 0;
        for client in &mut clients {
            let head = client.head().await.unwrap();
            assert_eq!(head.status(), 200);
            hits += usize::from(head.field("cache-status").unwrap().contains("; hit"));
            assert!(client.some(1000).await == whole[..1000]);
        }
        asked.send(&whole[1000..]);
        for client in &mut clients {
            assert!(client.some(299_000).await == whole[1000..]);
        }
        assert_eq!((origin.count(), hits), (1, 199));
        assert_eq!(node.count("hits_filling"), 199);
    });
}

#[test]
fn the_client_that_began_a_fetch_may_leave_without_harm_to_the_others() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let whole = pattern(2, 0..2_000_000);
        let first = crowd(&node, 1, "/a", &[]).await;
        let asked = origin.next().await;
        let mut others = crowd(&node, 3, "/a", &[]).await;
        node.counted("waits", 3).await;
        asked.send(head("200 OK", &["Cache-Control: max-age=60"], Some(2_000_000)));
        asked.send(&whole[..1_000_000]);
        for client in &mut others {
            client.head().await.unwrap();
            assert!(client.some(1_000_000).await == whole[..1_000_000]);
        }
        drop(first);
        others.pop();
        asked.send(&whole[1_000_000..]);
        for client in &mut others {
            assert!(client.some(1_000_000).await == whole[1_000_000..]);
        }
        assert!(get(&node, "/a").await.body == whole);
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn a_fetch_all_clients_left_goes_on_and_is_kept() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let clients = crowd(&node, 3, "/a", &[]).await;
        let asked = origin.next().await;
        node.counted("waits", 2).await;
        drop(clients);
        asked.send(fresh("abc"));
        until(|| node.objects() == 1).await;
        assert_eq!(get(&node, "/a").await.text(), "abc");
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn what_cannot_be_kept_does_not_make_clients_wait_for_one_another() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut clients = crowd(&node, 20, "/a", &[]).await;
        let first = origin.next().await;
        node.counted("waits", 19).await;
        first.send(response("200 OK", &["Cache-Control: private"], "1"));
        // All others are with the origin at the same time.
        let mut rest = Vec::new();
        for _ in 0..19 {
            rest.push(origin.next().await);
        }
        for asked in &rest {
            asked.send(response("200 OK", &["Cache-Control: private"], "2"));
        }
        let mut bodies = Vec::new();
        for client in &mut clients {
            bodies.push(client.answer("GET").await.text());
        }
        bodies.sort();
        assert_eq!(bodies.concat(), format!("1{}", "2".repeat(19)));
        // And from now on nobody waits at all, not even while the first fetch is under way.
        let waits = node.count("waits");
        let _clients = crowd(&node, 2, "/a", &[]).await;
        let (_first, _second) = (origin.next().await, origin.next().await);
        assert_eq!(node.count("waits"), waits);
    });
}

#[test]
fn a_failed_fetch_fails_all_that_waited_and_is_not_repeated_for_each() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut clients = crowd(&node, 50, "/a", &[]).await;
        let asked = origin.next().await;
        node.counted("waits", 49).await;
        asked.close();
        for client in &mut clients {
            let answer = client.answer("GET").await;
            assert_eq!(answer.status, 502, "{:?}", answer.head);
            assert!(answer.field("proxy-status").unwrap().contains("error=connection_terminated"));
        }
        assert_eq!((origin.count(), node.count("fetches_failed")), (1, 1));
        // The failure is not kept.
        let again = crowd(&node, 1, "/a", &[]).await;
        origin.next().await.send(fresh("ok"));
        for mut client in again {
            assert_eq!(client.answer("GET").await.text(), "ok");
        }
    });
}

#[test]
fn an_error_page_of_the_origin_reaches_all_that_waited() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut clients = crowd(&node, 10, "/a", &[]).await;
        let asked = origin.next().await;
        node.counted("waits", 9).await;
        asked.send(response("503 Busy", &["Cache-Control: max-age=1"], "busy"));
        for client in &mut clients {
            let answer = client.answer("GET").await;
            assert_eq!((answer.status, answer.text().as_str()), (503, "busy"));
        }
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn clients_of_different_variants_each_get_theirs() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut clients = Vec::new();
        for language in ["da", "da", "fi", "fi", "fi"] {
            let field = format!("X-Language: {language}");
            clients.push((language, crowd(&node, 1, "/a", &[&field]).await.remove(0)));
        }
        // Nobody knows yet that the answer varies: all but one wait, and look again.
        let first = origin.next().await;
        node.counted("waits", 4).await;
        let tell = |asked: &crate::origin::Asked| {
            let language = asked.request.field("x-language").unwrap().to_owned();
            let fields = ["Vary: X-Language", "Cache-Control: max-age=60"];
            asked.send(response("200 OK", &fields, &language));
        };
        tell(&first);
        let second = origin.next().await;
        assert_ne!(first.request.field("x-language"), second.request.field("x-language"));
        tell(&second);
        for (language, client) in &mut clients {
            assert_eq!(client.answer("GET").await.text(), *language);
        }
        assert_eq!(origin.count(), 2);
        assert_eq!(node.variants("/a"), 2);
    });
}

#[test]
fn fetches_of_known_variants_do_not_wait_for_one_another() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let vary = ["Vary: X-Language", "Cache-Control: max-age=60"];
        let mut first = crowd(&node, 1, "/a", &["X-Language: da"]).await;
        origin.next().await.send(response("200 OK", &vary, "da"));
        assert_eq!(first[0].answer("GET").await.text(), "da");
        let mut fi = crowd(&node, 2, "/a", &["X-Language: fi"]).await;
        let asked_fi = origin.next().await;
        let mut sv = crowd(&node, 2, "/a", &["X-Language: sv"]).await;
        let asked_sv = origin.next().await;
        node.counted("waits", 2).await;
        asked_sv.send(response("200 OK", &vary, "sv"));
        for client in &mut sv {
            assert_eq!(client.answer("GET").await.text(), "sv");
        }
        asked_fi.send(response("200 OK", &vary, "fi"));
        for client in &mut fi {
            assert_eq!(client.answer("GET").await.text(), "fi");
        }
        assert_eq!((origin.count(), node.variants("/a")), (3, 3));
    });
}

#[test]
fn a_head_request_and_gets_share_one_fetch() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut head = Client::to(&node).await;
        head.ask("HEAD", "/a", &[]).await;
        let asked = origin.next().await;
        assert_eq!(asked.request.method(), "GET");
        let mut clients = crowd(&node, 5, "/a", &[]).await;
        node.counted("waits", 5).await;
        asked.send(fresh("abcde"));
        let answer = head.answer("HEAD").await;
        assert_eq!((answer.status, answer.field("content-length")), (200, Some("5")));
        for client in &mut clients {
            assert_eq!(client.answer("GET").await.text(), "abcde");
        }
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn an_expired_object_is_validated_once_for_all() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let stale = ["ETag: \"1\"", "Age: 9", "Cache-Control: max-age=1, stale-if-error=60"];
        let mut first = crowd(&node, 1, "/a", &[]).await;
        origin.next().await.send(response("200 OK", &stale, "old"));
        assert_eq!(first[0].answer("GET").await.text(), "old");
        let mut clients = crowd(&node, 30, "/a", &[]).await;
        let asked = origin.next().await;
        assert_eq!(asked.request.field("if-none-match"), Some("\"1\""));
        node.counted("waits", 29).await;
        asked.send(head("304 Not Modified", &["ETag: \"1\"", "Cache-Control: max-age=60"], None));
        for client in &mut clients {
            let answer = client.answer("GET").await;
            assert_eq!((answer.status, answer.text().as_str()), (200, "old"));
        }
        assert_eq!((origin.count(), node.count("revalidated")), (2, 1));
    });
}

/// Reads a response to its end and says whether it was `whole`, without keeping it.
fn reading(node: &TestNode, whole: &Rc<Vec<u8>>) -> JoinHandle<bool> {
    let (address, whole) = (node.address(), Rc::clone(whole));
    spawn_local(async move {
        let mut client = Client::connect(address).await;
        client.ask("GET", "/large", &[]).await;
        let head = client.head().await.unwrap();
        if head.number("content-length") != Some(whole.len() as u64) {
            return false;
        }
        for wanted in whole.chunks(65_536) {
            if client.some(wanted.len()).await != wanted {
                return false;
            }
        }
        true
    })
}

/// Set `FRESHET_TEST_CROWD` to `clients,bytes` for more, such as 1000,50000000.
#[test]
fn a_large_crowd_reads_one_large_object_in_bounded_memory() {
    let wanted = std::env::var("FRESHET_TEST_CROWD").unwrap_or_default();
    let (clients, bytes) = wanted.split_once(',').unwrap_or(("1000", "5000000"));
    let (clients, bytes): (usize, u64) = (clients.parse().unwrap(), bytes.parse().unwrap());
    let origin = Origin::serve(move |_| fresh(pattern(3, 0..bytes)));
    let node = Setup::of(&origin).start();
    run_within(Duration::from_secs(600), async {
        let whole = Rc::new(pattern(3, 0..bytes));
        let reading: Vec<_> = (0..clients).map(|_| reading(&node, &whole)).collect();
        for one in reading {
            assert!(one.await.unwrap());
        }
        let (memory, _) = node.memory();
        assert!(memory < bytes + (8 << 20), "{memory} bytes for one object of {bytes}");
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn clients_of_two_workers_share_a_fetch() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let workers = &node.node.shared.stats;
        // The kernel spreads connections over the workers; some of forty come to each.
        let mut clients = crowd(&node, 40, "/a", &[]).await;
        let asked = origin.next().await;
        node.counted("waits", 39).await;
        assert!(workers.iter().all(|worker| worker.requests.value() > 0));
        asked.send(fresh("abc"));
        for client in &mut clients {
            assert_eq!(client.answer("GET").await.text(), "abc");
        }
        assert_eq!(origin.count(), 1);
        assert_eq!(get_with(&node, "/a", &[]).await.text(), "abc");
    });
}

#[test]
fn each_of_a_crowd_has_the_head_of_its_own_304_where_that_is_for_one() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        for (word, round) in ["private", "no-store"].into_iter().zip(0..) {
            let target = format!("/{round}");
            let control = format!("Cache-Control: {word}");
            let tag = "ETag: \"1\"";
            // One that is for its user alone: from now on nobody waits for another.
            let mut user = Client::to(&node).await;
            user.ask("GET", &target, &[]).await;
            origin.next().await.send(response("200 OK", &[tag, &control], "x"));
            user.answer("GET").await;
            // Two side by side: what comes first is stored, and what comes then is as before.
            let mut pair = [Client::to(&node).await, Client::to(&node).await];
            let mut asked = Vec::new();
            for client in &mut pair {
                client.ask("GET", &target, &[]).await;
                asked.push(origin.next().await);
            }
            for (client, (asked, control)) in
                pair.iter_mut().zip(asked.iter().zip(["Cache-Control: max-age=0", &control]))
            {
                asked.send(response("200 OK", &[tag, control], "x"));
                client.answer("GET").await;
            }
            // All ask about what is stored, and hear it together.
            let mut crowd = Vec::new();
            for number in 0..24 {
                let mut client = Client::to(&node).await;
                client.ask("GET", &target, &[&format!("X-User: {number}")]).await;
                crowd.push((client, origin.next().await));
            }
            for (_, asked) in &crowd {
                let user = asked.request.field("x-user").unwrap_or_default();
                let fields = [tag, &control, &format!("X-For: {user}")];
                match asked.request.field("if-none-match") {
                    Some(_) => asked.send(head("304 Not Modified", &fields, None)),
                    None => asked.send(response("200 OK", &fields, "x")),
                }
            }
            let about =
                crowd.iter().filter(|(_, asked)| asked.request.field("if-none-match").is_some());
            assert!(about.count() > 1, "{word}");
            for (number, (client, _)) in crowd.iter_mut().enumerate() {
                let answer = client.answer("GET").await;
                assert_eq!((answer.status, answer.text().as_str()), (200, "x"));
                assert_eq!(answer.field("x-for"), Some(&*number.to_string()), "{word}");
            }
        }
    });
}

#[test]
fn what_an_origin_breaks_off_at_is_no_failure_of_others() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let odd = format!("User-Agent: {}", "x".repeat(5_000));
        let mut odd = crowd(&node, 1, "/a", &[&odd]).await;
        let first = origin.next().await;
        let mut others = crowd(&node, 3, "/a", &[]).await;
        node.counted("waits", 3).await;
        first.close();
        assert_eq!(odd[0].answer("GET").await.status, 502);
        origin.next().await.send(fresh("ok"));
        for client in &mut others {
            assert_eq!(client.answer("GET").await.text(), "ok");
        }
        assert_eq!(origin.count(), 2);
    });
}
