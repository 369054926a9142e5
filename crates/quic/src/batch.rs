//! Datagrams on their way to one client, to be sent in one call.

use super::ecn::Ecn;
use super::limits::{BATCH_BYTES_MAX, DATAGRAM_BYTES_MAX};

/// Datagrams one behind the other, all of the same size but the last, which may be shorter.
#[derive(Debug)]
pub struct Batch {
    /// Room for the largest, of which `len` bytes are datagrams. What is behind them is of batches before:
    /// it is not cleared, as a cipher writes there next.
    room: Box<[u8]>,
    len: usize,
    /// Where a datagram is written before it is sealed, but for the part of a body that the cipher reads
    /// from where it lies.
    pub(super) draft: Vec<u8>,
    pub(super) segment_bytes: usize,
    pub(super) ecn: Ecn,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// An empty batch with room for the largest.
    pub fn new() -> Self {
        Self {
            room: vec![0; BATCH_BYTES_MAX].into(),
            len: 0,
            draft: Vec::with_capacity(DATAGRAM_BYTES_MAX),
            segment_bytes: 0,
            ecn: Ecn::NotEct,
        }
    }

    /// The datagrams.
    pub fn bytes(&self) -> &[u8] {
        self.room.get(..self.len).unwrap_or(&[])
    }

    /// Bytes of each datagram but the last.
    pub fn segment_bytes(&self) -> usize {
        self.segment_bytes
    }

    /// What their heads have to say of congestion.
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes().chunks(self.segment_bytes.max(1))
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.len = 0;
        self.draft.clear();
        self.segment_bytes = 0;
        self.ecn = Ecn::NotEct;
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether another of so many bytes has room.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.len + bytes <= self.room.len()
    }

    /// Moves what was drafted behind the datagrams, as one of `bytes` that begins with it; what is between
    /// it and the end is to be written there. Nothing where there is no room.
    pub(super) fn push(&mut self, bytes: usize) -> &mut [u8] {
        let mut draft = std::mem::take(&mut self.draft);
        let at = self.len;
        self.append(&draft, bytes);
        draft.clear();
        self.draft = draft;
        self.room.get_mut(at..self.len).unwrap_or(&mut [])
    }

    /// Appends a datagram of `bytes` that begins with `front`; the rest is to be written there. Nothing
    /// where there is no room.
    pub(super) fn append(&mut self, front: &[u8], bytes: usize) -> &mut [u8] {
        let start = self.len;
        let Some(datagram) = self.room.get_mut(start..start + bytes) else { return &mut [] };
        let Some(place) = datagram.get_mut(..front.len()) else { return &mut [] };
        place.copy_from_slice(front);
        self.len += bytes;
        datagram
    }

    /// How many more of `bytes` have room.
    pub(super) fn room_for(&self, bytes: usize) -> usize {
        (self.room.len() - self.len) / bytes.max(1)
    }

    /// Makes what was drafted the only datagram.
    pub(super) fn push_alone(&mut self) {
        self.segment_bytes = self.draft.len();
        self.push(self.draft.len());
    }
}
