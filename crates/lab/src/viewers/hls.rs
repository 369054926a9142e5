//! Reading HLS playlists: the tags a player needs (RFC 8216 §4.3), others are skipped as §6.3.1 says.

use super::client::Fault;
use std::time::Duration;

/// A multivariant playlist.
#[derive(Debug, PartialEq)]
pub(super) struct Master {
    pub(super) variants: Vec<Variant>,
    /// Renditions of sound with a playlist of their own: group and URI.
    pub(super) sounds: Vec<(String, String)>,
}

/// One quality.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variant {
    pub(super) bandwidth: u64,
    pub(super) uri: String,
    /// The group of sound that goes with it.
    pub(super) sound_group: Option<String>,
}

/// A media playlist.
#[derive(Debug, PartialEq)]
pub(super) struct Media {
    pub(super) target: Duration,
    /// The number of the first segment.
    pub(super) first: u64,
    pub(super) map: Option<String>,
    pub(super) segments: Vec<Segment>,
    pub(super) ended: bool,
}

/// A segment of a media playlist.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Segment {
    pub(super) duration: Duration,
    pub(super) uri: String,
}

impl Media {
    /// Segment `number`, when it is listed.
    pub(super) fn segment(&self, number: u64) -> Option<&Segment> {
        self.segments.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// One more than the number of the last segment.
    pub(super) fn end(&self) -> u64 {
        self.first.saturating_add(self.segments.len() as u64)
    }
}

/// Reads a multivariant playlist with at least one variant.
pub(super) fn parse_master(text: &str) -> Result<Master, Fault> {
    let mut master = Master { variants: Vec::new(), sounds: Vec::new() };
    let mut stream: Option<&str> = None;
    for line in lines(text)? {
        if let Some(attributes) = line.strip_prefix("#EXT-X-MEDIA:") {
            let is_sound = attribute(attributes, "TYPE") == Some("AUDIO");
            if let (true, Some(group), Some(uri)) =
                (is_sound, attribute(attributes, "GROUP-ID"), attribute(attributes, "URI"))
            {
                master.sounds.push((group.to_owned(), uri.to_owned()));
            }
        } else if let Some(attributes) = line.strip_prefix("#EXT-X-STREAM-INF:") {
            stream = Some(attributes);
        } else if !line.starts_with('#') {
            let attributes = stream.take().ok_or(Fault::Manifest)?;
            let bandwidth = attribute(attributes, "BANDWIDTH").and_then(|bits| bits.parse().ok());
            master.variants.push(Variant {
                bandwidth: bandwidth.ok_or(Fault::Manifest)?,
                uri: line.to_owned(),
                sound_group: attribute(attributes, "AUDIO").map(str::to_owned),
            });
        }
    }
    if master.variants.is_empty() { Err(Fault::Manifest) } else { Ok(master) }
}

/// Reads a media playlist.
pub(super) fn parse_media(text: &str) -> Result<Media, Fault> {
    let mut media =
        Media { target: Duration::ZERO, first: 0, map: None, segments: Vec::new(), ended: false };
    let mut duration = None;
    for line in lines(text)? {
        if let Some(seconds) = line.strip_prefix("#EXT-X-TARGETDURATION:") {
            media.target = Duration::from_secs(number(seconds)?);
        } else if let Some(first) = line.strip_prefix("#EXT-X-MEDIA-SEQUENCE:") {
            media.first = number(first)?;
        } else if let Some(attributes) = line.strip_prefix("#EXT-X-MAP:") {
            media.map = attribute(attributes, "URI").map(str::to_owned);
        } else if let Some(info) = line.strip_prefix("#EXTINF:") {
            let seconds = info.split(',').next().and_then(|seconds| seconds.parse::<f64>().ok());
            let span = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            duration = Some(span.ok_or(Fault::Manifest)?);
        } else if line == "#EXT-X-ENDLIST" {
            media.ended = true;
        } else if !line.starts_with('#') {
            let duration = duration.take().ok_or(Fault::Manifest)?;
            media.segments.push(Segment { duration, uri: line.to_owned() });
        }
    }
    if media.target.is_zero() { Err(Fault::Manifest) } else { Ok(media) }
}

/// The lines that are not empty, after the first, which says that this is a playlist.
fn lines(text: &str) -> Result<impl Iterator<Item = &str>, Fault> {
    let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    if lines.next() == Some("#EXTM3U") { Ok(lines) } else { Err(Fault::Manifest) }
}

/// The value of attribute `name` in a list (§4.2), without its quotes.
fn attribute<'a>(mut list: &'a str, name: &str) -> Option<&'a str> {
    loop {
        let (key, rest) = list.split_once('=')?;
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (value, rest) = quoted.split_once('"')?;
                (value, rest.strip_prefix(',').unwrap_or(rest))
            }
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        if key.trim() == name {
            return Some(value);
        }
        list = rest;
    }
}

fn number(text: &str) -> Result<u64, Fault> {
    text.trim().parse().map_err(|_| Fault::Manifest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::find;
    use crate::manifest::hls;
    use crate::programme::{Kind, Schedule};
    use proptest::prelude::*;

    const SCHEDULE: Schedule = Schedule { segment_ms: 2000, window_segments: 5, title_segments: 3 };

    #[test]
    fn our_own_master_reads_as_meant() {
        let master = parse_master(&hls::master(&SCHEDULE)).unwrap();
        assert_eq!(master.variants.len(), 4);
        let sound = "variant01/hlsha/405KB/playlist.m3u8".to_owned();
        assert_eq!(master.sounds, [("sound".to_owned(), sound)]);
        assert!(master.variants.iter().all(|v| v.sound_group.as_deref() == Some("sound")));
    }

    #[test]
    fn our_own_playlists_read_as_meant() {
        let rung = find("variant02/hlshv/4770KB").unwrap();
        let text = hls::playlist(Kind::Live, rung, &SCHEDULE, SCHEDULE.live_start(50));
        let live = parse_media(&text).unwrap();
        assert_eq!((live.first, live.end(), live.ended), (45, 50, false));
        assert_eq!(live.map.as_deref(), Some("init.mp4"));
        assert_eq!(live.segment(49).unwrap().uri, "49.m4s");
        assert_eq!(live.segment(50), None);
        assert_eq!(live.segment(44), None);
        let text = hls::playlist(Kind::OnDemand, rung, &SCHEDULE, SCHEDULE.live_start(0));
        let title = parse_media(&text).unwrap();
        assert!(title.ended);
        assert_eq!(title.segments[2].duration, Duration::from_secs(2));
    }

    #[test]
    fn text_that_is_no_playlist_is_refused() {
        for text in ["", "hello", "#EXTM3U\nno-info.ts\n", "#EXTM3U\n#EXTINF:x,\na.ts\n"] {
            assert_eq!(parse_media(text), Err(Fault::Manifest), "{text:?}");
            assert_eq!(parse_master(text), Err(Fault::Manifest), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_readers(lines in proptest::collection::vec(
            "(#EXTINF:|#EXT-X-MAP:|#EXT-X-STREAM-INF:|#EXT-X-MEDIA-SEQUENCE:|)[ -~]{0,30}", 0..8)
        ) {
            let text = format!("#EXTM3U\n{}", lines.join("\n"));
            let _ = parse_media(&text);
            let _ = parse_master(&text);
        }
    }
}
