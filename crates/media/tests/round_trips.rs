//! Manifests that are written here are read as they were meant.

use freshet_media::{Class, Course, Edge, Format, Kind, Manifest, hls, mpd, read};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::time::Duration;

/// A media playlist to be written.
#[derive(Clone, Debug)]
struct Wanted {
    first: u64,
    /// Milliseconds of each segment, and how many parts it is listed with.
    segments: Vec<(u64, u32)>,
    /// Parts of the segment that is not whole.
    parts: u32,
    kind: usize,
    noise: Vec<usize>,
}

const KINDS: [(&str, Course); 4] = [
    ("", Course::Sliding),
    ("#EXT-X-PLAYLIST-TYPE:EVENT\n", Course::Growing),
    ("#EXT-X-PLAYLIST-TYPE:VOD\n", Course::Ended),
    ("#EXT-X-ENDLIST\n", Course::Ended),
];

/// Lines that mean nothing to the reader, wherever they stand.
const NOISE: [&str; 7] = [
    "# a comment\n",
    "\n",
    "#EXT-X-UNKNOWN:URI=\"evil.ts\"\n",
    "#EXT-X-DATERANGE:ID=\"x\",START-DATE=\"2025-01-01T00:00:00Z\",X-ASSET-URI=\"ad.m3u8\"\n",
    "#EXT-X-PROGRAM-DATE-TIME:2025-01-01T00:00:00Z\n",
    "#EXT-X-KEY:METHOD=AES-128,URI=\"key.bin\"\n",
    "#EXT-X-DISCONTINUITY\r\n",
];

fn wanted() -> impl Strategy<Value = Wanted> {
    let segments = proptest::collection::vec((1_u64..20_000, 0_u32..4), 0..30);
    let noise = proptest::collection::vec(0..NOISE.len(), 1..8);
    (0..u64::from(u32::MAX), segments, 0_u32..5, 0..KINDS.len(), noise).prop_map(
        |(first, segments, parts, kind, noise)| Wanted { first, segments, parts, kind, noise },
    )
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

fn write(wanted: &Wanted) -> String {
    let mut noise = wanted.noise.iter().cycle().map(|at| NOISE[*at]);
    let longest = wanted.segments.iter().map(|(ms, _)| ms.div_ceil(1000)).max().unwrap_or(1);
    let mut out = format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:{longest}\n#EXT-X-MEDIA-SEQUENCE:{}\n{}",
        wanted.first, KINDS[wanted.kind].0
    );
    let part = |out: &mut String, number, at, ms| {
        writeln!(out, "#EXT-X-PART:DURATION={},URI=\"{number}.{at}.m4s\"", seconds(ms))
            .expect("a string takes it");
    };
    for (number, (ms, parts)) in (wanted.first..).zip(&wanted.segments) {
        out.push_str(noise.next().expect("there is some"));
        for at in 0..*parts {
            part(&mut out, number, at, ms / u64::from(*parts));
        }
        write!(out, "#EXTINF:{},name, with: signs\n{number}.m4s\n", seconds(*ms))
            .expect("a string takes it");
    }
    let next = wanted.first + wanted.segments.len() as u64;
    for at in 0..wanted.parts {
        part(&mut out, next, at, 200);
    }
    out
}

fn references(manifest: &Manifest, bytes: &[u8], kind: Kind) -> Vec<String> {
    let of_kind = manifest.names.iter().filter(|name| name.kind == kind);
    of_kind.map(|name| manifest.reference(name, bytes).to_owned()).collect()
}

proptest! {
    #[test]
    fn playlists_are_read_as_meant(wanted in wanted()) {
        let text = write(&wanted);
        let read = read(Format::Hls, text.as_bytes()).unwrap();
        let sum: u64 = wanted.segments.iter().map(|(ms, _)| ms).sum();
        let next = wanted.first + wanted.segments.len() as u64;
        prop_assert_eq!(read.course, KINDS[wanted.kind].1);
        prop_assert_eq!(read.window, Duration::from_millis(sum));
        prop_assert_eq!(read.edge(), Some(Edge { sequence: next, parts: wanted.parts }));
        let names: Vec<_> = (wanted.first..next).map(|number| format!("{number}.m4s")).collect();
        prop_assert_eq!(references(&read, text.as_bytes(), Kind::Segment), names);
        // How much there is before each says how long it stays.
        let mut before = 0;
        let segments = read.names.iter().filter(|name| name.kind == Kind::Segment);
        for (name, (ms, _)) in segments.zip(&wanted.segments) {
            prop_assert_eq!((name.before_ms, name.duration_ms), (before, *ms));
            before += ms;
        }
        // A player sees the same.
        let played = hls::Playlist::read(text.as_bytes()).unwrap();
        prop_assert_eq!((played.first, played.end()), (wanted.first, next));
        prop_assert_eq!(played.ended, wanted.kind == 3);
        prop_assert!(!read.has(next, None) && (next == wanted.first || read.has(next - 1, None)));
    }

    #[test]
    fn manifests_of_dash_are_read_as_meant(
        ids in proptest::collection::btree_set("[a-z]{1,6}", 1..6),
        duration in 1_u64..20_000,
        depth in proptest::option::of(1_u64..100_000),
        is_dynamic in any::<bool>(),
        is_timeline in any::<bool>(),
    ) {
        let depth_text = depth.map_or(String::new(), |s| format!("timeShiftBufferDepth='PT{s}S'"));
        let kind = if is_dynamic { "dynamic" } else { "static" };
        let timing = if is_timeline {
            format!("<SegmentTimeline><S t='0' d='{duration}' r='3'/></SegmentTimeline>")
        } else {
            String::new()
        };
        let mut text = format!(
            "<MPD type='{kind}' {depth_text}><Period><AdaptationSet mimeType='video/mp4'>\
             <SegmentTemplate timescale='1000' duration='{duration}' \
             media='$RepresentationID$-$Number$.m4s' initialization='$RepresentationID$.mp4'>{timing}\
             </SegmentTemplate>"
        );
        for (at, id) in ids.iter().enumerate() {
            write!(text, "<Representation id='{id}' bandwidth='{at}'/>").unwrap();
        }
        text.push_str("</AdaptationSet></Period></MPD>");
        let read = read(Format::Mpd, text.as_bytes()).unwrap();
        let class = match (is_dynamic, depth) {
            (false, _) => Class::Vod,
            (true, Some(depth)) if depth <= 600 => Class::Live,
            (true, _) => Class::Dvr,
        };
        prop_assert_eq!(read.class(Duration::from_secs(600)), Some(class));
        prop_assert_eq!(read.target, Duration::from_millis(duration));
        let inits: Vec<_> = ids.iter().map(|id| format!("{id}.mp4")).collect();
        prop_assert_eq!(references(&read, text.as_bytes(), Kind::Init), inits);
        let played = mpd::presentation(text.as_bytes()).unwrap();
        for (template, one) in read.templates.iter().zip(&played.representations) {
            let segment = one.media(41).unwrap();
            prop_assert!(mpd::matches(template, &segment), "{} {}", template, segment);
        }
        prop_assert_eq!(played.representations.len(), ids.len());
    }
}
