//! What players say of themselves, and what they are told.

use super::{HLS, HOUR, channel, send_segment};
use crate::client::{Client, get, get_with};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, Request, response};
use crate::vcl::governed;
use freshet_node::received::ReceivedSums;

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

/// A batch of reports to the collector.
fn report(body: &str) -> String {
    format!(
        "POST /cmcd?x HTTP/1.1\r\nHost: tv.example\r\nOrigin: https://player.example\r\n\
         Content-Type: application/cmcd\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn what_players_say_of_responses_is_counted() {
    run(async {
        let origin = Origin::serve(|_: &Request| response("200 OK", &[HOUR], "x"));
        let node = Setup::of(&origin).and("[media]\ncmcd_collector = \"/cmcd\"\n").start();
        let mut client = Client::to(&node).await;
        let body = "e=rr,sid=\"a\",rc=200,ttfb=100,ttlb=300,v=2\n\
                    e=rr,sid=\"a\",rc=404,ttfb=300,v=2\ne=ps,sid=\"a\",sta=p,ttfb=9999,v=2\n";
        client.send(report(body).as_bytes()).await;
        assert_eq!(client.answer("POST").await.status, 204);
        let mut sums = ReceivedSums::default();
        node.node.shared.stats.iter().for_each(|worker| worker.received.add_to(&mut sums));
        assert_eq!((sums.responses, sums.failed), (2, 1));
        assert_eq!((sums.first_byte_s(), sums.last_byte_s()), (0.2, 0.3));
    });
}

#[test]
fn who_reports_too_much_comes_later_and_where_nobody_listens_not_again() {
    run(async {
        let origin = Origin::serve(|_: &Request| response("200 OK", &[HOUR], "x"));
        let limit = "[media]\ncmcd_collector = \"/cmcd\"\n\
                     [[rate_limit]]\nname = \"reports\"\npath = \"/cmcd\"\nrate = \"1/h\"\n";
        let off = "[media]\ncmcd_collector = \"/cmcd\"\nread = false\n";
        for (settings, first, second) in [(limit, 204, 429), (off, 410, 410)] {
            let node = Setup::of(&origin).and(settings).start();
            for status in [first, second] {
                let mut client = Client::to(&node).await;
                client.send(report("e=ps,sid=\"a\"\n").as_bytes()).await;
                assert_eq!(client.answer("POST").await.status, status);
            }
            let taken = u64::from(first == 204);
            assert_eq!(node.count("cmcd_reports"), taken);
        }
        assert_eq!(origin.count(), 0);
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
fn players_are_told_what_comes_next() {
    run(async {
        let film = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-PLAYLIST-TYPE:VOD\n#EXTINF:2,\n0.m4s\n\
                    #EXTINF:2,\n/v/1.m4s\n#EXT-X-BYTERANGE:100@500\n#EXTINF:2,\n2.m4s\n#EXT-X-ENDLIST\n";
        let mpd = "<MPD type='dynamic' timeShiftBufferDepth='PT30S' availabilityStartTime='2026-01-01T00:00:00Z'>\
                   <Period><AdaptationSet><SegmentTemplate media='$Number$.m4s' duration='2'/>\
                   <Representation id='v' bandwidth='700000'/></AdaptationSet></Period></MPD>";
        let origin = Origin::serve(move |asked: &Request| match asked.target() {
            "/f/v.m3u8" => response("200 OK", &[HOUR, HLS], film),
            "/d/v.mpd" => response("200 OK", &[HOUR, "Content-Type: application/dash+xml"], mpd),
            "/f/gone" => response("404 Not Found", &[HOUR], ""),
            "/own.m4s" => response("200 OK", &[HOUR, "CMSD-Static: ot=v"], "x"),
            _ => response("200 OK", &[HOUR, "ETag: \"a\""], pattern(1, 0..1000)),
        });
        let node = Setup::of(&origin).and("[media]\ncmsd = true\n").start();
        let told = async |target: &str| {
            let answer = get(&node, target).await;
            answer.field("cmsd-static").map(str::to_owned)
        };
        assert_eq!(told("/f/v.m3u8").await, None);
        assert_eq!(told("/f/0.m4s").await.as_deref(), Some("nor=\"/v/1.m4s\""));
        assert_eq!(told("/v/1.m4s").await.as_deref(), Some("nor=\"/f/2.m4s\",nrr=\"500-599\""));
        assert_eq!((told("/f/gone").await, told("/x.m4s").await), (None, None));
        assert_eq!(told("/own.m4s").await.as_deref(), Some("ot=v"));
        told("/d/v.mpd").await;
        let live = told("/d/41.m4s").await;
        assert_eq!(live.as_deref(), Some("br=700,nor=\"42.m4s\",st=l"));
        // A stored one says the same.
        assert_eq!(told("/f/0.m4s").await.as_deref(), Some("nor=\"/v/1.m4s\""));
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
fn who_is_about_to_stand_still_gets_the_next_connection_to_an_origin() {
    run(async {
        let mut origin = Origin::scripted();
        let patience = "[origins]\nqueue_timeout = \"60s\"\n";
        let mut setup = Setup { workers: 1, ..Setup::of(&origin) }.and(patience);
        setup.origins.push_str("connections_max = 1\n");
        let node = setup.start();
        let waits = |count: u64| {
            let snapshot = node.node.snapshot();
            let origin =
                snapshot.sites.origins().next().map(|(_, origin)| origin.stats.waits.value());
            origin == Some(count)
        };
        let mut clients = Vec::new();
        let says = [
            ("/first", ""),
            ("/usual", "CMCD-Request: bl=9000"),
            ("/soon", "CMCD-Request: bl=100"),
        ];
        for (count, (target, says)) in says.into_iter().enumerate() {
            let mut client = Client::to(&node).await;
            let fields: Vec<&str> =
                Some(says).into_iter().filter(|says| !says.is_empty()).collect();
            client.ask("GET", target, &fields).await;
            until(|| waits(count as u64)).await;
            clients.push(client);
        }
        for target in ["/first", "/soon", "/usual"] {
            let asked = origin.next().await;
            assert_eq!(asked.request.target(), target);
            send_segment(&asked, 100);
        }
        for mut client in clients {
            assert_eq!(client.answer("GET").await.status, 200);
        }
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
               set resp.http.Is = req.http.Is + \"|\" + req.media_sequence;
             }
             sub vcl_recv { set req.http.Is = req.media_class + \"|\" + req.media_kind; }";
        let governed = governed(&origin, vcl);
        let node = &governed.node;
        get(node, "/c/v.m3u8").await;
        let says = ["CMCD-Request: bl=1200,su", "CMCD-Session: sid=\"a\""];
        let answer = get_with(node, "/c/13.m4s", &says).await;
        assert_eq!(answer.field("says"), Some("<1200|a|>"));
        assert_eq!((answer.field("starts"), answer.field("kind")), (Some("yes"), Some("segment")));
        assert_eq!(answer.field("is"), Some("live|segment|13"));
        assert_eq!(get(node, "/c/v.m3u8").await.field("is"), Some("live|manifest|"));
        let answer = get(node, "/c/init.mp4?CMCD=bl%3D7").await;
        assert_eq!((answer.field("says"), answer.field("starts")), (Some("<7||>"), None));
        assert_eq!(get(node, "/c/init.mp4").await.field("kind"), Some("init"));
        let other = get(node, "/other.m4s").await;
        assert_eq!((other.field("kind"), other.field("is")), (Some(""), Some("||")));
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
