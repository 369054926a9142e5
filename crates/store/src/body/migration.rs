//! Moving a body's bytes to another arena, as to memory of a lower class and back.
//!
//! A body may have pieces in several arenas: who reads it gets leases and does not see where they
//! lead. New bytes always come to the body's own arena.

use super::Body;
use crate::arena::Arena;
use std::sync::Arc;

/// What one step of moving a body came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Moved {
    /// One piece was moved.
    Part {
        /// Bytes of it.
        bytes: u64,
        /// Memory that came free where it was; none while it is read there.
        freed_bytes: u64,
    },
    /// Nothing is left to be moved.
    All,
    /// There is no room where it is to go.
    NoRoom,
}

impl Body {
    /// Whether all bytes that are held are in this arena.
    pub fn is_in(&self, arena: &Arc<Arena>) -> bool {
        self.state().extents.first_outside(arena).is_none()
    }

    /// Copies one piece that is not in `to`, 1 MiB at most, and gives back the memory it was in.
    /// Leases on that stay good and hold it. May call the reclaim hook of `to`.
    pub fn move_part(&self, to: &Arc<Arena>) -> Moved {
        let old = {
            let state = self.state();
            let stays = state.is_transit || state.is_cleared;
            state.extents.first_outside(to).filter(|_| !stays).cloned()
        };
        let Some(old) = old else { return Moved::All };
        let lease = old.lease();
        let Some(mut piece) = to.allocate(lease.len()) else { return Moved::NoRoom };
        piece.spare()[..lease.len()].copy_from_slice(&lease);
        piece.publish(lease.len());
        piece.trim();
        let bytes = lease.len() as u64;
        drop(lease);
        let unused = self.state().extents.replace(&old, piece.share());
        drop((old, piece));
        let freed_bytes = if unused.is_in(to) {
            // The body changed meanwhile, and what was copied is not wanted.
            0
        } else if unused.is_shared() {
            unused.pin();
            0
        } else {
            u64::from(unused.capacity())
        };
        Moved::Part { bytes, freed_bytes }
    }
}
