//! Playlists as players use them: the tags they need, others are skipped as RFC 8216 §6.3.1 says.

use super::attributes::attribute;
use super::lines::{Line, lines, milliseconds};
use crate::error::Unreadable;
use crate::mpd::time::instant;
use freshet_base::clock::UnixMillis;
use std::time::Duration;

/// A multivariant playlist.
#[derive(Debug, PartialEq)]
pub struct Multivariant {
    /// Its qualities, in its order.
    pub variants: Vec<Variant>,
    /// Renditions of sound with a playlist of their own: group and reference.
    pub sounds: Vec<(String, String)>,
}

/// One quality.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Bits a second.
    pub bandwidth: u64,
    /// The reference of its playlist.
    pub uri: String,
    /// The group of sound that goes with it.
    pub sound_group: Option<String>,
}

/// A media playlist.
#[derive(Debug, PartialEq)]
pub struct Playlist {
    /// The longest segment.
    pub target: Duration,
    /// The number of the first segment.
    pub first: u64,
    /// The reference of the track header.
    pub map: Option<String>,
    /// Segments, in order.
    pub segments: Vec<Segment>,
    /// Whether no segment comes any more.
    pub ended: bool,
    /// Parts of segments, in order, the one that is being made included.
    pub parts: Vec<Part>,
    /// How far behind the newest part to play; `None` where there are no parts, or the server does not
    /// hold back what is asked for until it is there.
    pub part_hold_back: Option<Duration>,
}

/// A part of a segment (draft-pantos-hls-rfc8216bis §4.4.4.9).
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The number of its segment.
    pub sequence: u64,
    /// Its place in it, from 0.
    pub index: u64,
    /// What it is.
    pub media: Segment,
}

/// A segment of a media playlist.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// How long it lasts.
    pub duration: Duration,
    /// Its reference.
    pub uri: String,
    /// When it ends on the clock, where the playlist says when it begins.
    pub end: Option<UnixMillis>,
}

impl Multivariant {
    /// Reads one with at least one variant.
    ///
    /// # Errors
    /// It is none, or a variant has no bandwidth.
    pub fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut read = Self { variants: Vec::new(), sounds: Vec::new() };
        let mut stream: Option<&str> = None;
        for line in lines(bytes)? {
            match line? {
                Line::Tag("EXT-X-MEDIA", attributes) => {
                    let is_sound = attribute(attributes, "TYPE") == Some("AUDIO");
                    if let (true, Some(group), Some(uri)) =
                        (is_sound, attribute(attributes, "GROUP-ID"), attribute(attributes, "URI"))
                    {
                        read.sounds.push((group.to_owned(), uri.to_owned()));
                    }
                }
                Line::Tag("EXT-X-STREAM-INF", attributes) => stream = Some(attributes),
                Line::Tag(..) => {}
                Line::Reference(uri) => {
                    let attributes = stream.take().ok_or(Unreadable::OriginNoManifest)?;
                    let bandwidth =
                        attribute(attributes, "BANDWIDTH").and_then(|bits| bits.parse().ok());
                    read.variants.push(Variant {
                        bandwidth: bandwidth.ok_or(Unreadable::OriginNoManifest)?,
                        uri: uri.to_owned(),
                        sound_group: attribute(attributes, "AUDIO").map(str::to_owned),
                    });
                }
            }
        }
        if read.variants.is_empty() { Err(Unreadable::OriginNoManifest) } else { Ok(read) }
    }
}

impl Playlist {
    /// Reads one with a target duration, whose segments all have theirs.
    ///
    /// # Errors
    /// It is none.
    pub fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut read = Self {
            target: Duration::ZERO,
            first: 0,
            map: None,
            segments: Vec::new(),
            ended: false,
            parts: Vec::new(),
            part_hold_back: None,
        };
        let mut duration_ms = None;
        // When what is read next begins, of segments and of the parts of the one that comes.
        let (mut starts, mut part_starts) = (None, None);
        let mut index = 0;
        let refused = Unreadable::OriginNoManifest;
        for line in lines(bytes)? {
            match line? {
                Line::Tag("EXT-X-TARGETDURATION", seconds) => {
                    let ms = milliseconds(seconds.trim()).ok_or(refused)?;
                    read.target = Duration::from_millis(ms);
                }
                Line::Tag("EXT-X-MEDIA-SEQUENCE", first) => {
                    read.first = first.trim().parse().map_err(|_| refused)?;
                }
                Line::Tag("EXT-X-MAP", attributes) => {
                    read.map = attribute(attributes, "URI").map(str::to_owned);
                }
                Line::Tag("EXTINF", info) => {
                    let seconds = info.split(',').next().unwrap_or_default();
                    duration_ms = Some(milliseconds(seconds.trim()).ok_or(refused)?);
                }
                Line::Tag("EXT-X-ENDLIST", _) => read.ended = true,
                Line::Tag("EXT-X-PROGRAM-DATE-TIME", text) => {
                    starts = instant(text.trim());
                    part_starts = starts;
                }
                Line::Tag("EXT-X-SERVER-CONTROL", attributes) => {
                    let blocks = attribute(attributes, "CAN-BLOCK-RELOAD") == Some("YES");
                    let seconds = attribute(attributes, "PART-HOLD-BACK").filter(|_| blocks);
                    let ms = seconds.and_then(milliseconds);
                    read.part_hold_back = ms.map(Duration::from_millis);
                }
                Line::Tag("EXT-X-PART", attributes) => {
                    let seconds = attribute(attributes, "DURATION").and_then(milliseconds);
                    let uri = attribute(attributes, "URI").ok_or(refused)?.to_owned();
                    let duration = Duration::from_millis(seconds.ok_or(refused)?);
                    part_starts = part_starts.map(|start: UnixMillis| start.plus(duration));
                    let media = Segment { duration, uri, end: part_starts };
                    read.parts.push(Part { sequence: read.end(), index, media });
                    index += 1;
                }
                Line::Tag(..) => {}
                Line::Reference(uri) => {
                    let duration = Duration::from_millis(duration_ms.take().ok_or(refused)?);
                    starts = starts.map(|start: UnixMillis| start.plus(duration));
                    (part_starts, index) = (starts, 0);
                    read.segments.push(Segment { duration, uri: uri.to_owned(), end: starts });
                }
            }
        }
        if read.target.is_zero() { Err(refused) } else { Ok(read) }
    }

    /// Segment `number`, when it is listed.
    pub fn segment(&self, number: u64) -> Option<&Segment> {
        self.segments.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// One more than the number of the last segment.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.segments.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualities_have_bandwidth_and_sound() {
        let text = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"s\",URI=\"s.m3u8\"\n\
                    #EXT-X-STREAM-INF:BANDWIDTH=9,AUDIO=\"s\"\nv.m3u8\n";
        let read = Multivariant::read(text.as_bytes()).unwrap();
        assert_eq!(read.sounds, [("s".to_owned(), "s.m3u8".to_owned())]);
        let variant = Variant { bandwidth: 9, uri: "v.m3u8".into(), sound_group: Some("s".into()) };
        assert_eq!(read.variants, [variant]);
    }

    #[test]
    fn segments_are_found_by_number() {
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:45\n\
                    #EXT-X-MAP:URI=\"init.mp4\"\n#EXTINF:2,\n45.m4s\n#EXTINF:1.5,\n46.m4s\n";
        let read = Playlist::read(text.as_bytes()).unwrap();
        assert_eq!((read.first, read.end(), read.ended), (45, 47, false));
        assert_eq!(read.map.as_deref(), Some("init.mp4"));
        assert_eq!(read.segment(46).unwrap().duration, Duration::from_millis(1500));
        assert_eq!(read.segment(47), None);
        assert_eq!(read.segment(44), None);
    }

    #[test]
    fn parts_are_of_the_segment_that_follows_and_end_on_the_clock() {
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:7\n\
                    #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=1.5\n\
                    #EXT-X-PROGRAM-DATE-TIME:1970-01-01T00:01:00Z\n\
                    #EXTINF:2,\n7.m4s\n#EXT-X-PART:DURATION=0.5,URI=\"8.0\"\n\
                    #EXT-X-PART:DURATION=1.5,URI=\"8.1\"\n#EXTINF:2,\n8.m4s\n\
                    #EXT-X-PART:DURATION=0.5,URI=\"9.0\"\n";
        let read = Playlist::read(text.as_bytes()).unwrap();
        assert_eq!(read.part_hold_back, Some(Duration::from_millis(1500)));
        let parts: Vec<_> = read.parts.iter().map(|part| (part.sequence, part.index)).collect();
        assert_eq!(parts, [(8, 0), (8, 1), (9, 0)]);
        let ends: Vec<_> = read.parts.iter().map(|part| part.media.end.unwrap().0).collect();
        assert_eq!(ends, [62_500, 64_000, 64_500]);
        assert_eq!(read.segment(8).unwrap().end, Some(UnixMillis(64_000)));
        let whole = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\na\n";
        let read = Playlist::read(whole.as_bytes()).unwrap();
        assert_eq!((read.parts.len(), read.part_hold_back), (0, None));
    }

    #[test]
    fn text_that_no_player_can_play_is_refused() {
        for text in ["", "hello", "#EXTM3U\nno-info.ts\n", "#EXTM3U\n#EXTINF:x,\na.ts\n"] {
            assert_eq!(Playlist::read(text.as_bytes()), Err(Unreadable::OriginNoManifest));
            assert_eq!(Multivariant::read(text.as_bytes()), Err(Unreadable::OriginNoManifest));
        }
    }
}
