//! The limit on memory, with more offered than fits.

use crate::client::{Client, get};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, fresh, head};
use std::cell::Cell;
use std::rc::Rc;
use tokio::task::spawn_local;

/// Reads one response to its end, compares it with its pattern and looks at memory all the while.
async fn read(client: &mut Client, node: &TestNode, seed: u64, bytes: u64) {
    client.ask("GET", &format!("/{seed}"), &[]).await;
    assert_eq!(client.head().await.unwrap().status(), 200);
    let mut at = 0;
    while at < bytes {
        let end = bytes.min(at + 65_536);
        let wanted = pattern(seed, at..end);
        assert!(client.some(wanted.len()).await == wanted, "object {seed} at {at}");
        let (used, limit) = node.memory();
        assert!(used <= limit, "{used} of {limit}");
        at = end;
    }
}

fn sized(seed: u64) -> u64 {
    [1_000_000, 300, 40_000, 2_500_000][(seed % 4) as usize] + seed
}

fn catalogue() -> Origin {
    Origin::serve(|asked| {
        let seed = asked.target()[1..].parse().unwrap();
        fresh(pattern(seed, 0..sized(seed)))
    })
}

#[test]
fn three_hundred_megabytes_go_through_thirty_two() {
    run(async {
        let origin = catalogue();
        let node = Rc::new(Setup { memory: "32MiB", ..Setup::of(&origin) }.start());
        let next = Rc::new(Cell::new(0_u64));
        let mut clients = Vec::new();
        for _ in 0..16 {
            let (node, next) = (Rc::clone(&node), Rc::clone(&next));
            clients.push(spawn_local(async move {
                let mut client = Client::to(&node).await;
                while next.get() < 340 {
                    let seed = next.replace(next.get() + 1);
                    read(&mut client, &node, seed, sized(seed)).await;
                    // And one that may still be there.
                    let recent = seed.saturating_sub(3);
                    read(&mut client, &node, recent, sized(recent)).await;
                }
            }));
        }
        for client in clients {
            client.await.unwrap();
        }
        let stats = node.node.shared.cache.stats();
        assert!(stats.objects > 0);
        assert!(node.count("origin_body_bytes") >= 300_000_000);
        assert_eq!(node.count("responses_aborted"), 0);
    });
}

#[test]
fn an_object_larger_than_memory_streams_through() {
    run(async {
        const BYTES: u64 = 60_000_000;
        let origin = Origin::serve(|_| fresh(pattern(7, 0..BYTES)));
        let node = Setup { memory: "16MiB", ..Setup::of(&origin) }.start();
        let mut client = Client::to(&node).await;
        read(&mut client, &node, 7, BYTES).await;
        assert_eq!(node.objects(), 0);
        // The next one fetches again, and nothing waits for anything.
        let mut other = Client::to(&node).await;
        tokio::join!(read(&mut client, &node, 7, BYTES), read(&mut other, &node, 7, BYTES));
        assert_eq!(origin.count(), 3);
    });
}

/// A chunked response of the pattern of `seed`.
pub(crate) fn chunked(seed: u64, bytes: u64) -> Vec<u8> {
    let fields = ["Cache-Control: max-age=3600", "Transfer-Encoding: chunked"];
    let mut out = head("200 OK", &fields, None);
    let mut at = 0;
    while at < bytes {
        let end = bytes.min(at + 100_000);
        out.extend_from_slice(format!("{:x}\r\n", end - at).as_bytes());
        out.extend_from_slice(&pattern(seed, at..end));
        out.extend_from_slice(b"\r\n");
        at = end;
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

#[test]
fn a_chunked_body_that_grows_over_the_limit_of_an_object_is_not_kept() {
    run(async {
        let origin = Origin::serve(|_| chunked(5, 5_000_000));
        let node = Setup::of(&origin).and("[cache]\nobject_bytes_max = \"1MB\"").start();
        let answer = get(&node, "/5").await;
        assert!(answer.complete && answer.body == pattern(5, 0..5_000_000));
        until(|| node.objects() == 0).await;
        let used = node.node.shared.cache.memory().used_bytes;
        assert!(used < 1_000_000, "{used} bytes are kept");
        assert!(get(&node, "/5").await.body == pattern(5, 0..5_000_000));
        assert_eq!(origin.count(), 2);
    });
}

#[test]
fn a_chunked_body_larger_than_memory_streams_through() {
    run(async {
        let origin = Origin::serve(|_| chunked(5, 40_000_000));
        let node = Setup { memory: "16MiB", ..Setup::of(&origin) }.start();
        for _ in 0..2 {
            let answer = get(&node, "/5").await;
            assert!(answer.complete && answer.body == pattern(5, 0..40_000_000));
        }
        let (used, limit) = node.memory();
        assert!(used <= limit);
    });
}

#[test]
fn a_slow_reader_of_a_passed_body_holds_back_the_origin_and_not_memory() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup { memory: "16MiB", ..Setup::of(&origin) }.start();
        let mut slow = Client::to(&node).await;
        slow.ask("GET", "/slow", &[]).await;
        let asked = origin.next().await;
        asked.send(head("200 OK", &["Cache-Control: no-store"], Some(100_000_000)));
        asked.send(pattern(1, 0..100_000_000));
        slow.head().await.unwrap();
        // Others go on with what memory there is.
        for index in 0..20_u64 {
            let mut client = Client::to(&node).await;
            client.ask("GET", &format!("/{index}"), &[]).await;
            origin.next().await.send(fresh(pattern(index, 0..900_000)));
            assert!(client.answer("GET").await.body == pattern(index, 0..900_000));
        }
        let used = node.node.shared.cache.memory().used_bytes;
        assert!(used < 16 << 20);
        let mut at = 0;
        while at < 100_000_000 {
            let wanted = pattern(1, at..at + 500_000);
            assert!(slow.some(500_000).await == wanted, "{at}");
            at += 500_000;
        }
    });
}

#[test]
fn what_is_used_stays_while_other_things_pass_through() {
    run(async {
        let origin =
            Origin::serve(|asked| fresh(pattern(1, 0..asked.target().len() as u64 + 200_000)));
        let node = Setup { memory: "32MiB", ..Setup::of(&origin) }.start();
        let mut client = Client::to(&node).await;
        for _ in 0..4 {
            assert_eq!(client.get("/popular").await.status, 200);
        }
        for index in 0..400 {
            client.get(&format!("/once/{index}")).await;
            if index % 20 == 0 {
                client.get("/popular").await;
            }
        }
        let popular = origin.requests().iter().filter(|one| one.target() == "/popular").count();
        assert_eq!(popular, 1);
    });
}

const HOT: u64 = 6;
const HOT_BYTES: u64 = 500_000;

/// What is hot is answered without its origin.
async fn hot(node: &TestNode, origin: &mut Origin) {
    for seed in 0..HOT {
        let target = format!("/hot/{seed}");
        tokio::select! {
            answer = get(node, &target) => assert_eq!(answer.body.len() as u64, HOT_BYTES),
            asked = origin.next() => panic!("{} was evicted", asked.request.target()),
        }
    }
}

#[test]
fn fills_under_way_of_more_than_memory_leave_what_is_hot_and_get_through() {
    const BYTES: u64 = 1_000_000;
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup { memory: "32MiB", ..Setup::of(&origin) }.start();
        for seed in 0..HOT {
            let mut client = Client::to(&node).await;
            client.ask("GET", &format!("/hot/{seed}"), &[]).await;
            origin.next().await.send(fresh(pattern(seed, 0..HOT_BYTES)));
            assert!(client.answer("GET").await.body == pattern(seed, 0..HOT_BYTES));
            for _ in 0..3 {
                assert_eq!(client.get(&format!("/hot/{seed}")).await.status, 200);
            }
        }
        // All of them are under way at once, each with its first byte there.
        let mut fills = Vec::new();
        for seed in 100..160 {
            let mut client = Client::to(&node).await;
            client.ask("GET", &format!("/cold/{seed}"), &[]).await;
            let asked = origin.next().await;
            asked.send(head("200 OK", &["Cache-Control: max-age=3600"], Some(BYTES)));
            asked.send(pattern(seed, 0..1000));
            assert_eq!(client.head().await.unwrap().status(), 200);
            assert!(client.some(1000).await == pattern(seed, 0..1000));
            fills.push((seed, client, asked));
        }
        hot(&node, &mut origin).await;
        let stats = node.node.shared.cache.memory();
        assert!(stats.filling_bytes <= stats.limit_bytes / 40 * 9, "{stats:?}");
        assert!(stats.fills_refused >= 40, "{stats:?}");
        for (seed, mut client, asked) in fills {
            asked.send(pattern(seed, 1000..BYTES));
            assert!(client.some(999_000).await == pattern(seed, 1000..BYTES), "object {seed}");
        }
        until(|| node.node.shared.cache.memory().filling_bytes == 0).await;
        // What found room was kept.
        assert!(node.objects() >= HOT + 4);
        hot(&node, &mut origin).await;
    });
}

#[test]
fn clients_that_do_not_read_do_not_starve_one_that_does() {
    run(async {
        const BYTES: u64 = 16_000_000;
        let origin = Origin::serve(|_| {
            let mut out = head("200 OK", &["Cache-Control: no-store"], Some(BYTES));
            out.extend_from_slice(&pattern(1, 0..BYTES));
            out
        });
        // All are of one network.
        let node = Setup { memory: "16MiB", ..Setup::of(&origin) }.start();
        let mut silent = Vec::new();
        for index in 0..20 {
            let mut client = Client::to(&node).await;
            client.ask("GET", &format!("/silent/{index}"), &[]).await;
            assert_eq!(client.head().await.unwrap().status(), 200);
            silent.push(client);
        }
        // One that reads goes through although the others hold what they may.
        read(&mut Client::to(&node).await, &node, 1, BYTES).await;
        assert_eq!(node.count("timeouts"), 0);
        drop(silent);
    });
}
