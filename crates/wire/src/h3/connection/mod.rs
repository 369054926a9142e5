//! The state of a connection: streams in, requests out, and back.

mod receive;
mod send;
mod tables;

pub use send::DataFrame;

use super::limits::TABLE_BYTES_MAX;
use super::limits::{
    FED_BYTES_MAX, HEADS_BYTES_MAX, IDLE_FRAMES_MAX, IDLE_FRAMES_PER_SECOND, KEPT_BYTES_FREE,
    KEPT_HEADS_BYTES_MAX, RESETS_MAX, RESETS_PER_SECOND,
};
use super::one_way::Purpose;
use super::{Code, frame};
use crate::h1;
use crate::head::{Request, Said};
use crate::outgoing::Outgoing;
use freshet_base::debt::Debt;
use freshet_http::priority::Priority;
use freshet_http::scheduler::Scheduler;
use freshet_quic::{self as quic, varint};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tables::Tables;

/// Our side's configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Local {
    /// What heads are held against.
    pub limits: h1::Limits,
    /// Streams whose heads may wait for the client's table.
    pub blocked_streams_max: u64,
}

/// What a client did.
#[derive(Debug, Eq, PartialEq)]
pub enum Event {
    /// A request. It is open until all of its response is sent, or it is [reset](Connection::reset).
    Request(u64, Box<Request>),
    /// What came was not a request, or one over a limit: it was answered.
    Refused {
        /// The stream.
        stream: u64,
        /// The status it was answered with; `None` where it was reset.
        status: Option<u16>,
        /// Bytes of the compressed fields of the answer.
        head_bytes: usize,
        /// What its head said, as far as that was read.
        said: Box<Said>,
    },
    /// Bytes of a request's body. They have to be [taken](Connection::take_body) in the end.
    Data(u64, Vec<u8>),
    /// The body ended; trailers, if there were some, are dropped.
    End(u64),
    /// The stream is over before its time; what is queued for it will not be sent. `by_client` tells
    /// a change of mind from a mistake.
    Reset {
        /// The stream.
        stream: u64,
        /// Whether the client said so.
        by_client: bool,
    },
}

/// A request.
#[derive(Debug)]
struct Stream {
    place: Place,
    /// Bytes that are left of the frame that is read, and whether they are of the body.
    frame_left: u64,
    is_data: bool,
    /// Whether nothing follows.
    is_read: bool,
    /// When its first bytes came.
    begun: Duration,
    /// Bytes of the body that must still come, where its length was told.
    length_left: Option<u64>,
    /// Whether anybody takes the body.
    is_body_wanted: bool,
    /// Bytes of the body that were handed out and not taken yet.
    untaken: u64,
    /// Whether it is served: between the request and the end of its response.
    is_open: bool,
    priority: Priority,
    body: Outgoing,
    is_scheduled: bool,
}

/// What reading a stream came to.
enum Step {
    /// There may be more to read.
    Again,
    /// What is there is not enough, or nothing.
    Wait,
}

/// What comes next of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    Head,
    /// The body, or trailers.
    Body,
    /// Nothing but what we do not know: trailers were there.
    Behind,
}

/// How far we are with telling the client to go (RFC 9114 §5.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Leaving {
    No,
    /// It was told to open no more streams, in what ends at this offset of the control stream.
    Announced(u64),
    /// Streams from this number on are not looked at, which was said in what ends at this offset.
    From(u64, u64),
    /// The same, and the client knows it.
    Known(u64),
}

impl Leaving {
    /// The first stream that is not looked at.
    fn from(self) -> Option<u64> {
        match self {
            Self::No | Self::Announced(_) => None,
            Self::From(stream, _) | Self::Known(stream) => Some(stream),
        }
    }
}

/// The server's side of a connection.
#[derive(Debug)]
pub struct Connection<P> {
    /// Packets and streams. Datagrams go in and out here.
    pub quic: quic::Connection<P>,
    local: Local,
    /// Our control stream, and the end of what was said on it.
    control: Option<u64>,
    said: u64,
    /// Apart from the map, whose nodes have room for eleven and stay.
    streams: BTreeMap<u64, Box<Stream>>,
    one_way: BTreeMap<u64, Purpose>,
    tables: Tables,
    has_settings: bool,
    /// How many pushes the client would take.
    pushes: u64,
    /// The number above the highest request.
    next_stream: u64,
    foretold: BTreeMap<u64, Priority>,
    scheduler: Scheduler<u64>,
    /// Bytes of responses' bodies that are there and were not given to streams, of all.
    queued: usize,
    /// Bytes that streams may keep until they are acknowledged.
    kept_max: u64,
    events: VecDeque<Event>,
    resets: Debt,
    idle_frames: Debt,
    leaving: Leaving,
    /// The push from which on none is taken, once the client said that it will go.
    peer_leaving: Option<u64>,
    has_failed: bool,
    now: Duration,
}

/// The number above all that a stream can have.
const STREAM_END: u64 = varint::VARINT_MAX - 3;

impl<P: AsRef<[u8]> + From<Vec<u8>>> Connection<P> {
    /// HTTP/3 over a connection.
    pub fn new(quic: quic::Connection<P>, local: Local) -> Self {
        Self {
            quic,
            local,
            control: None,
            said: 0,
            streams: BTreeMap::new(),
            one_way: BTreeMap::new(),
            tables: Tables::new(local.blocked_streams_max),
            has_settings: false,
            pushes: 0,
            next_stream: 0,
            foretold: BTreeMap::new(),
            scheduler: Scheduler::default(),
            queued: 0,
            kept_max: KEPT_BYTES_FREE,
            events: VecDeque::new(),
            resets: Debt::new(RESETS_MAX, RESETS_PER_SECOND),
            idle_frames: Debt::new(IDLE_FRAMES_MAX, IDLE_FRAMES_PER_SECOND),
            leaving: Leaving::No,
            peer_leaving: None,
            has_failed: false,
            now: Duration::ZERO,
        }
    }

    /// What happened next, of what datagrams brought.
    pub fn next_event(&mut self, now: Duration) -> Option<Event> {
        self.now = now;
        self.begin();
        self.go_on_leaving();
        while self.events.is_empty() {
            let Some(event) = self.quic.next_event() else {
                if let Err(code) = self.say_of_tables() {
                    self.fail(code);
                }
                return None;
            };
            if let Err(code) = self.stream_event(event) {
                self.fail(code);
                return None;
            }
        }
        self.events.pop_front()
    }

    /// Opens our control stream, as soon as that may be.
    fn begin(&mut self) {
        let has_keys = self.quic.is_established() || self.quic.is_early();
        if self.control.is_some() || !has_keys {
            return;
        }
        // Without the client's leave there is none; such a client cannot speak HTTP/3.
        let Some(control) = self.quic.open() else { return self.fail(Code::GeneralProtocolError) };
        self.control = Some(control);
        // Before all bodies.
        self.quic.prioritize(control, Priority { urgency: 0, incremental: false });
        let mut settings = Vec::new();
        for (key, value) in [
            (frame::setting::FIELD_BYTES_MAX, self.local.limits.head_bytes_max as u64),
            (frame::setting::TABLE_BYTES_MAX, TABLE_BYTES_MAX as u64),
            (frame::setting::BLOCKED_STREAMS_MAX, self.local.blocked_streams_max),
        ] {
            varint::write_varint(key, &mut settings);
            varint::write_varint(value, &mut settings);
        }
        // One that means nothing, so that clients keep to ignoring those (RFC 9114 §7.2.4.1).
        varint::write_varint(0x1f * 7 + 0x21, &mut settings);
        varint::write_varint(0, &mut settings);
        let mut out = vec![0];
        frame::write_head(frame::kind::SETTINGS, settings.len(), &mut out);
        out.extend_from_slice(&settings);
        self.say(out);
    }

    fn say(&mut self, bytes: Vec<u8>) {
        if let Some(control) = self.control {
            self.said += bytes.len() as u64;
            self.quic.write(control, bytes.into());
        }
    }

    /// Tells the client to go when its requests are done: first that no new ones should be sent, and
    /// when it knows, up to which they are served.
    pub fn shut_down(&mut self) {
        if self.leaving == Leaving::No {
            self.begin();
            self.say_goaway(STREAM_END);
            self.leaving = Leaving::Announced(self.said);
        }
    }

    fn go_on_leaving(&mut self) {
        let (Leaving::Announced(end) | Leaving::From(_, end)) = self.leaving else { return };
        let arrived = self.control.and_then(|control| self.quic.arrived(control));
        if arrived.is_none_or(|arrived| arrived < end) {
            return;
        }
        if let Leaving::From(stream, _) = self.leaving {
            self.leaving = Leaving::Known(stream);
        } else {
            self.say_goaway(self.next_stream);
            self.leaving = Leaving::From(self.next_stream, self.said);
        }
    }

    fn say_goaway(&mut self, stream: u64) {
        let mut out = Vec::new();
        frame::write_head(frame::kind::GOAWAY, varint::varint_bytes(stream), &mut out);
        varint::write_varint(stream, &mut out);
        self.say(out);
    }

    /// Ends the connection.
    pub fn fail(&mut self, code: Code) {
        if !self.has_failed {
            self.has_failed = true;
            self.quic.close(code as u64, self.now);
        }
    }

    /// Whether the connection has nothing left to do.
    pub fn is_done(&self) -> bool {
        // A client that hears of the end before it knows which requests were not looked at could not
        // ask them again.
        let is_leaving = self.peer_leaving.is_some() || matches!(self.leaving, Leaving::Known(_));
        self.has_failed || self.quic.closed().is_some() || (is_leaving && self.is_quiet())
    }

    /// Whether no request is open and nothing of a response is on its way.
    pub fn is_quiet(&self) -> bool {
        self.streams.is_empty() && self.quic.both_way_streams() == 0
    }

    /// Whether the client reads what is said to it, so that another head may be added.
    pub fn has_control_room(&self) -> bool {
        self.quic.unsent_of_all() < HEADS_BYTES_MAX
            && self.quic.kept() < self.kept_max + KEPT_HEADS_BYTES_MAX
    }

    /// Whether more of bodies may be given to streams.
    pub fn has_room(&self) -> bool {
        self.quic.unsent_of_all() < FED_BYTES_MAX && !self.is_full()
    }

    /// Whether streams keep as much as they may until more of it is acknowledged.
    pub fn is_full(&self) -> bool {
        self.quic.kept() >= self.kept_max
    }

    /// Lets streams keep so much.
    pub fn set_kept_max(&mut self, bytes: u64) {
        self.kept_max = bytes;
    }

    /// Bytes of responses' bodies that wait for their turn.
    pub fn queued_of_all(&self) -> usize {
        self.queued
    }

    /// The same of one stream.
    pub fn queued(&self, number: u64) -> usize {
        self.streams.get(&number).map_or(0, |stream| stream.body.bytes())
    }

    /// Whether a stream's own window has no room.
    pub fn is_shut(&self, number: u64) -> bool {
        self.quic.is_shut(number)
    }

    /// Whether the client lets anything of a stream's body come.
    pub fn has_window(&self, number: u64) -> bool {
        self.quic.has_window(number)
    }

    /// Whether it ended because of what the client did.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// When the first bytes came of the oldest request of which the head is not there.
    pub fn head_begun(&self) -> Option<Duration> {
        let waiting = self.streams.values().filter(|stream| stream.place == Place::Head);
        waiting.map(|stream| stream.begun).min()
    }

    /// How many requests are open.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// A frame that brings nothing, of which there may only be so many.
    fn idle_frame(&mut self) -> Result<(), Code> {
        if self.idle_frames.owe(self.now) { Ok(()) } else { Err(Code::ExcessiveLoad) }
    }

    /// A stream that ends before it is done, of which there may only be so many.
    fn reset_seen(&mut self) -> Result<(), Code> {
        if self.resets.owe(self.now) { Ok(()) } else { Err(Code::ExcessiveLoad) }
    }

    /// Forgets a request.
    fn close(&mut self, number: u64) {
        let Some(stream) = self.streams.remove(&number) else { return };
        if !stream.is_read {
            self.tables.cancel(number);
        }
        // What nobody will take any more is given back.
        self.quic.take(number, stream.untaken);
        if stream.is_scheduled {
            self.scheduler.remove(number, stream.priority);
        }
        self.queued -= stream.body.bytes();
    }

    /// Makes a stream known to the scheduler, or forgotten, as it can send or not.
    fn schedule(&mut self, number: u64) {
        let is_shut = self.quic.room(number) == 0;
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let can_send = stream.body.bytes() > 0 && !is_shut;
        if can_send != stream.is_scheduled {
            stream.is_scheduled = can_send;
            if can_send {
                self.scheduler.add(number, stream.priority);
            } else {
                self.scheduler.remove(number, stream.priority);
            }
        }
    }

    /// Gives a stream another place.
    fn prioritize(&mut self, number: u64, priority: Priority) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        if stream.is_scheduled && stream.priority != priority {
            self.scheduler.remove(number, stream.priority);
            self.scheduler.add(number, priority);
        }
        stream.priority = priority;
        self.quic.prioritize(number, priority);
    }
}
