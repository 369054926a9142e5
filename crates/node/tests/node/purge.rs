//! Purges by method, purges during a fetch, and invalidation by unsafe requests.

use crate::client::{Client, get, get_with, request};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, fresh, head, response};
use freshet_base::clock::UnixMillis;
use freshet_cache::Purge;
use freshet_http::message::{RequestHead, Scheme};
use freshet_node::preview;

/// An origin that numbers its answers; PUT and POST answer what `more` says.
fn numbering(more: &'static [&'static str]) -> Origin {
    let count = std::sync::atomic::AtomicU64::new(0);
    Origin::serve(move |request| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        match request.method() {
            "GET" => fresh(number.to_string()),
            _ => response("200 OK", more, "done"),
        }
    })
}

#[test]
fn a_purge_makes_the_next_request_fetch() {
    run(async {
        let origin = numbering(&[]);
        let node = TestNode::before(&origin);
        assert_eq!(get(&node, "/a?b=1").await.text(), "0");
        assert_eq!(get(&node, "/a").await.text(), "1");
        assert_eq!(request(&node, "PURGE", "/a?b=1", &[]).await.status, 200);
        assert_eq!(get(&node, "/a?b=1").await.text(), "2");
        assert_eq!(get(&node, "/a").await.text(), "1");
        assert_eq!(request(&node, "PURGE", "/nothing", &[]).await.status, 404);
        assert_eq!(node.count("purges"), 2);
    });
}

#[test]
fn a_purge_removes_all_variants() {
    run(async {
        let origin = Origin::serve(|asked| {
            let fields = ["Vary: X-Kind", "Cache-Control: max-age=60"];
            response("200 OK", &fields, asked.field("x-kind").unwrap_or("none"))
        });
        let node = TestNode::before(&origin);
        for kind in ["a", "b", "c"] {
            get_with(&node, "/a", &[&format!("X-Kind: {kind}")]).await;
        }
        assert_eq!(node.variants("/a"), 3);
        assert_eq!(request(&node, "PURGE", "/a", &[]).await.status, 200);
        assert_eq!(node.variants("/a"), 0);
    });
}

#[test]
fn a_purge_from_elsewhere_is_refused() {
    run(async {
        let origin = numbering(&[]);
        let node = Setup::of(&origin).and("[cache]\npurge_from = [\"192.0.2.0/24\"]").start();
        get(&node, "/a").await;
        let answer = request(&node, "PURGE", "/a", &[]).await;
        assert_eq!(answer.status, 405);
        assert!(answer.field("allow").is_some());
        assert_eq!(get(&node, "/a").await.text(), "0");
        // Nor does the origin hear of it.
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn what_was_being_fetched_when_a_purge_came_is_not_kept() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        // Before its head came.
        let mut first = Client::to(&node).await;
        first.ask("GET", "/a", &[]).await;
        let asked = origin.next().await;
        request(&node, "PURGE", "/a", &[]).await;
        asked.send(fresh("before"));
        assert_eq!(first.answer("GET").await.text(), "before");
        // And while its body comes.
        let mut second = Client::to(&node).await;
        second.ask("GET", "/a", &[]).await;
        let asked = origin.next().await;
        asked.send(head("200 OK", &["Cache-Control: max-age=60"], Some(6)));
        asked.send("dur");
        second.head().await.unwrap();
        assert_eq!(second.some(3).await, b"dur");
        assert_eq!(request(&node, "PURGE", "/a", &[]).await.status, 200);
        let mut third = Client::to(&node).await;
        third.ask("GET", "/a", &[]).await;
        origin.next().await.send(fresh("after"));
        assert_eq!(third.answer("GET").await.text(), "after");
        asked.send("ing");
        assert_eq!(second.some(3).await, b"ing");
        assert_eq!(get(&node, "/a").await.text(), "after");
        assert_eq!(origin.count(), 3);
    });
}

#[test]
fn requests_that_came_after_a_purge_do_not_get_what_was_fetched_before_it() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut first = Client::to(&node).await;
        first.ask("GET", "/a", &[]).await;
        let before = origin.next().await;
        request(&node, "PURGE", "/a", &[]).await;
        let mut second = Client::to(&node).await;
        second.ask("GET", "/a", &[]).await;
        let after = origin.next().await;
        before.send(fresh("before"));
        assert_eq!(first.answer("GET").await.text(), "before");
        after.send(fresh("after"));
        assert_eq!(second.answer("GET").await.text(), "after");
        assert_eq!(get(&node, "/a").await.text(), "after");
    });
}

#[test]
fn a_refresh_by_304_does_not_bring_a_purged_object_back() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let fields =
            ["ETag: \"1\"", "Age: 5", "Cache-Control: max-age=1, stale-while-revalidate=60"];
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        origin.next().await.send(response("200 OK", &fields, "old"));
        assert_eq!(client.answer("GET").await.text(), "old");
        assert_eq!(client.get("/a").await.text(), "old");
        let refresh = origin.next().await;
        assert_eq!(request(&node, "PURGE", "/a", &[]).await.status, 200);
        refresh.send(head("304 Not Modified", &["ETag: \"1\"", "Cache-Control: max-age=60"], None));
        node.counted("revalidated", 1).await;
        client.ask("GET", "/a", &[]).await;
        origin.next().await.send(fresh("new"));
        assert_eq!(client.answer("GET").await.text(), "new");
    });
}

#[test]
fn an_unsafe_request_that_succeeds_invalidates_its_target_and_what_it_names() {
    run(async {
        let origin = numbering(&["Location: /b", "Content-Location: http://example.test/c"]);
        let node = TestNode::before(&origin);
        for target in ["/a", "/b", "/c", "/d"] {
            get(&node, target).await;
        }
        let answer = request(&node, "POST", "/a", &["Content-Length: 0"]).await;
        assert_eq!(answer.text(), "done");
        assert_eq!(origin.count(), 5);
        for (target, number) in [("/a", "5"), ("/b", "6"), ("/c", "7"), ("/d", "3")] {
            assert_eq!(get(&node, target).await.text(), number, "{target}");
        }
    });
}

#[test]
fn an_unsafe_request_that_fails_or_names_another_host_invalidates_nothing_there() {
    run(async {
        let origin = Origin::serve(|asked| match (asked.method(), asked.target()) {
            ("GET", target) => fresh(target),
            (_, "/fails") => response("500 Oops", &["Location: /b"], ""),
            _ => response("201 Created", &["Location: http://other.test/b"], ""),
        });
        let node = TestNode::before(&origin);
        get(&node, "/fails").await;
        get(&node, "/b").await;
        get_with(&node, "http://other.test/b", &[]).await;
        request(&node, "PUT", "/fails", &["Content-Length: 0"]).await;
        request(&node, "PUT", "/works", &["Content-Length: 0"]).await;
        let count = origin.count();
        get(&node, "/fails").await;
        get(&node, "/b").await;
        assert_eq!(origin.count(), count);
    });
}

#[test]
fn a_soft_purge_keeps_the_object_for_when_the_origin_fails() {
    run(async {
        let mut origin = numbering(&[]);
        let node = TestNode::before(&origin);
        assert_eq!(get(&node, "/a").await.text(), "0");
        let cache = &node.node.shared.cache;
        let key = cache.key(crate::client::HOST, "/a");
        assert_eq!(cache.purge(&key, Purge::Soft(UnixMillis::now())), 1);
        assert_eq!(get(&node, "/a").await.text(), "1");
        assert_eq!(cache.purge(&key, Purge::Soft(UnixMillis::now())), 1);
        origin.kill();
        let answer = get(&node, "/a").await;
        assert_eq!(answer.text(), "1");
        assert!(answer.cache().contains("ttl=-1;"), "{}", answer.cache());
    });
}

#[test]
fn a_purge_by_tag_removes_all_that_carry_it() {
    run(async {
        let origin = Origin::serve(|asked| {
            let tags = match asked.target() {
                "/1" => "Surrogate-Key: news sport",
                "/2" => "Cache-Tag: news,front",
                _ => "Surrogate-Key: sport",
            };
            response("200 OK", &["Cache-Control: max-age=60", tags], asked.target())
        });
        let node = TestNode::before(&origin);
        for target in ["/1", "/2", "/3"] {
            get(&node, target).await;
        }
        let cache = &node.node.shared.cache;
        let tag = freshet_cache::tag(b"news");
        assert_eq!(cache.purge_tag(tag, Purge::Hard), 2);
        for target in ["/1", "/2", "/3"] {
            get(&node, target).await;
        }
        assert_eq!(origin.count(), 5);
    });
}

/// RFC 9110 §9.3.3 lets an answer to POST be given to a later GET.
#[test]
fn an_answer_to_post_that_was_purged_on_its_way_is_not_kept() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let shared = &node.node.shared;
        let tag = node.node.snapshot().sites.all()[0].name.tag(b"news");
        let key = |target| shared.cache.key(crate::client::HOST, target);
        let purges: [(&str, bool, &dyn Fn()); 3] = [
            ("/kept", true, &|| drop(shared.purge(&key("/other"), Purge::Hard))),
            ("/key", false, &|| drop(shared.purge(&key("/key"), Purge::Hard))),
            ("/tag", false, &|| drop(shared.purge_tag(tag, Purge::Hard))),
        ];
        for (target, is_kept, purge) in purges {
            let mut client = Client::to(&node).await;
            client.ask("POST", target, &["Content-Length: 0"]).await;
            let asked = origin.next().await;
            purge();
            let same = format!("Content-Location: {target}");
            let fields = ["Cache-Control: max-age=60", &same, "Surrogate-Key: news"];
            asked.send(response("200 OK", &fields, "before"));
            assert_eq!(client.answer("POST").await.text(), "before");
            client.ask("GET", target, &[]).await;
            if !is_kept {
                origin.next().await.send(fresh("after"));
            }
            let want = if is_kept { "before" } else { "after" };
            assert_eq!(client.answer("GET").await.text(), want, "{target}");
        }
    });
}

#[test]
fn what_rules_make_of_a_query_is_purged_and_invalidated_as_it_is_asked_for() {
    run(async {
        let origin = numbering(&["Location: /page?a=1&b=2&utm_x=1"]);
        let rules = "[[cache_rule]]\nquery_drop = [\"utm_*\"]\nquery_sort = true\n";
        let node = Setup::of(&origin).and(rules).start();
        for target in ["/page?b=2&a=1", "/page?utm_source=x"] {
            let before = get(&node, target).await.text();
            assert_eq!(get(&node, target).await.text(), before, "{target}");
            assert_eq!(request(&node, "POST", target, &[]).await.text(), "done");
            let after = get(&node, target).await.text();
            assert_ne!(after, before, "{target}");
            assert_eq!(request(&node, "PURGE", target, &[]).await.status, 200, "{target}");
            assert_ne!(get(&node, target).await.text(), after, "{target}");
        }
        // What it names is found as well.
        let before = get(&node, "/page?b=2&a=1").await.text();
        request(&node, "POST", "/other", &[]).await;
        assert_ne!(get(&node, "/page?b=2&a=1").await.text(), before);
    });
}

#[test]
fn a_url_is_purged_by_its_key_also_where_its_scheme_is_led_elsewhere() {
    run(async {
        let origin = numbering(&[]);
        let rules = "[[redirect]]\nscheme = \"https\"\nto = \"http://{host}/{rest}\"\n\
             [[path]]\nprefix = \"/assets/\"\nreplace = \"/v7/\"\n";
        let node = Setup::of(&origin).and(rules).start();
        get(&node, "/assets/a").await;
        let (shared, snapshot) = (&node.node.shared, node.node.snapshot());
        let request = RequestHead {
            scheme: Scheme::Https,
            authority: crate::client::HOST.into(),
            target: "/assets/a".into(),
            ..RequestHead::default()
        };
        let key = preview::key_of(shared, &snapshot, request, UnixMillis::now()).unwrap();
        assert_eq!(shared.cache.peek(&key).variants.len(), 1);
    });
}
