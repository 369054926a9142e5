//! Content on a disk, with little memory before it.

use crate::client::{Answer, Client, get, get_with};
use crate::harness::{Setup, TestNode, pattern, run, run_within, store_at, until};
use crate::memory::chunked;
use crate::origin::{Origin, Request, fresh, head, ranged, response};
use freshet_cache::{Cache, Object};
use freshet_store::Standing;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use tokio::task::spawn_local;
use tokio::time::{Duration, sleep};

const OBJECTS: u64 = 40;

/// Lengths of objects: together some times what memory is there.
fn sized(seed: u64) -> u64 {
    [300_000, 900_000, 1_500_000, 3_000_000][(seed % 4) as usize] + seed
}

/// Every other object has a validator by which an origin can continue it.
fn catalogue() -> Origin {
    Origin::serve(|asked| {
        let seed = asked.target()[1..].parse().unwrap();
        let whole = pattern(seed, 0..sized(seed));
        match seed / 4 % 2 {
            0 => fresh(whole),
            _ => ranged(asked, &whole, &format!("\"{seed}\""), &["Cache-Control: max-age=3600"]),
        }
    })
}

fn written(node: &TestNode) -> u64 {
    let disks = node.node.shared.disks.clone().unwrap();
    let volumes = disks.disks().iter().filter_map(|disk| disk.volume());
    volumes.map(|volume| volume.counts().objects_written.value()).sum()
}

/// Reads an object, or a part of it, as slowly as `pause` says, and compares every byte.
async fn read(client: &mut Client, seed: u64, part: Option<(u64, u64)>, pause: Option<Duration>) {
    let (first, end) = part.unwrap_or_else(|| (0, sized(seed)));
    let range = format!("Range: bytes={first}-{}", end - 1);
    let fields: &[&str] = if part.is_some() { &[&range] } else { &[] };
    client.ask("GET", &format!("/{seed}"), fields).await;
    let head = client.head().await.unwrap();
    assert_eq!(head.status(), if part.is_some() { 206 } else { 200 }, "{head:?}");
    let mut at = first;
    while at < end {
        let next = end.min(at + 65_536);
        let wanted = pattern(seed, at..next);
        assert!(client.some(wanted.len()).await == wanted, "object {seed} at {at} of {end}");
        if let Some(pause) = pause {
            sleep(pause).await;
        }
        at = next;
    }
}

#[test]
fn little_memory_before_a_disk_slows_readers_and_fails_none() {
    // Slow where the machine is busy: it is to have the time.
    run_within(Duration::from_secs(180), async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = store_at(&path, "256MiB");
        let origin = catalogue();
        let setup = Setup { memory: "16MiB", ..Setup::of(&origin).and(&store) };
        let node = Rc::new(setup.start());
        let mut client = Client::to(&node).await;
        // More than once: a disk that cannot keep up leaves out what little memory has no room for.
        for seed in (0..OBJECTS).cycle() {
            if written(&node) >= OBJECTS {
                break;
            }
            read(&mut client, seed, None, None).await;
        }
        let next = Rc::new(Cell::new(0_u64));
        let mut clients = Vec::new();
        for number in 0..40_u64 {
            let (node, next) = (Rc::clone(&node), Rc::clone(&next));
            clients.push(spawn_local(async move {
                let mut client = Client::to(&node).await;
                // Some take their time, and so hold what others wait for.
                let pause = (number % 4 == 0).then_some(Duration::from_millis(3));
                while next.get() < 240 {
                    let turn = next.replace(next.get() + 1);
                    let seed = turn * 7 % OBJECTS;
                    let first = turn * 61_803 % sized(seed);
                    let end = (first + 1 + turn * 7_919 % 1_000_000).min(sized(seed));
                    let part = (turn % 3 == 0).then_some((first, end));
                    read(&mut client, seed, part, pause).await;
                }
            }));
        }
        for client in clients {
            client.await.unwrap();
        }
        assert_eq!(node.count("responses_aborted"), 0);
        assert!(node.count("disk_hits") > 20, "the disk was hardly asked");
        let (used, limit) = node.memory();
        assert!(used <= limit, "{used} of {limit}");
    });
}

#[test]
fn a_wrong_drive_among_others_stops_nothing_and_is_left_as_it_is() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let foreign: Vec<u8> = pattern(7, 0..32 << 20);
        std::fs::write(place("foreign"), &foreign).unwrap();
        let origin = Origin::serve(|_| fresh(pattern(1, 0..50_000)));
        let table = |name: &str| {
            format!("[[store]]\npath = \"{}\"\nsize = \"32MiB\"\n", place(name).display())
        };
        // One of another set, which two are not of.
        Setup::of(&origin).and(&table("other")).start();
        Setup::of(&origin).and(&table("one")).and(&table("two")).start();
        let all = ["other", "one", "foreign", "two"];
        let setup = all.iter().fold(Setup::of(&origin), |setup, name| setup.and(&table(name)));
        let node = setup.start();
        for number in 0..20 {
            let path = format!("/{number}");
            assert_eq!(Client::to(&node).await.get(&path).await.body.len(), 50_000);
        }
        until(|| written(&node) == 20).await;
        let disks = node.node.shared.disks.clone().unwrap();
        let healths: Vec<_> = disks.disks().iter().map(|disk| disk.health().word()).collect();
        assert_eq!(healths, ["offline", "healthy", "offline", "healthy"]);
        assert!(std::fs::read(place("foreign")).unwrap() == foreign);
    });
}

#[test]
fn a_store_whose_folder_is_away_stops_nothing_and_comes_back_with_it() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let table = |name: &str| {
            format!("[[store]]\npath = \"{}\"\nsize = \"32MiB\"\n", place(name).display())
        };
        std::fs::create_dir(place("mount")).unwrap();
        let origin = Origin::serve(|_| fresh(pattern(1, 0..50_000)));
        let setup = Setup::of(&origin).and(&table("one")).and(&table("mount/two"));
        let healths = |node: &TestNode| {
            let disks = node.node.shared.disks.clone().unwrap();
            disks.disks().iter().map(|disk| disk.health().word()).collect::<Vec<_>>()
        };
        let ask_all = async |node: &TestNode| {
            for number in 0..20 {
                assert_eq!(get(node, &format!("/{number}")).await.body.len(), 50_000);
            }
        };
        let node = setup.start();
        ask_all(&node).await;
        until(|| written(&node) == 20).await;
        drop(node);
        // As a folder of a file system that is not mounted.
        std::fs::rename(place("mount"), place("elsewhere")).unwrap();
        let node = setup.start();
        assert_eq!(healths(&node), ["healthy", "offline"]);
        std::fs::rename(place("elsewhere"), place("mount")).unwrap();
        until(|| healths(&node) == ["healthy", "healthy"]).await;
        ask_all(&node).await;
        assert_eq!(origin.count(), 20);
    });
}

#[test]
fn what_is_doubted_on_a_disk_is_validated_once_however_often_the_node_restarts() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = store_at(&path, "32MiB");
        let origin = Origin::serve(|asked| {
            let fields = ["ETag: \"1\"", "Cache-Control: max-age=3600"];
            match asked.field("if-none-match") {
                Some("\"1\"") => head("304 Same", &fields, None),
                _ => response("200 OK", &fields, pattern(1, 0..50_000)),
            }
        });
        let ask = async |node: &TestNode| get(node, "/a").await.cache().to_owned();
        let node = Setup::of(&origin).and(&store).start();
        assert!(ask(&node).await.contains("stored"));
        node.drain_disks();
        let doubted_below = {
            let shared = &node.node.shared;
            shared.cache.fence(shared.doubt_stored());
            shared.disks_doubted_below.load(SeqCst)
        };
        drop(node);
        // Another process: what the one before has doubted is no better known.
        for is_validated in [false, true] {
            let node = Setup::of(&origin).and(&store).start();
            let shared = &node.node.shared;
            shared.disks_doubted_below.store(doubted_below, SeqCst);
            shared.cache.fence(Cache::DOUBTED_BELOW);
            let said = ask(&node).await;
            assert_eq!(said.contains("fwd=stale"), !is_validated, "{said}");
            assert!(ask(&node).await.contains("; hit"));
            assert_eq!(node.count("disk_hits"), 1);
            node.drain_disks();
        }
        assert_eq!(origin.count(), 2);
    });
}

#[test]
fn what_a_disk_has_is_validated_as_well_while_the_fence_holds_for_everything() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = store_at(&path, "32MiB");
        let origin = Origin::serve(|_| fresh(pattern(1, 0..50_000)));
        let node = Setup::of(&origin).and(&store).start();
        assert!(get(&node, "/a").await.cache().contains("stored"));
        node.drain_disks();
        drop(node);
        let node = Setup::of(&origin).and(&store).start();
        node.node.shared.cache.fence(u64::MAX);
        let answer = get(&node, "/a").await;
        assert!(answer.cache().contains("fwd=stale"), "{}", answer.cache());
        assert_eq!((node.count("disk_hits"), origin.count()), (1, 2));
    });
}

/// Lengths of the objects of `/hot/`: short ones, and ones of several records.
fn hot_bytes(seed: u64) -> u64 {
    seed + if seed.is_multiple_of(5) { 1_500_000 } else { 30_000 }
}

/// A disk of 48 MiB behind memory that has room for all there is.
fn wrapped(path: &std::path::Path, keeps: bool, origin: &Origin) -> Setup {
    let store = format!(
        "[[store]]\npath = \"{}\"\nsize = \"48MiB\"\nkeep_used = {keeps}\ndrive_writes = \"1000\"\n",
        path.display()
    );
    Setup { memory: "256MiB", ..Setup::of(origin).and(&store) }
}

#[test]
fn what_memory_serves_is_on_the_disk_however_often_the_log_wraps() {
    const HOT: u64 = 30;
    for keeps in [false, true] {
        run_within(Duration::from_secs(300), async {
            let folder = tempfile::tempdir().unwrap();
            let origin = Origin::serve(|asked| {
                let (kind, seed) = asked.target()[1..].split_once('/').unwrap();
                let seed: u64 = seed.parse().unwrap();
                fresh(pattern(seed, 0..if kind == "hot" { hot_bytes(seed) } else { 400_000 }))
            });
            let path = folder.path().join("store");
            let node = wrapped(&path, keeps, &origin).start();
            let mut client = Client::to(&node).await;
            for seed in 0..400 {
                // Often enough to be written where what is stored has to go for it.
                for _ in 0..3 {
                    assert_eq!(client.get(&format!("/cold/{seed}")).await.body.len(), 400_000);
                }
                if u64::is_multiple_of(seed, 20) {
                    let before = node.count("disk_hits");
                    for seed in 0..HOT {
                        client.get(&format!("/hot/{seed}")).await;
                    }
                    assert_eq!(node.count("disk_hits"), before, "memory has what is used");
                    // So that the disk is never too busy to take what comes.
                    node.drain_disks();
                }
            }
            let disks = node.node.shared.disks.clone().unwrap();
            let volume = disks.disks()[0].volume().unwrap();
            let reclaimed = volume.counts().segments_reclaimed.value();
            assert!(reclaimed > volume.stats().segments.into(), "{reclaimed} segments");
            // What the last writes cost is written again at its next use, until there is nothing left to write.
            let mut before = None;
            while before.replace(written(&node)) != Some(written(&node)) {
                for seed in 0..HOT {
                    client.get(&format!("/hot/{seed}")).await;
                }
                node.drain_disks();
            }
            // As after `kill -9`: nothing is told that it ends.
            let copy = folder.path().join("copy");
            std::fs::copy(&path, &copy).unwrap();
            let again = wrapped(&copy, keeps, &origin).start();
            let mut hits = 0;
            for seed in 0..HOT {
                let answer = kept(&again, &format!("/hot/{seed}")).await;
                hits += u64::from(answer.status == 200);
                assert!(
                    answer.status == 504 || answer.body == pattern(seed, 0..hot_bytes(seed)),
                    "{seed}"
                );
            }
            assert!(hits >= HOT - 1, "{hits} of {HOT} were on the disk");
        });
    }
}

/// A disk of 48 MiB of which two thirds may be written over at once after the first filling, the last fifth of
/// that for what is worth most.
fn worn(path: &std::path::Path, origin: &Origin) -> Setup {
    let store = format!(
        "[[store]]\npath = \"{}\"\nsize = \"48MiB\"\nkeep_used = false\ndrive_writes = \"5\"\n",
        path.display()
    );
    Setup { memory: "256MiB", ..Setup::of(origin).and(&store) }
}

#[test]
fn what_is_used_most_is_on_the_disk_though_others_use_the_write_budget_up() {
    const HOT: u64 = 50;
    run_within(Duration::from_secs(300), async {
        let folder = tempfile::tempdir().unwrap();
        let origin = Origin::serve(|asked| {
            let (kind, seed) = asked.target()[1..].split_once('/').unwrap();
            let bytes = if kind == "hot" { 30_000 } else { 400_000 };
            fresh(pattern(seed.parse().unwrap(), 0..bytes))
        });
        let path = folder.path().join("store");
        let node = worn(&path, &origin).start();
        let mut client = Client::to(&node).await;
        for _ in 0..3 {
            for seed in 0..HOT {
                client.get(&format!("/hot/{seed}")).await;
            }
        }
        node.drain_disks();
        let disks = node.node.shared.disks.clone().unwrap();
        let refused = || disks.disks()[0].counts.refused_budget.value();
        // Until no more is taken of what is used as well, which is long after the log went round.
        for seed in 0.. {
            for _ in 0..3 {
                assert_eq!(client.get(&format!("/cold/{seed}")).await.body.len(), 400_000);
            }
            node.drain_disks();
            if refused() > 50 {
                break;
            }
        }
        for seed in 0..HOT {
            client.get(&format!("/hot/{seed}")).await;
        }
        node.drain_disks();
        // As after `kill -9`: nothing is told that it ends.
        let copy = folder.path().join("copy");
        std::fs::copy(&path, &copy).unwrap();
        let again = worn(&copy, &origin).start();
        for seed in 0..HOT {
            assert_eq!(kept(&again, &format!("/hot/{seed}")).await.status, 200, "{seed}");
        }
    });
}

/// Of these the kinds that follow from the hashes of `mobile` and `tablet` are the same.
#[test]
fn variants_of_one_resource_are_on_the_disk_beside_one_another() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let origin = Origin::serve(|asked| {
            let device = asked.field("x-device").unwrap_or("none").to_owned();
            response("200 OK", &["Cache-Control: max-age=3600", "Vary: X-Device"], device)
        });
        let path = folder.path().join("store");
        let node = wrapped(&path, true, &origin).start();
        let devices = ["mobile", "tablet", "desktop", "tv"];
        for device in devices {
            get_with(&node, "/a", &[&format!("X-Device: {device}")]).await;
            node.drain_disks();
        }
        let copy = folder.path().join("copy");
        std::fs::copy(&path, &copy).unwrap();
        let again = wrapped(&copy, true, &origin).start();
        let before = origin.count();
        for device in devices {
            let answer = get_with(&again, "/a", &[&format!("X-Device: {device}")]).await;
            assert_eq!((answer.status, answer.body), (200, device.into()));
        }
        assert_eq!(origin.count(), before, "all of them were on the disk");
    });
}

/// An object that is stale when it comes, and good for an hour more when the origin is asked for it.
fn validated() -> Origin {
    let hour = "Cache-Control: max-age=3600";
    Origin::serve(move |asked| match asked.field("if-none-match") {
        None => response(
            "200 OK",
            &["ETag: \"1\"", "Age: 4000", "X-Words: old", hour],
            "x".repeat(5000),
        ),
        Some(_) => head("304 Not Modified", &["ETag: \"1\"", "X-Words: new", hour], None),
    })
}

/// What a node has of a target without its origin. A disk that is late, as on a busy machine, is passed
/// over and asked again.
async fn kept(node: &TestNode, target: &str) -> Answer {
    let disks = node.node.shared.disks.clone().unwrap();
    let late = || -> u64 {
        let volumes = disks.disks().iter().filter_map(|disk| disk.volume());
        volumes
            .map(|volume| volume.counts().timeouts.value() + volume.counts().hedges.value())
            .sum()
    };
    loop {
        let before = late();
        let answer = get_with(node, target, &["Cache-Control: only-if-cached"]).await;
        if answer.status != 504 || late() == before {
            return answer;
        }
    }
}

#[test]
fn what_a_validation_said_outlives_the_process() {
    for is_in_memory in [true, false] {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let origin = validated();
            let at = |name: &str| {
                let path = folder.path().join(name);
                let store = store_at(&path, "48MiB");
                (path, Setup::of(&origin).and(&store))
            };
            let (path, setup) = at("store");
            let mut node = setup.start();
            let answer = get(&node, "/a").await;
            assert_eq!(answer.field("x-words"), Some("old"));
            until(|| written(&node) == 1).await;
            if !is_in_memory {
                drop(node);
                node = setup.start();
                // It is stale, but then no more only on a disk.
                assert_eq!(kept(&node, "/a").await.status, 504);
                assert_eq!(node.count("disk_hits"), 1);
            }
            let answer = get(&node, "/a").await;
            assert_eq!((answer.field("x-words"), answer.body.len()), (Some("new"), 5000));
            assert_eq!((node.count("revalidated"), origin.count()), (1, 2));
            node.drain_disks();
            // As after `kill -9`: nothing is told that it ends. Then in order.
            let (copy, after_kill) = at("copy");
            std::fs::copy(&path, &copy).unwrap();
            drop(node);
            for setup in [after_kill, setup] {
                let again = setup.start();
                let answer = kept(&again, "/a").await;
                assert!(answer.cache().contains("; hit; ttl=3"), "{}", answer.cache());
                assert_eq!((answer.field("x-words"), answer.body.len()), (Some("new"), 5000));
                assert_eq!((again.count("disk_hits"), origin.count()), (1, 2));
            }
        });
    }
}

/// A node with a disk that has what the first answer was, `"old"`, which is stale and served for its grace.
async fn stale_on_a_disk(setup: &Setup) -> TestNode {
    let node = setup.start();
    assert_eq!(get(&node, "/a").await.text(), "old");
    until(|| written(&node) == 1).await;
    node
}

/// An origin whose first answer is stale when it comes, and kept by disks; `then` gives the others.
fn replaced(then: fn(&Request) -> Vec<u8>) -> Origin {
    let is_first = AtomicBool::new(true);
    Origin::serve(move |asked| {
        if !is_first.swap(false, SeqCst) {
            return then(asked);
        }
        let control = "Cache-Control: max-age=3600, stale-while-revalidate=3600";
        response("200 OK", &["ETag: \"1\"", "Age: 4000", control], "old")
    })
}

#[test]
fn what_is_over_does_not_come_back_from_a_disk() {
    type Then = fn(&Request) -> Vec<u8>;
    let private: Then = |_| response("200 OK", &["Cache-Control: private"], "new");
    let refused: Then = |asked| match asked.field("if-none-match") {
        Some(_) => head("304 Same", &["ETag: \"1\"", "Cache-Control: no-store"], None),
        None => response("200 OK", &["Cache-Control: no-store"], "new"),
    };
    // It leaves memory before it is asked for again.
    let shortly: Then = |_| response("200 OK", &["Cache-Control: max-age=1"], "new");
    let varies: Then = |_| {
        let fields = ["Vary: Accept-Language", "Cache-Control: max-age=3600"];
        response("200 OK", &fields, "new")
    };
    for (what, then) in
        [("private", private), ("304", refused), ("short", shortly), ("varies", varies)]
    {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let store = store_at(&path, "48MiB");
            let origin = replaced(then);
            let setup = Setup::of(&origin).and(&store);
            let node = stale_on_a_disk(&setup).await;
            let language = ["Accept-Language: is"];
            assert_eq!(get_with(&node, "/a", &language).await.text(), "old");
            let shared = &node.node.shared;
            let key = shared.cache.key(crate::client::HOST, "/a");
            until(|| node.count("fetches") == 2 && shared.cache.peek(&key).fetches == 0).await;
            if what == "short" {
                shared.cache.peek(&key).variants.iter().for_each(|object| {
                    shared.cache.forget(object);
                });
            }
            for _ in 0..2 {
                let answer = get_with(&node, "/a", &["Accept-Language: da"]).await;
                assert_eq!(answer.text(), "new", "{what}: {}", answer.cache());
            }
            assert_eq!(node.count("disk_hits"), 0, "{what}");
        });
    }
}

#[test]
fn what_ends_while_it_is_written_is_not_found_by_the_next_process() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = folder.path().join(name);
            let store = store_at(&path, "48MiB");
            (path, store)
        };
        let (path, store) = at("store");
        let origin = replaced(|_| response("200 OK", &["Cache-Control: private"], "new"));
        let node = Setup::of(&origin).and(&store).start();
        assert_eq!(get(&node, "/a").await.text(), "old");
        let shared = Arc::clone(&node.node.shared);
        let key = shared.cache.key(crate::client::HOST, "/a");
        // Its disk has taken it, and does not find it yet: what comes is collected for a moment.
        let is_taken =
            |object: &Arc<Object>| matches!(object.body().standing(), Standing::Kept { .. });
        until(|| shared.cache.peek(&key).variants.iter().any(is_taken)).await;
        assert_eq!(get(&node, "/a").await.text(), "old");
        until(|| node.count("fetches") == 2 && shared.cache.peek(&key).fetches == 0).await;
        node.drain_disks();
        drop(shared);
        // As after `kill -9`, and in order.
        let (copy, after_kill) = at("copy");
        std::fs::copy(&path, &copy).unwrap();
        drop(node);
        for store in [after_kill, store] {
            let again = Setup::of(&origin).and(&store).start();
            assert_eq!(get(&again, "/a").await.text(), "new");
            assert_eq!(again.count("disk_hits"), 0);
        }
    });
}

#[test]
fn what_is_too_long_for_memory_is_kept_on_a_disk_and_told_so() {
    for bound in ["", "[cache]\nobject_bytes_max = \"500MB\"\n"] {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let store =
                format!("{bound}[[store]]\npath = \"{}\"\nsize = \"256MiB\"\n", path.display());
            let whole = pattern(1, 0..12_000_000);
            let origin = Origin::serve(move |_| fresh(&whole));
            let setup = Setup { memory: "16MiB", ..Setup::of(&origin).and(&store) };
            let node = setup.start();
            let answer = get(&node, "/a").await;
            assert!(answer.body == pattern(1, 0..12_000_000));
            assert!(answer.cache().ends_with("fwd=uri-miss; stored"), "{}", answer.cache());
            // A disk that cannot keep up leaves out what little memory has no room for.
            loop {
                let answer = get(&node, "/a").await;
                assert!(answer.body == pattern(1, 0..12_000_000));
                if answer.cache().contains("hit") {
                    break;
                }
            }
            let fetched = origin.count();
            assert!(get(&node, "/a").await.cache().contains("hit"));
            assert_eq!(origin.count(), fetched);
        });
    }
}

/// It is told as stored before anybody knows how long it is.
#[test]
fn what_turns_out_too_long_for_memory_is_kept_on_a_disk() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = store_at(&folder.path().join("store"), "256MiB");
        let origin = Origin::serve(|_| chunked(1, 3_000_000));
        let cache = format!("[cache]\nobject_bytes_max = \"1MiB\"\n{store}");
        let node = Setup::of(&origin).and(&cache).start();
        let answer = get(&node, "/a").await;
        assert!(answer.complete && answer.body == pattern(1, 0..3_000_000));
        assert!(answer.cache().ends_with("fwd=uri-miss; stored"), "{}", answer.cache());
        until(|| written(&node) == 1).await;
        node.drain_disks();
        let again = get(&node, "/a").await;
        assert!(again.cache().contains("hit"), "{}", again.cache());
        assert!(again.complete && again.body == pattern(1, 0..3_000_000));
        assert_eq!(origin.count(), 1);
    });
}

/// Fields behind a body are kept in memory only.
#[test]
fn what_has_trailers_and_turns_out_too_long_for_memory_is_on_no_disk() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store = store_at(&folder.path().join("store"), "256MiB");
        let origin = Origin::serve(|_| {
            let mut whole = chunked(1, 3_000_000);
            whole.truncate(whole.len() - 2);
            whole.extend(b"X-Sum: 1\r\n\r\n");
            whole
        });
        let cache = format!("[cache]\nobject_bytes_max = \"1MiB\"\n{store}");
        let node = Setup::of(&origin).and(&cache).start();
        for count in 1..=2 {
            let answer = get(&node, "/a").await;
            assert!(answer.complete && answer.body == pattern(1, 0..3_000_000));
            node.drain_disks();
            assert_eq!((written(&node), origin.count()), (0, count));
        }
    });
}
