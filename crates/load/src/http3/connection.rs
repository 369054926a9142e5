//! One connection of a load.

use super::response::{Part, Response};
use freshet_quic::varint::{Reader, VARINT_MAX};
use freshet_quic::{Ecn, Route};
use freshet_wire::h3::frame::{Head, kind, write_head};
use freshet_wire::h3::qpack;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, Dir, Endpoint, Event, ReadError, Side, StreamId,
    VarInt,
};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

/// Datagrams of one call.
const DATAGRAMS_MAX: usize = 10;

/// H3_NO_ERROR and H3_REQUEST_REJECTED.
const NO_ERROR: u32 = 0x100;
const REQUEST_REJECTED: u64 = 0x10b;
/// H3_REQUEST_CANCELLED.
const REQUEST_CANCELLED: u32 = 0x10c;

/// A connection and its requests.
pub(crate) struct Client {
    pub(crate) quic: Connection,
    requests: BTreeMap<StreamId, Request>,
    /// The server's streams one way, of which one is that of control.
    one_way: BTreeMap<StreamId, Vec<u8>>,
    /// Requests from this one on are not looked at.
    goaway: u64,
    asked: u64,
    pub(crate) is_connected: bool,
    pub(crate) is_over: bool,
    /// Datagrams that came since the last were sent.
    pub(crate) unanswered: usize,
}

struct Request {
    number: u64,
    began: Instant,
    /// What was not written yet.
    head: Vec<u8>,
    is_finished: bool,
    response: Response,
}

/// What became of something.
pub(crate) enum News<'a> {
    /// The handshake is over.
    Connected,
    /// A part of the response to this request came.
    Part(u64, Part<'a>),
    /// The whole response came.
    Answered { number: u64, status: u16, began: Instant, body_bytes: u64 },
    /// The server did not look at it: it is to be asked again.
    Again(u64),
    /// A request failed, or the connection.
    Failed(Failure),
}

/// Why something failed.
pub(crate) enum Failure {
    /// The connection was not made.
    Handshake(ConnectionError),
    /// The connection was lost.
    Connection(ConnectionError),
    /// A request was under way on a connection that was lost.
    Request(ConnectionError),
    /// The server gave the response up, with this code.
    Reset { number: u64, code: u64 },
    /// The server broke a rule.
    Rule(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handshake(reason) => write!(f, "handshake: {reason}"),
            Self::Connection(reason) | Self::Request(reason) => write!(f, "connection: {reason}"),
            Self::Reset { code, .. } => write!(f, "reset with {code:#x}"),
            Self::Rule(why) => f.write_str(why),
        }
    }
}

impl Client {
    pub(crate) fn new(quic: Connection) -> Self {
        Self {
            quic,
            requests: BTreeMap::new(),
            one_way: BTreeMap::new(),
            goaway: VARINT_MAX,
            asked: 0,
            is_connected: false,
            is_over: false,
            unanswered: 0,
        }
    }

    /// Tells the endpoint what the connection has for it, and hears what that makes of it.
    pub(crate) fn exchange_events(&mut self, endpoint: &mut Endpoint, handle: ConnectionHandle) {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(handle, event) {
                self.quic.handle_event(event);
            }
        }
    }

    /// Gives what there is to be sent to `send`, written in `out`; how many datagrams that were.
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        mut send: impl FnMut(Route, Ecn, &[u8], usize),
    ) -> u64 {
        let mut count = 0;
        loop {
            out.clear();
            let Some(sent) = self.quic.poll_transmit(now, DATAGRAMS_MAX, out) else {
                return count;
            };
            let bytes = out.get(..sent.size).unwrap_or_default();
            let size = sent.segment_size.unwrap_or(sent.size).max(1);
            count += bytes.len().div_ceil(size) as u64;
            let ecn = Ecn::of_traffic_class(sent.ecn.map_or(0, |ecn| ecn as u8));
            send(Route::from(sent.destination), ecn, bytes, size);
        }
    }

    /// Whether requests are under way.
    pub(crate) fn asking(&self) -> usize {
        self.requests.len()
    }

    /// Requests that were begun.
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }

    /// Whether new requests may begin.
    pub(crate) fn may_ask(&self) -> bool {
        self.is_connected && !self.is_over && self.goaway == VARINT_MAX
    }

    /// Whether the server has told it to go.
    pub(crate) fn is_told_to_go(&self) -> bool {
        self.goaway != VARINT_MAX
    }

    /// Asks for a path; false when the server allows no more streams now.
    pub(crate) fn ask(&mut self, number: u64, authority: &str, path: &str, now: Instant) -> bool {
        let Some(stream) = self.open() else { return false };
        self.ask_on(stream, number, authority, path, now);
        true
    }

    /// A stream for a request, where the server allows another.
    pub(crate) fn open(&mut self) -> Option<StreamId> {
        self.quic.streams().open(Dir::Bi)
    }

    /// Asks for a path on a stream that was opened.
    pub(crate) fn ask_on(
        &mut self,
        stream: StreamId,
        number: u64,
        authority: &str,
        path: &str,
        now: Instant,
    ) {
        let fields = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", authority),
            (":path", path),
            ("user-agent", "freshet-lab"),
        ];
        let (mut block, mut head) = (Vec::new(), Vec::new());
        qpack::begin(&mut block);
        for (name, value) in fields {
            qpack::encode(name.as_bytes(), value.as_bytes(), false, &mut block);
        }
        write_head(kind::HEADERS, block.len(), &mut head);
        head.extend_from_slice(&block);
        let response = Response::default();
        let mut request = Request { number, began: now, head, is_finished: false, response };
        request.write(&mut self.quic, stream);
        self.requests.insert(stream, request);
        self.asked += 1;
    }

    /// Gives up a request.
    pub(crate) fn cancel(&mut self, number: u64) {
        let Some(stream) =
            self.requests.iter().find(|(_, request)| request.number == number).map(|(id, _)| *id)
        else {
            return;
        };
        self.requests.remove(&stream);
        let code = VarInt::from_u32(REQUEST_CANCELLED);
        // What has ended already needs no words.
        let _ = self.quic.recv_stream(stream).stop(code);
        let _ = self.quic.send_stream(stream).reset(code);
    }

    /// Closes it.
    pub(crate) fn close(&mut self, now: Instant) {
        self.quic.close(now, VarInt::from_u32(NO_ERROR), bytes::Bytes::new());
        self.is_over = true;
    }

    /// Takes what came.
    pub(crate) fn poll(&mut self, mut each: impl FnMut(News<'_>)) {
        // What the server said before it closed tells what became of requests.
        while let Some(stream) = self.quic.streams().accept(Dir::Uni) {
            self.one_way.insert(stream, Vec::new());
        }
        self.hear();
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => {
                    self.is_connected = true;
                    if let Some(control) = self.quic.streams().open(Dir::Uni) {
                        // The stream of control, and settings that say nothing.
                        let _ = self.quic.send_stream(control).write(&[0, 4, 0]);
                    }
                    each(News::Connected);
                }
                Event::ConnectionLost { reason } => {
                    self.is_over = true;
                    for (stream, request) in std::mem::take(&mut self.requests) {
                        each(match u64::from(VarInt::from(stream)) < self.goaway {
                            true => News::Failed(Failure::Request(reason.clone())),
                            false => News::Again(request.number),
                        });
                    }
                    each(News::Failed(match self.is_connected {
                        true => Failure::Connection(reason),
                        false => Failure::Handshake(reason),
                    }));
                }
                _ => {}
            }
        }
        let numbers: Vec<StreamId> = self.requests.keys().copied().collect();
        for stream in numbers {
            if let Some(news) = self.read(stream, &mut each) {
                self.requests.remove(&stream);
                each(news);
            }
        }
    }

    /// Reads the server's streams one way.
    fn hear(&mut self) {
        for (stream, bytes) in &mut self.one_way {
            let mut half = self.quic.recv_stream(*stream);
            let Ok(mut chunks) = half.read(true) else { continue };
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                bytes.extend_from_slice(&chunk.bytes);
            }
            let _ = chunks.finalize();
            if bytes.first() != Some(&0) {
                continue;
            }
            let mut rest = bytes.get(1..).unwrap_or(&[]);
            while let Some(head) = Head::read(rest) {
                let end = head.bytes + usize::try_from(head.len).unwrap_or(usize::MAX / 2);
                let Some(payload) = rest.get(head.bytes..end) else { break };
                if head.kind == kind::GOAWAY {
                    let number = Reader::new(payload).varint().unwrap_or(0);
                    self.goaway = self.goaway.min(number).min(VARINT_MAX - 1);
                }
                rest = rest.get(end..).unwrap_or(&[]);
            }
            let used = bytes.len() - rest.len() - 1;
            bytes.drain(1..1 + used);
        }
    }

    /// Reads a response; something when it is over.
    fn read(&mut self, stream: StreamId, each: &mut impl FnMut(News<'_>)) -> Option<News<'static>> {
        let request = self.requests.get_mut(&stream)?;
        request.write(&mut self.quic, stream);
        debug_assert_eq!(stream.initiator(), Side::Client);
        let number = request.number;
        let mut half = self.quic.recv_stream(stream);
        let Ok(mut chunks) = half.read(true) else {
            return Some(News::Failed(Failure::Rule("the stream is gone")));
        };
        let over = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    let mut part = |part: Part<'_>| each(News::Part(number, part));
                    if let Err(why) = request.response.receive(&chunk.bytes, &mut part) {
                        break Some(News::Failed(Failure::Rule(why)));
                    }
                }
                Ok(None) => {
                    break Some(match request.response.end() {
                        Ok(status) => News::Answered {
                            number,
                            status,
                            began: request.began,
                            body_bytes: request.response.body_bytes,
                        },
                        Err(why) => News::Failed(Failure::Rule(why)),
                    });
                }
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(code)) => {
                    break Some(match code.into_inner() {
                        REQUEST_REJECTED => News::Again(number),
                        code => News::Failed(Failure::Reset { number, code }),
                    });
                }
            }
        };
        let _ = chunks.finalize();
        over
    }
}

impl Request {
    fn write(&mut self, quic: &mut Connection, stream: StreamId) {
        if self.is_finished {
            return;
        }
        let mut half = quic.send_stream(stream);
        while !self.head.is_empty()
            && let Ok(count) = half.write(&self.head)
        {
            self.head.drain(..count);
        }
        if self.head.is_empty() {
            self.is_finished = half.finish().is_ok();
        }
    }
}
