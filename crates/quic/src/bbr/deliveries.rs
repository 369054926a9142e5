//! How fast data arrives: samples of the delivery rate (draft-ietf-ccwg-bbr-06 §4.1).

use super::super::congestion::{Arrival, Sending};
use std::collections::VecDeque;
use std::time::Duration;

/// Flights that there is room for while none is under way.
const RESTING_FLIGHTS: usize = 4;

/// What was known when packets went out that have one size, numbers in a row and one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    first: u64,
    packets: u64,
    /// Bytes of each.
    bytes: u64,
    /// Bytes in flight before the first.
    in_flight: u64,
    sent: Duration,
    /// What had arrived and what was lost until then, and when that was.
    delivered: u64,
    lost: u64,
    delivered_at: Duration,
    /// When the packet was sent that arrived last.
    first_sent: Duration,
    /// Whether more could have been sent than there was.
    pub(super) is_limited: bool,
}

impl Flight {
    fn end(&self) -> u64 {
        self.first + self.packets
    }

    /// Bytes in flight once this packet was on its way.
    pub(super) fn in_flight_at(&self, number: u64) -> u64 {
        let packets = number.saturating_sub(self.first) + 1;
        self.in_flight + packets * self.bytes
    }

    /// Bytes that were lost since.
    pub(super) fn lost_since(&self, lost: u64) -> u64 {
        lost.saturating_sub(self.lost)
    }
}

/// What an acknowledgement says of the way, by the newest packet that it told of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Bytes that arrived since that was sent, and all that had before.
    pub(super) delivered: u64,
    pub(super) prior_delivered: u64,
    /// Bytes a second; 0 where it was too short a time to tell.
    pub(super) rate: f64,
    pub(super) rtt: Duration,
    /// Bytes that it told of.
    pub(super) acked: u64,
    /// Bytes in flight when the packet was on its way, and those lost since.
    pub(super) in_flight: u64,
    pub(super) lost: u64,
    /// Whether more could have been sent then than there was.
    pub(super) is_limited: bool,
}

/// What was sent and arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Deliveries {
    flights: VecDeque<Flight>,
    /// Bytes that arrived, bytes that were lost.
    pub(super) delivered: u64,
    pub(super) lost: u64,
    delivered_at: Duration,
    first_sent: Duration,
    /// Once so many bytes have arrived, all has that was sent while more could have been. 0 when it has.
    limited_until: u64,
    /// The shortest round trip of all.
    least_rtt: Option<Duration>,
    /// Of the acknowledgement that is read: the newest packet, with its number, and bytes.
    newest: Option<(Flight, u64)>,
    acked: u64,
}

impl Deliveries {
    pub(super) fn sending(&mut self, sending: &Sending) {
        let Sending { now, first, packets, bytes, in_flight } = *sending;
        if in_flight == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        let flight = Flight {
            first,
            packets,
            bytes,
            in_flight,
            sent: now,
            delivered: self.delivered,
            lost: self.lost,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            is_limited: self.is_limited(),
        };
        // A batch of single packets is as one run of them.
        if let Some(last) = self.flights.back_mut()
            && (last.end(), last.bytes, last.sent) == (first, bytes, now)
            && (last.delivered, last.lost) == (flight.delivered, flight.lost)
            && last.is_limited == flight.is_limited
        {
            last.packets += packets;
            return;
        }
        self.flights.push_back(flight);
    }

    /// What arrives until `in_flight` has is no measure of the way.
    pub(super) fn limit(&mut self, in_flight: u64) {
        self.limited_until = (self.delivered + in_flight).max(1);
    }

    /// Whether more could be sent than there is.
    pub(super) fn is_limited(&self) -> bool {
        self.limited_until > 0
    }

    pub(super) fn acknowledged(&mut self, arrival: &Arrival) {
        self.delivered += arrival.bytes;
        self.acked += arrival.bytes;
        self.delivered_at = arrival.now;
        // The newest is told first.
        if self.newest.is_none()
            && arrival.is_data
            && let Some(flight) = self.flight(arrival.last)
        {
            self.first_sent = flight.sent;
            self.newest = Some((flight, arrival.last));
        }
    }

    /// What the acknowledgement says that was read; `None` where it told of nothing that was measured.
    pub(super) fn sample(&mut self, now: Duration) -> Option<Sample> {
        let acked = std::mem::take(&mut self.acked);
        if self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        let (flight, number) = self.newest.take()?;
        let rtt = now.saturating_sub(flight.sent);
        let least = self.least_rtt.map_or(rtt, |least| least.min(rtt));
        self.least_rtt = Some(least);
        // Acknowledgements may come in heaps, so that it arrived no faster than it was sent.
        let took_to_send = flight.sent.saturating_sub(flight.first_sent);
        let took_to_arrive = self.delivered_at.saturating_sub(flight.delivered_at);
        let took = took_to_send.max(took_to_arrive);
        let delivered = self.delivered - flight.delivered;
        let is_known = took >= least && !took.is_zero();
        Some(Sample {
            delivered,
            prior_delivered: flight.delivered,
            rate: if is_known { delivered as f64 / took.as_secs_f64() } else { 0.0 },
            rtt,
            acked,
            in_flight: flight.in_flight_at(number),
            lost: flight.lost_since(self.lost),
            is_limited: flight.is_limited,
        })
    }

    /// Of the newest packet of the acknowledgement that is read: bytes in flight when it was on its way, and
    /// whether there could have been more.
    pub(super) fn newest(&self) -> Option<(u64, bool)> {
        let (flight, number) = self.newest.as_ref()?;
        Some((flight.in_flight_at(*number), flight.is_limited))
    }

    /// What was known when a packet was sent.
    pub(super) fn flight(&self, number: u64) -> Option<Flight> {
        let behind = self.flights.partition_point(|flight| flight.first <= number);
        let flight = self.flights.get(behind.checked_sub(1)?)?;
        (number < flight.end()).then_some(*flight)
    }

    #[cfg(test)]
    pub(super) fn flights(&self) -> usize {
        self.flights.len()
    }

    /// Packets below this number are done.
    pub(super) fn forget(&mut self, oldest: u64) {
        while self.flights.front().is_some_and(|flight| flight.end() <= oldest) {
            self.flights.pop_front();
        }
        if self.flights.is_empty() {
            self.flights.shrink_to(RESTING_FLIGHTS);
        }
    }
}
