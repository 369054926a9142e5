//! What manifests name besides segments, and segments that players ask for in other words.

use crate::client::{Answer, get, get_with};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, Request, response};
use crate::vcl::governed;

const HOUR: &str = "Cache-Control: max-age=3600";
const HLS: &str = "Content-Type: application/vnd.apple.mpegurl";

/// A playlist of three two-second segments under a key.
fn playlist(folder: &str, tags: &str) -> String {
    format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:1\n{tags}\
         #EXT-X-KEY:METHOD=AES-128,URI=\"/keys/{folder}?id=7\"\n\
         #EXTINF:2,\n1.ts\n#EXTINF:2,\n2.ts\n#EXTINF:2,\n3.ts\n"
    )
}

/// An origin of a film, a channel and their keys, everything fresh for an hour.
fn ciphered() -> Origin {
    Origin::serve(|asked: &Request| match asked.target() {
        "/film/v.m3u8" => {
            response("200 OK", &[HOUR, HLS], playlist("film", "#EXT-X-PLAYLIST-TYPE:VOD\n"))
        }
        "/live/v.m3u8" => response("200 OK", &[HOUR, HLS], playlist("live", "")),
        "/all.m3u8" => {
            let text = "#EXTM3U\n#EXT-X-SESSION-KEY:METHOD=AES-128,URI=\"keys/session\"\n\
                        #EXT-X-STREAM-INF:BANDWIDTH=1\nfilm/v.m3u8\n";
            response("200 OK", &[HOUR, HLS], text)
        }
        _ => response("200 OK", &[HOUR], pattern(1, 0..20_000)),
    })
}

/// Seconds of life that are left, of a hit.
async fn life(node: &TestNode, target: &str) -> i64 {
    get(node, target).await;
    let answer = get(node, target).await;
    let status = answer.cache();
    let ttl = status.split("ttl=").nth(1).and_then(|rest| rest.split(';').next());
    ttl.and_then(|ttl| ttl.trim().parse().ok()).unwrap_or_else(|| panic!("no ttl: {status}"))
}

#[test]
fn keys_are_on_no_disk_and_are_not_fetched_ahead() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let origin = ciphered();
        let path = folder.path().join("store");
        let store = format!("[[store]]\npath = \"{}\"\nsize = \"256MiB\"\n", path.display());
        let node = Setup::of(&origin).and(&store).start();
        for playlist in ["/all.m3u8", "/film/v.m3u8", "/live/v.m3u8"] {
            assert_eq!(get(&node, playlist).await.status, 200);
        }
        // What is fetched ahead is the channel's newest segment, and the film's first.
        node.counted("media_ahead_fetches", 2).await;
        let is_key = |asked: &Request| asked.target().starts_with("/keys/");
        assert!(!origin.requests().iter().any(is_key));
        let next = ["CMCD-Request: nor=\"%2Fkeys%2Ffilm%3Fid%3D7\""];
        assert_eq!(get_with(&node, "/film/1.ts", &next).await.status, 200);
        let keys = ["/keys/film?id=7", "/keys/live?id=7", "/keys/session"];
        for key in keys {
            for _ in 0..4 {
                assert_eq!(get(&node, key).await.status, 200);
            }
            // As its origin says, and shared.
            assert!(life(&node, key).await > 3000, "{key}");
        }
        let asked = origin.requests().into_iter().filter(is_key).count();
        assert_eq!((asked, node.count("media_keys")), (keys.len(), 3));
        // What was before it is on the disk before this: two playlists and three segments of films.
        for _ in 0..3 {
            get(&node, "/film/2.ts").await;
        }
        let disks = node.node.shared.disks.clone().unwrap();
        let written = || {
            let volumes = disks.disks().iter().filter_map(|disk| disk.volume());
            volumes.map(|volume| volume.counts().objects_written.value()).sum::<u64>()
        };
        until(|| written() >= 5).await;
        assert_eq!(written(), 5);
    });
}

#[test]
fn a_token_that_a_player_adds_does_not_make_a_segment_nobodys() {
    run(async {
        let origin = ciphered();
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        get(&node, "/live/v.m3u8").await;
        assert!(life(&node, "/live/3.ts?token=a").await <= 14);
        assert!(life(&node, "/live/3.ts").await <= 14);
        // What is not named is as its origin says.
        assert!(life(&node, "/live/9.ts?token=a").await > 3000);
        let kind = |answer: Answer| answer.field("kind").map(str::to_owned);
        let vcl = "sub vcl_backend_response { set beresp.http.Kind = beresp.media_kind; }";
        let governed = governed(&origin, vcl);
        let node = &governed.node;
        get(node, "/live/v.m3u8").await;
        assert_eq!(kind(get(node, "/live/2.ts?t=1").await).as_deref(), Some("segment"));
        assert_eq!(kind(get(node, "/keys/live?id=7").await).as_deref(), Some("key"));
        assert_eq!(kind(get(node, "/keys/live?id=8").await).as_deref(), Some(""));
    });
}

#[test]
fn what_changes_an_mpd_into_the_next_lives_as_the_mpd_does() {
    run(async {
        let mpd = "<MPD type='dynamic' timeShiftBufferDepth='PT30S' minimumUpdatePeriod='PT20S' \
                   maxSegmentDuration='PT2S'><Location>now.mpd</Location>\
                   <PatchLocation>patch?t=1</PatchLocation><Period/></MPD>";
        let origin = Origin::serve(move |asked: &Request| {
            let kind = if asked.target() == "/c/live.mpd" {
                "Content-Type: application/dash+xml"
            } else {
                "Content-Type: application/dash-patch+xml"
            };
            response("200 OK", &[HOUR, kind], mpd)
        });
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        get(&node, "/c/live.mpd").await;
        for target in ["/c/patch?t=1", "/c/now.mpd"] {
            assert!((1..=20).contains(&life(&node, target).await), "{target}");
        }
        assert!(life(&node, "/c/patch?t=2").await > 3000);
    });
}

#[test]
fn what_is_named_is_told_by_number_and_bit_rate() {
    run(async {
        let origin = Origin::serve(|asked: &Request| match asked.target() {
            "/all.m3u8" => {
                let text = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=3200000\nlive/v.m3u8\n";
                response("200 OK", &[HOUR, HLS], text)
            }
            "/live/v.m3u8" => response("200 OK", &[HOUR, HLS], playlist("live", "")),
            "/live/3.ts" => response("200 OK", &[HOUR, "CMSD-Static: ot=v"], "x"),
            _ => response("200 OK", &[HOUR], "x"),
        });
        let vcl = "sub vcl_backend_response {
            set beresp.http.Is = beresp.media_sequence + \"|\" + beresp.media_bitrate;
        }";
        let governed = governed(&origin, vcl);
        let plain = Setup::of(&origin).and("[media]\nahead = 0\ncmsd = true\n").start();
        for node in [&governed.node, &plain] {
            for target in ["/all.m3u8", "/live/v.m3u8"] {
                get(node, target).await;
            }
        }
        for (target, is, told) in [
            ("/live/2.ts", "2|3200", Some("br=3200,d=2000,st=l")),
            ("/live/3.ts", "3|3200", Some("ot=v")),
            ("/keys/live?id=7", "|", Some("ot=k")),
            ("/live/9.ts", "|", None),
        ] {
            assert_eq!(get(&governed.node, target).await.field("is"), Some(is), "{target}");
            for _ in 0..2 {
                assert_eq!(get(&plain, target).await.field("cmsd-static"), told, "{target}");
            }
        }
        let silent = get(&governed.node, "/live/2.ts").await;
        assert_eq!(silent.field("cmsd-static"), None, "it is off");
    });
}
