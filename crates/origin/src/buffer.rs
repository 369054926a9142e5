//! Bytes read from a connection and not used yet.

use std::ops::Range;

/// What is asked of the kernel at once while a head is read: usually the head and the whole body
/// of a small response.
pub(crate) const READ_BYTES: usize = 16 * 1024;

/// A buffer that is filled at its end and used up from its front. Idle connections have none.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffer {
    bytes: Vec<u8>,
    filled: Range<usize>,
}

impl ReadBuffer {
    /// Room behind what is there, at least [`READ_BYTES`] long.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.filled.is_empty() {
            self.filled = 0..0;
        }
        if self.bytes.len() - self.filled.end < READ_BYTES && self.filled.start > 0 {
            self.bytes.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let needed = self.filled.end + READ_BYTES;
        if self.bytes.len() < needed {
            self.bytes.resize(needed.next_multiple_of(READ_BYTES), 0);
        }
        self.bytes.get_mut(self.filled.end..).unwrap_or_default()
    }

    /// Notes that the first `count` bytes of [`ReadBuffer::room`] were filled.
    pub(crate) fn fill(&mut self, count: usize) {
        self.filled.end = (self.filled.end + count).min(self.bytes.len());
    }

    /// Uses up `count` bytes of the front.
    pub(crate) fn consume(&mut self, count: usize) {
        self.filled.start = (self.filled.start + count).min(self.filled.end);
    }

    /// Moves bytes of the front into `out`; returns how many.
    pub(crate) fn take_into(&mut self, out: &mut [u8]) -> usize {
        let count = out.len().min(self.len());
        if let (Some(to), Some(from)) = (out.get_mut(..count), self.bytes().get(..count)) {
            to.copy_from_slice(from);
        }
        self.consume(count);
        count
    }

    /// What is there.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.filled.clone()).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.filled.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filled.is_empty()
    }

    /// Bytes of heap held.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out_in_order(
            steps in prop::collection::vec((0_usize..40_000, 0_usize..40_000), 1..20),
        ) {
            let mut buffer = ReadBuffer::default();
            let (mut next_in, mut next_out) = (0_usize, 0_usize);
            for (fill, take) in steps {
                let room = buffer.room();
                prop_assert!(room.len() >= READ_BYTES);
                let fill = fill.min(room.len());
                for byte in &mut room[..fill] {
                    *byte = next_in as u8;
                    next_in += 1;
                }
                buffer.fill(fill);
                let mut out = vec![0; take];
                let count = buffer.take_into(&mut out);
                for byte in &out[..count] {
                    prop_assert_eq!(*byte, next_out as u8);
                    next_out += 1;
                }
                prop_assert_eq!(buffer.len(), next_in - next_out);
                prop_assert_eq!(buffer.is_empty(), next_in == next_out);
            }
        }
    }
}
