//! Writers that wait for memory, first come first served.
//!
//! Memory that comes back is handed to the first in the queue before its lock is let go, so nobody
//! who comes later can take it, and a writer that is woken finds its piece already there. A writer
//! that never looks again holds up one piece and not the queue.

use super::{Arena, Need, Run};
use crate::limits::PIECE_BYTES_MAX;
use crate::piece::PieceMut;
use crate::wake::WakeList;
use freshet_base::ledger::Ledger;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// The queue, under the arena's lock.
#[derive(Default)]
pub(super) struct Queue {
    tickets: VecDeque<Arc<Ticket>>,
}

struct Ticket {
    need: Need,
    /// Locked after the arena's lock where both are held.
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    granted: Option<Run>,
    waker: Option<Waker>,
}

/// A place in the queue. Dropping it gives the place up, and the memory if it was granted.
pub(crate) struct MemoryWait {
    arena: Arc<Arena>,
    ticket: Arc<Ticket>,
}

impl Queue {
    pub(super) fn next(&self) -> Option<Need> {
        self.tickets.front().map(|ticket| ticket.need)
    }

    /// Gives the first in the queue its memory.
    pub(super) fn serve(&mut self, run: Run, wakes: &mut WakeList) {
        let ticket = self.tickets.pop_front().expect("the queue has a first");
        let mut slot = ticket.slot();
        slot.granted = Some(run);
        wakes.extend(slot.waker.take());
    }

    /// What all in the queue would like to have.
    pub(super) fn wanted_bytes(&self) -> u64 {
        self.tickets.iter().map(|ticket| u64::from(ticket.need.best)).sum()
    }
}

impl Ticket {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().expect("a thread panicked while it held a place in the queue for memory")
    }
}

impl Arena {
    /// Joins the queue for memory. May be served at once.
    pub(crate) fn wait(self: &Arc<Self>, need: Need) -> MemoryWait {
        let ticket = Arc::new(Ticket { need, slot: Mutex::default() });
        let mut state = self.state();
        state.queue.tickets.push_back(ticket.clone());
        self.waiting.fetch_add(1, SeqCst);
        self.waits.fetch_add(1, Relaxed);
        self.settle(state);
        // Something may have become evictable after the last attempt and before this place was
        // taken; whoever makes something evictable from now on sees that there is a queue.
        self.reclaim_for_waiting();
        MemoryWait { arena: self.clone(), ticket }
    }
}

impl Arena {
    /// A piece of `len` bytes, at most [`PIECE_BYTES_MAX`], in the order of the queue. Who waits
    /// here holds no memory that others of the queue might wait for.
    pub async fn allocate_in_turn(self: &Arc<Self>, len: u32) -> PieceMut {
        let len = len.clamp(1, PIECE_BYTES_MAX);
        let mut wait = self.wait(Need { best: len, good: len, least: len });
        poll_fn(|cx| wait.poll(cx)).await
    }
}

impl MemoryWait {
    /// The memory that was waited for. Not to be called again after that.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<PieceMut> {
        let mut slot = self.ticket.slot();
        if let Some(run) = slot.granted.take() {
            return Poll::Ready(PieceMut::new(self.arena.clone(), run));
        }
        slot.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for MemoryWait {
    fn drop(&mut self) {
        let granted = {
            let mut state = self.arena.state();
            let before = state.queue.tickets.len();
            state.queue.tickets.retain(|ticket| !Arc::ptr_eq(ticket, &self.ticket));
            let left = (before - state.queue.tickets.len()) as u64;
            self.arena.waiting.give_back(left, SeqCst);
            let granted = self.ticket.slot().granted.take();
            // The next in the queue may need less than this one did.
            self.arena.settle(state);
            granted
        };
        if let Some(run) = granted {
            self.arena.release(run);
        }
    }
}
