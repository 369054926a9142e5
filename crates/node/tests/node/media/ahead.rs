//! What is fetched before a player asks for it.

use super::{HLS, HOUR, low_latency, playlist, send_segment};
use crate::client::{Client, get, get_with};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, Request, head, response};
use crate::vcl::governed;
use freshet_base::clock::UnixMillis;
use freshet_origin::health::PassiveRule;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[test]
fn what_comes_next_is_there_before_it_is_asked_for() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        let ask = async |client: &mut Client, origin: &mut Origin, first: u64, parts: u64| {
            let target = format!("/c/v.m3u8?_HLS_msn={}&_HLS_part={parts}", first + 5);
            client.ask("GET", &target, &["Accept: */*", "CMCD-Session: sid=\"s\""]).await;
            let hint = format!("#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"{}.{parts}.m4s\"\n", first + 5);
            let elsewhere = "#EXTINF:2,\nhttp://elsewhere.example/1.m4s\n";
            let text = low_latency(first, 5, parts) + &hint;
            let text = if parts == 3 { text + elsewhere } else { text };
            let asked = origin.next().await;
            assert_eq!(asked.request.target(), target);
            asked.send(response("200 OK", &[HOUR, HLS], &text));
            assert_eq!(client.answer("GET").await.text(), text);
        };
        ask(&mut client, &mut origin, 10, 1).await;
        // The header and the part that is hinted at come by themselves; nobody who plays parts asks for
        // the newest segment, which is made of them.
        let mut asked = Vec::new();
        for _ in 0..2 {
            let ahead = origin.next().await;
            assert_eq!(ahead.request.field("cmcd-session"), None);
            send_segment(&ahead, 5000);
            asked.push(ahead.request.target().to_owned());
        }
        asked.sort();
        assert_eq!(asked, ["/c/15.1.m4s", "/c/init.mp4"]);
        for target in ["/c/init.mp4", "/c/15.1.m4s"] {
            let answer = get(&node, target).await;
            assert!(answer.body == pattern(1, 0..5000) && answer.cache().contains("hit"));
        }
        // Of a next version what is new, of the same host, once.
        ask(&mut client, &mut origin, 10, 2).await;
        let ahead = origin.next().await;
        assert_eq!(ahead.request.target(), "/c/15.2.m4s");
        // It is held back until it is there; who asks meanwhile waits for the same.
        let mut viewer = Client::to(&node).await;
        viewer.ask("GET", "/c/15.2.m4s", &[]).await;
        node.counted("waits", 1).await;
        send_segment(&ahead, 700);
        assert!(viewer.answer("GET").await.body == pattern(1, 0..700));
        ask(&mut client, &mut origin, 10, 3).await;
        assert_eq!(origin.next().await.request.target(), "/c/15.3.m4s");
        assert_eq!((node.count("media_ahead_fetches"), origin.count()), (4, 7));
        // Of a channel without parts the newest segment does.
        client.ask("GET", "/d/v.m3u8", &[]).await;
        origin.next().await.send(response("200 OK", &[HOUR, HLS], playlist(10, 5, "")));
        client.answer("GET").await;
        let mut asked = [origin.next().await, origin.next().await]
            .map(|ahead| ahead.request.target().to_owned());
        asked.sort();
        assert_eq!(asked, ["/d/14.m4s", "/d/init.mp4"]);
    });
}

#[test]
fn playlists_that_name_one_another_as_segments_lead_nowhere() {
    run(async {
        // Each names the next.
        let origin = Origin::serve(|asked: &Request| {
            let number = asked.target()["/c/b".len()..].trim_end_matches(".m3u8");
            let next = number.parse::<u64>().expect("it is a number") + 1;
            let text = format!(
                "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:{next}\n#EXTINF:2,\n\
                 b{next}.m3u8\n"
            );
            response("200 OK", &[HOUR, HLS], text)
        });
        let node = TestNode::before(&origin);
        assert_eq!(get(&node, "/c/b1.m3u8").await.status, 200);
        node.counted("media_ahead_fetches", 1).await;
        // Who asks for what was fetched ahead waits until it is read; it alone leads on.
        assert_eq!(get(&node, "/c/b2.m3u8").await.status, 200);
        assert_eq!(get(&node, "/d/b7.m3u8").await.status, 200);
        node.counted("media_ahead_fetches", 2).await;
        assert_eq!(get(&node, "/d/b8.m3u8").await.status, 200);
        let asked: Vec<_> = origin.requests().iter().map(|one| one.target().to_owned()).collect();
        assert_eq!(asked, ["/c/b1.m3u8", "/c/b2.m3u8", "/d/b7.m3u8", "/d/b8.m3u8"]);
    });
}

#[test]
fn no_more_is_fetched_ahead_than_a_site_allows() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup { workers: 1, ..Setup::of(&origin).and("[media]\nahead = 1\n") }.start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/c/v.m3u8", &[]).await;
        origin.next().await.send(response("200 OK", &[HOUR, HLS], playlist(10, 5, "")));
        client.answer("GET").await;
        let ahead = origin.next().await;
        assert_eq!(ahead.request.target(), "/c/init.mp4");
        node.counted("media_ahead_refused", 1).await;
        send_segment(&ahead, 100);
        assert_eq!(get(&node, "/c/init.mp4").await.status, 200);
        assert_eq!((node.count("media_ahead_fetches"), origin.count()), (1, 2));
    });
}

#[test]
fn no_more_bytes_are_fetched_ahead_than_a_site_allows() {
    run(async {
        let mut origin = Origin::scripted();
        let bytes = "[media]\nahead_bytes = \"4KiB\"\n";
        let node = Setup { workers: 1, ..Setup::of(&origin).and(bytes) }.start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/c/v.m3u8", &[]).await;
        origin.next().await.send(response("200 OK", &[HOUR, HLS], playlist(10, 5, "")));
        client.answer("GET").await;
        let (first, second) = (origin.next().await, origin.next().await);
        let (start, segment) = match first.request.target() {
            "/c/init.mp4" => (first, second),
            _ => (second, first),
        };
        // One is too long, and gives no room to the next either.
        send_segment(&segment, 5000);
        node.counted("media_ahead_refused", 1).await;
        send_segment(&start, 4096);
        assert!(get(&node, "/c/init.mp4").await.cache().contains("hit"));
        // Who asks for it gets it.
        client.ask("GET", "/c/14.m4s", &[]).await;
        let asked = origin.next().await;
        assert_eq!(asked.request.target(), "/c/14.m4s");
        send_segment(&asked, 5000);
        assert!(client.answer("GET").await.body == pattern(1, 0..5000));
        assert_eq!(node.count("media_ahead_refused"), 1);
    });
}

/// A playlist that leads to its newest segment and to nothing else.
fn leading_to_a_segment(first: u64) -> String {
    playlist(first, 5, "").replace("#EXT-X-MAP:URI=\"init.mp4\"\n", "")
}

#[test]
fn what_has_no_length_is_counted_as_it_comes() {
    run(async {
        let mut origin = Origin::scripted();
        let bytes = "[media]\nahead_bytes = \"4KiB\"\n";
        let node = Setup { workers: 1, ..Setup::of(&origin).and(bytes) }.start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/c/v.m3u8", &[]).await;
        origin.next().await.send(response("200 OK", &[HOUR, HLS], leading_to_a_segment(10)));
        client.answer("GET").await;
        let chunk = [&b"1388\r\n"[..], &pattern(1, 0..5000), b"\r\n"].concat();
        let begun = [&head("200 OK", &[HOUR, "Transfer-Encoding: chunked"], None)[..], &chunk];
        // It goes on for as long as it is read.
        let mut ahead = origin.next().await;
        ahead.send(begun.concat());
        node.counted("media_ahead_refused", 1).await;
        ahead.closed().await;
        // Who asks for it gets it, and all of it where it is more than that.
        client.ask("GET", "/c/14.m4s", &[]).await;
        let asked = origin.next().await;
        assert_eq!(asked.request.target(), "/c/14.m4s");
        asked.send([&begun.concat()[..], b"0\r\n\r\n"].concat());
        assert!(client.answer("GET").await.body == pattern(1, 0..5000));
        assert_eq!(node.count("media_ahead_refused"), 1);
    });
}

#[test]
fn an_answer_that_is_thrown_away_takes_no_room_from_what_comes_in_its_place() {
    run(async {
        let asked = Arc::<AtomicU64>::default();
        let serve = || {
            let asked = Arc::clone(&asked);
            Origin::serve(move |request: &Request| match request.target() {
                "/c/v.m3u8" => response("200 OK", &[HOUR, HLS], leading_to_a_segment(10)),
                // The first packager that is asked does not have it yet.
                _ if asked.fetch_add(1, SeqCst) == 0 => {
                    response("404 Not Found", &[HOUR], pattern(1, 0..3000))
                }
                _ => response("200 OK", &[HOUR], pattern(1, 0..3000)),
            })
        };
        let (first, second) = (serve(), serve());
        let bytes = "[media]\nahead_bytes = \"4KiB\"\n";
        let setup = Setup::of(&first).origin(&second.url()).and(bytes);
        let node = Setup { workers: 1, ..setup }.start();
        assert_eq!(get(&node, "/c/v.m3u8").await.status, 200);
        until(|| node.objects() == 2).await;
        let answer = get(&node, "/c/14.m4s").await;
        assert!(answer.cache().contains("hit") && answer.body == pattern(1, 0..3000));
        assert_eq!((asked.load(SeqCst), node.count("media_ahead_refused")), (2, 0));
    });
}

#[test]
fn that_something_was_asked_for_too_early_no_player_hears() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup { workers: 1, ..Setup::of(&origin) }.start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/c/v.m3u8", &[]).await;
        origin.next().await.send(response("200 OK", &[HOUR, HLS], leading_to_a_segment(10)));
        client.answer("GET").await;
        let ahead = origin.next().await;
        ahead.send(response("404 Not Found", &[HOUR], "not yet"));
        node.counted("media_ahead_failed", 1).await;
        client.ask("GET", "/c/14.m4s", &[]).await;
        let asked = origin.next().await;
        assert_eq!(asked.request.target(), "/c/14.m4s");
        send_segment(&asked, 100);
        assert_eq!(client.answer("GET").await.status, 200);
    });
}

#[test]
fn an_origin_that_wants_rest_is_asked_for_nothing_ahead() {
    run(async {
        for answer in
            [("503 Service Unavailable", "Retry-After: 60"), ("429 Too Many Requests", "X: 1")]
        {
            let mut origin = Origin::scripted();
            let node = Setup { workers: 1, ..Setup::of(&origin) }.start();
            let mut client = Client::to(&node).await;
            client.ask("GET", "/c/a.m3u8", &[]).await;
            origin.next().await.send(response("200 OK", &[HOUR, HLS], leading_to_a_segment(10)));
            client.answer("GET").await;
            let ahead = origin.next().await;
            ahead.send(response(answer.0, &[answer.1], "later"));
            node.counted("media_ahead_failed", 1).await;
            client.ask("GET", "/c/b.m3u8", &[]).await;
            origin.next().await.send(response("200 OK", &[HOUR, HLS], leading_to_a_segment(20)));
            client.answer("GET").await;
            node.counted("media_ahead_refused", 1).await;
            // Players are none of what it is spared.
            client.ask("GET", "/c/24.m4s", &[]).await;
            send_segment(&origin.next().await, 100);
            assert_eq!(client.answer("GET").await.status, 200);
            assert_eq!(origin.count(), 4);
        }
    });
}

#[test]
fn what_is_awaited_of_what_was_fetched_ahead_is_not_broken_off() {
    run(async {
        let mut origin = Origin::scripted();
        let bytes = "[media]\nahead_bytes = \"1KiB\"\n";
        let node = Setup { workers: 1, ..Setup::of(&origin).and(bytes) }.start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/c/v.m3u8", &[]).await;
        origin.next().await.send(response("200 OK", &[HOUR, HLS], leading_to_a_segment(10)));
        client.answer("GET").await;
        let ahead = origin.next().await;
        client.ask("GET", "/c/14.m4s", &[]).await;
        node.counted("waits", 1).await;
        send_segment(&ahead, 5000);
        assert!(client.answer("GET").await.body == pattern(1, 0..5000));
        assert_eq!((origin.count(), node.count("media_ahead_refused")), (2, 0));
    });
}

#[test]
fn nothing_is_fetched_ahead_from_an_origin_that_has_just_failed() {
    run(async {
        let film = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-PLAYLIST-TYPE:VOD\n#EXTINF:2,\n0.m4s\n\
                    #EXTINF:2,\n1.m4s\n#EXTINF:2,\n2.m4s\n#EXT-X-ENDLIST\n";
        let origin = Origin::serve(move |asked: &Request| match asked.target() {
            "/v.m3u8" => response("200 OK", &[HOUR, HLS], film),
            _ => response("200 OK", &[HOUR, "ETag: \"a\""], "x"),
        });
        let node = Setup { workers: 1, ..Setup::of(&origin) }.start();
        assert_eq!(get(&node, "/v.m3u8").await.status, 200);
        // An answer that came later would make it well again.
        until(|| node.objects() == 2).await;
        let (rule, now) =
            (PassiveRule { failures: 1, ..PassiveRule::default() }, UnixMillis::now());
        for (_, one) in node.node.snapshot().sites.origins() {
            one.health.went_unanswered(rule, now);
        }
        // It leads on as far as what is here.
        assert!(get(&node, "/0.m4s").await.cache().contains("hit"));
        node.counted("media_ahead_refused", 1).await;
        assert_eq!(origin.count(), 2);
        // Who asks for it is worth a try, and that it answers makes it well.
        assert_eq!(get(&node, "/1.m4s").await.status, 200);
        until(|| origin.count() == 4).await;
    });
}

#[test]
fn what_a_player_says_it_asks_for_next_is_there() {
    run(async {
        let mut origin = Origin::scripted();
        let vcl = "sub vcl_recv { set req.url = \"/films\" + req.url; unset req.http.Cookie; }";
        let (plain, governed) = (TestNode::before(&origin), governed(&origin, vcl));
        for (node, folder) in [(&plain, ""), (&governed.node, "/films")] {
            let (before, mut client) = (origin.count(), Client::to(node).await);
            client.ask("GET", "/1.m4s?t=1", &["Cookie: a=b", &next("a%2F2.m4s")]).await;
            let asked = origin.next().await;
            assert_eq!(asked.request.target(), format!("{folder}/1.m4s?t=1"));
            send_segment(&asked, 100);
            assert_eq!(client.answer("GET").await.status, 200);
            let ahead = origin.next().await;
            assert_eq!(ahead.request.target(), format!("{folder}/a/2.m4s"));
            assert_eq!(ahead.request.field("cmcd-request"), None);
            send_segment(&ahead, 5000);
            let answer = get_with(node, "/a/2.m4s", &["Cookie: a=b"]).await;
            assert!(answer.status == 200 && answer.body == pattern(1, 0..5000));
            // Nothing of another host, nothing that is there, nothing after an error.
            for there in ["http%3A%2F%2F10.0.0.1%2F3", "2.m4s", "..%2F1.m4s%3Ft%3D1"] {
                assert_eq!(get_with(node, "/a/2.m4s", &[&next(there)]).await.status, 200);
            }
            client.ask("GET", "/gone", &[&next("3.m4s")]).await;
            let asked = origin.next().await;
            asked.send(response("404 Not Found", &["Cache-Control: no-store"], "no"));
            assert_eq!(client.answer("GET").await.status, 404);
            client.ask("GET", "/4.m4s", &[]).await;
            let asked = origin.next().await;
            assert_eq!(asked.request.target(), format!("{folder}/4.m4s"));
            send_segment(&asked, 100);
            assert_eq!(client.answer("GET").await.status, 200);
            assert_eq!(origin.count() - before, 4, "{:?}", origin.requests());
            assert_eq!(node.count("media_ahead_fetches"), 1);
        }
    });
}

#[test]
fn a_site_that_counts_requests_fetches_what_players_ask_for_only() {
    run(async {
        let origin = Origin::serve(|_: &Request| response("200 OK", &[HOUR], "x"));
        let limit = "[[rate_limit]]\nname = \"all\"\nrate = \"1000/s\"\n";
        let node = Setup::of(&origin).and(limit).start();
        for target in ["/1.m4s", "/2.m4s"] {
            assert_eq!(get_with(&node, target, &[&next("3.m4s")]).await.status, 200);
        }
        assert_eq!((origin.count(), node.count("media_ahead_fetches")), (2, 0));
    });
}

/// What a player says that asks for this next.
fn next(target: &str) -> String {
    format!("CMCD-Request: nor=\"{target}\"")
}

#[test]
fn of_what_comes_next_the_part_that_is_wanted_is_there() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        let says = ["CMCD-Request: nor=\"2.mp4\",nrr=\"1000-1999\"", "CMCD-Object: ot=v"];
        client.ask("GET", "/1.mp4", &says).await;
        send_segment(&origin.next().await, 100);
        assert_eq!(client.answer("GET").await.status, 200);
        let ahead = origin.next().await;
        assert_eq!(ahead.request.target(), "/2.mp4");
        assert_eq!(ahead.request.field("range"), Some("bytes=1000-1999"));
        let fields = [HOUR, "ETag: \"a\"", "Content-Range: bytes 1000-1999/9000"];
        ahead.send(response("206 Partial Content", &fields, pattern(1, 1000..2000)));
        let answer = get_with(&node, "/2.mp4", &["Range: bytes=1000-1999"]).await;
        assert!(answer.status == 206 && answer.body == pattern(1, 1000..2000));
        assert_eq!((origin.count(), node.count("media_ahead_fetches")), (2, 1));
    });
}
