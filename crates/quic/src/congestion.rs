//! How much may be in flight and how fast it goes out: one face of the algorithms that decide it.

use super::bbr::Bbr;
use super::cubic::Cubic;
use super::limits::DATAGRAM_BYTES_MAX;
use super::pacer::Pace;
use super::rtt::Rtt;
use super::sent::Gone;
use std::time::Duration;

/// Bytes that may be in flight before anything is known (RFC 9002 §7.2).
pub(super) const WINDOW_BYTES_FIRST: u64 = 10 * 1200;
/// The least that may be, whatever happens: two full packets.
pub(super) const WINDOW_BYTES_MIN: u64 = 2 * DATAGRAM_BYTES_MAX as u64;

/// Who decides how much is sent to clients.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Algorithm {
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406): a loss means that it was too much.
    #[default]
    Cubic,
    /// BBR, version 3 (draft-ietf-ccwg-bbr-06): as much as arrives, as it is measured.
    Bbr,
}

/// Packets of one size and with numbers in a row that go out at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) now: Duration,
    /// The number of the first.
    pub(super) first: u64,
    pub(super) packets: u64,
    /// Bytes of each.
    pub(super) bytes: u64,
    /// Bytes in flight without them.
    pub(super) in_flight: u64,
}

/// Packets that arrived and were sent at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) now: Duration,
    pub(super) sent: Duration,
    /// The highest of their numbers.
    pub(super) last: u64,
    /// Bytes of all.
    pub(super) bytes: u64,
    /// Whether they are data, and not of the handshake, which has numbers of its own.
    pub(super) is_data: bool,
}

/// What decides about one way to a client.
#[derive(Clone, Debug)]
pub(super) enum Congestion {
    Cubic(Cubic),
    Bbr(Box<Bbr>),
}

impl Congestion {
    /// For a way of which nothing is known. The `seed` is for what should not happen to several
    /// connections at once.
    pub(super) fn new(algorithm: Algorithm, seed: u64) -> Self {
        match algorithm {
            Algorithm::Cubic => Self::Cubic(Cubic::new()),
            Algorithm::Bbr => Self::Bbr(Box::new(Bbr::new(seed))),
        }
    }

    /// The same for another way.
    pub(super) fn anew(&self, seed: u64) -> Self {
        let algorithm = match self {
            Self::Cubic(_) => Algorithm::Cubic,
            Self::Bbr(_) => Algorithm::Bbr,
        };
        Self::new(algorithm, seed)
    }

    /// Bytes that may be in flight.
    pub(super) fn window(&self) -> u64 {
        match self {
            Self::Cubic(cubic) => cubic.window(),
            Self::Bbr(bbr) => bbr.window(),
        }
    }

    /// How fast they go out.
    pub(super) fn pace(&self, rtt: &Rtt) -> Pace {
        match self {
            Self::Cubic(cubic) => {
                Pace::of_window(cubic.window(), rtt.smoothed, cubic.is_in_slow_start())
            }
            Self::Bbr(bbr) => bbr.pace(),
        }
    }

    /// Packets with data go out that count as in flight.
    pub(super) fn sending(&mut self, sending: &Sending) {
        if let Self::Bbr(bbr) = self {
            bbr.sending(sending);
        }
    }

    /// Nothing more is sent, although it might be.
    pub(super) fn ran_dry(&mut self, in_flight: u64) {
        if let Self::Bbr(bbr) = self {
            bbr.ran_dry(in_flight);
        }
    }

    /// An acknowledgement told of these. What came in one is told from the highest number, and
    /// [`settle`](Self::settle) ends it. `is_limited` tells whether the window was what kept more from
    /// being sent.
    pub(super) fn acknowledged(&mut self, arrival: &Arrival, rtt: Duration, is_limited: bool) {
        match self {
            Self::Cubic(cubic) => {
                cubic.acknowledged(arrival.now, arrival.sent, arrival.bytes, rtt, is_limited);
            }
            Self::Bbr(bbr) => bbr.acknowledged(arrival),
        }
    }

    /// An acknowledgement with a new measurement came, of `number`; the next one to be sent is
    /// `next`.
    pub(super) fn measured(&mut self, latest: Duration, number: u64, next: u64) {
        if let Self::Cubic(cubic) = self {
            cubic.measured(latest, number, next);
        }
    }

    /// These packets are lost; `is_data` tells whether they are data, and not of the handshake.
    pub(super) fn lost(&mut self, gone: &Gone, now: Duration, is_data: bool) {
        match self {
            Self::Cubic(cubic) => cubic.lost(now, gone.sent, gone.packets),
            Self::Bbr(bbr) if is_data => bbr.lost(gone, now),
            Self::Bbr(_) => {}
        }
    }

    /// So many packets with data that were sent at `sent` and taken for lost came after all.
    pub(super) fn came(&mut self, sent: Duration, packets: u64) {
        if let Self::Cubic(cubic) = self {
            cubic.came(sent, packets);
        }
    }

    /// All that was sent for a long time was lost (RFC 9002 §7.6).
    pub(super) fn collapsed(&mut self) {
        match self {
            Self::Cubic(cubic) => cubic.collapsed(),
            Self::Bbr(bbr) => bbr.collapsed(),
        }
    }

    /// Nothing is in flight, and has not been for a while.
    pub(super) fn rest(&mut self) {
        if let Self::Cubic(cubic) = self {
            cubic.rest();
        }
    }

    /// A router says that its queue grows, of packets up to those that were sent at `sent`.
    pub(super) fn marked(&mut self, now: Duration, sent: Duration) {
        match self {
            Self::Cubic(cubic) => cubic.marked(now, sent),
            Self::Bbr(bbr) => bbr.marked(now),
        }
    }

    /// All that an acknowledgement told is told, and so are the losses that it showed. `in_flight` is
    /// what is left, and `oldest` the lowest number that is remembered.
    pub(super) fn settle(&mut self, now: Duration, in_flight: u64, oldest: u64, rtt: &Rtt) {
        if let Self::Bbr(bbr) = self {
            bbr.settle(now, in_flight, oldest, rtt);
        }
    }
}
