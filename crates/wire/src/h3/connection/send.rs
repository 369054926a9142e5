//! Responses into frames on streams.

use super::super::frame::{FRAME_HEAD_BYTES_MAX, kind, write_head};
use super::super::limits::DATA_BYTES_MAX;
use super::super::{Code, qpack};
use super::Connection;
use crate::head::is_of_connection;
use crate::outgoing::{End, decimal};
use freshet_http::fields::Fields;
use freshet_http::hop_by_hop;
use freshet_http::message::ResponseHead;
use std::io::Write as _;

/// A DATA frame of which the head was given to its stream; its bytes have to follow at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DataFrame {
    /// Whose bytes.
    pub stream: u64,
    /// How many.
    pub bytes: usize,
    /// How many of that stream are there and follow.
    pub left: usize,
}

impl<P: AsRef<[u8]> + From<Vec<u8>>> Connection<P> {
    /// Makes a stream a step more urgent than its client asked for, as a server may that knows more
    /// (RFC 9218 §8). What the head of its response says goes before that.
    pub fn hasten(&mut self, number: u64) {
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
        number: u64,
        head: &ResponseHead,
        length: Option<u64>,
        ends: bool,
    ) -> Option<usize> {
        let stream = self.streams.get(&number)?;
        if let Some(said) = head.fields.get("priority") {
            self.prioritize(number, stream.priority.with(said));
        }
        let mut status = *b"000";
        let _ = write!(&mut status[..], "{:03}", head.status.min(999));
        let mut block = Block::begin(self.tables.encoder.as_deref_mut(), number);
        block.field(b":status", &status, false);
        block.fields(&head.fields, length.is_some());
        if let Some(length) = length {
            let mut place = [0; 20];
            let digits = decimal(length, &mut place);
            block.field(b"content-length", digits, false);
        }
        let (prefix, fields) = block.end();
        let bytes = self.write_fields(number, &prefix, &fields);
        if ends {
            self.finish(number, None);
        }
        Some(bytes)
    }

    /// `bytes` more of a response's body are there. False when the stream is over.
    pub fn queue(&mut self, number: u64, bytes: usize) -> bool {
        let Some(stream) = self.streams.get_mut(&number) else { return false };
        stream.body.queue(bytes, &mut self.queued);
        self.schedule(number);
        true
    }

    /// Takes back what is queued and was not given to the stream, which comes again later; says how
    /// much.
    pub fn unqueue(&mut self, number: u64) -> usize {
        let Some(stream) = self.streams.get_mut(&number) else { return 0 };
        let bytes = stream.body.unqueue(&mut self.queued);
        self.schedule(number);
        bytes
    }

    /// What is queued is all of the body, and `trailers` are behind it.
    pub fn finish(&mut self, number: u64, trailers: Option<Fields>) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.body.finish(trailers);
        if stream.body.end().is_some() {
            self.end(number);
        }
    }

    /// Ends a stream that is not done. What is queued is forgotten.
    pub fn reset(&mut self, number: u64, code: Code) {
        if self.streams.contains_key(&number) {
            self.quic.stop(number, code as u64);
            self.quic.reset(number, code as u64);
            self.close(number);
        }
    }

    /// As [`reset`](Self::reset), unless the whole response was given to the stream.
    pub fn abandon(&mut self, number: u64, code: Code) {
        if self.streams.get(&number).is_some_and(|stream| !stream.body.is_sent()) {
            self.reset(number, code);
        }
    }

    /// Refuses a request of which nothing was done yet: the client may ask again. False when there
    /// were too many of them and the connection ends.
    pub fn turn_away(&mut self, number: u64) -> bool {
        self.reset(number, Code::RequestRejected);
        let is_calm = self.reset_seen().is_ok();
        if !is_calm {
            self.fail(Code::ExcessiveLoad);
        }
        is_calm
    }

    /// The DATA frame whose turn it is; `None` when nothing can be sent. The session gives its bytes to
    /// [`write`](Self::write) and then calls [`data_done`](Self::data_done).
    pub fn next_data(&mut self) -> Option<DataFrame> {
        while self.has_room() && !self.has_failed {
            let number = self.scheduler.take_turn()?;
            let room = usize::try_from(self.quic.room(number)).unwrap_or(usize::MAX);
            let room = room.saturating_sub(FRAME_HEAD_BYTES_MAX);
            let stream = self.streams.get_mut(&number)?;
            let bytes = stream.body.bytes().min(room).min(DATA_BYTES_MAX);
            if bytes == 0 {
                // Its window is shut: it comes back when that opens.
                stream.is_scheduled = false;
                self.scheduler.remove(number, stream.priority);
                continue;
            }
            let left = stream.body.take(bytes, &mut self.queued);
            let mut head = Vec::with_capacity(FRAME_HEAD_BYTES_MAX);
            write_head(kind::DATA, bytes, &mut head);
            self.quic.write(number, head.into());
            return Some(DataFrame { stream: number, bytes, left });
        }
        None
    }

    /// A piece of a DATA frame.
    pub fn write(&mut self, frame: DataFrame, piece: P) {
        self.quic.write(frame.stream, piece);
    }

    /// All bytes of a DATA frame were written.
    pub fn data_done(&mut self, frame: DataFrame) {
        self.schedule(frame.stream);
        let Some(stream) = self.streams.get(&frame.stream) else { return };
        if stream.body.end().is_some() {
            self.end(frame.stream);
        }
    }

    /// Ends a stream whose body was given to it.
    fn end(&mut self, number: u64) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        if let End::Trailers(trailers) = stream.body.sent() {
            let mut block = Block::begin(self.tables.encoder.as_deref_mut(), number);
            block.fields(&trailers, false);
            let (prefix, fields) = block.end();
            self.write_fields(number, &prefix, &fields);
        }
        self.quic.finish(number);
        self.resets.forgive(1);
        self.close_if_answered(number);
    }

    /// Forgets a request that is answered, once nobody wants more of its body.
    pub(super) fn close_if_answered(&mut self, number: u64) {
        let Some(stream) = self.streams.get(&number) else { return };
        if !stream.body.is_sent() || (!stream.is_read && stream.is_body_wanted) {
            return;
        }
        if stream.is_read {
            self.quic.end_seen(number);
        } else {
            // The client need not send the rest (RFC 9114 §4.1).
            self.quic.stop(number, Code::NoError as u64);
        }
        self.close(number);
    }

    fn write_fields(&mut self, number: u64, prefix: &[u8], fields: &[u8]) -> usize {
        let bytes = prefix.len() + fields.len();
        let mut out = Vec::with_capacity(FRAME_HEAD_BYTES_MAX + bytes);
        write_head(kind::HEADERS, bytes, &mut out);
        out.extend_from_slice(prefix);
        out.extend_from_slice(fields);
        self.quic.write(number, out.into());
        bytes
    }
}

/// Fields that are being compressed, with our table at the client where there is one.
enum Block<'a> {
    Plain(Vec<u8>),
    Referring(&'a mut qpack::Encoder, qpack::Draft),
}

impl<'a> Block<'a> {
    fn begin(encoder: Option<&'a mut qpack::Encoder>, stream: u64) -> Self {
        match encoder {
            Some(encoder) => {
                let draft = encoder.begin(stream);
                Self::Referring(encoder, draft)
            }
            None => {
                let mut out = Vec::with_capacity(256);
                qpack::begin(&mut out);
                Self::Plain(out)
            }
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8], is_secret: bool) {
        match self {
            Self::Plain(out) => qpack::encode(name, value, is_secret, out),
            Self::Referring(encoder, draft) => encoder.field(draft, name, value, is_secret),
        }
    }

    /// Appends fields, but for those that are about a connection.
    fn fields(&mut self, fields: &Fields, has_length: bool) {
        let stripped = fields.contains("connection").then(|| {
            let mut fields = fields.clone();
            hop_by_hop::strip(&mut fields);
            fields
        });
        let mut lower = Vec::new();
        for (name, value) in stripped.as_ref().unwrap_or(fields).iter() {
            let is_length = has_length && name.eq_ignore_ascii_case(b"content-length");
            if !is_length && !is_of_connection(name) {
                lower.clear();
                lower.extend(name.iter().map(u8::to_ascii_lowercase));
                self.field(&lower, value, lower == b"set-cookie");
            }
        }
    }

    /// What the fields begin with, and themselves.
    fn end(self) -> (Vec<u8>, Vec<u8>) {
        match self {
            Self::Plain(all) => (Vec::new(), all),
            Self::Referring(encoder, draft) => encoder.finish(draft),
        }
    }
}
