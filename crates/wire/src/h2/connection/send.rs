//! Heads and bodies into frames.

use super::super::Code;
use super::super::frame::{FRAME_HEADER_BYTES, Header, flag, kind, write};
use super::super::hpack::Indexing;
use super::super::limits::DATA_BYTES_MAX;
use super::{Closed, Connection};
use crate::head::is_of_connection;
use crate::outgoing::{End, decimal};
use freshet_http::fields::Fields;
use freshet_http::hop_by_hop;
use freshet_http::message::ResponseHead;
use std::io::Write as _;

/// A DATA frame that is to be sent next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DataFrame {
    /// Whose bytes.
    pub stream: u32,
    /// How many.
    pub bytes: usize,
    /// How many of that stream are there and follow.
    pub left: usize,
    /// Whether nothing of the stream follows.
    pub ends: bool,
}

impl Connection {
    /// Makes a stream a step more urgent than its client asked for, as a server may that knows more
    /// (RFC 9218 §8). What the head of its response says goes before that.
    pub fn hasten(&mut self, number: u32) {
        let asked = self.streams.get(&number).map(|stream| stream.priority);
        if let Some(asked) = asked {
            self.prioritize(number, asked.hastened());
        }
    }

    /// Sends the head of a response, with `length` as its `content-length`; `ends` says that no body
    /// follows. An interim response (1xx) may come before it. Returns the bytes of the compressed
    /// fields; `None` when the stream is over.
    pub fn respond(
        &mut self,
        number: u32,
        head: &ResponseHead,
        length: Option<u64>,
        ends: bool,
    ) -> Option<usize> {
        let stream = self.streams.get(&number)?;
        if let Some(said) = head.fields.get("priority") {
            self.prioritize(number, stream.priority.with(said));
        }
        let start = self.begin_fields();
        let mut status = *b"000";
        let _ = write!(&mut status[..], "{:03}", head.status.min(999));
        self.encoder.field(b":status", &status, Indexing::Kept, &mut self.control);
        self.encode(&head.fields, length.is_some());
        if let Some(length) = length {
            let mut place = [0; 20];
            let digits = decimal(length, &mut place);
            self.encoder.field(b"content-length", digits, Indexing::Once, &mut self.control);
        }
        let bytes = self.end_fields(number, start, ends);
        if ends {
            self.ended(number);
        }
        Some(bytes)
    }

    /// `bytes` more of a body are there. False when the stream is over.
    pub fn queue(&mut self, number: u32, bytes: usize) -> bool {
        let Some(stream) = self.streams.get_mut(&number) else { return false };
        stream.body.queue(bytes, &mut self.queued);
        self.schedule(number);
        true
    }

    /// Takes back what is queued and was not sent, which comes again later; says how much.
    pub fn unqueue(&mut self, number: u32) -> usize {
        let Some(stream) = self.streams.get_mut(&number) else { return 0 };
        let bytes = stream.body.unqueue(&mut self.queued);
        self.schedule(number);
        bytes
    }

    /// What is queued is all of the body, and `trailers` are behind it.
    pub fn finish(&mut self, number: u32, trailers: Option<Fields>) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.body.finish(trailers);
        if stream.body.end().is_some() {
            self.send_end(number);
        }
    }

    /// Ends a stream that is not done. What is queued is forgotten.
    pub fn reset(&mut self, number: u32, code: Code) {
        if self.streams.contains_key(&number) {
            self.write_rst(number, code);
            self.close(number, Closed::ByUs);
        }
    }

    /// As [`reset`](Self::reset), unless the whole response was sent.
    pub fn abandon(&mut self, number: u32, code: Code) {
        if self.streams.get(&number).is_some_and(|stream| !stream.is_answered()) {
            self.reset(number, code);
        }
    }

    /// The DATA frame to be sent next, of at most `bytes_max`; `None` when nothing can be sent. What
    /// is among the control bytes before this call goes before it, what is after it behind it.
    pub fn next_data(&mut self, bytes_max: usize) -> Option<DataFrame> {
        let room = self.send.bytes().min(bytes_max).min(self.data_bytes_max());
        if room == 0 || self.has_failed {
            return None;
        }
        let number = self.scheduler.take_turn()?;
        let stream = self.streams.get_mut(&number)?;
        let bytes = stream.body.bytes().min(stream.send.bytes()).min(room);
        stream.send.take(bytes);
        self.send.take(bytes);
        let left = stream.body.take(bytes, &mut self.queued);
        let ends = matches!(stream.body.end(), Some(End::Last));
        let has_trailers = matches!(stream.body.end(), Some(End::Trailers(_)));
        self.calm.useful_frame();
        self.schedule(number);
        if ends {
            self.ended(number);
        } else if has_trailers {
            self.send_end(number);
        }
        Some(DataFrame { stream: number, bytes, left, ends })
    }

    /// Bytes of a response's body that are there and not sent; none of a stream that is over.
    pub fn queued(&self, number: u32) -> usize {
        self.streams.get(&number).map_or(0, |stream| stream.body.bytes())
    }

    /// The same of all streams.
    #[inline]
    pub fn queued_of_all(&self) -> usize {
        self.queued
    }

    /// Whether a stream's own window has no room.
    pub fn is_shut(&self, number: u32) -> bool {
        self.streams.get(&number).is_some_and(|stream| stream.send.bytes() == 0)
    }

    /// Whether the client lets anything of a stream's body come, by its window and that of all.
    pub fn has_window(&self, number: u32) -> bool {
        self.send.bytes() > 0
            && self.streams.get(&number).is_some_and(|stream| stream.send.bytes() > 0)
    }

    /// The largest DATA frame that is sent.
    pub fn data_bytes_max(&self) -> usize {
        DATA_BYTES_MAX.min(self.peer.frame_bytes_max as usize)
    }

    /// Ends a stream whose body is sent.
    fn send_end(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        match stream.body.sent() {
            End::Trailers(trailers) => {
                let start = self.begin_fields();
                self.encode(&trailers, false);
                self.end_fields(number, start, true);
            }
            _ => write(kind::DATA, flag::END_STREAM, number, &[], &mut self.control),
        }
        self.ended(number);
    }

    /// All of our side was sent.
    pub(super) fn ended(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.body.sent();
        self.calm.response();
        if stream.is_remote_open && !stream.is_body_wanted {
            return self.release(number);
        }
        self.close_if_answered(number);
    }

    /// Forgets a stream of which both sides said all.
    pub(super) fn close_if_answered(&mut self, number: u32) {
        let is_over = |stream: &super::Stream| stream.is_answered() && !stream.is_remote_open;
        if self.streams.get(&number).is_some_and(is_over) {
            self.close(number, Closed::Whole);
        }
    }

    /// Begins a HEADERS frame and returns where.
    pub(super) fn begin_fields(&mut self) -> usize {
        let start = self.control.len();
        self.control.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        self.encoder.begin(&mut self.control);
        start
    }

    /// Appends compressed fields, but for those that are about a connection.
    pub(super) fn encode(&mut self, fields: &Fields, has_length: bool) {
        let stripped = fields.contains("connection").then(|| {
            let mut fields = fields.clone();
            hop_by_hop::strip(&mut fields);
            fields
        });
        for (name, value) in stripped.as_ref().unwrap_or(fields).iter() {
            let is_length = has_length && name.eq_ignore_ascii_case(b"content-length");
            if !is_length && !is_of_connection(name) {
                self.encoder.field(name, value, indexing(name), &mut self.control);
            }
        }
    }

    /// Ends the frame begun at `start`, with CONTINUATION frames where it is too long for one.
    /// Returns the bytes of its fields.
    pub(super) fn end_fields(&mut self, stream: u32, start: usize, ends: bool) -> usize {
        let end_stream = if ends { flag::END_STREAM } else { 0 };
        let first = start + FRAME_HEADER_BYTES;
        let len = self.control.len() - first;
        let len_max = self.peer.frame_bytes_max as usize;
        let flags = end_stream | if len <= len_max { flag::END_HEADERS } else { 0 };
        let header = Header { len: len.min(len_max), kind: kind::HEADERS, flags, stream };
        if let Some(place) = self.control.get_mut(start..first) {
            place.copy_from_slice(&header.bytes());
        }
        if len > len_max {
            let rest = self.control.split_off(first + len_max);
            let mut parts = rest.chunks(len_max).peekable();
            while let Some(part) = parts.next() {
                let flags = if parts.peek().is_none() { flag::END_HEADERS } else { 0 };
                write(kind::CONTINUATION, flags, stream, part, &mut self.control);
            }
        }
        len
    }
}

/// What is worth remembering for the next response: not what differs from object to object, or from
/// second to second, for it would only push out the rest.
fn indexing(name: &[u8]) -> Indexing {
    const ONCE: [&[u8]; 8] = [
        b"age",
        b"content-length",
        b"content-range",
        b"etag",
        b"expires",
        b"last-modified",
        b"location",
        b"x-varnish",
    ];
    if name.eq_ignore_ascii_case(b"set-cookie") {
        Indexing::Never
    } else if ONCE.iter().any(|once| once.eq_ignore_ascii_case(name)) {
        Indexing::Once
    } else {
        Indexing::Kept
    }
}
