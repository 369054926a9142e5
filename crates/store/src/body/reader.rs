//! Reading a body, while it is filled or after.

use super::state::Next;
use super::{After, Body};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// One reader of a body; it keeps the bytes it has not read from being dropped.
///
/// Dropping the last reader of a body may call the arena's reclaim hook, when writers wait for
/// memory: do not drop one under a lock the hook takes.
pub struct BodyReader {
    body: Arc<Body>,
    id: u32,
    position: u64,
    is_patient: bool,
}

impl BodyReader {
    pub(super) fn new(body: Arc<Body>, id: u32, position: u64) -> Self {
        Self { body, id, position, is_patient: false }
    }

    /// The next bytes, at most `max` and at least one, as far as they lie in one piece; or what is
    /// there instead. Waits where a running writer is at most
    /// [`crate::limits::FILL_AHEAD_BYTES_MAX`] behind. One lock, one binary search, no allocation.
    ///
    /// Let go of the leases of a body before waiting for more of it: a lease holds its whole piece,
    /// and the writer that is waited for may be waiting for that memory.
    pub fn poll_next(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Next> {
        let max = u64::try_from(max.max(1)).unwrap_or(u64::MAX);
        let next = self.body.change(|state, after: &mut After| {
            state.read(self.id, max, self.is_patient, cx, after)
        });
        if let Poll::Ready(Next::Data(lease)) = &next {
            self.position += lease.len() as u64;
        }
        next
    }

    /// As [`BodyReader::poll_next`]. Dropping the future loses nothing.
    pub async fn next(&mut self, max: usize) -> Next {
        poll_fn(|cx| self.poll_next(cx, max)).await
    }

    /// Whether the reader waits for a running writer however far behind that is, instead of being
    /// told of a hole: for bytes that cannot be fetched by themselves.
    pub fn set_patient(&mut self, is_patient: bool) {
        self.is_patient = is_patient;
    }

    /// The next byte it reads.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The body it reads.
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        let left = self.body.change(|state, after| {
            state.remove_reader(self.id, after);
            state.reader_count()
        });
        if left == 0 {
            // Without readers the body can be evicted: that may be what writers wait for.
            self.body.arena.reclaim_for_waiting();
        }
    }
}

impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyReader").field("position", &self.position).finish_non_exhaustive()
    }
}
