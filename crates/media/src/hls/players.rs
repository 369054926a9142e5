//! Playlists as players use them: the tags they need, others are skipped as RFC 8216 §6.3.1 says.

use super::attributes::attribute;
use super::lines::{Line, lines, milliseconds};
use crate::error::Unreadable;
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
}

/// A segment of a media playlist.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// How long it lasts.
    pub duration: Duration,
    /// Its reference.
    pub uri: String,
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
        };
        let mut duration_ms = None;
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
                Line::Tag(..) => {}
                Line::Reference(uri) => {
                    let duration = Duration::from_millis(duration_ms.take().ok_or(refused)?);
                    read.segments.push(Segment { duration, uri: uri.to_owned() });
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
    fn text_that_no_player_can_play_is_refused() {
        for text in ["", "hello", "#EXTM3U\nno-info.ts\n", "#EXTM3U\n#EXTINF:x,\na.ts\n"] {
            assert_eq!(Playlist::read(text.as_bytes()), Err(Unreadable::OriginNoManifest));
            assert_eq!(Multivariant::read(text.as_bytes()), Err(Unreadable::OriginNoManifest));
        }
    }
}
