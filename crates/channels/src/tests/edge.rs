//! Channels that can be seen for long: what is near the newest goes to no disk.

use super::*;

/// Where a segment is kept, and why, of what a channel is asked for at `now`.
fn kept(channels: &Channels, target: &str, now: UnixMillis) -> (Storage, Reason) {
    let belongs = channels.of(&key(target), now).expect("it is a channel's");
    let advice = Advice::of(belongs, target, 200, now).expect("it is known how it is kept");
    let mut segment = answer(200, 86_400);
    apply(&advice, &mut segment, false, now);
    assert_eq!(class_of(&segment), Some(Class::Dvr), "{target}");
    (segment.storage, advice.reason)
}

fn live() -> (Storage, Reason) {
    (Storage::Memory, Reason::MediaLive)
}

fn old() -> (Storage, Reason) {
    (Storage::Configured, Reason::MediaWindow)
}

/// An MPD with two-second segments made by this template, and these attributes of its own.
fn mpd(attributes: &str, template: &str, timeline: &str) -> String {
    format!(
        "<MPD type='dynamic' {attributes}><Period><AdaptationSet><SegmentTemplate {template}>\
         {timeline}</SegmentTemplate><Representation id='v'/></AdaptationSet></Period></MPD>"
    )
}

#[test]
fn the_newest_segments_of_a_long_playlist_are_live() {
    let channels = Channels::default();
    note(&channels, "/c/v.m3u8", &playlist(0, 1000, ""), Format::Hls, NOW);
    for (number, want) in [(999, live()), (996, live()), (995, old()), (500, old())] {
        assert_eq!(kept(&channels, &format!("/c/{number}.m4s"), NOW), want, "{number}");
    }
    // They grow old.
    assert_eq!(kept(&channels, "/c/999.m4s", after(6001)), old());
    // Of what starts a decoder all of the window is in need.
    assert_eq!(kept(&channels, "/c/init.mp4", NOW), old());
}

#[test]
fn a_playlist_that_only_grows_has_the_same_edge() {
    let channels = Channels::default();
    let event = "#EXT-X-PLAYLIST-TYPE:EVENT\n";
    for count in 1..=20 {
        let at = after(count * 2000);
        note(&channels, "/c/v.m3u8", &playlist(0, count, event), Format::Hls, at);
    }
    for (number, want) in [(19, live()), (17, live()), (16, live()), (15, old()), (0, old())] {
        assert_eq!(kept(&channels, &format!("/c/{number}.m4s"), after(40_000)), want, "{number}");
    }
}

#[test]
fn parts_are_live_however_long_their_channel_can_be_seen() {
    let channels = Channels::default();
    let parts = "#EXT-X-PART:DURATION=1,URI=\"p.m4s\"\n\
                 #EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"q.m4s\"\n";
    let text = playlist(0, 1000, "#EXT-X-PART-INF:PART-TARGET=1\n") + parts;
    note(&channels, "/c/v.m3u8", &text, Format::Hls, NOW);
    for target in ["/c/p.m4s", "/c/q.m4s"] {
        assert_eq!(kept(&channels, target, NOW), live(), "{target}");
        assert_eq!(kept(&channels, target, after(11_000)), live(), "{target}");
    }
}

#[test]
fn the_newest_segments_that_a_timeline_lists_are_live() {
    let timeline = "<SegmentTimeline><S t='0' d='2' r='999'/></SegmentTimeline>";
    for (template, of) in [("media='$Number$.m4s' startNumber='0'", 1), ("media='$Time$.m4s'", 2)] {
        for attributes in ["", "timeShiftBufferDepth='PT1H'"] {
            let channels = Channels::default();
            let text = mpd(attributes, template, timeline);
            note(&channels, "/c/v.mpd", &text, Format::Mpd, NOW);
            for (number, want) in [(1000, live()), (999, live()), (996, live()), (995, old())] {
                let target = format!("/c/{}.m4s", number * of);
                assert_eq!(kept(&channels, &target, NOW), want, "{template} {number}");
            }
        }
    }
}

#[test]
fn the_newest_segments_by_the_clock_are_live() {
    // The first begins at NOW.
    let attributes = "availabilityStartTime='2027-01-15T08:00:00Z'";
    let template = "media='$Number$.m4s' startNumber='0' duration='2'";
    let channels = Channels::default();
    note(&channels, "/c/v.mpd", &mpd(attributes, template, ""), Format::Mpd, NOW);
    let now = after(2_000_000);
    for (number, want) in [(1100, live()), (999, live()), (996, live()), (995, old()), (0, old())] {
        assert_eq!(kept(&channels, &format!("/c/{number}.m4s"), now), want, "{number}");
    }
    // An origin whose clock goes before: what it has is newer than the newest by this one.
    assert_eq!(kept(&channels, "/c/0.m4s", UnixMillis(NOW.0 - 3_600_000)), live());
}

#[test]
fn the_newest_segments_of_a_list_are_live() {
    let channels = Channels::default();
    let listed: String =
        (0..1000).map(|number| format!("<SegmentURL media='{number}.m4s'/>")).collect();
    let text = format!(
        "<MPD type='dynamic' timeShiftBufferDepth='PT1H'><Period><AdaptationSet><Representation>\
         <SegmentList duration='2'>{listed}</SegmentList></Representation></AdaptationSet></Period></MPD>"
    );
    note(&channels, "/c/v.mpd", &text, Format::Mpd, NOW);
    for (number, want) in [(999, live()), (996, live()), (995, old())] {
        assert_eq!(kept(&channels, &format!("/c/{number}.m4s"), NOW), want, "{number}");
    }
}

#[test]
fn where_it_cannot_be_told_how_old_a_segment_is_it_is_live() {
    let channels = Channels::default();
    let open = "<SegmentTimeline><S t='0' d='2' r='-1'/></SegmentTimeline>";
    for (template, timeline) in [
        ("media='$Time$.m4s'", open),
        ("media='$Number$.m4s' duration='2'", ""),
        ("media='$Number$.$SubNumber$.m4s' duration='2'", ""),
    ] {
        note(&channels, "/c/v.mpd", &mpd("", template, timeline), Format::Mpd, NOW);
        let target = if template.contains("Sub") { "/c/7.1.m4s" } else { "/c/7.m4s" };
        assert_eq!(kept(&channels, target, NOW), live(), "{template}");
    }
}
