//! The state of a connection: frames in, events out.

mod client;
mod control;
mod receive;
mod send;
mod stream;

#[cfg(test)]
mod tests;

use super::calm::Calm;
use super::frame::{FRAME_HEADER_BYTES, Header, STREAM_MAX, flag, kind, number, write};
use super::hpack::{Decoder, Encoder};
use super::limits::{CONTROL_BYTES_MAX, FRAME_BYTES_MAX, HEADER_TABLE_BYTES};
use super::settings::{Local, Peer, WINDOW_DEFAULT};
use super::window::{ReceiveWindow, SendWindow};
use super::{Answer, AnswerError, Code, PREFACE};
use crate::head::{Request, Said};
use freshet_http::fields::Fields;
use freshet_http::message::Scheme;
use freshet_http::priority::Priority;
use freshet_http::scheduler::Scheduler;
use receive::Block;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use stream::{Closed, ClosedStreams, Stream};

pub use client::Ask;
pub use send::DataFrame;

/// One side of a connection.
pub struct Connection {
    local: Local,
    is_client: bool,
    scheme: Scheme,
    peer: Peer,
    reading: Reading,
    /// The fields of a head whose last frame has not come.
    block: Option<Block>,
    decoder: Decoder,
    encoder: Encoder,
    streams: BTreeMap<u32, Stream>,
    closed: ClosedStreams,
    /// Bytes that windows of streams let in which we ended, and that may be on their way.
    let_in_bytes: u64,
    /// The highest number the client used, who may be us.
    last_stream: u32,
    /// What PRIORITY_UPDATE said of streams that have not begun.
    foretold: BTreeMap<u32, Priority>,
    receive: ReceiveWindow,
    send: SendWindow,
    scheduler: Scheduler<u32>,
    /// Bytes of responses' bodies that are there and not sent, of all streams.
    queued: usize,
    /// Our frames but for DATA, in order.
    control: Vec<u8>,
    /// Our RST_STREAM frames behind whole responses.
    releases: Vec<u8>,
    calm: Calm,
    leaving: Leaving,
    is_peer_leaving: bool,
    has_failed: bool,
    /// The time of the frame that is looked at, since the connection began.
    now: Duration,
}

/// What is expected next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reading {
    Preface,
    Settings,
    Frames,
}

/// How far we are with telling the client to go (RFC 9113 §6.8).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Leaving {
    No,
    /// It was told to open no more streams, and asked for a sign that it knows.
    Announced,
    /// Streams above this number are not looked at.
    Last(u32),
}

/// What a frame brought.
#[derive(Debug, Eq, PartialEq)]
pub enum Event {
    /// Nothing a session has to do anything about.
    Nothing,
    /// A request. It is open until [`Connection::finish`] or [`Connection::reset`].
    Request(u32, Box<Request>),
    /// What came was not a request, or one over a limit: it was answered.
    Refused {
        /// The stream.
        stream: u32,
        /// The status it was answered with; `None` where it was reset.
        status: Option<u16>,
        /// Bytes of the compressed fields of the answer.
        head_bytes: usize,
        /// What its head said, as far as that was read.
        said: Box<Said>,
    },
    /// The head of a response, final or interim. Only a client hears of it.
    Answer(u32, Box<Answer>),
    /// What came was not a response, or one over a limit: its stream was reset.
    Wrong(u32, AnswerError),
    /// The trailers of a response, which is over. Only a client hears of them.
    Trailers(u32, Fields),
    /// The server is leaving: requests above this number were not looked at and are over, those up to
    /// it are answered still.
    Leaving(u32),
    /// Bytes of a body, at this place of the input, and whether they are the last. Each has
    /// to be [taken](Connection::take_body) in the end.
    Data(u32, Range<usize>, bool),
    /// The body ended; trailers of a request, if there were some, are dropped.
    End(u32),
    /// The stream is over before its time; what is queued for it will not be sent. `by_peer` tells a
    /// change of mind from a mistake.
    Reset {
        /// The stream.
        stream: u32,
        /// The code the peer ended it with; `None` where we did, for what the peer did wrong.
        by_peer: Option<u32>,
    },
    /// Windows or priorities changed: there may be more to send.
    Opened,
}

/// An event and how many bytes of the input it took.
#[derive(Debug, Eq, PartialEq)]
pub struct Received {
    /// Bytes from the front of the input that are done.
    pub bytes: usize,
    /// What they brought.
    pub event: Event,
}

/// The connection is over: what is to be said about it is among the control bytes.
#[derive(Debug, Eq, PartialEq)]
pub struct Failed;

/// The payload of the PING that asks whether the client knows that it shall go.
const LEAVING_PING: [u8; 8] = *b"freshet!";

impl Connection {
    /// The server's side of a connection of which nothing was read. Our SETTINGS are among the
    /// control bytes.
    pub fn new(local: Local, scheme: Scheme) -> Self {
        Self::of(false, local, scheme)
    }

    /// The server's side of a connection on which a client has said its settings, and asked for what is to be
    /// answered on the first stream, in HTTP/1.1. Its preface is still to come.
    pub(super) fn upgraded(local: Local, scheme: Scheme, settings: &[u8]) -> Result<Self, Code> {
        let mut connection = Self::new(local, scheme);
        connection.peer.take(settings, local.conduct)?;
        let table_bytes = connection.peer.header_table_bytes as usize;
        connection.encoder.resize(table_bytes.min(HEADER_TABLE_BYTES));
        connection.last_stream = 1;
        connection.open(1, Priority::default(), None, true);
        Ok(connection)
    }

    /// The client's side of a connection of which nothing was read. What a client says first is among
    /// the control bytes.
    pub fn client(local: Local, scheme: Scheme) -> Self {
        Self::of(true, local, scheme)
    }

    fn of(is_client: bool, local: Local, scheme: Scheme) -> Self {
        let mut control = if is_client { PREFACE.to_vec() } else { Vec::new() };
        local.write(is_client, &mut control);
        let at_once = local.conduct.opens_windows_at_once;
        // What a client sees first is our settings alone then.
        let window = if at_once {
            WINDOW_DEFAULT
        } else {
            let window = local.connection_window_bytes.clamp(WINDOW_DEFAULT, STREAM_MAX);
            if window > WINDOW_DEFAULT {
                let more = (window - WINDOW_DEFAULT).to_be_bytes();
                write(kind::WINDOW_UPDATE, 0, 0, &more, &mut control);
            }
            window
        };
        Self {
            decoder: Decoder::new(local.table_bytes()),
            local,
            scheme,
            peer: Peer::default(),
            reading: if is_client { Reading::Settings } else { Reading::Preface },
            is_client,
            block: None,
            encoder: Encoder::new(HEADER_TABLE_BYTES),
            streams: BTreeMap::new(),
            closed: ClosedStreams::default(),
            let_in_bytes: 0,
            last_stream: 0,
            foretold: BTreeMap::new(),
            receive: ReceiveWindow::new(window, at_once),
            send: SendWindow::new(WINDOW_DEFAULT),
            scheduler: Scheduler::default(),
            queued: 0,
            control,
            releases: Vec::new(),
            calm: Calm::new(),
            leaving: Leaving::No,
            is_peer_leaving: false,
            has_failed: false,
            now: Duration::ZERO,
        }
    }

    /// Looks at the frame at the front of `input`, `now` after the connection began; `None` when not
    /// all of it is there. Cost is that of its bytes.
    ///
    /// # Errors
    /// [`Failed`]: the client broke the protocol. A GOAWAY frame says how.
    pub fn receive(&mut self, input: &[u8], now: Duration) -> Result<Option<Received>, Failed> {
        self.now = now;
        if self.reading == Reading::Preface {
            let known = input.len().min(PREFACE.len());
            if input.get(..known) != PREFACE.get(..known) {
                return Err(self.fail(Code::ProtocolError));
            }
            if known < PREFACE.len() {
                return Ok(None);
            }
            self.reading = Reading::Settings;
            return Ok(Some(Received { bytes: known, event: Event::Nothing }));
        }
        let Some(header) = Header::parse(input) else { return Ok(None) };
        // What the header alone makes wrong is not waited for.
        if let Err(code) = self.check(header) {
            return Err(self.fail(code));
        }
        let bytes = FRAME_HEADER_BYTES + header.len;
        let Some(payload) = input.get(FRAME_HEADER_BYTES..bytes) else { return Ok(None) };
        match self.frame(header, payload) {
            Ok(event) => Ok(Some(Received { bytes, event })),
            Err(code) => Err(self.fail(code)),
        }
    }

    /// What is wrong with a frame before its payload is looked at.
    fn check(&self, header: Header) -> Result<(), Code> {
        if self.local.conduct.looks_at_streams_first {
            self.check_stream(header)?;
            let is_servers = header.stream != 0 && header.stream.is_multiple_of(2);
            let has_odd_length = header.kind == kind::SETTINGS && !header.len.is_multiple_of(6);
            if header.kind <= kind::CONTINUATION && is_servers
                || has_odd_length && !header.has(flag::ACK)
            {
                return Err(Code::ProtocolError);
            }
        }
        header.check_len(FRAME_BYTES_MAX as usize)?;
        if let Some(block) = &self.block {
            let follows = header.kind == kind::CONTINUATION && header.stream == block.stream;
            return if follows { Ok(()) } else { Err(Code::ProtocolError) };
        }
        let is_settings = header.kind == kind::SETTINGS && header.flags & 1 == 0;
        let takes_any = is_settings || self.local.conduct.takes_any_frame_first;
        if self.reading == Reading::Settings && !takes_any {
            return Err(Code::ProtocolError);
        }
        self.check_stream(header)
    }

    /// Whether a frame may be of its stream.
    fn check_stream(&self, header: Header) -> Result<(), Code> {
        if self.block.is_some() && header.kind == kind::CONTINUATION {
            return Ok(());
        }
        let is_of_connection = match header.kind {
            // A server has no wishes (RFC 9218 §7.1).
            kind::PRIORITY_UPDATE if self.is_client => return Err(Code::ProtocolError),
            kind::SETTINGS | kind::PING | kind::GOAWAY | kind::PRIORITY_UPDATE => true,
            kind::DATA | kind::HEADERS | kind::PRIORITY | kind::RST_STREAM => false,
            kind::WINDOW_UPDATE => return Ok(()),
            // Nobody pushes to us, and what goes on has not begun.
            kind::PUSH_PROMISE | kind::CONTINUATION => return Err(Code::ProtocolError),
            _ => return Ok(()),
        };
        if is_of_connection == (header.stream == 0) { Ok(()) } else { Err(Code::ProtocolError) }
    }

    fn frame(&mut self, header: Header, payload: &[u8]) -> Result<Event, Code> {
        match header.kind {
            kind::DATA => self.data(header, payload),
            kind::HEADERS => self.headers(header, payload),
            kind::CONTINUATION => self.continuation(header, payload),
            kind::RST_STREAM => self.rst_stream(header.stream, number(payload)),
            kind::WINDOW_UPDATE => self.window_update(header.stream, number(payload)),
            kind::SETTINGS => self.settings(header, payload),
            kind::PING => self.ping(header, payload),
            kind::GOAWAY => self.goaway(number(payload)),
            kind::PRIORITY => self.priority(header.stream, payload),
            kind::PRIORITY_UPDATE => self.priority_update(payload),
            _ => self.idle_frame(),
        }
    }

    /// Ends the connection with a GOAWAY frame.
    pub fn fail(&mut self, code: Code) -> Failed {
        if !self.has_failed {
            self.has_failed = true;
            // A server opened no streams.
            let last_stream = if self.is_client { 0 } else { self.last_stream };
            self.write_goaway(last_stream, code);
        }
        Failed
    }

    /// Tells the client to go when its streams are done (RFC 9113 §6.8): first that no new ones
    /// should be opened, and when it knows, up to which they are served.
    pub fn shut_down(&mut self) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Announced;
            self.write_goaway(STREAM_MAX, Code::NoError);
            write(kind::PING, 0, 0, &LEAVING_PING, &mut self.control);
        }
    }

    /// Whether the connection has nothing left to do but to send its control bytes.
    pub fn is_done(&self) -> bool {
        let is_leaving = self.is_peer_leaving || matches!(self.leaving, Leaving::Last(_));
        self.has_failed || (is_leaving && self.streams.is_empty())
    }

    /// Whether it ended because of what the client did.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether the client has said what a client says first.
    pub fn is_established(&self) -> bool {
        self.reading == Reading::Frames
    }

    /// Whether more may be read: not while the client does not read what it made us say.
    pub fn wants_input(&self) -> bool {
        self.has_control_room() && !self.has_failed
    }

    /// Whether the client reads what is said to it, so that another head may be added.
    pub fn has_control_room(&self) -> bool {
        self.control.len() + self.releases.len() < CONTROL_BYTES_MAX
    }

    /// When the first frame came of a head whose last one has not, in time since the connection began.
    pub fn head_begun(&self) -> Option<Duration> {
        self.block.as_ref().map(|block| block.begun)
    }

    /// How many requests are open.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// The frames to be sent before any DATA frame that is asked for later; the caller takes them out.
    pub fn control(&mut self) -> &mut Vec<u8> {
        &mut self.control
    }

    /// The frames that say of answered requests that the rest of their bodies need not come (RFC 9113
    /// §8.1), to be sent in a write of their own behind all else; the caller takes them out. curl, and
    /// others that read response and reset at once, take the request for failed.
    pub fn releases(&mut self) -> &mut Vec<u8> {
        &mut self.releases
    }

    /// A stream is answered of whose body nobody wants the rest.
    fn release(&mut self, number: u32) {
        let code = (Code::NoError as u32).to_be_bytes();
        let frames = if self.is_client { &mut self.control } else { &mut self.releases };
        write(kind::RST_STREAM, 0, number, &code, frames);
        self.close(number, Closed::ByUs);
    }

    fn write_goaway(&mut self, last_stream: u32, code: Code) {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last_stream.to_be_bytes());
        payload[4..].copy_from_slice(&(code as u32).to_be_bytes());
        write(kind::GOAWAY, 0, 0, &payload, &mut self.control);
    }

    /// A frame that brings nothing, of which there may only be so many.
    fn idle_frame(&mut self) -> Result<Event, Code> {
        if self.calm.idle_frame(self.now) { Ok(Event::Nothing) } else { Err(Code::EnhanceYourCalm) }
    }

    /// Forgets a stream.
    fn close(&mut self, number: u32, how: Closed) {
        let Some(stream) = self.streams.remove(&number) else { return };
        if stream.is_scheduled {
            self.scheduler.remove(number, stream.priority);
        }
        self.queued -= stream.body.bytes();
        if how == Closed::ByUs && stream.is_remote_open {
            self.let_in_bytes = self.let_in_bytes.saturating_add(stream.receive.open().into());
        }
        self.closed.add(number, how);
        // What nobody will take any more is given back.
        self.give_back_taken(stream.untaken);
    }

    /// Refuses a request of which nothing was done yet: the client may ask again.
    ///
    /// # Errors
    /// [`Failed`]: there were too many of them.
    pub fn turn_away(&mut self, number: u32) -> Result<(), Failed> {
        match self.refuse(number, Code::RefusedStream) {
            Ok(_) => Ok(()),
            Err(code) => Err(self.fail(code)),
        }
    }

    /// Ends a stream because of something the client did.
    fn refuse(&mut self, number: u32, code: Code) -> Result<Event, Code> {
        self.write_rst(number, code);
        let was_open = self.streams.contains_key(&number);
        self.close(number, Closed::ByUs);
        if !self.calm.reset(self.now) {
            return Err(Code::EnhanceYourCalm);
        }
        Ok(if was_open { Event::Reset { stream: number, by_peer: None } } else { Event::Nothing })
    }

    fn write_rst(&mut self, stream: u32, code: Code) {
        write(kind::RST_STREAM, 0, stream, &(code as u32).to_be_bytes(), &mut self.control);
    }

    /// Lets the client send `bytes` more on the connection.
    fn give_back(&mut self, bytes: u32) {
        if bytes > 0
            && let Some(more) = self.receive.take(bytes)
        {
            write(kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes(), &mut self.control);
        }
    }

    /// Makes a stream known to the scheduler, or forgotten, as it can send or not.
    fn schedule(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        if stream.can_send() != stream.is_scheduled {
            stream.is_scheduled = !stream.is_scheduled;
            if stream.is_scheduled {
                self.scheduler.add(number, stream.priority);
            } else {
                self.scheduler.remove(number, stream.priority);
            }
        }
    }

    /// Gives a stream another place.
    fn prioritize(&mut self, number: u32, priority: Priority) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        if stream.is_scheduled && stream.priority != priority {
            self.scheduler.remove(number, stream.priority);
            self.scheduler.add(number, priority);
        }
        stream.priority = priority;
    }
}
