//! What a connection's task and the tasks of its streams share. Borrowed within a poll, never
//! across one.

mod handle;
mod upload;

pub(super) use handle::{Progress, StreamHandle};
pub(super) use upload::BodyHandle;

use crate::delivery::Chunk;
use crate::ledger::requests::ConnectionMemory;
use freshet_wire::h2::{Connection, DataFrame};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Waker};
use upload::{Upload, UploadState};

/// Bytes of a response's body that may wait for their turn.
const STREAM_BYTES_MAX: usize = 256 << 10;
/// Bytes of requests' bodies that a connection may always have waiting.
const WAITING_BYTES_FREE: usize = 16 << 10;

/// A connection, to those who serve its streams.
pub(super) struct State {
    pub(super) connection: Connection,
    /// What it uses of the memory.
    pub(super) memory: Rc<ConnectionMemory>,
    /// Bytes of requests' bodies that nobody took yet.
    waiting_bytes: usize,
    exchanges: BTreeMap<u32, Exchange>,
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

impl Exchange {
    /// Whether the client's own window for it is what it waits for. Nothing of one that keeps nothing
    /// in memory is queued while it waits.
    fn is_held(&self, state: &State, number: u32) -> bool {
        state.connection.is_shut(number) && (self.is_loose || !self.pieces.is_empty())
    }

    fn wake(&mut self) {
        if let Some(waker) = self.server.take() {
            waker.wake();
        }
    }
}

impl State {
    pub(super) fn new(connection: Connection, memory: Rc<ConnectionMemory>) -> Self {
        Self {
            connection,
            memory,
            waiting_bytes: 0,
            exchanges: BTreeMap::new(),
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

    /// Takes what goes with a frame out of its stream's queue.
    pub(super) fn take_pieces(&mut self, frame: DataFrame, mut each: impl FnMut(Chunk)) {
        let Some(exchange) = self.exchanges.get_mut(&frame.stream) else { return };
        let mut left = frame.bytes;
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
        debug_assert_eq!(left, 0, "a stream has the bytes it was said to have");
        exchange.sent_bytes += frame.bytes as u64;
        self.sent_bytes += frame.bytes as u64;
        if frame.left <= STREAM_BYTES_MAX / 2 {
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
        if self.connection.queued_of_all() > 0 {
            let uncounted = self.exchanges.values_mut();
            uncounted
                .filter(|exchange| !exchange.pieces.is_empty() && !exchange.is_counted)
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
