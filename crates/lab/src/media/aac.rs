//! AAC-LC: a soft tone in stereo, a different one for each programme.
//!
//! A frame carries one spectral line, with the sign that a steady tone in the middle of that line
//! has in each frame. Sections are those of ISO/IEC 14496-3 (subpart 4).

use super::bits::BitWriter;
use super::fragment::Samples;
use crate::programme::Programme;
use std::ops::Range;

/// Samples per second and channel.
pub const SAMPLES_PER_SECOND: u32 = 48_000;

/// Samples of each channel in a frame.
pub const FRAME_SAMPLES: u64 = 1024;

/// The codec as RFC 6381 names it: AAC-LC.
pub const CODEC_NAME: &str = "mp4a.40.2";

/// Lines in a scale factor band at the low end (Table 4.110, 48 kHz, long windows).
const BAND_LINES: u32 = 4;

/// Loudness: the level of the tone is 2^(([`GAIN`] - 100) / 4). This gives about -30 dB of full scale.
const GAIN: u32 = 178;

/// The line of the lowest tone, 434 Hz; lines are 23.4 Hz apart.
const LINE_FIRST: u32 = 18;

/// How many different tones there are; the highest is the double of the lowest.
const LINE_COUNT: u32 = 19;

// Bands of this rate are four lines wide up to line 40.
const _: () = assert!(LINE_FIRST + LINE_COUNT <= 40);

/// The decoder's configuration, §1.6.2.1: AAC-LC, 48 kHz, two channels, 1024 samples.
pub const CONFIGURATION: [u8; 2] = [0b0001_0001, 0b1001_0000];

/// The frames of segment `number`: those that start within it. Their first sample lies at
/// `start * 1024` on the timeline.
pub fn frames(number: u64, segment_ms: u64) -> Range<u64> {
    let first = |number: u64| {
        let samples_x1000 =
            u128::from(number) * u128::from(segment_ms) * u128::from(SAMPLES_PER_SECOND);
        samples_x1000.div_ceil(1000 * u128::from(FRAME_SAMPLES)) as u64
    };
    first(number)..first(number + 1)
}

/// The encoded frames of `range`, all of the same size.
pub fn samples(programme: Programme, range: Range<u64>) -> Samples {
    let line = line(programme);
    let phases = [0, 1, 2, 3].map(|phase| frame(line, is_negative(line, phase)));
    let mut samples = Samples::default();
    for index in range {
        samples.push(&phases[(index % 4) as usize]);
    }
    samples
}

/// The pitch of the tone of `programme`, in Hz.
pub fn frequency(programme: Programme) -> f64 {
    let line_width = f64::from(SAMPLES_PER_SECOND) / 2.0 / FRAME_SAMPLES as f64;
    (f64::from(line(programme)) + 0.5) * line_width
}

/// The spectral line of that tone.
fn line(programme: Programme) -> u32 {
    LINE_FIRST + programme.number % LINE_COUNT * 7 % LINE_COUNT
}

/// The sign in frame `index` of a tone in the middle of `line`: its phase advances by
/// (line + ½) · π per frame, which repeats after four.
fn is_negative(line: u32, index: u32) -> bool {
    if line.is_multiple_of(2) { matches!(index, 1 | 2) } else { matches!(index, 2 | 3) }
}

/// One raw_data_block, §4.4.2.1, with the same spectrum in both channels.
fn frame(line: u32, negative: bool) -> Vec<u8> {
    let band = line / BAND_LINES;
    let mut w = BitWriter::default();
    w.bits(1, 3); // channel pair element
    w.bits(0, 4);
    w.flag(true); // common_window
    w.flag(false);
    w.bits(0, 2); // ONLY_LONG_SEQUENCE
    w.flag(false); // sine window
    w.bits(band + 1, 6); // max_sfb
    w.flag(false); // predictor_data_present
    w.bits(0, 2); // no mid/side coding
    for _channel in 0..2 {
        w.bits(GAIN, 8);
        w.bits(0, 4); // zero codebook
        w.bits(band, 5); // for all bands below
        w.bits(1, 4); // codebook 1
        w.bits(1, 5); // for the one with the tone
        w.bits(0b0, 1); // scale factor: global gain + 0
        w.flag(false); // pulse_data_present
        w.flag(false); // tns_data_present
        w.flag(false); // gain_control_data_present
        w.bits(single_line(line % BAND_LINES, negative), 5);
    }
    w.bits(7, 3); // end
    w.finish()
}

/// The codeword of spectrum codebook 1 (Table 4.A.2) for ±1 at `place` of four and 0 elsewhere.
fn single_line(place: u32, negative: bool) -> u32 {
    match (place, negative) {
        (0, true) => 0x11,
        (0, false) => 0x10,
        (1, true) => 0x17,
        (1, false) => 0x13,
        (2, true) => 0x15,
        (2, false) => 0x16,
        (_, true) => 0x12,
        (_, false) => 0x14,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programme::Kind;

    #[test]
    fn segments_share_the_frames_without_gap_or_overlap() {
        for segment_ms in [40, 1000, 2000, 6000] {
            for number in [0, 1, 2, 9_999_999] {
                let (this, next) = (frames(number, segment_ms), frames(number + 1, segment_ms));
                assert_eq!(this.end, next.start);
                let start_ms = this.start as f64 * 1024.0 / 48.0;
                let nominal_ms = (number * segment_ms) as f64;
                assert!((0.0..21.4).contains(&(start_ms - nominal_ms)), "{start_ms} {nominal_ms}");
            }
        }
    }

    #[test]
    fn all_frames_have_one_size() {
        for number in 1..40 {
            let programme = Programme { kind: Kind::Live, number };
            let samples = samples(programme, 10..300);
            assert_eq!(samples.sizes.len(), 290);
            assert!(samples.sizes.iter().all(|size| *size == samples.sizes[0]));
        }
    }
}
