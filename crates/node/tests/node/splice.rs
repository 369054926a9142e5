//! Whose bytes a response is made of, where an origin breaks off, or lies, or another one answers.

use crate::client::{Answer, Client, get, get_with};
use crate::harness::{Setup, TestNode, pattern, run, store_at, until};
use crate::origin::{Asked, Origin, Reply, Request, head, ranged, response, then_close};
use crate::vcl::{backend, governed, governed_with};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

const FRESH: &str = "Cache-Control: max-age=3600";
const TOTAL: u64 = 200_000;
const HALF: u64 = 100_000;

/// Sends a head that promises [`TOTAL`] bytes, the first half of them, and the end.
fn break_off(asked: &Asked, seed: u64, fields: &[&str]) {
    asked.send(head("200 OK", &[&[FRESH], fields].concat(), Some(TOTAL)));
    asked.send(pattern(seed, 0..HALF));
    asked.close();
}

/// The rest as a 206 of `seed`'s bytes.
fn rest(seed: u64, total: &str, fields: &[&str]) -> Vec<u8> {
    let range = format!("Content-Range: bytes {HALF}-{}/{total}", TOTAL - 1);
    let bytes = pattern(seed, HALF..TOTAL);
    response("206 Partial Content", &[&[range.as_str()], fields].concat(), bytes)
}

/// A policy that sends `/x` to the second origin with a secret of its own.
fn divided(two: &Origin) -> String {
    format!(
        "{}sub vcl_recv {{ if (req.url ~ \"^/x\") {{ set req.backend_hint = two; }} }}
        sub vcl_backend_fetch {{
            if (bereq.url ~ \"^/x\") {{ set bereq.http.Authorization = \"secret of two\"; }}
        }}",
        backend("two", two)
    )
}

/// An origin that has to stay out of it.
fn bystander() -> Origin {
    let whole = pattern(1, 0..TOTAL);
    Origin::serve(move |asked| ranged(asked, &whole, "\"1\"", &[FRESH]))
}

/// A client that has asked for the whole of this target.
async fn asking(node: &TestNode, target: &str) -> Client {
    let mut client = Client::to(node).await;
    client.ask("GET", target, &[]).await;
    client
}

/// Checks that a response broke off within its first half, and that nothing of it was kept.
async fn is_given_up(node: &TestNode, answer: &Answer, seed: u64, target: &str) {
    assert_eq!((answer.status, answer.complete), (200, false));
    assert!(pattern(seed, 0..HALF).starts_with(&answer.body));
    until(|| node.variants(target) == 0).await;
}

#[test]
fn a_fill_goes_on_at_the_origin_its_policy_chose_and_with_its_request() {
    run(async {
        let (one, mut two) = (bystander(), Origin::scripted());
        let governed = governed(&one, &divided(&two));
        let mut client = asking(&governed.node, "/x").await;
        break_off(&two.next().await, 2, &["ETag: \"1\""]);
        let again = two.next().await;
        assert_eq!(again.request.range(), Some((HALF, TOTAL - 1)));
        assert_eq!(again.request.field("if-range"), Some("\"1\""));
        assert_eq!(again.request.field("authorization"), Some("secret of two"));
        again.send(rest(2, "200000", &["ETag: \"1\""]));
        let answer = client.answer("GET").await;
        assert!(answer.complete && answer.body == pattern(2, 0..TOTAL));
        assert!(get(&governed.node, "/x").await.body == pattern(2, 0..TOTAL));
        assert_eq!((one.count(), two.count()), (0, 2));
    });
}

#[test]
fn nothing_goes_to_another_origin_than_the_policy_chose_even_when_that_one_is_gone() {
    run(async {
        let (one, mut two) = (bystander(), Origin::scripted());
        let governed = governed(&one, &divided(&two));
        let mut client = asking(&governed.node, "/x").await;
        let asked = two.next().await;
        asked.send(head("200 OK", &[FRESH, "ETag: \"1\""], Some(TOTAL)));
        asked.send(pattern(2, 0..HALF));
        let begun = client.head().await.unwrap();
        let mut body = client.some(HALF as usize).await;
        two.kill();
        body.extend(client.some(HALF as usize).await);
        assert!(
            (begun.status(), body.len()) == (200, HALF as usize) && body == pattern(2, 0..HALF)
        );
        assert_eq!(get(&governed.node, "/x").await.status, 503);
        assert_eq!(one.count(), 0);
    });
}

/// Half a response of one origin of two in a director, the rest in this answer of the other.
async fn continued(etag: &str, rest: Vec<u8>) -> (TestNode, Answer, usize) {
    let (mut one, two) = (Origin::scripted(), Origin::serve(move |_| rest.clone()));
    let node = Setup::of(&one).origin(&two.url()).and("[origins]\ndirector = \"fallback\"").start();
    let mut client = asking(&node, "/a").await;
    let asked = one.next().await;
    asked.send(head("200 OK", &[FRESH, etag], Some(TOTAL)));
    asked.send(pattern(2, 0..HALF));
    let begun = client.head().await.unwrap();
    let mut body = client.some(HALF as usize).await;
    one.kill();
    body.extend(client.some(HALF as usize).await);
    let answer = Answer {
        status: begun.status(),
        head: begun,
        complete: body.len() as u64 == TOTAL,
        body,
        trailers: Vec::new(),
        interim: Vec::new(),
    };
    let asked = two.count();
    (node, answer, asked)
}

#[test]
fn equal_origins_continue_one_another_by_the_same_strong_tag() {
    run(async {
        let tag = "ETag: \"1\"";
        let (node, answer, _) = continued(tag, rest(2, "200000", &[tag])).await;
        assert!(answer.complete && answer.body == pattern(2, 0..TOTAL));
        assert_eq!(node.count("fetches_unjoined"), 0);
    });
}

#[test]
fn what_is_not_surely_the_same_is_never_continued() {
    run(async {
        let strong = "ETag: \"1\"";
        let modified = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
        let two = [strong, "ETag: \"2\""];
        let answers = [
            (strong, rest(3, "200000", &["ETag: \"2\""])),
            (strong, rest(3, "200000", &["ETag: W/\"1\""])),
            (strong, rest(3, "200000", &[])),
            (strong, rest(3, "200001", &two[..1])),
            (strong, rest(3, "*", &two[..1])),
            (strong, response("200 OK", &["ETag: \"2\""], pattern(3, 0..TOTAL))),
            (strong, response("206 Partial Content", &[strong], pattern(3, HALF..TOTAL))),
            (strong, response("416 Range Not Satisfiable", &["Content-Range: bytes */9"], "")),
        ];
        for (tag, rest) in answers {
            let shown = String::from_utf8_lossy(&rest[..160.min(rest.len())]).into_owned();
            let (node, answer, asked) = continued(tag, rest).await;
            assert_eq!(asked, 1, "{shown}");
            is_given_up(&node, &answer, 2, "/a").await;
            assert_eq!(node.count("fetches_unjoined"), 1, "{shown}");
        }
        for tag in ["ETag: W/\"1\"", modified, "X-None: 1"] {
            let (node, answer, asked) = continued(tag, rest(3, "200000", &[tag])).await;
            assert_eq!(asked, 0, "{tag}");
            is_given_up(&node, &answer, 2, "/a").await;
        }
    });
}

#[test]
fn what_is_missing_far_ahead_is_asked_as_the_policy_says() {
    run(async {
        let (one, mut two) = (bystander(), Origin::scripted());
        let governed = governed(&one, &divided(&two));
        const LONG: u64 = 20_000_000;
        let first = asking(&governed.node, "/x").await;
        let slow = two.next().await;
        slow.send(head("200 OK", &[FRESH, "ETag: \"1\""], Some(LONG)));
        slow.send(pattern(2, 0..1000));
        let mut second = Client::to(&governed.node).await;
        second.ask("GET", "/x", &["Range: bytes=15000000-15000999", "Connection: x"]).await;
        let ahead = two.next().await;
        assert_eq!(ahead.request.range(), Some((15_000_000, 15_000_999)));
        assert_eq!(ahead.request.field("authorization"), Some("secret of two"));
        assert_eq!(ahead.request.field("connection"), None);
        let range = format!("Content-Range: bytes 15000000-15000999/{LONG}");
        let bytes = pattern(2, 15_000_000..15_001_000);
        ahead.send(response("206 Partial Content", &[&range, "ETag: \"1\""], &bytes));
        assert!(second.answer("GET").await.body == bytes);
        assert_eq!(one.count(), 0);
        drop(first);
    });
}

#[test]
fn a_director_that_changes_its_mind_brings_no_other_bytes() {
    run(async {
        const LONG: u64 = 20_000_000;
        let served = |seed: u64| {
            move |asked: &Request| {
                let etag = format!("\"{seed}\"");
                ranged(asked, &pattern(seed, 0..LONG), &etag, &[FRESH])
            }
        };
        let (mut one, two) = (Origin::scripted(), Origin::serve(served(2)));
        let text = format!(
            "{}import directors;
            sub vcl_init {{
                new both = directors.round_robin();
                both.add_backend(origin); both.add_backend(two);
            }}
            sub vcl_backend_fetch {{ set bereq.backend = both.backend(); }}",
            backend("two", &two)
        );
        let governed = governed(&one, &text);
        let node = &governed.node;
        let mut first = asking(node, "/a").await;
        let slow = one.next().await;
        slow.send(head("200 OK", &[FRESH, "ETag: \"1\""], Some(LONG)));
        slow.send(pattern(1, 0..1000));
        assert_eq!(first.head().await.unwrap().status(), 200);
        // The director's turn is the other one's, which has something else under this name.
        let answer = get_with(node, "/a", &["Range: bytes=15000000-15000999"]).await;
        let seed = if answer.field("etag") == Some("\"1\"") { 1 } else { 2 };
        let wanted = pattern(seed, 15_000_000..15_001_000);
        assert!(wanted.starts_with(&answer.body));
        assert_eq!(answer.complete, answer.body == wanted);
        assert_eq!(node.count("fetches_unjoined"), 1);
    });
}

#[test]
fn what_a_part_lacks_is_asked_until_one_has_the_same() {
    run(async {
        const LONG: u64 = 1_000_000;
        let served = |seed: u64| {
            move |asked: &Request| {
                let etag = format!("\"{seed}\"");
                ranged(asked, &pattern(seed, 0..LONG), &etag, &[FRESH])
            }
        };
        let (one, two) = (Origin::serve(served(1)), Origin::serve(served(2)));
        let turns = "[origins]\ndirector = \"round-robin\"";
        let node = Setup::of(&one).origin(&two.url()).and(turns).start();
        // Whose turn it is when the hole is asked for is either's.
        for target in ["/a", "/b", "/c", "/d"] {
            get_with(&node, target, &["Range: bytes=0-99999"]).await;
            if target > "/b" {
                get_with(&node, "/other", &["Range: bytes=0-9", "Cache-Control: no-store"]).await;
            }
            let answer = get_with(&node, target, &["Range: bytes=0-199999"]).await;
            let seed = if answer.field("etag") == Some("\"1\"") { 1 } else { 2 };
            assert!(answer.complete && answer.body == pattern(seed, 0..200_000), "{target}");
        }
        assert!(node.count("fetches_unjoined") > 0);
    });
}

#[test]
fn what_a_disk_does_not_give_is_asked_as_the_policy_says() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = store_at(&path, "16MiB");
        const BYTES: u64 = 3_000_000;
        let one = bystander();
        let whole = pattern(2, 0..BYTES);
        let two = Origin::serve(move |asked| {
            assert_eq!(asked.field("authorization"), Some("secret of two"));
            ranged(asked, &whole, "\"1\"", &[FRESH])
        });
        let policy = divided(&two);
        let first = governed_with(&one, &policy, &store);
        assert!(get(&first.node, "/x").await.body == pattern(2, 0..BYTES));
        let disks = first.node.node.shared.disks.clone().unwrap();
        let volumes = || disks.disks().iter().filter_map(|disk| disk.volume());
        until(|| volumes().any(|volume| volume.counts().objects_written.value() > 0)).await;
        drop((disks, first));
        let mut bytes = std::fs::read(&path).unwrap();
        let spoiled = pattern(2, 2_000_000..2_000_064);
        let at = bytes.windows(64).position(|window| window == spoiled).expect("it is on the disk");
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let second = governed_with(&one, &policy, &store);
        let answer = get(&second.node, "/x").await;
        assert!(answer.complete && answer.body == pattern(2, 0..BYTES));
        assert!(second.node.count("disk_hits") == 1 && second.node.count("fetches_range") > 0);
        assert_eq!(one.count(), 0);
    });
}

/// Numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

/// What an origin has under a name at a time.
#[derive(Clone, Copy)]
struct Version {
    seed: u64,
    total: u64,
}

/// A tag that tells the versions apart, or one that does not: weak, or none.
fn tag(version: Version, kind: u64) -> String {
    let Version { seed, total } = version;
    match kind {
        0 | 1 => format!("ETag: \"{seed}-{total}\""),
        2 => "ETag: W/\"same\"".into(),
        3 => "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT".into(),
        _ => "X-None: 1".into(),
    }
}

/// An origin that has one of a few versions, changes it now and then, and breaks off now and then.
fn moody(number: u64, seed: u64) -> Origin {
    let turns = AtomicU64::new(0);
    let version = AtomicU64::new(0);
    Origin::serve(move |asked: &Request| -> Reply {
        let mut random = Random(seed ^ (number << 32) ^ (turns.fetch_add(1, SeqCst) << 40));
        if random.below(4) == 0 {
            version.store(random.below(3), SeqCst);
        }
        let current = version.load(SeqCst);
        let version = Version { seed: number * 10 + current, total: 60_000 + current * 8 };
        let kind = random.below(5);
        let tag = tag(version, kind);
        let strong = tag.strip_prefix("ETag: ").filter(|_| kind < 2);
        let same = asked.field("if-range").is_none_or(|wanted| Some(wanted) == strong);
        let range = asked.range().filter(|_| same && random.below(8) > 0);
        let whole = pattern(version.seed, 0..version.total);
        let bytes = match range {
            None => response("200 OK", &[FRESH, &tag], whole),
            Some((first, last)) => {
                let last = last.min(version.total - 1);
                let total = random.one_of(&[Some(version.total), Some(version.total), None]);
                let total = total.map_or_else(|| "*".into(), |total| total.to_string());
                let range = format!("Content-Range: bytes {first}-{last}/{total}");
                let part = &whole[first as usize..=last as usize];
                response("206 Partial Content", &[FRESH, &tag, &range], part)
            }
        };
        if random.below(3) > 0 {
            return bytes.into();
        }
        let kept = 1 + random.below(bytes.len() as u64) as usize;
        then_close(&bytes[..kept])
    })
}

/// Whose bytes these are, from `range.start` on.
fn made_by(bytes: &[u8], at: u64) -> Option<u64> {
    (0..40).find(|seed| pattern(*seed, at..at + bytes.len() as u64) == bytes)
}

/// First byte and length of the part of a response.
fn place(answer: &Answer) -> Range<u64> {
    let Some(range) = answer.field("content-range") else { return 0..answer.body.len() as u64 };
    let range = range.strip_prefix("bytes ").unwrap();
    let (first, last) = range.split_once('/').unwrap().0.split_once('-').unwrap();
    first.parse().unwrap()..last.parse::<u64>().unwrap() + 1
}

#[test]
fn every_byte_of_a_response_comes_from_one_origins_one_representation() {
    run(async {
        let checked = Arc::new(AtomicUsize::new(0));
        for seed in 0..12 {
            let origins = [moody(1, seed), moody(2, seed), moody(3, seed)];
            let plain = Setup::of(&origins[0]).origin(&origins[1].url()).origin(&origins[2].url());
            let text = format!(
                "{}{}import directors;
                sub vcl_init {{
                    new any = directors.round_robin();
                    any.add_backend(origin); any.add_backend(two); any.add_backend(three);
                }}
                sub vcl_backend_fetch {{ set bereq.backend = any.backend(); }}
                sub vcl_backend_response {{
                    if (beresp.status == 200 && bereq.retries == 0 && bereq.url ~ \"1$\") {{
                        return (retry);
                    }}
                }}",
                backend("two", &origins[1]),
                backend("three", &origins[2])
            );
            let (plain, governed) = (plain.start(), governed(&origins[0], &text));
            let mut random = Random(seed);
            for turn in 0..60 {
                let node = if turn % 2 == 0 { &plain } else { &governed.node };
                let target = format!("/{}", random.below(3));
                let first = random.below(59_000);
                let last = (first + 64 + random.below(30_000)).min(59_999);
                let range = format!("Range: bytes={first}-{last}");
                let fields: &[&str] = if random.below(2) == 0 { &[] } else { &[&range] };
                let answer = get_with(node, &target, fields).await;
                if !matches!(answer.status, 200 | 206) {
                    continue;
                }
                let place = place(&answer);
                let whose = made_by(&answer.body, place.start);
                assert!(whose.is_some(), "seed {seed}, turn {turn}: {:?}", answer.head);
                checked.fetch_add(answer.body.len(), SeqCst);
                let tag = answer.field("etag").and_then(|tag| tag.strip_prefix('"'));
                if let Some(tag) = tag {
                    let named = tag.split('-').next().unwrap().parse().unwrap();
                    let end = place.start + answer.body.len() as u64;
                    let is_its = answer.body == pattern(named, place.start..end);
                    assert!(is_its, "seed {seed}, turn {turn}: {:?}", answer.head);
                }
            }
        }
        assert!(checked.load(SeqCst) > 1_000_000, "too little was served to say anything");
    });
}

#[test]
fn what_one_gets_does_not_join_what_all_get() {
    run(async {
        // Who says who it is gets another representation; `public` would make it everybody's.
        for (control, is_shared) in [(FRESH, false), ("Cache-Control: public, max-age=3600", true)]
        {
            let origin = Origin::serve(move |asked| {
                let is_own = asked.field("authorization").is_some() && !is_shared;
                let (seed, etag) = if is_own { (2, "\"own\"") } else { (1, "\"all\"") };
                ranged(asked, &pattern(seed, 0..TOTAL), etag, &[control])
            });
            let node = TestNode::before(&origin);
            get_with(&node, "/a", &["Range: bytes=0-999"]).await;
            let who = "Authorization: Bearer x";
            let answer = get_with(&node, "/a", &[who]).await;
            assert_eq!((answer.status, answer.complete), (200, true));
            let seed = if is_shared { 1 } else { 2 };
            assert!(answer.body == pattern(seed, 0..TOTAL), "{control}");
            let asked = origin.requests()[1].range();
            assert_eq!(asked, is_shared.then_some((1000, TOTAL - 1)), "{control}");
            // What is there already is for all.
            let answer = get_with(&node, "/a", &[who, "Range: bytes=0-999"]).await;
            assert!(answer.body == pattern(1, 0..1000), "{control}");
            assert!(get(&node, "/a").await.body == pattern(1, 0..TOTAL), "{control}");
        }
    });
}

#[test]
fn a_part_that_is_shorter_than_it_says_is_no_whole() {
    run(async {
        let fields = [FRESH, "ETag: \"1\"", "Content-Range: bytes 0-9/10"];
        let origin = Origin::serve(move |_| response("206 Partial Content", &fields, "01234"));
        let node = Setup::of(&origin).start();
        let part = get_with(&node, "/a", &["Range: bytes=0-9"]).await;
        assert_eq!((part.status, &*part.text()), (206, "01234"));
        assert_eq!(node.variants("/a"), 0);
        assert_ne!(get(&node, "/a").await.status, 200);
    });
}
