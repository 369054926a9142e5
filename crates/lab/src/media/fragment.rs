//! Segments: `styp`, `moof`, `mdat` (ISO/IEC 14496-12 §8.8), and a `free` box up to the wanted size.

use super::boxes::{put, put_full, put_u32, put_u64};
use super::header::TRACK_ID;
use super::{PICTURES_PER_SECOND, VIDEO_TIMESCALE, aac};
use freshet_load::content::Content;

/// Ticks that a picture lasts.
const PICTURE_TICKS: u32 = VIDEO_TIMESCALE / PICTURES_PER_SECOND as u32;

/// Sample flags (§8.8.3.1): a sample that depends on none, and one that does and is no sync sample.
const INDEPENDENT: u32 = 0x0200_0000;
const DEPENDENT: u32 = 0x0101_0000;

/// Length of a box's header.
const BOX_HEADER_BYTES: u64 = 8;

/// Encoded samples, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// How many bytes belong to each.
    pub sizes: Vec<u32>,
}

impl Samples {
    /// Appends a sample.
    pub fn push(&mut self, sample: &[u8]) {
        self.bytes.extend_from_slice(sample);
        self.sizes.push(sample.len() as u32);
    }

    /// Appends a sample that is one NAL unit, with its length before it.
    pub fn push_unit(&mut self, unit: &[u8]) {
        put_u32(&mut self.bytes, unit.len() as u32);
        self.bytes.extend_from_slice(unit);
        self.sizes.push(unit.len() as u32 + 4);
    }
}

/// Pictures from number `first` of the timeline on, as the media of segment `number`.
pub fn video(number: u64, first: u64, samples: &Samples) -> Vec<u8> {
    media(number, first * u64::from(PICTURE_TICKS), PICTURE_TICKS, DEPENDENT, samples)
}

/// Frames of sound from number `first` of the timeline on, as the media of segment `number`.
pub fn audio(number: u64, first: u64, samples: &Samples) -> Vec<u8> {
    let frame_ticks = aac::FRAME_SAMPLES;
    media(number, first * frame_ticks, frame_ticks as u32, INDEPENDENT, samples)
}

/// `media` and a `free` box of noise, which `seed` chooses, `wanted_bytes` in all. Media larger than that
/// stay as they are.
pub fn padded(mut media: Vec<u8>, wanted_bytes: u64, seed: u64) -> Content {
    let missing = wanted_bytes.saturating_sub(media.len() as u64);
    let padding = missing.saturating_sub(BOX_HEADER_BYTES);
    if missing >= BOX_HEADER_BYTES {
        put_u32(&mut media, u32::try_from(missing).unwrap_or(u32::MAX));
        media.extend_from_slice(b"free");
    }
    Content::new(media, padding, seed)
}

/// The boxes of a segment. `later_flags` are those of all samples but the first, which is always a
/// sync sample.
fn media(
    number: u64,
    decode_time: u64,
    sample_ticks: u32,
    later_flags: u32,
    samples: &Samples,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(samples.bytes.len() + samples.sizes.len() * 4 + 256);
    put(&mut out, *b"styp", |out| out.extend_from_slice(b"msdh\0\0\0\0msdhmsixcmfs"));
    let moof_start = out.len();
    let mut offset_at = 0;
    put(&mut out, *b"moof", |out| {
        // Sequence numbers have 32 bits and only need to grow from fragment to fragment.
        put_full(out, *b"mfhd", 0, 0, |out| put_u32(out, (number as u32).wrapping_add(1)));
        put(out, *b"traf", |out| {
            // Flags: default-base-is-moof, default duration and flags present.
            put_full(out, *b"tfhd", 0, 0x02_0028, |out| {
                put_u32(out, TRACK_ID);
                put_u32(out, sample_ticks);
                put_u32(out, later_flags);
            });
            put_full(out, *b"tfdt", 1, 0, |out| put_u64(out, decode_time));
            // Flags: data offset, first sample's flags and sizes present.
            put_full(out, *b"trun", 0, 0x00_0205, |out| {
                put_u32(out, samples.sizes.len() as u32);
                offset_at = out.len();
                put_u32(out, 0);
                put_u32(out, INDEPENDENT);
                for size in &samples.sizes {
                    put_u32(out, *size);
                }
            });
        });
    });
    let offset = (out.len() - moof_start) as u32 + BOX_HEADER_BYTES as u32;
    out[offset_at..offset_at + 4].copy_from_slice(&offset.to_be_bytes());
    put(&mut out, *b"mdat", |out| out.extend_from_slice(&samples.bytes));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::boxes::tests::{find, parse};

    fn two_samples() -> Samples {
        let mut samples = Samples::default();
        samples.push_unit(b"first");
        samples.push(b"second");
        samples
    }

    #[test]
    fn the_run_points_at_its_samples_and_their_time() {
        let bytes = video(3, 450, &two_samples());
        assert_eq!(find(&bytes, "moof/mfhd")[4..], [0, 0, 0, 4]);
        assert_eq!(find(&bytes, "moof/traf/tfdt")[4..], 450_000_u64.to_be_bytes());
        let run = find(&bytes, "moof/traf/trun");
        assert_eq!(run[4..8], [0, 0, 0, 2]);
        assert_eq!(run[16..], [0, 0, 0, 9, 0, 0, 0, 6]);
        let offset = u32::from_be_bytes(run[8..12].try_into().unwrap()) as usize;
        let moof = bytes.windows(4).position(|name| name == b"moof").unwrap() - 4;
        assert_eq!(bytes[moof + offset..], *b"\0\0\0\x05firstsecond");
    }

    #[test]
    fn padding_is_one_free_box_of_the_rest() {
        let media = audio(0, 0, &two_samples());
        for wanted in [media.len() + 8, media.len() + 9, 1_000_000] {
            let bytes = padded(media.clone(), wanted as u64, 1).to_vec();
            assert_eq!(bytes.len(), wanted);
            let names: Vec<_> = parse(&bytes).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, ["styp", "moof", "mdat", "free"]);
        }
        assert_eq!(padded(media.clone(), 10, 1).to_vec(), media);
    }
}
