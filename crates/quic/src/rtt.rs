//! The round trip's time (RFC 9002 §5).

use std::time::Duration;

/// Before anything is known (RFC 9002 §6.2.2).
const INITIAL: Duration = Duration::from_millis(333);
/// The finest that timers are (RFC 9002 §6.1.2).
pub(super) const GRANULARITY: Duration = Duration::from_millis(1);

/// A round trip that has no router's queue in it to fill.
const NEAR: Duration = Duration::from_millis(2);

/// How long a packet takes there and its acknowledgement back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    pub(super) smoothed: Duration,
    variation: Duration,
    pub(super) latest: Duration,
    pub(super) least: Duration,
    is_known: bool,
}

impl Rtt {
    pub(super) const fn new() -> Self {
        Self {
            smoothed: INITIAL,
            variation: Duration::from_micros(166_500),
            latest: INITIAL,
            least: INITIAL,
            is_known: false,
        }
    }

    /// A packet took `latest`, of which the client says it held the acknowledgement back for `held`.
    pub(super) fn sample(&mut self, latest: Duration, held: Duration) {
        self.latest = latest;
        if !self.is_known {
            self.is_known = true;
            (self.least, self.smoothed, self.variation) = (latest, latest, latest / 2);
            return;
        }
        self.least = self.least.min(latest);
        let adjusted = if latest >= self.least + held { latest - held } else { latest };
        self.variation = (self.variation * 3 + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
    }

    /// Whether any packet was measured.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether the client is near enough for a whole batch at once.
    pub(super) fn is_near(&self) -> bool {
        self.is_known && Self::is_near_trip(self.least)
    }

    /// Whether a way of such a round trip is.
    pub(super) fn is_near_trip(least: Duration) -> bool {
        least < NEAR
    }

    /// How long an acknowledgement takes at most, but for what the client holds back (RFC 9002
    /// §6.2.1).
    pub(super) fn probe_timeout(&self) -> Duration {
        self.smoothed + (self.variation * 4).max(GRANULARITY)
    }

    /// The longer of what it took last and what it takes mostly.
    pub(super) fn longer(&self) -> Duration {
        self.latest.max(self.smoothed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_holds_back_is_not_the_way() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::new();
        rtt.sample(ms(100), ms(20));
        assert_eq!((rtt.smoothed, rtt.variation), (ms(100), ms(50)));
        for _ in 0..100 {
            rtt.sample(ms(120), ms(20));
        }
        assert_eq!(rtt.smoothed, ms(100));
        assert!(rtt.probe_timeout() < ms(103));
        // It cannot make the way shorter than it is.
        rtt.sample(ms(100), ms(90));
        assert_eq!(rtt.smoothed, ms(100));
    }
}
