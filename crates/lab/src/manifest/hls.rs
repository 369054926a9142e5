//! HLS playlists, RFC 8216.

use super::{INIT, PLAYLIST, SEGMENT_SUFFIX};
use crate::ladder::{Rung, TABLE_3, Track};
use crate::media::{self, PICTURES_PER_SECOND, aac, avc};
use crate::programme::{Kind, Schedule};
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

/// The playlist of `rung` at `now`: the window of a channel, or a title with its end.
pub fn playlist(kind: Kind, rung: &Rung, schedule: &Schedule, now: UnixMillis) -> String {
    let listed = schedule.listed(kind, now);
    let mut text = String::with_capacity(256 + 48 * (listed.end - listed.start) as usize);
    text.push_str("#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n");
    // Sound runs over by less than half a second, which rounds away as RFC 8216 §4.3.3.1 allows.
    let target = schedule.segment_ms.div_ceil(1000);
    line(&mut text, format_args!("#EXT-X-TARGETDURATION:{target}"));
    line(&mut text, format_args!("#EXT-X-MEDIA-SEQUENCE:{}", listed.start));
    if kind == Kind::OnDemand {
        text.push_str("#EXT-X-PLAYLIST-TYPE:VOD\n");
    }
    line(&mut text, format_args!("#EXT-X-MAP:URI=\"{INIT}\""));
    if kind == Kind::Live && !listed.is_empty() {
        let start = instant_text(schedule.live_start(listed.start));
        line(&mut text, format_args!("#EXT-X-PROGRAM-DATE-TIME:{start}"));
    }
    for number in listed {
        let seconds = media::duration_ms(rung, number, schedule.segment_ms) / 1000.0;
        line(&mut text, format_args!("#EXTINF:{seconds:.5},\n{number}{SEGMENT_SUFFIX}"));
    }
    if kind == Kind::OnDemand {
        text.push_str("#EXT-X-ENDLIST\n");
    }
    text
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

    const SCHEDULE: Schedule = Schedule { segment_ms: 6000, window_segments: 3, title_segments: 2 };

    #[test]
    fn a_live_playlist_is_a_window_without_end() {
        let video = find("variant02/hlshv/4770KB").unwrap();
        let text = playlist(Kind::Live, video, &SCHEDULE, SCHEDULE.live_start(101));
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
        let text = playlist(Kind::OnDemand, sound, &SCHEDULE, UnixMillis(0));
        assert!(text.contains("#EXT-X-PLAYLIST-TYPE:VOD\n"));
        assert!(
            text.ends_with("#EXTINF:6.01600,\n0.m4s\n#EXTINF:5.99467,\n1.m4s\n#EXT-X-ENDLIST\n")
        );
    }

    #[test]
    fn the_master_lists_several_variants_and_the_sound() {
        let text = master(&SCHEDULE);
        assert_eq!(text.matches("#EXT-X-STREAM-INF:").count(), 4);
        assert_eq!(text.matches("TYPE=AUDIO").count(), 1);
        assert!(text.contains("RESOLUTION=3840x2160,FRAME-RATE=25.000,AUDIO=\"sound\"\nvariant01/4K/15360KB/playlist.m3u8\n"));
    }
}
