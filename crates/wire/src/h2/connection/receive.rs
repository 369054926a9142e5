//! Frames of streams: HEADERS, CONTINUATION, DATA, RST_STREAM.

use super::super::frame::{FRAME_HEADER_BYTES, Header, flag, number, without_padding};
use super::super::limits::{BLOCK_FACTOR, BLOCK_FRAMES_MAX};
use super::super::window::{ReceiveWindow, SendWindow};
use super::super::{Code, Priority};
use super::{Closed, Connection, Event, Leaving, Stream};
use crate::head::{HeadBuilder, Wrong};
use crate::outgoing::Outgoing;
use freshet_http::message::{ResponseHead, Version};
use std::time::Duration;

/// Compressed fields of one head.
pub(super) struct Block {
    pub(super) stream: u32,
    /// Whether the peer sends nothing after them.
    pub(super) ends: bool,
    pub(super) purpose: Purpose,
    bytes: Vec<u8>,
    frames: u32,
    /// When its first frame came.
    pub(super) begun: Duration,
}

/// What is done with fields. They are read in any case, for later ones refer to them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Purpose {
    /// They are a request.
    Request,
    /// They are a response.
    Answer,
    /// They are behind a body.
    Trailers,
    /// The stream is ended.
    Refuse(Code),
    /// The connection is.
    Fail(Code),
    /// Nothing: we ended the stream, or do not look at it.
    Ignore,
}

impl Connection {
    pub(super) fn headers(&mut self, header: Header, payload: &[u8]) -> Result<Event, Code> {
        let stream = header.stream;
        let mut purpose = self.purpose(header)?;
        if purpose == Purpose::Request {
            self.last_stream = stream;
        }
        let mut fields = without_padding(header, payload).map_err(|_| Code::ProtocolError)?;
        if header.has(flag::PRIORITY) {
            // RFC 7540's priorities, which are only looked over.
            let (dependency, rest) = fields.split_at_checked(5).ok_or(Code::ProtocolError)?;
            if number(dependency) & super::STREAM_MAX == stream {
                purpose = Purpose::Refuse(Code::ProtocolError);
            }
            fields = rest;
        }
        let ends = header.has(flag::END_STREAM);
        let begun = self.now;
        let block = Block { stream, ends, purpose, bytes: Vec::new(), frames: 0, begun };
        if header.has(flag::END_HEADERS) {
            return self.fields(&block, fields);
        }
        self.block = Some(block);
        self.extend_block(fields)
    }

    /// What the fields of a HEADERS frame are for.
    fn purpose(&self, header: Header) -> Result<Purpose, Code> {
        let number = header.stream;
        if let Some(stream) = self.streams.get(&number) {
            return Ok(if !stream.is_remote_open {
                Purpose::Refuse(Code::StreamClosed)
            } else if stream.asked.as_ref().is_some_and(|asked| !asked.is_answered) {
                Purpose::Answer
            } else if header.has(flag::END_STREAM) {
                Purpose::Trailers
            } else if self.local.conduct.fails_on_open_trailers {
                Purpose::Fail(Code::ProtocolError)
            } else {
                Purpose::Refuse(Code::ProtocolError)
            });
        }
        if number.is_multiple_of(2) {
            return Err(Code::ProtocolError);
        }
        if number <= self.last_stream {
            return Ok(match self.closed.get(number) {
                Some(Closed::Whole) => Purpose::Fail(Code::StreamClosed),
                Some(Closed::ByPeer) => Purpose::Refuse(Code::StreamClosed),
                Some(Closed::ByUs) => Purpose::Ignore,
                // One of ours, long forgotten.
                None if self.is_client => Purpose::Ignore,
                // It was passed over, or is long forgotten.
                None => Purpose::Fail(Code::ProtocolError),
            });
        }
        if self.is_client {
            return Err(Code::ProtocolError);
        }
        Ok(if matches!(self.leaving, Leaving::Last(last) if number > last) {
            Purpose::Ignore
        } else {
            Purpose::Request
        })
    }

    pub(super) fn continuation(&mut self, header: Header, payload: &[u8]) -> Result<Event, Code> {
        self.extend_block(payload)?;
        if !header.has(flag::END_HEADERS) {
            return Ok(Event::Nothing);
        }
        let Some(block) = self.block.take() else { return Err(Code::ProtocolError) };
        self.fields(&block, &block.bytes)
    }

    fn extend_block(&mut self, fields: &[u8]) -> Result<Event, Code> {
        let bytes_max = self.local.limits.head_bytes_max.saturating_mul(BLOCK_FACTOR);
        let Some(block) = &mut self.block else { return Err(Code::ProtocolError) };
        block.frames += 1;
        if block.frames > BLOCK_FRAMES_MAX || block.bytes.len() + fields.len() > bytes_max {
            return Err(Code::EnhanceYourCalm);
        }
        block.bytes.extend_from_slice(fields);
        Ok(Event::Nothing)
    }

    /// All fields of a head are there.
    fn fields(&mut self, block: &Block, bytes: &[u8]) -> Result<Event, Code> {
        if self.is_client {
            return self.answer_fields(block, bytes);
        }
        let limits = self.local.limits;
        let mut builder = HeadBuilder::new(&limits, block.purpose == Purpose::Trailers);
        let read = self.decoder.decode(bytes, |name, value| builder.field(name, value));
        read.map_err(|_| Code::CompressionError)?;
        match block.purpose {
            Purpose::Request | Purpose::Answer => self.request(block, builder, bytes.len()),
            Purpose::Trailers => match builder.finish_trailers() {
                Ok(()) => self.body_ended(block.stream),
                Err(_) => self.refuse(block.stream, Code::ProtocolError),
            },
            Purpose::Refuse(code) => self.refuse(block.stream, code),
            Purpose::Fail(code) => Err(code),
            Purpose::Ignore => self.idle_frame(),
        }
    }

    fn request(
        &mut self,
        block: &Block,
        mut builder: HeadBuilder<'_>,
        head_bytes: usize,
    ) -> Result<Event, Code> {
        let number = block.stream;
        let foretold = self.foretold.remove(&number);
        // Lower ones that were never opened never will be.
        self.foretold = self.foretold.split_off(&number);
        if self.streams.len() >= self.local.streams_max as usize {
            return self.refuse(number, Code::RefusedStream);
        }
        match builder.finish(Version::Http2, self.scheme, block.ends, head_bytes) {
            Ok(request) => {
                self.calm.useful_frame();
                let priority = foretold.unwrap_or(request.priority);
                self.open(number, priority, request.length, block.ends);
                Ok(Event::Request(number, Box::new(request)))
            }
            Err(Wrong::MissingBody) if self.local.conduct.fails_on_missing_body => {
                Err(Code::ProtocolError)
            }
            Err(Wrong::Malformed | Wrong::MissingBody) => {
                self.refuse(number, Code::ProtocolError)?;
                let said = Box::new(builder.said());
                Ok(Event::Refused { stream: number, status: None, head_bytes: 0, said })
            }
            Err(Wrong::Status(status)) => {
                self.open(number, Priority::default(), None, block.ends);
                self.refuse_body(number);
                let sent = self.respond(number, &ResponseHead::new(status), Some(0), true);
                let (status, head_bytes) = (Some(status), sent.unwrap_or(0));
                let said = Box::new(builder.said());
                Ok(Event::Refused { stream: number, status, head_bytes, said })
            }
        }
    }

    pub(super) fn open(
        &mut self,
        number: u32,
        priority: Priority,
        length: Option<u64>,
        ends: bool,
    ) {
        let stream = Stream {
            is_remote_open: !ends,
            length_left: length,
            is_body_wanted: !ends,
            untaken: 0,
            padding: 0,
            receive: ReceiveWindow::new(
                self.local.stream_window_bytes,
                self.local.conduct.opens_windows_at_once,
            ),
            send: SendWindow::new(self.peer.window_bytes),
            priority,
            body: Outgoing::new(),
            is_scheduled: false,
            asked: None,
        };
        self.streams.insert(number, stream);
    }

    pub(super) fn data(&mut self, header: Header, payload: &[u8]) -> Result<Event, Code> {
        let number = header.stream;
        if self.is_idle(number) {
            return Err(Code::ProtocolError);
        }
        let content = without_padding(header, payload).map_err(|_| Code::ProtocolError)?;
        let padding = (payload.len() - content.len()) as u32;
        // Padding counts (RFC 9113 §6.9.1).
        if !self.receive.receive(header.len as u32) {
            return Err(Code::FlowControlError);
        }
        if self.local.conduct.opens_windows_at_once {
            self.give_back(header.len as u32);
        }
        let Some(stream) = self.streams.get_mut(&number) else {
            self.give_back_taken(header.len as u32);
            let is_by_us = self.closed.get(number) == Some(Closed::ByUs);
            // What was on its way when we lost interest is as much as its window let in, in frames of any size.
            let is_let_in = is_by_us && !content.is_empty() && {
                let left = self.let_in_bytes.checked_sub(header.len as u64);
                left.map(|left| self.let_in_bytes = left).is_some()
            };
            if !is_let_in {
                self.idle_frame()?;
            }
            if !is_by_us {
                self.write_rst(number, Code::StreamClosed);
            }
            return Ok(Event::Nothing);
        };
        if stream.asked.as_ref().is_some_and(|asked| !asked.is_answered) {
            self.give_back_taken(header.len as u32);
            return self.refuse(number, Code::ProtocolError);
        }
        if !stream.is_remote_open || !stream.receive.receive(header.len as u32) {
            let code =
                if stream.is_remote_open { Code::FlowControlError } else { Code::StreamClosed };
            self.give_back_taken(header.len as u32);
            return self.refuse(number, code);
        }
        let ends = header.has(flag::END_STREAM);
        let left = stream.length_left.map(|left| left.checked_sub(content.len() as u64));
        if matches!(left, Some(None)) || (ends && matches!(left, Some(Some(1..)))) {
            self.give_back_taken(header.len as u32);
            return self.refuse(number, Code::ProtocolError);
        }
        stream.length_left = left.flatten();
        stream.is_remote_open &= !ends;
        stream.untaken += header.len as u32;
        let is_wanted = stream.is_body_wanted;
        // What nobody takes later is taken now.
        if !is_wanted || content.is_empty() {
            self.take_body(number, header.len as u32);
        } else {
            stream.padding += padding;
        }
        if ends {
            self.close_if_answered(number);
        }
        if !is_wanted {
            return match (ends, content.is_empty()) {
                (true, _) => Ok(Event::End(number)),
                (false, true) => self.idle_frame(),
                (false, false) => Ok(Event::Nothing),
            };
        }
        let start = FRAME_HEADER_BYTES + usize::from(header.has(flag::PADDED));
        let place = start..start + content.len();
        if content.is_empty() && !ends {
            return self.idle_frame();
        }
        self.calm.useful_frame();
        Ok(Event::Data(number, place, ends))
    }

    pub(super) fn body_ended(&mut self, number: u32) -> Result<Event, Code> {
        let Some(stream) = self.streams.get_mut(&number) else { return Ok(Event::Nothing) };
        if matches!(stream.length_left, Some(1..)) {
            return self.refuse(number, Code::ProtocolError);
        }
        stream.is_remote_open = false;
        self.calm.useful_frame();
        self.close_if_answered(number);
        Ok(Event::End(number))
    }

    pub(super) fn rst_stream(&mut self, number: u32, code: u32) -> Result<Event, Code> {
        if self.is_idle(number) {
            return Err(Code::ProtocolError);
        }
        if !self.streams.contains_key(&number) {
            return self.idle_frame();
        }
        self.close(number, Closed::ByPeer);
        if !self.calm.reset(self.now) {
            return Err(Code::EnhanceYourCalm);
        }
        Ok(Event::Reset { stream: number, by_peer: Some(code) })
    }

    /// `bytes` of a stream's body, as they were given with [`Event::Data`], are not needed any more:
    /// the client may send as many others.
    pub fn take_body(&mut self, number: u32, bytes: u32) {
        // A stream that is over gave back all at its end.
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let bytes = (bytes + std::mem::take(&mut stream.padding)).min(stream.untaken);
        stream.untaken -= bytes;
        if bytes > 0
            && let Some(more) = stream.receive.take(bytes)
            && stream.is_remote_open
            && stream.length_left != Some(0)
        {
            self.write_window_update(number, more);
        }
        self.give_back_taken(bytes);
    }

    /// Nobody takes what is left of a stream's body.
    pub fn refuse_body(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.is_body_wanted = false;
        let untaken = stream.untaken;
        if stream.is_answered() {
            return self.release(number);
        }
        self.take_body(number, untaken);
    }

    /// Lets the client send as much more on the connection as nobody needs any more, unless that was
    /// done when it came.
    pub(super) fn give_back_taken(&mut self, bytes: u32) {
        if !self.local.conduct.opens_windows_at_once {
            self.give_back(bytes);
        }
    }

    /// Whether a stream has not begun.
    pub(super) fn is_idle(&self, number: u32) -> bool {
        number.is_multiple_of(2) || number > self.last_stream
    }
}
