//! HLS playlists, RFC 8216.

use super::{INIT, PLAYLIST, SEGMENT_SUFFIX};
use crate::ladder::{Rung, TABLE_3, Track};
use crate::media::{self, PICTURES_PER_SECOND, aac, avc};
use crate::programme::{Edge, Kind, Schedule};
use freshet_base::clock::UnixMillis;
use freshet_media::mpd::time::instant_text;
use std::fmt::Write;

/// The multivariant playlist: one group of sound, and each rung of pictures as a variant. It is the
/// same for all programmes, since it names its playlists relative to itself.
pub fn master(schedule: &Schedule) -> String {
    let mut text = String::from("#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n");
    let mut sound_bits = 0;
    for rung in TABLE_3.iter().filter(|rung| rung.in_hls && !rung.is_video()) {
        sound_bits = sound_bits.max(peak_bits(rung, schedule));
        line(
            &mut text,
            format_args!(
                "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"Tone\",DEFAULT=YES,\
                 AUTOSELECT=YES,CHANNELS=\"2\",URI=\"{}/{PLAYLIST}\"",
                rung.path
            ),
        );
    }
    for rung in TABLE_3.iter().filter(|rung| rung.in_hls) {
        let Track::Video(size) = rung.track else { continue };
        let bits = peak_bits(rung, schedule) + sound_bits;
        line(
            &mut text,
            format_args!(
                "#EXT-X-STREAM-INF:BANDWIDTH={bits},AVERAGE-BANDWIDTH={bits},\
                 CODECS=\"{},{}\",RESOLUTION={}x{},FRAME-RATE={PICTURES_PER_SECOND}.000,\
                 AUDIO=\"sound\"\n{}/{PLAYLIST}",
                avc::codec_name(size),
                aac::CODEC_NAME,
                size.width,
                size.height,
                rung.path
            ),
        );
    }
    text
}

/// The playlist of `rung` at `now`: the window of a channel, or a title with its end. A channel of low
/// latency also has parts, and leaves out what a player knows that asks for what is new (`skips`).
pub fn playlist(
    kind: Kind,
    rung: &Rung,
    schedule: &Schedule,
    now: UnixMillis,
    skips: bool,
) -> String {
    let mut listed = schedule.listed(kind, now);
    let parts = match kind {
        Kind::Live => Parts::of(rung, schedule, now),
        Kind::OnDemand => None,
    };
    let mut text = String::with_capacity(256 + 48 * (listed.end - listed.start) as usize);
    let version = if parts.is_some() { 9 } else { 7 };
    line(&mut text, format_args!("#EXTM3U\n#EXT-X-VERSION:{version}\n#EXT-X-INDEPENDENT-SEGMENTS"));
    // Sound runs over by less than half a second, which rounds away as RFC 8216 §4.3.3.1 allows.
    let target = schedule.segment_ms.div_ceil(1000);
    line(&mut text, format_args!("#EXT-X-TARGETDURATION:{target}"));
    line(&mut text, format_args!("#EXT-X-MEDIA-SEQUENCE:{}", listed.start));
    if kind == Kind::OnDemand {
        text.push_str("#EXT-X-PLAYLIST-TYPE:VOD\n");
    }
    if let Some(parts) = &parts {
        parts.control(&mut text);
        let skipped = listed.end.saturating_sub(listed.start + SKIP_TARGETS);
        if skips && skipped > 0 {
            line(&mut text, format_args!("#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}"));
            listed.start += skipped;
        }
    }
    line(&mut text, format_args!("#EXT-X-MAP:URI=\"{INIT}\""));
    if kind == Kind::Live && !listed.is_empty() {
        let start = instant_text(schedule.live_start(listed.start));
        line(&mut text, format_args!("#EXT-X-PROGRAM-DATE-TIME:{start}"));
    }
    let end = listed.end;
    for number in listed {
        if let Some(parts) = parts.as_ref().filter(|_| number + PART_SEGMENTS >= end) {
            parts.list(&mut text, number);
        }
        let seconds = media::duration_ms(rung, number, schedule.segment_ms) / 1000.0;
        line(&mut text, format_args!("#EXTINF:{seconds:.5},\n{number}{SEGMENT_SUFFIX}"));
    }
    if kind == Kind::OnDemand {
        text.push_str("#EXT-X-ENDLIST\n");
    }
    if let Some(parts) = &parts {
        parts.list(&mut text, end);
        parts.outlook(&mut text);
    }
    text
}

/// Segments before the newest whose parts are listed (draft-pantos-hls-rfc8216bis §4.4.4.9).
const PART_SEGMENTS: u64 = 3;

/// Segments that an answer to `_HLS_skip` lists at least, by the draft's §4.4.3.8.
const SKIP_TARGETS: u64 = 6;

/// How many parts behind the newest players should play, by the draft's §4.4.3.8.
pub(super) const HOLD_BACK_PARTS: u64 = 3;

/// What a channel of low latency adds to its playlist.
struct Parts<'a> {
    rung: &'a Rung,
    part_ms: u64,
    edge: Edge,
}

impl<'a> Parts<'a> {
    fn of(rung: &'a Rung, schedule: &Schedule, now: UnixMillis) -> Option<Self> {
        Some(Self { rung, part_ms: schedule.part_ms?, edge: schedule.edge(now)? })
    }

    /// The longest part: those of sound are up to a frame longer than those of pictures.
    fn target_ms(&self) -> u64 {
        self.part_ms + if self.rung.is_video() { 0 } else { 22 }
    }

    fn control(&self, text: &mut String) {
        let target = self.target_ms() as f64 / 1000.0;
        let segment = (self.part_ms * self.edge.parts_of_segment).div_ceil(1000);
        line(text, format_args!("#EXT-X-PART-INF:PART-TARGET={target:.3}"));
        line(
            text,
            format_args!(
                "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL={}.0,PART-HOLD-BACK={:.3}",
                segment * SKIP_TARGETS,
                target * HOLD_BACK_PARTS as f64
            ),
        );
    }

    /// The parts of segment `number` that are there.
    fn list(&self, text: &mut String, number: u64) {
        let first = number * self.edge.parts_of_segment;
        let end = self.edge.parts.min(first + self.edge.parts_of_segment);
        for index in first..end {
            let seconds = media::duration_ms(self.rung, index, self.part_ms) / 1000.0;
            let part = index - first;
            line(
                text,
                format_args!(
                    "#EXT-X-PART:DURATION={seconds:.5},INDEPENDENT=YES,URI=\"{number}.{part}{SEGMENT_SUFFIX}\""
                ),
            );
        }
    }

    /// The part that comes next, and how far the other renditions have come: as far as this one.
    fn outlook(&self, text: &mut String) {
        let (number, count) = (self.edge.sequence(), self.edge.parts_of_segment);
        let part = self.edge.parts % count;
        line(
            text,
            format_args!("#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"{number}.{part}{SEGMENT_SUFFIX}\""),
        );
        let Some(newest) = self.edge.parts.checked_sub(1) else { return };
        let (sequence, part) = (newest / count, newest % count);
        for rung in TABLE_3.iter().filter(|rung| rung.in_hls && rung.path != self.rung.path) {
            let path = rung.path;
            line(
                text,
                format_args!(
                    "#EXT-X-RENDITION-REPORT:URI=\"../../../{path}/{PLAYLIST}\",\
                     LAST-MSN={sequence},LAST-PART={part}"
                ),
            );
        }
    }
}

/// The bit rate of the shortest segment: those of sound lack up to one frame.
fn peak_bits(rung: &Rung, schedule: &Schedule) -> u64 {
    let frame_ms = if rung.is_video() { 0 } else { 22 };
    rung.bits_per_second(schedule.segment_ms.saturating_sub(frame_ms))
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    text.write_fmt(content).expect("writing to a String does not fail");
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::find;

    const SCHEDULE: Schedule =
        Schedule { segment_ms: 6000, part_ms: None, window_segments: 3, title_segments: 2 };

    #[test]
    fn a_live_playlist_is_a_window_without_end() {
        let video = find("variant02/hlshv/4770KB").unwrap();
        let text = playlist(Kind::Live, video, &SCHEDULE, SCHEDULE.live_start(101), true);
        assert_eq!(
            text,
            "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-TARGETDURATION:6\n\
             #EXT-X-MEDIA-SEQUENCE:98\n#EXT-X-MAP:URI=\"init.mp4\"\n\
             #EXT-X-PROGRAM-DATE-TIME:2025-01-01T00:09:48.000Z\n\
             #EXTINF:6.00000,\n98.m4s\n#EXTINF:6.00000,\n99.m4s\n#EXTINF:6.00000,\n100.m4s\n"
        );
    }

    #[test]
    fn a_title_ends_and_sound_states_its_true_durations() {
        let sound = find("variant01/hlsha/405KB").unwrap();
        let text = playlist(Kind::OnDemand, sound, &SCHEDULE, UnixMillis(0), false);
        assert!(text.contains("#EXT-X-PLAYLIST-TYPE:VOD\n"));
        assert!(
            text.ends_with("#EXTINF:6.01600,\n0.m4s\n#EXTINF:5.99467,\n1.m4s\n#EXT-X-ENDLIST\n")
        );
    }

    #[test]
    fn a_channel_of_low_latency_lists_the_parts_that_are_there() {
        let schedule = Schedule { part_ms: Some(2000), window_segments: 9, ..SCHEDULE };
        let video = find("variant02/hlshv/4770KB").unwrap();
        let now = UnixMillis(schedule.live_start(100).0 + 2001);
        let text = playlist(Kind::Live, video, &schedule, now, true);
        assert!(text.starts_with(
            "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-TARGETDURATION:6\n\
             #EXT-X-MEDIA-SEQUENCE:91\n#EXT-X-PART-INF:PART-TARGET=2.000\n\
             #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=36.0,PART-HOLD-BACK=6.000\n\
             #EXT-X-SKIP:SKIPPED-SEGMENTS=3\n"
        ));
        assert!(text.contains(
            "#EXTINF:6.00000,\n96.m4s\n\
             #EXT-X-PART:DURATION=2.00000,INDEPENDENT=YES,URI=\"97.0.m4s\"\n"
        ));
        assert!(text.contains(
            "#EXTINF:6.00000,\n99.m4s\n\
             #EXT-X-PART:DURATION=2.00000,INDEPENDENT=YES,URI=\"100.0.m4s\"\n\
             #EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"100.1.m4s\"\n\
             #EXT-X-RENDITION-REPORT:URI=\"../../../variant01/hlsha/405KB/playlist.m3u8\",\
             LAST-MSN=100,LAST-PART=0\n"
        ));
        let given = freshet_media::hls::Given::default();
        let read = freshet_media::hls::read(text.as_bytes(), &given).unwrap();
        assert_eq!(read.edge().map(|edge| (edge.sequence, edge.parts)), Some((100, 1)));
        let whole = playlist(Kind::Live, video, &schedule, now, false);
        assert_eq!(whole.matches("#EXTINF").count(), 9);
    }

    #[test]
    fn the_master_lists_several_variants_and_the_sound() {
        let text = master(&SCHEDULE);
        assert_eq!(text.matches("#EXT-X-STREAM-INF:").count(), 4);
        assert_eq!(text.matches("TYPE=AUDIO").count(), 1);
        assert!(text.contains("RESOLUTION=3840x2160,FRAME-RATE=25.000,AUDIO=\"sound\"\nvariant01/4K/15360KB/playlist.m3u8\n"));
    }
}
