//! The streams of a connection: who may open how many, who may send how much, and whose turn it is.

use super::error::{Error, code};
use super::parameters::Local;
use super::stream::{Receiving, Sending, Told};
use crate::priority::Priority;
use crate::scheduler::Scheduler;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// What happened to a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StreamEvent {
    /// There is something to read, or the end.
    Readable(u64),
    /// The client sends no more of it.
    Reset(u64, u64),
    /// The client wants no more of it; what was written is forgotten.
    Stopped(u64, u64),
    /// It can take more: what was written was sent, or its window opened.
    Writable(u64),
    /// All of it was acknowledged, or it is over some other way.
    Closed(u64),
    /// The client takes more on all streams.
    Opened,
}

/// A frame about streams that is due.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Due {
    MaxData,
    MaxStreams { is_both_ways: bool },
    MaxStreamData(u64),
    ResetStream(u64),
    StopSending(u64),
}

#[derive(Debug)]
struct Stream<P> {
    send: Option<Sending<P>>,
    receive: Option<Receiving>,
    priority: Priority,
    is_scheduled: bool,
    /// Whether it is said that there is something to read.
    is_announced: bool,
}

/// All streams.
#[derive(Debug)]
pub(super) struct Streams<P> {
    streams: BTreeMap<u64, Stream<P>>,
    scheduler: Scheduler<u64>,
    /// Streams with something to send that needs no window.
    urgent: BTreeSet<u64>,
    due: BTreeSet<Due>,
    events: VecDeque<StreamEvent>,
    /// Whether the client takes more on all streams since that was told.
    has_opened: bool,
    local: Local,
    /// By kind, both ways first: how many the client has opened, may open, and how many of those are
    /// over.
    opened: [u64; 2],
    opened_max: [u64; 2],
    closed: [u64; 2],
    /// How many one way we opened and may open, and what may be sent on each.
    own_opened: u64,
    own_opened_max: u64,
    own_limit: u64,
    peer_limit: u64,
    /// What was and may be sent on all.
    sent: u64,
    sent_max: u64,
    /// What was written on all and not sent.
    unsent: u64,
    /// What came, was taken, and may come on all.
    received: u64,
    taken: u64,
    received_max: u64,
}

/// Bits of a stream's number (RFC 9000 §2.1).
const BY_SERVER: u64 = 1;
const ONE_WAY: u64 = 2;

impl<P: AsRef<[u8]>> Streams<P> {
    pub(super) fn new(local: &Local) -> Self {
        Self {
            streams: BTreeMap::new(),
            scheduler: Scheduler::default(),
            urgent: BTreeSet::new(),
            due: BTreeSet::new(),
            events: VecDeque::new(),
            has_opened: false,
            opened: [0; 2],
            opened_max: [local.streams_max, local.one_way_streams_max],
            closed: [0; 2],
            own_opened: 0,
            own_opened_max: 0,
            own_limit: 0,
            peer_limit: 0,
            sent: 0,
            sent_max: 0,
            unsent: 0,
            received: 0,
            taken: 0,
            received_max: local.data_max,
            local: local.clone(),
        }
    }

    /// What the client's parameters say.
    pub(super) fn set_peer(&mut self, peer: &super::parameters::Peer) {
        self.sent_max = peer.data_max;
        self.peer_limit = peer.stream_data_max;
        self.own_limit = peer.own_stream_data_max;
        self.own_opened_max = peer.own_streams_max;
    }

    /// Opens a stream one way; `None` while the client allows none.
    pub(super) fn open(&mut self) -> Option<u64> {
        if self.own_opened >= self.own_opened_max {
            return None;
        }
        let number = self.own_opened << 2 | ONE_WAY | BY_SERVER;
        self.own_opened += 1;
        let send = Some(Sending::new(self.own_limit));
        self.streams.insert(number, Stream::new(send, None));
        Some(number)
    }

    /// Bytes of a stream came.
    pub(super) fn receive(
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
    pub(super) fn reset_by_peer(&mut self, number: u64, code: u64, size: u64) -> Result<(), Error> {
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

    /// The client wants no more of a stream.
    pub(super) fn stop_by_peer(&mut self, number: u64, code: u64) -> Result<(), Error> {
        let Some(send) = self.sending(number)? else { return Ok(()) };
        let unsent = send.buffer.end() - send.buffer.sent();
        if send.reset(code) {
            self.unsent -= unsent;
            self.due.insert(Due::ResetStream(number));
            self.events.push_back(StreamEvent::Stopped(number, code));
        }
        self.schedule(number);
        Ok(())
    }

    /// More may be sent on a stream.
    pub(super) fn max_stream_data(&mut self, number: u64, limit: u64) -> Result<bool, Error> {
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
    pub(super) fn max_data(&mut self, limit: u64) -> bool {
        let grows = limit > self.sent_max;
        if grows {
            self.sent_max = limit;
            self.has_opened = true;
        }
        grows
    }

    /// More streams may be opened.
    pub(super) fn max_own_streams(&mut self, count: u64) -> bool {
        let grows = count > self.own_opened_max;
        self.own_opened_max = self.own_opened_max.max(count);
        grows
    }

    /// Checks the number of a stream that only is named.
    pub(super) fn check(&mut self, number: u64) -> Result<(), Error> {
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

    /// A client's stream was named: it and those before it of its kind are open (RFC 9000 §3.2).
    fn open_by_peer(&mut self, number: u64) -> Result<(), Error> {
        let kind = usize::from(number & ONE_WAY != 0);
        let (Some(opened), Some(max)) = (self.opened.get_mut(kind), self.opened_max.get(kind))
        else {
            return Ok(());
        };
        let place = number >> 2;
        if place >= *max {
            return Err(Error::new(code::STREAM_LIMIT_ERROR, "there are too many streams"));
        }
        while *opened <= place {
            let number = *opened << 2 | if kind == 0 { 0 } else { ONE_WAY };
            let send = (kind == 0).then(|| Sending::new(self.peer_limit));
            let receive = Receiving::new(self.local.stream_data_max);
            self.streams.insert(number, Stream::new(send, Some(receive)));
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

    /// What happened next.
    pub(super) fn next_event(&mut self) -> Option<StreamEvent> {
        let Some(event) = self.events.pop_front() else {
            return std::mem::take(&mut self.has_opened).then_some(StreamEvent::Opened);
        };
        if let StreamEvent::Readable(number) = event
            && let Some(stream) = self.streams.get_mut(&number)
        {
            stream.is_announced = false;
        }
        Some(event)
    }

    /// The bytes of a stream that are next, and whether they are the last.
    pub(super) fn readable(&self, number: u64) -> Option<(&[u8], bool)> {
        let receive = self.streams.get(&number)?.receive.as_ref()?;
        (!receive.is_unwanted() && !receive.is_done()).then(|| receive.readable())
    }

    /// `count` of these bytes are done; they still fill the window.
    pub(super) fn consume(&mut self, number: u64, count: usize) {
        let stream = self.streams.get_mut(&number);
        if let Some(receive) = stream.and_then(|stream| stream.receive.as_mut()) {
            receive.consume(count);
        }
    }

    /// The end of a stream was seen, and all before it.
    pub(super) fn end_seen(&mut self, number: u64) {
        let stream = self.streams.get_mut(&number);
        if let Some(receive) = stream.and_then(|stream| stream.receive.as_mut()) {
            receive.end_seen();
        }
        self.close_if_done(number);
    }

    /// As many more bytes may come on a stream, and on all.
    pub(super) fn take(&mut self, number: u64, count: u64) {
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
    pub(super) fn stop(&mut self, number: u64, code: u64) {
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

    /// Appends a piece to a stream; false when it is over.
    pub(super) fn write(&mut self, number: u64, piece: P) -> bool {
        let Some(send) = self.own_half(number).filter(|send| send.is_open()) else { return false };
        let bytes = piece.as_ref().len() as u64;
        send.buffer.write(piece);
        self.unsent += bytes;
        self.schedule(number);
        true
    }

    /// All of a stream is written.
    pub(super) fn finish(&mut self, number: u64) {
        if let Some(send) = self.own_half(number) {
            send.finish();
            self.schedule(number);
        }
    }

    /// Ends a stream before its time.
    pub(super) fn reset(&mut self, number: u64, code: u64) {
        let Some(send) = self.own_half(number) else { return };
        let unsent = send.buffer.end() - send.buffer.sent();
        if send.reset(code) {
            self.unsent -= unsent;
            self.due.insert(Due::ResetStream(number));
            self.schedule(number);
        }
    }

    /// Gives a stream another place.
    pub(super) fn prioritize(&mut self, number: u64, priority: Priority) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        if stream.is_scheduled && stream.priority != priority {
            self.scheduler.remove(number, stream.priority);
            self.scheduler.add(number, priority);
        }
        stream.priority = priority;
    }

    /// The half of a stream that we send.
    pub(super) fn own_half(&mut self, number: u64) -> Option<&mut Sending<P>> {
        self.streams.get_mut(&number)?.send.as_mut()
    }

    /// The same to look at.
    pub(super) fn sending_half(&self, number: u64) -> Option<&Sending<P>> {
        self.streams.get(&number)?.send.as_ref()
    }

    /// Bytes that may still be sent on all streams.
    pub(super) fn window(&self) -> u64 {
        self.sent_max.saturating_sub(self.sent)
    }

    /// How many of those are both ways.
    pub(super) fn both_ways(&self) -> usize {
        self.streams.keys().filter(|number| *number & ONE_WAY == 0).count()
    }

    /// Bytes that were written on all and not sent once.
    pub(super) fn unsent(&self) -> u64 {
        self.unsent
    }

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether any may send bytes now.
    pub(super) fn has_bytes(&self) -> bool {
        !self.urgent.is_empty() || (self.window() > 0 && !self.scheduler.is_empty())
    }

    /// Whether a frame about streams is due.
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The bytes to be sent next, of which there is room for `room` of a stream's number and offset.
    pub(super) fn next_bytes(
        &mut self,
        mut room: impl FnMut(u64, u64) -> u64,
    ) -> Option<(u64, Range<u64>, bool)> {
        let window = self.window();
        let number = match self.urgent.first() {
            Some(number) => *number,
            None if window > 0 => self.scheduler.next()?,
            None => return None,
        };
        let send = self.streams.get_mut(&number)?.send.as_mut()?;
        let before = send.buffer.sent();
        let (range, ends) = send.next(room(number, before), window)?;
        self.sent += send.buffer.sent() - before;
        self.unsent -= send.buffer.sent() - before;
        let event = StreamEvent::Writable(number);
        if send.buffer.sent() > before && self.events.back() != Some(&event) {
            self.events.push_back(event);
        }
        self.schedule(number);
        Some((number, range, ends))
    }

    /// The next frame about streams that is due, as type, numbers, and what it is remembered as.
    pub(super) fn next_due(&mut self) -> Option<(Due, u8, [u64; 3], usize)> {
        while let Some(due) = self.due.pop_first() {
            let frame = match due {
                Due::MaxData => {
                    self.received_max = self.taken + self.local.data_max;
                    Some((0x10, [self.received_max, 0, 0], 1))
                }
                Due::MaxStreams { is_both_ways } => {
                    let kind = usize::from(!is_both_ways);
                    let max = self.opened_max.get(kind).copied().unwrap_or(0);
                    Some((0x12 + kind as u8, [max, 0, 0], 1))
                }
                Due::MaxStreamData(number) => {
                    let window = self.local.stream_data_max;
                    let stream = self.streams.get_mut(&number);
                    stream.and_then(|stream| stream.receive.as_mut()).map(|receive| {
                        let limit = receive.next_limit(window).unwrap_or_else(|| receive.limit());
                        receive.set_limit(limit);
                        (0x11, [number, limit, 0], 2)
                    })
                }
                Due::ResetStream(number) => self
                    .own_half(number)
                    .and_then(Sending::take_reset)
                    .map(|(code, size)| (0x04, [number, code, size], 3)),
                Due::StopSending(number) => {
                    let stream = self.streams.get_mut(&number);
                    let receive = stream.and_then(|stream| stream.receive.as_mut());
                    receive.and_then(Receiving::take_stop).map(|code| (0x05, [number, code, 0], 2))
                }
            };
            if let Some((kind, numbers, count)) = frame {
                return Some((due, kind, numbers, count));
            }
        }
        None
    }

    /// A frame about streams was lost, or could not be sent after all.
    pub(super) fn lose_due(&mut self, due: Due) {
        match due {
            Due::ResetStream(number) => match self.own_half(number) {
                Some(send) => send.reset_became(Told::Unsent),
                None => return,
            },
            Due::StopSending(number) => {
                let stream = self.streams.get_mut(&number);
                let receive = stream.and_then(|stream| stream.receive.as_mut());
                if !receive.is_some_and(Receiving::stop_lost) {
                    return;
                }
            }
            Due::MaxStreamData(number) if !self.streams.contains_key(&number) => return,
            Due::MaxStreamData(_) | Due::MaxData | Due::MaxStreams { .. } => {}
        }
        self.due.insert(due);
    }

    /// A RESET_STREAM frame arrived.
    pub(super) fn reset_arrived(&mut self, number: u64) {
        if let Some(send) = self.own_half(number) {
            send.reset_became(Told::Arrived);
        }
        self.close_if_done(number);
    }

    /// Bytes of a stream arrived.
    pub(super) fn acknowledge(&mut self, number: u64, range: Range<u64>, ends: bool) {
        if let Some(send) = self.own_half(number) {
            send.acknowledge(range, ends);
            self.schedule(number);
            self.close_if_done(number);
        }
    }

    /// Bytes of a stream were lost.
    pub(super) fn lose(&mut self, number: u64, range: Range<u64>, ends: bool) {
        if let Some(send) = self.own_half(number) {
            send.lose(range, ends);
            self.schedule(number);
        }
    }

    /// Makes a stream known to who sends, or forgotten, as it can send or not.
    fn schedule(&mut self, number: u64) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let Some(send) = &stream.send else { return };
        if send.is_urgent() {
            self.urgent.insert(number);
        } else {
            self.urgent.remove(&number);
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

    /// Forgets a stream of which both sides said all, and lets the client open another.
    fn close_if_done(&mut self, number: u64) {
        let Some(stream) = self.streams.get(&number) else { return };
        let is_sent = stream.send.as_ref().is_none_or(Sending::is_done);
        let is_received = stream.receive.as_ref().is_none_or(Receiving::is_done);
        if !is_sent || !is_received {
            return;
        }
        if stream.is_scheduled {
            self.scheduler.remove(number, stream.priority);
        }
        self.urgent.remove(&number);
        self.streams.remove(&number);
        self.events.push_back(StreamEvent::Closed(number));
        if number & BY_SERVER != 0 {
            return;
        }
        let is_both_ways = number & ONE_WAY == 0;
        let (kind, at_a_time) = match is_both_ways {
            true => (0, self.local.streams_max),
            false => (1, self.local.one_way_streams_max),
        };
        let (Some(closed), Some(max)) = (self.closed.get_mut(kind), self.opened_max.get_mut(kind))
        else {
            return;
        };
        *closed += 1;
        let next = *closed + at_a_time;
        // Told in steps, not with each request.
        if next >= *max + at_a_time.div_ceil(4) {
            *max = next;
            self.due.insert(Due::MaxStreams { is_both_ways });
        }
    }
}

impl<P> Stream<P> {
    fn new(send: Option<Sending<P>>, receive: Option<Receiving>) -> Self {
        Self {
            send,
            receive,
            priority: Priority::default(),
            is_scheduled: false,
            is_announced: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::parameters::Peer;

    fn streams() -> Streams<Vec<u8>> {
        let local =
            Local { streams_max: 4, data_max: 1000, stream_data_max: 600, ..Local::default() };
        let mut streams = Streams::new(&local);
        let peer = Peer {
            data_max: 100,
            stream_data_max: 80,
            own_stream_data_max: 50,
            own_streams_max: 1,
            ..Peer::default()
        };
        streams.set_peer(&peer);
        streams
    }

    fn code_of<T>(result: Result<T, Error>) -> u64 {
        result.err().map_or(0, |error| error.code)
    }

    #[test]
    fn streams_have_a_kind_and_a_limit() {
        let mut streams = streams();
        assert_eq!(code_of(streams.receive(16, 0, b"x", false)), code::STREAM_LIMIT_ERROR);
        assert_eq!(code_of(streams.receive(3, 0, b"x", false)), code::STREAM_STATE_ERROR);
        assert_eq!(code_of(streams.stop_by_peer(2, 0)), code::STREAM_STATE_ERROR);
        assert_eq!(code_of(streams.stop_by_peer(3, 0)), code::STREAM_STATE_ERROR);
        assert_eq!((streams.open(), streams.open()), (Some(3), None));
        streams.receive(12, 0, b"x", true).unwrap();
        assert_eq!(streams.len(), 5);
    }

    #[test]
    fn windows_bound_what_is_sent_and_what_was_lost_goes_first() {
        let mut streams = streams();
        for number in [0, 4] {
            streams.receive(number, 0, b"x", true).unwrap();
            assert!(streams.write(number, vec![1; 200]));
        }
        let mut sent = Vec::new();
        while let Some(next) = streams.next_bytes(|_, _| 30) {
            sent.push(next);
        }
        assert_eq!(
            sent,
            [(0, 0..30, false), (0, 30..60, false), (0, 60..80, false), (4, 0..20, false)]
        );
        streams.lose(4, 0..10, false);
        assert_eq!(streams.next_bytes(|_, _| 30), Some((4, 0..10, false)));
        assert_eq!(streams.next_bytes(|_, _| 30), None);
        assert!(streams.max_data(150));
        assert_eq!(streams.next_bytes(|_, _| 30), Some((4, 20..50, false)));
        assert_eq!(streams.max_stream_data(0, 85), Ok(true));
        assert_eq!(streams.next_bytes(|_, _| 30), Some((0, 80..85, false)));
    }

    #[test]
    fn a_stream_that_is_over_makes_room_for_another() {
        let mut streams = streams();
        for number in [0, 4, 8, 12] {
            streams.receive(number, 0, b"x", true).unwrap();
            streams.consume(number, 1);
            streams.end_seen(number);
            streams.take(number, 1);
            streams.finish(number);
            assert_eq!(streams.next_bytes(|_, _| 30), Some((number, 0..0, true)));
            streams.acknowledge(number, 0..0, true);
        }
        assert_eq!(streams.len(), 0);
        assert_eq!(streams.next_due().map(|due| (due.1, due.2[0])), Some((0x12, 8)));
        assert!(streams.receive(28, 0, b"x", false).is_ok());
        // Late frames for what is over are nothing.
        assert_eq!(streams.receive(0, 0, b"x", true), Ok(()));
        assert_eq!(streams.len(), 4);
    }

    #[test]
    fn the_window_opens_as_bytes_are_taken_and_not_before() {
        let mut streams = streams();
        streams.receive(0, 0, &[1; 600], false).unwrap();
        streams.consume(0, 600);
        assert!(!streams.has_due());
        assert_eq!(code_of(streams.receive(0, 600, &[1], false)), code::FLOW_CONTROL_ERROR);
        streams.take(0, 600);
        let mut due = Vec::new();
        while let Some((_, kind, numbers, _)) = streams.next_due() {
            due.push((kind, numbers));
        }
        assert_eq!(due, [(0x10, [1600, 0, 0]), (0x11, [0, 1200, 0])]);
        // What nobody wants does not fill the window.
        streams.receive(0, 600, &[1; 600], false).unwrap();
        streams.stop(0, 7);
        assert_eq!(streams.reset_by_peer(0, 7, 1200), Ok(()));
        assert_eq!(streams.taken, 1200);
        assert_eq!(streams.received, 1200);
    }
}
