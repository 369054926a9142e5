//! Clients that take their responses slowly, or not at all: what they may keep in memory, and for how
//! long.

use crate::client::{Answer, Client};
use crate::h2_frames::{DATA, Frames, HEADERS, RST_STREAM};
use crate::harness::{Setup, TestNode, pattern, proxied, run, store_at, until};
use crate::origin::{Origin, fresh, head, ranged, response};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpSocket;

const OBJECT_BYTES: u64 = 1_000_000;
const HOT: u64 = 6;
const HOT_BYTES: u64 = 500_000;
const TAGGED_BYTES: u64 = 900_000;

/// Objects that others read over and over, and such as nobody else asks for.
fn catalogue() -> Origin {
    Origin::serve(|asked| {
        let (kind, seed) = asked.target()[1..].split_once('/').unwrap();
        let seed = seed.parse().unwrap();
        match kind {
            "hot" => fresh(pattern(seed, 0..HOT_BYTES)),
            "large" => fresh(pattern(seed, 0..6_000_000)),
            "tagged" => {
                let whole = pattern(seed, 0..TAGGED_BYTES);
                ranged(asked, &whole, "\"1\"", &["Cache-Control: max-age=3600"])
            }
            "own" => {
                response("200 OK", &["Cache-Control: no-store"], pattern(seed, 0..OBJECT_BYTES))
            }
            "private" => {
                response("200 OK", &["Cache-Control: no-store"], pattern(seed, 0..6_000_000))
            }
            _ => fresh(pattern(seed, 0..OBJECT_BYTES)),
        }
    })
}

/// A node that takes a client's address from a PROXY header.
fn start(origin: &Origin, memory: &'static str, limits: &str) -> TestNode {
    Setup { memory, ..Setup::of(origin) }.behind_proxy().and(limits).start()
}

const ATTACKER: &str = "192.0.2.1";
const OTHER: &str = "192.0.2.2";

/// A GET of a client that has nothing to do with those who read slowly.
async fn get(node: &TestNode, target: &str) -> Answer {
    let mut client = Client::to(node).await;
    client.send(proxied(OTHER)).await;
    client.get(target).await
}

/// Asks for what others read; whether all of it was there.
async fn hot(node: &TestNode, misses: bool) {
    for seed in 0..HOT {
        let answer = get(node, &format!("/hot/{seed}")).await;
        assert!(answer.body == pattern(seed, 0..HOT_BYTES));
        assert!(misses || answer.cache().contains("hit"), "{seed}: {}", answer.cache());
    }
}

/// A well-behaved client's time is short, however many others do not read.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(15), work).await.expect("others hold everything up")
}

/// What is kept for slow readers is within its share of memory.
fn assert_bounded(node: &TestNode, percent: u64) {
    let held = node.node.shared.readers.stats().bytes;
    let limit = node.node.shared.cache.memory().limit_bytes / 100 * percent;
    assert!(held <= limit, "{held} bytes are held, {limit} may be");
}

/// A connection of which little fits the socket.
async fn narrow(node: &TestNode) -> Client {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client = Client::over(socket.connect(node.address()).await.unwrap());
    client.send(proxied(ATTACKER)).await;
    client
}

/// An HTTP/2 connection of which streams have this window.
async fn frames(node: &TestNode, window_bytes: u32) -> Frames {
    Frames::connect_as(node, &proxied(ATTACKER), window_bytes).await
}

#[test]
fn shut_windows_over_many_objects_neither_evict_what_is_hot_nor_stop_anybody() {
    run(async {
        let origin = catalogue();
        let node = start(&origin, "32MiB", "");
        for _ in 0..3 {
            hot(&node, true).await;
        }
        let mut readers = Vec::new();
        for connection in 0..3_u64 {
            let mut reader = frames(&node, 100).await;
            let mut bodies: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
            for index in 0..20_u64 {
                let target = format!("/cold/{}", connection * 20 + index);
                reader.get(1 + 2 * index as u32, &target, "u=3").await;
                let first = soon(reader.next_of(DATA)).await;
                bodies.insert(first.stream, first.payload);
            }
            readers.push((reader, bodies));
        }
        soon(until(|| origin.count() as u64 >= HOT + 60)).await;
        soon(until(|| node.count("readers_loosened") >= 20)).await;
        soon(hot(&node, false)).await;
        // And a miss finds room.
        for seed in 100..110 {
            let answer = soon(get(&node, &format!("/cold/{seed}"))).await;
            assert!(answer.body == pattern(seed, 0..OBJECT_BYTES));
        }
        soon(hot(&node, false)).await;
        assert_bounded(&node, 24);
        // Who reads after all gets the right bytes, or is told that there are no more.
        for (connection, (mut reader, mut bodies)) in (0_u64..).zip(readers) {
            reader.widen(0, 1 << 30).await;
            for index in 0..20 {
                reader.widen(1 + 2 * index, 1 << 24).await;
            }
            let mut ended = 0;
            while ended < 20 {
                let frame = soon(reader.next()).await.expect("the connection goes on");
                match frame.kind {
                    DATA => {
                        let body = bodies.entry(frame.stream).or_default();
                        body.extend_from_slice(&frame.payload);
                        let seed = connection * 20 + u64::from(frame.stream / 2);
                        assert!(body.len() as u64 <= OBJECT_BYTES);
                        let from = body.len() - frame.payload.len();
                        let place = from as u64..body.len() as u64;
                        assert!(frame.payload == pattern(seed, place), "wrong bytes of {seed}");
                        if frame.ends() {
                            assert_eq!(body.len() as u64, OBJECT_BYTES);
                            ended += 1;
                        }
                    }
                    RST_STREAM => ended += 1,
                    _ => {}
                }
            }
        }
        until(|| node.node.shared.readers.stats().bytes == 0).await;
    });
}

#[test]
fn shut_windows_over_many_objects_of_a_disk_leave_memory_for_what_is_read() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = store_at(&folder.path().join("store"), "256MiB");
        let origin = catalogue();
        let node = start(&origin, "16MiB", &store);
        soon(hot(&node, true)).await;
        for seed in 0..60_u64 {
            let answer = soon(get(&node, &format!("/cold/{seed}"))).await;
            assert!(answer.body == pattern(seed, 0..OBJECT_BYTES));
            node.drain_disks();
        }
        let mut readers = Vec::new();
        for connection in 0..3_u64 {
            let mut reader = frames(&node, 1).await;
            for index in 0..20_u64 {
                let target = format!("/cold/{}", connection * 20 + index);
                reader.get(1 + 2 * index as u32, &target, "u=3").await;
                soon(reader.next_of(DATA)).await;
            }
            readers.push(reader);
        }
        soon(until(|| node.count("readers_loosened") >= 40)).await;
        for _ in 0..3 {
            soon(hot(&node, true)).await;
        }
        assert_bounded(&node, 24);
        assert!(node.count("disk_hits") > 60, "the disk was hardly asked");
    });
}

/// Reads what is left of an answer whose head came, and compares it.
async fn rest(client: &mut Client, seed: u64, bytes: u64) -> bool {
    let body = client.some(usize::try_from(bytes).unwrap()).await;
    assert!(body == pattern(seed, 0..body.len() as u64), "wrong bytes of {seed}");
    body.len() as u64 == bytes
}

#[test]
fn slow_readers_over_http_1_neither_evict_what_is_hot_nor_stop_anybody() {
    run(async {
        let origin = catalogue();
        let node = start(&origin, "64MiB", "");
        for _ in 0..3 {
            hot(&node, true).await;
        }
        let mut readers = Vec::new();
        for seed in 0..24_u64 {
            let mut reader = narrow(&node).await;
            reader.ask("GET", &format!("/large/{seed}"), &[]).await;
            assert_eq!(soon(reader.head()).await.unwrap().status(), 200);
            readers.push(reader);
        }
        // Those that find no room to be kept pass, with little ahead of their clients.
        soon(until(|| origin.count() as u64 >= HOT + 24)).await;
        soon(until(|| node.node.shared.readers.stats().bytes >= 6_000_000)).await;
        soon(hot(&node, false)).await;
        for seed in 100..110 {
            let answer = soon(get(&node, &format!("/cold/{seed}"))).await;
            assert!(answer.body == pattern(seed, 0..OBJECT_BYTES));
        }
        soon(hot(&node, false)).await;
        assert_bounded(&node, 12);
        let mut whole = 0;
        for (seed, mut reader) in (0..).zip(readers) {
            whole += usize::from(soon(rest(&mut reader, seed, 6_000_000)).await);
        }
        assert!(whole > 0, "nobody got anything");
        until(|| node.node.shared.readers.stats().bytes == 0).await;
    });
}

#[test]
fn slow_readers_of_what_is_not_kept_leave_memory_for_others() {
    run(async {
        let origin = catalogue();
        let node = start(&origin, "16MiB", "");
        let mut readers = Vec::new();
        for seed in 0..60_u64 {
            let mut reader = narrow(&node).await;
            reader.ask("GET", &format!("/private/{seed}"), &[]).await;
            readers.push(reader);
        }
        soon(until(|| node.count("passes") + node.count("misses") >= 60)).await;
        soon(until(|| node.count("readers_ended") > 0)).await;
        for seed in 100..105 {
            let answer = soon(get(&node, &format!("/private/{seed}"))).await;
            assert!(answer.complete && answer.body == pattern(seed, 0..6_000_000));
            let answer = soon(get(&node, &format!("/cold/{seed}"))).await;
            assert!(answer.body == pattern(seed, 0..OBJECT_BYTES));
        }
        assert_bounded(&node, 24);
        drop(readers);
        until(|| node.node.shared.readers.stats().bytes == 0).await;
    });
}

#[test]
fn a_reader_that_takes_a_little_now_and_then_is_cut_off() {
    run(async {
        let origin = catalogue();
        let limits = "[limits]\nsend_timeout = \"150ms\"\nsend_rate_min = \"100KB\"";
        let node = start(&origin, "256MiB", limits);
        assert_eq!(get(&node, "/cold/1").await.status, 200);
        let mut reader = frames(&node, 1).await;
        reader.get(1, "/cold/1", "u=3").await;
        assert_eq!(reader.next_of(DATA).await.payload.len(), 1);
        // A byte at a time is progress, which a limit on silence never ends.
        let drip = async {
            loop {
                reader.widen(1, 1).await;
                match reader.next().await.expect("the connection goes on").kind {
                    RST_STREAM => return,
                    _ => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        soon(drip).await;
        assert_eq!(node.count("readers_slow"), 1);
        // One that is only waited for now and then may be as slow.
        assert_eq!(get(&node, "/cold/1").await.body, pattern(1, 0..OBJECT_BYTES));
    });
}

#[test]
fn a_reader_over_its_share_goes_on_where_it_was() {
    run(async {
        let origin = catalogue();
        // Nothing is pressed for memory, so that all of it stays.
        let limits = "[limits]\nreaders_network_percent = 1";
        let node = start(&origin, "256MiB", limits);
        let mut readers = Vec::new();
        for seed in 0..8 {
            let mut reader = narrow(&node).await;
            reader.ask("GET", &format!("/large/{seed}"), &[]).await;
            let mut part = narrow(&node).await;
            let ranges = format!("Range: bytes={}-,0-99", 1_000_000 + seed);
            assert_eq!(get(&node, &format!("/large/{seed}")).await.status, 200);
            part.ask("GET", &format!("/large/{seed}"), &[&ranges]).await;
            readers.push((seed, reader, part));
        }
        soon(until(|| node.count("readers_loosened") >= 14)).await;
        for (seed, mut reader, mut part) in readers {
            assert_eq!(reader.head().await.unwrap().status(), 200);
            assert!(soon(rest(&mut reader, seed, 6_000_000)).await);
            let answer: Answer = soon(part.answer("GET")).await;
            assert!(answer.complete && answer.status == 206);
            let first = pattern(seed, 1_000_000 + seed..6_000_000);
            assert!(answer.body.windows(first.len()).any(|window| window == first));
        }
        assert_eq!((node.count("responses_aborted"), origin.count()), (0, 8));
    });
}

#[test]
fn what_is_evicted_under_a_reader_over_its_share_is_fetched_again() {
    run(async {
        let origin = catalogue();
        let node = start(&origin, "16MiB", "[limits]\nreaders_network_percent = 1");
        let mut readers = Vec::new();
        for seed in 0..4 {
            let target = format!("/tagged/{seed}");
            assert!(get(&node, &target).await.body == pattern(seed, 0..TAGGED_BYTES));
            let mut reader = frames(&node, 100).await;
            reader.get(1, &target, "u=3").await;
            readers.push((soon(reader.next_of(DATA)).await.payload, reader));
        }
        // The first thing of a network is as large as it likes.
        soon(until(|| node.count("readers_loosened") >= 3)).await;
        for seed in 0..40 {
            soon(get(&node, &format!("/cold/{seed}"))).await;
        }
        for (seed, (mut body, mut reader)) in (0..).zip(readers) {
            reader.widen(0, 1 << 30).await;
            reader.widen(1, 1 << 24).await;
            while (body.len() as u64) < TAGGED_BYTES {
                body.extend(soon(reader.next_of(DATA)).await.payload);
            }
            assert!(body == pattern(seed, 0..TAGGED_BYTES), "object {seed}");
        }
        assert!(node.count("fetches_range") > 0, "nothing was evicted");
        assert_eq!(node.count("responses_aborted"), 0);
    });
}

/// Asks for 250 objects of this kind, 100 at a time, and reads as fast as they come. All of them have to be
/// whole.
fn a_fast_client_gets_all_whole(kind: &str, objects: u64) {
    const AT_A_TIME: u32 = 100;
    const IN_ALL: u32 = 250;
    run(async {
        let origin = catalogue();
        let node = start(&origin, "64MiB", "");
        let mut reader = frames(&node, 64 << 10).await;
        let mut bodies: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let seed = |stream: u32| u64::from(stream / 2) % objects;
        let (mut asked, mut whole) = (0, 0);
        while whole < IN_ALL {
            while asked < IN_ALL && asked - whole < AT_A_TIME {
                let stream = 1 + 2 * asked;
                reader.get(stream, &format!("/{kind}/{}", seed(stream)), "u=3").await;
                asked += 1;
            }
            let frame = reader.next().await.expect("the connection goes on");
            let counts = ["readers_ended", "readers_loosened", "fetches_again", "timeouts"]
                .map(|name| (name, node.count(name)));
            let readers = node.node.shared.readers.stats();
            assert_ne!(
                frame.kind, RST_STREAM,
                "{} of {whole}: {counts:?}, {readers:?}",
                frame.stream
            );
            if frame.kind != DATA {
                continue;
            }
            let bytes = frame.payload.len() as u32;
            if bytes > 0 {
                reader.widen(0, bytes).await;
                reader.widen(frame.stream, bytes).await;
            }
            let body = bodies.entry(frame.stream).or_default();
            body.extend_from_slice(&frame.payload);
            if frame.ends() {
                let length = if kind == "tagged" { TAGGED_BYTES } else { OBJECT_BYTES };
                assert!(*body == pattern(seed(frame.stream), 0..length), "{}", frame.stream);
                bodies.remove(&frame.stream);
                whole += 1;
            }
        }
        assert_bounded(&node, 12);
        assert_eq!((node.count("responses_aborted"), node.count("readers_ended")), (0, 0));
    });
}

#[test]
fn a_fast_client_gets_many_objects_without_a_validator_whole() {
    a_fast_client_gets_all_whole("cold", 100);
}

#[test]
fn a_fast_client_gets_many_objects_with_a_validator_whole() {
    a_fast_client_gets_all_whole("tagged", 100);
}

#[test]
fn a_fast_client_gets_many_responses_that_are_not_kept_whole() {
    a_fast_client_gets_all_whole("own", 100);
}

#[test]
fn what_is_evicted_before_it_has_begun_comes_anew_where_it_is_the_same() {
    run(async {
        let asked_times = AtomicU32::new(0);
        let origin = Origin::serve(move |asked| {
            let (kind, seed) = asked.target()[1..].split_once('/').unwrap();
            let body = pattern(seed.parse().unwrap(), 0..OBJECT_BYTES);
            // Of the latter whoever asks again gets another one.
            let second = if kind == "other" { asked_times.fetch_add(1, Relaxed) } else { 0 };
            let modified = format!("Last-Modified: Sun, 01 Mar 2026 00:00:{second:02} GMT");
            response("200 OK", &["Cache-Control: max-age=3600", &modified], body)
        });
        let node = start(&origin, "16MiB", "[limits]\nreaders_network_percent = 1");
        let mut readers = Vec::new();
        for seed in 0..6_u64 {
            let target = format!("/{}/{seed}", if seed % 2 == 0 { "same" } else { "other" });
            assert!(get(&node, &target).await.body == pattern(seed, 0..OBJECT_BYTES));
            // Nothing of its body may come.
            let mut reader = frames(&node, 0).await;
            reader.get(1, &target, "u=3").await;
            assert_eq!(soon(reader.next_of(HEADERS)).await.status, "200");
            readers.push(reader);
        }
        // The first thing of a network is as large as it likes.
        soon(until(|| node.count("readers_loosened") >= 5)).await;
        for seed in 100..140 {
            soon(get(&node, &format!("/same/{seed}"))).await;
        }
        for (seed, mut reader) in (0..).zip(readers).skip(1) {
            reader.widen(0, 1 << 30).await;
            reader.widen(1, 1 << 24).await;
            if seed % 2 == 1 {
                soon(reader.next_of(RST_STREAM)).await;
                continue;
            }
            let mut body = Vec::new();
            while (body.len() as u64) < OBJECT_BYTES {
                body.extend(soon(reader.next_of(DATA)).await.payload);
            }
            assert!(body == pattern(seed, 0..OBJECT_BYTES), "object {seed}");
        }
        assert_eq!(node.count("fetches_again"), 5);
    });
}

/// A chunked response of the pattern of `seed`.
fn chunked(seed: u64, bytes: u64) -> Vec<u8> {
    let fields = ["Cache-Control: max-age=3600", "Transfer-Encoding: chunked"];
    let mut out = head("200 OK", &fields, None);
    out.extend_from_slice(format!("{bytes:x}\r\n").as_bytes());
    out.extend_from_slice(&pattern(seed, 0..bytes));
    out.extend_from_slice(b"\r\n0\r\n\r\n");
    out
}

#[test]
fn a_chunked_body_that_is_filled_goes_on_for_a_reader_over_its_share() {
    run(async {
        let origin =
            Origin::serve(|asked| chunked(asked.target()[1..].parse().unwrap(), 6_000_000));
        let limits = "[limits]\nreaders_network_percent = 1\nreaders_percent = 1";
        let node = start(&origin, "64MiB", limits);
        let mut readers = Vec::new();
        for seed in 0..3 {
            let mut reader = narrow(&node).await;
            reader.ask("GET", &format!("/{seed}"), &[]).await;
            readers.push(reader);
        }
        soon(until(|| node.count("readers_loosened") >= 2)).await;
        for (seed, mut reader) in (0..).zip(readers) {
            let answer = soon(reader.answer("GET")).await;
            assert!(answer.complete && answer.body == pattern(seed, 0..6_000_000));
        }
    });
}

#[test]
fn what_readers_may_keep_is_a_share_of_the_memory_of_all_groups() {
    run(async {
        let origin = catalogue();
        // Of one group's memory it is less than what is read, which cannot be fetched again from the middle.
        let setup = Setup { memory: "96MiB", workers: 3, groups: 3, ..Setup::of(&origin) };
        let node = setup.behind_proxy().and("[limits]\nreaders_percent = 15").start();
        let mut reader = narrow(&node).await;
        reader.ask("GET", "/large/1", &[]).await;
        soon(until(|| node.node.shared.readers.stats().bytes >= 6_000_000)).await;
        let mut operator = Client::to(&node).await;
        operator.send(proxied("127.0.0.1")).await;
        assert_eq!(operator.request("PURGE", "/large/1", &[]).await.status, 200);
        assert!(soon(reader.answer("GET")).await.body == pattern(1, 0..6_000_000));
        assert_eq!(node.count("readers_loosened"), 0);
        assert_bounded(&node, 15);
    });
}
