//! What the application does with streams.

use super::super::streams::StreamEvent;
use super::Connection;
use freshet_http::priority::Priority;

impl<P: AsRef<[u8]>> Connection<P> {
    /// Opens a stream one way; `None` while the client allows none.
    pub fn open(&mut self) -> Option<u64> {
        self.streams.open()
    }

    /// What happened to a stream next.
    pub fn next_event(&mut self) -> Option<StreamEvent> {
        self.streams.next_event()
    }

    /// The bytes of a stream that are next, and whether they are the last; `None` when it is over or
    /// not wanted.
    pub fn readable(&self, stream: u64) -> Option<(&[u8], bool)> {
        self.streams.readable(stream)
    }

    /// `count` of these bytes are done. The client may send as many more only when they are
    /// [taken](Self::take).
    pub fn consume(&mut self, stream: u64, count: usize) {
        self.streams.consume(stream, count);
    }

    /// The end of a stream was seen, and all before it: nothing of this half is remembered.
    pub fn end_seen(&mut self, stream: u64) {
        self.streams.end_seen(stream);
    }

    /// Lets the client send `count` more bytes on a stream and on all.
    pub fn take(&mut self, stream: u64, count: u64) {
        self.streams.take(stream, count);
    }

    /// What comes of a stream is not wanted any more.
    pub fn stop(&mut self, stream: u64, code: u64) {
        self.streams.stop(stream, code);
    }

    /// Appends a piece to a stream; false when it is over.
    pub fn write(&mut self, stream: u64, piece: P) -> bool {
        self.streams.write(stream, piece)
    }

    /// All of a stream is written.
    pub fn finish(&mut self, stream: u64) {
        self.streams.finish(stream);
    }

    /// Ends a stream before its time.
    pub fn reset(&mut self, stream: u64, code: u64) {
        self.streams.reset(stream, code);
    }

    /// Gives a stream another place among those with something to send.
    pub fn prioritize(&mut self, stream: u64, priority: Priority) {
        self.streams.prioritize(stream, priority);
    }

    /// Bytes of a stream that were written and not sent once.
    pub fn unsent(&self, stream: u64) -> u64 {
        let send = self.streams.sending_half(stream);
        send.map_or(0, |send| send.buffer.end() - send.buffer.sent())
    }

    /// The same of all streams.
    pub fn unsent_of_all(&self) -> u64 {
        self.streams.unsent()
    }

    /// Bytes that were written and have to stay until they are acknowledged, of all streams.
    pub fn kept(&self) -> u64 {
        self.streams.kept().0
    }

    /// How many bytes that were written did not have to stay, in all.
    pub fn released(&self) -> u64 {
        self.streams.kept().1
    }

    /// Replaces what was kept already when this was called last, where `other` has something for it
    /// with the same bytes.
    pub fn replace_old(&mut self, other: impl FnMut(&P) -> Option<P>) {
        self.streams.replace_old(other);
    }

    /// How many bytes more may be written to a stream so that the client's windows have room for all
    /// of them.
    pub fn room(&self, stream: u64) -> u64 {
        let of_all = self.streams.window().saturating_sub(self.streams.unsent());
        let send = self.streams.sending_half(stream);
        send.map_or(0, |send| send.limit.saturating_sub(send.buffer.end())).min(of_all)
    }

    /// Bytes of a stream of which all before them arrived too; `None` when it is over.
    pub fn arrived(&self, stream: u64) -> Option<u64> {
        self.streams.sending_half(stream).map(|send| send.buffer.acked_front())
    }

    /// Whether the client's own window for a stream is shut.
    pub fn is_shut(&self, stream: u64) -> bool {
        self.streams.sending_half(stream).is_some_and(|send| send.is_shut())
    }

    /// Whether the client lets anything new of a stream come, by its windows and what is in flight.
    pub fn has_window(&self, stream: u64) -> bool {
        self.streams.window() > 0
            && self.bytes_in_flight < self.congestion.window()
            && self.streams.sending_half(stream).is_some_and(|send| !send.is_shut())
    }

    /// Whether a client's stream is among those that it may open, or has opened.
    pub fn may_be_opened(&self, stream: u64) -> bool {
        self.streams.may_be_opened(stream)
    }

    /// How many streams are open, of all kinds.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// How many of these are both ways.
    pub fn both_way_streams(&self) -> usize {
        self.streams.both_ways()
    }
}
