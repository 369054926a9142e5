//! How fast packets go out: in bursts that a batch is made of, not one by one (RFC 9002 §7.7).

use super::limits::{BATCH_BYTES_MAX, DATAGRAM_BYTES_MAX};
use std::time::Duration;

/// The least that goes out at once of what a window allows: the first window (RFC 9002 §7.2).
const BURST_BYTES_MIN: u64 = 10 * DATAGRAM_BYTES_MAX as u64;
/// The most that goes out at once: two batches, so that a response that is not much longer than one does not wait for
/// its end, and a timer that comes late takes nothing from a fast client.
const BURST_BYTES_MAX: u64 = 2 * BATCH_BYTES_MAX as u64;
/// What a burst lasts at the rate of a window.
const BURST: Duration = Duration::from_millis(2);
/// The least that goes out at once at a rate that was measured (draft-ietf-ccwg-bbr-06 §5.6.3).
const QUANTUM_BYTES_MIN: u64 = 2 * DATAGRAM_BYTES_MAX as u64;
/// How long it is worth to wait for more: what Linux puts into one segment of TCP that is cut by the device.
const QUANTUM: Duration = Duration::from_millis(1);
/// So much later than asked for a timer may come without anything being sent slower for it.
const LATENESS: Duration = Duration::from_millis(2);

/// How fast packets are to go out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Bytes a second.
    pub(super) rate: f64,
    /// Bytes for which a timer is set.
    pub(super) quantum: u64,
    /// Bytes that go out at once at most.
    most: u64,
}

impl Pace {
    /// The window within less than a round trip, so that it is the window that is filled. In slow start
    /// packets go twice as fast as they are acknowledged.
    pub(super) fn of_window(window: u64, rtt: Duration, is_starting: bool) -> Self {
        let gain = if is_starting { 2.0 } else { 1.25 };
        let rate = gain * window as f64 / rtt.as_secs_f64().max(1e-6);
        let most = bytes_in(rate, BURST).clamp(BURST_BYTES_MIN, BURST_BYTES_MAX);
        Self { rate, quantum: worth(rate).max(BURST_BYTES_MIN), most }
    }

    /// Bytes a second that were measured.
    pub(super) fn of_rate(rate: f64) -> Self {
        let quantum = worth(rate).max(QUANTUM_BYTES_MIN);
        Self { rate, quantum, most: (quantum + bytes_in(rate, LATENESS)).min(BURST_BYTES_MAX) }
    }

    /// Bytes that are not sent one by one while they come to be allowed, which at a low rate are few: there
    /// acknowledgements of each have the next go out.
    pub(super) fn gathered(&self) -> u64 {
        worth(self.rate)
    }
}

fn bytes_in(rate: f64, span: Duration) -> u64 {
    (rate * span.as_secs_f64()) as u64
}

/// Bytes of a batch that it is worth to wait for.
fn worth(rate: f64) -> u64 {
    bytes_in(rate, QUANTUM).min(BATCH_BYTES_MAX as u64)
}

/// A bucket that fills at a pace.
#[derive(Debug)]
pub(super) struct Pacer {
    /// Bytes that may go out now.
    bytes: u64,
    filled: Duration,
}

impl Pacer {
    pub(super) const fn new() -> Self {
        Self { bytes: BURST_BYTES_MIN, filled: Duration::ZERO }
    }

    /// Fills the bucket. A near client gets whole batches at once.
    pub(super) fn fill(&mut self, now: Duration, pace: &Pace, is_near: bool) {
        let passed = now.saturating_sub(self.filled);
        let more = pace.rate * passed.as_secs_f64();
        if more < 1.0 {
            return;
        }
        self.filled = now;
        let most = if is_near { BURST_BYTES_MAX } else { pace.most };
        self.bytes = self.bytes.saturating_add(more as u64).min(most);
    }

    /// Whether so many bytes may go out.
    pub(super) fn has(&self, bytes: u64) -> bool {
        self.bytes >= bytes
    }

    /// How many full packets may go out.
    pub(super) fn packets(&self, bytes: usize) -> u64 {
        self.bytes / bytes.max(1) as u64
    }

    /// Bytes went out.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }

    /// When a burst of at least so many bytes may go out again.
    pub(super) fn next(&self, pace: &Pace, least: u64) -> Duration {
        // One more of both, as parts of bytes and of nanoseconds are left out: it is there then, and time has passed.
        let missing = pace.quantum.max(least).saturating_sub(self.bytes) + 1;
        let wait = missing as f64 / pace.rate.max(1.0);
        self.filled + Duration::from_secs_f64(wait.min(1.0)) + Duration::from_nanos(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_is_near_gets_whole_batches() {
        let pace = Pace::of_window(100_000, Duration::from_millis(50), false);
        for (is_near, want) in [(true, BURST_BYTES_MAX), (false, BURST_BYTES_MIN)] {
            let mut pacer = Pacer::new();
            pacer.fill(Duration::from_secs(1), &pace, is_near);
            assert_eq!(pacer.bytes, want);
        }
    }

    /// Bytes of a second in which timers come so much later than they are asked for.
    fn second(pace: &Pace, late: Duration) -> u64 {
        let mut pacer = Pacer::new();
        let (mut now, mut sent) = (Duration::ZERO, 0);
        while now < Duration::from_secs(1) {
            pacer.fill(now, pace, false);
            while pacer.has(1200) {
                pacer.spend(1200);
                sent += 1200;
            }
            let next = pacer.next(pace, 1200);
            assert!(next > now);
            now = next + late;
        }
        sent
    }

    #[test]
    fn what_is_waited_for_is_there_in_time() {
        for rate in [999_983, 7_777_777, 64_000_003, 5_522_340_000_u64] {
            let pace = Pace::of_rate(rate as f64);
            let mut pacer = Pacer::new();
            for turn in 0..1000 {
                pacer.spend(BURST_BYTES_MAX as usize);
                let wanted = pace.gathered().max(pace.quantum);
                // Also where only one byte is missing.
                pacer.bytes = [0, wanted - 1][turn % 2];
                let next = pacer.next(&pace, wanted);
                pacer.fill(next, &pace, false);
                assert!(pacer.has(wanted), "{rate}: {} of {wanted}", pacer.bytes);
            }
        }
    }

    #[test]
    fn bursts_come_at_the_rate_of_the_window() {
        let pace = Pace::of_window(100_000, Duration::from_millis(50), false);
        let sent = second(&pace, Duration::ZERO);
        // 1.25 windows each round trip.
        assert!((2_400_000..2_600_000).contains(&sent), "{sent}");
    }

    #[test]
    fn what_was_measured_goes_out_as_fast_though_timers_are_late() {
        for rate in [20_000, 1_000_000, 10_000_000] {
            let pace = Pace::of_rate(rate as f64);
            for late in [Duration::ZERO, LATENESS] {
                let sent = second(&pace, late);
                let least = rate - rate / 100 - 2 * pace.quantum;
                let most = rate + rate / 100 + BURST_BYTES_MIN;
                assert!((least..most).contains(&sent), "{rate} {late:?}: {sent}");
            }
        }
        // A millisecond's worth at once.
        assert_eq!(Pace::of_rate(10e6).quantum, 10_000);
    }
}
