//! What a playlist says, for who keeps what it names.

use super::attributes::attribute;
use super::lines::{Line, lines_of, milliseconds};
use super::ranges::Onward;
use super::variables::{Given, expanded};
use crate::error::Unreadable;
use crate::limits::{REFERENCE_BYTES_MAX, WINDOW_MAX};
use crate::manifest::{Course, Edge, Kind, Manifest, Name};
use crate::mpd::time::instant;
use crate::progress::Progress;
use crate::text::{STAND_IN, text_of};
use freshet_base::clock::UnixMillis;
use std::ops::Range;
use std::time::Duration;

/// Reads a playlist of either kind, which may take variables from what is `given`.
///
/// # Errors
/// [`Unreadable`]
pub fn read(bytes: &[u8], given: &Given<'_>) -> Result<Manifest, Unreadable> {
    let text = text_of(bytes);
    let Some((made, variables)) = expanded(&text, given)? else { return read_text(&text) };
    let manifest = read_text(&made)?;
    Ok(Manifest { made, variables, ..manifest })
}

fn read_text(text: &str) -> Result<Manifest, Unreadable> {
    let mut reading = Reading::new(text);
    let mut has_tag = false;
    for line in lines_of(text)? {
        match line? {
            Line::Tag(name, value) => {
                has_tag |= name.starts_with("EXT-X-");
                reading.tag(name, value);
            }
            Line::Reference(reference) => reading.reference(reference),
        }
    }
    // Without a tag of HLS it is a list of songs or stations, which does not go on.
    if has_tag { Ok(reading.finish()) } else { Err(Unreadable::OriginNoManifest) }
}

/// How far the reading is.
struct Reading<'a> {
    manifest: Manifest,
    text: &'a str,
    /// The number of the segment that is read, and of the first.
    sequence: u64,
    first: u64,
    /// The number of its discontinuity.
    discontinuity: u64,
    has_discontinuity: bool,
    /// When it begins on the clock, where that is known.
    date: Option<UnixMillis>,
    /// The duration of the segment whose reference comes next.
    segment_ms: Option<u64>,
    /// What `EXT-X-BYTERANGE` says of it, where ranges of segments go on, and where those of parts do.
    byte_range: Option<&'a str>,
    segments_onward: Onward<'a>,
    parts_onward: Onward<'a>,
    /// `EXT-X-GAP` says that it is not there.
    is_gap: bool,
    /// The next reference is another playlist, of so many bits a second.
    is_variant: bool,
    bandwidth: u64,
    /// What the segments so far last.
    sum_ms: u64,
    longest_ms: u64,
    target_ms: Option<u64>,
    part_ms: Option<u64>,
    /// Parts of the segment that is read, and what they last.
    parts: u32,
    parts_of_ms: u64,
    is_multivariant: bool,
}

impl<'a> Reading<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            manifest: Manifest::new(Course::Sliding),
            text,
            sequence: 0,
            first: 0,
            discontinuity: 0,
            has_discontinuity: false,
            date: None,
            segment_ms: None,
            byte_range: None,
            segments_onward: Onward::default(),
            parts_onward: Onward::default(),
            is_gap: false,
            is_variant: false,
            bandwidth: 0,
            sum_ms: 0,
            longest_ms: 0,
            target_ms: None,
            part_ms: None,
            parts: 0,
            parts_of_ms: 0,
            is_multivariant: false,
        }
    }

    fn tag(&mut self, name: &str, value: &'a str) {
        match name {
            "EXTINF" => {
                self.segment_ms = milliseconds(value.split(',').next().unwrap_or_default().trim());
            }
            "EXT-X-GAP" => self.is_gap = true,
            "EXT-X-BYTERANGE" => self.byte_range = Some(value.trim()),
            "EXT-X-PART" => self.part(value),
            "EXT-X-TARGETDURATION" => self.target_ms = milliseconds(value.trim()),
            "EXT-X-MEDIA-SEQUENCE" => {
                self.sequence = value.trim().parse().unwrap_or(0);
                self.first = self.sequence;
            }
            "EXT-X-DISCONTINUITY-SEQUENCE" => {
                self.discontinuity = value.trim().parse().unwrap_or(0);
            }
            "EXT-X-DISCONTINUITY" => {
                self.discontinuity = self.discontinuity.saturating_add(1);
                self.has_discontinuity = true;
            }
            "EXT-X-PROGRAM-DATE-TIME" => self.date = instant(value.trim()),
            "EXT-X-PART-INF" => {
                self.part_ms = attribute(value, "PART-TARGET").and_then(milliseconds);
            }
            "EXT-X-SERVER-CONTROL" => {
                self.manifest.can_block = attribute(value, "CAN-BLOCK-RELOAD") == Some("YES");
            }
            "EXT-X-SKIP" => self.skip(value),
            "EXT-X-PRELOAD-HINT" if attribute(value, "TYPE") == Some("PART") => {
                self.hint(value);
            }
            "EXT-X-KEY" | "EXT-X-SESSION-KEY" if attribute(value, "METHOD") != Some("NONE") => {
                self.name_of(value, Kind::Key, 0, None);
            }
            "EXT-X-MAP" => {
                let range = attribute(value, "BYTERANGE");
                let range = range.and_then(|range| Onward::default().range("", range));
                self.name_of(value, Kind::Init, 0, range);
            }
            "EXT-X-RENDITION-REPORT" => self.name_of(value, Kind::Playlist, 0, None),
            "EXT-X-ENDLIST" => self.manifest.course = Course::Ended,
            "EXT-X-PLAYLIST-TYPE" => match value.trim() {
                "VOD" => self.manifest.course = Course::Ended,
                "EVENT" if self.manifest.course == Course::Sliding => {
                    self.manifest.course = Course::Growing;
                }
                _ => {}
            },
            "EXT-X-STREAM-INF" => {
                (self.is_multivariant, self.is_variant) = (true, true);
                // How much it is on the whole tells more than how much it may be for a moment.
                let bits = ["AVERAGE-BANDWIDTH", "BANDWIDTH"].iter();
                let mut bits = bits.filter_map(|name| attribute(value, name)?.parse().ok());
                self.bandwidth = bits.next().unwrap_or(0);
            }
            "EXT-X-MEDIA" | "EXT-X-I-FRAME-STREAM-INF" => {
                self.is_multivariant = true;
                self.name_of(value, Kind::Playlist, 0, None);
            }
            _ => {}
        }
    }

    fn reference(&mut self, reference: &'a str) {
        if std::mem::take(&mut self.is_variant) {
            self.name(reference, Kind::Playlist, 0, None);
            self.bandwidth = 0;
            return;
        }
        // Without a duration it is none of the playlist's (RFC 8216 §4.3.2.1), though players play it.
        let segment_ms = self.segment_ms.take().unwrap_or(0);
        self.manifest.last_parts = std::mem::take(&mut self.parts);
        self.parts_of_ms = 0;
        let range = self.byte_range.take();
        let range = range.and_then(|range| self.segments_onward.range(reference, range));
        if !std::mem::take(&mut self.is_gap) {
            self.name(reference, Kind::Segment, segment_ms, range);
        }
        self.sum_ms = self.sum_ms.saturating_add(segment_ms);
        self.date = self.date.map(|date| date.plus(Duration::from_millis(segment_ms)));
        self.longest_ms = self.longest_ms.max(segment_ms);
        self.sequence = self.sequence.saturating_add(1);
    }

    fn part(&mut self, value: &'a str) {
        let part_ms = attribute(value, "DURATION").and_then(milliseconds).unwrap_or(0);
        let range = attribute(value, "BYTERANGE").zip(attribute(value, "URI"));
        let range = range.and_then(|(range, uri)| self.parts_onward.range(uri, range));
        if attribute(value, "GAP") != Some("YES") {
            self.name_of(value, Kind::Part, part_ms, range);
        }
        self.parts = self.parts.saturating_add(1);
        self.parts_of_ms = self.parts_of_ms.saturating_add(part_ms);
    }

    /// A part that is to come; where it is a range it may not be known yet where that ends.
    fn hint(&mut self, value: &str) {
        let number = |name| attribute(value, name).map(str::parse::<u64>);
        let range = match (number("BYTERANGE-START"), number("BYTERANGE-LENGTH")) {
            (None, None) => None,
            (start, length) => {
                let start = start.and_then(Result::ok).unwrap_or(0);
                let length = length.and_then(Result::ok).unwrap_or(u64::MAX);
                Some(start..start.saturating_add(length))
            }
        };
        self.name_of(value, Kind::Hint, self.part_ms.unwrap_or(0), range);
    }

    /// Segments that a delta update leaves out: about as long as the target.
    fn skip(&mut self, value: &str) {
        let count = attribute(value, "SKIPPED-SEGMENTS").and_then(|count| count.parse().ok());
        let count: u64 = count.unwrap_or(0);
        self.manifest.is_delta = true;
        self.sequence = self.sequence.saturating_add(count);
        let skipped_ms = count.saturating_mul(self.target_ms.unwrap_or(0));
        self.sum_ms = self.sum_ms.saturating_add(skipped_ms);
    }

    fn name_of(
        &mut self,
        attributes: &str,
        kind: Kind,
        duration_ms: u64,
        range: Option<Range<u64>>,
    ) {
        if let Some(reference) = attribute(attributes, "URI") {
            self.name(reference, kind, duration_ms, range);
        }
    }

    fn name(&mut self, reference: &str, kind: Kind, duration_ms: u64, range: Option<Range<u64>>) {
        // What has a variable in it that is not known is not what it says, and what is no text is said
        // by each player in another way.
        let has_variable = reference.contains('{') && reference.contains("{$");
        let is_plain = !has_variable && !reference.contains(STAND_IN);
        if reference.is_empty() || reference.len() > REFERENCE_BYTES_MAX || !is_plain {
            return;
        }
        let start = reference.as_ptr().addr() - self.text.as_ptr().addr();
        let Ok(start) = u32::try_from(start) else { return };
        let end = start.saturating_add(u32::try_from(reference.len()).unwrap_or(u32::MAX));
        let before_ms = self.sum_ms.saturating_add(self.parts_of_ms);
        let is_media = matches!(kind, Kind::Segment | Kind::Part | Kind::Hint);
        self.manifest.names.push(Name {
            kind,
            reference: start..end,
            range,
            duration_ms,
            sequence: is_media.then_some(self.sequence),
            bandwidth: if self.is_multivariant { self.bandwidth } else { 0 },
            before_ms,
        });
    }

    fn finish(self) -> Manifest {
        let mut manifest = self.manifest;
        if self.is_multivariant {
            return Manifest { course: Course::OfOthers, ..manifest };
        }
        let span = |ms: u64| Duration::from_millis(ms).min(WINDOW_MAX);
        manifest.target = span(self.target_ms.unwrap_or(0).max(self.longest_ms));
        manifest.part_target = self.part_ms.map(span);
        manifest.window = span(self.sum_ms);
        let parts_of = Duration::from_millis(self.parts_of_ms);
        manifest.progress = Some(Progress::Playlist {
            first: self.first,
            edge: Edge { sequence: self.sequence, parts: self.parts },
            discontinuity: self.discontinuity,
            has_discontinuity: self.has_discontinuity,
            until: self.date.map(|date| date.plus(parts_of)),
        });
        manifest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn read(bytes: &[u8]) -> Result<Manifest, Unreadable> {
        super::read(bytes, &Given::default())
    }

    const LOW_LATENCY: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-VERSION:9\n\
        #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=1.0,CAN-SKIP-UNTIL=24\n\
        #EXT-X-PART-INF:PART-TARGET=0.33334\n#EXT-X-MEDIA-SEQUENCE:266\n\
        #EXT-X-MAP:URI=\"init.mp4\"\n\
        #EXTINF:4.00008,\nfile266.mp4\n\
        #EXT-X-PART:DURATION=2.00004,URI=\"file267.1.mp4\",INDEPENDENT=YES\n\
        #EXT-X-PART:DURATION=2.00004,URI=\"file267.2.mp4\"\n\
        #EXTINF:4.00008,\nfile267.mp4\n\
        #EXT-X-PART:DURATION=0.33334,URI=\"file268.1.mp4\"\n\
        #EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"file268.2.mp4\"\n\
        #EXT-X-RENDITION-REPORT:URI=\"../1M/list.m3u8\",LAST-MSN=268,LAST-PART=0\n";

    fn named(manifest: &Manifest, text: &str, kind: Kind) -> Vec<String> {
        let of_kind = manifest.names.iter().filter(|name| name.kind == kind);
        of_kind.map(|name| manifest.reference(name, text.as_bytes()).to_owned()).collect()
    }

    #[test]
    fn a_low_latency_playlist_says_how_far_it_has_come() {
        let read = read(LOW_LATENCY.as_bytes()).unwrap();
        assert_eq!(read.class(Duration::from_secs(600)), Some(Class::Live));
        assert_eq!(read.class(Duration::from_secs(7)), Some(Class::Dvr));
        assert_eq!((read.target.as_millis(), read.window.as_millis()), (4000, 8000));
        assert_eq!(read.part_target, Some(Duration::from_millis(333)));
        assert_eq!(read.edge(), Some(Edge { sequence: 268, parts: 1 }));
        assert!(read.can_block);
        assert_eq!(named(&read, LOW_LATENCY, Kind::Segment), ["file266.mp4", "file267.mp4"]);
        assert_eq!(named(&read, LOW_LATENCY, Kind::Part).len(), 3);
        assert_eq!(named(&read, LOW_LATENCY, Kind::Hint), ["file268.2.mp4"]);
        assert_eq!(named(&read, LOW_LATENCY, Kind::Init), ["init.mp4"]);
        assert_eq!(named(&read, LOW_LATENCY, Kind::Playlist), ["../1M/list.m3u8"]);
        let before: Vec<_> = read.names.iter().map(|name| name.before_ms).collect();
        assert_eq!(before, [0, 0, 4000, 6000, 4000, 8000, 8333, 8333]);
        for (sequence, part, is_there) in [
            (267, None, true),
            (268, None, false),
            (268, Some(0), true),
            (268, Some(1), false),
            (267, Some(1), true),
            (267, Some(2), true),
            (269, Some(0), false),
            (1, Some(99), true),
        ] {
            assert_eq!(read.has(sequence, part), is_there, "{sequence} {part:?}");
        }
    }

    #[test]
    fn a_part_beyond_the_last_is_the_first_of_the_next() {
        let text = LOW_LATENCY.replace("#EXT-X-PART:DURATION=0.33334", "#EXT-X-OTHER:DURATION=1");
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(read.edge(), Some(Edge { sequence: 268, parts: 0 }));
        assert!(read.has(267, Some(1)));
        assert!(!read.has(267, Some(2)));
    }

    #[test]
    fn what_is_missing_is_not_named_and_counts() {
        let text = LOW_LATENCY
            .replace("file267.mp4", "file267.mp4\n#EXT-X-GAP")
            .replace("file268.1.mp4\"", "file268.1.mp4\",GAP=YES")
            + "#EXTINF:4,\nfile268.mp4\n#EXTINF:4,\nfile269.mp4\n";
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(read.edge(), Some(Edge { sequence: 270, parts: 0 }));
        let segments = named(&read, &text, Kind::Segment);
        assert_eq!(segments, ["file266.mp4", "file267.mp4", "file269.mp4"]);
        assert_eq!(named(&read, &text, Kind::Part), ["file267.1.mp4", "file267.2.mp4"]);
    }

    #[test]
    fn a_list_of_songs_or_stations_is_no_playlist_of_hls() {
        for text in [
            "#EXTM3U\n",
            "#EXTM3U\n#EXTINF:213,Artist - Title\nsong.mp3\n",
            "#EXTM3U x-tvg-url=\"epg\"\n#EXTINF:-1 tvg-id=\"a\",News\nhttp://a/live.m3u8\n",
        ] {
            let refused = read(text.as_bytes()).err();
            assert_eq!(refused, Some(Unreadable::OriginNoManifest), "{text}");
        }
    }

    #[test]
    fn courses_are_told_apart() {
        let course = |tags: &str| {
            let text = format!("#EXTM3U\n#EXT-X-VERSION:3\n{tags}\n#EXTINF:2,\na.ts\n");
            read(text.as_bytes()).unwrap().course
        };
        assert_eq!(course(""), Course::Sliding);
        assert_eq!(course("#EXT-X-PLAYLIST-TYPE:EVENT"), Course::Growing);
        assert_eq!(course("#EXT-X-PLAYLIST-TYPE:VOD"), Course::Ended);
        assert_eq!(course("#EXT-X-ENDLIST\n#EXT-X-PLAYLIST-TYPE:EVENT"), Course::Ended);
        assert_eq!(course("#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8"), Course::OfOthers);
    }

    #[test]
    fn a_multivariant_playlist_names_all_of_its_playlists() {
        let text = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",URI=\"a.m3u8\"\n\
                    #EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID=\"c\"\n\
                    #EXT-X-STREAM-INF:BANDWIDTH=1\nv1.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=2\nv2.m3u8\n\
                    #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI=\"i.m3u8\"\n";
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(read.class(Duration::ZERO), None);
        assert_eq!(named(&read, text, Kind::Playlist), ["a.m3u8", "v1.m3u8", "v2.m3u8", "i.m3u8"]);
    }

    #[test]
    fn what_is_named_has_its_number_or_its_bit_rate() {
        let read = read(LOW_LATENCY.as_bytes()).unwrap();
        let numbers: Vec<_> = read.names.iter().map(|name| name.sequence).collect();
        let want = [None, Some(266), Some(267), Some(267), Some(267), Some(268), Some(268), None];
        assert_eq!(numbers, want);
        let text = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=9000,AVERAGE-BANDWIDTH=7000\na\n\
                    #EXT-X-STREAM-INF:BANDWIDTH=5000\nb\n#EXT-X-MEDIA:TYPE=AUDIO,URI=\"c\"\n";
        let read = self::read(text.as_bytes()).unwrap();
        let bits: Vec<_> = read.names.iter().map(|name| name.bandwidth).collect();
        assert_eq!(bits, [7000, 5000, 0]);
    }

    #[test]
    fn what_is_a_part_of_a_file_has_its_bytes() {
        let text = "#EXTM3U\n#EXT-X-MAP:URI=\"f\",BYTERANGE=\"800@0\"\n#EXT-X-BYTERANGE:100@800\n\
                    #EXTINF:2,\nf\n#EXTINF:2,\n#EXT-X-BYTERANGE:50\nf\n#EXTINF:2,\n\
                    #EXT-X-BYTERANGE:50\nother\n#EXTINF:2,\nwhole\n\
                    #EXT-X-PART:DURATION=1,URI=\"p\",BYTERANGE=\"10@0\"\n\
                    #EXT-X-PART:DURATION=1,URI=\"p\",BYTERANGE=\"5\"\n\
                    #EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"p\",BYTERANGE-START=15\n\
                    #EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"q\",BYTERANGE-LENGTH=7\n";
        let read = read(text.as_bytes()).unwrap();
        let ranges: Vec<_> = read.names.iter().map(|name| name.range.clone()).collect();
        let want = [
            Some(0..800),
            Some(800..900),
            Some(900..950),
            // Nothing says where it begins: it is none that could be asked for.
            None,
            None,
            Some(0..10),
            Some(10..15),
            Some(15..u64::MAX),
            Some(0..7),
        ];
        assert_eq!(ranges, want);
    }

    #[test]
    fn keys_are_named_of_both_kinds_of_playlist() {
        let text = "#EXTM3U\n#EXT-X-KEY:METHOD=NONE\n#EXT-X-KEY:METHOD=AES-128,URI=\"/k?id=1\",IV=0x1\n\
                    #EXTINF:2,\na.ts\n#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://x\"\n#EXTINF:2,\nb.ts\n";
        assert_eq!(named(&read(text.as_bytes()).unwrap(), text, Kind::Key), ["/k?id=1", "skd://x"]);
        let text = "#EXTM3U\n#EXT-X-SESSION-KEY:METHOD=AES-128,URI=\"k\"\n\
                    #EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8\n";
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(
            (read.course, named(&read, text, Kind::Key)),
            (Course::OfOthers, vec!["k".into()])
        );
    }

    #[test]
    fn a_delta_update_counts_what_it_leaves_out() {
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:10\n\
                    #EXT-X-SKIP:SKIPPED-SEGMENTS=5\n#EXTINF:2,\n15.ts\n";
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(read.edge(), Some(Edge { sequence: 16, parts: 0 }));
        assert_eq!(read.window, Duration::from_secs(12));
        assert_eq!(read.names[0].before_ms, 10_000);
        assert!(read.is_delta);
    }

    #[test]
    fn bytes_that_are_no_text_cost_what_they_are_in_only() {
        let bytes =
            b"\xef\xbb\xbf#EXTM3U\r\n#EXT-X-TARGETDURATION:2\n# K\xf6ln\r\n#EXTINF:2,Caf\xe9\r\n\
            a.ts\r\n#EXTINF:2,\nb\xfc.ts\n#EXTINF:2,\nc.ts\n\
            #EXT-X-MAP:NAME=\"fran\xe7ais\",URI=\"i.mp4\"\n";
        let read = read(bytes).unwrap();
        let names = read.names.iter().map(|name| (read.reference(name, bytes), name.sequence));
        assert_eq!(
            names.collect::<Vec<_>>(),
            [("a.ts", Some(0)), ("c.ts", Some(2)), ("i.mp4", None)]
        );
        assert_eq!(read.window, Duration::from_secs(6));
    }

    #[test]
    fn names_are_what_variables_stand_for() {
        let text = "#EXTM3U\n#EXT-X-DEFINE:NAME=\"host\",VALUE=\"http://cdn.example/x\"\n\
                    #EXT-X-DEFINE:QUERYPARAM=\"token\"\n#EXT-X-TARGETDURATION:2\n\
                    #EXT-X-MAP:URI=\"{$host}/i.mp4?t={$token}\"\n#EXTINF:2,{$host}\n{$host}/1.m4s\n\
                    #EXTINF:2,\n2.m4s\n#EXTINF:2,\n{$unknown}/3.m4s\n";
        let given = Given { query: "token=a%3Db", ..Given::default() };
        let read = super::read(text.as_bytes(), &given).unwrap();
        let names: Vec<_> =
            read.names.iter().map(|name| read.reference(name, text.as_bytes())).collect();
        let want = ["http://cdn.example/x/i.mp4?t=a=b", "http://cdn.example/x/1.m4s", "2.m4s"];
        assert_eq!(names, want);
        assert_eq!(read.edge(), Some(Edge { sequence: 3, parts: 0 }));
        assert_eq!(read.variables.value("token"), Some("a=b"));
    }

    #[test]
    fn lines_that_make_no_sense_are_left_out() {
        let long = "x".repeat(REFERENCE_BYTES_MAX + 1);
        let text = format!(
            "#EXTM3U\n#EXT-X-TARGETDURATION:nan\n#EXT-X-MEDIA-SEQUENCE:-3\n\
             #EXTINF:-2,\na.ts\n#EXTINF:1e99,\nb.ts\n#EXTINF:1,\n{long}\n#EXTINF:3,\n{{$v}}/c.ts\n\
             #EXT-X-SKIP:SKIPPED-SEGMENTS=18446744073709551615\n#EXTINF:2,\nd.ts\n"
        );
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(named(&read, &text, Kind::Segment), ["a.ts", "b.ts", "d.ts"]);
        assert_eq!(read.target, Duration::from_secs(3));
        assert!(read.window <= WINDOW_MAX);
    }
}
