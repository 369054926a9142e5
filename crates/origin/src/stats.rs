//! What happened with an origin, as counters.

use crate::error::{FailureKind, OriginError};
use crate::share::{Party, Seat};
use freshet_base::counter::SharedCounter;
use std::sync::Arc;

/// Counters of one origin, added to by all workers. A relaxed atomic add each: origins are asked
/// on misses, far less often than clients are answered.
#[derive(Debug, Default)]
pub struct OriginStats {
    /// Exchanges begun.
    pub requests: SharedCounter,
    /// Requests that had a connection, counted anew where they are sent again.
    pub sent: SharedCounter,
    /// Requests that were not sent because a policy chose it and it is down.
    pub refrained: SharedCounter,
    /// Connections handed out for tunnels.
    pub tunnels: SharedCounter,
    /// Head bytes of requests that became tunnels.
    pub tunnel_head_bytes: SharedCounter,
    /// Bytes to the origin through tunnels, without those heads.
    pub tunnel_bytes_sent: SharedCounter,
    /// Bytes from the origin through tunnels.
    pub tunnel_bytes_received: SharedCounter,
    /// Final response heads received.
    pub responses: SharedCounter,
    /// Connections opened.
    pub connects: SharedCounter,
    /// Exchanges that began on a connection used before.
    pub reuses: SharedCounter,
    /// Exchanges begun again because a reused connection was dead.
    pub retries: SharedCounter,
    /// Exchanges that had to wait for `connections_max`.
    pub waits: SharedCounter,
    /// Those of them that got no connection in time.
    pub waits_in_vain: SharedCounter,
    /// Bytes of requests sent, heads and framing included, TLS not.
    pub bytes_sent: SharedCounter,
    /// Bytes of responses received, heads and framing included, TLS not.
    pub bytes_received: SharedCounter,
    /// Gauge: exchanges between their start and the end of their response body.
    pub in_flight: SharedCounter,
    /// Gauge: connections open, idle ones included.
    pub open: SharedCounter,
    /// Gauge: connections idle in a pool.
    pub idle: SharedCounter,
    /// Microseconds from a request sent to its final head, summed over `responses`.
    pub first_byte_us_sum: SharedCounter,
    /// Microseconds to open connections (name, TCP, TLS), summed over `connects`.
    pub connect_us_sum: SharedCounter,
    /// Probes sent.
    pub probes: SharedCounter,
    /// Probes that failed.
    pub probe_failures: SharedCounter,
    failures: [SharedCounter; FailureKind::COUNT],
}

impl OriginStats {
    /// Counts a failed exchange.
    pub(crate) fn failed(&self, error: &OriginError) {
        if let Some(counter) = self.failures.get(error.kind().index()) {
            counter.add(1);
        }
    }

    /// Failed exchanges of one kind.
    pub fn failures(&self, kind: FailureKind) -> u64 {
        self.failures.get(kind.index()).map_or(0, SharedCounter::value)
    }

    /// Failed exchanges of all kinds.
    pub fn failures_sum(&self) -> u64 {
        self.failures.iter().map(SharedCounter::value).sum()
    }
}

/// One unit of a gauge, given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    origin: Arc<crate::definition::Origin>,
    gauge: fn(&OriginStats) -> &SharedCounter,
    /// Its part of a share, which goes back with it.
    seat: Option<Seat>,
}

impl Held {
    pub(crate) fn new(
        origin: &Arc<crate::definition::Origin>,
        gauge: fn(&OriginStats) -> &SharedCounter,
    ) -> Self {
        gauge(&origin.stats).add(1);
        Self { origin: Arc::clone(origin), gauge, seat: None }
    }

    /// An exchange in flight, with its part of a share.
    ///
    /// # Errors
    /// None was to be had.
    pub(crate) async fn in_flight(
        origin: &Arc<crate::definition::Origin>,
        party: Option<Party>,
    ) -> Result<Self, OriginError> {
        let mut held = Self::new(origin, |stats| &stats.in_flight);
        if let Some(party) = party {
            held.seat = Seat::take(origin, party).await?;
        }
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        (self.gauge)(&self.origin.stats).subtract(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_kind() {
        let stats = OriginStats::default();
        stats.failed(&OriginError::OriginClosed { response_bytes: 0 });
        stats.failed(&OriginError::OriginBroken { reason: "reset".into() });
        stats.failed(&OriginError::OriginUnaskedUpgrade);
        assert_eq!(stats.failures(FailureKind::Closed), 2);
        assert_eq!(stats.failures_sum(), 3);
    }
}
