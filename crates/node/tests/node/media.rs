//! Playlists and manifests that pass: what becomes of what they name, and of those that break.

use crate::client::{Answer, Client, get, get_with};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Asked, Origin, Request, head, response};
use crate::vcl::governed;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const HOUR: &str = "Cache-Control: max-age=3600";
const HLS: &str = "Content-Type: application/vnd.apple.mpegurl";

/// A playlist of two-second segments.
fn playlist(first: u64, count: u64, tags: &str) -> String {
    let mut out = format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:{first}\n{tags}\
         #EXT-X-MAP:URI=\"init.mp4\"\n"
    );
    for number in first..first + count {
        out.push_str(&format!("#EXTINF:2,\n{number}.m4s\n"));
    }
    out
}

/// A low-latency playlist that has come to this part of a segment. What is known of it counts for a target
/// duration, which is long, so that no test depends on its machine.
fn low_latency(first: u64, count: u64, parts: u64) -> String {
    let control = "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES\n#EXT-X-PART-INF:PART-TARGET=0.5\n";
    let mut out = playlist(first, count, control).replace("TARGETDURATION:2", "TARGETDURATION:100");
    for part in 0..parts {
        let number = first + count;
        out.push_str(&format!("#EXT-X-PART:DURATION=0.5,URI=\"{number}.{part}.m4s\"\n"));
    }
    out
}

/// An origin of one channel, everything of it fresh for an hour.
fn channel() -> Origin {
    Origin::serve(|asked: &Request| match asked.target() {
        "/c/v.m3u8" => response("200 OK", &[HOUR, HLS], playlist(10, 5, "")),
        "/c/ended.m3u8" => response("200 OK", &[HOUR, HLS], playlist(0, 5, "#EXT-X-ENDLIST\n")),
        target if !target.ends_with("/15.m4s") => {
            response("200 OK", &[HOUR], pattern(1, 0..20_000))
        }
        _ => response("404 Not Found", &["Cache-Control: max-age=60"], "no"),
    })
}

/// Seconds of life that are left, by `Cache-Status`.
fn ttl(answer: &Answer) -> i64 {
    let status = answer.cache();
    let ttl = status.split("ttl=").nth(1).and_then(|rest| rest.split(';').next());
    ttl.and_then(|ttl| ttl.trim().parse().ok()).unwrap_or_else(|| panic!("no ttl: {status}"))
}

/// Asks until it is a hit: what is left of its life, which may be over before the second time.
async fn life(node: &TestNode, target: &str) -> i64 {
    loop {
        let answer = get(node, target).await;
        if answer.cache().contains("hit") {
            return ttl(&answer);
        }
    }
}

#[test]
fn live_segments_leave_with_their_window_and_films_stay() {
    run(async {
        let origin = channel();
        let node = TestNode::before(&origin);
        assert!(life(&node, "/c/10.m4s").await > 3000);
        assert!(life(&node, "/c/ended.m3u8").await > 3000);
        assert!(life(&node, "/c/v.m3u8").await <= 1);
        assert!((8..=16).contains(&life(&node, "/c/11.m4s").await));
        assert!((17..=22).contains(&life(&node, "/c/14.m4s").await));
        // A film's segments, and what no playlist names, are as their origin says.
        assert!(life(&node, "/c/1.m4s").await > 3000);
        assert!(node.count("media_manifests") >= 2);
        assert!(node.count("media_live") >= 2);
        // What is to come is missing for a moment only.
        assert!(life(&node, "/c/15.m4s").await <= 1);
        assert!(node.count("media_late") >= 1);
        assert_eq!(node.node.shared.channels.count(), 1);
    });
}

#[test]
fn a_site_that_reads_no_manifests_keeps_all_as_its_origin_says() {
    run(async {
        let origin = channel();
        let node = Setup::of(&origin).and("[media]\nread = false\n").start();
        for target in ["/c/v.m3u8", "/c/14.m4s"] {
            assert!(life(&node, target).await > 3000);
        }
        assert_eq!(node.count("media_manifests"), 0);
    });
}

/// Objects a node writes to its disk while a channel and a film are watched.
async fn written(reads: bool, least: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let origin = channel();
    let store = format!("[[store]]\npath = \"{}\"\nsize = \"256MiB\"\n", path.display());
    let node = Setup::of(&origin).and(&store).and(&format!("[media]\nread = {reads}\n")).start();
    get(&node, "/c/v.m3u8").await;
    for _ in 0..3 {
        for number in 10..15 {
            assert_eq!(get(&node, &format!("/c/{number}.m4s")).await.status, 200);
        }
    }
    // What was before them is on the disk before them.
    get(&node, "/c/ended.m3u8").await;
    get(&node, "/c/1.m4s").await;
    let disks = node.node.shared.disks.clone().unwrap();
    let written = || {
        let volumes = disks.disks().iter().filter_map(|disk| disk.volume());
        volumes.map(|volume| volume.counts().objects_written.value()).sum::<u64>()
    };
    until(|| written() >= least).await;
    written()
}

#[test]
fn live_segments_are_on_no_disk_and_films_are() {
    run(async {
        assert_eq!(written(true, 2).await, 2, "the film's playlist and its segment");
        assert_eq!(written(false, 8).await, 8, "all of it");
    });
}

#[test]
fn bodies_pass_as_they_are_whatever_they_are() {
    run(async {
        let live = playlist(10, 5, "");
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(live.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        let bomb = {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all(b"#EXTM3U\n").unwrap();
            packed.write_all(&vec![b'\n'; 20 << 20]).unwrap();
            packed.finish().unwrap()
        };
        let huge = [live.as_bytes(), &b"# x\n".repeat(2 << 20)[..]].concat();
        let entities = "<!DOCTYPE m [<!ENTITY a \"aaaa\">]><MPD>&a;</MPD>";
        let bodies: Arc<Vec<(&str, Vec<u8>, bool)>> = Arc::new(vec![
            ("/gzip.m3u8", packed, true),
            ("/bomb.m3u8", bomb, false),
            ("/none.m3u8", b"hello".to_vec(), false),
            ("/bytes.m3u8", b"#EXTM3U\n\xff\xfe".to_vec(), false),
            ("/entities.mpd", entities.into(), false),
            ("/deep.mpd", ["<MPD>", &"<a>".repeat(100_000)].concat().into(), false),
            ("/lines.m3u8", ["#EXTM3U\n", &"\n".repeat(300_000)].concat().into(), false),
            ("/huge.m3u8", huge, false),
            ("/empty.m3u8", Vec::new(), false),
            ("/chunked.m3u8", live.into_bytes(), true),
        ]);
        let served = Arc::clone(&bodies);
        let origin = Origin::serve(move |asked: &Request| {
            let (name, body, _) = served.iter().find(|(name, ..)| *name == asked.target()).unwrap();
            let gzip = ["/gzip.m3u8", "/bomb.m3u8"].contains(name);
            let mut fields = vec![HOUR, "Content-Type: text/plain"];
            fields.extend(gzip.then_some("Content-Encoding: gzip"));
            if *name != "/chunked.m3u8" {
                return response("200 OK", &fields, body);
            }
            fields.push("Transfer-Encoding: chunked");
            let chunk = format!("{:x}\r\n", body.len());
            [&head("200 OK", &fields, None)[..], chunk.as_bytes(), body, b"\r\n0\r\n\r\n"].concat()
        });
        let node = TestNode::before(&origin);
        let mut read = 0;
        for (name, body, is_read) in bodies.iter() {
            for _ in 0..2 {
                let answer = get_with(&node, name, &["Accept-Encoding: gzip"]).await;
                assert!(answer.complete && answer.body == *body, "{name}");
            }
            read += u64::from(*is_read);
            assert_eq!(node.count("media_manifests"), read, "{name}");
        }
        // What is too long to be held, or empty, is nobody's business.
        assert_eq!(node.count("media_unreadable"), bodies.len() as u64 - read - 2);
    });
}

#[test]
fn a_playlist_without_a_lifetime_is_shared_once_it_is_known() {
    run(async {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let origin = Origin::serve(move |asked: &Request| {
            counted.fetch_add(1, SeqCst);
            let mut fields = vec![HLS];
            fields.extend(
                asked.target().starts_with("/no-cache").then_some("Cache-Control: no-cache"),
            );
            response("200 OK", &fields, playlist(10, 5, ""))
        });
        for (target, overrides, most) in [
            ("/plain/v.m3u8", false, 2),
            ("/no-cache/v.m3u8", true, 2),
            ("/no-cache/v.m3u8", false, 10),
        ] {
            let key = format!("[media]\nahead = 0\noverride = {overrides}\n");
            let node = Setup::of(&origin).and(&key).start();
            let before = count.load(SeqCst);
            for _ in 0..10 {
                assert_eq!(get(&node, target).await.status, 200);
            }
            assert_eq!(count.load(SeqCst) - before, most, "{target} {overrides}");
        }
    });
}

#[test]
fn rules_and_policies_have_the_last_word() {
    run(async {
        let origin = channel();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.vcl");
        let vcl = format!(
            "vcl 4.1;\nbackend default {{ .host = \"{}\"; .port = \"{}\"; }}\n\
             sub vcl_backend_response {{\n\
               set beresp.http.X-Class = \"<\" + beresp.media_class + \">\" + beresp.ttl;\n\
               if (bereq.url ~ \"/14\") {{ set beresp.ttl = 100s; }}\n\
             }}\n\
             sub vcl_deliver {{ set resp.http.X-Left = obj.ttl; }}\n",
            "127.0.0.1",
            origin.url().rsplit(':').next().unwrap()
        );
        std::fs::write(&path, vcl).unwrap();
        let setup = Setup { origins: String::new(), ..Setup::of(&origin) };
        let listen = format!("vcl = \"{}\"\n{}", path.display(), setup.listen);
        let node = Setup { listen, ..setup }.start();
        get(&node, "/c/v.m3u8").await;
        let segment = get(&node, "/c/13.m4s").await;
        let class = segment.field("x-class").unwrap();
        let left = class.strip_prefix("<live>").and_then(|left| left.parse::<f64>().ok());
        assert!(left.is_some_and(|left| (10.0..=20.0).contains(&left)), "{class}");
        assert_eq!(get(&node, "/c/1.m4s").await.field("x-class"), Some("<>3600.000"));
        get(&node, "/c/14.m4s").await;
        let left = get(&node, "/c/14.m4s").await;
        let left: f64 = left.field("x-left").unwrap().parse().unwrap();
        assert!((50.0..=100.0).contains(&left), "{left}");
    });
}

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
fn what_players_say_reaches_an_origin_only_where_it_is_wanted() {
    run(async {
        let origin = Origin::serve(|_: &Request| response("200 OK", &[HOUR], "x"));
        for wanted in [false, true] {
            let key = format!("[media]\ncmcd_forward = {wanted}\n");
            let node = Setup::of(&origin).and(&key).start();
            let says = ["CMCD-Session: sid=\"secret\""];
            let before = origin.count();
            for number in 0..3 {
                let target = format!("/a.m4s?x=1&CMCD=sid%3D{number}");
                assert_eq!(get_with(&node, &target, &says).await.status, 200);
            }
            assert_eq!(origin.count(), before + 1, "it is in no key");
            let asked = &origin.requests()[before];
            assert_eq!(asked.target().contains("CMCD"), wanted);
            assert_eq!(asked.field("cmcd-session").is_some(), wanted);
        }
    });
}

/// A request an origin got, answered with `count` bytes that are fresh for an hour.
fn send_segment(asked: &Asked, count: u64) {
    asked.send(response("200 OK", &[HOUR], pattern(1, 0..count)));
}

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
fn what_players_say_is_counted_by_session() {
    run(async {
        let origin = Origin::serve(|_: &Request| response("200 OK", &[HOUR], pattern(1, 0..1000)));
        let node = Setup::of(&origin)
            .and("[media]\ncmcd_collector = \"/cmcd\"\n[cors]\norigins = [\"*\"]\n")
            .start();
        let live = |node: &TestNode| {
            let now = freshet_base::clock::UnixMillis::now();
            let all = node.node.shared.sessions.quality(now);
            all.iter().find(|(stream, _)| *stream == "live").unwrap().1
        };
        let quoted = "?CMCD=bl%3D3000%2Cbr%3D2500%2Csid%3D%22one%22%2Cst%3Dl";
        assert_eq!(get(&node, &format!("/1.m4s{quoted}")).await.status, 200);
        // It is counted behind the answer, by a worker that need not be the next request's.
        node.counted("cmcd_requests", 1).await;
        let fields = ["CMCD-Session: sid=\"one\"", "CMCD-Status: bs", "CMCD-Request: bl=1000"];
        assert_eq!(get_with(&node, "/1.m4s", &fields).await.status, 200);
        node.counted("cmcd_requests", 2).await;
        let one = live(&node);
        assert_eq!((one.sessions, one.starved, one.body_bytes), (1, 1, 2000));
        assert_eq!((one.bitrate_kbps, one.buffer_ms), (2500.0, 1000.0));
        // Reports come by themselves, in lines.
        let mut client = Client::to(&node).await;
        let body = "e=ps,sta=p,ts=1800000000000,sid=\"two\",st=l,ltc=900,v=2\n\
                    e=rr,ts=1800000000100,sid=\"one\",bs,v=2\n\nnonsense\n";
        let report = |body: &str| {
            format!(
                "POST /cmcd?x HTTP/1.1\r\nHost: tv.example\r\nOrigin: https://player.example\r\n\
                 Content-Type: application/cmcd\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        client.send(report(body).as_bytes()).await;
        let answer = client.answer("POST").await;
        assert_eq!((answer.status, answer.body.len()), (204, 0));
        assert_eq!(answer.field("access-control-allow-origin"), Some("*"));
        assert_eq!((node.count("cmcd_reports"), node.count("cmcd_reports_refused")), (2, 1));
        let both = live(&node);
        assert_eq!((both.sessions, both.starvations, both.latency_ms), (2, 2, 900.0));
        // A batch that is too long is refused, one of 64 KB in one line is read as far as it goes.
        client.send(report(&"x".repeat(65_536)).as_bytes()).await;
        assert_eq!(client.answer("POST").await.status, 204);
        let mut client = Client::to(&node).await;
        client.send(report(&"x".repeat(100_000)).as_bytes()).await;
        assert_eq!(client.answer("POST").await.status, 413);
        // The origin heard of none of it.
        assert_eq!(origin.count(), 1);
        let long = format!("/2.m4s?CMCD={}", "sid%3D%22x".repeat(700));
        assert_eq!(get(&node, &long).await.status, 200);
    });
}

#[test]
fn players_are_told_of_the_way_to_them() {
    run(async {
        let said = "CMSD-Dynamic: \"shield\";rd=7";
        let origin = Origin::serve(move |request: &Request| {
            let bytes = if request.target() == "/large.m4s" { 100_000 } else { 1000 };
            response("200 OK", &[HOUR, said, "CMSD-Static: ot=v,br=2500"], pattern(1, 0..bytes))
        });
        let node = Setup::of(&origin).and("[media]\ncmsd = true\n").start();
        let dynamic = async |target: &str| {
            let answer = get(&node, target).await;
            assert_eq!(answer.field("cmsd-static"), Some("ot=v,br=2500"));
            answer.field("cmsd-dynamic").unwrap().to_owned()
        };
        // Of a response that has just come both ways are true, of a stored one the second.
        let first = dynamic("/small.m4s").await;
        let rest = first.strip_prefix("\"shield\";rd=7, \"freshet\";rd=").unwrap();
        assert!(rest.parse::<u64>().is_ok(), "{first}");
        let second = dynamic("/small.m4s").await;
        assert!(second.starts_with("\"freshet\";rd="), "{second}");
        let first = dynamic("/large.m4s").await;
        assert!(first.starts_with("\"shield\";rd=7, \"freshet\";etp="), "{first}");
        let second = dynamic("/large.m4s").await;
        let keys: Vec<&str> =
            second.split(';').map(|part| part.split('=').next().unwrap()).collect();
        assert_eq!(keys, ["\"freshet\"", "etp", "rd", "rtt"], "{second}");
        assert!(!second.contains("etp=0"), "{second}");
        // Nobody is told who did not ask for it.
        let silent = TestNode::before(&origin);
        let answer = get(&silent, "/small.m4s").await;
        assert_eq!(answer.field("cmsd-dynamic"), Some("\"shield\";rd=7"));
    });
}

#[test]
fn players_are_steered_and_told_the_time() {
    run(async {
        let origin = Origin::serve(|_: &Request| response("200 OK", &[HOUR], pattern(1, 0..100)));
        let settings = "[media]\nclock = \"/time\"\nsteering = \"/steering\"\n\
             steering_ttl = \"30s\"\n[cors]\norigins = [\"*\"]\n\
             [[pathway]]\nid = \"spare\"\nweight = 0\n\
             [[pathway]]\nid = \"a\"\nweight = 3\n\
             [[pathway]]\nid = \"b\"\nclone_of = \"a\"\nhost = \"b.example\"\n";
        let node = Setup::of(&origin).and(settings).start();
        let told = async |node: &TestNode, target: &str| {
            let answer = get_with(node, target, &["Origin: https://player.example"]).await;
            assert_eq!(answer.field("access-control-allow-origin"), Some("*"));
            assert_eq!(answer.field("content-type"), Some("application/json"));
            assert_eq!(answer.field("cache-control"), Some("no-store"));
            let told: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
            assert_eq!((&told["VERSION"], &told["TTL"]), (&1.into(), &30.into()));
            let clone = serde_json::json!({
                "BASE-ID": "a", "ID": "b", "URI-REPLACEMENT": { "HOST": "b.example" },
            });
            assert_eq!(told["PATHWAY-CLONES"], serde_json::json!([clone]));
            let next = told["RELOAD-URI"].as_str().unwrap().to_owned();
            let order: Vec<String> =
                serde_json::from_value(told["PATHWAY-PRIORITY"].clone()).unwrap();
            (order, next)
        };
        let mut first = 0;
        for _ in 0..200 {
            let (order, next) = told(&node, "/steering?_HLS_pathway=%22a%22").await;
            assert_eq!(order[2], "spare");
            first += u32::from(order[0] == "a");
            // Who asks again keeps to its pathway.
            let again = format!("{next}&_HLS_pathway=%22a%22&_HLS_throughput=5140000");
            assert_eq!(told(&node, &again).await, (order, next));
        }
        // 150 are meant to; the chance of a miss by 45, seven standard deviations, is 10^-12.
        assert!((105..195).contains(&first), "{first} of 200 begin with three quarters");
        // What is no session of ours is none.
        let (_, next) = told(&node, "/steering?session=%22%7D&session").await;
        assert!(!next.contains('%'), "{next}");
        let answer = get(&node, "/time").await;
        let at = freshet_media::mpd::time::instant(&answer.text()).unwrap();
        let off = freshet_base::clock::UnixMillis::now().0.abs_diff(at.0);
        assert!(off < 60_000, "{}", answer.text());
        assert_eq!(origin.count(), 0);
        // Anything else there is the origin's.
        assert_eq!(get(&node, "/times").await.body.len(), 100);
        // Under VCL it is the same, and `vcl_deliver` sees it.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.vcl");
        let vcl = "vcl 4.1; backend gone none; sub vcl_deliver { set resp.http.seen = \"yes\"; }";
        std::fs::write(&path, vcl).unwrap();
        let settings = settings.replace("[cors]\norigins = [\"*\"]\n", "");
        let setup = Setup { origins: String::new(), ..Setup::of(&origin) }.and(&settings);
        let listen = format!("vcl = \"{}\"\n{}", path.display(), setup.listen);
        let node = Setup { listen, ..setup }.start();
        let answer = get(&node, "/steering").await;
        assert_eq!((answer.field("seen"), answer.status), (Some("yes"), 200));
        assert!(answer.text().starts_with("{\"VERSION\":1,"));
    });
}

#[test]
fn playlists_that_are_packed_here_are_read_all_the_same() {
    run(async {
        let origin = channel();
        let node = Setup::of(&origin).and("[cache]\ngzip = true\n").start();
        assert_eq!(get(&node, "/c/v.m3u8").await.text(), playlist(10, 5, ""));
        assert_eq!(node.count("gzips"), 1);
        assert_eq!((node.count("media_manifests"), node.count("media_unreadable")), (1, 0));
        assert!(life(&node, "/c/14.m4s").await <= 22);
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

#[test]
fn the_access_log_says_what_players_say() {
    run(async {
        let origin = Origin::serve(|_: &Request| response("200 OK", &[HOUR], "x"));
        for (format, lines) in [
            (
                "json",
                [
                    "\"cmcd\":{\"bl\":2900,\"sid\":\"one\"},\"status\"",
                    "\"referer\":\"\",\"status\"",
                ],
            ),
            ("%U %{cmcd.bl}x %{cmcd.sid}x", ["/a 2900 one", "/b - -"]),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            let log =
                format!("[log]\naccess = \"{}\"\nformat = \"{format}\"\n", file.path().display());
            let node = Setup::of(&origin).and(&log).start();
            get_with(&node, "/a", &["CMCD-Request: bl=2900", "CMCD-Session: sid=\"one\""]).await;
            get(&node, "/b").await;
            let text = || std::fs::read_to_string(file.path()).unwrap();
            until(|| text().lines().count() == 2).await;
            for line in lines {
                assert!(text().contains(line), "{line} in {}", text());
            }
        }
    });
}

#[test]
fn a_policy_sees_what_players_say_and_what_a_manifest_names() {
    run(async {
        let origin = channel();
        let vcl = "sub vcl_backend_response { set beresp.http.Kind = beresp.media_kind; }
             sub vcl_deliver {
               set resp.http.Says = \"<\" + req.cmcd.bl + \"|\" + req.cmcd.sid + \"|\" + req.cmcd.nor + \">\";
               if (req.cmcd.su) { set resp.http.Starts = \"yes\"; }
             }";
        let governed = governed(&origin, vcl);
        let node = &governed.node;
        get(node, "/c/v.m3u8").await;
        let says = ["CMCD-Request: bl=1200,su", "CMCD-Session: sid=\"a\""];
        let answer = get_with(node, "/c/13.m4s", &says).await;
        assert_eq!(answer.field("says"), Some("<1200|a|>"));
        assert_eq!((answer.field("starts"), answer.field("kind")), (Some("yes"), Some("segment")));
        let answer = get(node, "/c/init.mp4?CMCD=bl%3D7").await;
        assert_eq!((answer.field("says"), answer.field("starts")), (Some("<7||>"), None));
        assert_eq!(get(node, "/c/init.mp4").await.field("kind"), Some("init"));
        assert_eq!(get(node, "/other.m4s").await.field("kind"), Some(""));
    });
}

#[test]
fn news_under_a_policy_are_shared_by_its_own_keys() {
    run(async {
        let mut origin = Origin::scripted();
        let vcl =
            "sub vcl_hash { hash_data(req.url); hash_data(req.http.Tenant); return (lookup); }";
        let governed = governed(&origin, vcl);
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

#[test]
fn who_begins_while_an_origin_is_away_is_told_to_come_again() {
    run(async {
        // Segments of a tenth of a second, so that what is old is so soon: `/short` is of use for two
        // of them, `/long` for a minute.
        let origin = Origin::serve(|asked: &Request| {
            let count = if asked.target().starts_with("/short") { 2 } else { 600 };
            let mut text =
                "#EXTM3U\n#EXT-X-TARGETDURATION:0.1\n#EXT-X-MEDIA-SEQUENCE:7\n".to_owned();
            (0..count).for_each(|number| text.push_str(&format!("#EXTINF:0.1,\n{number}.ts\n")));
            response("200 OK", &[HOUR, HLS], text)
        });
        let cache = "[media]\nahead = 0\n[cache]\nstale_if_error = \"1h\"\n";
        let node = Setup::of(&origin).and(cache).start();
        let one = ["CMCD-Session: sid=\"one\""];
        assert_eq!(get_with(&node, "/long/v.m3u8", &one).await.status, 200);
        assert_eq!(get(&node, "/short/v.m3u8").await.status, 200);
        node.counted("cmcd_requests", 1).await;
        drop(origin);
        let away = loop {
            let answer = get(&node, "/short/v.m3u8").await;
            if answer.status != 200 {
                break answer;
            }
        };
        assert_eq!((away.status, away.field("retry-after")), (503, Some("5")));
        // It is a second old by now or soon: too old to begin with, and who plays already goes on.
        let mut begun = 0;
        loop {
            begun += 1;
            let session = format!("CMCD-Session: sid=\"new {begun}\"");
            let answer = get_with(&node, "/long/v.m3u8", &[&session]).await;
            if answer.status != 200 {
                assert_eq!((answer.status, answer.field("retry-after")), (503, Some("5")));
                // And stays so for that session.
                assert_eq!(get_with(&node, "/long/v.m3u8", &[&session]).await.status, 503);
                break;
            }
        }
        assert_eq!(get_with(&node, "/long/v.m3u8", &one).await.status, 200);
        assert_eq!(get(&node, "/long/v.m3u8").await.status, 200, "it says nothing of itself");
        assert!(node.count("media_away") >= 3);
    });
}
