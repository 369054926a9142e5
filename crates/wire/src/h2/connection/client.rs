//! The client's side: requests into frames, and the fields of responses.

use super::super::frame::{STREAM_MAX, kind, write};
use super::super::hpack::Indexing;
use super::super::window::{ReceiveWindow, SendWindow};
use super::super::{AnswerError, Code, Priority};
use super::receive::{Block, Purpose};
use super::stream::{Asked, Stream};
use super::{Connection, Event};
use crate::answer::AnswerBuilder;
use crate::h1::Limits;
use crate::head::is_of_connection;
use crate::outgoing::{Outgoing, decimal};
use freshet_http::fields::Fields;
use freshet_http::hop_by_hop;
use freshet_http::message::{Method, RequestHead};
use std::borrow::Cow;

/// The payload of the PING that asks whether the server is there.
const ALIVE_PING: [u8; 8] = *b"freshet?";

/// A request that is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Its head. What its fields say of a connection or of the body's length is left out.
    pub head: &'a RequestHead,
    /// Bytes of its body, where they are known.
    pub length: Option<u64>,
    /// Whether it has no body.
    pub ends: bool,
    /// What its response's head is held against.
    pub limits: Limits,
}

impl Connection {
    /// Whether another request can be sent: the server takes more at a time, has not told us to go
    /// and reads what it is told.
    pub fn can_ask(&self) -> bool {
        let streams_max = self.peer.streams_max.min(self.local.streams_max) as usize;
        self.streams.len() < streams_max && self.is_usable()
    }

    /// Whether another request can be sent, now or when there are fewer.
    pub fn is_usable(&self) -> bool {
        !self.has_failed
            && !self.is_peer_leaving
            && self.peer.streams_max > 0
            && self.last_stream < STREAM_MAX - 2
            && self.has_control_room()
    }

    /// Sends a request and returns its stream, which is open until its response
    /// [ended](Event::End) and its own body was [finished](Self::finish), or
    /// [reset](Self::reset). `None` where [`can_ask`](Self::can_ask) is false.
    pub fn ask(&mut self, ask: Ask<'_>) -> Option<u32> {
        if !self.can_ask() {
            return None;
        }
        let number = if self.last_stream == 0 { 1 } else { self.last_stream + 2 };
        self.last_stream = number;
        let Ask { head, length, ends, limits } = ask;
        let asked = Asked { limits, is_head: head.method == Method::Head, is_answered: false };
        let priority = head.fields.get("priority").map(Priority::parse).unwrap_or_default();
        let at_once = self.local.conduct.opens_windows_at_once;
        let stream = Stream {
            is_remote_open: true,
            length_left: None,
            is_body_wanted: true,
            untaken: 0,
            padding: 0,
            receive: ReceiveWindow::new(self.local.stream_window_bytes, at_once),
            send: SendWindow::new(self.peer.window_bytes),
            priority,
            body: Outgoing::new(),
            is_scheduled: false,
            asked: Some(Box::new(asked)),
        };
        self.streams.insert(number, stream);
        self.write_request(number, head, length, ends);
        if ends {
            self.ended(number);
        }
        Some(number)
    }

    /// Appends the frames of a request's head (RFC 9113 §8.3.1).
    fn write_request(&mut self, number: u32, head: &RequestHead, length: Option<u64>, ends: bool) {
        let start = self.begin_fields();
        let (encoder, out) = (&mut self.encoder, &mut self.control);
        let mut pseudo = |name: &[u8], value: &str, indexing| {
            encoder.field(name, value.as_bytes(), indexing, out);
        };
        let is_connect = head.method == Method::Connect;
        pseudo(b":method", head.method.as_str(), Indexing::Kept);
        if !is_connect {
            pseudo(b":scheme", self.scheme.as_str(), Indexing::Kept);
        }
        pseudo(b":authority", &head.authority, Indexing::Kept);
        if !is_connect {
            // Each is asked for once, which is what a cache is for.
            pseudo(b":path", &head.target, Indexing::Once);
        }
        self.encode_request(&head.fields, length);
        self.end_fields(number, start, ends);
    }

    /// Asks the server for a sign that it is there; whatever it sends is one.
    pub fn ask_alive(&mut self) {
        write(kind::PING, 0, 0, &ALIVE_PING, &mut self.control);
    }

    /// Tells the server that nothing more is asked.
    pub fn leave(&mut self) {
        if !self.has_failed {
            self.write_goaway(0, Code::NoError);
        }
    }

    /// All fields of a response's head or trailers are there.
    pub(super) fn answer_fields(&mut self, block: &Block, bytes: &[u8]) -> Result<Event, Code> {
        let asked = self.streams.get(&block.stream).and_then(|stream| stream.asked.as_deref());
        let limits = asked.map_or(self.local.limits, |asked| asked.limits);
        let mut builder = AnswerBuilder::new(&limits, block.purpose == Purpose::Trailers);
        let read = self.decoder.decode(bytes, |name, value| builder.field(name, value));
        read.map_err(|_| Code::CompressionError)?;
        match block.purpose {
            Purpose::Request | Purpose::Answer => self.answer(block, builder),
            Purpose::Trailers => match builder.finish_trailers() {
                Ok(trailers) => match self.body_ended(block.stream)? {
                    Event::End(number) if !trailers.is_empty() => {
                        Ok(Event::Trailers(number, trailers))
                    }
                    other => Ok(other),
                },
                Err(wrong) => self.wrong(block.stream, wrong),
            },
            Purpose::Refuse(code) => self.refuse(block.stream, code),
            Purpose::Fail(code) => Err(code),
            Purpose::Ignore => self.idle_frame(),
        }
    }

    fn answer(&mut self, block: &Block, builder: AnswerBuilder<'_>) -> Result<Event, Code> {
        let number = block.stream;
        let answer = match builder.finish(block.ends) {
            Ok(answer) => answer,
            Err(wrong) => return self.wrong(number, wrong),
        };
        let Some(stream) = self.streams.get_mut(&number) else { return Ok(Event::Nothing) };
        if answer.head.status >= 200
            && let Some(asked) = &mut stream.asked
        {
            asked.is_answered = true;
            let is_bodiless = asked.is_head || matches!(answer.head.status, 204 | 304);
            stream.length_left = if is_bodiless { Some(0) } else { answer.length };
            stream.is_remote_open = !block.ends;
        }
        self.calm.useful_frame();
        self.close_if_answered(number);
        Ok(Event::Answer(number, Box::new(answer)))
    }

    /// Ends a stream because of its response's fields.
    fn wrong(&mut self, number: u32, wrong: AnswerError) -> Result<Event, Code> {
        let code = match wrong {
            AnswerError::OriginMalformed(_) => Code::ProtocolError,
            AnswerError::OriginTooLarge(_) => Code::Cancel,
        };
        self.refuse(number, code)?;
        Ok(Event::Wrong(number, wrong))
    }

    /// Appends the fields of a request but for those that are about a connection (RFC 9113 §8.2.2)
    /// or the body's length, which is said here where it is known.
    fn encode_request(&mut self, fields: &Fields, length: Option<u64>) {
        let takes_trailers = fields.tokens("te").any(|te| te.eq_ignore_ascii_case(b"trailers"));
        let mut fields = Cow::Borrowed(fields);
        if fields.contains("connection") {
            hop_by_hop::strip(fields.to_mut());
        }
        for (name, value) in fields.iter() {
            let is_left_out = is_of_connection(name)
                || [&b"content-length"[..], b"host", b"http2-settings", b"te"]
                    .iter()
                    .any(|out| out.eq_ignore_ascii_case(name));
            if !is_left_out {
                self.encoder.field(name, value, indexing(name), &mut self.control);
            }
        }
        if takes_trailers {
            self.encoder.field(b"te", b"trailers", Indexing::Kept, &mut self.control);
        }
        if let Some(length) = length {
            let mut place = [0; 20];
            let digits = decimal(length, &mut place);
            self.encoder.field(b"content-length", digits, Indexing::Once, &mut self.control);
        }
    }
}

/// What is worth remembering for the next request: not what differs from one to the next. Secrets
/// are remembered by nobody on the way (RFC 7541 §7.1.3).
fn indexing(name: &[u8]) -> Indexing {
    const NEVER: [&[u8]; 3] = [b"authorization", b"cookie", b"proxy-authorization"];
    const ONCE: [&[u8]; 8] = [
        b"forwarded",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"range",
        b"traceparent",
        b"x-forwarded-for",
        b"x-varnish",
    ];
    let is_of = |list: &[&[u8]]| list.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is_of(&NEVER) {
        Indexing::Never
    } else if is_of(&ONCE) {
        Indexing::Once
    } else {
        Indexing::Kept
    }
}
