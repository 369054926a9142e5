//! Track headers: `ftyp` and `moov` of a CMAF track (ISO/IEC 14496-12 §8, 14496-15 §5.4).

use super::boxes::{put, put_full, put_u16, put_u32, put_zeros};
use super::{VIDEO_TIMESCALE, aac, avc};
use crate::ladder::Resolution;

/// The number of the one track in each file.
pub const TRACK_ID: u32 = 1;

/// Ticks per second of the movie; nothing is timed by it.
const MOVIE_TIMESCALE: u32 = 1000;

/// The language "undetermined", three letters of five bits.
const UNDETERMINED: u16 = 0x55c4;

/// What differs between tracks of pictures and of sound.
struct Track<'a> {
    handler: [u8; 4],
    timescale: u32,
    volume: u16,
    resolution: Option<Resolution>,
    media_header: &'a dyn Fn(&mut Vec<u8>),
    sample_entry: &'a dyn Fn(&mut Vec<u8>),
}

/// The header of a track of pictures.
pub fn video(resolution: Resolution) -> Vec<u8> {
    header(&Track {
        handler: *b"vide",
        timescale: VIDEO_TIMESCALE,
        volume: 0,
        resolution: Some(resolution),
        media_header: &|out| put_full(out, *b"vmhd", 0, 1, |out| put_zeros(out, 8)),
        sample_entry: &|out| put(out, *b"avc1", |out| avc_sample_entry(out, resolution)),
    })
}

/// The header of a track of sound.
pub fn audio() -> Vec<u8> {
    header(&Track {
        handler: *b"soun",
        timescale: aac::SAMPLES_PER_SECOND,
        volume: 0x0100,
        resolution: None,
        media_header: &|out| put_full(out, *b"smhd", 0, 0, |out| put_zeros(out, 4)),
        sample_entry: &|out| put(out, *b"mp4a", aac_sample_entry),
    })
}

fn header(track: &Track<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    put(&mut out, *b"ftyp", |out| {
        out.extend_from_slice(b"cmfc\0\0\0\0cmfciso6mp41");
    });
    put(&mut out, *b"moov", |out| {
        put_full(out, *b"mvhd", 0, 0, |out| {
            put_zeros(out, 8); // no creation and modification times
            put_u32(out, MOVIE_TIMESCALE);
            put_u32(out, 0); // the length is not known here
            put_u32(out, 0x0001_0000); // rate 1.0
            put_u16(out, 0x0100); // volume 1.0
            put_zeros(out, 10);
            put_matrix(out);
            put_zeros(out, 24);
            put_u32(out, TRACK_ID + 1);
        });
        put(out, *b"trak", |out| put_track(out, track));
        put(out, *b"mvex", |out| {
            put_full(out, *b"trex", 0, 0, |out| {
                put_u32(out, TRACK_ID);
                put_u32(out, 1); // sample description
                put_zeros(out, 12); // defaults come with each fragment
            });
        });
    });
    out
}

fn put_track(out: &mut Vec<u8>, track: &Track<'_>) {
    // Flags: enabled, in the movie, in the preview.
    put_full(out, *b"tkhd", 0, 7, |out| {
        put_zeros(out, 8);
        put_u32(out, TRACK_ID);
        put_zeros(out, 20); // length, layer, alternate group
        put_u16(out, track.volume);
        put_u16(out, 0);
        put_matrix(out);
        let (width, height) = track.resolution.map_or((0, 0), |size| (size.width, size.height));
        put_u32(out, u32::from(width) << 16);
        put_u32(out, u32::from(height) << 16);
    });
    put(out, *b"mdia", |out| {
        put_full(out, *b"mdhd", 0, 0, |out| {
            put_zeros(out, 8);
            put_u32(out, track.timescale);
            put_u32(out, 0);
            put_u16(out, UNDETERMINED);
            put_u16(out, 0);
        });
        put_full(out, *b"hdlr", 0, 0, |out| {
            put_u32(out, 0);
            out.extend_from_slice(&track.handler);
            put_zeros(out, 12);
            out.extend_from_slice(b"Freshet laboratory\0");
        });
        put(out, *b"minf", |out| {
            (track.media_header)(out);
            put(out, *b"dinf", |out| {
                put_full(out, *b"dref", 0, 0, |out| {
                    put_u32(out, 1);
                    put_full(out, *b"url ", 0, 1, |_| ()); // in this file
                });
            });
            put(out, *b"stbl", |out| put_sample_table(out, track));
        });
    });
}

/// The sample table, which is empty: samples come in fragments.
fn put_sample_table(out: &mut Vec<u8>, track: &Track<'_>) {
    put_full(out, *b"stsd", 0, 0, |out| {
        put_u32(out, 1);
        (track.sample_entry)(out);
    });
    for kind in [*b"stts", *b"stsc", *b"stco"] {
        put_full(out, kind, 0, 0, |out| put_u32(out, 0));
    }
    put_full(out, *b"stsz", 0, 0, |out| put_zeros(out, 8));
}

fn put_matrix(out: &mut Vec<u8>) {
    for value in [0x0001_0000, 0, 0, 0, 0x0001_0000, 0, 0, 0, 0x4000_0000] {
        put_u32(out, value);
    }
}

fn avc_sample_entry(out: &mut Vec<u8>, resolution: Resolution) {
    put_zeros(out, 6);
    put_u16(out, 1); // data reference
    put_zeros(out, 16);
    put_u16(out, resolution.width);
    put_u16(out, resolution.height);
    put_u32(out, 0x0048_0000); // 72 dpi
    put_u32(out, 0x0048_0000);
    put_u32(out, 0);
    put_u16(out, 1); // pictures per sample
    put_zeros(out, 32); // no compressor name
    put_u16(out, 24); // depth
    put_u16(out, 0xffff);
    put(out, *b"avcC", |out| {
        let sequence = avc::sequence_parameters(resolution);
        let picture = avc::picture_parameters();
        out.push(1);
        out.extend_from_slice(&sequence[1..4]); // profile, constraints, level
        out.push(0xff); // lengths of NAL units have four bytes
        out.push(0xe1); // one sequence parameter set
        put_u16(out, sequence.len() as u16);
        out.extend_from_slice(&sequence);
        out.push(1);
        put_u16(out, picture.len() as u16);
        out.extend_from_slice(&picture);
    });
    put(out, *b"pasp", |out| {
        put_u32(out, 1);
        put_u32(out, 1);
    });
}

fn aac_sample_entry(out: &mut Vec<u8>) {
    put_zeros(out, 6);
    put_u16(out, 1); // data reference
    put_zeros(out, 8);
    put_u16(out, 2); // channels
    put_u16(out, 16); // bits per sample
    put_u32(out, 0);
    put_u32(out, aac::SAMPLES_PER_SECOND << 16);
    put_full(out, *b"esds", 0, 0, |out| {
        // Nested descriptors (ISO/IEC 14496-1 §7.2.6): tag, length, content.
        let specific_len = aac::CONFIGURATION.len() as u8;
        let decoder_len = 13 + 2 + specific_len;
        out.extend_from_slice(&[0x03, 3 + 2 + decoder_len + 3, 0, 0, 0]);
        out.extend_from_slice(&[0x04, decoder_len, 0x40, 0x15]); // AAC, audio stream
        put_zeros(out, 3 + 4 + 4); // buffer size and bit rates not said
        out.extend_from_slice(&[0x05, specific_len]);
        out.extend_from_slice(&aac::CONFIGURATION);
        out.extend_from_slice(&[0x06, 1, 2]); // as MP4 files have it
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::boxes::tests::find;

    #[test]
    fn a_video_header_states_size_and_parameter_sets() {
        let bytes = video(Resolution { width: 1280, height: 720 });
        let track = find(&bytes, "moov/trak/tkhd");
        assert_eq!(track.len(), 84);
        assert_eq!(&track[track.len() - 8..], [5, 0, 0, 0, 2, 208, 0, 0]);
        let descriptions = find(&bytes, "moov/trak/mdia/minf/stbl/stsd");
        let entry = find(&descriptions[8..], "avc1");
        let configuration = find(&entry[78..], "avcC");
        assert_eq!(&configuration[..4], [1, 66, 0xc0, 31]);
        assert_eq!(configuration[8], 0x67);
    }

    #[test]
    fn an_audio_header_states_rate_and_configuration() {
        let bytes = audio();
        let descriptions = find(&bytes, "moov/trak/mdia/minf/stbl/stsd");
        let entry = find(&descriptions[8..], "mp4a");
        assert_eq!(&entry[16..28], [0, 2, 0, 16, 0, 0, 0, 0, 0xbb, 0x80, 0, 0]);
        let descriptor = &find(&entry[28..], "esds")[4..];
        assert_eq!(usize::from(descriptor[1]), descriptor.len() - 2);
        assert!(descriptor.windows(2).any(|pair| pair == aac::CONFIGURATION));
    }
}
