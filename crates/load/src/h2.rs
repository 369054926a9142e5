//! HTTP/2 on one connection (RFC 9113): as many requests at a time as there are lanes.
//!
//! A client that only measures needs little of it: it sends heads, never bodies, and lets the peer
//! send as much as it likes by keeping the windows open. Frames are read as they come, those with
//! data without being put together first.

use super::Fault;
use super::h1::Close;
use super::head::HEAD_BYTES_MAX;
use super::hpack;
use super::lane::{Context, Lane, Next, Place};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// The largest window there is (§6.9.1).
const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The window of a connection before any update.
const WINDOW_START: u32 = 65_535;

/// Bytes of a connection that may come before its window is opened again.
const WINDOW_STEP: u32 = 1 << 28;

/// Largest frame that a peer may send when we ask for none larger (§6.5.2).
const FRAME_BYTES_MAX: usize = 16_384;

/// What servers allow at least before their settings are known; RFC 9113 recommends no fewer.
const STREAMS_START: u32 = 100;

/// The frame that is being read.
#[derive(Debug, Default)]
struct Frame {
    head: [u8; 9],
    /// Bytes of the head that are there.
    head_bytes: usize,
    kind: u8,
    flags: u8,
    stream: u32,
    /// Bytes of the payload still to come.
    left: usize,
    /// Of these, padding at the end.
    padding: usize,
    /// Whether the length of the padding is still to be read.
    wants_padding: bool,
}

/// The client's end of a connection.
#[derive(Debug)]
pub(super) struct Http2 {
    pub(super) lanes: Vec<Lane>,
    /// The stream of each lane; 0 for none.
    streams: Vec<u32>,
    next_stream: u32,
    active: u32,
    /// How many streams the peer allows at a time.
    allowed: u32,
    frame: Frame,
    /// Payload of a frame that is put together, or a block of fields.
    payload: Vec<u8>,
    /// The stream of the block of fields that is not complete, and its first frame's flags.
    block: Option<(u32, u8)>,
    received: u32,
    /// The peer takes no more streams, or a session is over that closes its connection.
    closing: bool,
    /// The peer's table has our host name and user agent.
    is_primed: bool,
    /// The peer allows us a table.
    may_index: bool,
    /// The peer took the table away and has not been told that we know (RFC 7541 §4.2).
    owes_update: bool,
    /// Lanes that want to begin when the peer allows it.
    waiting: Vec<(u32, u64)>,
}

impl Http2 {
    pub(super) fn new(connection: u32, lanes: usize) -> Self {
        let lane = |lane| Lane::new(Place { connection, lane });
        Self {
            lanes: (0..lanes as u32).map(lane).collect(),
            streams: vec![0; lanes],
            next_stream: 1,
            active: 0,
            allowed: STREAMS_START,
            frame: Frame::default(),
            payload: Vec::new(),
            block: None,
            received: 0,
            closing: false,
            is_primed: false,
            may_index: true,
            owes_update: false,
            waiting: Vec::new(),
        }
    }

    /// Forgets the connection that is gone; what waits for a stream goes into `waiting`.
    pub(super) fn reset(&mut self, waiting: &mut Vec<(u32, u64)>) {
        waiting.append(&mut self.waiting);
        self.streams.fill(0);
        self.frame = Frame::default();
        self.payload.clear();
        (self.next_stream, self.active, self.allowed) = (1, 0, STREAMS_START);
        (self.block, self.received) = (None, 0);
        (self.closing, self.is_primed, self.may_index) = (false, false, true);
        self.owes_update = false;
    }

    /// Says hello: no pushes, no table, all windows open.
    pub(super) fn open(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        let mut settings = Vec::with_capacity(18);
        for (name, value) in [(1_u16, 0_u32), (2, 0), (4, WINDOW_MAX)] {
            settings.extend_from_slice(&name.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        write_frame(SETTINGS, 0, 0, &settings, out);
        let more = (WINDOW_MAX - WINDOW_START).to_be_bytes();
        write_frame(WINDOW_UPDATE, 0, 0, &more, out);
    }

    /// Sends the next request of `lane`, or remembers it for when the peer allows it.
    pub(super) fn start(&mut self, lane: u32, due: u64, context: &mut Context, out: &mut Vec<u8>) {
        if self.closing || self.active >= self.allowed || self.next_stream >= WINDOW_MAX {
            self.closing |= self.next_stream >= WINDOW_MAX;
            self.waiting.push((lane, due));
            return;
        }
        let index = lane as usize;
        let (Some(lane), Some(stream)) = (self.lanes.get_mut(index), self.streams.get_mut(index))
        else {
            return;
        };
        if !context.begin(lane, due) {
            return;
        }
        *stream = self.next_stream;
        self.active += 1;
        let frame_at = out.len();
        write_frame(HEADERS, END_STREAM | END_HEADERS, self.next_stream, &[], out);
        self.next_stream += 2;
        // :method GET and :scheme are in the static table.
        let scheme = if context.load.target.is_tls() { 0x87 } else { 0x86 };
        if std::mem::take(&mut self.owes_update) {
            out.push(0x20);
        }
        out.extend_from_slice(&[0x82, scheme]);
        // Pseudo-fields come first (RFC 9113 §8.3). Of what is remembered, the last is number 62.
        let is_primed = std::mem::replace(&mut self.is_primed, self.may_index);
        if is_primed {
            out.push(0xbf);
        } else {
            out.push(if self.may_index { 0x41 } else { 0x01 });
            hpack::write_string(context.load.target.authority.as_bytes(), out);
        }
        out.push(0x04);
        hpack::write_string(&context.path, out);
        if is_primed {
            out.push(0xbe);
        } else {
            // Number 58, with a prefix of 6 bits where it is to be remembered, of 4 otherwise.
            out.extend_from_slice(if self.may_index { &[0x7a] } else { &[0x0f, 58 - 15] });
            hpack::write_string(super::USER_AGENT.as_bytes(), out);
        }
        let length = (out.len() - frame_at - 9) as u32;
        out[frame_at..frame_at + 3].copy_from_slice(&length.to_be_bytes()[1..]);
    }

    /// Takes bytes that were received.
    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        context: &mut Context,
        out: &mut Vec<u8>,
    ) -> Result<Close, Fault> {
        while !bytes.is_empty() {
            if self.frame.head_bytes < 9 {
                let count = bytes.len().min(9 - self.frame.head_bytes);
                let (now, rest) = bytes.split_at(count);
                self.frame.head[self.frame.head_bytes..self.frame.head_bytes + count]
                    .copy_from_slice(now);
                self.frame.head_bytes += count;
                bytes = rest;
                if self.frame.head_bytes < 9 {
                    break;
                }
                self.begin_frame()?;
            }
            let count = bytes.len().min(self.frame.left);
            let (mut now, rest) = bytes.split_at(count);
            bytes = rest;
            self.frame.left -= count;
            if self.frame.kind == DATA {
                if self.frame.wants_padding
                    && let Some((padding, after)) = now.split_first()
                {
                    self.frame.wants_padding = false;
                    self.frame.padding = usize::from(*padding);
                    if self.frame.padding > self.frame.left + after.len() {
                        return Err(Fault::Protocol("padding longer than its frame"));
                    }
                    now = after;
                }
                let ahead = self.frame.left + now.len();
                let body = now.len().min(ahead.saturating_sub(self.frame.padding));
                self.receive_data(&now[..body], context)?;
            } else {
                self.payload.extend_from_slice(now);
            }
            if self.frame.left == 0 {
                self.frame.head_bytes = 0;
                self.end_frame(context, out)?;
            }
        }
        let over = self.closing && self.active == 0;
        Ok(if over { Close::ThenWait } else { Close::No })
    }

    fn begin_frame(&mut self) -> Result<(), Fault> {
        let [a, b, c, kind, flags, stream @ ..] = self.frame.head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(Fault::Protocol("a frame larger than what was allowed"));
        }
        let stream = u32::from_be_bytes(stream) & WINDOW_MAX;
        if self.block.is_some_and(|(open, _)| kind != CONTINUATION || open != stream)
            || (kind == CONTINUATION && self.block.is_none())
        {
            return Err(Fault::Protocol("a frame within a block of fields"));
        }
        let frame = &mut self.frame;
        (frame.kind, frame.flags, frame.stream, frame.left) = (kind, flags, stream, length);
        frame.padding = 0;
        frame.wants_padding = kind == DATA && flags & PADDED != 0;
        if kind == DATA {
            self.received = self.received.saturating_add(length as u32);
        } else if kind != CONTINUATION {
            self.payload.clear();
        }
        Ok(())
    }

    fn lane_of(&self, stream: u32) -> Option<usize> {
        (stream != 0).then(|| self.streams.iter().position(|open| *open == stream))?
    }

    fn receive_data(&mut self, bytes: &[u8], context: &mut Context) -> Result<(), Fault> {
        // Data of a stream that we gave up may still be on its way.
        let lane = self.lane_of(self.frame.stream).and_then(|index| self.lanes.get_mut(index));
        if let Some(exchange) = lane.and_then(|lane| lane.exchange.as_mut()) {
            if !exchange.has_begun() {
                return Err(Fault::Protocol("data before a head"));
            }
            exchange.body(bytes, &mut context.meter);
        }
        Ok(())
    }

    fn end_frame(&mut self, context: &mut Context, out: &mut Vec<u8>) -> Result<(), Fault> {
        let (flags, stream) = (self.frame.flags, self.frame.stream);
        match self.frame.kind {
            DATA => {
                if self.received >= WINDOW_STEP {
                    write_frame(WINDOW_UPDATE, 0, 0, &self.received.to_be_bytes(), out);
                    self.received = 0;
                }
                if flags & END_STREAM != 0 {
                    self.finish(stream, context, out);
                }
            }
            HEADERS | CONTINUATION => {
                let first = self.block.map_or(flags, |(_, first)| first);
                if self.payload.len() > HEAD_BYTES_MAX {
                    return Err(Fault::Protocol("a head without an end"));
                }
                if flags & END_HEADERS == 0 {
                    self.block = Some((stream, first));
                    return Ok(());
                }
                self.block = None;
                self.receive_fields(stream, first, context)?;
                if first & END_STREAM != 0 {
                    self.finish(stream, context, out);
                }
            }
            RST_STREAM => {
                if let Some(lane) = self.lane_of(stream) {
                    self.free(lane);
                    if let Some(lane) = self.lanes.get_mut(lane) {
                        lane.abandon();
                    }
                    context.meter.fault(|errors| &mut errors.closed);
                    self.go_on(lane, context, out);
                }
            }
            SETTINGS if flags & ACK == 0 => {
                for setting in self.payload.chunks_exact(6) {
                    let name = u16::from_be_bytes([setting[0], setting[1]]);
                    let value =
                        u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
                    match name {
                        // Two entries of ours take some 150 bytes.
                        1 if value < 4096 => {
                            (self.may_index, self.is_primed, self.owes_update) =
                                (false, false, true);
                        }
                        3 => self.allowed = value.max(1),
                        _ => {}
                    }
                }
                write_frame(SETTINGS, ACK, 0, &[], out);
                self.start_waiting(context, out);
            }
            PUSH_PROMISE => return Err(Fault::Protocol("a push that was not allowed")),
            PING if flags & ACK == 0 => {
                let payload = std::mem::take(&mut self.payload);
                write_frame(PING, ACK, 0, &payload, out);
                self.payload = payload;
            }
            GOAWAY => self.closing = true,
            _ => {}
        }
        Ok(())
    }

    fn receive_fields(
        &mut self,
        stream: u32,
        flags: u8,
        context: &mut Context,
    ) -> Result<(), Fault> {
        let mut block = self.payload.as_slice();
        if flags & PADDED != 0 {
            let (padding, rest) =
                block.split_first().ok_or(Fault::Protocol("a frame that is cut off"))?;
            let end = rest.len().checked_sub(usize::from(*padding));
            block = end
                .and_then(|end| rest.get(..end))
                .ok_or(Fault::Protocol("padding longer than its frame"))?;
        }
        if flags & PRIORITY != 0 {
            block = block.get(5..).ok_or(Fault::Protocol("a frame that is cut off"))?;
        }
        context.meter.head_bytes += block.len() as u64;
        let fields = hpack::decode(block).map_err(Fault::Protocol)?;
        let lane = self.lane_of(stream).and_then(|index| self.lanes.get_mut(index));
        let Some(exchange) = lane.and_then(|lane| lane.exchange.as_mut()) else { return Ok(()) };
        match fields.status {
            // Interim, or a trailer.
            Some(100..=199) => {}
            None if exchange.has_begun() => {}
            None => return Err(Fault::Protocol("a head without a status")),
            Some(status) => {
                exchange.begin(context.now);
                exchange.head(status, fields.signs);
            }
        }
        Ok(())
    }

    fn free(&mut self, lane: usize) {
        if let Some(stream) = self.streams.get_mut(lane)
            && *stream != 0
        {
            *stream = 0;
            self.active -= 1;
        }
    }

    fn finish(&mut self, stream: u32, context: &mut Context, out: &mut Vec<u8>) {
        let Some(index) = self.lane_of(stream) else { return };
        self.free(index);
        if let Some(lane) = self.lanes.get_mut(index) {
            context.complete(lane);
            self.closing |= context.wants_close(lane);
        }
        self.go_on(index, context, out);
    }

    fn go_on(&mut self, index: usize, context: &mut Context, out: &mut Vec<u8>) {
        let Some(lane) = self.lanes.get(index) else { return };
        if let Next::Request(due) = context.next(lane) {
            self.start(index as u32, due, context, out);
        }
        self.start_waiting(context, out);
    }

    fn start_waiting(&mut self, context: &mut Context, out: &mut Vec<u8>) {
        while !self.closing
            && self.active < self.allowed
            && context.issuing
            && let Some((lane, due)) = self.waiting.pop()
        {
            self.start(lane, due, context, out);
        }
    }

    /// Gives up the streams that have been under way since before `limit`.
    pub(super) fn time_out(&mut self, limit: u64, context: &mut Context, out: &mut Vec<u8>) {
        for index in 0..self.lanes.len() {
            let lane = &mut self.lanes[index];
            if lane.exchange.as_ref().is_some_and(|exchange| (1..limit).contains(&exchange.sent)) {
                lane.time_out(context);
                let stream = self.streams[index];
                // CANCEL
                write_frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes(), out);
                self.free(index);
                self.go_on(index, context, out);
            }
        }
    }
}

fn write_frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}
