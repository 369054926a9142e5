//! H.264 Constrained Baseline for pictures of flat macroblocks, without loss.
//!
//! Each macroblock has one colour. It is predicted from the block above (in the first row, from the
//! left), which is just as flat, and the difference is one DC coefficient per plane. At quantiser
//! 28 a luma level of `n` decodes to exactly `n` and a chroma level to `2 n`, so
//! the decoder's picture is the painter's picture, and the next picture can be written as its changes:
//! skipped macroblocks stay, changed ones are written anew. The deblocking filter is off.
//!
//! Sections are those of Rec. ITU-T H.264 (08/2021).

use super::bits::BitWriter;
use crate::ladder::Resolution;

/// The quantiser at which levels are pixel values: with flat scaling LevelScale is 16 · 16 and the
/// shifts of §8.5.10 and §8.5.12 cancel.
const QUANTISER: i32 = 28;

/// Bits of `frame_num`; it counts pictures since the key frame, modulo 256.
const FRAME_NUM_BITS: u32 = 8;

/// A flat colour. Chroma is even, or decoders will show it off by one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Colour {
    /// Luma, 16 (black) to 235 (white).
    pub y: u8,
    /// Blue difference, 128 for grey; even.
    pub cb: u8,
    /// Red difference, 128 for grey; even.
    pub cr: u8,
}

/// The prediction of the very first macroblock, §8.3.3.3 with no neighbours.
const NO_NEIGHBOUR: Colour = Colour { y: 128, cb: 128, cr: 128 };

/// Macroblocks per row and rows of macroblocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grid {
    /// Macroblocks per row.
    pub columns: usize,
    /// Rows of macroblocks; the last may be cropped.
    pub rows: usize,
}

impl Grid {
    /// The macroblocks that cover `resolution`.
    pub fn covering(resolution: Resolution) -> Self {
        let blocks = |pixels: u16| usize::from(pixels).div_ceil(16);
        Self { columns: blocks(resolution.width), rows: blocks(resolution.height) }
    }
}

/// `level_idc` (Annex A) for `resolution` at 25 pictures and up to 17 Mbit/s.
pub fn level(resolution: Resolution) -> u8 {
    let grid = Grid::covering(resolution);
    match grid.columns * grid.rows {
        0..=1620 => 30,
        1621..=3600 => 31,
        3601..=8192 => 40,
        _ => 51,
    }
}

/// The codec as RFC 6381 names it, for manifests: `avc1.42C01E`.
pub fn codec_name(resolution: Resolution) -> String {
    format!("avc1.42C0{:02X}", level(resolution))
}

/// The sequence parameter set as a NAL unit, §7.3.2.1.
pub fn sequence_parameters(resolution: Resolution) -> Vec<u8> {
    let grid = Grid::covering(resolution);
    let mut w = BitWriter::default();
    w.bits(66, 8); // Baseline
    w.bits(0b1100_0000, 8); // and within Constrained Baseline
    w.bits(level(resolution).into(), 8);
    w.ue(0); // seq_parameter_set_id
    w.ue(FRAME_NUM_BITS - 4);
    w.ue(2); // pictures are shown in the order they are decoded
    w.ue(1); // one reference picture
    w.flag(false);
    w.ue(grid.columns as u32 - 1);
    w.ue(grid.rows as u32 - 1);
    w.flag(true); // frame_mbs_only_flag
    w.flag(true); // direct_8x8_inference_flag
    let cropped_rows = grid.rows as u32 * 16 - u32::from(resolution.height);
    w.flag(cropped_rows > 0);
    if cropped_rows > 0 {
        for crop in [0, 0, 0, cropped_rows / 2] {
            w.ue(crop);
        }
    }
    w.flag(true); // vui_parameters_present_flag
    usability(&mut w);
    nal_unit(0x67, w)
}

/// Video usability information, Annex E: square pixels, BT.709, 25 pictures per second, no delay.
fn usability(w: &mut BitWriter) {
    w.flag(true);
    w.bits(1, 8); // square pixels
    w.flag(false); // overscan
    w.flag(true);
    w.bits(5, 3); // video_format unspecified
    w.flag(false); // studio range
    w.flag(true);
    w.bits(0x01_01_01, 24); // BT.709
    w.flag(false); // chroma location
    w.flag(true);
    w.bits(1, 32);
    w.bits(2 * super::PICTURES_PER_SECOND as u32, 32); // in fields
    w.flag(true);
    w.flag(false); // no HRD for NAL units
    w.flag(false); // nor for video units
    w.flag(false); // pic_struct
    w.flag(true); // bitstream restriction, which says that nothing is reordered
    w.flag(true);
    w.ue(0);
    w.ue(0);
    w.ue(10);
    w.ue(10);
    w.ue(0); // max_num_reorder_frames
    w.ue(1); // max_dec_frame_buffering
}

/// The picture parameter set as a NAL unit, §7.3.2.2.
pub fn picture_parameters() -> Vec<u8> {
    let mut w = BitWriter::default();
    w.ue(0); // pic_parameter_set_id
    w.ue(0); // seq_parameter_set_id
    w.flag(false); // CAVLC
    w.flag(false);
    w.ue(0); // one slice group
    w.ue(0);
    w.ue(0);
    w.flag(false);
    w.bits(0, 2);
    w.se(QUANTISER - 26);
    w.se(0);
    w.se(0); // chroma_qp_index_offset
    w.flag(true); // deblocking_filter_control_present_flag
    w.flag(false); // constrained_intra_pred_flag
    w.flag(false);
    nal_unit(0x68, w)
}

/// A key frame (IDR picture) as a NAL unit: `colour(column, row)` gives each macroblock.
/// `idr_number` distinguishes it from the key frame before.
pub fn key_frame(grid: Grid, idr_number: u64, colour: impl Fn(usize, usize) -> Colour) -> Vec<u8> {
    let mut w = BitWriter::default();
    w.ue(0); // first_mb_in_slice
    w.ue(7); // all slices are I
    w.ue(0);
    w.bits(0, FRAME_NUM_BITS);
    w.ue((idr_number % 2) as u32);
    w.flag(false); // no_output_of_prior_pics_flag
    w.flag(false); // long_term_reference_flag
    slice_quality(&mut w);
    for row in 0..grid.rows {
        for column in 0..grid.columns {
            macroblock(&mut w, 0, column, row, &colour);
        }
    }
    nal_unit(0x65, w)
}

/// A picture that changes the one before it, as a NAL unit. `index` counts pictures since the key frame,
/// which is 0; `changed(row)` says whether anything in a row changed, and only then
/// `repaint(column, row)` whether that macroblock did.
pub fn delta_frame(
    grid: Grid,
    index: u64,
    colour: impl Fn(usize, usize) -> Colour,
    changed: impl Fn(usize) -> bool,
    repaint: impl Fn(usize, usize) -> bool,
) -> Vec<u8> {
    let mut w = BitWriter::default();
    w.ue(0); // first_mb_in_slice
    w.ue(5); // all slices are P
    w.ue(0);
    w.bits((index % (1 << FRAME_NUM_BITS)) as u32, FRAME_NUM_BITS);
    w.flag(false); // num_ref_idx_active_override_flag
    w.flag(false); // ref_pic_list_modification_flag_l0
    w.flag(false); // adaptive_ref_pic_marking_mode_flag
    slice_quality(&mut w);
    let mut skipped = 0;
    for row in 0..grid.rows {
        if !changed(row) {
            skipped += grid.columns as u32;
            continue;
        }
        for column in 0..grid.columns {
            if repaint(column, row) {
                w.ue(skipped);
                skipped = 0;
                macroblock(&mut w, 5, column, row, &colour);
            } else {
                skipped += 1;
            }
        }
    }
    if skipped > 0 {
        w.ue(skipped);
    }
    nal_unit(0x41, w)
}

/// The end of both slice headers.
fn slice_quality(w: &mut BitWriter) {
    w.se(0); // slice_qp_delta
    w.ue(1); // disable_deblocking_filter_idc
}

/// One Intra_16x16 macroblock, §7.3.5. `type_offset` is where intra types begin in this slice.
fn macroblock(
    w: &mut BitWriter,
    type_offset: u32,
    column: usize,
    row: usize,
    colour: &impl Fn(usize, usize) -> Colour,
) {
    // Modes of Intra_16x16 (Table 8-4) and of chroma (Table 8-5) for the same direction.
    let (luma_mode, chroma_mode, predicted) = match (column, row) {
        (0, 0) => (2, 0, NO_NEIGHBOUR),
        (_, 0) => (1, 1, colour(column - 1, 0)),
        _ => (0, 2, colour(column, row - 1)),
    };
    let wanted = colour(column, row);
    if type_offset == 0 && row > 0 && wanted == predicted {
        // What nearly all of a key frame is, in one go: type 1 (010), chroma mode 2 (011), no change
        // of the quantiser (1), no level (1).
        w.bits(0b0100_1111, 8);
        return;
    }
    let luma = i32::from(wanted.y) - i32::from(predicted.y);
    let chroma = [
        (i32::from(wanted.cb) - i32::from(predicted.cb)) / 2,
        (i32::from(wanted.cr) - i32::from(predicted.cr)) / 2,
    ];
    let has_chroma = chroma != [0, 0];
    w.ue(type_offset + 1 + luma_mode + 4 * u32::from(has_chroma));
    w.ue(chroma_mode);
    w.se(0); // mb_qp_delta
    match luma {
        0 => w.bits(0b1, 1),
        1 | -1 => w.bits(0b01, 2),
        _ => w.bits(0b00_0101, 6),
    }
    single_level(w, luma);
    if has_chroma {
        for level in chroma {
            match level {
                0 => w.bits(0b01, 2),
                1 | -1 => w.bits(0b1, 1),
                _ => w.bits(0b00_0111, 6),
            }
            single_level(w, level);
        }
    }
}

/// The rest of a residual block (§9.2) with at most one level, in first place, after its
/// coeff_token: the level and total_zeros, or nothing when it is 0.
fn single_level(w: &mut BitWriter, level: i32) {
    if level == 0 {
        return;
    }
    let negative = u32::from(level < 0);
    if level.abs() == 1 {
        w.bits(negative, 1); // trailing_ones_sign_flag
    } else {
        // §9.2.2.1: the first level that is no trailing one is written as if it were one smaller.
        let code = 2 * (level.unsigned_abs() - 2) + negative;
        match code {
            0..14 => w.bits(1, code + 1),
            14..30 => {
                w.bits(1, 15);
                w.bits(code - 14, 4);
            }
            _ => {
                w.bits(1, 16);
                w.bits(code - 30, 12);
            }
        }
    }
    w.bits(1, 1); // total_zeros 0
}

/// Closes the payload (§7.3.2.11) and makes a NAL unit of it, with emulation prevention, §7.4.1.
fn nal_unit(header: u8, mut w: BitWriter) -> Vec<u8> {
    w.flag(true);
    let payload = w.finish();
    let mut unit = Vec::with_capacity(payload.len() + payload.len() / 64 + 8);
    unit.push(header);
    let mut zeros = 0;
    for byte in payload {
        if zeros == 2 && byte <= 3 {
            unit.push(3);
            zeros = 0;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        unit.push(byte);
    }
    unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nal_units_never_contain_a_start_code() {
        let mut w = BitWriter::default();
        for byte in [0, 0, 0, 0, 0, 1, 0, 0, 3, 0, 0, 4] {
            w.bits(byte, 8);
        }
        let unit = nal_unit(0x65, w);
        assert_eq!(unit, [0x65, 0, 0, 3, 0, 0, 3, 0, 1, 0, 0, 3, 3, 0, 0, 4, 0x80]);
    }

    #[test]
    fn an_unchanged_picture_is_one_run_of_skipped_macroblocks() {
        let grid = Grid { columns: 240, rows: 135 };
        let unit = delta_frame(grid, 1, |_, _| NO_NEIGHBOUR, |_| false, |_, _| false);
        assert!(unit.len() < 10, "{unit:?}");
    }

    #[test]
    fn levels_are_coded_as_the_standard_has_them() {
        let code = |level| {
            let mut w = BitWriter::default();
            single_level(&mut w, level);
            w.finish()
        };
        assert_eq!(code(1), [0b0100_0000]); // sign 0, total_zeros
        assert_eq!(code(-1), [0b1100_0000]);
        assert_eq!(code(2), [0b1100_0000]); // level_prefix 0
        assert_eq!(code(-2), [0b0110_0000]); // level_prefix 1
        assert_eq!(code(9), [0, 0b0000_0010, 0b0001_0000]); // level_prefix 14, suffix 0
        assert_eq!(code(17), [0, 0b0000_0001, 0, 0b0000_1000]); // level_prefix 15, suffix 0
    }

    #[test]
    fn levels_of_the_standard_follow_the_size() {
        let name = |width, height| codec_name(Resolution { width, height });
        assert_eq!(name(640, 360), "avc1.42C01E");
        assert_eq!(name(1280, 720), "avc1.42C01F");
        assert_eq!(name(1920, 1080), "avc1.42C028");
        assert_eq!(name(3840, 2160), "avc1.42C033");
    }
}
