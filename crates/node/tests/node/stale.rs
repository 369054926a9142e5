//! Objects past their lifetime: served while refreshed, served when the origin fails, or not.

use crate::client::{Client, get, get_with};
use crate::harness::{Setup, TestNode, run, until};
use crate::origin::{Origin, fresh, head, response};

/// Old when it arrives, so that no test waits for it to become so.
fn old(rest: &str, body: &str) -> Vec<u8> {
    let control = format!("Cache-Control: max-age=1, {rest}");
    response("200 OK", &["ETag: \"1\"", "Age: 5", &control], body)
}

/// Has `/a` answered with `response` and the client served.
async fn stored(node: &TestNode, origin: &mut Origin, response: Vec<u8>) {
    let mut client = Client::to(node).await;
    client.ask("GET", "/a", &[]).await;
    origin.next().await.send(response);
    assert_eq!(client.answer("GET").await.status, 200);
}

#[test]
fn a_stale_object_is_served_while_one_request_refreshes_it() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        stored(&node, &mut origin, old("stale-while-revalidate=600", "old")).await;
        for _ in 0..20 {
            let answer = get(&node, "/a").await;
            assert_eq!(answer.text(), "old");
            assert!(answer.cache().contains("; hit; ttl=-"), "{}", answer.cache());
        }
        let refresh = origin.next().await;
        assert_eq!(refresh.request.field("if-none-match"), Some("\"1\""));
        assert!(origin.is_quiet());
        refresh.send(fresh("new"));
        until(|| node.node.shared.cache.stats().objects == 1 && node.count("fetches") == 2).await;
        let mut text = "old".to_owned();
        while text == "old" {
            text = get(&node, "/a").await.text();
        }
        assert_eq!((text.as_str(), origin.count()), ("new", 2));
    });
}

#[test]
fn what_was_never_fresh_is_nobody_elses_where_an_origin_fails() {
    run(async {
        let page = Origin::serve(|asked| {
            let user = asked.field("cookie").unwrap_or("nobody");
            let etag = format!("ETag: \"{user}\"");
            match asked.target() {
                _ if user == "evil" => response("500 Internal Server Error", &[], "evil"),
                "/etag" => response("200 OK", &[&etag], user),
                "/old" => response("200 OK", &[&etag, "Cache-Control: max-age=0"], user),
                _ => response("200 OK", &[&etag, "Cache-Control: public, max-age=0"], user),
            }
        });
        for rest in ["", "[cache]\ngrace = \"10s\"\n"] {
            let node = Setup::of(&page).and(rest).start();
            for path in ["/etag", "/old"] {
                for user in ["anna", "bob", "evil"] {
                    let answer = get_with(&node, path, &[&format!("Cookie: {user}")]).await;
                    let status = if user == "evil" { 500 } else { 200 };
                    assert_eq!((answer.status, answer.text().as_str()), (status, user), "{path}");
                }
            }
            // What is said to be for all is served on.
            assert_eq!(get_with(&node, "/public", &["Cookie: anna"]).await.text(), "anna");
            assert_eq!(get_with(&node, "/public", &["Cookie: evil"]).await.text(), "anna");
        }
    });
}

#[test]
fn what_is_for_one_client_from_now_on_ends_what_was_for_all() {
    run(async {
        let origin = Origin::serve(|asked| match asked.field("if-none-match") {
            None => old("stale-while-revalidate=600", "for all"),
            Some(_) => response("200 OK", &["Cache-Control: private"], "for one"),
        });
        let node = TestNode::before(&origin);
        for _ in 0..2 {
            assert_eq!(get(&node, "/a").await.text(), "for all");
        }
        // Nothing is stored that anybody could ask about.
        node.counted("fetches", 2).await;
        until(|| node.node.shared.cache.stats().objects == 0).await;
    });
}

#[test]
fn a_background_refresh_by_304_makes_the_object_fresh_again() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        stored(&node, &mut origin, old("stale-while-revalidate=600", "old")).await;
        assert_eq!(get(&node, "/a").await.text(), "old");
        let refresh = origin.next().await;
        refresh.send(head("304 Not Modified", &["ETag: \"1\"", "Cache-Control: max-age=60"], None));
        node.counted("revalidated", 1).await;
        let mut cache = "; ttl=-".to_owned();
        while cache.contains("; ttl=-") {
            let answer = get(&node, "/a").await;
            assert_eq!(answer.text(), "old");
            cache = answer.cache().to_owned();
        }
        assert_eq!(origin.count(), 2);
    });
}

#[test]
fn a_refresh_that_fails_does_not_take_the_stale_object_away() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        stored(&node, &mut origin, old("stale-while-revalidate=600", "old")).await;
        for round in 1..4 {
            assert_eq!(get(&node, "/a").await.text(), "old");
            let refresh = origin.next().await;
            if round == 1 {
                refresh.send(response("503 Busy", &[], "no"));
            } else {
                // Not merely closed: that is tried again over another connection.
                refresh.send("garbage\r\n\r\n");
            }
            // The turn to refresh comes free again.
            let cache = &node.node.shared.cache;
            let key = cache.key(crate::client::HOST, "/a");
            until(|| cache.peek(&key).fetches == 0).await;
        }
        assert_eq!(get(&node, "/a").await.text(), "old");
    });
}

#[test]
fn a_stale_object_stands_in_for_errors_of_the_origin() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        stored(&node, &mut origin, old("stale-if-error=600", "old")).await;
        for status in ["500 Oops", "502 Bad", "503 Busy", "504 Late"] {
            let mut client = Client::to(&node).await;
            client.ask("GET", "/a", &[]).await;
            origin.next().await.send(response(status, &["Cache-Control: no-store"], "error"));
            let answer = client.answer("GET").await;
            assert_eq!((answer.status, answer.text().as_str()), (200, "old"), "{status}");
            assert!(answer.cache().contains("; hit"), "{}", answer.cache());
        }
        // What is no error of a server is taken as it is.
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        origin.next().await.send(response("404 Not Found", &["Cache-Control: no-store"], "gone"));
        assert_eq!(client.answer("GET").await.status, 404);
    });
}

#[test]
fn a_stale_object_stands_in_for_an_origin_that_closes_or_refuses() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup { workers: 1, ..Setup::of(&origin) }.start();
        stored(&node, &mut origin, old("stale-if-error=600", "old")).await;
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        let asked = origin.next().await;
        asked.close();
        // Sent again once, because the connection had been used before.
        origin.next().await.close();
        assert_eq!(client.answer("GET").await.text(), "old");
        origin.kill();
        for _ in 0..5 {
            let answer = get(&node, "/a").await;
            assert_eq!((answer.status, answer.text().as_str()), (200, "old"));
        }
    });
}

#[test]
fn an_object_that_must_be_revalidated_is_not_served_stale() {
    run(async {
        for directive in ["must-revalidate", "proxy-revalidate", "s-maxage=1"] {
            let mut origin = Origin::scripted();
            let node = TestNode::before(&origin);
            let rest = format!("stale-while-revalidate=0, {directive}");
            let control = format!("Cache-Control: max-age=1, {rest}");
            stored(&node, &mut origin, response("200 OK", &["ETag: \"1\"", &control], "old")).await;
            // Old without a wait: what a soft purge does to it.
            let cache = &node.node.shared.cache;
            let key = cache.key(crate::client::HOST, "/a");
            until(|| {
                let variants = cache.peek(&key).variants;
                variants.iter().all(|one| {
                    let now = freshet_base::clock::UnixMillis::now();
                    one.head().freshness.ttl_ms(now) < 0
                })
            })
            .await;
            origin.kill();
            let answer = get(&node, "/a").await;
            assert_eq!(answer.status, 502, "{directive}");
        }
    });
}

#[test]
fn an_origin_that_dies_goes_unnoticed_within_the_time_of_grace() {
    run(async {
        let mut origin = Origin::serve(|_| {
            let control = "Cache-Control: max-age=1, stale-while-revalidate=600";
            response("200 OK", &["Age: 5", control], "page")
        });
        let node = TestNode::before(&origin);
        assert_eq!(get(&node, "/a").await.text(), "page");
        let mut clients = Vec::new();
        for _ in 0..10 {
            clients.push(Client::to(&node).await);
        }
        for round in 0..20 {
            if round == 5 {
                origin.kill();
            }
            for client in &mut clients {
                let answer = client.get("/a").await;
                assert_eq!((answer.status, answer.text().as_str()), (200, "page"), "{round}");
            }
        }
        node.counted("fetches_failed", 1).await;
        assert!(node.count("fetches_failed") > 0);
    });
}

#[test]
fn the_configured_grace_holds_where_the_origin_says_nothing() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).and("[cache]\ngrace = \"10m\"").start();
        let said = ["ETag: \"1\"", "Age: 5", "Cache-Control: max-age=1"];
        stored(&node, &mut origin, response("200 OK", &said, "old")).await;
        assert_eq!(get(&node, "/a").await.text(), "old");
        let refresh = origin.next().await;
        refresh.send(fresh("new"));
        let mut text = "old".to_owned();
        while text == "old" {
            text = get(&node, "/a").await.text();
        }
        assert_eq!((text.as_str(), origin.count()), ("new", 2));
    });
}

#[test]
fn an_origin_that_never_worked_gives_an_error_and_recovers() {
    run(async {
        let address = crate::origin::refusing();
        let node = Setup::url(&format!("http://{address}")).start();
        let answer = get(&node, "/a").await;
        assert_eq!(answer.status, 502);
        let status = answer.field("proxy-status").unwrap();
        assert!(status.contains("error=connection_refused"), "{status}");
        let origin =
            Origin::serve_at(freshet_net::address::Address::Tcp(address), None, |_| fresh("back"));
        assert_eq!(get(&node, "/a").await.text(), "back");
        drop(origin);
    });
}

#[test]
fn an_object_that_is_purged_while_it_is_validated_is_still_whole_for_who_asked() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        stored(&node, &mut origin, old("stale-if-error=600", "old")).await;
        let mut first = Client::to(&node).await;
        first.ask("GET", "/a", &[]).await;
        let asked = origin.next().await;
        let mut second = Client::to(&node).await;
        second.ask("GET", "/a", &[]).await;
        node.counted("waits", 1).await;
        crate::client::request(&node, "PURGE", "/a", &[]).await;
        asked.send(head("304 Not Modified", &["ETag: \"1\"", "Cache-Control: max-age=60"], None));
        let answer = first.answer("GET").await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "old"));
        // Who waited looks again and finds nothing.
        let asked = origin.next().await;
        assert_eq!(asked.request.field("if-none-match"), None);
        asked.send(fresh("new"));
        assert_eq!(second.answer("GET").await.text(), "new");
    });
}

#[test]
fn an_object_that_is_purged_while_the_origin_fails_does_not_stand_in() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        stored(&node, &mut origin, old("stale-if-error=600", "old")).await;
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        let asked = origin.next().await;
        crate::client::request(&node, "PURGE", "/a", &[]).await;
        asked.send(response("503 Busy", &[], "busy"));
        let answer = client.answer("GET").await;
        assert!(answer.complete);
        assert_eq!(answer.status, 503);
        assert!(!answer.text().contains("old"));
    });
}

#[test]
fn an_error_that_was_kept_does_not_stand_in_for_one_that_came_now() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        let control = "Cache-Control: max-age=1, stale-if-error=600";
        let kept = response("500 Oops", &["ETag: \"1\"", "Age: 5", control], "old");
        origin.next().await.send(kept);
        assert_eq!(client.answer("GET").await.status, 500);
        assert_eq!(node.objects(), 1);
        client.ask("GET", "/a", &[]).await;
        let now = ["Cache-Control: no-store", "Retry-After: 120"];
        origin.next().await.send(response("503 Busy", &now, "busy"));
        let answer = client.answer("GET").await;
        assert_eq!((answer.status, answer.field("retry-after")), (503, Some("120")));
        client.ask("GET", "/a", &[]).await;
        origin.next().await.send("garbage\r\n\r\n");
        assert_eq!(client.answer("GET").await.status, 502);
    });
}

#[test]
fn what_says_how_new_it_is_answers_a_condition_whatever_its_success() {
    run(async {
        let origin = Origin::serve(|_| {
            let fields = ["ETag: \"1\"", "Cache-Control: max-age=60"];
            response("203 Non-Authoritative Information", &fields, "page")
        });
        let node = TestNode::before(&origin);
        assert_eq!(get(&node, "/a").await.status, 203);
        assert_eq!(get_with(&node, "/a", &["If-None-Match: \"1\""]).await.status, 304);
        assert_eq!(get_with(&node, "/a", &["If-None-Match: \"2\""]).await.status, 203);
        assert_eq!(get_with(&node, "/a", &["Range: bytes=1-2"]).await.text(), "page");
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn a_client_that_wants_nothing_stored_has_its_way_where_clients_are_obeyed() {
    run(async {
        for (obeys, stored) in [(true, 0), (false, 1)] {
            let origin = Origin::serve(|_| fresh("page"));
            let rest = format!("[cache]\nclient_cache_control = {obeys}");
            let node = Setup::of(&origin).and(&rest).start();
            assert_eq!(get_with(&node, "/a", &["Cache-Control: no-store"]).await.text(), "page");
            assert_eq!(node.objects(), stored);
            // What others ask for next is kept as ever.
            for _ in 0..2 {
                get(&node, "/a").await;
            }
            assert_eq!((node.objects(), origin.count()), (1, if obeys { 2 } else { 1 }));
            // What is stored is validated for a client of HTTP/1.0 that says so (RFC 9111 §5.4).
            get_with(&node, "/a", &["Pragma: no-cache"]).await;
            assert_eq!(origin.count(), if obeys { 3 } else { 1 });
        }
    });
}
