//! Several origins: who is asked, and who is left out.

use crate::client::{Client, get, request};
use crate::harness::{Setup, TestNode, run, until};
use crate::origin::{Origin, Reply, fresh, refusing, response, then_close};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// An origin that says its name; health checks get 200 while `well`.
fn named(name: &'static str, well: &Arc<AtomicBool>) -> Origin {
    let well = Arc::clone(well);
    Origin::serve(move |asked| match asked.target() {
        "/health" if !well.load(SeqCst) => Reply::from(response("503 Ill", &[], "")),
        "/health" => then_close(response("200 OK", &["Connection: close"], "")),
        _ => Reply::from(response("200 OK", &["Cache-Control: no-store"], name)),
    })
}

fn plain(name: &'static str) -> Origin {
    named(name, &Arc::new(AtomicBool::new(true)))
}

fn choosing(origins: &[&Origin], director: &str) -> Setup {
    let mut setup = Setup::of(origins[0]);
    for origin in &origins[1..] {
        setup = setup.origin(&origin.url());
    }
    setup.and(&format!("[origins]\ndirector = \"{director}\""))
}

async fn tally(node: &TestNode, count: usize) -> BTreeMap<String, usize> {
    let mut client = Client::to(node).await;
    let mut out = BTreeMap::new();
    for index in 0..count {
        let answer = client.get(&format!("/{index}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        *out.entry(answer.text()).or_default() += 1;
    }
    out
}

#[test]
fn origins_are_asked_in_turn() {
    run(async {
        let (a, b) = (plain("a"), plain("b"));
        let node = choosing(&[&a, &b], "round-robin").start();
        let seen = tally(&node, 20).await;
        assert_eq!((seen["a"], seen["b"]), (10, 10));
    });
}

#[test]
fn weights_are_shares() {
    run(async {
        let (a, b) = (plain("a"), plain("b"));
        let mut setup = Setup::of(&a);
        setup.origins.push_str("weight = 3\n");
        let node = setup.origin(&b.url()).start();
        let seen = tally(&node, 40).await;
        assert_eq!((seen["a"], seen["b"]), (30, 10));
    });
}

#[test]
fn the_first_that_works_is_asked() {
    run(async {
        let (a, b) = (plain("a"), plain("b"));
        let node = choosing(&[&a, &b], "fallback").start();
        assert_eq!(tally(&node, 10).await["a"], 10);
        drop(a);
        assert_eq!(tally(&node, 10).await["b"], 10);
    });
}

#[test]
fn an_origin_that_refuses_costs_no_client_an_error() {
    run(async {
        for director in ["fallback", "round-robin", "hash"] {
            let b = plain("b");
            let mut setup = Setup::url(&format!("http://{}", refusing())).origin(&b.url());
            setup = setup.and(&format!("[origins]\ndirector = \"{director}\""));
            let node = setup.start();
            assert_eq!(tally(&node, 20).await["b"], 20, "{director}");
        }
    });
}

#[test]
fn a_key_sticks_to_its_origin() {
    run(async {
        let origins = [plain("a"), plain("b"), plain("c")];
        let node = choosing(&[&origins[0], &origins[1], &origins[2]], "hash").start();
        let mut client = Client::to(&node).await;
        let mut seen = BTreeMap::<String, usize>::new();
        for index in 0..30 {
            let target = format!("/{index}");
            let first = client.get(&target).await.text();
            for _ in 0..3 {
                assert_eq!(client.get(&target).await.text(), first);
            }
            *seen.entry(first).or_default() += 1;
        }
        assert_eq!(seen.len(), 3, "{seen:?}");
    });
}

#[test]
fn a_range_is_asked_of_another_origin_when_the_first_is_gone() {
    run(async {
        let whole = crate::harness::pattern(1, 0..10_000);
        let make = || {
            let whole = whole.clone();
            Origin::serve(move |asked| {
                crate::origin::ranged(asked, &whole, "\"1\"", &["Cache-Control: max-age=60"])
            })
        };
        let (a, b) = (make(), make());
        let node = choosing(&[&a, &b], "fallback").start();
        let mut client = Client::to(&node).await;
        assert_eq!(client.get_with("/a", &["Range: bytes=0-99"]).await.status, 206);
        drop(a);
        let answer = client.get("/a").await;
        assert!(answer.complete && answer.body == whole);
        assert_eq!(b.count(), 1);
    });
}

const HEALTH: &str = "[health]\npath = \"/health\"\ninterval = \"10ms\"\nwindow = 2\nthreshold = 1";

#[test]
fn health_checks_take_an_origin_out_and_back() {
    run(async {
        let well = Arc::new(AtomicBool::new(true));
        let (a, b) = (named("a", &well), plain("b"));
        let node = choosing(&[&a, &b], "fallback").and(HEALTH).start();
        until(|| a.count() > 0).await;
        assert_eq!(get(&node, "/1").await.text(), "a");
        well.store(false, SeqCst);
        let mut client = Client::to(&node).await;
        while client.get("/2").await.text() != "b" {}
        assert_eq!(tally(&node, 10).await["b"], 10);
        well.store(true, SeqCst);
        while client.get("/3").await.text() != "a" {}
        assert_eq!(tally(&node, 10).await["a"], 10);
    });
}

#[test]
fn an_origin_that_does_not_answer_is_passed_over() {
    run(async {
        let (a, b) = (Origin::scripted(), plain("b"));
        let patience = "[origins]\ndirector = \"fallback\"\nfirst_byte_timeout = \"100ms\"";
        let node = Setup::of(&a).origin(&b.url()).and(patience).start();
        for number in 0..6 {
            assert_eq!(get(&node, &format!("/{number}")).await.text(), "b");
        }
        // Three in a row were enough.
        assert_eq!(a.count(), 3);
    });
}

#[test]
fn without_a_healthy_origin_clients_get_a_503() {
    run(async {
        let well = Arc::new(AtomicBool::new(false));
        let a = named("a", &well);
        let node = Setup::of(&a).and(HEALTH).start();
        let mut answer = get(&node, "/1").await;
        while answer.status == 200 {
            answer = get(&node, "/1").await;
        }
        assert_eq!(answer.status, 503);
        let status = answer.field("proxy-status").unwrap();
        assert!(status.contains("error=destination_unavailable"), "{status}");
        assert!(answer.field("retry-after").is_some());
    });
}

#[test]
fn health_checks_follow_a_reload() {
    run(async {
        let well = Arc::new(AtomicBool::new(false));
        let a = named("a", &well);
        let setup = Setup::of(&a).and(HEALTH);
        let node = setup.start();
        while get(&node, "/1").await.status == 200 {}
        // Without health checks the origin is judged by real requests only.
        node.node.reload(Setup::of(&a).settings()).unwrap();
        let mut client = Client::to(&node).await;
        while client.get("/2").await.status != 200 {}
        // And with them again.
        node.node.reload(Setup::of(&a).and(HEALTH).settings()).unwrap();
        while client.get("/3").await.status == 200 {}
        well.store(true, SeqCst);
        while client.get("/4").await.status != 200 {}
    });
}

#[test]
fn an_origin_is_asked_for_the_paths_it_is_for() {
    run(async {
        let [api, uploads, all] = ["api", "uploads", "all"]
            .map(|name| Origin::serve(move |asked| fresh(format!("{name} {}", asked.target()))));
        let mut setup = Setup::of(&all);
        setup.origins = format!(
            "[[origin]]\nurl = \"{}\"\npaths = [\"/api/\", \"/auth/\"]\n\
             [[origin]]\nurl = \"{}\"\npaths = [\"/api/files/\"]\n\
             [[origin]]\nurl = \"{}\"\n\
             [[path]]\nprefix = \"/v1/\"\nreplace = \"/api/v1/\"\n",
            api.url(),
            uploads.url(),
            all.url()
        );
        let node = setup.start();
        for (target, expected) in [
            ("/api/a", "api /api/a"),
            ("/auth/a", "api /auth/a"),
            ("/api/files/a", "uploads /api/files/a"),
            ("/api", "all /api"),
            ("/", "all /"),
            ("/a?/api/", "all /a?/api/"),
            ("/v1/a", "api /api/v1/a"),
        ] {
            assert_eq!(get(&node, target).await.text(), expected);
            assert!(get(&node, target).await.cache().contains("; hit"), "{target}");
        }
        assert_eq!(
            request(&node, "POST", "/api/files/b", &["Content-Length: 0"]).await.text(),
            "uploads /api/files/b"
        );
        drop(uploads);
        // Nobody else is asked for what is not theirs.
        assert_eq!(get(&node, "/api/files/new").await.status, 502);
        assert_eq!((api.count(), all.count()), (3, 3));
    });
}

#[test]
fn an_origin_has_its_content_below_a_path_of_its_own() {
    run(async {
        let [bucket, api] = ["bucket", "api"].map(|name| {
            Origin::serve(move |asked| match asked.target() {
                "/v2/old" => {
                    let fields = ["Location: /v2/new", "Cache-Control: max-age=60"];
                    Reply::from(response("301 Moved Permanently", &fields, ""))
                }
                target => Reply::from(fresh(format!("{name} {target}"))),
            })
        });
        let mut setup = Setup::of(&bucket);
        setup.origins = format!(
            "[[origin]]\nurl = \"{}/site/\"\n\
             [[origin]]\nurl = \"{}/v2\"\npaths = [\"/api/\"]\nstrip_paths = true\n",
            bucket.url(),
            api.url(),
        );
        let node = setup.start();
        for (target, expected) in [
            ("/a?b", "bucket /site/a?b"),
            ("/", "bucket /site/"),
            ("/api/users", "api /v2/users"),
            ("/api/", "api /v2/"),
        ] {
            assert_eq!(get(&node, target).await.text(), expected);
            assert!(get(&node, target).await.cache().contains("; hit"), "{target}");
        }
        for _ in 0..2 {
            let moved = get(&node, "/api/old").await;
            assert_eq!((moved.status, moved.field("location")), (301, Some("/api/new")));
        }
        assert_eq!((bucket.count(), api.count()), (2, 3));
    });
}
