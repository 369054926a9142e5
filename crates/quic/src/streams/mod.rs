//! The streams of a connection: who may open how many, who may send how much, and whose turn it is.

mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;

use super::parameters::Local;
use super::stream::{Receiving, Sending, Told};
use freshet_http::priority::Priority;
use freshet_http::scheduler::Scheduler;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
pub(crate) enum Due {
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
    is_urgent: bool,
    /// Whether it is said that there is something to read.
    is_announced: bool,
}

/// Whose turn it is.
#[derive(Debug, Default)]
struct Turns {
    scheduler: Scheduler<u64>,
    /// Streams with something to send that needs no window.
    urgent: BTreeSet<u64>,
}

/// All streams.
#[derive(Debug)]
pub(crate) struct Streams<P> {
    /// Apart from the map, whose nodes have room for eleven.
    streams: BTreeMap<u64, Box<Stream<P>>>,
    turns: Turns,
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
    /// What was written on all and is there until it is acknowledged, and what is not any more.
    kept: u64,
    released: u64,
    /// What came, was taken, and may come on all.
    received: u64,
    taken: u64,
    received_max: u64,
}

/// Bits of a stream's number (RFC 9000 §2.1).
const BY_SERVER: u64 = 1;
const ONE_WAY: u64 = 2;

impl<P: AsRef<[u8]>> Streams<P> {
    pub(crate) fn new(local: &Local) -> Self {
        Self {
            streams: BTreeMap::new(),
            turns: Turns::default(),
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
            kept: 0,
            released: 0,
            received: 0,
            taken: 0,
            received_max: local.data_max,
            local: local.clone(),
        }
    }

    /// What the client's parameters say.
    pub(crate) fn set_peer(&mut self, peer: &super::parameters::Peer) {
        self.sent_max = peer.data_max;
        self.peer_limit = peer.stream_data_max;
        self.own_limit = peer.own_stream_data_max;
        self.own_opened_max = peer.own_streams_max;
    }

    /// Gives back what there is no use for while nothing is said.
    pub(crate) fn rest(&mut self) {
        self.events.shrink_to_fit();
        for stream in self.streams.values_mut() {
            if let Some(send) = &mut stream.send {
                send.buffer.rest();
            }
        }
    }

    /// Opens a stream one way; `None` while the client allows none.
    pub(crate) fn open(&mut self) -> Option<u64> {
        if self.own_opened >= self.own_opened_max {
            return None;
        }
        let number = self.own_opened << 2 | ONE_WAY | BY_SERVER;
        self.own_opened += 1;
        let send = Some(Sending::new(self.own_limit));
        self.streams.insert(number, Box::new(Stream::new(send, None)));
        Some(number)
    }

    /// More streams may be opened.
    pub(crate) fn max_own_streams(&mut self, count: u64) -> bool {
        let grows = count > self.own_opened_max;
        self.own_opened_max = self.own_opened_max.max(count);
        grows
    }

    /// What happened next.
    pub(crate) fn next_event(&mut self) -> Option<StreamEvent> {
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

    /// How many of those are both ways.
    pub(crate) fn both_ways(&self) -> usize {
        self.streams.keys().filter(|number| *number & ONE_WAY == 0).count()
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether a frame about streams is due.
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The next frame about streams that is due, as type, numbers, and what it is remembered as.
    pub(crate) fn next_due(&mut self) -> Option<(Due, u8, [u64; 3], usize)> {
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
    pub(crate) fn lose_due(&mut self, due: Due) {
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

    /// Forgets a stream of which both sides said all, and lets the client open another.
    pub(super) fn close_if_done(&mut self, number: u64) {
        let Some(stream) = self.streams.get(&number) else { return };
        let is_sent = stream.send.as_ref().is_none_or(Sending::is_done);
        let is_received = stream.receive.as_ref().is_none_or(Receiving::is_done);
        if !is_sent || !is_received {
            return;
        }
        if stream.is_scheduled {
            self.turns.scheduler.remove(number, stream.priority);
        }
        self.turns.urgent.remove(&number);
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
            is_urgent: false,
            is_announced: false,
        }
    }
}
