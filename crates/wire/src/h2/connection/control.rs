//! Frames about the connection, and about the order and the windows of streams.

use super::super::frame::{Header, STREAM_MAX, flag, kind, number, write};
use super::super::limits::HEADER_TABLE_BYTES;
use super::super::settings::write_ack;
use super::super::{Code, Priority};
use super::stream::Closed;
use super::{Connection, Event, LEAVING_PING, Leaving, Reading};

impl Connection {
    pub(super) fn settings(&mut self, header: Header, payload: &[u8]) -> Result<Event, Code> {
        if header.has(flag::ACK) {
            return self.idle_frame();
        }
        let before = self.peer;
        if self.reading == Reading::Settings {
            // Unless it says so now, there is no limit (RFC 9113 §6.5.2).
            self.peer.streams_max = u32::MAX;
        }
        self.peer.take(payload, self.local.conduct)?;
        if self.is_client && payload.as_chunks::<6>().0.contains(&[0, 2, 0, 0, 0, 1]) {
            // ENABLE_PUSH is a client's to say (RFC 9113 §6.5.2).
            return Err(Code::ProtocolError);
        }
        self.reading = Reading::Frames;
        self.encoder.resize((self.peer.header_table_bytes as usize).min(HEADER_TABLE_BYTES));
        let wider = i64::from(self.peer.window_bytes) - i64::from(before.window_bytes);
        if wider != 0 {
            // All windows move, those that are in use too (RFC 9113 §6.9.2).
            let numbers: Vec<u32> = self.streams.keys().copied().collect();
            for number in numbers {
                if let Some(stream) = self.streams.get_mut(&number) {
                    stream.send.widen(wider).map_err(|_| Code::FlowControlError)?;
                }
                self.schedule(number);
            }
        }
        write_ack(&mut self.control);
        self.idle_frame()?;
        Ok(Event::Opened)
    }

    pub(super) fn ping(&mut self, header: Header, payload: &[u8]) -> Result<Event, Code> {
        if !header.has(flag::ACK) {
            write(kind::PING, flag::ACK, 0, payload, &mut self.control);
            return self.idle_frame();
        }
        if self.leaving == Leaving::Announced && payload == LEAVING_PING {
            self.leaving = Leaving::Last(self.last_stream);
            self.write_goaway(self.last_stream, Code::NoError);
            return Ok(Event::Opened);
        }
        // Nothing else was asked for.
        match self.local.conduct.refuses_unasked_pongs {
            true => Err(Code::ProtocolError),
            false => self.idle_frame(),
        }
    }

    pub(super) fn goaway(&mut self, last_stream: u32) -> Result<Event, Code> {
        let is_first = !std::mem::replace(&mut self.is_peer_leaving, true);
        if !self.is_client {
            return Ok(Event::Opened);
        }
        if !is_first {
            self.idle_frame()?;
        }
        let last_stream = last_stream & STREAM_MAX;
        let unseen = self.streams.range(last_stream.saturating_add(1)..).map(|(number, _)| *number);
        for number in unseen.collect::<Vec<_>>() {
            self.close(number, Closed::ByPeer);
        }
        Ok(Event::Leaving(last_stream))
    }

    pub(super) fn window_update(&mut self, stream: u32, bytes: u32) -> Result<Event, Code> {
        let bytes = bytes & STREAM_MAX;
        if stream == 0 {
            if bytes == 0 {
                return Err(Code::ProtocolError);
            }
            self.send.widen(bytes.into()).map_err(|_| Code::FlowControlError)?;
            return Ok(Event::Opened);
        }
        if self.is_idle(stream) {
            return Err(Code::ProtocolError);
        }
        let Some(open) = self.streams.get_mut(&stream) else { return self.idle_frame() };
        if bytes == 0 {
            return self.refuse(stream, Code::ProtocolError);
        }
        if open.send.widen(bytes.into()).is_err() {
            return self.refuse(stream, Code::FlowControlError);
        }
        self.schedule(stream);
        Ok(Event::Opened)
    }

    /// RFC 7540's priorities, which nothing is done with (RFC 9113 §5.3.2).
    pub(super) fn priority(&mut self, stream: u32, payload: &[u8]) -> Result<Event, Code> {
        let code = match payload.first_chunk::<5>() {
            Some(five) if payload.len() == 5 => {
                (number(five) & STREAM_MAX == stream).then_some(Code::ProtocolError)
            }
            _ => Some(Code::FrameSizeError),
        };
        match code {
            None => self.idle_frame(),
            Some(code) if self.streams.contains_key(&stream) => self.refuse(stream, code),
            Some(code) => Err(code),
        }
    }

    /// RFC 9218 §7.1
    pub(super) fn priority_update(&mut self, payload: &[u8]) -> Result<Event, Code> {
        let stream = number(payload) & STREAM_MAX;
        // Zero is no stream, and even ones are those a server pushes, which we never do.
        if stream.is_multiple_of(2) {
            return Err(Code::ProtocolError);
        }
        let priority = Priority::parse(payload.get(4..).unwrap_or_default());
        self.idle_frame()?;
        if self.streams.contains_key(&stream) {
            self.prioritize(stream, priority);
            return Ok(Event::Opened);
        }
        if stream > self.last_stream {
            let known = self.foretold.len() - usize::from(self.foretold.contains_key(&stream));
            if known + self.streams.len() >= self.local.streams_max as usize {
                return Err(Code::ProtocolError);
            }
            self.foretold.insert(stream, priority);
        }
        Ok(Event::Nothing)
    }

    pub(super) fn write_window_update(&mut self, stream: u32, bytes: u32) {
        write(kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes(), &mut self.control);
    }
}
