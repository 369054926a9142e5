//! A node that may have missed purges: what it has stored, and what is under way.

use crate::client::{Client, get};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, fresh, head, response};
use crate::tiers::numbering;
use freshet_base::clock::UnixMillis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn behind_a_fence_everything_is_validated_before_it_is_used() {
    run(async {
        let version = Arc::new(AtomicU64::new(1));
        let present = Arc::clone(&version);
        let mut origin = Origin::serve(move |asked| {
            let tag = format!("\"{}\"", present.load(SeqCst));
            let fields = [&format!("ETag: {tag}"), "Cache-Control: max-age=60"];
            match asked.field("if-none-match") {
                Some(known) if known == tag => head("304 Same", &fields, None),
                _ => response("200 OK", &fields, tag),
            }
        });
        let node = Setup::of(&origin).start();
        let cache = &node.node.shared.cache;
        assert_eq!(get(&node, "/a").await.text(), "\"1\"");
        assert_eq!(get(&node, "/b").await.text(), "\"1\"");
        // What was stored before is validated once each.
        cache.fence(cache.next_in_order());
        let answer = get(&node, "/a").await;
        assert!(
            answer.text() == "\"1\"" && answer.cache().contains("fwd=stale"),
            "{}",
            answer.cache()
        );
        assert!(get(&node, "/a").await.cache().contains("; hit"));
        assert_eq!((origin.count(), node.count("revalidated")), (3, 1));
        // What is fetched behind the fence as well, as long as it holds for all.
        cache.fence(u64::MAX);
        for number in 1..=3 {
            version.store(number, SeqCst);
            assert_eq!(get(&node, "/b").await.text(), format!("\"{number}\""));
        }
        // Nobody can be asked: better old than nothing.
        origin.kill();
        assert_eq!(get(&node, "/b").await.text(), "\"3\"");
        cache.fence(0);
        assert!(get(&node, "/b").await.cache().contains("; hit"));
    });
}

#[test]
fn behind_a_fence_a_crowd_is_two_requests() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        node.node.shared.cache.fence(u64::MAX);
        for round in 1..=2 {
            let mut first = Client::to(&node).await;
            first.ask("GET", "/a", &[]).await;
            let before = origin.next().await;
            let mut clients = Vec::new();
            for _ in 0..20 {
                let mut client = Client::to(&node).await;
                client.ask("GET", "/a", &[]).await;
                clients.push(client);
            }
            node.counted("waits", 20 * round).await;
            // What was purged since the first came may be in this, and those behind him came after that.
            before.send(fresh("before"));
            assert_eq!(first.answer("GET").await.text(), "before");
            origin.next().await.send(fresh("after"));
            for client in &mut clients {
                assert_eq!(client.answer("GET").await.text(), "after");
            }
            assert_eq!(origin.count() as u64, 2 * round);
        }
    });
}

#[test]
fn nobody_joins_what_was_under_way_when_the_log_was_found_to_have_lost_entries() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let cache = &node.node.shared.cache;
        let mut first = Client::to(&node).await;
        first.ask("GET", "/a", &[]).await;
        let before = origin.next().await;
        cache.fence(cache.next_in_order());
        let mut second = Client::to(&node).await;
        second.ask("GET", "/a", &[]).await;
        node.counted("waits", 1).await;
        before.send(fresh("before"));
        assert_eq!(first.answer("GET").await.text(), "before");
        origin.next().await.send(fresh("after"));
        assert_eq!(second.answer("GET").await.text(), "after");
        let answer = get(&node, "/a").await;
        assert!(answer.text() == "after" && answer.cache().contains("; hit"), "{}", answer.cache());
    });
}

#[test]
fn where_the_fence_comes_down_meanwhile_those_who_wait_share_as_ever() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let cache = &node.node.shared.cache;
        cache.fence(u64::MAX);
        let mut clients = Vec::new();
        for _ in 0..10 {
            let mut client = Client::to(&node).await;
            client.ask("GET", "/a", &[]).await;
            clients.push(client);
        }
        let asked = origin.next().await;
        node.counted("waits", 9).await;
        cache.fence(0);
        asked.send(fresh("abc"));
        for client in &mut clients {
            assert_eq!(client.answer("GET").await.text(), "abc");
        }
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn trust_ends_by_itself_where_nobody_renews_it() {
    run(async {
        let origin = numbering();
        let node = TestNode::before(&origin);
        let cache = &node.node.shared.cache;
        let now = UnixMillis::now();
        cache.trust_until(now.plus(Duration::from_secs(3600)));
        assert_eq!(get(&node, "/a").await.text(), "0");
        assert_eq!(get(&node, "/a").await.text(), "0");
        cache.trust_until(now);
        for number in ["1", "2"] {
            assert_eq!(get(&node, "/a").await.text(), number);
        }
        cache.trust_until(now.plus(Duration::from_secs(3600)));
        assert_eq!(get(&node, "/a").await.text(), "2");
    });
}
