//! What each network gets of DNS over UDP, so that the router floods nobody in whose name it is asked.

use crate::decision::key::network_bytes;
use crate::limits::DNS_NETWORKS;
use freshet_base::random;
use freshet_limits::{Rate, Rates, Secret, Ticks};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Part of the table that is swept at a time, every few seconds: all of it has to be once in ten days.
const SWEPT: f64 = 0.01;

/// What networks got lately, in a table that all workers share.
#[derive(Debug)]
pub(super) struct Throttle {
    rates: Rates,
    secret: Secret,
    began: Instant,
    above: AtomicU64,
}

impl Throttle {
    /// Nobody got anything yet.
    pub(super) fn new() -> Self {
        Self {
            rates: Rates::new(DNS_NETWORKS),
            secret: Secret::from_bytes(random::secret()),
            began: Instant::now(),
            above: AtomicU64::new(0),
        }
    }

    /// Whether the network of `from` may have one more answer.
    pub(super) fn allows(&self, from: IpAddr, rate: &Rate) -> bool {
        let key = self.secret.key(0, &network_bytes(from));
        let is_allowed = self.rates.take(key, rate, self.now()).is_allowed();
        if !is_allowed {
            self.above.fetch_add(1, Relaxed);
        }
        is_allowed
    }

    /// Forgets a part of what has no meaning any more.
    pub(super) fn sweep(&self) {
        self.rates.sweep(SWEPT, self.now());
    }

    /// How often somebody got no more.
    pub(super) fn above(&self) -> u64 {
        self.above.load(Relaxed)
    }

    fn now(&self) -> Ticks {
        Ticks::from(self.began.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_network_gets_so_many_and_another_its_own() {
        let throttle = Throttle::new();
        let rate = Rate::of(3, Duration::from_secs(3600)).unwrap();
        let allowed = |from: [u8; 4]| throttle.allows(IpAddr::from(from), &rate);
        let all: Vec<_> = (0..5).map(|host| allowed([192, 0, 2, host])).collect();
        assert_eq!(all, [true, true, true, false, false]);
        assert!(allowed([192, 0, 3, 1]));
        throttle.sweep();
        assert_eq!(throttle.above(), 2);
    }
}
