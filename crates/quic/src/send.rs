//! What is to be sent of a stream: pieces that stay where they lie until all of them is acknowledged.

use super::ranges::{Front, Ranges};
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes in pieces, which packets are cut from, again where one was lost.
#[derive(Debug)]
pub(super) struct SendBuffer<P> {
    /// The pieces and where each begins in the stream.
    pieces: VecDeque<(u64, P)>,
    /// The end of what was written.
    end: u64,
    /// The end of what was sent once.
    sent: u64,
    /// What has to be sent again.
    lost: Ranges,
    /// What was acknowledged.
    acked: Front,
    /// The end of what was written when somebody last looked for what is old.
    aged: u64,
}

impl<P: AsRef<[u8]>> SendBuffer<P> {
    pub(super) fn new() -> Self {
        Self {
            pieces: VecDeque::new(),
            end: 0,
            sent: 0,
            lost: Ranges::new(),
            acked: Front::default(),
            aged: 0,
        }
    }

    /// Gives back what there is no use for while nothing is written.
    pub(super) fn rest(&mut self) {
        self.pieces.shrink_to_fit();
    }

    /// Appends a piece.
    pub(super) fn write(&mut self, piece: P) {
        let len = piece.as_ref().len() as u64;
        if len > 0 {
            self.pieces.push_back((self.end, piece));
            self.end += len;
        }
    }

    /// The next bytes to be sent, at most `bytes_max`, of which new ones only up to the offset
    /// `limit`.
    pub(super) fn next(&mut self, bytes_max: u64, limit: u64) -> Option<Range<u64>> {
        if bytes_max == 0 {
            return None;
        }
        if let Some(lost) = self.lost.pop_front(bytes_max) {
            return Some(lost);
        }
        let end = self.end.min(limit).min(self.sent.saturating_add(bytes_max));
        let range = self.sent..end;
        (!range.is_empty()).then(|| {
            self.sent = end;
            range
        })
    }

    /// The bytes to be sent next of those that were not sent once, as far as they lie in one piece.
    pub(super) fn unsent(&self) -> &[u8] {
        self.piece_from(self.sent).unwrap_or(&[])
    }

    /// The first `count` of these were sent.
    pub(super) fn advance(&mut self, count: u64) {
        assert!(self.sent + count <= self.end, "only what is there is sent");
        self.sent += count;
    }

    /// Appends these bytes to `out`.
    pub(super) fn copy(&self, mut range: Range<u64>, out: &mut Vec<u8>) {
        let mut at = self.pieces.partition_point(|(start, _)| *start <= range.start);
        while !range.is_empty() {
            let Some((start, piece)) = self.pieces.get(at.wrapping_sub(1)) else { break };
            let piece = piece.as_ref();
            let from = (range.start - start) as usize;
            let to = ((range.end - start) as usize).min(piece.len());
            let Some(part) = piece.get(from..to).filter(|part| !part.is_empty()) else { break };
            out.extend_from_slice(part);
            range.start += part.len() as u64;
            at += 1;
        }
        debug_assert!(range.is_empty(), "what is sent is there");
    }

    /// Where the part of these bytes begins that is in one piece with their end.
    pub(super) fn last_piece(&self, range: &Range<u64>) -> u64 {
        let at = self.pieces.partition_point(|(start, _)| *start < range.end);
        let start = self.pieces.get(at.wrapping_sub(1)).map_or(range.end, |(start, _)| *start);
        start.clamp(range.start, range.end)
    }

    /// `len` bytes where they lie, which have to be in one piece.
    pub(super) fn piece(&self, offset: u64, len: usize) -> Option<&[u8]> {
        self.piece_from(offset)?.get(..len)
    }

    /// The bytes from `offset` on that lie in one piece.
    fn piece_from(&self, offset: u64) -> Option<&[u8]> {
        let at = self.pieces.partition_point(|(start, _)| *start <= offset);
        let (start, piece) = self.pieces.get(at.checked_sub(1)?)?;
        piece.as_ref().get((offset - start) as usize..)
    }

    /// These bytes arrived.
    pub(super) fn acknowledge(&mut self, range: Range<u64>) {
        self.lost.remove(range.clone());
        if !self.acked.insert(range) {
            return;
        }
        while let Some((start, piece)) = self.pieces.front()
            && start + piece.as_ref().len() as u64 <= self.acked.end()
        {
            self.pieces.pop_front();
        }
    }

    /// These bytes were lost.
    pub(super) fn lose(&mut self, range: Range<u64>) {
        let mut again = Ranges::new();
        again.insert(range.start.max(self.acked.end())..range.end);
        for acked in self.acked.ahead().iter() {
            again.remove(acked.clone());
        }
        again.iter().for_each(|range| {
            self.lost.insert(range.clone());
        });
    }

    /// Replaces pieces that were there when this was called last, where `other` has something for them
    /// with the same bytes.
    pub(super) fn replace_old(&mut self, other: &mut impl FnMut(&P) -> Option<P>) {
        let aged = std::mem::replace(&mut self.aged, self.end);
        for (_, piece) in self.pieces.iter_mut().take_while(|(start, _)| *start < aged) {
            if let Some(other) = other(piece) {
                debug_assert_eq!(other.as_ref().len(), piece.as_ref().len());
                *piece = other;
            }
        }
    }

    /// Forgets all of it.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.lost.clear();
        self.end = self.sent;
    }

    /// Bytes from the first that was not acknowledged on: whatever is behind it stays too.
    pub(super) fn kept(&self) -> u64 {
        self.pieces.front().map_or(0, |(start, _)| self.end - start)
    }

    /// The end of what was written.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The end of what was sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether something was lost and not sent again.
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Whether all that was written is acknowledged.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.acked.end() == self.end
    }

    /// Up to where all is acknowledged.
    pub(super) fn acked_front(&self) -> u64 {
        self.acked.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is lost, all bytes arrive, and nothing stays when they have.
        #[test]
        fn all_arrives(
            pieces in proptest::collection::vec(1..50_usize, 1..10),
            losses in proptest::collection::vec(any::<bool>(), 0..60),
            bytes_max in 1..40_u64,
        ) {
            let mut buffer = SendBuffer::new();
            let mut want = Vec::new();
            for (at, len) in pieces.into_iter().enumerate() {
                let piece: Vec<u8> = (0..len).map(|byte| (at * 50 + byte) as u8).collect();
                want.extend_from_slice(&piece);
                buffer.write(piece);
            }
            let mut got = vec![0; want.len()];
            let mut losses = losses.into_iter();
            while let Some(range) = buffer.next(bytes_max, u64::MAX) {
                if losses.next() == Some(true) {
                    buffer.lose(range);
                    continue;
                }
                let mut bytes = Vec::new();
                let from = buffer.last_piece(&range);
                buffer.copy(range.start..from, &mut bytes);
                bytes.extend_from_slice(buffer.piece(from, (range.end - from) as usize).unwrap());
                prop_assert_eq!(bytes.len() as u64, range.end - range.start);
                got[range.start as usize..range.end as usize].copy_from_slice(&bytes);
                buffer.acknowledge(range);
            }
            prop_assert_eq!(got, want);
            prop_assert!(buffer.is_acknowledged() && buffer.pieces.is_empty());
        }
    }

    #[test]
    fn what_was_taken_for_lost_and_arrives_is_not_sent_again() {
        let mut buffer = SendBuffer::new();
        buffer.write(vec![0; 100]);
        assert_eq!(buffer.next(60, 50), Some(0..50));
        assert_eq!(buffer.next(60, 50), None);
        buffer.lose(0..50);
        buffer.acknowledge(10..20);
        assert_eq!(buffer.next(30, 0), Some(0..10));
        assert_eq!(buffer.next(30, 0), Some(20..50));
        buffer.lose(0..50);
        assert_eq!(buffer.next(30, 0), Some(0..10));
    }
}
