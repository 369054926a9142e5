//! What a connection's driver and those who have exchanges on it share.

use super::stream::Stream;
use super::{CONNECTION_WINDOW_BYTES, ENDING_STREAMS_MAX, STREAM_WINDOW_BYTES, STREAMS_MAX};
use crate::definition::Origin;
use crate::error::OriginError;
use crate::exchange::INTERIM_MAX;
use crate::stats::Held;
use bytes::Bytes;
use freshet_http::fields::Fields;
use freshet_http::message::ResponseHead;
use freshet_net::address::PeerAddress;
use freshet_net::stream::Stream as Socket;
use freshet_wire::h2::{
    Answer, AnswerError, Ask, Code, Connection, Event, Failed, Local, conduct, limits,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use tokio::sync::Notify;
use tokio::time::Instant;

/// One connection. Cheap to clone; a clone is the same.
#[derive(Clone)]
pub(crate) struct Session(pub(super) Rc<Shared>);

pub(super) struct Shared {
    pub(super) origin: Arc<Origin>,
    /// The origin's end.
    pub(super) remote: Option<PeerAddress>,
    /// Our end.
    pub(super) local: Option<SocketAddr>,
    /// Rung when there may be room for another exchange, here or on a connection in its place.
    room: Rc<Notify>,
    pub(super) state: RefCell<State>,
}

pub(super) struct State {
    pub(super) wire: Connection,
    pub(super) inboxes: BTreeMap<u32, Inbox>,
    /// Wakes the driver.
    pub(super) driver: Option<Waker>,
    /// Why the connection is over.
    pub(super) over: Option<OriginError>,
    /// No more exchanges come here.
    pub(super) is_retired: bool,
    /// Exchanges begun.
    pub(super) uses: u64,
    /// When the last exchange ended, or the connection began.
    pub(super) idle_since: Instant,
    idle: Option<Held>,
}

/// What there is of one exchange.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) interim: VecDeque<ResponseHead>,
    interim_count: u32,
    pub(super) answer: Option<Box<Answer>>,
    /// Bytes of the body that came and were not read.
    pub(super) body: VecDeque<u8>,
    pub(super) trailers: Option<Fields>,
    /// Whether all of the response came.
    pub(super) is_ended: bool,
    /// Why the stream was over before.
    pub(super) ending: Option<Ending>,
    /// Pieces of the request's body that were not sent, and their bytes.
    pub(super) upload: VecDeque<Bytes>,
    pub(super) upload_bytes: usize,
    /// Whether some of it was sent since this was asked last.
    pub(super) has_progressed: bool,
    pub(super) waker: Option<Waker>,
}

/// How a stream came to its end before its response did.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    /// The origin did not look at it.
    Unseen(&'static str),
    /// The origin reset it.
    Reset(u32),
    /// We did, for what the origin did.
    Refused(&'static str),
    /// The fields of the response are refused.
    Wrong(AnswerError),
    /// More interim responses than are taken.
    InterimFlood,
    /// The connection is over.
    Over(OriginError),
}

impl Session {
    /// A connection over `socket`, of which nothing was sent.
    pub(crate) fn new(origin: &Arc<Origin>, socket: &Socket, room: &Rc<Notify>) -> Self {
        let local = Local {
            limits: origin.settings.limits,
            conduct: conduct::RFC_9113,
            streams_max: STREAMS_MAX,
            stream_window_bytes: STREAM_WINDOW_BYTES,
            connection_window_bytes: CONNECTION_WINDOW_BYTES,
            header_table_bytes: limits::HEADER_TABLE_BYTES as u32,
        };
        let state = State {
            wire: Connection::client(local, origin.scheme()),
            inboxes: BTreeMap::new(),
            driver: None,
            over: None,
            is_retired: false,
            uses: 0,
            idle_since: Instant::now(),
            idle: None,
        };
        Self(Rc::new(Shared {
            origin: Arc::clone(origin),
            remote: socket.peer_address(),
            local: socket.local_address(),
            room: Rc::clone(room),
            state: RefCell::new(state),
        }))
    }

    /// Begins an exchange, where there is room for it.
    pub(crate) fn ask(&self, ask: Ask<'_>) -> Option<Stream> {
        let state = &mut *self.0.state.borrow_mut();
        if !state.is_usable() || state.inboxes.len() >= STREAMS_MAX as usize {
            return None;
        }
        let number = state.wire.ask(ask)?;
        state.inboxes.insert(number, Inbox::default());
        state.idle = None;
        let is_reused = state.uses > 0;
        state.uses += 1;
        state.wake_driver();
        Some(Stream::new(self.clone(), number, is_reused))
    }

    /// Whether exchanges can begin here, now or when others have ended.
    pub(crate) fn is_usable(&self) -> bool {
        self.0.state.borrow().is_usable()
    }

    /// Whether the origin has not said yet how many exchanges it takes at a time.
    pub(crate) fn is_new(&self) -> bool {
        let state = self.0.state.borrow();
        state.is_usable() && !state.wire.is_established()
    }

    /// Whether it has no exchanges.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.state.borrow().inboxes.is_empty()
    }

    /// Takes no more exchanges; ends with the last.
    pub(crate) fn retire(&self) {
        let state = &mut *self.0.state.borrow_mut();
        state.is_retired = true;
        state.wake_driver();
    }

    /// Ends an exchange. Its stream is reset unless it is over, or `ends_itself`: then all that is
    /// missing is the word that nothing follows.
    pub(super) fn close(&self, number: u32, ends_itself: bool) {
        let state = &mut *self.0.state.borrow_mut();
        state.inboxes.remove(&number);
        let ending_streams = state.wire.streams().saturating_sub(state.inboxes.len());
        if !ends_itself || ending_streams > ENDING_STREAMS_MAX {
            state.wire.reset(number, Code::Cancel);
        }
        if state.inboxes.is_empty() {
            state.idle_since = Instant::now();
            if state.over.is_none() {
                state.idle = Some(Held::new(&self.0.origin, |stats| &stats.idle));
            }
        }
        state.wake_driver();
        self.0.room.notify_one();
    }

    /// Handles the frames at the front of `input` and returns how many bytes they have. `since` is
    /// when the connection began.
    pub(super) fn receive(&self, input: &[u8], since: Instant) -> Result<usize, Failed> {
        let state = &mut *self.0.state.borrow_mut();
        let now = since.elapsed();
        let was_new = !state.wire.is_established();
        let mut used = 0;
        while state.wire.wants_input() {
            let rest = input.get(used..).unwrap_or_default();
            let Some(received) = state.wire.receive(rest, now)? else { break };
            state.handle(received.event, rest);
            used += received.bytes;
        }
        if was_new && state.wire.is_established() {
            self.0.room.notify_waiters();
        }
        // The origin may take more exchanges than before.
        self.0.room.notify_one();
        Ok(used)
    }

    /// The connection is over: all exchanges hear of it.
    pub(super) fn end(&self, error: OriginError) {
        let state = &mut *self.0.state.borrow_mut();
        if state.over.is_some() {
            return;
        }
        for inbox in state.inboxes.values_mut() {
            inbox.end(Ending::Over(error.clone()));
        }
        state.idle = None;
        state.over = Some(error);
        // Whoever waits for room opens a connection of its own.
        self.0.room.notify_waiters();
    }
}

impl State {
    pub(super) fn is_usable(&self) -> bool {
        self.over.is_none() && !self.is_retired && self.wire.is_usable()
    }

    pub(super) fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// What a frame brought; places are those of `bytes`.
    fn handle(&mut self, event: Event, bytes: &[u8]) {
        match event {
            // The first are what clients say; the others have nothing for an exchange.
            Event::Request(..) | Event::Refused { .. } | Event::Nothing | Event::Opened => {}
            Event::Answer(number, answer) => self.answer(number, answer),
            Event::Wrong(number, wrong) => self.end_one(number, Ending::Wrong(wrong)),
            Event::Data(number, place, ends) => {
                let Some(inbox) = self.inboxes.get_mut(&number) else { return };
                inbox.body.extend(bytes.get(place).unwrap_or_default());
                inbox.is_ended |= ends;
                inbox.wake();
            }
            Event::Trailers(number, trailers) => {
                let Some(inbox) = self.inboxes.get_mut(&number) else { return };
                inbox.trailers = Some(trailers);
                inbox.is_ended = true;
                inbox.wake();
            }
            Event::End(number) => {
                let Some(inbox) = self.inboxes.get_mut(&number) else { return };
                inbox.is_ended = true;
                inbox.wake();
            }
            Event::Reset { stream, by_peer } => {
                let ending = match by_peer {
                    Some(code) if code == Code::RefusedStream as u32 => {
                        Ending::Unseen("it refused the stream")
                    }
                    Some(code) => Ending::Reset(code),
                    None => Ending::Refused("what it sent of a response is none"),
                };
                self.end_one(stream, ending);
            }
            Event::Leaving(last) => {
                for inbox in self.inboxes.range_mut(last.saturating_add(1)..).map(|(_, one)| one) {
                    inbox.end(Ending::Unseen("it was leaving (GOAWAY)"));
                }
            }
        }
    }

    fn answer(&mut self, number: u32, answer: Box<Answer>) {
        let Some(inbox) = self.inboxes.get_mut(&number) else { return };
        if answer.head.status >= 200 {
            inbox.is_ended = answer.ends;
            inbox.answer = Some(answer);
        } else if inbox.interim_count < INTERIM_MAX {
            inbox.interim_count += 1;
            inbox.interim.push_back(answer.head);
        } else {
            self.wire.reset(number, Code::EnhanceYourCalm);
            return self.end_one(number, Ending::InterimFlood);
        }
        inbox.wake();
    }

    fn end_one(&mut self, number: u32, ending: Ending) {
        if let Some(inbox) = self.inboxes.get_mut(&number) {
            inbox.end(ending);
        }
    }
}

impl Inbox {
    /// The stream is over. What came whole before stays.
    fn end(&mut self, ending: Ending) {
        if !self.is_ended && self.ending.is_none() {
            self.ending = Some(ending);
        }
        self.upload.clear();
        self.upload_bytes = 0;
        self.wake();
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
