//! Connections with many requests at a time, whatever their protocol: what a connection's task and
//! the tasks of its streams share, and how one of these is served. Borrowed within a poll, never
//! across one.

mod arriving;
mod handle;
pub(super) mod serve;
mod stream_body;

pub(super) use arriving::BodyHandle;
pub(super) use handle::{Progress, StreamHandle};

use arriving::{Upload, UploadState};
use freshet_access::ledger::requests::{Charge, ConnectionMemory, HEAD_FACTOR, REQUEST_BYTES};
use freshet_http::fields::Fields;
use freshet_http::message::ResponseHead;
use freshet_site::pieces::Chunk;
use freshet_wire::h2::Request;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Waker};

/// Bytes of a response's body that may wait for their turn.
const STREAM_BYTES_MAX: usize = 256 << 10;
/// Bytes of requests' bodies that a connection may always have waiting.
const WAITING_BYTES_FREE: usize = 16 << 10;

/// Why a stream is ended before its response is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Why {
    /// There is no more of the response.
    Failed,
    /// Its client takes too long for it.
    TooSlow,
}

/// What a protocol with streams brings. Streams go by their numbers; one that is over is none.
pub(super) trait Multiplexed: 'static {
    /// Bytes in front of the fields of a head.
    const HEAD_FRAME_BYTES: usize;

    /// Sends the head of a response, with `length` as its `content-length`; `ends` says that no body
    /// follows. An interim response (1xx) may come before it. Returns the bytes of the compressed
    /// fields; `None` when the stream is over.
    fn respond(
        &mut self,
        stream: u64,
        head: &ResponseHead,
        length: Option<u64>,
        ends: bool,
    ) -> Option<usize>;

    /// A stream is a step more urgent than its client asked for (RFC 9218 §4.1).
    fn hasten(&mut self, stream: u64);

    /// Whether the client reads what is said to it, so that another head may be added.
    fn has_control_room(&self) -> bool;

    /// `bytes` more of a response's body are there. False when the stream is over.
    fn queue(&mut self, stream: u64, bytes: usize) -> bool;

    /// Takes back what is queued and was not sent, which comes again later; says how much.
    fn unqueue(&mut self, stream: u64) -> usize;

    /// What is queued is all of the body, and `trailers` are behind it.
    fn finish(&mut self, stream: u64, trailers: Option<Fields>);

    /// Ends a stream that is not done.
    fn reset(&mut self, stream: u64, why: Why);

    /// The same for a failure of ours, unless the whole response was sent.
    fn abandon(&mut self, stream: u64);

    /// Bytes of a response's body that are there and not sent.
    fn queued(&self, stream: u64) -> usize;

    /// The same of all streams.
    fn queued_of_all(&self) -> usize;

    /// Whether a stream's own window has no room.
    fn is_shut(&self, stream: u64) -> bool;

    /// Whether the client lets anything of a stream's body come.
    fn has_window(&self, stream: u64) -> bool;

    /// Bytes of a request's body are not needed any more: the client may send as many others.
    fn take_body(&mut self, stream: u64, bytes: usize);

    /// Nobody takes what is left of a request's body.
    fn refuse_body(&mut self, stream: u64);
}

/// Bytes of a response's body whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Whose.
    pub(super) stream: u64,
    /// How many.
    pub(super) bytes: usize,
    /// How many of that stream are there and follow.
    pub(super) left: usize,
}

/// A connection, to those who serve its streams.
pub(super) struct State<C> {
    pub(super) connection: C,
    /// What it uses of the memory.
    pub(super) memory: Rc<ConnectionMemory>,
    /// Bytes of requests' bodies that nobody took yet.
    waiting_bytes: usize,
    /// Apart from the map, whose nodes have room for eleven and stay.
    exchanges: BTreeMap<u64, Box<Exchange>>,
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
    /// How often one began to keep what it could not go on without.
    places: u64,
    /// Streams that have ended.
    ends: u64,
    /// Whether one waits until another ends.
    has_waiting: bool,
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
    fn is_held<C: Multiplexed>(&self, state: &State<C>, number: u64) -> bool {
        state.connection.is_shut(number) && (self.is_loose || !self.pieces.is_empty())
    }

    fn wake(&mut self) {
        if let Some(waker) = self.server.take() {
            waker.wake();
        }
    }
}

/// Takes a request on, where there is memory for it: its stream, and what it is charged with while it is served.
pub(super) fn take_on<C: Multiplexed>(
    shared: &Rc<RefCell<State<C>>>,
    state: &mut State<C>,
    number: u64,
    request: &Request,
) -> Option<(StreamHandle<C>, Rc<Charge>)> {
    let charge = state.memory.request(REQUEST_BYTES + HEAD_FACTOR * request.list_bytes)?;
    state.begin(number, request.ends);
    Some((StreamHandle::new(shared, number), charge))
}

impl<C: Multiplexed> State<C> {
    pub(super) fn new(connection: C, memory: Rc<ConnectionMemory>) -> Self {
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
            places: 0,
            ends: 0,
            has_waiting: false,
        }
    }

    /// A stream begins; with a body unless it `ends` at once.
    fn begin(&mut self, number: u64, ends: bool) {
        let mut exchange = Exchange { is_served: true, ..Exchange::default() };
        exchange.upload.is_taken = !ends;
        self.exchanges.insert(number, Box::new(exchange));
        self.serving += 1;
    }

    /// Bytes of a request's body came.
    pub(super) fn receive(&mut self, number: u64, bytes: &[u8], ends: bool) {
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

    /// Whether more of bodies may be read: not while nobody takes what came of bodies and all connections
    /// together hold what they may.
    pub(super) fn wants_bodies(&self) -> bool {
        self.waiting_bytes < WAITING_BYTES_FREE || !self.memory.is_full()
    }

    /// A stream is over before its time. Whoever serves it is told, unless it shall find out by the
    /// `body_only`.
    pub(super) fn break_off(&mut self, number: u64, body_only: bool) {
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
        let numbers: Vec<u64> = self.exchanges.keys().copied().collect();
        for number in numbers {
            self.break_off(number, false);
        }
    }

    /// There is room for heads again.
    pub(super) fn wake_heads(&mut self) {
        if std::mem::take(&mut self.is_head_waiting) {
            self.exchanges.values_mut().for_each(|exchange| exchange.wake());
        }
    }

    /// Takes what has its turn out of its stream's queue.
    pub(super) fn take_pieces(&mut self, frame: Turn, mut each: impl FnMut(Chunk)) {
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
            uncounted.for_each(|exchange| exchange.wake());
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
                .for_each(|exchange| exchange.wake());
        }
    }

    /// The client may take something again: who keeps nothing in memory looks whether it does.
    pub(super) fn wake_loose(&mut self) {
        if self.loose > 0 {
            self.exchanges
                .values_mut()
                .filter(|exchange| exchange.is_loose)
                .for_each(|exchange| exchange.wake());
        }
    }

    /// A stream has ended: what it held may be another's now.
    fn note_ended(&mut self) {
        self.ends += 1;
        if std::mem::take(&mut self.has_waiting) {
            self.exchanges.values_mut().for_each(|exchange| exchange.wake());
        }
    }

    /// Whether the client takes nothing of a stream's body now.
    fn is_stalled(&self, number: u64) -> bool {
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
    fn forget(&mut self, number: u64) {
        let exchange = self.exchanges.get(&number);
        if exchange.is_some_and(|exchange| !exchange.is_served && !exchange.upload.is_taken) {
            self.exchanges.remove(&number);
        }
    }
}
