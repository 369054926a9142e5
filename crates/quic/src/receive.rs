//! What arrived of a stream, put in order.

use super::limits::GAPS_MAX;
use super::ranges::Front;

/// Bytes that came in any order. Holds no more than lies between what was taken and the highest byte
/// that came, which the window bounds.
#[derive(Debug, Default)]
pub(super) struct ReceiveBuffer {
    /// The offset of the first byte of `bytes`.
    start: u64,
    bytes: Vec<u8>,
    /// What of them came.
    came: Front,
    /// The highest offset that came.
    highest: u64,
}

/// There are more gaps than are kept.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct TooManyGaps;

impl ReceiveBuffer {
    /// Bytes came.
    ///
    /// # Errors
    /// [`TooManyGaps`]
    pub(super) fn insert(&mut self, offset: u64, bytes: &[u8]) -> Result<(), TooManyGaps> {
        let end = offset + bytes.len() as u64;
        self.highest = self.highest.max(end);
        let skip = self.start.saturating_sub(offset);
        let Some(bytes) = bytes.get(skip as usize..).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        let from = (offset + skip - self.start) as usize;
        if from == self.bytes.len() {
            self.bytes.extend_from_slice(bytes);
        } else {
            if self.bytes.len() < from + bytes.len() {
                self.bytes.resize(from + bytes.len(), 0);
            }
            if let Some(place) = self.bytes.get_mut(from..from + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
        self.came.insert(offset..end);
        if self.came.ahead().len() > GAPS_MAX { Err(TooManyGaps) } else { Ok(()) }
    }

    /// The bytes that are next and there.
    pub(super) fn readable(&self) -> &[u8] {
        let count = self.came.end() - self.start;
        self.bytes.get(..count as usize).unwrap_or(&[])
    }

    /// `count` of them are done.
    pub(super) fn consume(&mut self, count: usize) {
        assert!(count <= self.readable().len(), "only what came is done");
        self.start += count as u64;
        self.bytes.drain(..count);
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }

    /// Forgets all of it, and where it is.
    pub(super) fn clear(&mut self) {
        self.bytes = Vec::new();
        self.came.restart_at(self.highest);
        self.start = self.highest;
    }

    /// Whether nothing came that was not taken.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The offset of the next byte to be taken.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// The highest offset that came.
    pub(super) fn highest(&self) -> u64 {
        self.highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_and_repetition_do_not_matter(
            len in 1..300_usize,
            parts in proptest::collection::vec((0..300_usize, 1..40_usize, 0..20_usize), 0..100),
        ) {
            let want: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
            let mut buffer = ReceiveBuffer::default();
            let mut got = Vec::new();
            let whole = [(0, len, 3), (0, len, len), (0, len, len)];
            for (start, count, taken) in parts.into_iter().chain(whole) {
                let range = start.min(len)..(start + count).min(len);
                buffer.insert(range.start as u64, &want[range]).unwrap();
                let readable = buffer.readable();
                let taken = taken.min(readable.len());
                got.extend_from_slice(&readable[..taken]);
                buffer.consume(taken);
                prop_assert!(buffer.bytes.len() <= len - got.len());
            }
            prop_assert_eq!(got, want);
        }
    }

    #[test]
    fn gaps_have_an_end() {
        let mut buffer = ReceiveBuffer::default();
        for at in 0..GAPS_MAX as u64 {
            assert_eq!(buffer.insert(2 * at + 1, &[1]), Ok(()));
        }
        assert_eq!(buffer.insert(2 * GAPS_MAX as u64 + 1, &[1]), Err(TooManyGaps));
    }
}
