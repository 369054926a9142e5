//! What a connection's task and the tasks of its streams share. Borrowed within a poll, never
//! across one.

use crate::delivery::Chunk;
use crate::ledger::requests::ConnectionMemory;
use bytes::Bytes;
use freshet_http::fields::Fields;
use freshet_http::message::ResponseHead;
use freshet_wire::h2::{Code, Connection};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Bytes of a response's body that may wait for their turn.
const STREAM_BYTES_MAX: usize = 256 << 10;
/// The same of all streams of a connection. Each may have a little even so, for only who has
/// something gets a turn.
const CONNECTION_BYTES_MAX: usize = 1 << 20;
/// That little.
const STREAM_BYTES_MIN: usize = 16 << 10;
/// Bytes of requests' bodies that a connection may always have waiting.
const WAITING_BYTES_FREE: usize = 16 << 10;
/// Bytes of a request's body up to which what comes is put behind what waits: a full frame stays
/// alone.
const PIECE_BYTES_MAX: usize = 16 << 10;

/// Bytes of a connection's bodies up to which a stream that keeps nothing in memory gets a whole
/// piece of it copied.
const LOOSE_BYTES_MAX: usize = 64 << 10;
/// What it gets copied beyond.
const LOOSE_BYTES_MIN: usize = 2 << 10;

/// A connection, to those who serve its streams.
pub(super) struct State {
    pub(super) connection: Connection,
    /// What it uses of the memory.
    pub(super) memory: Rc<ConnectionMemory>,
    /// Bytes of requests' bodies that nobody took yet.
    waiting_bytes: usize,
    exchanges: BTreeMap<u32, Exchange>,
    /// Bytes of bodies that wait for their turn.
    queued_bytes: usize,
    /// Bytes of bodies that had it.
    sent_bytes: u64,
    /// Whether a head waits for the client to read what is said to it.
    is_head_waiting: bool,
    /// The task that reads and writes, while it waits.
    task: Option<Waker>,
    /// Streams that are being served.
    serving: usize,
    /// Whether the last of them ended since somebody asked.
    has_emptied: bool,
    /// Whether the client does not take what was planned for it.
    is_blocked: bool,
    /// Streams that may keep nothing in memory.
    loose: usize,
}

/// One request and its response.
#[derive(Default)]
struct Exchange {
    /// What is queued of the response's body.
    pieces: VecDeque<Chunk>,
    /// Bytes of the first piece that had their turn.
    offset: usize,
    queued_bytes: usize,
    sent_bytes: u64,
    /// Who serves it, while that waits.
    server: Option<Waker>,
    is_served: bool,
    is_gone: bool,
    /// Whether what it keeps in memory while it waits was counted.
    is_counted: bool,
    /// Whether it may keep nothing there.
    is_loose: bool,
    /// Whether the final head was sent.
    is_answered: bool,
    upload: Upload,
}

/// A request's body on its way to who takes it.
#[derive(Default)]
struct Upload {
    /// What came and was not taken: small frames together, so that a byte that waits costs about a
    /// byte.
    pieces: VecDeque<Vec<u8>>,
    received_bytes: u64,
    /// Whether the client waits to be told to send it (RFC 9110 §10.1.1).
    is_expected: bool,
    /// Whether it was asked for.
    was_asked: bool,
    state: UploadState,
    taker: Option<Waker>,
    is_taken: bool,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum UploadState {
    #[default]
    Open,
    Ended,
    Broken,
}

impl Exchange {
    /// Whether the client's own window for it is what it waits for. Nothing of one that keeps nothing
    /// in memory is queued while it waits.
    fn is_held(&self, state: &State, number: u32) -> bool {
        match self.queued_bytes {
            0 => self.is_loose && state.connection.is_shut(number),
            _ => state.connection.is_held(number),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.server.take() {
            waker.wake();
        }
    }
}

impl Upload {
    fn add(&mut self, bytes: &[u8]) {
        self.received_bytes += bytes.len() as u64;
        match self.pieces.back_mut() {
            Some(last) if last.len() + bytes.len() <= PIECE_BYTES_MAX => {
                last.extend_from_slice(bytes);
            }
            _ => self.pieces.push_back(bytes.to_vec()),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.taker.take() {
            waker.wake();
        }
    }

    fn end(&mut self, state: UploadState) {
        if self.state == UploadState::Open {
            self.state = state;
        }
        self.wake();
    }
}

impl State {
    pub(super) fn new(connection: Connection, memory: Rc<ConnectionMemory>) -> Self {
        Self {
            connection,
            memory,
            waiting_bytes: 0,
            exchanges: BTreeMap::new(),
            queued_bytes: 0,
            sent_bytes: 0,
            is_head_waiting: false,
            task: None,
            serving: 0,
            has_emptied: false,
            is_blocked: false,
            loose: 0,
        }
    }

    /// A stream begins; with a body unless it `ends` at once.
    pub(super) fn begin(&mut self, number: u32, ends: bool) {
        let mut exchange = Exchange { is_served: true, ..Exchange::default() };
        exchange.upload.is_taken = !ends;
        self.exchanges.insert(number, exchange);
        self.serving += 1;
    }

    /// Bytes of a request's body came.
    pub(super) fn receive(&mut self, number: u32, bytes: &[u8], ends: bool) {
        let Some(exchange) = self.exchanges.get_mut(&number) else { return };
        if !bytes.is_empty() {
            exchange.upload.add(bytes);
            self.waiting_bytes += bytes.len();
            self.memory.add(bytes.len());
        }
        if ends {
            exchange.upload.end(UploadState::Ended);
        }
        exchange.upload.wake();
    }

    /// Whether more may be read: not while nobody takes what came of bodies and all connections
    /// together hold what they may.
    pub(super) fn wants_input(&self) -> bool {
        self.connection.wants_input()
            && (self.waiting_bytes < WAITING_BYTES_FREE || !self.memory.is_full())
    }

    /// A stream is over before its time. Whoever serves it is told, unless it shall find out by the
    /// `body_only`.
    pub(super) fn break_off(&mut self, number: u32, body_only: bool) {
        let Some(exchange) = self.exchanges.get_mut(&number) else { return };
        exchange.upload.end(UploadState::Broken);
        if !body_only || !exchange.upload.is_taken {
            exchange.is_gone = true;
        }
        self.queued_bytes -= std::mem::take(&mut exchange.queued_bytes);
        exchange.pieces.clear();
        exchange.offset = 0;
        exchange.wake();
    }

    /// The connection is over.
    pub(super) fn break_all(&mut self) {
        let numbers: Vec<u32> = self.exchanges.keys().copied().collect();
        for number in numbers {
            self.break_off(number, false);
        }
    }

    /// Takes what the connection has to say.
    pub(super) fn take_control(&mut self) -> Vec<u8> {
        if std::mem::take(&mut self.is_head_waiting) {
            self.exchanges.values_mut().for_each(Exchange::wake);
        }
        std::mem::take(self.connection.control())
    }

    /// Takes `bytes` of a stream out of its queue.
    pub(super) fn take_pieces(&mut self, number: u32, bytes: usize, mut each: impl FnMut(Chunk)) {
        let Some(exchange) = self.exchanges.get_mut(&number) else { return };
        let mut left = bytes;
        while left > 0
            && let Some(first) = exchange.pieces.front()
        {
            let len = first.as_ref().len();
            let end = len.min(exchange.offset + left);
            left -= end - exchange.offset;
            each(first.slice(exchange.offset..end));
            exchange.offset = end;
            if end == len {
                exchange.pieces.pop_front();
                exchange.offset = 0;
            }
        }
        exchange.queued_bytes -= bytes;
        exchange.sent_bytes += bytes as u64;
        self.queued_bytes -= bytes;
        self.sent_bytes += bytes as u64;
        if exchange.queued_bytes <= STREAM_BYTES_MAX / 2 {
            exchange.wake();
        }
    }

    /// Whether the client takes what was planned for it. Those who serve streams that wait are told
    /// where that concerns them.
    pub(super) fn set_blocked(&mut self, is_blocked: bool) {
        if self.is_blocked == is_blocked {
            return;
        }
        self.is_blocked = is_blocked;
        if is_blocked {
            let uncounted = self.exchanges.values_mut().filter(|exchange| !exchange.is_counted);
            uncounted.for_each(Exchange::wake);
        } else {
            self.wake_loose();
        }
    }

    /// Nothing that is queued may be sent, as the client's windows are shut. Those whose responses
    /// were not counted yet are told.
    pub(super) fn note_shut(&mut self) {
        if self.queued_bytes > 0 {
            let uncounted = self.exchanges.values_mut();
            uncounted
                .filter(|exchange| exchange.queued_bytes > 0 && !exchange.is_counted)
                .for_each(Exchange::wake);
        }
    }

    /// The client may take something again: who keeps nothing in memory looks whether it does.
    pub(super) fn wake_loose(&mut self) {
        if self.loose > 0 {
            self.exchanges
                .values_mut()
                .filter(|exchange| exchange.is_loose)
                .for_each(Exchange::wake);
        }
    }

    /// Whether the client takes nothing of a stream's body now.
    fn is_stalled(&self, number: u32) -> bool {
        self.is_blocked || !self.connection.has_window(number)
    }

    /// The connection's task waits.
    pub(super) fn wait(&mut self, cx: &Context<'_>) {
        match &mut self.task {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.task = Some(cx.waker().clone()),
        }
    }

    /// Streams that are being served.
    pub(super) fn serving(&self) -> usize {
        self.serving
    }

    /// Whether the last stream ended since this was asked.
    pub(super) fn take_emptied(&mut self) -> bool {
        std::mem::take(&mut self.has_emptied)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.task.take() {
            waker.wake();
        }
    }

    /// Forgets an exchange nobody has a hand on.
    fn forget(&mut self, number: u32) {
        let is_over = |exchange: &Exchange| !exchange.is_served && !exchange.upload.is_taken;
        if self.exchanges.get(&number).is_some_and(is_over) {
            self.exchanges.remove(&number);
        }
    }
}

/// One stream's side, to who serves it. Dropped before the response's end it resets the stream.
pub(super) struct StreamHandle {
    state: Rc<RefCell<State>>,
    number: u32,
}

/// Whether a response comes on, for its time limit.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) struct Progress(u64);

impl StreamHandle {
    /// The stream of this number, which has [begun](State::begin).
    pub(super) fn new(state: &Rc<RefCell<State>>, number: u32) -> Self {
        Self { state: Rc::clone(state), number }
    }

    /// The request's body.
    pub(super) fn body(&self) -> BodyHandle {
        BodyHandle { state: Rc::clone(&self.state), number: self.number }
    }

    /// Sends a head; see [`Connection::respond`].
    pub(super) fn respond(
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
    pub(super) fn expect_continue(&self) {
        if let Some(exchange) = self.state.borrow_mut().exchanges.get_mut(&self.number) {
            exchange.upload.is_expected = true;
        }
    }

    /// Waits until the request's body is over, where nobody takes it.
    pub(super) fn poll_unwanted_body(&self, cx: &Context<'_>) -> Poll<()> {
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
    pub(super) fn poll_head_room(&self, cx: &Context<'_>) -> Poll<bool> {
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
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<Option<usize>> {
        let state = &mut *self.state.borrow_mut();
        let Some(exchange) = state.exchanges.get_mut(&self.number) else {
            return Poll::Ready(None);
        };
        if exchange.is_gone {
            return Poll::Ready(None);
        }
        let room = if exchange.is_loose {
            let waits = state.is_blocked || !state.connection.has_window(self.number);
            let most = match state.queued_bytes {
                _ if waits => 0,
                0..LOOSE_BYTES_MAX => STREAM_BYTES_MIN,
                _ => LOOSE_BYTES_MIN,
            };
            most.saturating_sub(exchange.queued_bytes)
        } else if state.queued_bytes >= CONNECTION_BYTES_MAX {
            STREAM_BYTES_MIN.saturating_sub(exchange.queued_bytes)
        } else {
            STREAM_BYTES_MAX.saturating_sub(exchange.queued_bytes)
        };
        if room > 0 {
            return Poll::Ready(Some(room));
        }
        exchange.server = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Queues a piece of the body. False when the stream is over.
    pub(super) fn push(&self, piece: Chunk) -> bool {
        let state = &mut *self.state.borrow_mut();
        let Some(exchange) = state.exchanges.get_mut(&self.number) else { return false };
        let bytes = piece.as_ref().len();
        if exchange.is_gone || !state.connection.queue(self.number, bytes) {
            return false;
        }
        exchange.pieces.push_back(piece);
        exchange.queued_bytes += bytes;
        state.queued_bytes += bytes;
        state.wake();
        true
    }

    /// Whether the client takes nothing of this now.
    pub(super) fn is_stalled(&self) -> bool {
        self.state.borrow().is_stalled(self.number)
    }

    /// What the response keeps in memory while it waits was counted.
    pub(super) fn counted(&self) {
        if let Some(exchange) = self.state.borrow_mut().exchanges.get_mut(&self.number) {
            exchange.is_counted = true;
        }
    }

    /// The response may keep nothing in memory from now on. What is queued of it is taken back,
    /// where `can_rewind` says that it can be given again, or copied. Returns how much was taken
    /// back.
    pub(super) fn loosen(&self, can_rewind: bool) -> usize {
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
        state.connection.unqueue(self.number);
        exchange.pieces.clear();
        exchange.offset = 0;
        let bytes = std::mem::take(&mut exchange.queued_bytes);
        state.queued_bytes -= bytes;
        bytes
    }

    /// What is queued is all of the body.
    pub(super) fn finish(&self, trailers: Option<Fields>) {
        let state = &mut *self.state.borrow_mut();
        state.connection.finish(self.number, trailers);
        state.wake();
    }

    /// Ends the stream.
    pub(super) fn reset(&self, code: Code) {
        let state = &mut *self.state.borrow_mut();
        state.connection.reset(self.number, code);
        state.break_off(self.number, false);
        state.wake();
    }

    /// Waits until all that was queued had its turn; false when the stream is over before.
    pub(super) fn poll_drained(&self, cx: &Context<'_>) -> Poll<bool> {
        let state = &mut *self.state.borrow_mut();
        match state.exchanges.get_mut(&self.number) {
            Some(exchange) if !exchange.is_gone => {
                if exchange.queued_bytes == 0 {
                    return Poll::Ready(true);
                }
                exchange.server = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(false),
        }
    }

    /// Waits until the stream is over before its time.
    pub(super) fn poll_gone(&self, cx: &Context<'_>) -> Poll<()> {
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
    pub(super) fn taken_bytes(&self) -> (u64, u64) {
        let state = &*self.state.borrow();
        let own = state.exchanges.get(&self.number).map_or(0, |exchange| exchange.sent_bytes);
        (own, state.sent_bytes)
    }

    /// Whether the client's own window for this stream is what it waits for.
    pub(super) fn is_held(&self) -> bool {
        let state = &*self.state.borrow();
        state
            .exchanges
            .get(&self.number)
            .is_some_and(|exchange| exchange.is_held(state, self.number))
    }

    /// How far the response is. One that waits for others of its connection comes on with them; one
    /// whose client keeps its window shut does not.
    pub(super) fn progress(&self) -> Progress {
        let state = &*self.state.borrow();
        let Some(exchange) = state.exchanges.get(&self.number) else { return Progress(0) };
        let is_held = exchange.is_held(state, self.number);
        Progress(if is_held { exchange.sent_bytes } else { state.sent_bytes })
    }

    /// Bytes of the response's body that had their turn.
    pub(super) fn sent_bytes(&self) -> u64 {
        let state = self.state.borrow();
        state.exchanges.get(&self.number).map_or(0, |exchange| exchange.sent_bytes)
    }

    /// Bytes of the request's body that came.
    pub(super) fn received_bytes(&self) -> u64 {
        let state = self.state.borrow();
        state.exchanges.get(&self.number).map_or(0, |exchange| exchange.upload.received_bytes)
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        let state = &mut *self.state.borrow_mut();
        if let Some(exchange) = state.exchanges.get_mut(&self.number) {
            exchange.is_served = false;
            state.loose -= usize::from(std::mem::take(&mut exchange.is_loose));
            state.queued_bytes -= std::mem::take(&mut exchange.queued_bytes);
            exchange.pieces.clear();
        }
        state.connection.abandon(self.number, Code::InternalError);
        state.forget(self.number);
        state.serving -= 1;
        state.has_emptied |= state.serving == 0;
        state.wake();
    }
}

/// The request's body of one stream, to who takes it. Dropped before its end it tells the client
/// that no more is needed.
pub(super) struct BodyHandle {
    state: Rc<RefCell<State>>,
    number: u32,
}

impl BodyHandle {
    /// The next bytes; `None` at the end, an error when there is none. Opens the client's window.
    pub(super) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
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
            state.connection.take_body(self.number, piece.len() as u32);
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
pub(super) struct Broken;

impl Drop for BodyHandle {
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
