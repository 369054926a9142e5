//! How long what a manifest names is kept, and where, and what becomes of manifests that break.

use super::{HLS, HOUR, channel, life, playlist};
use crate::client::{get, get_with};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, Request, head, response};
use flate2::Compression;
use flate2::write::GzEncoder;
use freshet_base::clock::UnixMillis;
use freshet_media::mpd::time::instant_text;
use std::io::Write as _;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

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

/// Objects a node writes to its disk while these are watched, of an origin; `least` of them are waited for.
async fn written(origin: &Origin, media: &str, targets: &[String], least: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = format!("[[store]]\npath = \"{}\"\nsize = \"256MiB\"\n", path.display());
    let media = format!("[media]\n{media}");
    // That something leaves soon is not to be what keeps it off the disk.
    let node = Setup::of(origin).and(&store).and("[stores]\nttl_min = \"5s\"").and(&media).start();
    for _ in 0..3 {
        for target in targets {
            assert_eq!(get(&node, target).await.status, 200);
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
    node.drain_disks();
    written()
}

#[test]
fn live_segments_are_on_no_disk_and_films_are() {
    run(async {
        let segments = (10..15).map(|number| format!("/c/{number}.m4s"));
        let targets: Vec<_> = iter::once("/c/v.m3u8".to_owned()).chain(segments).collect();
        let written = async |media: &str, want| {
            assert_eq!(written(&channel(), media, &targets, want).await, want, "{media}");
        };
        // The film's playlist and its segment; all of it.
        written("ahead = 0\n", 2).await;
        written("ahead = 0\nread = false\n", 8).await;
        // Where a rule goes by what it is, that counts: five segments besides, but no playlist that lives for a second.
        let rule = |class, at| format!("[[storage]]\nmedia = \"{class}\"\nclass = \"{at}\"\n");
        written(&format!("ahead = 0\n{}", rule("live", "disk")), 7).await;
        written(&format!("ahead = 0\n{}", rule("dvr", "disk")), 2).await;
        // A film is one once its playlist has been read.
        written(&rule("vod", "ram"), 1).await;
    });
}

/// A channel of DASH that reaches back this far, whose segments of 100 s are told by the clock, and what a player
/// takes of it: the MPD, what starts the decoder, and three segments that end so many before the newest.
fn channel_of_dash(depth: &str, before_newest: u64) -> (Origin, Vec<String>) {
    let begun = UnixMillis(UnixMillis::now().0 - 86_400_000);
    let mpd = format!(
        "<MPD type='dynamic' availabilityStartTime='{}' timeShiftBufferDepth='{depth}' \
         minimumUpdatePeriod='PT2S' maxSegmentDuration='PT100S'><Period start='PT0S'><AdaptationSet>\
         <SegmentTemplate initialization='i.mp4' media='v$Number$.m4s' startNumber='0' \
         duration='100'/><Representation id='v'/></AdaptationSet></Period></MPD>",
        instant_text(begun)
    );
    let origin = Origin::serve(move |asked: &Request| match asked.target() {
        "/c/live.mpd" => response("200 OK", &[HOUR, "Content-Type: application/dash+xml"], &mpd),
        "/c/ended.m3u8" => response("200 OK", &[HOUR, HLS], playlist(0, 5, "#EXT-X-ENDLIST\n")),
        _ => response("200 OK", &[HOUR], pattern(1, 0..20_000)),
    });
    let newest = 86_400 / 100 - 1 - before_newest;
    let segments = (newest - 2..=newest).map(|number| format!("/c/v{number}.m4s"));
    (origin, ["/c/live.mpd", "/c/i.mp4"].map(str::to_owned).into_iter().chain(segments).collect())
}

#[test]
fn of_dash_as_well_what_is_live_is_on_no_disk() {
    run(async {
        // Besides a film's playlist and its segment, with what starts a decoder where that is wanted for hours.
        for (depth, before_newest, media, want) in [
            ("PT5M", 0, "", 2),
            ("PT4H", 0, "", 3),
            ("PT4H", 20, "", 6),
            ("PT5M", 0, "read = false\n", 7),
        ] {
            let (origin, targets) = channel_of_dash(depth, before_newest);
            let written = written(&origin, &format!("ahead = 0\n{media}"), &targets, want).await;
            assert_eq!(written, want, "{depth}, {before_newest} behind the newest, {media}");
        }
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
fn a_playlist_whose_beginning_is_asked_for_is_fetched_whole() {
    run(async {
        let first = Arc::new(AtomicU64::new(10));
        let now = Arc::clone(&first);
        let origin = Origin::serve(move |asked: &Request| {
            let text = playlist(now.load(SeqCst), 5, "");
            let part = |end: usize| {
                let range = format!("Content-Range: bytes 0-{}/{}", end - 1, text.len());
                response("206 Partial Content", &[HOUR, HLS, &range], &text[..end])
            };
            match asked.field("range") {
                Some("bytes=0-") => part(text.len()),
                Some("bytes=0-1") => part(2),
                _ => response("200 OK", &[HOUR, HLS], &text),
            }
        });
        for (range, end) in [("Range: bytes=0-", None), ("Range: bytes=0-1", Some(2))] {
            first.store(10, SeqCst);
            let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
            for target in ["/c/v.m3u8", "/c/no-path"] {
                let text = playlist(10, 5, "");
                let part = get_with(&node, target, &[range]).await;
                assert_eq!(
                    (part.status, part.text()),
                    (206, text[..end.unwrap_or(text.len())].into())
                );
                assert!(life(&node, target).await <= 1, "{target}");
            }
            first.store(11, SeqCst);
            until_text(&node, "/c/v.m3u8", &playlist(11, 5, "")).await;
        }
    });
}

/// Asks until what comes is this, and whole.
async fn until_text(node: &TestNode, target: &str, text: &str) {
    loop {
        let answer = get(node, target).await;
        assert!(answer.complete && answer.status == 200);
        if answer.text() == text {
            return;
        }
    }
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
fn what_a_packager_has_just_written_is_shared_unless_it_is_to_be_asked_for() {
    run(async {
        let asked = Arc::new(AtomicU64::new(0));
        let (counted, is_away) = (Arc::clone(&asked), Arc::new(AtomicBool::new(false)));
        let failed = Arc::new(AtomicU64::new(0));
        let (fails, refused) = (Arc::clone(&is_away), Arc::clone(&failed));
        let origin = Origin::serve(move |asked: &Request| {
            let target = asked.target();
            if fails.load(SeqCst) {
                refused.fetch_add(1, SeqCst);
                return response("503 Service Unavailable", &["Cache-Control: no-store"], "");
            }
            counted.fetch_add(u64::from(target.ends_with(".m4s")), SeqCst);
            let mut fields = vec!["ETag: \"a\""];
            fields.extend(target.starts_with("/no-cache").then_some("Cache-Control: no-cache"));
            if !target.ends_with(".m3u8") {
                return response("200 OK", &fields, pattern(1, 0..2000));
            }
            fields.push(HLS);
            response("200 OK", &fields, playlist(10, 5, ""))
        });
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        for (folder, most) in [("/plain", 1), ("/no-cache", 5)] {
            for _ in 0..2 {
                assert_eq!(get(&node, &format!("{folder}/v.m3u8")).await.status, 200);
            }
            let before = asked.load(SeqCst);
            for _ in 0..5 {
                assert_eq!(get(&node, &format!("{folder}/14.m4s")).await.status, 200);
            }
            assert_eq!(asked.load(SeqCst) - before, most, "{folder}");
        }
        // While the origin is away the last playlist is served for its window, where it may be.
        is_away.store(true, SeqCst);
        while failed.load(SeqCst) == 0 {
            assert_eq!(get(&node, "/plain/v.m3u8").await.status, 200);
        }
        assert_eq!(get(&node, "/plain/v.m3u8").await.status, 200);
        assert_eq!(get(&node, "/no-cache/v.m3u8").await.status, 503);
    });
}

#[test]
fn rules_and_policies_have_the_last_word() {
    run(async {
        let origin = Origin::serve(|asked: &Request| match asked.target() {
            target if target.ends_with(".m3u8") => {
                response("200 OK", &[HOUR, HLS], playlist(10, 5, ""))
            }
            _ => response("200 OK", &[HOUR], pattern(1, 0..20_000)),
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.vcl");
        let vcl = format!(
            "vcl 4.1;\nbackend default {{ .host = \"{}\"; .port = \"{}\"; }}\n\
             sub vcl_backend_response {{\n\
               set beresp.http.X-Class = \"<\" + beresp.media_class + \">\" + beresp.ttl;\n\
               if (bereq.url ~ \"/14|own\") {{ set beresp.ttl = 100s; }}\n\
             }}\n\
             sub vcl_deliver {{ set resp.http.X-Left = obj.ttl; }}\n",
            "127.0.0.1",
            origin.url().rsplit(':').next().unwrap()
        );
        std::fs::write(&path, vcl).unwrap();
        let setup = Setup { origins: String::new(), ..Setup::of(&origin) };
        let listen = format!("vcl = \"{}\"\n{}", path.display(), setup.listen);
        let node = Setup { listen, ..setup }.start();
        // What the policy leaves as it is lives as a playlist from the first one on.
        for (target, least, most) in [("/c/v.m3u8", -100.0, 1.0), ("/d/own.m3u8", 50.0, 100.0)] {
            get(&node, target).await;
            let left = get(&node, target).await;
            let left: f64 = left.field("x-left").unwrap().parse().unwrap();
            assert!((least..=most).contains(&left), "{target}: {left}");
        }
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

#[test]
fn playlists_that_are_packed_here_are_read_all_the_same() {
    run(async {
        let origin = channel();
        let node = Setup::of(&origin).and("[cache]\ngzip = true\n").start();
        for _ in 0..3 {
            assert_eq!(get(&node, "/c/v.m3u8").await.text(), playlist(10, 5, ""));
        }
        assert_eq!(node.count("gzips"), 1);
        assert_eq!((node.count("media_manifests"), node.count("media_unreadable")), (1, 0));
        assert!(life(&node, "/c/14.m4s").await <= 22);
    });
}
