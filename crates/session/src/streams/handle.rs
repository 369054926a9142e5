//! One stream, to who serves it.

use super::arriving::{BodyHandle, UploadState};
use super::{Multiplexed, STREAM_BYTES_MAX, State, Why};
use freshet_http::fields::Fields;
use freshet_http::message::ResponseHead;
use freshet_site::pieces::Chunk;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Bytes of responses' bodies that may wait for their turn, of all streams of a connection. Each may have a little even so, for only who has
/// something gets a turn.
const CONNECTION_BYTES_MAX: usize = 1 << 20;
/// That little.
const STREAM_BYTES_MIN: usize = 16 << 10;
/// Bytes of a connection's bodies up to which a stream that keeps nothing in memory gets a whole
/// piece of it copied.
const LOOSE_BYTES_MAX: usize = 64 << 10;
/// What it gets copied beyond.
const LOOSE_BYTES_MIN: usize = 2 << 10;

/// One stream's side, to who serves it. Dropped before the response's end it resets the stream.
pub(crate) struct StreamHandle<C: Multiplexed> {
    state: Rc<RefCell<State<C>>>,
    number: u64,
}

/// Whether a response comes on, for its time limit.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct Progress(u64);

impl<C: Multiplexed> StreamHandle<C> {
    /// The stream of this number, which has [begun](State::begin).
    pub(super) fn new(state: &Rc<RefCell<State<C>>>, number: u64) -> Self {
        Self { state: Rc::clone(state), number }
    }

    /// The request's body.
    pub(crate) fn body(&self) -> BodyHandle<C> {
        BodyHandle::new(&self.state, self.number)
    }

    /// It goes before others of its connection that are as urgent.
    pub(crate) fn hasten(&self) {
        self.state.borrow_mut().connection.hasten(self.number);
    }

    /// Sends a head; see [`Multiplexed::respond`].
    pub(crate) fn respond(
        &self,
        head: &ResponseHead,
        length: Option<u64>,
        ends: bool,
    ) -> Option<usize> {
        let state = &mut *self.state.borrow_mut();
        let bytes = state.connection.respond(self.number, head, length, ends);
        if let Some(exchange) = state.exchanges.get_mut(&self.number) {
            exchange.is_answered |= head.status >= 200;
        }
        state.wake();
        bytes
    }

    /// The client waits with its body until somebody takes it.
    pub(crate) fn expect_continue(&self) {
        if let Some(exchange) = self.state.borrow_mut().exchanges.get_mut(&self.number) {
            exchange.upload.is_expected = true;
        }
    }

    /// Waits until the request's body is over, where nobody takes it.
    pub(crate) fn poll_unwanted_body(&self, cx: &Context<'_>) -> Poll<()> {
        let state = &mut *self.state.borrow_mut();
        match state.exchanges.get_mut(&self.number) {
            Some(exchange)
                if !exchange.upload.is_taken && exchange.upload.state == UploadState::Open =>
            {
                exchange.upload.taker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Waits until there is room for the head of the response: it is copied, where a body is not, so
    /// a client that reads nothing gets no more of them. False when the stream is over.
    pub(crate) fn poll_head_room(&self, cx: &Context<'_>) -> Poll<bool> {
        let state = &mut *self.state.borrow_mut();
        match state.exchanges.get_mut(&self.number) {
            Some(exchange) if !exchange.is_gone => {
                if state.connection.has_control_room() {
                    return Poll::Ready(true);
                }
                state.is_head_waiting = true;
                exchange.server = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(false),
        }
    }

    /// How much more of the body may be queued; waits until there is room. `None` when the stream
    /// is over.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<Option<usize>> {
        let state = &mut *self.state.borrow_mut();
        let Some(exchange) = state.exchanges.get_mut(&self.number) else {
            return Poll::Ready(None);
        };
        if exchange.is_gone {
            return Poll::Ready(None);
        }
        let of_all = state.connection.queued_of_all();
        let queued = match exchange.pieces.is_empty() {
            true => 0,
            false => state.connection.queued(self.number),
        };
        let room = if exchange.is_loose {
            let waits = state.is_blocked || !state.connection.has_window(self.number);
            let most = match of_all {
                _ if waits => 0,
                0..LOOSE_BYTES_MAX => STREAM_BYTES_MIN,
                _ => LOOSE_BYTES_MIN,
            };
            most.saturating_sub(queued)
        } else if of_all >= CONNECTION_BYTES_MAX {
            STREAM_BYTES_MIN.saturating_sub(queued)
        } else {
            STREAM_BYTES_MAX.saturating_sub(queued)
        };
        if room > 0 {
            return Poll::Ready(Some(room));
        }
        exchange.server = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Queues a piece of the body. False when the stream is over.
    pub(crate) fn push(&self, piece: Chunk) -> bool {
        let state = &mut *self.state.borrow_mut();
        let Some(exchange) = state.exchanges.get_mut(&self.number) else { return false };
        let bytes = piece.as_ref().len();
        if exchange.is_gone || !state.connection.queue(self.number, bytes) {
            return false;
        }
        exchange.pieces.push_back(piece);
        state.wake();
        true
    }

    /// Whether the client takes nothing of this now.
    pub(crate) fn is_stalled(&self) -> bool {
        self.state.borrow().is_stalled(self.number)
    }

    /// What the response keeps in memory while it waits was counted.
    pub(crate) fn counted(&self) {
        if let Some(exchange) = self.state.borrow_mut().exchanges.get_mut(&self.number) {
            exchange.is_counted = true;
        }
    }

    /// The response may keep nothing in memory from now on. What is queued of it is taken back,
    /// where `can_rewind` says that it can be given again, or copied. Returns how much was taken
    /// back.
    pub(crate) fn loosen(&self, can_rewind: bool) -> usize {
        let state = &mut *self.state.borrow_mut();
        let Some(exchange) = state.exchanges.get_mut(&self.number) else { return 0 };
        state.loose += usize::from(!std::mem::replace(&mut exchange.is_loose, true));
        exchange.is_counted = true;
        if !can_rewind {
            let offset = std::mem::take(&mut exchange.offset);
            for (at, piece) in exchange.pieces.iter_mut().enumerate() {
                *piece = piece.copied(if at == 0 { offset } else { 0 });
            }
            return 0;
        }
        exchange.pieces.clear();
        exchange.offset = 0;
        state.connection.unqueue(self.number)
    }

    /// A response that has not begun may keep in memory what it is made of.
    pub(crate) fn begin_to_keep(&self) {
        let state = &mut *self.state.borrow_mut();
        state.places += 1;
        if let Some(exchange) = state.exchanges.get_mut(&self.number) {
            state.loose -= usize::from(std::mem::take(&mut exchange.is_loose));
        }
    }

    /// How many of the connection [began to keep](Self::begin_to_keep) what they are made of.
    pub(crate) fn places(&self) -> u64 {
        self.state.borrow().places
    }

    /// Whether the connection has other responses under way.
    pub(crate) fn is_among_others(&self) -> bool {
        self.state.borrow().serving > 1
    }

    /// Waits until another stream has ended since this was asked first; false when its own is over. `ends` is
    /// where this is remembered, and nothing at first.
    pub(crate) fn poll_ended(&self, cx: &Context<'_>, ends: &mut Option<u64>) -> Poll<bool> {
        let state = &mut *self.state.borrow_mut();
        match state.exchanges.get_mut(&self.number) {
            Some(exchange) if !exchange.is_gone => {
                if *ends.get_or_insert(state.ends) != state.ends {
                    return Poll::Ready(true);
                }
                exchange.server = Some(cx.waker().clone());
                state.has_waiting = true;
                Poll::Pending
            }
            _ => Poll::Ready(false),
        }
    }

    /// What is queued is all of the body.
    pub(crate) fn finish(&self, trailers: Option<Fields>) {
        let state = &mut *self.state.borrow_mut();
        state.connection.finish(self.number, trailers);
        state.wake();
    }

    /// Ends the stream.
    pub(crate) fn reset(&self, why: Why) {
        let state = &mut *self.state.borrow_mut();
        state.connection.reset(self.number, why);
        state.break_off(self.number, false);
        state.wake();
    }

    /// Waits until all that was queued had its turn; false when the stream is over before.
    pub(crate) fn poll_drained(&self, cx: &Context<'_>) -> Poll<bool> {
        let state = &mut *self.state.borrow_mut();
        match state.exchanges.get_mut(&self.number) {
            Some(exchange) if !exchange.is_gone => {
                if exchange.pieces.is_empty() {
                    return Poll::Ready(true);
                }
                exchange.server = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(false),
        }
    }

    /// Waits until the stream is over before its time.
    pub(crate) fn poll_gone(&self, cx: &Context<'_>) -> Poll<()> {
        let state = &mut *self.state.borrow_mut();
        match state.exchanges.get_mut(&self.number) {
            Some(exchange) if !exchange.is_gone => {
                exchange.server = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Bytes of the body that had their turn; of all the connection's where it waits for others'.
    pub(crate) fn taken_bytes(&self) -> (u64, u64) {
        let state = &*self.state.borrow();
        let own = state.exchanges.get(&self.number).map_or(0, |exchange| exchange.sent_bytes);
        (own, state.sent_bytes)
    }

    /// Whether the client's own window for this stream is what it waits for.
    pub(crate) fn is_held(&self) -> bool {
        let state = &*self.state.borrow();
        state
            .exchanges
            .get(&self.number)
            .is_some_and(|exchange| exchange.is_held(state, self.number))
    }

    /// How far the response is. One that waits for others of its connection comes on with them; one
    /// whose client keeps its window shut does not.
    pub(crate) fn progress(&self) -> Progress {
        let state = &*self.state.borrow();
        let Some(exchange) = state.exchanges.get(&self.number) else { return Progress(0) };
        let is_held = exchange.is_held(state, self.number);
        Progress(if is_held { exchange.sent_bytes } else { state.sent_bytes })
    }

    /// Bytes of the response's body that had their turn.
    pub(crate) fn sent_bytes(&self) -> u64 {
        let state = self.state.borrow();
        state.exchanges.get(&self.number).map_or(0, |exchange| exchange.sent_bytes)
    }

    /// Bytes of the response's body that are queued and had no turn.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.state.borrow().connection.queued(self.number) as u64
    }

    /// Bytes of the request's body that came.
    pub(crate) fn received_bytes(&self) -> u64 {
        let state = self.state.borrow();
        state.exchanges.get(&self.number).map_or(0, |exchange| exchange.upload.received_bytes)
    }
}

impl<C: Multiplexed> Drop for StreamHandle<C> {
    fn drop(&mut self) {
        let state = &mut *self.state.borrow_mut();
        if let Some(exchange) = state.exchanges.get_mut(&self.number) {
            exchange.is_served = false;
            state.loose -= usize::from(std::mem::take(&mut exchange.is_loose));
            exchange.pieces.clear();
        }
        state.connection.abandon(self.number);
        state.forget(self.number);
        state.serving -= 1;
        state.has_emptied |= state.serving == 0;
        state.note_ended();
        state.wake();
    }
}
