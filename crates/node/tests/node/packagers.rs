//! A channel that two packagers make, of which one is behind the other: players never go back.

use crate::client::{Answer, get, get_with};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, Request, response};
use crate::vcl::{backend, governed};
use freshet_base::clock::UnixMillis;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Policies that ask the second packager when the first is away, and for each version anew: nothing is
/// kept beyond its time.
const ANEW: &str = "
    sub vcl_backend_fetch { if (bereq.retries > 0) { set bereq.backend = second; } }
    sub vcl_backend_error { if (bereq.retries == 0) { return (retry); } }
    sub vcl_backend_response {
        set beresp.grace = 0s;
        set beresp.keep = 0s;
        if (beresp.http.Cache-Control ~ \"max-age=0\") { set beresp.ttl = 1ms; }
    }
    sub vcl_deliver { set resp.http.Cache-Status = obj.hits; }";

/// A packager whose versions are to be told apart, and how far it is. A target duration is so long that
/// what counts for some of them counts for all of the test.
struct Packager {
    origin: Origin,
    first: Arc<AtomicU64>,
    max_age: Arc<AtomicU64>,
    /// Whether its playlists may be kept by nobody.
    is_private: Arc<AtomicBool>,
}

impl Packager {
    fn at(name: &'static str, first: u64) -> Self {
        let (first, max_age) = (Arc::new(AtomicU64::new(first)), Arc::new(AtomicU64::new(0)));
        let is_private = Arc::<AtomicBool>::default();
        let (now, age) = (Arc::clone(&first), Arc::clone(&max_age));
        let private = Arc::clone(&is_private);
        let origin = Origin::serve(move |_: &Request| {
            let first = now.load(SeqCst);
            let keeping = if private.load(SeqCst) { "no-store, " } else { "" };
            let fields = [
                format!("Cache-Control: {keeping}max-age={}", age.load(SeqCst)),
                format!("ETag: \"{name}-{first}\""),
                "Content-Type: application/vnd.apple.mpegurl".to_owned(),
                format!("X-By: {name}"),
            ];
            response("200 OK", &fields.each_ref().map(String::as_str), text(name, first))
        });
        Self { origin, first, max_age, is_private }
    }
}

/// A version of the playlist, of five segments.
fn text(name: &str, first: u64) -> String {
    let mut out = format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:100\n## by {name}\n#EXT-X-MEDIA-SEQUENCE:{first}\n"
    );
    (first..first + 5).for_each(|number| out.push_str(&format!("#EXTINF:2,\n{number}.ts\n")));
    out
}

/// Asks until the packager was asked.
async fn asked(node: &TestNode, packager: &Packager) -> Answer {
    let before = packager.origin.count();
    loop {
        let answer = get(node, "/c/v.m3u8").await;
        if packager.origin.count() > before {
            return answer;
        }
    }
}

/// What players get when the first packager goes, and the second is two segments behind.
async fn fails_over(node: &TestNode, mut first: Packager, second: &Packager) {
    assert_eq!(get(node, "/c/v.m3u8").await.text(), text("first", 20));
    first.origin.kill();
    for times in 1..4 {
        let answer = asked(node, second).await;
        assert_eq!((answer.status, answer.text()), (200, text("first", 20)));
        assert_eq!(
            (answer.field("etag"), answer.field("x-by")),
            (Some("\"first-20\""), Some("first"))
        );
        // Where a policy has an old one served while it asks, the answer is here before the packager's.
        node.counted("media_behind", times).await;
    }
    // It lives on as the one that is behind would have, for every way to ask for it.
    second.max_age.store(50, SeqCst);
    assert_eq!(asked(node, second).await.text(), text("first", 20));
    let count = second.origin.count();
    let hit = get(node, "/c/v.m3u8").await;
    assert_eq!((hit.text(), hit.field("cache-control")), (text("first", 20), Some("max-age=50")));
    let not_modified = get_with(node, "/c/v.m3u8", &["If-None-Match: \"first-20\""]).await;
    assert_eq!(not_modified.status, 304);
    let other = get_with(node, "/c/v.m3u8", &["If-None-Match: \"second-18\""]).await;
    assert_eq!((other.status, other.text()), (200, text("first", 20)));
    let part = get_with(node, "/c/v.m3u8", &["Range: bytes=1-6"]).await;
    assert_eq!((part.status, part.text()), (206, "EXTM3U".to_owned()));
    assert_eq!(second.origin.count(), count, "all of it was here");
}

/// What they get when the second has caught up, and when it starts again.
async fn goes_on(node: &TestNode, second: &Packager) {
    second.first.store(20, SeqCst);
    // As far as the stored one is not behind it.
    assert_eq!(asked(node, second).await.text(), text("second", 20));
    second.first.store(23, SeqCst);
    assert_eq!(asked(node, second).await.text(), text("second", 23));
    second.first.store(21, SeqCst);
    assert_eq!(asked(node, second).await.text(), text("second", 23));
    second.first.store(0, SeqCst);
    assert_eq!(asked(node, second).await.text(), text("second", 0));
    assert_eq!(node.count("media_set_back"), 1);
}

fn rfc(first: &Packager, second: &Packager) -> TestNode {
    let rest = "[media]\nahead = 0\n[origins]\ndirector = \"fallback\"\n";
    Setup::of(&first.origin).origin(&second.origin.url()).and(rest).start()
}

#[test]
fn a_playlist_never_goes_back_when_another_packager_is_asked() {
    run(async {
        let (first, second) = (Packager::at("first", 20), Packager::at("second", 18));
        let node = rfc(&first, &second);
        fails_over(&node, first, &second).await;
    });
}

#[test]
fn a_packager_that_has_caught_up_or_started_again_is_followed() {
    run(async {
        let (mut first, second) = (Packager::at("first", 20), Packager::at("second", 18));
        let node = rfc(&first, &second);
        get(&node, "/c/v.m3u8").await;
        first.origin.kill();
        let behind = asked(&node, &second).await;
        assert_eq!(behind.text(), text("first", 20));
        let status = behind.cache();
        assert!(status.contains("fwd=stale") && status.contains("media-behind"), "{status}");
        goes_on(&node, &second).await;
    });
}

#[test]
fn the_same_holds_under_a_policy() {
    run(async {
        let (first, second) = (Packager::at("first", 20), Packager::at("second", 18));
        let vcl = format!("{}{ANEW}", backend("second", &second.origin));
        let node = governed(&first.origin, &vcl);
        fails_over(&node.node, first, &second).await;
        let (mut first, second) = (Packager::at("first", 20), Packager::at("second", 18));
        let vcl = format!("{}{ANEW}", backend("second", &second.origin));
        let node = governed(&first.origin, &vcl);
        get(&node.node, "/c/v.m3u8").await;
        first.origin.kill();
        assert_eq!(asked(&node.node, &second).await.text(), text("first", 20));
        goes_on(&node.node, &second).await;
    });
}

#[test]
fn what_an_operator_purges_comes_anew() {
    run(async {
        let packager = Packager::at("one", 20);
        let node = Setup::of(&packager.origin).and("[media]\nahead = 0\n").start();
        assert_eq!(get(&node, "/c/v.m3u8").await.text(), text("one", 20));
        packager.first.store(18, SeqCst);
        assert_eq!(get(&node, "/c/v.m3u8").await.text(), text("one", 20));
        let cache = &node.node.shared.cache;
        let key = cache.key(crate::client::HOST, "/c/v.m3u8");
        cache.purge(&key, freshet_cache::Purge::Soft(UnixMillis::now()));
        assert_eq!(get(&node, "/c/v.m3u8").await.text(), text("one", 18));
        assert_eq!((node.count("media_behind"), node.count("media_set_back")), (1, 0));
    });
}

#[test]
fn a_playlist_that_is_kept_for_nobody_does_not_go_back_while_another_has_a_newer_one() {
    run(async {
        let (mut first, second) = (Packager::at("first", 20), Packager::at("second", 18));
        for packager in [&first, &second] {
            packager.is_private.store(true, SeqCst);
        }
        let rest = "[media]\nahead = 0\n[origins]\ndirector = \"round-robin\"\n";
        let node = Setup::of(&first.origin).origin(&second.origin.url()).and(rest).start();
        // Whoever is asked first may be the one that is behind.
        while get(&node, "/c/v.m3u8").await.text() != text("first", 20) {}
        let before = (first.origin.count(), second.origin.count());
        for _ in 0..10 {
            assert_eq!(get(&node, "/c/v.m3u8").await.text(), text("first", 20));
        }
        assert_eq!(first.origin.count() - before.0, 10);
        assert!(second.origin.count() > before.1, "it was asked, and then the other");
        assert_eq!(node.count("media_behind_given"), 0);
        // What is behind is better than nothing.
        first.origin.kill();
        for times in 1..4 {
            assert_eq!(get(&node, "/c/v.m3u8").await.text(), text("second", 18));
            assert_eq!(node.count("media_behind_given"), times);
        }
        second.first.store(20, SeqCst);
        assert_eq!(get(&node, "/c/v.m3u8").await.text(), text("second", 20));
        assert_eq!(node.count("media_behind_given"), 3);
    });
}

#[test]
fn a_packager_that_stands_still_sets_nobody_back() {
    run(async {
        let (first, second) = (Packager::at("first", 20), Packager::at("second", 20));
        let rest = "[media]\nahead = 0\n[origins]\ndirector = \"round-robin\"\n";
        let node = Setup::of(&first.origin).origin(&second.origin.url()).and(rest).start();
        get(&node, "/c/v.m3u8").await;
        // The first goes on, over more than a window of the second: whoever is asked, players get the newest.
        for at in 21..40 {
            first.first.store(at, SeqCst);
            while get(&node, "/c/v.m3u8").await.text() != text("first", at) {}
            for _ in 0..3 {
                assert_eq!(get(&node, "/c/v.m3u8").await.text(), text("first", at));
            }
        }
        assert!(second.origin.count() > 19, "it is asked as often");
        assert_eq!((node.count("media_set_back"), node.count("media_behind")), (0, 0));
    });
}

#[test]
fn what_one_packager_does_not_have_yet_is_asked_of_the_other() {
    run(async {
        let of = |newest: u64| {
            Origin::serve(move |asked: &Request| {
                if asked.target().ends_with(".m3u8") {
                    let kind = "Content-Type: application/vnd.apple.mpegurl";
                    return response(
                        "200 OK",
                        &["Cache-Control: max-age=60", kind],
                        text("it", 20),
                    );
                }
                let number = asked.target().trim_start_matches("/c/").trim_end_matches(".ts");
                match number.parse::<u64>() {
                    Ok(number) if number <= newest => {
                        response("200 OK", &["Cache-Control: max-age=60"], format!("{number}"))
                    }
                    _ => response("404 Not Found", &[], "not here"),
                }
            })
        };
        let (first, second) = (of(23), of(21));
        let rest = "[media]\nahead = 0\n[origins]\ndirector = \"round-robin\"\n";
        let node = Setup::of(&first).origin(&second.url()).and(rest).start();
        get(&node, "/c/v.m3u8").await;
        for number in 20..24 {
            let answer = get(&node, &format!("/c/{number}.ts")).await;
            assert_eq!((answer.status, answer.text()), (200, number.to_string()));
        }
        // What none of them has, each is asked for once, and what no playlist names is asked of one.
        for (target, times) in [("/c/24.ts", 2), ("/c/99.ts", 1)] {
            let before = first.count() + second.count();
            assert_eq!(get(&node, target).await.status, 404);
            assert_eq!(first.count() + second.count() - before, times, "{target}");
        }
    });
}

#[test]
fn a_packager_that_is_late_is_better_than_one_that_has_nothing() {
    run(async {
        let (late, nothing) = (Packager::at("late", 20), Arc::<AtomicBool>::default());
        let is_away = Arc::clone(&nothing);
        let other = Origin::serve(move |_: &Request| {
            if is_away.load(SeqCst) {
                return response("404 Not Found", &[], "none");
            }
            let kind = "Content-Type: application/vnd.apple.mpegurl";
            let fields = ["Cache-Control: max-age=0", "ETag: \"other\"", kind];
            response("200 OK", &fields, text("other", 22))
        });
        let rest = "[media]\nahead = 0\n[origins]\ndirector = \"round-robin\"\n";
        let node = Setup::of(&late.origin).origin(&other.url()).and(rest).start();
        while get(&node, "/c/v.m3u8").await.text() != text("other", 22) {}
        nothing.store(true, SeqCst);
        let before = late.origin.count();
        while late.origin.count() == before {
            let answer = get(&node, "/c/v.m3u8").await;
            if late.origin.count() > before {
                assert_eq!((answer.status, answer.text()), (200, text("other", 22)));
            }
        }
    });
}

#[test]
fn behind_a_fence_a_playlist_is_taken_as_it_comes() {
    run(async {
        let packager = Packager::at("first", 20);
        let node = Setup::of(&packager.origin).start();
        assert_eq!(get(&node, "/c/v.m3u8").await.text(), text("first", 20));
        packager.first.store(18, SeqCst);
        assert_eq!(get(&node, "/c/v.m3u8").await.text(), text("first", 20));
        assert_eq!(node.count("media_behind"), 1);
        // The one that is stored may have been purged, so that this one is taken.
        node.node.shared.cache.fence(u64::MAX);
        assert_eq!(get(&node, "/c/v.m3u8").await.text(), text("first", 18));
    });
}

#[test]
fn a_packager_that_starts_again_gives_its_names_to_something_new() {
    run(async {
        let (began, first) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(20)));
        let has_ended = Arc::<AtomicBool>::default();
        let (time, now, over) = (Arc::clone(&began), Arc::clone(&first), Arc::clone(&has_ended));
        let origin = Origin::serve(move |asked: &Request| {
            let (time, first) = (time.load(SeqCst), now.load(SeqCst));
            if asked.target().ends_with(".ts") {
                let body = format!("{} of {time}", asked.target());
                return response("200 OK", &["Cache-Control: max-age=3600"], body);
            }
            let mut text =
                format!("#EXTM3U\n#EXT-X-TARGETDURATION:100\n#EXT-X-MEDIA-SEQUENCE:{first}\n");
            for number in first..first + 5 {
                text.push_str(&format!("#EXTINF:100,\n{}.ts\n", number % 8));
            }
            if over.load(SeqCst) {
                text.push_str("#EXT-X-ENDLIST\n");
            }
            let kind = "Content-Type: application/vnd.apple.mpegurl";
            response("200 OK", &["Cache-Control: max-age=0", kind], text)
        });
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        // Each segment of a version is what it is now, and kept as such.
        let plays = async |time: u64| {
            assert_eq!(get(&node, "/c/v.m3u8").await.status, 200);
            let of_version = first.load(SeqCst);
            for number in of_version..of_version + 5 {
                let target = format!("/c/{}.ts", number % 8);
                let answer = get(&node, &target).await;
                assert_eq!(answer.text(), format!("{target} of {time}"));
                assert!(get(&node, &target).await.cache().contains("hit"), "{target}");
            }
        };
        plays(1).await;
        // It has crashed, and begins with lower numbers; others are listed later.
        began.store(2, SeqCst);
        first.store(1, SeqCst);
        plays(2).await;
        for at in 2..5 {
            first.store(at, SeqCst);
            plays(2).await;
        }
        // It ends, which changes no segment, and is on air again.
        has_ended.store(true, SeqCst);
        plays(2).await;
        began.store(3, SeqCst);
        first.store(0, SeqCst);
        has_ended.store(false, SeqCst);
        for at in 0..4 {
            first.store(at, SeqCst);
            plays(3).await;
        }
    });
}

#[test]
fn the_same_holds_for_segments_that_a_template_names() {
    run(async {
        let (began, first) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(1)));
        let (time, now) = (Arc::clone(&began), Arc::clone(&first));
        let origin = Origin::serve(move |asked: &Request| {
            let (time, first) = (time.load(SeqCst), now.load(SeqCst));
            if !asked.target().ends_with(".mpd") {
                let body = format!("{} of {time}", asked.target());
                return response("200 OK", &["Cache-Control: max-age=3600"], body);
            }
            let text = format!(
                "<MPD type='dynamic' availabilityStartTime='2026-01-01T0{time}:00:00Z' \
                 timeShiftBufferDepth='PT1M' minimumUpdatePeriod='PT1S'><Period start='PT0S'>\
                 <AdaptationSet><SegmentTemplate media='$Number$.m4s' initialization='init.mp4' \
                 startNumber='{first}'><SegmentTimeline><S t='{}' d='10' r='4'/></SegmentTimeline>\
                 </SegmentTemplate><Representation id='v'/></AdaptationSet></Period></MPD>",
                first * 10
            );
            let kind = "Content-Type: application/dash+xml";
            response("200 OK", &["Cache-Control: max-age=0", kind], text)
        });
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        for time in 0..2 {
            began.store(time, SeqCst);
            for at in 1..4 {
                first.store(at, SeqCst);
                assert_eq!(get(&node, "/c/v.mpd").await.status, 200);
                let segments = (at..at + 5).map(|number| format!("/c/{number}.m4s"));
                for target in segments.chain(["/c/init.mp4".to_owned()]) {
                    assert_eq!(get(&node, &target).await.text(), format!("{target} of {time}"));
                    assert!(get(&node, &target).await.cache().contains("hit"), "{target}");
                }
            }
        }
        assert_eq!(node.count("media_set_back"), 1);
        assert_eq!(origin.count(), 2 * (3 + 7 + 1));
    });
}
