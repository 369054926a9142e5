//! Media that plays, made without an encoder.
//!
//! Pictures are flat blocks ([`picture`]): a colour and a number per programme, the time in big
//! digits, a bar that runs along the bottom once a second. [`avc`] writes them as H.264 Constrained
//! Baseline without any loss, and [`aac`] makes a soft tone per programme. [`fragment`] packages both as
//! CMAF (ISO/IEC 23000-19): a track header, and segments of one `moof` and `mdat` whose times lie on
//! the timeline of the programme. A `free` box of noise brings each segment to the size that its
//! rung has.

pub mod aac;
pub mod avc;
pub mod bits;
pub mod boxes;
pub mod fragment;
pub mod header;
pub mod picture;

use crate::calendar::TIMELINE_START;
use crate::ladder::{Rung, Track};
use crate::programme::{Kind, Programme};
use bytes::Bytes;
use freshet_load::content::{Content, mix};

/// Pictures per second of all video.
pub const PICTURES_PER_SECOND: u64 = 25;

/// Milliseconds that a picture lasts.
pub const PICTURE_MS: u64 = 1000 / PICTURES_PER_SECOND;

/// Ticks per second of video tracks: a thousand per picture.
pub const VIDEO_TIMESCALE: u32 = 25_000;

/// The track header (`ftyp`, `moov`) for all segments of `rung`, about 700 bytes. It is the same for
/// all programmes.
pub fn init_segment(rung: &Rung) -> Bytes {
    match rung.track {
        Track::Video(resolution) => header::video(resolution).into(),
        Track::Audio => header::audio().into(),
    }
}

/// Segment `number` of `programme` in the quality of `rung`: exactly [`Rung::segment_bytes`] long
/// as long as its media fit into that, which holds for all of the ladder up to 30 s. It starts at
/// `number * segment_ms` on the timeline and opens with a key frame; `segment_ms` is a multiple of
/// [`PICTURE_MS`]. Costs about a millisecond for a 4K rung, less for others.
pub fn segment(programme: Programme, rung: &Rung, number: u64, segment_ms: u64) -> Content {
    piece(programme, rung, number, segment_ms, rung.segment_bytes)
}

/// Part `index` of a channel's timeline, of `count` that make a segment: a chunk of CMAF that opens with
/// a key frame and has its share of [`Rung::segment_bytes`]. `part_ms` is a multiple of [`PICTURE_MS`].
pub fn part(programme: Programme, rung: &Rung, index: u64, part_ms: u64, count: u64) -> Content {
    let share = rung.segment_bytes / count.max(1);
    let rest = rung.segment_bytes - share * count;
    let bytes = if index.is_multiple_of(count) { share + rest } else { share };
    piece(programme, rung, index, part_ms, bytes)
}

/// Piece `number` of a timeline of pieces of `segment_ms`, brought to `bytes`.
fn piece(programme: Programme, rung: &Rung, number: u64, segment_ms: u64, bytes: u64) -> Content {
    let media = match rung.track {
        Track::Video(resolution) => {
            let first = number * (segment_ms / PICTURE_MS);
            let samples = picture::samples(programme, resolution, first, segment_ms / PICTURE_MS);
            fragment::video(number, first, &samples)
        }
        Track::Audio => {
            let frames = aac::frames(number, segment_ms);
            fragment::audio(number, frames.start, &aac::samples(programme, frames))
        }
    };
    let path_seed = rung.path.bytes().fold(0, |seed, byte| mix(seed ^ u64::from(byte)));
    let kind_seed = u64::from(programme.kind == Kind::Live) << 32 | u64::from(programme.number);
    fragment::padded(media, bytes, mix(path_seed ^ mix(kind_seed)) ^ number)
}

/// How long segment `number` of `rung` lasts, in milliseconds with a fraction: sound comes in frames
/// of 1024 samples, so its segments are up to one frame longer or shorter than those of pictures.
pub fn duration_ms(rung: &Rung, number: u64, segment_ms: u64) -> f64 {
    match rung.track {
        Track::Video(_) => segment_ms as f64,
        Track::Audio => {
            let frames = aac::frames(number, segment_ms);
            (frames.end - frames.start) as f64 * aac::FRAME_SAMPLES as f64 * 1000.0
                / f64::from(aac::SAMPLES_PER_SECOND)
        }
    }
}

// Digits show the time of day by counting seconds on the timeline.
const _: () = assert!(TIMELINE_START.0.is_multiple_of(86_400_000));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::TABLE_3;

    const CHANNEL: Programme = Programme { kind: Kind::Live, number: 1 };

    #[test]
    fn segments_have_the_size_of_their_rung_to_the_byte() {
        for rung in &TABLE_3 {
            for segment_ms in [1000, 6000, 30_000] {
                let content = segment(CHANNEL, rung, 9_912_345, segment_ms);
                assert_eq!(content.len(), rung.segment_bytes, "{} {segment_ms}", rung.path);
            }
        }
    }

    #[test]
    fn a_segment_is_the_same_at_every_call_and_unlike_all_others() {
        let rung = &TABLE_3[1];
        let bytes = segment(CHANNEL, rung, 7, 6000).to_vec();
        assert_eq!(bytes, segment(CHANNEL, rung, 7, 6000).to_vec());
        assert_ne!(bytes, segment(CHANNEL, rung, 8, 6000).to_vec());
        let title = Programme { kind: Kind::OnDemand, number: 1 };
        assert_ne!(bytes, segment(title, rung, 7, 6000).to_vec());
    }

    #[test]
    fn the_parts_of_a_segment_are_together_as_large() {
        for rung in &TABLE_3 {
            let sizes = (70..77).map(|index| part(CHANNEL, rung, index, 280, 7).len());
            assert_eq!(sizes.sum::<u64>(), rung.segment_bytes, "{}", rung.path);
        }
    }

    #[test]
    fn sound_and_pictures_stay_together() {
        let sound = &TABLE_3[0];
        let total: f64 = (0..1000).map(|number| duration_ms(sound, number, 6000)).sum();
        assert!((total - 6_000_000.0).abs() < 22.0, "{total}");
    }
}
