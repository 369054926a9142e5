//! What comes on streams.

use super::super::error::{Error, code};
use super::super::stream::{Receiving, Sending};
use super::{BY_SERVER, Due, ONE_WAY, Stream, StreamEvent, Streams};

impl<P: AsRef<[u8]>> Streams<P> {
    /// Bytes of a stream came.
    pub(crate) fn receive(
        &mut self,
        number: u64,
        offset: u64,
        bytes: &[u8],
        ends: bool,
    ) -> Result<(), Error> {
        let Some(receive) = self.receiving(number)? else { return Ok(()) };
        let grown = receive.insert(offset, bytes, ends)?;
        let is_unwanted = receive.is_unwanted();
        if is_unwanted {
            receive.take(grown);
            self.taken += grown;
        }
        self.grow(grown)?;
        if is_unwanted {
            self.update_max_data();
            self.close_if_done(number);
            return Ok(());
        }
        self.announce(number);
        Ok(())
    }

    /// A stream ends before its time.
    pub(crate) fn reset_by_peer(&mut self, number: u64, code: u64, size: u64) -> Result<(), Error> {
        let Some(receive) = self.receiving(number)? else { return Ok(()) };
        if receive.is_done() {
            return Ok(());
        }
        // What nobody consumed nobody takes.
        let start = receive.buffer.start();
        let grown = receive.reset(size)?;
        let unread = size - start;
        receive.take(unread);
        self.taken += unread;
        self.grow(grown)?;
        self.update_max_data();
        self.events.push_back(StreamEvent::Reset(number, code));
        self.close_if_done(number);
        Ok(())
    }

    /// Checks the number of a stream that only is named.
    pub(crate) fn check(&mut self, number: u64) -> Result<(), Error> {
        self.receiving(number).map(|_| ())
    }

    /// The half of a stream that we receive, of a stream that is not over.
    fn receiving(&mut self, number: u64) -> Result<Option<&mut Receiving>, Error> {
        if number & BY_SERVER != 0 {
            return Err(Error::new(code::STREAM_STATE_ERROR, "nothing comes on this stream"));
        }
        self.open_by_peer(number)?;
        Ok(self.streams.get_mut(&number).and_then(|stream| stream.receive.as_mut()))
    }

    /// Whether a client's stream is among those that it may open, or has opened.
    pub(crate) fn may_be_opened(&self, number: u64) -> bool {
        let kind = usize::from(number & ONE_WAY != 0);
        self.opened_max.get(kind).is_some_and(|max| number >> 2 < *max)
    }

    /// A client's stream was named: it and those before it of its kind are open (RFC 9000 §3.2).
    pub(super) fn open_by_peer(&mut self, number: u64) -> Result<(), Error> {
        if !self.may_be_opened(number) {
            return Err(Error::new(code::STREAM_LIMIT_ERROR, "there are too many streams"));
        }
        let (kind, place) = (usize::from(number & ONE_WAY != 0), number >> 2);
        let Some(opened) = self.opened.get_mut(kind) else { return Ok(()) };
        while *opened <= place {
            let number = *opened << 2 | if kind == 0 { 0 } else { ONE_WAY };
            let send = (kind == 0).then(|| Sending::new(self.peer_limit));
            let receive = Receiving::new(self.local.stream_data_max);
            self.streams.insert(number, Box::new(Stream::new(send, Some(receive))));
            *opened += 1;
        }
        Ok(())
    }

    /// More came on all streams.
    fn grow(&mut self, grown: u64) -> Result<(), Error> {
        self.received += grown;
        if self.received > self.received_max {
            return Err(Error::new(code::FLOW_CONTROL_ERROR, "all streams are over their limit"));
        }
        Ok(())
    }

    fn announce(&mut self, number: u64) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let Some(receive) = &stream.receive else { return };
        let (bytes, ends) = receive.readable();
        let is_news = (!bytes.is_empty() || ends) && !receive.is_done();
        if is_news && !stream.is_announced {
            stream.is_announced = true;
            self.events.push_back(StreamEvent::Readable(number));
        }
    }

    /// The bytes of a stream that are next, and whether they are the last.
    pub(crate) fn readable(&self, number: u64) -> Option<(&[u8], bool)> {
        let receive = self.streams.get(&number)?.receive.as_ref()?;
        (!receive.is_unwanted() && !receive.is_done()).then(|| receive.readable())
    }

    /// `count` of these bytes are done; they still fill the window.
    pub(crate) fn consume(&mut self, number: u64, count: usize) {
        let stream = self.streams.get_mut(&number);
        if let Some(receive) = stream.and_then(|stream| stream.receive.as_mut()) {
            receive.consume(count);
        }
    }

    /// The end of a stream was seen, and all before it.
    pub(crate) fn end_seen(&mut self, number: u64) {
        let stream = self.streams.get_mut(&number);
        if let Some(receive) = stream.and_then(|stream| stream.receive.as_mut()) {
            receive.end_seen();
        }
        self.close_if_done(number);
    }

    /// As many more bytes may come on a stream, and on all.
    pub(crate) fn take(&mut self, number: u64, count: u64) {
        self.taken += count;
        let window = self.local.stream_data_max;
        let stream = self.streams.get_mut(&number);
        if let Some(receive) = stream.and_then(|stream| stream.receive.as_mut()) {
            receive.take(count);
            if receive.next_limit(window).is_some() {
                self.due.insert(Due::MaxStreamData(number));
            }
        }
        self.update_max_data();
    }

    fn update_max_data(&mut self) {
        if self.taken + self.local.data_max >= self.received_max + self.local.data_max / 2 {
            self.due.insert(Due::MaxData);
        }
    }

    /// What comes of a stream is not wanted. Bytes that came and were consumed have to be
    /// [taken](Self::take) all the same.
    pub(crate) fn stop(&mut self, number: u64, code: u64) {
        let stream = self.streams.get_mut(&number);
        let Some(receive) = stream.and_then(|stream| stream.receive.as_mut()) else { return };
        if receive.is_unwanted() {
            return;
        }
        // What nobody consumed nobody takes.
        let unread = receive.buffer.highest() - receive.buffer.start();
        receive.take(unread);
        self.taken += unread;
        if receive.stop(code) {
            self.due.insert(Due::StopSending(number));
        }
        self.update_max_data();
        self.close_if_done(number);
    }
}
