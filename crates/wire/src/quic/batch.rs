//! Datagrams on their way to one client, to be sent in one call.

use super::ecn::Ecn;
use super::limits::BATCH_BYTES_MAX;

/// Datagrams one behind the other, all of the same size but the last, which may be shorter.
#[derive(Debug)]
pub struct Batch {
    pub(super) bytes: Vec<u8>,
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
        Self { bytes: Vec::with_capacity(BATCH_BYTES_MAX), segment_bytes: 0, ecn: Ecn::NotEct }
    }

    /// The datagrams.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
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
        self.bytes.chunks(self.segment_bytes.max(1))
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.segment_bytes = 0;
        self.ecn = Ecn::NotEct;
    }
}
