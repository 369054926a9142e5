//! How fast packets go out: in bursts that a batch is made of, not one by one (RFC 9002 §7.7).

use super::limits::BATCH_BYTES_MAX;
use super::rtt::Rtt;
use std::time::Duration;

/// The least that goes out at once: the first window (RFC 9002 §7.2).
const BURST_BYTES_MIN: u64 = 10 * 1452;
/// What a burst lasts at the present rate.
const BURST: Duration = Duration::from_millis(2);
/// A bucket that fills at the rate of the congestion window.
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

    /// Fills the bucket. In slow start packets go twice as fast as they are acknowledged.
    pub(super) fn fill(&mut self, now: Duration, window: u64, rtt: &Rtt, is_starting: bool) {
        let passed = now.saturating_sub(self.filled);
        let rate = Self::rate(window, rtt.smoothed, is_starting);
        let more = rate * passed.as_secs_f64();
        if more < 1.0 {
            return;
        }
        self.filled = now;
        let least = if rtt.is_near() { BATCH_BYTES_MAX as u64 } else { BURST_BYTES_MIN };
        let burst = ((rate * BURST.as_secs_f64()) as u64).clamp(least, BATCH_BYTES_MAX as u64);
        self.bytes = self.bytes.saturating_add(more as u64).min(burst);
    }

    /// Whether a full packet may go out.
    pub(super) fn has(&self, bytes: usize) -> bool {
        self.bytes >= bytes as u64
    }

    /// How many full packets may go out.
    pub(super) fn packets(&self, bytes: usize) -> u64 {
        self.bytes / bytes.max(1) as u64
    }

    /// Bytes went out.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }

    /// When a burst may go out again.
    pub(super) fn next(&self, window: u64, rtt: Duration, is_starting: bool) -> Duration {
        let missing = BURST_BYTES_MIN.saturating_sub(self.bytes) as f64;
        let wait = missing / Self::rate(window, rtt, is_starting).max(1.0);
        self.filled + Duration::from_secs_f64(wait.min(1.0))
    }

    fn rate(window: u64, rtt: Duration, is_starting: bool) -> f64 {
        let gain = if is_starting { 2.0 } else { 1.25 };
        gain * window as f64 / rtt.as_secs_f64().max(1e-6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(time: Duration) -> Rtt {
        let mut rtt = Rtt::new();
        rtt.sample(time, Duration::ZERO);
        rtt
    }

    #[test]
    fn a_client_that_is_near_gets_a_whole_batch() {
        for (millis, want) in [(1, BATCH_BYTES_MAX as u64), (3, BURST_BYTES_MIN)] {
            let mut pacer = Pacer::new();
            let mut rtt = known(Duration::from_millis(millis));
            // Much is on its way, so that it takes long by now.
            (0..100).for_each(|_| rtt.sample(Duration::from_millis(50), Duration::ZERO));
            pacer.fill(Duration::from_secs(1), 100_000, &rtt, false);
            assert_eq!(pacer.bytes, want);
        }
    }

    #[test]
    fn bursts_come_at_the_rate_of_the_window() {
        let (window, rtt) = (100_000, Duration::from_millis(50));
        let mut pacer = Pacer::new();
        let (mut now, mut sent) = (Duration::ZERO, 0);
        while now < Duration::from_secs(1) {
            pacer.fill(now, window, &known(rtt), false);
            while pacer.has(1200) {
                pacer.spend(1200);
                sent += 1200;
            }
            let next = pacer.next(window, rtt, false);
            assert!(next > now);
            now = next;
        }
        // 1.25 windows each round trip.
        assert!((2_400_000..2_600_000).contains(&sent), "{sent}");
    }
}
