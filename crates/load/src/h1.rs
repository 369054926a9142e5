//! HTTP/1.1 on one connection: one request at a time.

use super::Fault;
use super::head::{self, Chunks, Framing, HEAD_BYTES_MAX};
use super::lane::{Context, Lane, Next, Place};

/// Where the response is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Nothing was asked.
    Idle,
    Head,
    Length(u64),
    Chunked(Chunks),
    UntilClose,
}

/// The client's end of a connection.
#[derive(Debug)]
pub(super) struct Http1 {
    pub(super) lane: Lane,
    state: State,
    /// A head that is not complete yet.
    partial: Vec<u8>,
    keep: bool,
}

impl Http1 {
    pub(super) fn new(connection: u32) -> Self {
        let lane = Lane::new(Place { connection, lane: 0 });
        Self { lane, state: State::Idle, partial: Vec::new(), keep: true }
    }

    /// Forgets the connection that is gone, not the session.
    pub(super) fn reset(&mut self) {
        self.state = State::Idle;
        self.partial.clear();
        self.keep = true;
    }

    /// Sends the next request, which was due at `due`; false when there are no more.
    pub(super) fn start(&mut self, due: u64, context: &mut Context, out: &mut Vec<u8>) -> bool {
        if !context.begin(&mut self.lane, due) {
            return false;
        }
        out.extend_from_slice(b"GET ");
        out.extend_from_slice(&context.path);
        out.extend_from_slice(&context.load.request_tail);
        self.state = State::Head;
        true
    }

    /// Body bytes ahead that nobody will look at: they may be thrown away unread.
    pub(super) fn skippable(&self) -> u64 {
        match (self.state, &self.lane.exchange) {
            (State::Length(left), Some(exchange)) if !exchange.is_checked() => left,
            _ => 0,
        }
    }

    /// Notes that `bytes` (at most [`Http1::skippable`]) were thrown away. True when the connection
    /// is to be closed.
    pub(super) fn skip(&mut self, bytes: u64, context: &mut Context, out: &mut Vec<u8>) -> Close {
        let State::Length(left) = self.state else { return Close::No };
        if let Some(exchange) = &mut self.lane.exchange {
            exchange.skip(bytes, &mut context.meter);
        }
        match left.saturating_sub(bytes) {
            0 => self.finish(context, out),
            left => {
                self.state = State::Length(left);
                Close::No
            }
        }
    }

    /// Takes bytes that were received.
    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        context: &mut Context,
        out: &mut Vec<u8>,
    ) -> Result<Close, Fault> {
        while !bytes.is_empty() {
            let Some(exchange) = &mut self.lane.exchange else {
                return Err(Fault::Protocol("bytes that nobody asked for"));
            };
            exchange.begin(context.now);
            match &mut self.state {
                State::Idle => return Err(Fault::Protocol("bytes that nobody asked for")),
                State::Head => {
                    let used = self.receive_head(bytes, context)?;
                    bytes = &bytes[used..];
                }
                State::Length(left) => {
                    let count = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    let (body, rest) = bytes.split_at(count);
                    exchange.body(body, &mut context.meter);
                    *left -= count as u64;
                    bytes = rest;
                }
                State::Chunked(chunks) => {
                    let (used, data) = chunks.take(bytes).map_err(Fault::Protocol)?;
                    exchange.body(&bytes[used - data..used], &mut context.meter);
                    bytes = &bytes[used..];
                }
                State::UntilClose => {
                    exchange.body(bytes, &mut context.meter);
                    bytes = &[];
                }
            }
            if matches!(self.state, State::Length(0) | State::Chunked(Chunks::Done)) {
                if !bytes.is_empty() {
                    return Err(Fault::Protocol("bytes behind the end of a response"));
                }
                return Ok(self.finish(context, out));
            }
        }
        Ok(Close::No)
    }

    /// Reads a head, or part of one; how many bytes of `bytes` belong to it.
    fn receive_head(&mut self, bytes: &[u8], context: &mut Context) -> Result<usize, Fault> {
        let before = self.partial.len();
        let parsed = if before == 0 {
            head::parse(bytes)
        } else {
            self.partial.extend_from_slice(bytes);
            head::parse(&self.partial)
        };
        let Some(head) = parsed.map_err(Fault::Protocol)? else {
            if before == 0 {
                self.partial.extend_from_slice(bytes);
            }
            if self.partial.len() > HEAD_BYTES_MAX {
                return Err(Fault::Protocol("a head without an end"));
            }
            return Ok(bytes.len());
        };
        self.partial.clear();
        context.meter.head_bytes += head.bytes as u64;
        if head.status >= 200 {
            if let Some(exchange) = &mut self.lane.exchange {
                exchange.head(head.status, head.signs);
            }
            self.keep = head.keep;
            self.state = match head.framing {
                Framing::Length(length) => State::Length(length),
                Framing::Chunked => State::Chunked(Chunks::START),
                Framing::UntilClose => State::UntilClose,
            };
        }
        Ok(head.bytes - before)
    }

    /// Takes note that the peer has closed.
    pub(super) fn end(&mut self, context: &mut Context, out: &mut Vec<u8>) -> Result<Close, Fault> {
        match self.state {
            State::UntilClose => Ok(self.finish(context, out)),
            _ => Err(Fault::Closed),
        }
    }

    fn finish(&mut self, context: &mut Context, out: &mut Vec<u8>) -> Close {
        self.state = State::Idle;
        context.complete(&mut self.lane);
        let close = !self.keep || context.wants_close(&self.lane);
        match context.next(&self.lane) {
            Next::Request(due) if close => Close::ThenRequest(due),
            Next::Request(due) => {
                self.start(due, context, out);
                Close::No
            }
            Next::Wait if close => Close::ThenWait,
            Next::Wait => Close::No,
        }
    }
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Close {
    /// It goes on.
    No,
    /// It is closed, and made again when its lane is woken.
    ThenWait,
    /// It is closed and made again for a request that was due at this time.
    ThenRequest(u64),
}
