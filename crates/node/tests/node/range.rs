//! Parts of objects: cold, held, far ahead, and of representations that changed.

use crate::client::{Client, get, get_with, request};
use crate::harness::{TestNode, pattern, run, until};
use crate::origin::{Origin, fresh, head, ranged, response};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const FRESH: &str = "Cache-Control: max-age=3600";

/// An origin of one object of `bytes` that does ranges, with this entity tag.
fn ranging(bytes: u64, etag: &'static str) -> Origin {
    let whole = pattern(1, 0..bytes);
    Origin::serve(move |request| ranged(request, &whole, etag, &[FRESH]))
}

#[test]
fn a_cold_range_is_fetched_as_a_range_and_kept() {
    run(async {
        let origin = ranging(1_000_000, "\"1\"");
        let node = TestNode::before(&origin);
        for _ in 0..2 {
            let answer = get_with(&node, "/a", &["Range: bytes=1000-1999"]).await;
            assert_eq!(answer.status, 206);
            assert_eq!(answer.field("content-range"), Some("bytes 1000-1999/1000000"));
            assert!(answer.body == pattern(1, 1000..2000));
        }
        assert_eq!(origin.count(), 1);
        assert_eq!(origin.requests()[0].range(), Some((1000, 1999)));
    });
}

#[test]
fn a_second_range_asks_only_for_what_is_missing() {
    run(async {
        let origin = ranging(1_000_000, "\"1\"");
        let node = TestNode::before(&origin);
        get_with(&node, "/a", &["Range: bytes=0-9999"]).await;
        let answer = get_with(&node, "/a", &["Range: bytes=5000-19999"]).await;
        assert_eq!(answer.status, 206);
        assert!(answer.body == pattern(1, 5000..20_000));
        let asked = origin.requests();
        assert_eq!(asked[1].range(), Some((10_000, 19_999)));
        assert_eq!(asked[1].field("if-range"), Some("\"1\""));
        // The whole is put together from what is there and the rest.
        let answer = get(&node, "/a").await;
        assert_eq!(answer.status, 200);
        assert!(answer.body == pattern(1, 0..1_000_000));
        let asked = origin.requests();
        assert_eq!((asked.len(), asked[2].range()), (3, Some((20_000, 999_999))));
        assert!(get(&node, "/a").await.body == pattern(1, 0..1_000_000));
        assert_eq!(origin.count(), 3);
    });
}

#[test]
fn a_part_that_has_to_be_fetched_is_no_hit() {
    run(async {
        let origin = ranging(30_000, "\"1\"");
        let node = TestNode::before(&origin);
        let figures = || {
            let count = |name| node.count(name);
            (count("hits"), count("misses"), count("hit_body_bytes"))
        };
        for (range, status, came_to) in [
            ("bytes=0-9999", "fwd=uri-miss; stored", (0, 1, 0)),
            ("bytes=10000-19999", "fwd=partial; stored", (0, 2, 0)),
            ("bytes=5000-14999", "hit; ttl=3600", (1, 2, 10_000)),
            ("bytes=0-", "fwd=partial; stored", (1, 3, 10_000)),
            ("bytes=0-", "hit; ttl=3600", (2, 3, 40_000)),
        ] {
            let answer = get_with(&node, "/a", &[&format!("Range: {range}")]).await;
            let said = answer.cache().replace("ttl=3599", "ttl=3600");
            assert!(said.ends_with(status), "{range}: {said}");
            until(|| figures() == came_to).await;
        }
        assert_eq!(origin.count(), 3);
        // Of what its client has nothing is missing.
        let part = get_with(&node, "/b", &["Range: bytes=0-9"]).await;
        let etag = format!("If-None-Match: {}", part.field("etag").unwrap());
        let answer = get_with(&node, "/b", &[&etag]).await;
        assert_eq!(answer.status, 304);
        assert!(answer.cache().contains("hit"), "{}", answer.cache());
    });
}

#[test]
fn a_hole_between_two_held_parts_is_filled_exactly() {
    run(async {
        let origin = ranging(30_000, "\"1\"");
        let node = TestNode::before(&origin);
        get_with(&node, "/a", &["Range: bytes=0-9999"]).await;
        get_with(&node, "/a", &["Range: bytes=20000-29999"]).await;
        let answer = get_with(&node, "/a", &["Range: bytes=9990-20009"]).await;
        assert!(answer.body == pattern(1, 9990..20_010));
        assert_eq!(origin.requests()[2].range(), Some((10_000, 19_999)));
        assert!(get(&node, "/a").await.body == pattern(1, 0..30_000));
        assert_eq!(origin.count(), 3);
    });
}

#[test]
fn several_ranges_of_a_held_object_come_as_parts() {
    run(async {
        let text = "0123456789".repeat(1000);
        let fields = [FRESH, "Content-Type: text/plain"];
        let origin = Origin::serve(move |_| response("200 OK", &fields, &text));
        let node = TestNode::before(&origin);
        get(&node, "/a").await;
        let answer = get_with(&node, "/a", &["Range: bytes=0-1,5005-5006,-1"]).await;
        assert_eq!((answer.status, answer.complete), (206, true));
        let kind = answer.field("content-type").unwrap();
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let boundary = boundary.trim_matches('"');
        let text = answer.text();
        let parts: Vec<&str> = text.split(&format!("--{boundary}")).collect();
        assert_eq!(parts.len(), 5, "{text}");
        for (part, (range, bytes)) in
            parts[1..4].iter().zip([("0-1", "01"), ("5005-5006", "56"), ("9999-9999", "9")])
        {
            assert!(part.contains(&format!("Content-Range: bytes {range}/10000")), "{part}");
            assert!(part.contains("Content-Type: text/plain"), "{part}");
            assert!(part.ends_with(&format!("\r\n\r\n{bytes}\r\n")), "{part}");
        }
        assert_eq!(parts[4], "--\r\n");
    });
}

#[test]
fn several_ranges_of_nothing_held_are_cut_from_the_whole() {
    run(async {
        let origin = ranging(10_000, "\"1\"");
        let node = TestNode::before(&origin);
        let answer = get_with(&node, "/a", &["Range: bytes=0-9,9000-9009"]).await;
        assert_eq!((answer.status, answer.complete), (206, true));
        let wanted = pattern(1, 9000..9010);
        assert!(answer.body.windows(10).any(|ten| ten == wanted));
        assert_eq!(origin.requests()[0].field("range"), None);
    });
}

#[test]
fn a_range_far_ahead_of_a_slow_fill_is_fetched_by_itself() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        const TOTAL: u64 = 20_000_000;
        let mut first = Client::to(&node).await;
        first.ask("GET", "/a", &[]).await;
        let slow = origin.next().await;
        slow.send(head("200 OK", &[FRESH, "ETag: \"1\""], Some(TOTAL)));
        slow.send(pattern(1, 0..100_000));
        first.head().await.unwrap();
        assert!(first.some(100_000).await == pattern(1, 0..100_000));
        let mut second = Client::to(&node).await;
        second.ask("GET", "/a", &["Range: bytes=15000000-15000999"]).await;
        let ahead = origin.next().await;
        assert_eq!(ahead.request.range(), Some((15_000_000, 15_000_999)));
        let range = format!("Content-Range: bytes 15000000-15000999/{TOTAL}");
        let bytes = pattern(1, 15_000_000..15_001_000);
        ahead.send(response("206 Partial Content", &[&range, "ETag: \"1\""], &bytes));
        let answer = second.answer("GET").await;
        assert_eq!(answer.status, 206);
        assert!(answer.body == bytes);
        // The slow fill goes on over the part that is there.
        slow.send(pattern(1, 100_000..TOTAL));
        let mut at = 100_000;
        while at < TOTAL {
            let end = TOTAL.min(at + 1_000_000);
            assert!(first.some((end - at) as usize).await == pattern(1, at..end), "{at}");
            at = end;
        }
        assert_eq!(origin.count(), 2);
    });
}

#[test]
fn a_range_far_ahead_waits_where_parts_cannot_be_put_together() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        const TOTAL: u64 = 12_000_000;
        let mut first = Client::to(&node).await;
        first.ask("GET", "/a", &[]).await;
        let slow = origin.next().await;
        slow.send(head("200 OK", &[FRESH, "ETag: W/\"1\""], Some(TOTAL)));
        slow.send(pattern(1, 0..100_000));
        first.head().await.unwrap();
        let mut second = Client::to(&node).await;
        second.ask("GET", "/a", &["Range: bytes=11000000-11000999"]).await;
        let head = second.head().await.unwrap();
        assert_eq!(head.status(), 206);
        assert!(origin.is_quiet());
        drop(first);
        slow.send(pattern(1, 100_000..TOTAL));
        assert!(second.some(1000).await == pattern(1, 11_000_000..11_001_000));
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn a_range_near_the_front_of_a_fill_waits_for_it() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut first = Client::to(&node).await;
        first.ask("GET", "/a", &[]).await;
        let slow = origin.next().await;
        slow.send(head("200 OK", &[FRESH, "ETag: \"1\""], Some(1_000_000)));
        first.head().await.unwrap();
        let mut second = Client::to(&node).await;
        second.ask("GET", "/a", &["Range: bytes=-10"]).await;
        let head = second.head().await.unwrap();
        assert_eq!(head.field("content-range"), Some("bytes 999990-999999/1000000"));
        slow.send(pattern(1, 0..1_000_000));
        assert!(second.some(10).await == pattern(1, 999_990..1_000_000));
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn parts_of_two_representations_are_never_put_together() {
    run(async {
        let generation = Arc::new(AtomicU64::new(1));
        let current = Arc::clone(&generation);
        let origin = Origin::serve(move |request| {
            let seed = current.load(SeqCst);
            ranged(request, &pattern(seed, 0..100_000), &format!("\"{seed}\""), &[FRESH])
        });
        let node = TestNode::before(&origin);
        let first = get_with(&node, "/a", &["Range: bytes=0-9999"]).await;
        assert!(first.body == pattern(1, 0..10_000));
        generation.store(2, SeqCst);
        let second = get_with(&node, "/a", &["Range: bytes=50000-59999"]).await;
        assert_eq!(second.status, 206);
        assert_eq!(second.field("etag"), Some("\"2\""));
        assert!(second.body == pattern(2, 50_000..60_000));
        let whole = get(&node, "/a").await;
        assert_eq!((whole.status, whole.complete), (200, true));
        assert!(whole.body == pattern(2, 0..100_000));
    });
}

#[test]
fn a_whole_object_is_not_finished_with_bytes_of_another_generation() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        // The first client gets a part.
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &["Range: bytes=0-999"]).await;
        let asked = origin.next().await;
        let old = ["Content-Range: bytes 0-999/100000", "ETag: \"1\"", FRESH];
        asked.send(response("206 Partial Content", &old, pattern(1, 0..1000)));
        assert_eq!(client.answer("GET").await.status, 206);
        // The second wants the whole, of which the rest has changed.
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &[]).await;
        let asked = origin.next().await;
        assert_eq!(asked.request.range(), Some((1000, 99_999)));
        let new = ["ETag: \"2\"", FRESH];
        asked.send(response("200 OK", &new, pattern(2, 0..100_000)));
        // Nothing of the old one was sent yet, and it is gone.
        let asked = origin.next().await;
        assert_eq!((asked.request.range(), asked.request.field("if-range")), (None, None));
        asked.send(response("200 OK", &new, pattern(2, 0..100_000)));
        let answer = client.answer("GET").await;
        assert_eq!((answer.status, answer.complete), (200, true));
        assert!(answer.body == pattern(2, 0..100_000));
        assert!(get(&node, "/a").await.body == pattern(2, 0..100_000));
        assert_eq!(origin.count(), 3);
    });
}

#[test]
fn if_range_of_another_representation_gets_the_whole() {
    run(async {
        let origin = ranging(10_000, "\"2\"");
        let node = TestNode::before(&origin);
        // Cold and held alike: the client has bytes of another representation.
        for _ in 0..2 {
            let fields = ["Range: bytes=10-19", "If-Range: \"1\""];
            let answer = get_with(&node, "/a", &fields).await;
            assert_eq!((answer.status, answer.field("content-range")), (200, None));
            assert!(answer.body == pattern(1, 0..10_000));
        }
        let fields = ["Range: bytes=10-19", "If-Range: \"2\""];
        let answer = get_with(&node, "/a", &fields).await;
        assert_eq!(answer.status, 206);
        assert!(answer.body == pattern(1, 10..20));
    });
}

#[test]
fn if_range_that_matches_gets_the_part_when_cold() {
    run(async {
        let origin = ranging(10_000, "\"2\"");
        let node = TestNode::before(&origin);
        let fields = ["Range: bytes=10-19", "If-Range: \"2\""];
        let answer = get_with(&node, "/a", &fields).await;
        assert_eq!(answer.status, 206);
        assert!(answer.body == pattern(1, 10..20));
    });
}

#[test]
fn conditions_come_before_ranges_when_cold_as_well() {
    run(async {
        let origin = ranging(10_000, "\"2\"");
        let node = TestNode::before(&origin);
        for target in ["/cold", "/cold"] {
            let fields = ["Range: bytes=10-19", "If-Match: \"1\""];
            assert_eq!(get_with(&node, target, &fields).await.status, 412);
        }
        for target in ["/other", "/other"] {
            let fields = ["Range: bytes=10-19", "If-None-Match: \"2\""];
            assert_eq!(get_with(&node, target, &fields).await.status, 304);
        }
    });
}

#[test]
fn of_nothing_all_is_given() {
    run(async {
        let origin = Origin::serve(|_| fresh(b""));
        let node = TestNode::before(&origin);
        assert_eq!(get(&node, "/a").await.status, 200);
        for range in ["bytes=0-", "bytes=-5", "bytes=7-"] {
            let answer = get_with(&node, "/a", &[&format!("Range: {range}")]).await;
            assert_eq!((answer.status, answer.body.len()), (200, 0), "{range}");
            assert_eq!(answer.field("content-range"), None);
        }
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn a_range_behind_the_end_is_not_satisfiable() {
    run(async {
        let origin = Origin::serve(|_| fresh(b"0123456789"));
        let node = TestNode::before(&origin);
        for _ in 0..2 {
            let answer = get_with(&node, "/a", &["Range: bytes=10-"]).await;
            assert_eq!(answer.status, 416);
            assert_eq!(answer.field("content-range"), Some("bytes */10"));
        }
        assert_eq!(get_with(&node, "/a", &["Range: bytes=-3"]).await.text(), "789");
        assert_eq!(get_with(&node, "/a", &["Range: bytes=8-100"]).await.text(), "89");
        for ignored in ["bytes=5-2", "lines=1-2", "bytes=a-b"] {
            let answer = get_with(&node, "/a", &[&format!("Range: {ignored}")]).await;
            assert_eq!((answer.status, answer.text().as_str()), (200, "0123456789"), "{ignored}");
        }
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn a_416_of_the_origin_is_passed_on_and_does_not_hide_the_object() {
    run(async {
        let whole = pattern(1, 0..1000);
        let origin = Origin::serve(move |request| match request.range() {
            Some((5000, _)) => {
                response("416 Range Not Satisfiable", &["Content-Range: bytes */1000"], "")
            }
            _ => ranged(request, &whole, "\"1\"", &[FRESH]),
        });
        let node = TestNode::before(&origin);
        let answer = get_with(&node, "/a", &["Range: bytes=5000-6000"]).await;
        assert_eq!(answer.status, 416);
        assert_eq!(answer.field("content-range"), Some("bytes */1000"));
        assert_eq!(get(&node, "/a").await.body.len(), 1000);
    });
}

#[test]
fn head_has_the_length_and_ignores_ranges() {
    run(async {
        let origin = ranging(10_000, "\"1\"");
        let node = TestNode::before(&origin);
        // Range is defined for GET only (RFC 9110 §14.2): cold, then held.
        for _ in 0..2 {
            let answer = request(&node, "HEAD", "/a", &["Range: bytes=0-9"]).await;
            assert_eq!((answer.status, answer.field("content-length")), (200, Some("10000")));
            assert_eq!(answer.field("content-range"), None);
        }
        // And of an object of which only a part is there.
        get_with(&node, "/b", &["Range: bytes=0-9"]).await;
        let answer = request(&node, "HEAD", "/b", &[]).await;
        assert_eq!((answer.status, answer.field("content-length")), (200, Some("10000")));
    });
}

#[test]
fn an_origin_without_ranges_fills_the_whole_and_the_client_gets_its_part() {
    run(async {
        let origin = Origin::serve(|_| fresh(pattern(1, 0..10_000)));
        let node = TestNode::before(&origin);
        let answer = get_with(&node, "/a", &["Range: bytes=100-199"]).await;
        assert_eq!(answer.status, 206);
        assert!(answer.body == pattern(1, 100..200));
        assert!(get(&node, "/a").await.body == pattern(1, 0..10_000));
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn parts_without_a_strong_validator_are_not_added_to() {
    run(async {
        let whole = pattern(1, 0..10_000);
        let origin = Origin::serve(move |request| ranged(request, &whole, "W/\"1\"", &[FRESH]));
        let node = TestNode::before(&origin);
        assert_eq!(get_with(&node, "/a", &["Range: bytes=0-99"]).await.status, 206);
        let answer = get_with(&node, "/a", &["Range: bytes=50-199"]).await;
        assert_eq!(answer.status, 206);
        assert!(answer.body == pattern(1, 50..200));
        assert!(origin.requests().iter().all(|asked| asked.field("if-range").is_none()));
        assert!(get(&node, "/a").await.body == pattern(1, 0..10_000));
    });
}

#[test]
fn many_clients_with_ranges_of_one_cold_object_all_get_their_bytes() {
    run(async {
        let origin = ranging(4_000_000, "\"1\"");
        let node = TestNode::before(&origin);
        let mut clients = Vec::new();
        for index in 0..60_u64 {
            let mut client = Client::to(&node).await;
            let start = index * 61_803 % 3_900_000;
            let range = format!("Range: bytes={start}-{}", start + 90_000);
            client.ask("GET", "/a", &[&range]).await;
            clients.push((start, client));
        }
        for (start, client) in &mut clients {
            let answer = client.answer("GET").await;
            assert_eq!((answer.status, answer.complete), (206, true));
            assert!(answer.body == pattern(1, *start..*start + 90_001), "{start}");
        }
        until(|| node.count("origin_body_bytes") > 0).await;
        assert!(get(&node, "/a").await.body == pattern(1, 0..4_000_000));
    });
}

#[test]
fn conditions_come_before_ranges_of_what_is_not_kept() {
    run(async {
        let whole = pattern(1, 0..1000);
        let fields = ["Cache-Control: no-store"];
        let origin = Origin::serve(move |request| ranged(request, &whole, "\"2\"", &fields));
        let node = TestNode::before(&origin);
        for _ in 0..2 {
            let fields = ["Range: bytes=10-19", "If-Match: \"1\""];
            let answer = get_with(&node, "/a", &fields).await;
            assert_eq!((answer.status, answer.field("content-range")), (412, None));
            let fields = ["Range: bytes=10-19", "If-None-Match: \"2\""];
            let answer = get_with(&node, "/a", &fields).await;
            assert_eq!((answer.status, answer.field("content-range")), (304, None));
            let fields = ["Range: bytes=10-19", "If-Match: \"2\""];
            let answer = get_with(&node, "/a", &fields).await;
            assert!(answer.status == 206 && answer.body == pattern(1, 10..20));
        }
    });
}

#[test]
fn a_part_that_has_expired_is_validated_and_then_added_to() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &["Range: bytes=0-999"]).await;
        let stale = ["Content-Range: bytes 0-999/5000", "ETag: \"1\"", "Age: 9"];
        let control = "Cache-Control: max-age=1, stale-if-error=60";
        let fields = [&stale[..], &[control]].concat();
        let asked = origin.next().await;
        asked.send(response("206 Partial Content", &fields, pattern(1, 0..1000)));
        assert_eq!(client.answer("GET").await.status, 206);
        client.ask("GET", "/a", &[]).await;
        let asked = origin.next().await;
        assert_eq!(asked.request.field("if-none-match"), Some("\"1\""));
        asked.send(head("304 Not Modified", &["ETag: \"1\"", FRESH], None));
        let asked = origin.next().await;
        assert_eq!(asked.request.range(), Some((1000, 4999)));
        let fields = ["Content-Range: bytes 1000-4999/5000", "ETag: \"1\""];
        asked.send(response("206 Partial Content", &fields, pattern(1, 1000..5000)));
        let answer = client.answer("GET").await;
        assert_eq!((answer.status, answer.complete), (200, true));
        assert!(answer.body == pattern(1, 0..5000));
        assert!(get(&node, "/a").await.body == pattern(1, 0..5000));
        assert_eq!(origin.count(), 3);
    });
}

/// A head of a chunked 200, and the chunks of a pattern's bytes.
fn chunked_head(fields: &[&str]) -> Vec<u8> {
    head("200 OK", &[&[FRESH, "Transfer-Encoding: chunked"], fields].concat(), None)
}

fn chunk(range: std::ops::Range<u64>) -> Vec<u8> {
    let bytes = pattern(1, range);
    [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat()
}

#[test]
fn an_open_range_of_a_body_of_unknown_length_comes_as_it_grows() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut first = Client::to(&node).await;
        first.ask("GET", "/a", &[]).await;
        let asked = origin.next().await;
        asked.send(chunked_head(&[]));
        asked.send(chunk(0..2000));
        first.head().await.unwrap();
        let (mut open, mut large) = (Client::to(&node).await, Client::to(&node).await);
        open.ask("GET", "/a", &["Range: bytes=1500-9007199254740991"]).await;
        large.ask("GET", "/a", &["Range: bytes=2400-9007199254740991"]).await;
        let begun = open.head().await.unwrap();
        let grows = "bytes 1500-9007199254740991/*";
        assert_eq!((begun.status(), begun.field("content-range")), (206, Some(grows)));
        assert!(open.chunk().await.unwrap() == pattern(1, 1500..2000));
        // A part that is there, one that comes, and one that begins behind the end.
        let answer = get_with(&node, "/a", &["Range: bytes=100-199"]).await;
        assert_eq!(answer.field("content-range"), Some("bytes 100-199/*"));
        assert!(answer.status == 206 && answer.body == pattern(1, 100..200));
        let (mut soon, mut never) = (Client::to(&node).await, Client::to(&node).await);
        soon.ask("GET", "/a", &["Range: bytes=1900-2099"]).await;
        never.ask("GET", "/a", &["Range: bytes=5000-9007199254740991"]).await;
        // Who does not say that number would take it for the length: it gets all from the beginning.
        let mut whole = Client::to(&node).await;
        whole.ask("GET", "/a", &["Range: bytes=1500-"]).await;
        let begun = whole.head().await.unwrap();
        assert_eq!((begun.status(), begun.field("content-range")), (200, None));
        assert!(whole.chunk().await.unwrap() == pattern(1, 0..2000));
        asked.send(chunk(2000..2500));
        let answer = soon.answer("GET").await;
        assert_eq!(answer.field("content-range"), Some("bytes 1900-2099/*"));
        assert!(answer.status == 206 && answer.body == pattern(1, 1900..2100));
        assert!(open.chunk().await.unwrap() == pattern(1, 2000..2500));
        let begun = large.head().await.unwrap();
        assert_eq!(begun.field("content-range"), Some("bytes 2400-9007199254740991/*"));
        assert!(large.chunk().await.unwrap() == pattern(1, 2400..2500));
        asked.send("0\r\n\r\n");
        assert_eq!(open.chunk().await, Some(Vec::new()));
        assert_eq!(large.chunk().await, Some(Vec::new()));
        let answer = never.answer("GET").await;
        assert_eq!((answer.status, answer.field("content-range")), (416, Some("bytes */2500")));
        let answer = get_with(&node, "/a", &["Range: bytes=1500-"]).await;
        assert_eq!(answer.field("content-range"), Some("bytes 1500-2499/2500"));
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn an_open_range_of_what_breaks_off_breaks_off() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut first = Client::to(&node).await;
        first.ask("GET", "/a", &["Range: bytes=1500-9007199254740991"]).await;
        let asked = origin.next().await;
        asked.send(chunked_head(&["ETag: \"1\""]));
        asked.send(chunk(0..2000));
        let begun = first.head().await.unwrap();
        assert_eq!((begun.status(), begun.field("etag")), (206, Some("\"1\"")));
        assert!(first.chunk().await.unwrap() == pattern(1, 1500..2000));
        asked.close();
        assert_eq!(first.chunk().await, None);
        until(|| node.objects() == 0).await;
    });
}

#[test]
fn parts_of_what_still_grows_are_kept_and_shared() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let fields = ["Range: bytes=2000-2999"];
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = Client::to(&node).await;
            client.ask("GET", "/a", &fields).await;
            clients.push(client);
        }
        let asked = origin.next().await;
        node.counted("waits", 2).await;
        let range = "Content-Range: bytes 2000-2999/*";
        asked.send(head("206 Partial Content", &[FRESH, range], Some(1000)));
        asked.send(pattern(1, 2000..2500));
        asked.send(pattern(1, 2500..3000));
        for client in &mut clients {
            let answer = client.answer("GET").await;
            assert_eq!((answer.status, answer.complete), (206, true));
            assert_eq!(answer.field("content-range"), Some("bytes 2000-2999/*"));
            assert!(answer.body == pattern(1, 2000..3000));
        }
        // Also less of it, later; what else there is has to be asked for.
        let answer = get_with(&node, "/a", &["Range: bytes=2100-2199"]).await;
        assert_eq!(answer.field("content-range"), Some("bytes 2100-2199/*"));
        assert!(answer.body == pattern(1, 2100..2200));
        assert_eq!(origin.count(), 1);
        for wanted in ["Range: bytes=2900-3099", "Range: bytes=2000-", "Range: bytes=-5", "X: 1"] {
            let mut client = Client::to(&node).await;
            client.ask("GET", "/a", &[wanted]).await;
            let asked = origin.next().await;
            assert_eq!(asked.request.field("if-range"), None);
            asked.send(response("404 Not Found", &["Cache-Control: no-store"], "no"));
            assert_eq!(client.answer("GET").await.status, 404, "{wanted}");
        }
    });
}

#[test]
fn an_object_in_many_pieces_costs_its_origin_few_requests() {
    run(async {
        const BYTES: u64 = 3_000_000;
        let origin = ranging(BYTES, "\"1\"");
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        for at in 0..1500 {
            let (first, last) = (at * 2000, at * 2000);
            let range = format!("Range: bytes={first}-{last}");
            let answer = client.get_with("/a", &[&range]).await;
            assert!(answer.status == 206 && answer.body == pattern(1, first..first + 1));
        }
        // Blocks came in the end, not bytes.
        let before = origin.count();
        assert!(before < 300, "{before}");
        let cache = &node.node.shared.cache;
        let key = cache.key(crate::client::HOST, "/a");
        let pieces = cache.peek(&key).variants[0].body().pieces();
        assert!(pieces < 600, "{pieces}");
        assert!(client.get("/a").await.body == pattern(1, 0..BYTES));
        assert!(origin.count() - before <= 9, "{before} and {}", origin.count());
        assert!(node.count("fetches_widened") > 0);
    });
}

#[test]
fn who_wants_only_what_is_cached_gets_no_part_that_would_have_to_be_fetched() {
    run(async {
        let whole = pattern(3, 0..10_000);
        let origin = Origin::serve(move |asked| {
            ranged(asked, &whole, "\"a\"", &["Cache-Control: max-age=3600"])
        });
        let node = TestNode::before(&origin);
        assert_eq!(get_with(&node, "/", &["Range: bytes=0-999"]).await.status, 206);
        let only = "Cache-Control: only-if-cached";
        for (range, status) in [("0-99", 206), ("500-1500", 504), ("5000-", 504)] {
            let range = format!("Range: bytes={range}");
            assert_eq!(get_with(&node, "/", &[&range, only]).await.status, status, "{range}");
        }
        assert_eq!(get_with(&node, "/", &[only]).await.status, 504);
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn several_ranges_go_on_when_their_object_is_purged() {
    run(async {
        const HALF: u64 = 8_000_000;
        let whole = pattern(1, 0..2 * HALF);
        // Without a strong tag nothing can be fetched again.
        let origin = Origin::serve(move |_| response("200 OK", &[FRESH, "ETag: W/\"1\""], &whole));
        let node = TestNode::before(&origin);
        for order in [[0..HALF - 1, HALF + 1..2 * HALF], [HALF + 1..2 * HALF, 0..HALF - 1]] {
            get(&node, "/a").await;
            let mut client = Client::to(&node).await;
            let [one, other] =
                order.clone().map(|range| format!("{}-{}", range.start, range.end - 1));
            client.ask("GET", "/a", &[&format!("Range: bytes={one},{other}")]).await;
            // The head is there, and most of the rest is in no buffer yet.
            let begun = client.head().await.unwrap();
            assert_eq!(begun.status(), 206);
            assert_eq!(request(&node, "PURGE", "/a", &[]).await.status, 200);
            let length = usize::try_from(begun.number("content-length").unwrap()).unwrap();
            let body = client.some(length).await;
            assert_eq!(body.len(), length, "it broke off");
            for range in order {
                let wanted = pattern(1, range.end - 64..range.end);
                assert!(body.windows(64).any(|some| some == wanted), "{range:?}");
            }
        }
    });
}

#[test]
fn what_is_missing_and_cannot_be_had_is_an_error_and_no_response_that_breaks_off() {
    run(async {
        let mut origin = ranging(300, "\"1\"");
        let node = TestNode::before(&origin);
        assert_eq!(get_with(&node, "/a", &["Range: bytes=0-99"]).await.status, 206);
        assert!(get_with(&node, "/b", &["Range: bytes=0-99"]).await.status == 206);
        origin.kill();
        let answer = get_with(&node, "/a", &["Range: bytes=0-49"]).await;
        assert!(answer.status == 206 && answer.body == pattern(1, 0..50), "it is all there");
        assert_eq!(request(&node, "HEAD", "/a", &[]).await.status, 200);
        assert_eq!(get(&node, "/a").await.status, 502);
        assert_eq!(get_with(&node, "/b", &["Range: bytes=50-149"]).await.status, 502);
    });
}
