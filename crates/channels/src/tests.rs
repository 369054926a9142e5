//! Channels and advice, beside the code.

mod day;
mod edge;

use super::directives::Skip;
use super::*;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Key, Secret};
use freshet_config::storage::Storage;
use freshet_http::date;
use freshet_http::fields::Fields;
use freshet_http::freshness::{
    Freshness, Given, LifetimeSource, Received, Reuse, Settings, Storability, storability,
};
use freshet_http::message::Method;
use freshet_http::reason::Reason;
use freshet_http::target;
use freshet_media::{Class, Edge, Format, Manifest, read};
use std::sync::Arc;
use std::time::Duration;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const DVR_AFTER: Duration = Duration::from_secs(600);

fn key(target: &str) -> Key {
    Secret::from_bytes([1; 16]).key("tv", target)
}

fn after(ms: u64) -> UnixMillis {
    NOW.plus(Duration::from_millis(ms))
}

/// Two-second segments from `first` on.
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

/// Notes a version of the playlist `target`, as it is when it was stored at `now`.
fn note(channels: &Channels, target: &str, text: &str, format: Format, now: UnixMillis) {
    let manifest = read(format, text.as_bytes()).expect("it is a manifest");
    note_read(channels, target, &manifest, text, now);
}

/// Takes over what it says; which of its names are new.
fn note_read(
    channels: &Channels,
    target: &str,
    manifest: &Manifest,
    text: &str,
    now: UnixMillis,
) -> Vec<usize> {
    let id = key(&directives::without(target));
    let resolved = |reference: &str| {
        let (_, target) = target::resolve("tv", target, reference).expect("it is a reference");
        key(&target)
    };
    let names = manifest.names.iter();
    let names = names.map(|name| resolved(manifest.reference(name, text.as_bytes()))).collect();
    let templates = manifest.templates.iter().map(|template| resolved(template)).collect();
    let skip = Directives::of(target).skip;
    let stored = Some((Known { key: Arc::new(key(target)), target: target.into() }, skip));
    let Some(class) = manifest.class(DVR_AFTER).filter(|class| *class != Class::Vod) else {
        let lengths = manifest.lengths(text.as_bytes()).into_iter();
        let lengths = lengths.map(|(reference, end)| (resolved(reference), end)).collect();
        channels.end(Last { id: &id, stored, lengths });
        return Vec::new();
    };
    let series = manifest.series.iter();
    let series = series.map(|one| (resolved(&one.template), one.clone())).collect();
    let begins_again = channels.has_ended(&id);
    let noted = channels.note(&Version {
        id: &id,
        manifest,
        class,
        names,
        templates,
        series,
        stored,
        begins_again,
        has_stood: false,
        now,
    });
    noted.new
}

/// An answer, as far as advice changes it.
struct Answer {
    status: u16,
    freshness: Freshness,
    uncacheable: Option<Reason>,
    storage: Storage,
    keep: Option<Duration>,
    media: Option<Advice>,
    fields: Fields,
}

fn apply(advice: &Advice, answer: &mut Answer, overrides: bool, now: UnixMillis) {
    answer.media = Some(*advice);
    let Answer { freshness, uncacheable, storage, keep, fields, status, .. } = answer;
    let judge = |given| judge(*status, fields, Some(given), now);
    let kept = Keeping { freshness, uncacheable, storage, keep, judge: &judge };
    advice.apply(kept, overrides, now);
}

fn answer(status: u16, seconds: u64) -> Answer {
    let freshness = Freshness::from_policy(NOW, Duration::from_secs(seconds));
    Answer {
        status,
        freshness,
        uncacheable: None,
        storage: Storage::default(),
        keep: None,
        media: None,
        fields: Fields::default(),
    }
}

/// As a node judges what comes with these fields.
fn judge(status: u16, response: &Fields, given: Option<Given>, now: UnixMillis) -> Storability {
    let received = Received {
        method: &Method::Get,
        request: &Fields::default(),
        status,
        response,
        request_time: now,
        response_time: now,
        authority: "example.com",
        target: "/",
    };
    let windows = Duration::from_secs(60);
    let settings = Settings { given, default_grace: windows, ..Settings::default() };
    storability(&received, &settings)
}

/// What came with these fields.
fn came(fields: &[(&str, &str)], now: UnixMillis) -> Answer {
    let mut all = Fields::default();
    for (name, value) in fields {
        all.append(name, *value);
    }
    let (freshness, uncacheable) = match judge(200, &all, None, now) {
        Storability::Store(freshness) => (freshness, None),
        Storability::Refuse(reason) => (Freshness::from_policy(now, Duration::ZERO), Some(reason)),
    };
    Answer { freshness, uncacheable, fields: all, ..answer(200, 0) }
}

fn class_of(answer: &Answer) -> Option<Class> {
    answer.media.and_then(|advice| advice.class)
}

fn advised(channels: &Channels, target: &str, answer: &mut Answer, now: UnixMillis) -> bool {
    let belongs = channels.of(&key(target), now);
    let advice = belongs.and_then(|belongs| Advice::of(belongs, target, answer.status, now));
    if let Some(advice) = advice {
        apply(&advice, answer, false, now);
    }
    advice.is_some()
}

#[test]
fn a_live_segment_is_in_memory_only_and_leaves_with_its_window() {
    let channels = Channels::default();
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    // The first is next to leave, the last stays for as long as the window is.
    for (name, seconds) in [("10", 14), ("14", 22)] {
        let mut answer = answer(200, 3600);
        assert!(advised(&channels, &format!("/c/{name}.m4s"), &mut answer, NOW));
        assert_eq!(answer.freshness.lifetime(), Duration::from_secs(seconds), "{name}");
        assert_eq!((&answer.storage, answer.keep), (&Storage::Memory, Some(Duration::ZERO)));
        assert_eq!(class_of(&answer), Some(Class::Live));
    }
    // The next version adds one, and what was named keeps its end.
    note(&channels, "/c/v.m3u8", &playlist(11, 5, ""), Format::Hls, after(2000));
    let mut late = answer(200, 3600);
    late.freshness.received = after(2000);
    assert!(advised(&channels, "/c/14.m4s", &mut late, after(2000)));
    assert_eq!(late.freshness.lifetime(), Duration::from_secs(20));
    // What an origin allows for less stays so, and others are nobody's.
    let mut short = answer(200, 5);
    assert!(advised(&channels, "/c/15.m4s", &mut short, NOW));
    assert_eq!(short.freshness.lifetime(), Duration::from_secs(5));
    assert!(!advised(&channels, "/c/99.m4s", &mut answer(200, 5), NOW));
    assert!(!advised(&channels, "/d/15.m4s", &mut answer(404, 5), NOW));
}

#[test]
fn what_is_not_there_yet_is_asked_for_again_soon() {
    let channels = Channels::default();
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    for target in ["/c/14.m4s", "/c/15.m4s", "/c/v.m3u8", "/c/deep/16.m4s"] {
        let mut late = answer(404, 60);
        assert!(advised(&channels, target, &mut late, NOW), "{target}");
        assert_eq!(late.freshness.lifetime(), Duration::from_secs(1));
    }
    assert!(!advised(&channels, "/c/15.m4s", &mut answer(500, 60), NOW));
}

#[test]
fn a_playlist_lives_for_half_its_target() {
    let channels = Channels::default();
    let parts = "#EXT-X-PART-INF:PART-TARGET=0.4\n#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES\n";
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    note(&channels, "/c/ll.m3u8", &playlist(10, 5, parts), Format::Hls, NOW);
    for (target, lifetime_ms) in [("/c/v.m3u8", 1000), ("/c/ll.m3u8", 400)] {
        let mut playlist = answer(200, 3600);
        playlist.freshness.set_stale_while_revalidate(Duration::from_secs(60));
        playlist.freshness.set_stale_if_error(Duration::from_secs(86_400));
        assert!(advised(&channels, target, &mut playlist, NOW));
        let freshness = &playlist.freshness;
        assert_eq!(freshness.lifetime().as_millis(), lifetime_ms);
        let old = freshness.lifetime() + freshness.stale_while_revalidate();
        assert!(old <= Duration::from_secs(2), "{old:?}");
        assert_eq!(freshness.stale_if_error(), Duration::from_secs(10));
    }
}

#[test]
fn what_an_origin_says_against_sharing_counts_unless_a_site_overrides_it() {
    let channels = Channels::default();
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    let belongs = channels.of(&key("/c/v.m3u8"), NOW).unwrap();
    let advice = Advice::of(belongs, "/c/v.m3u8", 200, NOW).unwrap();
    for (why, overrides, is_kept) in [
        (Reason::NoFreshness, false, true),
        (Reason::NoStore, false, false),
        (Reason::NoCacheNoValidator, true, true),
        (Reason::NoStore, true, true),
        (Reason::Private, true, false),
        (Reason::SetCookie, true, false),
    ] {
        let mut refused = Answer { uncacheable: Some(why), ..answer(200, 0) };
        apply(&advice, &mut refused, overrides, NOW);
        assert_eq!(refused.uncacheable.is_none(), is_kept, "{why} {overrides}");
        let lifetime = if is_kept { Duration::from_secs(1) } else { Duration::ZERO };
        assert_eq!(refused.freshness.lifetime(), lifetime);
    }
}

#[test]
fn a_segment_without_a_lifetime_stays_as_long_as_it_is_of_use() {
    let channels = Channels::default();
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    for why in [None, Some(Reason::NoFreshness)] {
        let mut guessed = Answer { uncacheable: why, ..answer(200, 1) };
        guessed.freshness.source = LifetimeSource::Heuristic;
        assert!(advised(&channels, "/c/14.m4s", &mut guessed, NOW));
        assert_eq!((guessed.uncacheable, guessed.freshness.lifetime().as_secs()), (None, 22));
        let mut guessed = Answer { uncacheable: why, ..answer(404, 1) };
        assert!(advised(&channels, "/c/14.m4s", &mut guessed, NOW));
        assert_eq!(guessed.uncacheable, why, "an error that says nothing is not kept");
    }
}

#[test]
fn a_channel_gives_a_lifetime_only_where_its_origin_says_nothing_of_that() {
    let channels = Channels::default();
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    let date = |at| {
        let mut out = Vec::new();
        date::write(at, &mut out);
        String::from_utf8(out).unwrap()
    };
    let (now, earlier) = (date(NOW), date(UnixMillis(NOW.0 - 3_600_000)));
    let modified = ("Last-Modified", &*earlier);
    for (target, seconds) in [("/c/14.m4s", 22), ("/c/v.m3u8", 1)] {
        // Just written, known by its tag alone, with nothing at all, and with what says nothing of it.
        for fields in [
            &[modified][..],
            &[("Date", &*now), ("Last-Modified", &*now)],
            &[("ETag", "\"a\"")],
            &[],
            &[("Cache-Control", "public")],
        ] {
            let mut answer = came(fields, NOW);
            assert!(advised(&channels, target, &mut answer, NOW));
            let freshness = &answer.freshness;
            assert_eq!((answer.uncacheable, freshness.lifetime().as_secs()), (None, seconds));
            assert!(freshness.stale_if_error() >= Duration::from_secs(2), "{target} {fields:?}");
            assert!(freshness.stale_while_revalidate() > Duration::ZERO, "{target} {fields:?}");
        }
        // What it says of its use stands.
        let mut asked = came(&[("Cache-Control", "no-cache"), modified], NOW);
        assert!(advised(&channels, target, &mut asked, NOW));
        assert_eq!(asked.freshness.reuse(NOW), Reuse::MustValidate, "{target}");
        let mut soon = came(&[("Cache-Control", "max-age=0"), modified], NOW);
        assert!(advised(&channels, target, &mut soon, NOW));
        for one in [asked, soon] {
            let kept_until = one.freshness.fresh_until().plus(one.keep.unwrap());
            let stale = one.freshness.stale_while_revalidate();
            let until = after(if seconds == 1 { 10 } else { seconds } * 1000);
            assert!(kept_until.plus(stale) >= until, "it can be validated");
        }
        let mut strict = came(&[("Cache-Control", "must-revalidate"), modified], NOW);
        assert!(advised(&channels, target, &mut strict, NOW));
        assert_eq!(strict.freshness.lifetime().as_secs(), seconds);
        assert_eq!(strict.freshness.stale_if_error(), Duration::ZERO);
        assert_eq!(strict.freshness.reuse(after(60_000)), Reuse::MustValidate);
        let mut old = came(&[("Age", "100"), modified], NOW);
        assert!(advised(&channels, target, &mut old, NOW));
        assert_eq!(old.freshness.age(NOW).as_secs(), 100);
        assert_eq!(old.freshness.ttl_ms(NOW), seconds as i64 * 1000);
        let refused = [("Cache-Control", "no-store"), ("Cache-Control", "private")];
        for one in refused {
            let mut answer = came(&[one, modified], NOW);
            assert!(advised(&channels, target, &mut answer, NOW));
            assert!(answer.uncacheable.is_some(), "{one:?}");
        }
    }
}

#[test]
fn a_site_that_overrides_keeps_nothing_of_who_has_said_who_it_is() {
    let channels = Channels::default();
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    let belongs = channels.of(&key("/c/v.m3u8"), NOW).unwrap();
    let advice = Advice::of(belongs, "/c/v.m3u8", 200, NOW).unwrap();
    let refuse = |_: Given| Storability::Refuse(Reason::Authorization);
    let mut answer = Answer { uncacheable: Some(Reason::NoStore), ..answer(200, 0) };
    let Answer { freshness, uncacheable, storage, keep, .. } = &mut answer;
    advice.apply(Keeping { freshness, uncacheable, storage, keep, judge: &refuse }, true, NOW);
    assert_eq!(answer.uncacheable, Some(Reason::NoStore));
}

#[test]
fn a_channel_that_ends_is_a_film() {
    let channels = Channels::default();
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    assert_eq!(channels.count(), 1);
    let ended = playlist(10, 5, "#EXT-X-ENDLIST\n");
    note(&channels, "/c/v.m3u8", &ended, Format::Hls, after(2000));
    assert_eq!(channels.count(), 0);
    assert_eq!(channels.of(&key("/c/14.m4s"), NOW), None);
}

#[test]
fn a_manifest_of_dash_knows_its_segments_by_template() {
    let channels = Channels::default();
    let text = "<MPD type='dynamic' timeShiftBufferDepth='PT30S' minimumUpdatePeriod='PT500S'><Period>\
                <AdaptationSet><SegmentTemplate timescale='1' duration='2' \
                media='$RepresentationID$/$Number%05d$.m4s' initialization='$RepresentationID$/i.mp4'/>\
                <Representation id='v1'/><Representation id='v2'/></AdaptationSet></Period></MPD>";
    note(&channels, "/c/live.mpd", text, Format::Mpd, NOW);
    let mut segment = answer(200, 3600);
    assert!(advised(&channels, "/c/v2/00041.m4s", &mut segment, NOW));
    assert_eq!(segment.freshness.lifetime(), Duration::from_secs(34));
    assert_eq!(segment.storage, Storage::Memory);
    let mut header = answer(200, 86_400);
    assert!(advised(&channels, "/c/v1/i.mp4", &mut header, NOW));
    assert_eq!(header.freshness.lifetime(), Duration::from_secs(3600));
    let mut manifest = answer(200, 3600);
    assert!(advised(&channels, "/c/live.mpd", &mut manifest, NOW));
    assert_eq!(manifest.freshness.lifetime(), Duration::from_secs(500));
    assert!(!advised(&channels, "/c/v2/x.m4s", &mut answer(200, 5), NOW));
    assert!(advised(&channels, "/c/v2/x.m4s", &mut answer(404, 5), NOW));
}

#[test]
fn a_quality_of_dash_is_followed_while_its_channel_goes_on() {
    let channels = Channels::default();
    let text = |runs: u64| {
        format!(
            "<MPD type='dynamic' timeShiftBufferDepth='PT30S'><Period><AdaptationSet><SegmentTemplate \
             media='$RepresentationID$/$Time$.m4s'><SegmentTimeline><S t='0' d='2' r='{runs}'/>\
             </SegmentTimeline></SegmentTemplate><Representation id='v1'/><Representation id='v2'/>\
             </AdaptationSet></Period></MPD>"
        )
    };
    note(&channels, "/c/live.mpd", &text(3), Format::Mpd, NOW);
    let front = |target: &str| channels.note_front(&key(target));
    assert_eq!(front("/c/v1/x.m4s"), None);
    let template = front("/c/v1/4.m4s").expect("it is followed from now on");
    assert_eq!((front("/c/v1/4.m4s"), front("/c/v1/2.m4s")), (None, None));
    assert!(front("/c/v2/4.m4s").is_some(), "it is another quality");
    let text_of = |target: &str| String::from_utf8(key(target).text().to_vec()).unwrap();
    let coming = || channels.coming(&template).expect("the channel goes on");
    let next = Some((6, text_of("/c/v1/6.m4s"), UnixMillis(0)));
    assert_eq!((coming().before, coming().next), (None, next));
    channels.advance(&template, 6);
    assert_eq!((coming().before, coming().next), (Some(text_of("/c/v1/6.m4s")), None));
    // What is listed now comes next, and who is further ahead is followed.
    note(&channels, "/c/live.mpd", &text(9), Format::Mpd, after(2000));
    assert_eq!(coming().next.map(|(value, ..)| value), Some(8));
    assert_eq!(front("/c/v1/12.m4s"), None);
    assert_eq!((coming().before, coming().next.map(|(value, ..)| value)), (None, Some(14)));
    channels.advance(&template, 8);
    assert_eq!(coming().next.map(|(value, ..)| value), Some(14), "it does not go back");
    channels.end(Last { id: &key("/c/live.mpd"), stored: None, lengths: Vec::new() });
    assert_eq!(channels.coming(&template), None);
    channels.forget_front(&template);
}

#[test]
fn what_is_named_has_its_number_its_length_and_its_bit_rate() {
    let channels = Channels::default();
    channels.note_bitrates([(key("/c/v.m3u8"), 3_200_000)].into_iter());
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    let text = "<MPD type='dynamic' timeShiftBufferDepth='PT30S' \
                availabilityStartTime='2026-01-01T00:00:00Z'><Period><AdaptationSet><SegmentTemplate \
                media='$RepresentationID$/$Number$.m4s' duration='2'/>\
                <Representation id='v1' bandwidth='700000'/></AdaptationSet></Period></MPD>";
    note(&channels, "/d/live.mpd", text, Format::Mpd, NOW);
    let of = |target: &str| match channels.of(&key(target), NOW).expect("it is a channel's") {
        Belongs::Manifest(about) | Belongs::Named(about, ..) | Belongs::Beside(about) => {
            (about.sequence, about.duration_ms, about.bandwidth)
        }
        Belongs::Key => panic!("there is none"),
    };
    assert_eq!(of("/c/12.m4s"), (Some(12), 2000, 3_200_000));
    assert_eq!(of("/c/v.m3u8"), (None, 0, 3_200_000));
    assert_eq!(of("/d/v1/77.m4s"), (Some(77), 0, 700_000));
    for number in 0..limits::BITRATES_MAX {
        channels.note_bitrates([(key(&format!("/{number}")), 1)].into_iter());
    }
    assert_eq!(of("/c/12.m4s"), (Some(12), 2000, 0));
}

#[test]
fn keys_are_known_of_films_and_channels_alike() {
    let channels = Channels::default();
    assert!(channels.is_empty());
    channels.note_keys([key("/k")].into_iter());
    let mut answer = answer(200, 60);
    assert!(advised(&channels, "/k", &mut answer, NOW));
    assert_eq!((&answer.storage, answer.keep), (&Storage::Memory, None));
    assert_eq!((answer.freshness.lifetime().as_secs(), class_of(&answer)), (60, None));
    assert!(!advised(&channels, "/k", &mut Answer { keep: None, ..self::answer(404, 60) }, NOW));
    for number in 0..limits::KEYS_MAX {
        channels.note_keys([key(&format!("/{number}"))].into_iter());
    }
    assert_eq!(channels.of(&key("/k"), NOW), None);
    assert_eq!(channels.of(&key("/0"), NOW), Some(Belongs::Key));
}

#[test]
fn a_reload_is_answered_by_what_is_further() {
    let channels = Channels::default();
    let control = "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES\n#EXT-X-PART-INF:PART-TARGET=0.5\n";
    let parts = |count: usize| "#EXT-X-PART:DURATION=0.5,URI=\"p.m4s\"\n".repeat(count);
    let version = |count| playlist(10, 5, control) + &parts(count);
    let first = "/c/v.m3u8?_HLS_msn=15&_HLS_part=1";
    note(&channels, first, &version(2), Format::Hls, NOW);
    let id = key("/c/v.m3u8");
    let asked = |sequence, part, skip| {
        let is_wrong = false;
        Directives { sequence: Some(sequence), part, skip, is_wrong }
    };
    let reload = |directives, now| channels.reload(&id, directives, now);
    let known = Known { key: Arc::new(key(first)), target: first.into() };
    let newest_known = known.clone();
    let (newest, too_far) = (Reload::Has(known.clone()), Reload::TooFar(known));
    assert_eq!(reload(asked(15, Some(0), Skip::Nothing), NOW), newest);
    assert_eq!(reload(asked(14, None, Skip::Nothing), NOW), newest);
    assert_eq!(reload(asked(14, Some(9), Skip::Nothing), NOW), newest);
    for unknown in [
        asked(15, None, Skip::Nothing),
        asked(15, Some(2), Skip::Nothing),
        asked(15, Some(0), Skip::Segments),
        asked(17, None, Skip::Nothing),
    ] {
        assert_eq!(reload(unknown, NOW), Reload::Unknown, "{unknown:?}");
    }
    assert_eq!(reload(asked(18, None, Skip::Nothing), NOW), too_far);
    assert_eq!(reload(asked(u64::MAX, Some(u32::MAX), Skip::Segments), NOW), too_far);
    let wrong = Directives { is_wrong: true, ..asked(14, None, Skip::Nothing) };
    assert_eq!(reload(wrong, NOW), Reload::Wrong(newest_known));
    // Nothing is said by what is older than a target.
    assert_eq!(reload(asked(15, Some(0), Skip::Nothing), after(2001)), Reload::Unknown);
    assert_eq!(reload(asked(18, None, Skip::Nothing), after(2001)), Reload::Unknown);
    // A version that comes late does not take the place of one that is further.
    note(&channels, "/c/v.m3u8?_HLS_msn=15&_HLS_part=0", &version(1), Format::Hls, after(10));
    assert_eq!(reload(asked(15, Some(1), Skip::Nothing), after(10)), newest);
    let Some(Belongs::Manifest(about)) = channels.of(&id, after(10)) else {
        panic!("it is a channel's")
    };
    assert_eq!(about.late_max(), Some(Duration::from_secs(6)));
    let silences = [false, true].map(|segment| about.silence_max(segment));
    assert_eq!(silences, [1500, 3500].map(|ms| Some(Duration::from_millis(ms))));
    // What leaves out segments is no answer to who may be without date ranges, nor the other way round.
    let shortened = "/c/v.m3u8?_HLS_msn=15&_HLS_part=1&_HLS_skip=v2";
    note(&channels, shortened, &version(2), Format::Hls, after(20));
    assert_eq!(reload(asked(15, Some(0), Skip::Segments), after(20)), Reload::Unknown);
    let known = Known { key: Arc::new(key(shortened)), target: shortened.into() };
    assert_eq!(reload(asked(15, Some(0), Skip::DateRanges), after(20)), Reload::Has(known));
}

#[test]
fn what_may_have_come_since_a_playlist_was_read_is_not_too_far_away() {
    let channels = Channels::default();
    let text = "#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES\n\
                #EXT-X-MEDIA-SEQUENCE:10\n#EXTINF:6,\na.ts\n#EXTINF:1,\nb.ts\n#EXTINF:1,\nc.ts\n";
    note(&channels, "/c/v.m3u8", text, Format::Hls, NOW);
    let id = key("/c/v.m3u8");
    // It lists 10 to 12; two beyond those that may be there by now are waited for.
    for (ms, most) in [(0, 15), (999, 15), (1000, 16), (3500, 18), (6000, 21)] {
        for (sequence, is_refused) in [(most, false), (most + 1, true)] {
            let asked = Directives { sequence: Some(sequence), ..Directives::default() };
            let reload = channels.reload(&id, asked, after(ms));
            assert_eq!(matches!(reload, Reload::TooFar(_)), is_refused, "{ms} {sequence}");
        }
    }
}

#[test]
fn what_starts_a_decoder_is_asked_for_again_soon_where_its_origin_says_nothing() {
    let channels = Channels::default();
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    let mpd = "<MPD type='dynamic' timeShiftBufferDepth='PT1H' maxSegmentDuration='PT4S'><Period>\
               <AdaptationSet><SegmentTemplate media='$Number$.m4s' initialization='init.mp4' \
               duration='4'/><Representation id='v'/></AdaptationSet></Period></MPD>";
    note(&channels, "/d/v.mpd", mpd, Format::Mpd, NOW);
    for (target, half_ms) in [("/c/init.mp4", 1000), ("/d/init.mp4", 2000)] {
        let mut guessed = answer(200, 86_400);
        guessed.freshness.source = LifetimeSource::Heuristic;
        let mut unsaid = Answer { uncacheable: Some(Reason::NoFreshness), ..answer(200, 0) };
        for silent in [&mut guessed, &mut unsaid] {
            assert!(advised(&channels, target, silent, NOW));
            assert_eq!(silent.uncacheable, None);
            assert_eq!(silent.freshness.lifetime(), Duration::from_millis(half_ms), "{target}");
        }
        let mut said = answer(200, 600);
        assert!(advised(&channels, target, &mut said, NOW));
        assert_eq!(said.freshness.lifetime(), Duration::from_secs(600));
    }
}

#[test]
fn how_old_a_key_is_says_nothing_of_how_long_it_will_be_there() {
    let channels = Channels::default();
    channels.note_keys([key("/k")].into_iter());
    let mut said = answer(200, 86_400);
    assert!(advised(&channels, "/k", &mut said, NOW));
    assert_eq!(said.freshness.lifetime(), Duration::from_secs(86_400));
    let mut guessed = answer(200, 86_400);
    guessed.freshness.source = LifetimeSource::Heuristic;
    assert!(advised(&channels, "/k", &mut guessed, NOW));
    assert_eq!((guessed.uncacheable, guessed.freshness.lifetime()), (None, Duration::ZERO));
}

#[test]
fn an_mpd_that_names_no_segment_yet_lives_as_long_as_it_says() {
    for periods in ["", "<Period xlink:href='p.xml'/>"] {
        let channels = Channels::default();
        let mpd = format!("<MPD type='dynamic' minimumUpdatePeriod='PT2S'>{periods}</MPD>");
        note(&channels, "/d/v.mpd", &mpd, Format::Mpd, NOW);
        let mut manifest = answer(200, 86_400);
        assert!(advised(&channels, "/d/v.mpd", &mut manifest, NOW));
        assert_eq!(manifest.freshness.lifetime(), Duration::from_secs(2), "{periods}");
    }
}

#[test]
fn an_mpd_of_which_its_origin_says_nothing_is_looked_for_twice_a_segment() {
    let channels = Channels::default();
    let mpd = "<MPD type='dynamic' minimumUpdatePeriod='PT500S' maxSegmentDuration='PT4S'><Period>\
               <AdaptationSet><SegmentTemplate media='$Number$.m4s' duration='4'/>\
               <Representation id='v'/></AdaptationSet></Period></MPD>";
    note(&channels, "/d/v.mpd", mpd, Format::Mpd, NOW);
    for (fields, seconds) in
        [(&[("ETag", "\"a\"")][..], 2), (&[("Cache-Control", "max-age=900")], 500)]
    {
        let mut manifest = came(fields, NOW);
        assert!(advised(&channels, "/d/v.mpd", &mut manifest, NOW));
        assert_eq!(manifest.freshness.lifetime(), Duration::from_secs(seconds), "{fields:?}");
    }
}

#[test]
fn without_a_depth_segments_are_of_use_for_good() {
    let channels = Channels::default();
    let mpd = "<MPD type='dynamic' maxSegmentDuration='PT2S'><Period><AdaptationSet>\
               <SegmentTemplate media='$Number$.m4s' duration='2'/><Representation id='v'/>\
               </AdaptationSet></Period></MPD>";
    note(&channels, "/d/v.mpd", mpd, Format::Mpd, NOW);
    let mut segment = answer(200, 86_400);
    assert!(advised(&channels, "/d/7.m4s", &mut segment, NOW));
    assert_eq!(segment.freshness.lifetime(), Duration::from_secs(86_400));
    assert_eq!(class_of(&segment), Some(Class::Dvr));
}

#[test]
fn a_playlist_that_has_ended_is_the_answer_to_who_asks_for_news_of_it() {
    let channels = Channels::default();
    let id = key("/c/v.m3u8");
    let reload = |query: &str| channels.reload(&id, Directives::of(&format!("/?{query}")), NOW);
    let known =
        |target: &str| Reload::Has(Known { key: Arc::new(key(target)), target: target.into() });
    let ended = playlist(10, 6, "") + "#EXT-X-ENDLIST\n";
    // A film is asked for no news.
    note(&channels, "/c/v.m3u8", &ended, Format::Hls, NOW);
    assert_eq!(reload("_HLS_msn=15"), Reload::Unknown);
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    let shortened = "/c/v.m3u8?_HLS_msn=15&_HLS_skip=YES";
    note(&channels, shortened, &ended, Format::Hls, NOW);
    assert_eq!(reload("_HLS_msn=15&_HLS_skip=YES"), known(shortened));
    assert_eq!(reload("_HLS_msn=15"), Reload::Unknown, "it leaves something out");
    note(&channels, "/c/v.m3u8?_HLS_msn=15", &ended, Format::Hls, NOW);
    for query in
        ["_HLS_msn=15", "_HLS_msn=99", "_HLS_msn=x", "_HLS_part=1", "_HLS_msn=1&_HLS_skip=v2"]
    {
        assert_eq!(reload(query), known("/c/v.m3u8?_HLS_msn=15"), "{query}");
    }
    // It begins again.
    note(&channels, "/c/v.m3u8", &playlist(0, 5, ""), Format::Hls, NOW);
    assert_eq!(reload("_HLS_msn=15"), Reload::Unknown);
    assert_eq!(reload("_HLS_msn=4"), known("/c/v.m3u8"));
}

#[test]
fn the_table_is_bounded_and_the_oldest_leaves() {
    let channels = Channels::default();
    for number in 0..limits::CHANNELS_MAX as u64 + 10 {
        note(
            &channels,
            &format!("/{number}/v.m3u8"),
            &playlist(1, 2, ""),
            Format::Hls,
            after(number),
        );
    }
    assert_eq!(channels.count(), limits::CHANNELS_MAX);
    assert_eq!(channels.of(&key("/0/v.m3u8"), NOW), None);
    assert_eq!(channels.of(&key("/0/1.m4s"), NOW), None);
    // What names much leaves room for itself alone.
    let channels = Channels::default();
    for number in 0..12 {
        let target = format!("/{number}/v.m3u8");
        note(&channels, &target, &playlist(0, 49_000, ""), Format::Hls, after(number));
    }
    assert!(channels.count() < 12 && channels.count() > 3, "{}", channels.count());
}

#[test]
fn two_playlists_that_name_one_segment_agree_on_the_shorter() {
    let channels = Channels::default();
    note(&channels, "/c/long.m3u8", &playlist(0, 1000, ""), Format::Hls, NOW);
    note(&channels, "/c/short.m3u8", &playlist(990, 5, ""), Format::Hls, NOW);
    let mut segment = answer(200, 86_400);
    assert!(advised(&channels, "/c/990.m4s", &mut segment, NOW));
    assert_eq!(class_of(&segment), Some(Class::Live));
    assert_eq!(segment.freshness.lifetime(), Duration::from_secs(14));
}

#[test]
fn what_a_channel_names_after_it_is_doubted_is_doubted_too() {
    let channels = Channels::default();
    let below = |target: &str| channels.doubted_below(&key(target));
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    let mpd = |first: u64| {
        format!(
            "<MPD type='dynamic' timeShiftBufferDepth='PT30S'><Period><AdaptationSet><SegmentTemplate \
             media='v{first}/$Number$.m4s' duration='2'/><Representation id='v'/></AdaptationSet>\
             </Period></MPD>"
        )
    };
    note(&channels, "/d/v.mpd", &mpd(1), Format::Mpd, NOW);
    channels.doubt(&[], Some(&key("/c/v.m3u8")), 7);
    channels.doubt(&[], Some(&key("/d/v.mpd")), 9);
    assert_eq!((below("/c/14.m4s"), below("/c/15.m4s"), below("/c/init.mp4")), (7, 0, 7));
    assert_eq!((below("/d/v1/77.m4s"), below("/d/v2/77.m4s"), below("/e/v1/77.m4s")), (9, 0, 0));
    note(&channels, "/c/v.m3u8", &playlist(11, 5, ""), Format::Hls, after(2000));
    note(&channels, "/d/v.mpd", &mpd(2), Format::Mpd, after(2000));
    assert_eq!((below("/c/15.m4s"), below("/d/v2/77.m4s")), (7, 9));
}

#[test]
fn what_is_newly_listed_is_told_of_the_newest_of_each_quality() {
    let channels = Channels::default();
    let mpd = |runs: u64| {
        let qualities: String = (0..50).map(|id| format!("<Representation id='{id}'/>")).collect();
        let text = format!(
            "<MPD type='dynamic' timeShiftBufferDepth='PT30S'><Period><AdaptationSet><SegmentTemplate \
             media='$RepresentationID$/$Time$.m4s'><SegmentTimeline><S t='0' d='2' r='{runs}'/>\
             </SegmentTimeline></SegmentTemplate>{qualities}</AdaptationSet></Period></MPD>"
        );
        read(Format::Mpd, text.as_bytes()).expect("it is a manifest")
    };
    let listed = |runs: u64, begins_again| {
        let manifest = mpd(runs);
        let series = manifest.series.iter();
        let series = series.map(|one| (key(&format!("/c/{}", one.template)), one.clone()));
        let version = Version {
            id: &key("/c/v.mpd"),
            manifest: &manifest,
            class: Class::Live,
            names: Vec::new(),
            templates: Vec::new(),
            series: series.collect(),
            stored: None,
            begins_again,
            has_stood: false,
            now: NOW,
        };
        channels.note(&version).listed
    };
    let all = listed(9999, true);
    assert_eq!(all.len(), limits::LISTED_NEW_MAX);
    let each = limits::LISTED_NEW_MAX as u64 / 50;
    assert_eq!((all.first(), all.last()), (Some(&(0, 2 * (10_000 - each))), Some(&(49, 19_998))));
    assert_eq!(listed(9999, false), []);
    assert!(listed(4, true).ends_with(&[(49, 6), (49, 8)]));
}

#[test]
fn people_are_told_what_is_known() {
    let channels = Channels::default();
    note(&channels, "/c/v.m3u8", &playlist(10, 5, ""), Format::Hls, NOW);
    let text = channels.explain(&key("/c/14.m4s"), after(800)).unwrap();
    assert_eq!(
        text,
        "live channel, window 10 s, target 2 s; this is of use for 21 s; its manifest was read \
         0.8 s ago (media-live)"
    );
    let edge = Edge { sequence: 15, parts: 0 };
    assert!(read(Format::Hls, playlist(10, 5, "").as_bytes()).unwrap().edge() == Some(edge));
}
