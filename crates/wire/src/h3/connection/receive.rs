//! Streams into requests.

use super::super::Code;
use super::super::frame::{Head, kind};
use super::super::limits::{BLOCK_FACTOR, FORETOLD_MAX};
use super::super::one_way::{Purpose, Said, control_frame};
use super::{Connection, Event, Place, Step, Stream};
use crate::head::{HeadBuilder, Wrong};
use crate::outgoing::Outgoing;
use freshet_http::message::{ResponseHead, Scheme, Version};
use freshet_http::priority::Priority;
use freshet_quic::StreamEvent;

/// Bits of a stream's number.
const ONE_WAY: u64 = 2;

impl<P: AsRef<[u8]> + From<Vec<u8>>> Connection<P> {
    /// Takes what happened to a stream of QUIC.
    pub(super) fn stream_event(&mut self, event: StreamEvent) -> Result<(), Code> {
        match event {
            StreamEvent::Readable(number) if number & ONE_WAY != 0 => self.one_way(number),
            StreamEvent::Readable(number) => {
                while let Step::Again = self.read(number)? {}
                Ok(())
            }
            StreamEvent::Reset(number, _) if number & ONE_WAY != 0 => self.one_way_ended(number),
            StreamEvent::Reset(number, _) => self.reset_by_client(number),
            StreamEvent::Stopped(number, _)
                if Some(number) == self.control || self.tables.is_ours(number) =>
            {
                Err(Code::ClosedCriticalStream)
            }
            StreamEvent::Stopped(number, _) => self.stopped_by_client(number),
            StreamEvent::Writable(number) => {
                self.schedule(number);
                Ok(())
            }
            StreamEvent::Closed(number) => {
                self.one_way.remove(&number);
                Ok(())
            }
            StreamEvent::Opened => {
                let numbers: Vec<u64> = self.streams.keys().copied().collect();
                numbers.into_iter().for_each(|number| self.schedule(number));
                Ok(())
            }
        }
    }

    /// The client gives a request up.
    fn reset_by_client(&mut self, number: u64) -> Result<(), Code> {
        let is_known = self.streams.contains_key(&number);
        let is_new = number >= self.next_stream;
        self.note_number(number);
        self.quic.reset(number, Code::RequestCancelled as u64);
        match is_known {
            true => self.lost_by_client(number),
            false => self.tables.cancel(number),
        }
        if is_known || is_new { self.reset_seen() } else { Ok(()) }
    }

    /// The client wants no response. Where it says so before it asks, nothing it asks for is looked at: no
    /// window would hold back a response that goes nowhere.
    fn stopped_by_client(&mut self, number: u64) -> Result<(), Code> {
        let is_known = self.streams.contains_key(&number);
        // What was answered is not read any more.
        if !is_known && self.quic.readable(number).is_none() {
            return Ok(());
        }
        self.note_number(number);
        self.quic.stop(number, Code::RequestCancelled as u64);
        match is_known {
            true => self.lost_by_client(number),
            false => self.tables.cancel(number),
        }
        self.reset_seen()
    }

    fn lost_by_client(&mut self, number: u64) {
        let was_open = self.streams.get(&number).is_some_and(|stream| stream.is_open);
        self.close(number);
        if was_open {
            self.events.push_back(Event::Reset { stream: number, by_client: true });
        }
    }

    fn note_number(&mut self, number: u64) {
        self.next_stream = self.next_stream.max(number + 4);
    }

    /// Reads what is next of a request.
    pub(super) fn read(&mut self, number: u64) -> Result<Step, Code> {
        let Some((bytes, ends)) = self.quic.readable(number) else { return Ok(Step::Wait) };
        let has_bytes = !bytes.is_empty();
        if !self.streams.contains_key(&number) && !self.begin_request(number)? {
            return Ok(Step::Wait);
        }
        let is_within = self.streams.get(&number).is_some_and(|stream| stream.frame_left > 0);
        match (has_bytes, ends) {
            (true, _) if is_within => self.payload(number),
            (true, _) => self.frame(number, ends),
            (false, true) => self.ended(number).map(|()| Step::Wait),
            (false, false) => Ok(Step::Wait),
        }
    }

    /// A request's first bytes came. False when it is not looked at.
    fn begin_request(&mut self, number: u64) -> Result<bool, Code> {
        if self.leaving.from().is_some_and(|end| number >= end) {
            self.quic.stop(number, Code::RequestRejected as u64);
            self.quic.reset(number, Code::RequestRejected as u64);
            self.idle_frame()?;
            return Ok(false);
        }
        self.note_number(number);
        let priority = self.foretold.remove(&number).unwrap_or_default();
        let stream = Stream {
            place: Place::Head,
            frame_left: 0,
            is_data: false,
            is_read: false,
            begun: self.now,
            length_left: None,
            is_body_wanted: true,
            untaken: 0,
            is_open: false,
            priority,
            body: Outgoing::new(),
            is_scheduled: false,
        };
        self.streams.insert(number, Box::new(stream));
        Ok(true)
    }

    /// Reads a frame's head, and its payload where that has to be there at once.
    fn frame(&mut self, number: u64, ends: bool) -> Result<Step, Code> {
        let Some((bytes, _)) = self.quic.readable(number) else { return Ok(Step::Wait) };
        let Some(head) = Head::read(bytes) else {
            return if ends { Err(Code::FrameError) } else { Ok(Step::Wait) };
        };
        let Some(stream) = self.streams.get_mut(&number) else { return Ok(Step::Wait) };
        match head.kind {
            kind::HEADERS if stream.place == Place::Behind => Err(Code::FrameUnexpected),
            kind::HEADERS => self.fields(number, head, ends),
            kind::DATA if stream.place != Place::Body => Err(Code::FrameUnexpected),
            kind::DATA => {
                (stream.frame_left, stream.is_data) = (head.len, true);
                self.done_with(number, head.bytes);
                if head.len == 0 {
                    self.idle_frame()?;
                }
                Ok(Step::Again)
            }
            kind::CANCEL_PUSH
            | kind::SETTINGS
            | kind::PUSH_PROMISE
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE
            | kind::PRIORITY_UPDATE_PUSH => Err(Code::FrameUnexpected),
            _ if head.is_of_http2() => Err(Code::FrameUnexpected),
            _ => {
                // Something we do not know, which is passed over (RFC 9114 §9).
                (stream.frame_left, stream.is_data) = (head.len, false);
                self.done_with(number, head.bytes);
                self.idle_frame()?;
                Ok(Step::Again)
            }
        }
    }

    /// A HEADERS frame: the request's head, or trailers.
    fn fields(&mut self, number: u64, head: Head, ends: bool) -> Result<Step, Code> {
        let limits = self.local.limits;
        let bytes_max = limits.head_bytes_max.saturating_mul(BLOCK_FACTOR) as u64;
        if head.len > bytes_max {
            return Err(Code::ExcessiveLoad);
        }
        let Some((bytes, _)) = self.quic.readable(number) else { return Ok(Step::Wait) };
        let end = head.bytes + head.len as usize;
        let Some(block) = bytes.get(head.bytes..end) else {
            return if ends { Err(Code::FrameError) } else { Ok(Step::Wait) };
        };
        let ends_here = ends && bytes.len() == end;
        let Some(stream) = self.streams.get_mut(&number) else { return Ok(Step::Wait) };
        let is_trailers = stream.place != Place::Head;
        let read = self.tables.decode(number, block, (&limits, is_trailers))?;
        let Some((builder, required)) = read else { return Ok(Step::Wait) };
        self.done_with(number, end);
        self.tables.decoded(number, required);
        if is_trailers {
            return self.trailers(number, builder);
        }
        self.request(number, builder, head.len as usize, ends_here)?;
        Ok(Step::Again)
    }

    fn trailers(&mut self, number: u64, builder: HeadBuilder<'_>) -> Result<Step, Code> {
        if builder.finish_trailers().is_err() {
            self.refuse(number, Code::MessageError)?;
            return Ok(Step::Wait);
        }
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.place = Place::Behind;
        }
        Ok(Step::Again)
    }

    fn request(
        &mut self,
        number: u64,
        mut builder: HeadBuilder<'_>,
        head_bytes: usize,
        ends: bool,
    ) -> Result<(), Code> {
        let result = builder.finish(Version::Http3, Scheme::Https, ends, head_bytes);
        let Some(stream) = self.streams.get_mut(&number) else { return Ok(()) };
        stream.place = Place::Body;
        stream.is_read = ends;
        match result {
            Ok(request) => {
                stream.is_open = true;
                stream.length_left = request.length;
                let was_told = stream.priority != Priority::default();
                let priority = if was_told { stream.priority } else { request.priority };
                self.idle_frames.forgive(1);
                self.prioritize(number, priority);
                self.events.push_back(Event::Request(number, Box::new(request)));
            }
            Err(Wrong::Malformed | Wrong::MissingBody) => {
                self.refuse(number, Code::MessageError)?;
                let said = Box::new(builder.said());
                let refused = Event::Refused { stream: number, status: None, head_bytes: 0, said };
                self.events.push_back(refused);
            }
            Err(Wrong::Status(status)) => {
                stream.is_body_wanted = false;
                let sent = self.respond(number, &ResponseHead::new(status), Some(0), true);
                let (status, head_bytes) = (Some(status), sent.unwrap_or(0));
                let said = Box::new(builder.said());
                let refused = Event::Refused { stream: number, status, head_bytes, said };
                self.events.push_back(refused);
            }
        }
        Ok(())
    }

    /// Bytes of a body, or of a frame we do not know.
    fn payload(&mut self, number: u64) -> Result<Step, Code> {
        let Some((bytes, _)) = self.quic.readable(number) else { return Ok(Step::Wait) };
        let Some(stream) = self.streams.get_mut(&number) else { return Ok(Step::Wait) };
        let left = usize::try_from(stream.frame_left).unwrap_or(usize::MAX);
        let count = bytes.len().min(left);
        let Some(payload) = bytes.get(..count) else { return Ok(Step::Wait) };
        stream.frame_left -= count as u64;
        if !stream.is_data {
            self.done_with(number, count);
            return Ok(Step::Again);
        }
        let left = stream.length_left.map(|left| left.checked_sub(count as u64));
        stream.length_left = left.flatten();
        if matches!(left, Some(None)) {
            self.refuse(number, Code::MessageError)?;
            return Ok(Step::Wait);
        }
        if stream.is_body_wanted {
            stream.untaken += count as u64;
            self.events.push_back(Event::Data(number, payload.to_vec()));
            self.idle_frames.forgive(1);
            self.quic.consume(number, count);
        } else {
            self.done_with(number, count);
        }
        Ok(Step::Again)
    }

    /// Nothing follows on a request's stream.
    fn ended(&mut self, number: u64) -> Result<(), Code> {
        self.quic.end_seen(number);
        let Some(stream) = self.streams.get_mut(&number) else { return Ok(()) };
        if stream.frame_left > 0 {
            return Err(Code::FrameError);
        }
        if stream.place == Place::Head {
            return self.refuse(number, Code::RequestIncomplete);
        }
        if matches!(stream.length_left, Some(1..)) {
            return self.refuse(number, Code::MessageError);
        }
        let was_read = std::mem::replace(&mut stream.is_read, true);
        if !was_read {
            self.events.push_back(Event::End(number));
        }
        self.close_if_answered(number);
        Ok(())
    }

    /// Bytes are read that nobody keeps.
    fn done_with(&mut self, number: u64, count: usize) {
        self.quic.consume(number, count);
        self.quic.take(number, count as u64);
    }

    /// Ends a stream because of something the client did.
    fn refuse(&mut self, number: u64, code: Code) -> Result<(), Code> {
        self.quic.stop(number, code as u64);
        self.quic.reset(number, code as u64);
        let was_open = self.streams.get(&number).is_some_and(|stream| stream.is_open);
        self.close(number);
        if was_open {
            self.events.push_back(Event::Reset { stream: number, by_client: false });
        }
        self.reset_seen()
    }

    /// Reads a stream one way.
    fn one_way(&mut self, number: u64) -> Result<(), Code> {
        loop {
            let Some((bytes, ends)) = self.quic.readable(number) else { return Ok(()) };
            let Some(purpose) = self.one_way.get(&number).copied() else {
                let Some((purpose, count)) = Purpose::read(bytes)? else {
                    return if ends { self.one_way_ended(number) } else { Ok(()) };
                };
                self.done_with(number, count);
                self.begin_one_way(number, purpose)?;
                continue;
            };
            let count = match purpose {
                Purpose::Unknown => return Ok(()),
                Purpose::Control => match control_frame(bytes, self.has_settings)? {
                    Some((said, count)) => {
                        self.take_said(said)?;
                        count
                    }
                    None => 0,
                },
                Purpose::Encoder | Purpose::Decoder => self.table_stream(number, purpose)?,
            };
            if count > 0 {
                self.done_with(number, count);
                if purpose == Purpose::Encoder {
                    self.read_waiting()?;
                }
                continue;
            }
            return if ends { self.one_way_ended(number) } else { Ok(()) };
        }
    }

    /// It is known what a stream is for.
    fn begin_one_way(&mut self, number: u64, purpose: Purpose) -> Result<(), Code> {
        if purpose == Purpose::Unknown {
            self.quic.stop(number, Code::StreamCreationError as u64);
            return self.idle_frame();
        }
        if self.one_way.values().any(|other| *other == purpose) {
            return Err(Code::StreamCreationError);
        }
        self.one_way.insert(number, purpose);
        Ok(())
    }

    fn one_way_ended(&mut self, number: u64) -> Result<(), Code> {
        self.quic.end_seen(number);
        match self.one_way.contains_key(&number) {
            true => Err(Code::ClosedCriticalStream),
            false => self.idle_frame(),
        }
    }

    /// Takes what was said on the control stream.
    fn take_said(&mut self, said: Said) -> Result<(), Code> {
        match said {
            Said::Settings(settings) => {
                self.has_settings = true;
                self.tables.set_peer_max(settings.table_bytes_max);
                return Ok(());
            }
            // It may be said again, with fewer (RFC 9114 §5.2).
            Said::Goaway(push) if self.peer_leaving.is_some_and(|last| push > last) => {
                return Err(Code::IdError);
            }
            Said::Goaway(push) => self.peer_leaving = Some(push),
            Said::MaxPush(count) if count < self.pushes => return Err(Code::IdError),
            Said::MaxPush(count) => self.pushes = count,
            // A request that may not be made yet has no place among others (RFC 9218 §7.2).
            Said::Priority(number, _) if !self.quic.may_be_opened(number) => {
                return Err(Code::IdError);
            }
            Said::Priority(number, priority) => {
                if self.streams.contains_key(&number) {
                    self.prioritize(number, priority);
                } else if number >= self.next_stream && self.foretold.len() < FORETOLD_MAX {
                    self.foretold.insert(number, priority);
                }
            }
            Said::Nothing => {}
        }
        self.idle_frame()
    }

    /// `bytes` of a request's body are not needed any more: the client may send as many others.
    pub fn take_body(&mut self, number: u64, bytes: u64) {
        // A stream that is over gave back all at its end.
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let bytes = bytes.min(stream.untaken);
        stream.untaken -= bytes;
        self.quic.take(number, bytes);
    }

    /// Nobody takes what is left of a request's body.
    pub fn refuse_body(&mut self, number: u64) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.is_body_wanted = false;
        let untaken = std::mem::take(&mut stream.untaken);
        self.quic.take(number, untaken);
        self.close_if_answered(number);
    }
}
