//! What comes next in films is fetched before a player asks for it.

use super::{HLS, HOUR};
use crate::client::{get, get_with};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, Request, response};
use crate::vcl::{backend, governed, governed_with};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A film of three segments.
const FILM: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-PLAYLIST-TYPE:VOD\n\
    #EXT-X-MAP:URI=\"init.mp4\"\n#EXTINF:2,\n0.m4s\n#EXTINF:2,\n1.m4s\n#EXTINF:2,\n2.m4s\n\
    #EXT-X-ENDLIST\n";

const ETAG: &str = "ETag: \"a\"";

/// An origin whose playlists and manifests are this, and all else segments.
fn origin(text: &'static str) -> Origin {
    Origin::serve(move |asked: &Request| {
        let path = asked.target().split('?').next().unwrap();
        match path.rsplit('.').next() {
            Some("m3u8") => response("200 OK", &[HOUR, HLS], text),
            Some("mpd") => response("200 OK", &[HOUR, "Content-Type: application/dash+xml"], text),
            _ => part(asked, 10_000),
        }
    })
}

/// What is asked for of a file of so many bytes.
fn part(asked: &Request, total: u64) -> Vec<u8> {
    let Some((first, last)) = asked.range() else {
        return response("200 OK", &[HOUR, ETAG], pattern(1, 0..total));
    };
    let range = format!("Content-Range: bytes {first}-{last}/{total}");
    response("206 Partial Content", &[HOUR, ETAG, &range], pattern(1, first..last + 1))
}

/// What the origin was asked for, targets and ranges, in the order of the alphabet.
fn asked(origin: &Origin) -> Vec<String> {
    let of = |asked: &Request| {
        let range = asked.field("range").map(|range| range.replace("bytes=", " "));
        format!("{}{}", asked.target(), range.unwrap_or_default())
    };
    let mut asked: Vec<_> = origin.requests().iter().map(of).collect();
    asked.sort_unstable();
    asked
}

/// A player gets this, and this is asked for by itself then.
async fn leads_to(node: &TestNode, origin: &Origin, target: &str, next: &[&str]) {
    assert_eq!(get(node, target).await.status, 200, "{target}");
    until(|| next.iter().all(|next| asked(origin).iter().any(|asked| asked == next))).await;
}

#[test]
fn the_next_segment_is_there_while_a_film_plays() {
    run(async {
        let origin = origin(FILM);
        let node = TestNode::before(&origin);
        leads_to(&node, &origin, "/f/v.m3u8", &["/f/0.m4s", "/f/init.mp4"]).await;
        leads_to(&node, &origin, "/f/0.m4s", &["/f/1.m4s"]).await;
        // What was fetched ahead leads on, and players find it.
        let answer = get(&node, "/f/1.m4s").await;
        assert!(answer.cache().contains("hit") && answer.body == pattern(1, 0..10_000));
        until(|| asked(&origin).len() == 5).await;
        for target in ["/f/2.m4s", "/f/init.mp4", "/f/v.m3u8", "/f/0.m4s"] {
            assert!(get(&node, target).await.cache().contains("hit"), "{target}");
        }
        let want = ["/f/0.m4s", "/f/1.m4s", "/f/2.m4s", "/f/init.mp4", "/f/v.m3u8"];
        assert_eq!(asked(&origin), want, "each once, and nothing behind the last");
        assert_eq!(node.count("media_ahead_fetches"), 4);
    });
}

#[test]
fn a_player_that_leaves_costs_a_segment_and_one_that_jumps_leads_on() {
    run(async {
        let origin = origin(FILM);
        let node = Setup { workers: 1, ..Setup::of(&origin) }.start();
        leads_to(&node, &origin, "/f/v.m3u8", &["/f/0.m4s", "/f/init.mp4"]).await;
        leads_to(&node, &origin, "/f/1.m4s", &["/f/2.m4s"]).await;
        // Another playlist's is its own, also where names are alike.
        leads_to(&node, &origin, "/g/v.m3u8", &["/g/0.m4s", "/g/init.mp4"]).await;
        // What answers an error leads to nothing, nor does what is no film's.
        assert_eq!(get(&node, "/f/9.m4s").await.status, 200);
        let want = ["/f/0.m4s", "/f/1.m4s", "/f/2.m4s", "/f/9.m4s", "/f/init.mp4", "/f/v.m3u8"];
        assert_eq!(asked(&origin)[..6], want);
        assert_eq!((origin.count(), node.count("media_ahead_fetches")), (9, 5));
    });
}

#[test]
fn a_site_that_fetches_nothing_ahead_knows_no_films() {
    run(async {
        let origin = origin(FILM);
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        for target in ["/f/v.m3u8", "/f/init.mp4", "/f/0.m4s"] {
            assert_eq!(get(&node, target).await.status, 200);
        }
        assert_eq!((origin.count(), node.count("media_ahead_fetches")), (3, 0));
    });
}

/// Segments that are parts of one file.
const PARTS: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-PLAYLIST-TYPE:VOD\n\
    #EXT-X-MAP:URI=\"f.mp4\",BYTERANGE=\"500@0\"\n#EXTINF:2,\n#EXT-X-BYTERANGE:1500@500\nf.mp4\n\
    #EXTINF:2,\n#EXT-X-BYTERANGE:3000\nf.mp4\n#EXTINF:2,\n#EXT-X-BYTERANGE:2000\nf.mp4\n\
    #EXT-X-ENDLIST\n";

/// A player gets these bytes of a file.
async fn get_part(node: &TestNode, target: &str, first: u64, last: u64) -> String {
    let range = format!("Range: bytes={first}-{last}");
    let answer = get_with(node, target, &[&range]).await;
    assert_eq!(answer.status, 206);
    assert!(answer.body == pattern(1, first..last + 1), "{first}-{last}");
    answer.cache().to_owned()
}

#[test]
fn segments_that_are_parts_of_a_file_are_fetched_as_parts() {
    run(async {
        let origin = origin(PARTS);
        let node = TestNode::before(&origin);
        // What lies side by side is one request.
        leads_to(&node, &origin, "/f/v.m3u8", &["/f/f.mp4 0-1999"]).await;
        get_part(&node, "/f/f.mp4", 0, 499).await;
        get_part(&node, "/f/f.mp4", 500, 1999).await;
        until(|| asked(&origin).len() == 3).await;
        get_part(&node, "/f/f.mp4", 2000, 4999).await;
        until(|| asked(&origin).len() == 4).await;
        let cache = get_part(&node, "/f/f.mp4", 5000, 6999).await;
        assert!(cache.contains("hit"), "{cache}");
        let want = ["/f/f.mp4 0-1999", "/f/f.mp4 2000-4999", "/f/f.mp4 5000-6999", "/f/v.m3u8"];
        assert_eq!(asked(&origin), want);
        assert_eq!(node.count("media_ahead_fetches"), 3);
    });
}

#[test]
fn all_of_a_file_is_not_taken_for_a_part_of_it() {
    run(async {
        // This origin knows no ranges.
        let origin = Origin::serve(|asked: &Request| {
            if asked.target().ends_with(".m3u8") {
                return response("200 OK", &[HOUR, HLS], PARTS);
            }
            response("200 OK", &[HOUR, ETAG], pattern(1, 0..10_000))
        });
        let node = TestNode::before(&origin);
        leads_to(&node, &origin, "/f/v.m3u8", &["/f/f.mp4 0-1999"]).await;
        assert_eq!(node.count("media_ahead_fetches"), 1);
        // A player that wants it gets it.
        assert_eq!(get(&node, "/f/f.mp4").await.body, pattern(1, 0..10_000));
    });
}

#[test]
fn a_channel_of_parts_of_files_is_fetched_ahead_by_parts() {
    run(async {
        let newest = Arc::new(AtomicU64::new(2));
        let count = Arc::clone(&newest);
        let origin = Origin::serve(move |asked: &Request| {
            if !asked.target().ends_with(".m3u8") {
                return part(asked, 10_000);
            }
            let count = count.load(SeqCst);
            let mut text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n".to_owned();
            for number in 0..count {
                text.push_str(&format!("#EXTINF:2,\n#EXT-X-BYTERANGE:1000@{number}000\nc.ts\n"));
            }
            response("200 OK", &["Cache-Control: max-age=0", HLS], text)
        });
        let node = TestNode::before(&origin);
        leads_to(&node, &origin, "/c/v.m3u8", &["/c/c.ts 1000-1999"]).await;
        let cache = get_part(&node, "/c/c.ts", 1000, 1999).await;
        assert!(cache.contains("hit"), "{cache}");
        leads_to(&node, &origin, "/c/v.m3u8", &["/c/c.ts 1000-1999"]).await;
        assert_eq!(node.count("media_ahead_fetches"), 1, "it says nothing new");
        newest.store(3, SeqCst);
        leads_to(&node, &origin, "/c/v.m3u8", &["/c/c.ts 2000-2999"]).await;
        get_part(&node, "/c/c.ts", 2000, 2999).await;
        assert_eq!(asked(&origin).iter().filter(|asked| asked.starts_with("/c/c.ts")).count(), 2);
    });
}

/// Segments of a file when its playlist ends.
const LAST: u64 = 6;

#[test]
fn a_file_that_a_packager_writes_on_to_is_as_long_as_its_playlist_says() {
    run(async {
        let newest = Arc::new(AtomicU64::new(2));
        let count = Arc::clone(&newest);
        let origin = Origin::serve(move |asked: &Request| {
            let count = count.load(SeqCst);
            if !asked.target().ends_with(".m3u8") {
                let (first, last) = asked.range().unwrap();
                let total = count * 1000;
                if last >= total {
                    return response("416 Range Not Satisfiable", &[], "");
                }
                let etag = format!("ETag: \"{count}\"");
                let range = format!("Content-Range: bytes {first}-{last}/{total}");
                return response(
                    "206 Partial Content",
                    &[HOUR, &etag, &range],
                    pattern(1, first..last + 1),
                );
            }
            let mut text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n".to_owned();
            for number in 0..count {
                text.push_str(&format!("#EXTINF:2,\n#EXT-X-BYTERANGE:1000@{number}000\nc.ts\n"));
            }
            if count == LAST {
                text.push_str("#EXT-X-ENDLIST\n");
            }
            response("200 OK", &["Cache-Control: max-age=0", HLS], text)
        });
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        for count in 2..=LAST {
            newest.store(count, SeqCst);
            assert_eq!(get(&node, "/c/v.m3u8").await.status, 200);
            let (first, last) = (count * 1000 - 1000, count * 1000 - 1);
            let cache = get_part(&node, "/c/c.ts", first, last).await;
            assert!(!cache.contains("hit"), "{cache}");
            let cache = get_part(&node, "/c/c.ts", first, last).await;
            assert!(cache.contains("hit"), "{cache}");
        }
        let beyond = get_with(&node, "/c/c.ts", &["Range: bytes=9000-9999"]).await;
        assert_eq!(beyond.status, 416, "no playlist names it");
        assert_eq!(asked(&origin).iter().filter(|asked| asked.starts_with("/c/c.ts")).count(), 5);
    });
}

#[test]
fn films_of_dash_are_followed_by_number_time_and_list() {
    run(async {
        let text = "<MPD type='static' mediaPresentationDuration='PT6S'><Period><AdaptationSet>\
             <SegmentTemplate media='$RepresentationID$/$Number$.m4s' duration='2' \
             initialization='$RepresentationID$/i.mp4'/><Representation id='a'/>\
             <Representation id='b'/></AdaptationSet><AdaptationSet>\
             <SegmentTemplate media='t/$Time$.m4s' initialization='t/i.mp4'><SegmentTimeline>\
             <S t='0' d='3'/><S d='2'/></SegmentTimeline></SegmentTemplate><Representation id='t'/>\
             </AdaptationSet><AdaptationSet><Representation><BaseURL>list.mp4</BaseURL>\
             <SegmentList duration='3'><Initialization range='0-99'/>\
             <SegmentURL mediaRange='100-199'/><SegmentURL mediaRange='200-499'/></SegmentList>\
             </Representation><Representation><BaseURL>one.mp4</BaseURL>\
             <SegmentBase indexRange='80-99'><Initialization range='0-79'/></SegmentBase>\
             </Representation></AdaptationSet></Period></MPD>";
        let origin = origin(text);
        let node = TestNode::before(&origin);
        // What starts a decoder of each, with the index of what has one.
        let starts =
            ["/f/a/i.mp4", "/f/b/i.mp4", "/f/t/i.mp4", "/f/list.mp4 0-99", "/f/one.mp4 0-99"];
        leads_to(&node, &origin, "/f/film.mpd", &starts).await;
        leads_to(&node, &origin, "/f/a/i.mp4", &["/f/a/1.m4s"]).await;
        leads_to(&node, &origin, "/f/a/1.m4s", &["/f/a/2.m4s"]).await;
        leads_to(&node, &origin, "/f/a/2.m4s", &["/f/a/3.m4s"]).await;
        leads_to(&node, &origin, "/f/t/0.m4s", &["/f/t/3.m4s"]).await;
        get_part(&node, "/f/list.mp4", 0, 99).await;
        until(|| asked(&origin).contains(&"/f/list.mp4 100-199".to_owned())).await;
        get_part(&node, "/f/list.mp4", 100, 199).await;
        until(|| asked(&origin).contains(&"/f/list.mp4 200-499".to_owned())).await;
        // There is nothing behind the last.
        for target in ["/f/a/3.m4s", "/f/t/3.m4s"] {
            assert!(get(&node, target).await.cache().contains("hit"), "{target}");
        }
        get_part(&node, "/f/list.mp4", 200, 499).await;
        assert_eq!((origin.count(), node.count("media_ahead_fetches")), (13, 11));
    });
}

#[test]
fn a_policy_receives_what_nobody_has_asked_for_and_can_tell() {
    run(async {
        let other = origin(FILM);
        let origin = origin(FILM);
        let vcl = backend("other", &other)
            + r#"
            sub vcl_recv {
                set req.http.X-Ahead = req.media_ahead;
                if (req.http.X-Forwarded-For ~ ",") { return (synth(500)); }
                if (req.url ~ "/2\.m4s$") { return (pass); }
                set req.url = "/films" + req.url;
                if (req.url ~ "/1\.m4s$") { set req.backend_hint = other; }
            }
            sub vcl_hash { hash_data(req.url); hash_data(req.http.Tenant); return (lookup); }
            sub vcl_backend_fetch {
                set bereq.http.X-Fetch = bereq.media_ahead;
                set bereq.http.X-Tenant = bereq.http.Tenant;
            }
            sub vcl_backend_response { set beresp.http.X-Kept = "yes"; }
            "#;
        let governed = governed(&origin, &vcl);
        let node = &governed.node;
        let tenant = async |target: &str| get_with(node, target, &["Tenant: a"]).await;
        assert_eq!(tenant("/f/v.m3u8").await.status, 200);
        until(|| asked(&origin).len() == 3).await;
        let want = ["/films/f/0.m4s", "/films/f/init.mp4", "/films/f/v.m3u8"];
        assert_eq!(asked(&origin), want);
        for asked in origin.requests() {
            let is_ahead = if asked.target().ends_with("v.m3u8") { "false" } else { "true" };
            assert_eq!(asked.field("x-ahead"), Some(is_ahead), "{}", asked.target());
            assert_eq!(asked.field("x-fetch"), Some(is_ahead), "{}", asked.target());
            assert_eq!(asked.field("x-tenant"), Some("a"));
        }
        // It is in the cache under the key that the policy makes, and from the backend it names.
        let first = tenant("/f/0.m4s").await;
        assert_eq!((first.status, first.field("x-kept")), (200, Some("yes")));
        until(|| other.count() == 1).await;
        assert_eq!(asked(&other), ["/films/f/1.m4s"]);
        assert_eq!(tenant("/f/1.m4s").await.status, 200);
        // What it passes is not fetched ahead.
        assert_eq!(tenant("/f/2.m4s").await.status, 200);
        assert_eq!((origin.count(), other.count()), (4, 1));
        assert_eq!(node.count("media_ahead_fetches"), 3);
        // Another tenant's is not this one's.
        assert_eq!(get_with(node, "/f/0.m4s", &["Tenant: b"]).await.status, 200);
        assert_eq!(origin.count(), 5);
    });
}

#[test]
fn channels_are_fetched_ahead_under_a_policy() {
    run(async {
        let live = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:7\n#EXTINF:2,\n7.m4s\n\
                    #EXTINF:2,\n8.m4s\n";
        let origin = Origin::serve(move |asked: &Request| {
            let text = if asked.target().ends_with(".m3u8") { live } else { "a segment" };
            response("200 OK", &[HOUR, HLS], text)
        });
        let vcl = "sub vcl_recv { set req.url = regsub(req.url, \"^/tv\", \"\"); }
                   sub vcl_miss { if (req.url ~ \"refused\") { return (pass); } }";
        let node = governed(&origin, vcl);
        leads_to(&node.node, &origin, "/tv/c/v.m3u8", &["/c/8.m4s"]).await;
        assert!(get(&node.node, "/tv/c/8.m4s").await.status == 200);
        assert_eq!(get(&node.node, "/tv/refused/v.m3u8").await.status, 200);
        assert_eq!(origin.count(), 3, "{:?}", asked(&origin));
        let off = governed_with(&origin, vcl, "[media]\nahead = 0\n");
        assert_eq!(get(&off.node, "/tv/c/v.m3u8").await.status, 200);
        assert_eq!((origin.count(), off.node.count("media_ahead_fetches")), (4, 0));
    });
}
