//! Pieces of bodies on their way to a client, and what a response keeps in memory meanwhile.

use bytes::Bytes;
use freshet_access::ledger::readers::Held;
use freshet_store::Lease;
use std::ops::Range;

/// The longest piece of a body whose reader may not keep it in memory: a copy, of as much as a
/// connection's other buffers have.
pub const LOOSE_BYTES_MAX: usize = 16 << 10;

/// A piece of a body: a lease on cached memory, or bytes of its own.
pub enum Chunk {
    /// Cached bytes; they stay as long as this lives.
    Lease(Lease),
    /// Bytes made for this response.
    Bytes(Bytes),
}

impl Chunk {
    /// A part of the same bytes.
    ///
    /// # Panics
    /// If `range` is not inside, as slicing does.
    #[must_use]
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Self {
        match self {
            Self::Lease(lease) => Self::Lease(lease.slice(range)),
            Self::Bytes(bytes) => Self::Bytes(bytes.slice(range)),
        }
    }

    /// Whether it keeps cached memory where it is.
    #[inline]
    pub fn is_lease(&self) -> bool {
        matches!(self, Self::Lease(_))
    }

    /// The same bytes from `start` on, in memory of their own.
    #[must_use]
    pub fn copied(&self, start: usize) -> Self {
        match self {
            Self::Lease(lease) => {
                Self::Bytes(Bytes::copy_from_slice(lease.get(start..).unwrap_or(&[])))
            }
            Self::Bytes(bytes) => Self::Bytes(bytes.slice(start..)),
        }
    }
}

impl AsRef<[u8]> for Chunk {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Lease(lease) => lease.as_ref(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// A body that broke off; the client has to be told by breaking its response off too.
#[derive(Debug)]
pub struct BodyBroken;

/// What a response keeps in memory while it waits for its client.
#[derive(Clone, Copy, Debug)]
pub struct Holding {
    /// How much, and by which piece it is known.
    pub held: Held,
    /// What becomes of it where it may not.
    pub without: Without,
}

/// What becomes of a response that may not keep in memory what it keeps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Without {
    /// It goes on: what is evicted is read or fetched again.
    GoesOn,
    /// It breaks off where something is evicted.
    MayBreak,
    /// It lets go what was read ahead of its client, and reads it again: it cannot go on from less
    /// than this.
    ReadsAgain {
        /// What it holds at least.
        least_bytes: u64,
    },
    /// It ends: its bytes come only once.
    Ends {
        /// The least it gets on with.
        least_bytes: u64,
    },
}

impl Without {
    /// Of a body in transit: the least it gets on with.
    pub fn least_bytes(self) -> Option<u64> {
        match self {
            Self::GoesOn | Self::MayBreak => None,
            Self::ReadsAgain { least_bytes } | Self::Ends { least_bytes } => Some(least_bytes),
        }
    }
}
