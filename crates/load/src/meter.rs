//! What one thread of a load counts. Nothing here is shared or locked; sums are made at the end.

use super::head::Hit;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longest latency told apart: an hour, in microseconds. What takes longer counts as that.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// Digits of latencies over a whole step.
const DIGITS: u8 = 3;

/// Digits of latencies within an interval, of which many are kept.
const INTERVAL_DIGITS: u8 = 2;

pub(super) fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, digits).expect("these bounds are in order")
}

/// Counts `nanoseconds` in microseconds.
fn record(histogram: &mut Histogram<u64>, nanoseconds: u64) {
    histogram.saturating_record((nanoseconds / 1000).max(1));
}

/// What went wrong, by kind.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Errors {
    /// Connections that could not be made.
    pub connect: u64,
    /// Handshakes of TLS that failed.
    pub tls: u64,
    /// Responses with 400 and above.
    pub status: u64,
    /// Responses that break HTTP.
    pub protocol: u64,
    /// Responses that ended early.
    pub closed: u64,
    /// Responses that took longer than the limit.
    pub timeout: u64,
    /// Responses with bytes other than expected.
    pub content: u64,
    /// Requests that were due by the clock and had no answer when the load was over.
    pub unserved: u64,
}

impl Errors {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.unanswered() + self.status + self.content
    }

    /// Those of requests that no response was complete of.
    pub(crate) fn unanswered(&self) -> u64 {
        self.connect + self.tls + self.protocol + self.closed + self.timeout + self.unserved
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.connect += other.connect;
        self.tls += other.tls;
        self.status += other.status;
        self.protocol += other.protocol;
        self.closed += other.closed;
        self.timeout += other.timeout;
        self.content += other.content;
        self.unserved += other.unserved;
    }
}

/// The counts of one class of requests.
#[derive(Clone, Debug)]
pub(super) struct ClassTally {
    pub(super) requests: u64,
    pub(super) body_bytes: u64,
    pub(super) hits: u64,
    pub(super) hit_bytes: u64,
    pub(super) misses: u64,
    pub(super) miss_bytes: u64,
    pub(super) first: Histogram<u64>,
    pub(super) last: Histogram<u64>,
}

impl ClassTally {
    fn new() -> Self {
        Self {
            requests: 0,
            body_bytes: 0,
            hits: 0,
            hit_bytes: 0,
            misses: 0,
            miss_bytes: 0,
            first: histogram(DIGITS),
            last: histogram(DIGITS),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.body_bytes += other.body_bytes;
        self.hits += other.hits;
        self.hit_bytes += other.hit_bytes;
        self.misses += other.misses;
        self.miss_bytes += other.miss_bytes;
        // Both have the same bounds.
        let _ = self.first.add(&other.first);
        let _ = self.last.add(&other.last);
    }
}

/// The counts of one interval.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    pub(super) requests: u64,
    pub(super) body_bytes: u64,
    pub(super) hit_bytes: u64,
    pub(super) miss_bytes: u64,
    pub(super) errors: u64,
    pub(super) first: Histogram<u64>,
    pub(super) last: Histogram<u64>,
}

impl Interval {
    pub(super) fn new() -> Self {
        Self {
            requests: 0,
            body_bytes: 0,
            hit_bytes: 0,
            miss_bytes: 0,
            errors: 0,
            first: histogram(INTERVAL_DIGITS),
            last: histogram(INTERVAL_DIGITS),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.body_bytes += other.body_bytes;
        self.hit_bytes += other.hit_bytes;
        self.miss_bytes += other.miss_bytes;
        self.errors += other.errors;
        let _ = self.first.add(&other.first);
        let _ = self.last.add(&other.last);
    }
}

/// All counts of a thread since the measuring began.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub(super) classes: Vec<ClassTally>,
    pub(super) errors: Errors,
    /// Responses by the first digit of their status; 0 is unused.
    pub(super) statuses: [u64; 6],
    /// Bytes of bodies as they arrived, those of responses that never ended included.
    pub(super) received_bytes: u64,
    /// Bytes of heads.
    pub(super) head_bytes: u64,
    /// Datagrams that came and their bytes, and how many were sent.
    pub(super) datagrams: u64,
    pub(super) datagram_bytes: u64,
    pub(super) datagrams_sent: u64,
    /// Connections made.
    pub(super) connections: u64,
    /// From the first packet to the end of the handshake.
    pub(super) connecting: Histogram<u64>,
    /// Responses whose content was looked at.
    pub(super) checked: u64,
    /// Requests that were due and found no free connection in time.
    pub(super) late_arrivals: u64,
    /// Requests that were sent once more, as the server closed their connection before it answered.
    pub(super) asked_again: u64,
    /// Sessions that were due by the clock.
    pub(super) arrivals: u64,
    pub(super) interval: Interval,
}

impl Meter {
    pub(super) fn new(classes: usize) -> Self {
        Self {
            classes: vec![ClassTally::new(); classes],
            errors: Errors::default(),
            statuses: [0; 6],
            received_bytes: 0,
            head_bytes: 0,
            datagrams: 0,
            datagram_bytes: 0,
            datagrams_sent: 0,
            connections: 0,
            connecting: histogram(INTERVAL_DIGITS),
            checked: 0,
            late_arrivals: 0,
            asked_again: 0,
            arrivals: 0,
            interval: Interval::new(),
        }
    }

    /// Counts bytes of a body that arrived.
    pub(super) fn receive(&mut self, bytes: u64) {
        self.received_bytes += bytes;
        self.interval.body_bytes += bytes;
    }

    /// Counts a complete response. Times are in nanoseconds since it was due.
    pub(super) fn complete(&mut self, done: &Completed) {
        let Some(class) = self.classes.get_mut(usize::from(done.class)) else { return };
        class.requests += 1;
        class.body_bytes += done.body_bytes;
        match done.hit {
            Hit::Yes => {
                class.hits += 1;
                class.hit_bytes += done.body_bytes;
                self.interval.hit_bytes += done.body_bytes;
            }
            Hit::No => {
                class.misses += 1;
                class.miss_bytes += done.body_bytes;
                self.interval.miss_bytes += done.body_bytes;
            }
            Hit::Unknown => {}
        }
        record(&mut class.first, done.first_ns);
        record(&mut class.last, done.last_ns);
        record(&mut self.interval.first, done.first_ns);
        record(&mut self.interval.last, done.last_ns);
        self.interval.requests += 1;
        let digit = usize::from(done.status / 100).min(5);
        self.statuses[digit] += 1;
        if done.status >= 400 {
            self.errors.status += 1;
            self.interval.errors += 1;
        }
    }

    /// Counts a request that was given up after `waited_ns`: left out, the slowest answers would be
    /// missing from the latencies.
    pub(super) fn give_up(
        &mut self,
        class: u16,
        waited_ns: u64,
        kind: impl FnOnce(&mut Errors) -> &mut u64,
    ) {
        if let Some(class) = self.classes.get_mut(usize::from(class)) {
            record(&mut class.first, waited_ns);
            record(&mut class.last, waited_ns);
        }
        record(&mut self.interval.last, waited_ns);
        self.fault(kind);
    }

    pub(super) fn fault(&mut self, kind: impl FnOnce(&mut Errors) -> &mut u64) {
        *kind(&mut self.errors) += 1;
        self.interval.errors += 1;
    }

    pub(super) fn connected(&mut self, nanoseconds: u64) {
        self.connections += 1;
        record(&mut self.connecting, nanoseconds);
    }

    /// Adds what another thread counted, all but its interval.
    pub(super) fn add(&mut self, other: &Self) {
        for (own, other) in self.classes.iter_mut().zip(&other.classes) {
            own.add(other);
        }
        self.errors.add(&other.errors);
        for (own, other) in self.statuses.iter_mut().zip(other.statuses) {
            *own += other;
        }
        self.received_bytes += other.received_bytes;
        self.head_bytes += other.head_bytes;
        self.datagrams += other.datagrams;
        self.datagram_bytes += other.datagram_bytes;
        self.datagrams_sent += other.datagrams_sent;
        self.connections += other.connections;
        let _ = self.connecting.add(&other.connecting);
        self.checked += other.checked;
        self.late_arrivals += other.late_arrivals;
        self.asked_again += other.asked_again;
        self.arrivals += other.arrivals;
    }

    /// Adds what became, behind the measured time, of requests that were due within it: how long they took
    /// and what failed, not what came of them. How many answers there were.
    pub(super) fn add_late(&mut self, late: &Self) -> u64 {
        for (own, late) in self.classes.iter_mut().zip(&late.classes) {
            let _ = own.first.add(&late.first);
            let _ = own.last.add(&late.last);
        }
        self.errors.add(&late.errors);
        late.classes.iter().map(|class| class.requests).sum()
    }
}

/// A response that is complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completed {
    pub(super) class: u16,
    pub(super) status: u16,
    pub(super) hit: Hit,
    pub(super) body_bytes: u64,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_threads_add_up() {
        let mut one = Meter::new(1);
        let done = Completed {
            class: 0,
            status: 200,
            hit: Hit::Yes,
            body_bytes: 100,
            first_ns: 2_000_000,
            last_ns: 5_000_000,
        };
        one.receive(100);
        one.complete(&done);
        one.complete(&Completed { status: 503, hit: Hit::No, ..done });
        one.give_up(0, 20_000_000_000, |errors| &mut errors.timeout);
        let mut sum = Meter::new(1);
        sum.add(&one);
        sum.add(&one);
        assert_eq!(sum.errors, Errors { status: 2, timeout: 2, ..Errors::default() });
        assert_eq!((sum.classes[0].requests, sum.classes[0].hits), (4, 2));
        assert_eq!(sum.classes[0].last.len(), 6);
        assert!(sum.classes[0].last.max() >= 19_990_000);
        assert_eq!(one.interval.errors, 2);
    }
}
