//! The DASH manifest, ISO/IEC 23009-1: numbered segments on a fixed timeline.
//!
//! Segments of a channel are described by their one length, so that the manifest never changes. A title
//! lists its segments, because some players (ffmpeg) otherwise ask for one behind the last.

use super::hls::HOLD_BACK_PARTS;
use super::{INIT, SEGMENT_SUFFIX};
use crate::calendar::{TIMELINE_START, iso_duration};
use crate::ladder::{Rung, TABLE_3, Track};
use crate::media::{PICTURES_PER_SECOND, VIDEO_TIMESCALE, aac, avc};
use crate::programme::{Kind, Schedule};
use freshet_media::mpd::time::instant_text;
use std::fmt::Write;

/// Where the origin says what time it is, for players whose clock is off.
pub const TIME_PATH: &str = "/time";

/// The MPD. It does not depend on the time: players compute the newest number of a channel from
/// `availabilityStartTime`. So it is also the same for all programmes of a kind.
pub fn manifest(kind: Kind, schedule: &Schedule) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let segment = iso_duration(schedule.segment_ms);
    let presentation = match kind {
        Kind::Live => format!(
            "type=\"dynamic\" availabilityStartTime=\"{}\" minimumUpdatePeriod=\"{}\" \
             timeShiftBufferDepth=\"{}\" suggestedPresentationDelay=\"{}\" \
             maxSegmentDuration=\"{segment}\"",
            instant_text(TIMELINE_START),
            // Nothing in it changes, but players of real channels ask again this often.
            segment,
            iso_duration(schedule.segment_ms * schedule.window_segments),
            iso_duration(match schedule.part_ms {
                Some(part_ms) => part_ms * HOLD_BACK_PARTS,
                None => schedule.segment_ms * LIVE_DELAY_SEGMENTS.min(schedule.window_segments),
            }),
        ),
        Kind::OnDemand => format!(
            "type=\"static\" mediaPresentationDuration=\"{}\" maxSegmentDuration=\"{segment}\"",
            iso_duration(schedule.segment_ms * schedule.title_segments),
        ),
    };
    line(
        &mut text,
        format_args!(
            "<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" {presentation} minBufferTime=\"{segment}\" \
             profiles=\"urn:mpeg:dash:profile:isoff-live:2011\">\n <Period id=\"0\" start=\"PT0S\">"
        ),
    );
    if let Some(part_ms) = schedule.part_ms.filter(|_| kind == Kind::Live) {
        let target = part_ms * HOLD_BACK_PARTS;
        line(
            &mut text,
            format_args!(
                "  <ServiceDescription id=\"0\"><Latency target=\"{target}\"/></ServiceDescription>"
            ),
        );
    }
    for wants_video in [true, false] {
        adaptation_set(&mut text, kind, wants_video, schedule);
    }
    text.push_str(" </Period>\n");
    if kind == Kind::Live {
        line(
            &mut text,
            format_args!(
                " <UTCTiming schemeIdUri=\"urn:mpeg:dash:utc:http-iso:2014\" value=\"{TIME_PATH}\"/>"
            ),
        );
    }
    text.push_str("</MPD>\n");
    text
}

/// How many segments behind the newest players should start.
const LIVE_DELAY_SEGMENTS: u64 = 3;

fn adaptation_set(text: &mut String, kind: Kind, wants_video: bool, schedule: &Schedule) {
    let (id, track) = if wants_video { (1, "video") } else { (2, "audio") };
    line(
        text,
        format_args!(
            "  <AdaptationSet id=\"{id}\" contentType=\"{track}\" mimeType=\"{track}/mp4\" \
             segmentAlignment=\"true\" startWithSAP=\"1\">"
        ),
    );
    let names = format!(
        "startNumber=\"0\" initialization=\"$RepresentationID$/{INIT}\" \
         media=\"$RepresentationID$/$Number${SEGMENT_SUFFIX}\""
    );
    match kind {
        Kind::Live => {
            let segment_ms = schedule.segment_ms;
            // A segment that is being made can be asked for once it has a chunk (§5.3.9.5.3).
            let chunks = schedule.part_ms.map_or(String::new(), |part_ms| {
                let early = (segment_ms - part_ms) as f64 / 1000.0;
                format!(" availabilityTimeOffset=\"{early:.3}\" availabilityTimeComplete=\"false\"")
            });
            line(
                text,
                format_args!(
                    "   <SegmentTemplate timescale=\"1000\" duration=\"{segment_ms}\"{chunks} \
                     {names}/>"
                ),
            );
        }
        Kind::OnDemand => {
            let timescale = if wants_video { VIDEO_TIMESCALE } else { aac::SAMPLES_PER_SECOND };
            line(text, format_args!("   <SegmentTemplate timescale=\"{timescale}\" {names}>"));
            timeline(text, wants_video, schedule);
            text.push_str("   </SegmentTemplate>\n");
        }
    }
    let listed = |rung: &&Rung| rung.in_dash && rung.is_video() == wants_video;
    let mut rungs: Vec<&Rung> = TABLE_3.iter().filter(listed).collect();
    rungs.sort_by_key(|rung| rung.segment_bytes);
    for rung in rungs {
        let bits = rung.bits_per_second(schedule.segment_ms);
        let common = format!("   <Representation id=\"{}\" bandwidth=\"{bits}\"", rung.path);
        match rung.track {
            Track::Video(size) => line(
                text,
                format_args!(
                    "{common} codecs=\"{}\" width=\"{}\" height=\"{}\" \
                     frameRate=\"{PICTURES_PER_SECOND}\" sar=\"1:1\"/>",
                    avc::codec_name(size),
                    size.width,
                    size.height
                ),
            ),
            Track::Audio => line(
                text,
                format_args!(
                    "{common} codecs=\"{}\" audioSamplingRate=\"{}\">\n    \
                     <AudioChannelConfiguration schemeIdUri=\"{CHANNELS_SCHEME}\" value=\"2\"/>\n   \
                     </Representation>",
                    aac::CODEC_NAME,
                    aac::SAMPLES_PER_SECOND
                ),
            ),
        }
    }
    text.push_str("  </AdaptationSet>\n");
}

/// All segments of a title, runs of equal ones together.
fn timeline(text: &mut String, wants_video: bool, schedule: &Schedule) {
    let ticks = |number| match wants_video {
        true => schedule.segment_ms * u64::from(VIDEO_TIMESCALE) / 1000,
        false => {
            let frames = aac::frames(number, schedule.segment_ms);
            (frames.end - frames.start) * aac::FRAME_SAMPLES
        }
    };
    text.push_str("    <SegmentTimeline>\n");
    let mut number = 0;
    while number < schedule.title_segments {
        let start = number;
        while number < schedule.title_segments && ticks(number) == ticks(start) {
            number += 1;
        }
        let (duration, repeats) = (ticks(start), number - start - 1);
        line(text, format_args!("     <S d=\"{duration}\" r=\"{repeats}\"/>"));
    }
    text.push_str("    </SegmentTimeline>\n");
}

const CHANNELS_SCHEME: &str = "urn:mpeg:dash:23003:3:audio_channel_configuration:2011";

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    text.write_fmt(content).expect("writing to a String does not fail");
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule =
        Schedule { segment_ms: 6000, part_ms: None, window_segments: 60, title_segments: 100 };

    #[test]
    fn a_channel_is_dynamic_and_a_title_static() {
        let live = manifest(Kind::Live, &SCHEDULE);
        assert!(
            live.contains("type=\"dynamic\" availabilityStartTime=\"2025-01-01T00:00:00.000Z\"")
        );
        assert!(live.contains("timeShiftBufferDepth=\"PT360S\""));
        let title = manifest(Kind::OnDemand, &SCHEDULE);
        assert!(title.contains("type=\"static\" mediaPresentationDuration=\"PT600S\""));
        assert!(!title.contains("UTCTiming"));
        assert!(title.contains("<S d=\"150000\" r=\"99\"/>"));
        assert!(title.contains("<S d=\"288768\" r=\"0\"/>\n     <S d=\"287744\" r=\"2\"/>"));
    }

    #[test]
    fn segments_of_low_latency_can_be_had_from_their_first_chunk_on() {
        let schedule = Schedule { part_ms: Some(500), ..SCHEDULE };
        let live = manifest(Kind::Live, &schedule);
        let early = "availabilityTimeOffset=\"5.500\" availabilityTimeComplete=\"false\"";
        assert_eq!(live.matches(early).count(), 2);
        assert!(live.contains("<Latency target=\"1500\"/>"));
        assert!(!manifest(Kind::OnDemand, &schedule).contains("availabilityTime"));
    }

    #[test]
    fn all_dash_rungs_are_representations() {
        let text = manifest(Kind::Live, &SCHEDULE);
        for rung in TABLE_3 {
            let named = text.contains(&format!("<Representation id=\"{}\"", rung.path));
            assert_eq!(named, rung.in_dash, "{}", rung.path);
        }
        assert!(text.contains("media=\"$RepresentationID$/$Number$.m4s\""));
    }
}
