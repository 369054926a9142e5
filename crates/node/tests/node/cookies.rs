//! Responses that set cookies, and fields that are for caches only.

use crate::client::{Client, get, get_with};
use crate::harness::{Setup, TestNode, run, store_at};
use crate::origin::{Origin, response};

/// An origin whose every answer sets another cookie and would be fresh.
fn setting(fields: &'static [&'static str]) -> Origin {
    let count = std::sync::atomic::AtomicU64::new(0);
    Origin::serve(move |_| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let cookie = format!("Set-Cookie: session={number}");
        response("200 OK", &[fields, &[cookie.as_str()]].concat(), format!("for {number}"))
    })
}

#[test]
fn a_cookie_is_for_its_client_only() {
    run(async {
        let origin = setting(&["Cache-Control: public, max-age=3600"]);
        let node = TestNode::before(&origin);
        for number in 0..3 {
            let answer = get(&node, "/a").await;
            assert_eq!(answer.text(), format!("for {number}"));
            assert_eq!(answer.field("set-cookie"), Some(format!("session={number}").as_str()));
        }
        let answer = get(&node, "/a").await;
        assert!(answer.cache().contains("detail=set-cookie"), "{}", answer.cache());
        // From the second on they do not wait for one another.
        assert_eq!(node.objects(), 0);
        assert!(answer.cache().contains("fwd=uri-miss"), "{}", answer.cache());
    });
}

#[test]
fn cookies_are_stripped_or_stored_where_that_is_asked_for() {
    run(async {
        for (how, cookie) in [("strip", None), ("store", Some("session=0"))] {
            let origin = setting(&["Cache-Control: max-age=3600"]);
            let setup = format!("[cache]\nset_cookie = \"{how}\"");
            let node = Setup::of(&origin).and(&setup).start();
            for _ in 0..2 {
                let answer = get(&node, "/a").await;
                assert_eq!((answer.text().as_str(), answer.field("set-cookie")), ("for 0", cookie));
            }
            assert_eq!(origin.count(), 1);
        }
    });
}

#[test]
fn a_stored_cookie_goes_to_nobody_else_once_that_is_taken_back() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = store_at(&path, "32MiB");
        let origin = setting(&["Cache-Control: max-age=3600", "ETag: \"x\""]);
        let setup = |how: &str| {
            let cache = format!("[cache]\nset_cookie = \"{how}\"\nname = \"{how}\"\n");
            Setup::of(&origin).and(&cache).and(&store)
        };
        let told = async |node: &TestNode| {
            let answer = get(node, "/a").await;
            (answer.text(), answer.field("set-cookie").map(str::to_owned))
        };
        let said = |number: u64| (format!("for {number}"), Some(format!("session={number}")));
        let node = setup("store").start();
        for _ in 0..2 {
            assert_eq!(told(&node).await, said(0));
        }
        node.drain_disks();
        // Who wants it without the cookie gets it so, of what is stored.
        node.node.reload(setup("strip").settings()).unwrap();
        while !get(&node, "/a").await.cache().starts_with("strip") {}
        assert_eq!(told(&node).await, ("for 0".into(), None));
        // And who wants it for one client only, gets none of it.
        node.node.reload(setup("pass").settings()).unwrap();
        while !get(&node, "/b").await.cache().starts_with("pass") {}
        let asked = origin.count();
        for number in asked..asked + 3 {
            assert_eq!(told(&node).await, said(number as u64));
        }
        drop(node);
        // Nor does it come back from a disk.
        for how in ["pass", "store"] {
            let node = setup(how).start();
            let asked = origin.count();
            assert_eq!(told(&node).await, said(asked as u64), "{how}");
        }
    });
}

#[test]
fn a_cookie_that_is_on_a_disk_goes_to_nobody_else_once_that_is_taken_back() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = store_at(&path, "32MiB");
        let origin = setting(&["Cache-Control: max-age=3600"]);
        let setup = |how: &str| {
            Setup::of(&origin).and(&format!("[cache]\nset_cookie = \"{how}\"\n{store}"))
        };
        let node = setup("store").start();
        assert_eq!(get(&node, "/a").await.text(), "for 0");
        node.drain_disks();
        drop(node);
        for (how, text) in
            [("store", "for 0"), ("pass", "for 1"), ("pass", "for 2"), ("store", "for 3")]
        {
            let node = setup(how).start();
            let answer = get(&node, "/a").await;
            assert_eq!(answer.text(), text, "{how}: {}", answer.cache());
        }
    });
}

#[test]
fn a_cookie_beside_a_confirmation_goes_to_nobody() {
    run(async {
        let origin = Origin::serve(|asked| {
            let fields = ["ETag: \"x\"", "Cache-Control: max-age=0", "Set-Cookie: session=1"];
            match asked.field("if-none-match") {
                Some(_) => response("304 Not Modified", &fields, ""),
                None => response("200 OK", &fields[..2], "x"),
            }
        });
        let node = TestNode::before(&origin);
        for _ in 0..3 {
            let answer = get(&node, "/a").await;
            assert_eq!((answer.text().as_str(), answer.field("set-cookie")), ("x", None));
        }
        assert_eq!(origin.count(), 3);
    });
}

#[test]
fn tags_reach_caches_behind_and_nobody_else() {
    const FOR_CACHES: [&str; 4] =
        ["Surrogate-Key: a b", "xkey: c", "Cache-Tag: d", "Surrogate-Control: max-age=9"];
    let tagged = |control: &'static str| {
        Origin::serve(move |_| response("200 OK", &[&FOR_CACHES[..], &[control]].concat(), "x"))
    };
    run(async {
        for control in ["Cache-Control: max-age=60", "Cache-Control: no-store"] {
            let origin = tagged(control);
            let node = TestNode::before(&origin);
            let child = Setup::of(&origin).and("[cache]\npeers = [\"127.0.0.0/8\"]").start();
            for _ in 0..2 {
                for line in FOR_CACHES {
                    let (name, value) = line.split_once(": ").unwrap();
                    assert_eq!(get(&node, "/a").await.field(name), None, "{line}");
                    // Who says that it is a cache is none by that.
                    let asked = ["Surrogate-Capability: x=\"Surrogate/1.0\""];
                    assert_eq!(get_with(&node, "/a", &asked).await.field(name), None, "{line}");
                    assert_eq!(get(&child, "/a").await.field(name), Some(value), "{line}");
                }
            }
        }
    });
}

#[test]
fn what_the_node_says_itself_has_a_date() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &["Cache-Control: no-store"], "x"));
        let node = TestNode::before(&origin);
        let refused = Setup::url(&format!("http://{}", crate::origin::refusing())).start();
        let mut answers = Vec::new();
        for (node, text) in [
            (&node, "GET / HTTP/1.1\r\n\r\n"),
            (&node, "GET / HTTP/3.0\r\nHost: a\r\n\r\n"),
            (&node, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"),
            (&node, "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"),
            (&node, "GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n"),
            (&node, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n"),
            (&node, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n"),
            (&node, "GET / HTTP/1.1\r\nHost: a\r\nCache-Control: only-if-cached\r\n\r\n"),
            (&node, "PURGE / HTTP/1.1\r\nHost: a\r\n\r\n"),
            // And what came without one.
            (&node, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            (&refused, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ] {
            let mut client = Client::to(node).await;
            client.send(text).await;
            let answer = client.answer("GET").await;
            let date =
                answer.field("date").and_then(|date| freshet_http::date::parse(date.as_bytes()));
            assert!(date.is_some(), "{text:?}: {answer:?}");
            answers.push(answer.status);
        }
        assert_eq!(answers, [400, 505, 501, 405, 417, 400, 413, 504, 404, 200, 502]);
    });
}

#[test]
fn what_an_answer_says_for_one_reaches_that_one_and_nobody_else() {
    run(async {
        for (control, field) in [
            ("Cache-Control: max-age=60, private=\"Set-Cookie\"", "Set-Cookie: session=1"),
            ("Cache-Control: max-age=60, no-cache=\"X-User\"", "X-User: anna"),
        ] {
            let (name, value) = field.split_once(": ").unwrap();
            let origin = Origin::serve(move |_| response("200 OK", &[control, field], "page"));
            let node = TestNode::before(&origin);
            let first = get(&node, "/a").await;
            assert_eq!((first.text().as_str(), first.field(name)), ("page", Some(value)));
            let second = get(&node, "/a").await;
            assert_eq!((second.text().as_str(), second.field(name)), ("page", None));
            assert_eq!(origin.count(), 1);
        }
    });
}
