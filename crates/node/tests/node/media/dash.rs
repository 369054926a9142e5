//! Channels of DASH: what is fetched before a player asks for it.

use crate::client::get;
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, Request, response};
use crate::vcl::governed;
use freshet_base::clock::UnixMillis;
use freshet_media::mpd::time::instant_text;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const HOUR: &str = "Cache-Control: max-age=3600";

/// An MPD of two qualities whose segments are of a second, with this in its template.
fn mpd(start: UnixMillis, template: &str, timeline: &str) -> String {
    let start = instant_text(start);
    format!(
        "<MPD type='dynamic' availabilityStartTime='{start}' timeShiftBufferDepth='PT1H' \
         maxSegmentDuration='PT4S'><Period start='PT0S'><AdaptationSet><SegmentTemplate \
         initialization='$RepresentationID$/i.mp4' {template}>{timeline}</SegmentTemplate>\
         <Representation id='v1'/><Representation id='v2'/></AdaptationSet></Period></MPD>"
    )
}

/// An origin of such a channel, whose MPD is new each time.
fn channel(text: impl Fn() -> String + Send + Sync + 'static) -> Origin {
    Origin::serve(move |asked: &Request| {
        if asked.target().ends_with(".mpd") {
            let fields = ["Cache-Control: max-age=0", "Content-Type: application/dash+xml"];
            return response("200 OK", &fields, text());
        }
        response("200 OK", &[HOUR], pattern(1, 0..5000))
    })
}

/// How often the origin was asked for this.
fn times(origin: &Origin, target: &str) -> usize {
    origin.requests().iter().filter(|asked| asked.target() == target).count()
}

/// A player takes this, and this comes next by itself.
async fn leads_to(node: &TestNode, origin: &Origin, target: &str, next: &str) {
    assert_eq!(get(node, target).await.status, 200);
    until(|| times(origin, next) > 0).await;
}

#[test]
fn the_next_number_of_what_is_watched_is_there_before_it_is_asked_for() {
    run(async {
        let begun = UnixMillis(UnixMillis::now().0 - 3_600_000);
        let text = mpd(begun, "media='$RepresentationID$/$Number%05d$.m4s' duration='1'", "");
        let origin = channel(move || text.clone());
        let node = Setup { workers: 1, ..Setup::of(&origin) }.start();
        get(&node, "/c/live.mpd").await;
        // What starts a decoder, of each quality.
        node.counted("media_ahead_fetches", 2).await;
        until(|| origin.count() == 3).await;
        leads_to(&node, &origin, "/c/v1/00100.m4s", "/c/v1/00101.m4s").await;
        // A player that takes it has the one behind fetched, and so on.
        leads_to(&node, &origin, "/c/v1/00101.m4s", "/c/v1/00102.m4s").await;
        // Who is further ahead leads.
        leads_to(&node, &origin, "/c/v1/00200.m4s", "/c/v1/00201.m4s").await;
        leads_to(&node, &origin, "/c/v1/00201.m4s", "/c/v1/00202.m4s").await;
        let asked = origin.requests();
        let mut targets: Vec<_> = asked.iter().map(Request::target).collect();
        targets.sort_unstable();
        let want = [100, 101, 102, 200, 201, 202].map(|number| format!("/c/v1/{number:05}.m4s"));
        let want = ["/c/live.mpd"].into_iter().chain(want.iter().map(String::as_str));
        let want: Vec<_> = want.chain(["/c/v1/i.mp4", "/c/v2/i.mp4"]).collect();
        assert_eq!(targets, want, "each once, and nothing of what nobody watches");
        assert_eq!(node.count("media_ahead_fetches"), 6);
        let answer = get(&node, "/c/v1/00202.m4s").await;
        assert!(answer.body == pattern(1, 0..5000) && answer.cache().contains("hit"));
    });
}

#[test]
fn nothing_is_asked_for_before_it_can_be_there() {
    run(async {
        // Segment 99 ends now, and 100 a second later.
        let begun = UnixMillis(UnixMillis::now().0 - 100_000);
        let template = "media='$RepresentationID$/$Number$.m4s' duration='1' startNumber='0'";
        let text = mpd(begun, template, "");
        let origin = channel(move || text.clone());
        let node = TestNode::before(&origin);
        get(&node, "/c/live.mpd").await;
        leads_to(&node, &origin, "/c/v2/99.m4s", "/c/v2/100.m4s").await;
        assert!(UnixMillis::now() >= begun.plus(Duration::from_secs(101)));
    });
}

#[test]
fn what_an_origin_whose_clock_goes_before_has_is_not_waited_for() {
    run(async {
        // By the clock here its first segment is made in an hour.
        let begun = UnixMillis::now().plus(Duration::from_hours(1));
        let text = mpd(begun, "media='$RepresentationID$/$Number$.m4s' duration='1'", "");
        let origin = channel(move || text.clone());
        let node = Setup { workers: 1, ..Setup::of(&origin) }.start();
        get(&node, "/c/live.mpd").await;
        until(|| origin.count() == 3).await;
        for number in [100, 101, 102] {
            let answer = get(&node, &format!("/c/v1/{number}.m4s")).await;
            assert!(answer.status == 200 && answer.body == pattern(1, 0..5000));
        }
        let answer = get(&node, "/c/v1/102.m4s").await;
        assert!(answer.cache().contains("hit") && answer.body == pattern(1, 0..5000));
        // What starts a decoder was fetched ahead, and no segment.
        assert_eq!((origin.count(), node.count("media_ahead_fetches")), (6, 2));
    });
}

#[test]
fn what_an_origin_whose_clock_goes_behind_does_not_have_yet_is_asked_for_again() {
    run(async {
        let newest = Arc::new(AtomicU64::new(100));
        let made = Arc::clone(&newest);
        // By the clock here an hour of segments could be asked for.
        let begun = UnixMillis(UnixMillis::now().0 - 3_600_000);
        let text = mpd(begun, "media='$RepresentationID$/$Number$.m4s' duration='1'", "");
        let origin = Origin::serve(move |asked: &Request| {
            let name = asked.target().rsplit('/').next().unwrap_or_default();
            let number = name.trim_end_matches(".m4s").parse::<u64>();
            match number {
                Ok(number) if number > made.load(SeqCst) => response("404 Not Found", &[HOUR], ""),
                Ok(_) => response("200 OK", &[HOUR], pattern(1, 0..5000)),
                Err(_) if name == "live.mpd" => {
                    response("200 OK", &[HOUR, "Content-Type: application/dash+xml"], &text)
                }
                Err(_) => response("200 OK", &[HOUR], "i"),
            }
        });
        let node = Setup { workers: 1, ..Setup::of(&origin) }.start();
        get(&node, "/c/live.mpd").await;
        for number in [100, 101, 102] {
            let (this, next) = (format!("/c/v1/{number}.m4s"), format!("/c/v1/{}.m4s", number + 1));
            newest.store(number, SeqCst);
            // That it was asked for too early is remembered for a second at most.
            let answer = loop {
                let answer = get(&node, &this).await;
                if answer.status == 200 {
                    break answer;
                }
            };
            assert!(answer.body == pattern(1, 0..5000));
            until(|| times(&origin, &next) > 0).await;
        }
        assert_eq!(times(&origin, "/c/v1/104.m4s"), 0, "no more than one too early");
    });
}

#[test]
fn the_next_time_comes_when_a_newer_manifest_lists_it() {
    run(async {
        let repeats = Arc::new(AtomicU64::new(3));
        let listed = Arc::clone(&repeats);
        let origin = channel(move || {
            let runs = listed.load(SeqCst);
            let timeline =
                format!("<SegmentTimeline><S t='10' d='1' r='{runs}'/></SegmentTimeline>");
            mpd(UnixMillis(0), "media='$RepresentationID$-$Time$.m4s'", &timeline)
        });
        let node = TestNode::before(&origin);
        get(&node, "/c/live.mpd").await;
        leads_to(&node, &origin, "/c/v1-12.m4s", "/c/v1-13.m4s").await;
        assert_eq!(get(&node, "/c/v1-13.m4s").await.status, 200);
        repeats.store(4, SeqCst);
        get(&node, "/c/live.mpd").await;
        until(|| times(&origin, "/c/v1-14.m4s") > 0).await;
        let targets = ["/c/v1-12.m4s", "/c/v1-13.m4s", "/c/v1-14.m4s", "/c/v1-15.m4s"];
        assert_eq!(targets.map(|target| times(&origin, target)), [1, 1, 1, 0]);
    });
}

#[test]
fn a_policy_is_asked_for_what_follows_as_for_any_request() {
    run(async {
        let begun = UnixMillis(UnixMillis::now().0 - 3_600_000);
        let text = mpd(begun, "media='$RepresentationID$/$Number$.m4s' duration='1'", "");
        let origin = channel(move || text.clone());
        let vcl =
            "sub vcl_hash { hash_data(req.url); hash_data(req.http.Tenant); return (lookup); }
                   sub vcl_backend_fetch { set bereq.http.X-Ahead = bereq.media_ahead; }";
        let governed = governed(&origin, vcl);
        let node = &governed.node;
        get(node, "/c/live.mpd").await;
        until(|| times(&origin, "/c/v2/i.mp4") > 0).await;
        leads_to(node, &origin, "/c/v1/100.m4s", "/c/v1/101.m4s").await;
        leads_to(node, &origin, "/c/v1/101.m4s", "/c/v1/102.m4s").await;
        for asked in origin.requests() {
            let is_ahead = !["/c/live.mpd", "/c/v1/100.m4s"].contains(&asked.target());
            let want = if is_ahead { "true" } else { "false" };
            assert_eq!(asked.field("x-ahead"), Some(want), "{}", asked.target());
        }
        // One that makes something else of a request is not followed by what it makes.
        let vcl = "sub vcl_recv { set req.url = regsub(req.url, \"^/tv\", \"\"); }";
        let rewriting = crate::vcl::governed(&origin, vcl);
        for target in ["/tv/c/live.mpd", "/tv/c/v1/200.m4s", "/tv/c/v1/201.m4s"] {
            assert_eq!(get(&rewriting.node, target).await.status, 200);
        }
        assert_eq!(times(&origin, "/c/v1/202.m4s"), 0);
    });
}

#[test]
fn a_site_that_fetches_nothing_ahead_follows_nobody() {
    run(async {
        let begun = UnixMillis(UnixMillis::now().0 - 3_600_000);
        let text = mpd(begun, "media='$RepresentationID$/$Number$.m4s' duration='1'", "");
        let origin = channel(move || text.clone());
        let node = Setup::of(&origin).and("[media]\nahead = 0\n").start();
        for target in ["/c/live.mpd", "/c/v1/100.m4s", "/c/v1/101.m4s", "/c/v1/102.m4s"] {
            assert_eq!(get(&node, target).await.status, 200);
        }
        assert_eq!((origin.count(), node.count("media_ahead_fetches")), (4, 0));
    });
}
