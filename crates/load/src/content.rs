//! Bytes to serve: a head that was made, and padding that is only described.
//!
//! A segment of 12 MB has some 40 KB of media; the rest is padding. Padding is read from one block
//! of noise that the process makes once, so that a segment costs its head and nothing more, and a
//! server can send the padding without copying it. Each content starts the noise somewhere else, and
//! the block's length is prime: bytes from the wrong content or the wrong offset show up when
//! compared, also when they are off by a whole page or a whole power of two.

use bytes::Bytes;
use std::ops::Range;
use std::sync::OnceLock;

/// Length of the block of noise; prime, close to 1 MiB so that it stays in a second-level cache.
const NOISE_BYTES: usize = 1_048_573;

/// Bytes of one representation: [`Content::new`]'s head, then padding. Cheap to clone and slice.
#[derive(Clone, Debug)]
pub struct Content {
    head: Bytes,
    padding_start: usize,
    padding_bytes: u64,
}

impl Content {
    /// `head` followed by `padding_bytes` of noise, which `seed` chooses.
    pub fn new(head: impl Into<Bytes>, padding_bytes: u64, seed: u64) -> Self {
        let padding_start = (mix(seed) % NOISE_BYTES as u64) as usize;
        Self { head: head.into(), padding_start, padding_bytes }
    }

    /// Bytes in all.
    pub fn len(&self) -> u64 {
        self.head.len() as u64 + self.padding_bytes
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in `range`, which is cut off at the end of the content.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Self {
        let (head_len, len) = (self.head.len() as u64, self.len());
        let end = range.end.min(len);
        let start = range.start.min(end);
        let head = self.head.slice(start.min(head_len) as usize..end.min(head_len) as usize);
        let skipped = start.saturating_sub(head_len);
        Self {
            head,
            padding_start: (self.padding_start + (skipped % NOISE_BYTES as u64) as usize)
                % NOISE_BYTES,
            padding_bytes: end.saturating_sub(head_len) - skipped,
        }
    }

    /// Takes up to `bytes_max` (> 0) off the front, without copying; `None` at the end.
    pub fn take_front(&mut self, bytes_max: usize) -> Option<Bytes> {
        if !self.head.is_empty() {
            return Some(self.head.split_to(self.head.len().min(bytes_max)));
        }
        let left = usize::try_from(self.padding_bytes).unwrap_or(usize::MAX);
        let length = left.min(bytes_max).min(NOISE_BYTES - self.padding_start);
        if length == 0 {
            return None;
        }
        let piece = &noise()[self.padding_start..self.padding_start + length];
        self.padding_start = (self.padding_start + length) % NOISE_BYTES;
        self.padding_bytes -= length as u64;
        Some(Bytes::from_static(piece))
    }

    /// All bytes in one buffer, for tests and small contents.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut rest = self.clone();
        let mut bytes = Vec::with_capacity(usize::try_from(self.len()).unwrap_or(0));
        while let Some(piece) = rest.take_front(NOISE_BYTES) {
            bytes.extend_from_slice(&piece);
        }
        bytes
    }
}

/// The block all padding is read from; made at the first call, in about a millisecond.
fn noise() -> &'static [u8] {
    static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
    NOISE.get_or_init(|| {
        let words = (0..NOISE_BYTES.div_ceil(8) as u64).flat_map(|n| mix(n).to_le_bytes());
        words.take(NOISE_BYTES).collect()
    })
}

/// Spreads `n` over 64 bits (the finaliser of SplitMix64); the same in every process.
pub fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn contents_of_different_seeds_differ_and_of_one_seed_do_not() {
        let content = |seed| Content::new("head", 3_000_000, seed).to_vec();
        assert_eq!(content(1).len(), 3_000_004);
        assert_eq!(content(1), content(1));
        assert_ne!(content(1), content(2));
    }

    #[test]
    fn padding_does_not_repeat_at_powers_of_two() {
        let bytes = Content::new("", 5 << 20, 7).to_vec();
        for distance in [4096, 65_536, 1 << 20, 1 << 21] {
            assert_ne!(bytes[..64], bytes[distance..distance + 64]);
        }
    }

    proptest! {
        #[test]
        fn a_slice_is_the_bytes_of_the_range(
            head in 0_usize..50, padding in 0_u64..3_000_000, start in 0_u64..3_100_000,
            length in 0_u64..1_200_000, again in 0_u64..100,
        ) {
            let content = Content::new(vec![7; head], padding, 3);
            let whole = content.to_vec();
            let slice = content.slice(start..start + length).slice(again..u64::MAX);
            let from = whole.len().min((start + again) as usize);
            let to = whole.len().min((start + length) as usize).max(from);
            prop_assert_eq!(slice.len(), (to - from) as u64);
            prop_assert!(slice.to_vec() == whole[from..to]);
        }
    }
}
