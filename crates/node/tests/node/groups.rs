//! A node with several groups of workers, each with its own memory: what clients see is one node.

use crate::client::{Client, get_with, request};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, fresh, head, ranged, response};
use crate::vcl::governed_by;
use freshet_config::bans::BanSettings;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A node with two workers in two groups.
fn setup(origin: &Origin) -> Setup {
    Setup { groups: 2, ..Setup::of(origin) }
}

/// Which of these clients is served by which group.
async fn one_of_each(node: &TestNode, warm: &str) -> Vec<Client> {
    let mut clients: Vec<Option<Client>> = vec![None, None];
    while clients.iter().any(Option::is_none) {
        let before = requests(node);
        let mut client = Client::to(node).await;
        client.get(warm).await;
        let served = requests(node).iter().zip(&before).position(|(now, then)| now > then);
        let group = node.node.shared.layout.workers[served.unwrap()].group;
        clients[group] = Some(client);
    }
    clients.into_iter().flatten().collect()
}

fn requests(node: &TestNode) -> Vec<u64> {
    node.node.shared.stats.iter().map(|stats| stats.requests.value()).collect()
}

/// A target that is at home in this group.
fn homed_in(node: &TestNode, group: usize) -> String {
    let cache = &node.node.shared.cache;
    let is_homed =
        |target: &String| cache.home_of(&cache.key(crate::client::HOST, target)) == group;
    (0..).map(|number| format!("/{number}")).find(is_homed).unwrap()
}

/// An origin that numbers its answers.
fn numbering() -> Origin {
    let count = AtomicU64::new(0);
    Origin::serve(move |_| fresh(count.fetch_add(1, SeqCst).to_string()))
}

#[test]
fn a_crowd_over_all_groups_is_one_request_to_the_origin() {
    run(async {
        let mut origin = Origin::scripted();
        let node = setup(&origin).start();
        let mut clients = Vec::new();
        for _ in 0..60 {
            let mut client = Client::to(&node).await;
            client.ask("GET", "/a", &[]).await;
            clients.push(client);
        }
        let asked = origin.next().await;
        node.counted("waits", 59).await;
        assert!(requests(&node).iter().all(|count| *count > 0), "{:?}", requests(&node));
        let whole = pattern(1, 0..300_000);
        asked.send(head("200 OK", &["Cache-Control: max-age=60"], Some(300_000)));
        asked.send(whole.clone());
        for client in &mut clients {
            assert!(client.answer("GET").await.body == whole);
        }
        assert_eq!((origin.count(), node.objects()), (1, 1));
    });
}

#[test]
fn what_a_group_asks_for_again_is_served_from_its_own_memory() {
    run(async {
        let whole = pattern(3, 0..3_000_000);
        let served = whole.clone();
        let fields = ["Cache-Control: max-age=60"];
        let origin = Origin::serve(move |asked| ranged(asked, &served, "\"v\"", &fields));
        let node = setup(&origin).start();
        let mut clients = one_of_each(&node, "/warm").await;
        let target = homed_in(&node, 0);
        assert!(clients[1].get(&target).await.body == whole);
        let before = node.count("copies");
        for _ in 0..2 {
            assert!(clients[1].get(&target).await.body == whole);
        }
        node.counted("copies", before + 1).await;
        let hits = node.count("hits_of_copies");
        let answer = clients[1].get(&target).await;
        assert!(answer.body == whole && answer.cache().contains("hit"), "{}", answer.cache());
        let part = clients[1].get_with(&target, &["Range: bytes=1000000-1999999"]).await;
        assert_eq!(part.status, 206);
        assert!(part.body == whole[1_000_000..2_000_000]);
        let unchanged = clients[1].get_with(&target, &["If-None-Match: \"v\""]).await;
        assert_eq!(unchanged.status, 304);
        assert_eq!(node.count("hits_of_copies"), hits + 3);
        assert!(clients[0].get(&target).await.body == whole);
        assert_eq!(node.count("hits_of_copies"), hits + 3);
        // Both have it, and the origin was asked once.
        let used = |group: usize| node.node.shared.cache.of(group).arena().stats().used_bytes;
        assert!(used(0) >= 3_000_000 && used(1) >= 3_000_000);
        assert_eq!(origin.requests().iter().filter(|one| one.target() == target).count(), 1);
        assert_eq!(node.variants(&target), 1);
    });
}

#[test]
fn a_purge_through_any_group_is_one_in_all() {
    run(async {
        let origin = numbering();
        let node = setup(&origin).start();
        let mut clients = one_of_each(&node, "/warm").await;
        for (home, purging) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let target = homed_in(&node, home);
            let before = clients[1 - home].get(&target).await.text();
            let copies = node.count("copies");
            for _ in 0..2 {
                assert_eq!(clients[1 - home].get(&target).await.text(), before);
            }
            node.counted("copies", copies + 1).await;
            assert_eq!(clients[purging].request("PURGE", &target, &[]).await.status, 200);
            let after = clients[1 - home].get(&target).await.text();
            assert_ne!(after, before);
            assert_eq!(clients[home].get(&target).await.text(), after);
        }
    });
}

#[test]
fn a_ban_a_reload_by_a_client_and_an_unsafe_request_reach_copies() {
    run(async {
        let origin = numbering();
        let node = setup(&origin).and("[cache]\nclient_cache_control = true").start();
        let mut clients = one_of_each(&node, "/warm").await;
        let target = homed_in(&node, 0);
        let mut last = clients[1].get(&target).await.text();
        for round in 0..3 {
            let copies = node.count("copies");
            for _ in 0..2 {
                assert_eq!(clients[1].get(&target).await.text(), last);
            }
            node.counted("copies", copies + 1).await;
            match round {
                0 => {
                    let ban = format!("req.url == {target}");
                    let settings = BanSettings::default();
                    assert!(node.node.shared.ban(&ban, &settings).unwrap().reached().await);
                }
                1 => {
                    let fields = ["Cache-Control: no-cache"];
                    clients[0].get_with(&target, &fields).await;
                }
                _ => {
                    clients[0].request("PUT", &target, &["Content-Length: 0"]).await;
                }
            }
            let next = clients[1].get(&target).await.text();
            assert_ne!(next, last, "round {round}");
            assert_eq!(clients[0].get(&target).await.text(), next);
            last = next;
        }
    });
}

#[test]
fn what_is_renewed_or_grows_stale_is_so_in_copies() {
    run(async {
        let count = AtomicU64::new(0);
        let origin = Origin::serve(move |_| {
            let number = count.fetch_add(1, SeqCst);
            let fields = ["Cache-Control: max-age=1, stale-while-revalidate=0"];
            response("200 OK", &fields, number.to_string())
        });
        let node = setup(&origin).start();
        let mut clients = one_of_each(&node, "/warm").await;
        let target = homed_in(&node, 1);
        let first = clients[0].get(&target).await.text();
        let copies = node.count("copies");
        clients[0].get(&target).await;
        clients[0].get(&target).await;
        node.counted("copies", copies + 1).await;
        // The copy answers for as long as the original is fresh, which is a second.
        let mut second = first.clone();
        while second == first {
            second = clients[0].get(&target).await.text();
        }
        assert_ne!(first, second);
    });
}

#[test]
fn pages_put_together_of_parts_and_policies_are_the_same_from_all_groups() {
    run(async {
        let origin = Origin::serve(|asked| match asked.target() {
            "/part" => fresh("part"),
            _ => response(
                "200 OK",
                &["Cache-Control: max-age=60", "Content-Type: text/html"],
                "<p><esi:include src=\"/part\"/></p>",
            ),
        });
        let policy = "sub vcl_backend_response { set beresp.do_esi = true; set beresp.keep = 9s; }\n\
                      sub vcl_deliver { set resp.http.X-Hits = obj.hits; }";
        let governed = governed_by(setup(&origin), &origin, policy, "");
        let node = &governed.node;
        let mut clients = one_of_each(node, "/warm").await;
        for target in ["/x", "/y", "/z"] {
            for client in &mut clients {
                for _ in 0..5 {
                    assert_eq!(client.get(target).await.text(), "<p>part</p>");
                }
            }
        }
        // Each page, and the part of them.
        assert_eq!(origin.requests().iter().filter(|one| one.target() != "/warm").count(), 4);
    });
}

#[test]
fn tags_and_everything_are_purged_in_all_groups() {
    run(async {
        let count = AtomicU64::new(0);
        let origin = Origin::serve(move |_| {
            let number = count.fetch_add(1, SeqCst);
            let fields = ["Cache-Control: max-age=60", "Cache-Tag: k"];
            response("200 OK", &fields, number.to_string())
        });
        let node = setup(&origin).start();
        let mut clients = one_of_each(&node, "/warm").await;
        let targets = [homed_in(&node, 0), homed_in(&node, 1)];
        for everything in [false, true] {
            let mut before = Vec::new();
            for target in &targets {
                for client in &mut clients {
                    for _ in 0..4 {
                        before.push(client.get(target).await.text());
                    }
                }
            }
            let shared = &node.node.shared;
            let purged = match everything {
                true => shared.purge_all(freshet_cache::Purge::Hard).objects,
                false => {
                    let sites = &node.node.snapshot().sites;
                    let tag = sites.all()[0].name.tag(b"k");
                    shared.purge_tag(tag, freshet_cache::Purge::Hard).objects
                }
            };
            assert_eq!(purged, 3, "everything {everything}");
            until(|| shared.cache.stats().objects == 0).await;
            for target in &targets {
                for client in &mut clients {
                    assert!(!before.contains(&client.get(target).await.text()));
                }
            }
            get_with(&node, "/warm", &[]).await;
        }
        assert_eq!(request(&node, "PURGE", "/nothing", &[]).await.status, 404);
    });
}
