//! What a disk remembers of the last erasure of it: in its journal, and in its checkpoints.

use crate::codec::{Put, Reader};

/// The longest name of what is erased that is kept.
const WHAT_BYTES_MAX: usize = 255;
/// What is kept of an erasure at most: its numbers, and the name of what is erased.
pub(crate) const PROGRESS_BYTES_MAX: usize = 60 + WHAT_BYTES_MAX;

/// What became of the bytes of a disk, or of a segment, so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Erased {
    /// Segments of the disk.
    pub segments: u32,
    /// Segments that were visited.
    pub segments_done: u32,
    /// Bytes of records of others, which stay.
    pub kept_bytes: u64,
    /// Bytes that were something else than zeroes and were overwritten, and what shares blocks with
    /// them.
    pub overwritten_bytes: u64,
    /// Bytes that were read again afterwards and are zeroes.
    pub zero_bytes: u64,
    /// Bytes that could not be overwritten or read again, or are no zeroes.
    pub left_bytes: u64,
}

impl Erased {
    /// Whether all segments were visited.
    pub fn is_over(&self) -> bool {
        self.segments_done >= self.segments
    }

    /// Whether all of the disk was visited and read again, and nothing is left.
    pub fn is_whole(&self) -> bool {
        self.segments > 0 && self.is_over() && self.left_bytes == 0
    }

    pub(crate) fn add(&mut self, segment: &Self) {
        let Self { segments_done, kept_bytes, overwritten_bytes, zero_bytes, left_bytes, .. } =
            self;
        *segments_done = segments_done.saturating_add(1);
        for (all, bytes) in [
            (kept_bytes, segment.kept_bytes),
            (overwritten_bytes, segment.overwritten_bytes),
            (zero_bytes, segment.zero_bytes),
            (left_bytes, segment.left_bytes),
        ] {
            *all = all.saturating_add(bytes);
        }
    }
}

/// An erasure of one disk: what was asked for, and how far it is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// Its number in the order of purges: what was purged by then is erased.
    pub since: u64,
    /// What is erased, in the words of who asked for it.
    pub what: String,
    /// When it began, Unix milliseconds.
    pub begun_ms: u64,
    /// When the last segment was done, Unix milliseconds; 0 before.
    pub ended_ms: u64,
    /// How far it is.
    pub erased: Erased,
}

impl Progress {
    /// The name of what is erased as it is kept.
    pub(crate) fn shortened(what: &str) -> String {
        what.get(..what.floor_char_boundary(WHAT_BYTES_MAX)).unwrap_or_default().to_owned()
    }

    /// What is kept of it besides its number.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Erased { segments, segments_done, .. } = self.erased;
        let Erased { kept_bytes, overwritten_bytes, zero_bytes, left_bytes, .. } = self.erased;
        let mut out = Vec::with_capacity(PROGRESS_BYTES_MAX);
        out.put_u64(self.begun_ms);
        out.put_u64(self.ended_ms);
        out.put_u32(segments);
        out.put_u32(segments_done);
        out.put_u64(kept_bytes);
        out.put_u64(overwritten_bytes);
        out.put_u64(zero_bytes);
        out.put_u64(left_bytes);
        let what = Self::shortened(&self.what);
        out.put_u32(what.len() as u32);
        out.put(what.as_bytes());
        out
    }

    /// What [`Progress::encode`] made, of the erasure with this number.
    pub(crate) fn parse(since: u64, bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let (begun_ms, ended_ms) = (from.u64()?, from.u64()?);
        let erased = Erased {
            segments: from.u32()?,
            segments_done: from.u32()?,
            kept_bytes: from.u64()?,
            overwritten_bytes: from.u64()?,
            zero_bytes: from.u64()?,
            left_bytes: from.u64()?,
        };
        let what_bytes = from.u32()? as usize;
        let what = from.bytes(what_bytes).filter(|_| what_bytes <= WHAT_BYTES_MAX)?;
        let what = String::from_utf8_lossy(what).into_owned();
        Some(Self { since, what, begun_ms, ended_ms, erased })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_has_a_bound() {
        let erased = Erased {
            segments: 9,
            segments_done: 4,
            kept_bytes: 1,
            overwritten_bytes: 2,
            zero_bytes: 3,
            left_bytes: u64::MAX,
        };
        let what = "é".repeat(200);
        let progress = Progress { since: 7, what, begun_ms: 5, ended_ms: 6, erased };
        let bytes = progress.encode();
        assert!(bytes.len() <= PROGRESS_BYTES_MAX);
        let back = Progress::parse(7, &bytes).expect("it is whole");
        assert_eq!(back, Progress { what: "é".repeat(127), ..progress });
        for len in 0..bytes.len() {
            assert_eq!(Progress::parse(7, &bytes[..len]), None, "{len}");
        }
    }
}
