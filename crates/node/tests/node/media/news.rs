//! News of low-latency playlists, which a packager holds back until there is some.

use super::{HLS, HOUR, low_latency, ttl};
use crate::client::{Client, get, get_with};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Asked, Origin, head, response};
use crate::vcl::governed_with;

/// The next request an origin gets for news of the playlist, which it holds back.
async fn held(origin: &mut Origin, target: &str) -> Asked {
    let asked = origin.next().await;
    assert_eq!(asked.request.target(), target);
    asked
}

#[test]
fn news_of_a_playlist_cost_one_request_a_part_for_any_number_of_players() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        let mut clients = Vec::new();
        for _ in 0..50 {
            clients.push(Client::to(&node).await);
        }
        let mut seen = 0;
        for part in 0..4 {
            let target = format!("/c/v.m3u8?_HLS_msn=15&_HLS_part={part}");
            let odd = format!("/c/v.m3u8?CMCD=sid&_HLS_part={part}&_HLS_msn=15");
            for (number, client) in clients.iter_mut().enumerate() {
                client.ask("GET", if number % 2 == 0 { &target } else { &odd }, &[]).await;
            }
            let asked = held(&mut origin, &target).await;
            node.counted("waits", 49 * (part + 1)).await;
            let text = low_latency(10, 5, part + 1);
            asked.send(response("200 OK", &[HOUR, HLS], &text));
            for client in &mut clients {
                let answer = client.answer("GET").await;
                assert!(answer.status == 200 && answer.text() == text);
            }
            seen += 1;
            assert_eq!(origin.count(), seen);
        }
        // How long it took from the origin's answer to each of them is counted.
        let news = || {
            let workers = node.node.shared.stats.iter().map(|stats| &**stats);
            freshet_node::stats::Sums::of(workers).news_us.count()
        };
        until(|| news() == 200).await;
        // Who asks for what is behind, or in other words, gets the newest at once.
        let newest = low_latency(10, 5, 4);
        for behind in ["_HLS_msn=15&_HLS_part=1", "_HLS_msn=14", "_HLS_msn=13&_HLS_part=9"] {
            let answer = get(&node, &format!("/c/v.m3u8?{behind}")).await;
            assert!(answer.status == 200 && answer.text() == newest, "{behind}");
        }
        assert_eq!(node.count("media_reloads"), 3);
        // A version that leaves out what is known is another one.
        let mut client = Client::to(&node).await;
        client.ask("GET", "/c/v.m3u8?_HLS_msn=15&_HLS_part=1&_HLS_skip=YES", &[]).await;
        let target = "/c/v.m3u8?_HLS_msn=15&_HLS_part=1&_HLS_skip=YES";
        let asked = held(&mut origin, target).await;
        asked.send(response("200 OK", &[HOUR, HLS], low_latency(12, 3, 4)));
        assert_eq!(client.answer("GET").await.text(), low_latency(12, 3, 4));
        // And what is far away is refused here.
        for far in ["_HLS_msn=18", "_HLS_msn=18446744073709551615&_HLS_part=4294967295"] {
            assert_eq!(get(&node, &format!("/c/v.m3u8?{far}")).await.status, 400, "{far}");
        }
        assert_eq!((node.count("media_reloads_refused"), origin.count()), (2, 5));
    });
}

#[test]
fn nobody_waits_for_news_of_a_playlist_that_has_ended() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/c/v.m3u8", &[]).await;
        origin.next().await.send(response("200 OK", &[HOUR, HLS], low_latency(10, 5, 1)));
        client.answer("GET").await;
        for wrong in ["_HLS_msn=+15", "_HLS_msn=x", "_HLS_part=1", "_HLS_msn=15&_HLS_msn=16"] {
            let answer = get(&node, &format!("/c/v.m3u8?{wrong}")).await;
            assert_eq!(answer.status, 400, "{wrong}");
            assert!(answer.cache().contains("client-malformed"), "{}", answer.cache());
        }
        let news = "/c/v.m3u8?_HLS_msn=15&_HLS_part=1";
        client.ask("GET", news, &[]).await;
        let last = low_latency(10, 6, 0) + "#EXT-X-ENDLIST\n";
        held(&mut origin, news).await.send(response("200 OK", &[HOUR, HLS], &last));
        assert_eq!(client.answer("GET").await.text(), last);
        for after in
            ["_HLS_msn=16", "_HLS_msn=17&_HLS_part=2", "_HLS_msn=99", "_HLS_msn=99&_HLS_skip=YES"]
        {
            let answer = get(&node, &format!("/c/v.m3u8?{after}")).await;
            assert!(answer.status == 200 && answer.text() == last, "{after}");
        }
        assert_eq!(origin.count(), 2);
    });
}

#[test]
fn a_part_is_relayed_as_it_comes_and_asked_for_once() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/c/v.m3u8", &[]).await;
        let hint = low_latency(10, 5, 1) + "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"15.1.m4s\"\n";
        origin.next().await.send(response("200 OK", &[HOUR, HLS], &hint));
        assert_eq!(client.answer("GET").await.text(), hint);
        let mut viewers = Vec::new();
        for _ in 0..10 {
            let mut viewer = Client::to(&node).await;
            viewer.ask("GET", "/c/15.1.m4s", &[]).await;
            viewers.push(viewer);
        }
        let asked = origin.next().await;
        asked.send(head("200 OK", &[HOUR, "Transfer-Encoding: chunked"], None));
        for at in 0..3 {
            let bytes = pattern(1, at * 1000..(at + 1) * 1000);
            asked.send([b"3e8\r\n", &bytes[..], b"\r\n"].concat());
            for viewer in &mut viewers {
                if at == 0 {
                    viewer.head().await.unwrap();
                }
                assert!(viewer.chunk().await.unwrap() == bytes);
            }
        }
        asked.send("0\r\n\r\n");
        for viewer in &mut viewers {
            assert_eq!(viewer.chunk().await, Some(Vec::new()));
        }
        assert_eq!(origin.count(), 2);
        let left = get(&node, "/c/15.1.m4s").await;
        assert!((500..=600).contains(&ttl(&left)), "{}", left.cache());
    });
}

#[test]
fn what_a_packager_held_back_is_not_old_when_it_comes() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let target = "/c/v.m3u8?_HLS_msn=15&_HLS_part=0";
        let mut clients = Vec::new();
        for _ in 0..10 {
            let mut client = Client::to(&node).await;
            client.ask("GET", target, &[]).await;
            clients.push(client);
        }
        let asked = held(&mut origin, target).await;
        node.counted("waits", 9).await;
        // It is held for longer than the answer may be kept.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        let second = "Cache-Control: max-age=1";
        asked.send(response("200 OK", &[second, HLS], low_latency(10, 5, 1)));
        for client in &mut clients {
            let answer = client.answer("GET").await;
            assert!(answer.status == 200 && answer.text() == low_latency(10, 5, 1));
        }
        assert!(origin.requests().iter().filter(|asked| asked.target() == target).count() == 1);
    });
}

#[test]
fn where_a_packager_stops_the_other_is_asked_before_players_stand_still() {
    run(async {
        let (mut first, mut second) = (Origin::scripted(), Origin::scripted());
        let rest = "[media]\nahead = 0\n[origins]\ndirector = \"fallback\"\n";
        let node = Setup::of(&first).origin(&second.url()).and(rest).start();
        let mut client = Client::to(&node).await;
        let mut stopped = Vec::new();
        for part in 0..6 {
            let target = format!("/c/v.m3u8?_HLS_msn=15&_HLS_part={part}");
            client.ask("GET", &target, &[]).await;
            let asked_at = std::time::Instant::now();
            // It answers once, says nothing three times, and is asked last then.
            if (1..4).contains(&part) {
                stopped.push(held(&mut first, &target).await);
            }
            let asked = match part {
                0 => held(&mut first, &target).await,
                _ => held(&mut second, &target).await,
            };
            let waited_ms = asked_at.elapsed().as_millis();
            assert!(matches!(part, 0 | 4 | 5) || waited_ms >= 900, "{waited_ms} ms");
            assert!(waited_ms < 4000, "{waited_ms} ms, before three target durations");
            asked.send(response("200 OK", &[HOUR, HLS], low_latency(10, 5, part + 1)));
            assert_eq!(client.answer("GET").await.text(), low_latency(10, 5, part + 1));
        }
        assert_eq!((first.count(), second.count()), (4, 5));
    });
}

#[test]
fn news_under_a_policy_are_shared_by_its_own_keys() {
    run(async {
        let mut origin = Origin::scripted();
        let vcl =
            "sub vcl_hash { hash_data(req.url); hash_data(req.http.Tenant); return (lookup); }";
        let governed = governed_with(&origin, vcl, "[media]\nahead = 0\n");
        let node = &governed.node;
        let mut client = Client::to(node).await;
        let news = "/c/v.m3u8?_HLS_msn=15&_HLS_part=1";
        client.ask("GET", news, &["Tenant: a"]).await;
        let asked = held(&mut origin, news).await;
        asked.send(response("200 OK", &[HOUR, HLS], low_latency(10, 5, 2)));
        assert_eq!(client.answer("GET").await.text(), low_latency(10, 5, 2));
        // What the same tenant asks for is answered by it, or refused.
        for behind in ["_HLS_msn=15&_HLS_part=0", "_HLS_msn=14"] {
            let answer = get_with(node, &format!("/c/v.m3u8?{behind}"), &["Tenant: a"]).await;
            assert_eq!(answer.text(), low_latency(10, 5, 2), "{behind}");
        }
        let far = get_with(node, "/c/v.m3u8?_HLS_msn=18", &["Tenant: a"]).await;
        assert_eq!((far.status, origin.count()), (400, 1));
        assert_eq!((node.count("media_reloads"), node.count("media_reloads_refused")), (2, 1));
        // Another tenant's is another playlist.
        for (at, target) in ["/c/v.m3u8?_HLS_msn=14", "/c/v.m3u8?_HLS_msn=18"].iter().enumerate() {
            client.ask("GET", target, &["Tenant: b"]).await;
            let asked = held(&mut origin, target).await;
            asked.send(response("404 Not Found", &["Cache-Control: no-store"], "b"));
            assert_eq!((client.answer("GET").await.status, origin.count()), (404, at + 2));
        }
    });
}
