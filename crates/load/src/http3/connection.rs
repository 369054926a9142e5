//! One connection of a load.

use super::response::Response;
use freshet_quic::varint::{Reader, VARINT_MAX};
use freshet_wire::h3::frame::{Head, kind, write_head};
use freshet_wire::h3::qpack;
use quinn_proto::{Connection, Dir, Event, ReadError, Side, StreamId, VarInt};
use std::collections::BTreeMap;
use std::time::Instant;

/// H3_NO_ERROR and H3_REQUEST_REJECTED.
const NO_ERROR: u32 = 0x100;
const REQUEST_REJECTED: u64 = 0x10b;

/// A connection and its requests.
pub(super) struct Client {
    pub(super) quic: Connection,
    requests: BTreeMap<StreamId, Request>,
    /// The server's streams one way, of which one is that of control.
    one_way: BTreeMap<StreamId, Vec<u8>>,
    /// Requests from this one on are not looked at.
    goaway: u64,
    asked: u64,
    pub(super) is_connected: bool,
    pub(super) is_over: bool,
    /// Datagrams that came since the last were sent.
    pub(super) unanswered: usize,
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
pub(super) enum News {
    /// The handshake is over.
    Connected,
    /// The whole response came.
    Answered { began: Instant, body_bytes: u64 },
    /// The server did not look at it: it is to be asked again.
    Again(u64),
    /// It failed.
    Failed(String),
}

impl Client {
    pub(super) fn new(quic: Connection) -> Self {
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

    /// Whether requests are under way.
    pub(super) fn asking(&self) -> usize {
        self.requests.len()
    }

    /// Requests that were begun.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// Whether new requests may begin.
    pub(super) fn may_ask(&self) -> bool {
        self.is_connected && !self.is_over && self.goaway == VARINT_MAX
    }

    /// Whether the server has told it to go.
    pub(super) fn is_told_to_go(&self) -> bool {
        self.goaway != VARINT_MAX
    }

    /// Asks for a path; false when the server allows no more streams now.
    pub(super) fn ask(&mut self, number: u64, authority: &str, path: &str, now: Instant) -> bool {
        let Some(stream) = self.quic.streams().open(Dir::Bi) else { return false };
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
        true
    }

    /// Closes it.
    pub(super) fn close(&mut self, now: Instant) {
        self.quic.close(now, VarInt::from_u32(NO_ERROR), bytes::Bytes::new());
        self.is_over = true;
    }

    /// Takes what came.
    pub(super) fn poll(&mut self, mut each: impl FnMut(News)) {
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
                    if !self.is_connected {
                        each(News::Failed(format!("handshake: {reason}")));
                    }
                    for (stream, request) in std::mem::take(&mut self.requests) {
                        each(match u64::from(VarInt::from(stream)) < self.goaway {
                            true => News::Failed(format!("connection: {reason}")),
                            false => News::Again(request.number),
                        });
                    }
                }
                _ => {}
            }
        }
        let numbers: Vec<StreamId> = self.requests.keys().copied().collect();
        for stream in numbers {
            if let Some(news) = self.read(stream) {
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
    fn read(&mut self, stream: StreamId) -> Option<News> {
        let request = self.requests.get_mut(&stream)?;
        request.write(&mut self.quic, stream);
        debug_assert_eq!(stream.initiator(), Side::Client);
        let mut half = self.quic.recv_stream(stream);
        let Ok(mut chunks) = half.read(true) else {
            return Some(News::Failed("the stream is gone".to_owned()));
        };
        let over = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    if let Err(why) = request.response.receive(&chunk.bytes) {
                        break Some(News::Failed(why.to_owned()));
                    }
                }
                Ok(None) => {
                    break Some(match request.response.check() {
                        Ok(()) => News::Answered {
                            began: request.began,
                            body_bytes: request.response.body_bytes,
                        },
                        Err(why) => News::Failed(why),
                    });
                }
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(code)) => {
                    break Some(match code.into_inner() {
                        REQUEST_REJECTED => News::Again(request.number),
                        code => News::Failed(format!("reset with {code:#x}")),
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
