//! A request's body, from the connection to who takes it.

use super::{Multiplexed, State};
use bytes::Bytes;
use freshet_http::message::ResponseHead;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Bytes of a request's body up to which what comes is put behind what waits: a full frame stays
/// alone.
const PIECE_BYTES_MAX: usize = 16 << 10;

/// A request's body on its way to who takes it.
#[derive(Default)]
pub(super) struct Upload {
    /// What came and was not taken: small frames together, so that a byte that waits costs about a
    /// byte.
    pieces: VecDeque<Vec<u8>>,
    pub(super) received_bytes: u64,
    /// Whether the client waits to be told to send it (RFC 9110 §10.1.1).
    pub(super) is_expected: bool,
    /// Whether it was asked for.
    was_asked: bool,
    pub(super) state: UploadState,
    pub(super) taker: Option<Waker>,
    pub(super) is_taken: bool,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub(super) enum UploadState {
    #[default]
    Open,
    Ended,
    Broken,
}

impl Upload {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.received_bytes += bytes.len() as u64;
        match self.pieces.back_mut() {
            Some(last) if last.len() + bytes.len() <= PIECE_BYTES_MAX => {
                last.extend_from_slice(bytes);
            }
            _ => self.pieces.push_back(bytes.to_vec()),
        }
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.taker.take() {
            waker.wake();
        }
    }

    pub(super) fn end(&mut self, state: UploadState) {
        if self.state == UploadState::Open {
            self.state = state;
        }
        self.wake();
    }
}

/// The request's body of one stream, to who takes it. Dropped before its end it tells the client
/// that no more is needed.
pub(crate) struct BodyHandle<C: Multiplexed> {
    state: Rc<RefCell<State<C>>>,
    number: u64,
}

impl<C: Multiplexed> BodyHandle<C> {
    pub(super) fn new(state: &Rc<RefCell<State<C>>>, number: u64) -> Self {
        Self { state: Rc::clone(state), number }
    }

    /// The next bytes; `None` at the end, an error when there is none. Opens the client's window.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        let state = &mut *self.state.borrow_mut();
        let Some(exchange) = state.exchanges.get_mut(&self.number) else {
            return Poll::Ready(Some(Err(Broken)));
        };
        let upload = &mut exchange.upload;
        if upload.state != UploadState::Broken
            && let Some(piece) = upload.pieces.pop_front()
        {
            state.waiting_bytes -= piece.len();
            state.memory.remove(piece.len());
            state.connection.take_body(self.number, piece.len());
            state.wake();
            return Poll::Ready(Some(Ok(piece.into())));
        }
        let was_asked = std::mem::replace(&mut upload.was_asked, true);
        match upload.state {
            // The head goes to the origin even so, which sees that the rest is missing.
            UploadState::Broken if !was_asked => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            UploadState::Open => {
                upload.taker = Some(cx.waker().clone());
                let waits = std::mem::take(&mut upload.is_expected);
                if waits && upload.received_bytes == 0 && !exchange.is_answered {
                    state.connection.respond(self.number, &ResponseHead::new(100), None, false);
                    state.wake();
                }
                Poll::Pending
            }
            UploadState::Ended => Poll::Ready(None),
            UploadState::Broken => Poll::Ready(Some(Err(Broken))),
        }
    }
}

/// A request's body that the client does not send to its end.
#[derive(Debug)]
pub(crate) struct Broken;

impl<C: Multiplexed> Drop for BodyHandle<C> {
    fn drop(&mut self) {
        let state = &mut *self.state.borrow_mut();
        if let Some(exchange) = state.exchanges.get_mut(&self.number) {
            exchange.upload.is_taken = false;
            let bytes: usize = exchange.upload.pieces.drain(..).map(|piece| piece.len()).sum();
            state.waiting_bytes -= bytes;
            state.memory.remove(bytes);
            state.connection.refuse_body(self.number);
        }
        state.forget(self.number);
        state.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_of_an_upload_costs_about_a_byte_however_it_comes() {
        for (frame_bytes, frames) in [(1, 100_000), (100, 1000), (8193, 100), (16_384, 10)] {
            let mut upload = Upload::default();
            let frame: Vec<u8> = (0..frame_bytes).map(|at| at as u8).collect();
            (0..frames).for_each(|_| upload.add(&frame));
            let cost: usize = upload.pieces.iter().map(|piece| piece.capacity() + 64).sum();
            assert!(cost <= 2 * frame_bytes * frames + 64, "{frame_bytes}: {cost}");
            let whole: Vec<u8> = upload.pieces.into_iter().flatten().collect();
            assert!(whole == frame.repeat(frames));
        }
    }
}
