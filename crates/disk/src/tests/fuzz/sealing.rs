//! Making the checksums of what was changed right again.

use crate::limits::BLOCK_BYTES;
use crate::record::{Bad, FIXED_BYTES, RecordHead};
use crate::segment::TRAILER_BYTES;
use std::ops::Range;

/// Where the checksum of a checkpoint's header is.
pub(super) const CHECKPOINT_SUM_AT: usize = 124;
/// Where it says the checksum of its parts' checksums.
pub(super) const CHECKPOINT_PARTS_SUM_AT: usize = 116;

/// Puts the checksum of a range at a place.
pub(super) fn put_sum(bytes: &mut [u8], summed: Range<usize>, at: usize) {
    let sum = bytes.get(summed).map(crc32c::crc32c);
    if let (Some(sum), Some(place)) = (sum, bytes.get_mut(at..at + 4)) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
}

pub(super) fn superblock(bytes: &mut [u8]) {
    let at = BLOCK_BYTES as usize - 4;
    put_sum(bytes, 0..at, at);
}

pub(super) fn segment_header(bytes: &mut [u8]) {
    put_sum(bytes, 0..37, 37);
}

pub(super) fn footer(bytes: &mut [u8]) {
    let trailer = bytes.len() - TRAILER_BYTES;
    put_sum(bytes, 0..trailer, trailer + 20);
    put_sum(bytes, trailer..trailer + 24, trailer + 24);
}

pub(super) fn record(bytes: &mut [u8]) {
    let head_bytes = match bytes.get(..FIXED_BYTES).map(RecordHead::parse) {
        Some(Err(Bad::Longer(longer))) => longer,
        _ => FIXED_BYTES,
    };
    put_sum(bytes, 8..head_bytes, 4);
}

pub(super) fn journal_block(bytes: &mut [u8]) {
    bytes[36..40].fill(0);
    put_sum(bytes, 0..BLOCK_BYTES as usize, 36);
}

/// The header with its account, and with its erasure where it has one.
pub(super) fn checkpoint_header(bytes: &mut [u8]) {
    put_sum(bytes, 0..CHECKPOINT_SUM_AT, CHECKPOINT_SUM_AT);
    put_sum(bytes, 128..160, 160);
    let len = bytes.get(172..176).and_then(|len| len.try_into().ok()).map_or(0, u32::from_le_bytes);
    let end = 176usize.saturating_add(len as usize);
    if end < BLOCK_BYTES as usize - 4 {
        put_sum(bytes, 164..end, end);
    }
}
