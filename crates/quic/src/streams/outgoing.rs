//! What is sent on streams.

use super::super::error::{Error, code};
use super::super::stream::{Sending, Told};
use super::{Due, Stream, StreamEvent, Streams, Turns};
use freshet_http::priority::Priority;
use std::ops::Range;

impl<P: AsRef<[u8]>> Streams<P> {
    /// The client wants no more of a stream.
    pub(crate) fn stop_by_peer(&mut self, number: u64, code: u64) -> Result<(), Error> {
        let Some(send) = self.sending(number)? else { return Ok(()) };
        let (unsent, kept) = (send.buffer.end() - send.buffer.sent(), send.buffer.kept());
        if send.reset(code) {
            self.unsent -= unsent;
            self.release(kept);
            self.due.insert(Due::ResetStream(number));
            self.events.push_back(StreamEvent::Stopped(number, code));
        }
        self.schedule(number);
        Ok(())
    }

    /// More may be sent on a stream.
    pub(crate) fn max_stream_data(&mut self, number: u64, limit: u64) -> Result<bool, Error> {
        let Some(send) = self.sending(number)? else { return Ok(false) };
        let grows = limit > send.limit;
        if grows {
            send.limit = limit;
            self.schedule(number);
            self.events.push_back(StreamEvent::Writable(number));
        }
        Ok(grows)
    }

    /// More may be sent on all.
    pub(crate) fn max_data(&mut self, limit: u64) -> bool {
        let grows = limit > self.sent_max;
        if grows {
            self.sent_max = limit;
            self.has_opened = true;
        }
        grows
    }

    /// The half of a stream that we send, of a stream that is not over.
    fn sending(&mut self, number: u64) -> Result<Option<&mut Sending<P>>, Error> {
        let is_wrong = match number & 3 {
            0 => {
                self.open_by_peer(number)?;
                false
            }
            3 => number >> 2 >= self.own_opened,
            _ => true,
        };
        if is_wrong {
            return Err(Error::new(code::STREAM_STATE_ERROR, "nothing is sent on this stream"));
        }
        Ok(self.streams.get_mut(&number).and_then(|stream| stream.send.as_mut()))
    }

    /// Appends a piece to a stream; false when it is over.
    pub(crate) fn write(&mut self, number: u64, piece: P) -> bool {
        let Some(send) = self.own_half(number).filter(|send| send.is_open()) else { return false };
        let bytes = piece.as_ref().len() as u64;
        send.buffer.write(piece);
        self.unsent += bytes;
        self.kept += bytes;
        self.schedule(number);
        true
    }

    /// All of a stream is written.
    pub(crate) fn finish(&mut self, number: u64) {
        if let Some(send) = self.own_half(number) {
            send.finish();
            self.schedule(number);
        }
    }

    /// Ends a stream before its time.
    pub(crate) fn reset(&mut self, number: u64, code: u64) {
        let Some(send) = self.own_half(number) else { return };
        let (unsent, kept) = (send.buffer.end() - send.buffer.sent(), send.buffer.kept());
        if send.reset(code) {
            self.unsent -= unsent;
            self.release(kept);
            self.due.insert(Due::ResetStream(number));
            self.schedule(number);
        }
    }

    /// Gives a stream another place.
    pub(crate) fn prioritize(&mut self, number: u64, priority: Priority) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        if stream.is_scheduled && stream.priority != priority {
            self.turns.scheduler.remove(number, stream.priority);
            self.turns.scheduler.add(number, priority);
        }
        stream.priority = priority;
    }

    /// The half of a stream that we send.
    pub(crate) fn own_half(&mut self, number: u64) -> Option<&mut Sending<P>> {
        self.streams.get_mut(&number)?.send.as_mut()
    }

    /// The same to look at.
    pub(crate) fn sending_half(&self, number: u64) -> Option<&Sending<P>> {
        self.streams.get(&number)?.send.as_ref()
    }

    /// Bytes that may still be sent on all streams.
    pub(crate) fn window(&self) -> u64 {
        self.sent_max.saturating_sub(self.sent)
    }

    /// Bytes that were written on all and not sent once.
    pub(crate) fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Bytes that were written on all and have to stay until they are acknowledged, and how many of
    /// those before are.
    pub(crate) fn kept(&self) -> (u64, u64) {
        (self.kept, self.released)
    }

    /// See [`SendBuffer::replace_old`](super::send::SendBuffer::replace_old).
    pub(crate) fn replace_old(&mut self, mut other: impl FnMut(&P) -> Option<P>) {
        let sending = self.streams.values_mut().filter_map(|stream| stream.send.as_mut());
        sending.for_each(|send| send.buffer.replace_old(&mut other));
    }

    fn release(&mut self, bytes: u64) {
        self.kept -= bytes;
        self.released += bytes;
    }

    /// Whether anything is to be sent that needs no window, such as what was lost.
    pub(crate) fn has_urgent(&self) -> bool {
        !self.turns.urgent.is_empty()
    }

    /// Whether any may send bytes now.
    pub(crate) fn has_bytes(&self) -> bool {
        self.has_urgent() || (self.window() > 0 && !self.turns.scheduler.is_empty())
    }

    /// The bytes to be sent next, of which there is room for `room` of a stream's number and offset.
    pub(crate) fn next_bytes(
        &mut self,
        mut room: impl FnMut(u64, u64) -> u64,
    ) -> Option<(u64, Range<u64>, bool)> {
        let window = self.window();
        let number = match self.turns.urgent.first() {
            Some(number) => *number,
            None if window > 0 => self.turns.scheduler.take_turn()?,
            None => return None,
        };
        let stream = self.streams.get_mut(&number)?;
        let send = stream.send.as_mut()?;
        let before = send.buffer.sent();
        let (range, ends) = send.next(room(number, before), window)?;
        let new = send.buffer.sent() - before;
        self.turns.place(number, stream);
        self.note_sent(number, new);
        Some((number, range, ends))
    }

    /// The stream whose turn it is for as long as it has something to send, with bytes of it that lie in one
    /// piece, were not sent before and may be sent, and where they begin. Where its end is known, it is not
    /// among them.
    pub(crate) fn run(&self) -> Option<(u64, u64, &[u8])> {
        if self.has_urgent() {
            return None;
        }
        let number = self.turns.scheduler.alone()?;
        let (offset, bytes) = self.sending_half(number)?.run(self.window())?;
        Some((number, offset, bytes))
    }

    /// The first `count` of those bytes were sent.
    pub(crate) fn ran(&mut self, number: u64, count: u64) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let Some(send) = &mut stream.send else { return };
        send.buffer.advance(count);
        self.turns.place(number, stream);
        self.note_sent(number, count);
    }

    /// So many bytes of a stream were sent that were not before.
    fn note_sent(&mut self, number: u64, new: u64) {
        self.sent += new;
        self.unsent -= new;
        let event = StreamEvent::Writable(number);
        if new > 0 && self.events.back() != Some(&event) {
            self.events.push_back(event);
        }
    }

    /// A RESET_STREAM frame arrived.
    pub(crate) fn reset_arrived(&mut self, number: u64) {
        if let Some(send) = self.own_half(number) {
            send.reset_became(Told::Arrived);
        }
        self.close_if_done(number);
    }

    /// Bytes of a stream arrived.
    pub(crate) fn acknowledge(&mut self, number: u64, range: Range<u64>, ends: bool) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let Some(send) = &mut stream.send else { return };
        let before = send.buffer.kept();
        send.acknowledge(range, ends);
        let released = before - send.buffer.kept();
        let is_done = send.is_done();
        self.turns.place(number, stream);
        self.release(released);
        if is_done {
            self.close_if_done(number);
        }
    }

    /// Bytes of a stream were lost.
    pub(crate) fn lose(&mut self, number: u64, range: Range<u64>, ends: bool) {
        if let Some(send) = self.own_half(number) {
            send.lose(range, ends);
            self.schedule(number);
        }
    }

    /// Makes a stream known to who sends, or forgotten, as it can send or not.
    fn schedule(&mut self, number: u64) {
        if let Some(stream) = self.streams.get_mut(&number) {
            self.turns.place(number, stream);
        }
    }
}

impl Turns {
    /// Gives a stream the place that it has by what it can send.
    fn place<P: AsRef<[u8]>>(&mut self, number: u64, stream: &mut Stream<P>) {
        let Some(send) = &stream.send else { return };
        if send.is_urgent() != stream.is_urgent {
            stream.is_urgent = !stream.is_urgent;
            if stream.is_urgent {
                self.urgent.insert(number);
            } else {
                self.urgent.remove(&number);
            }
        }
        if send.has_new() != stream.is_scheduled {
            stream.is_scheduled = !stream.is_scheduled;
            if stream.is_scheduled {
                self.scheduler.add(number, stream.priority);
            } else {
                self.scheduler.remove(number, stream.priority);
            }
        }
    }
}
