//! What an operator hears of a node that runs without asking: limits that bite, and certificates that end soon.
//!
//! Who refuses something counts it, and no more: it may happen with every packet of an attack. Here the counters are
//! looked at, and what has grown is said with the key that did it, once in [`SAID_EVERY`] for each.

use crate::certificates::renewal;
use freshet_base::clock::UnixMillis;
use freshet_base::counter::Counter;
use freshet_base::log_limit::LogLimit;
use freshet_net::tls::certificate::{CertificateStore, Expiry};
use freshet_net::tls::validity::Validity;
use freshet_telemetry::stats::WorkerStats;
use freshet_worker::worker::Worker;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::interval;

/// How often the counters are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often one limit is told of.
const SAID_EVERY: Duration = Duration::from_secs(10);
/// How often certificates are looked at.
const CERTIFICATES_EVERY: Duration = Duration::from_secs(86_400);

/// A limit, by what counts what it refused.
struct Limit {
    refused: fn(&WorkerStats) -> &Counter,
    /// What was done to so many.
    says: &'static str,
    cure: &'static str,
}

const LIMITS: [Limit; 5] = [
    Limit {
        refused: |stats| &stats.connections_refused,
        says: "connections were refused, as limits.connections_max are open",
        cure: "raise it where memory and descriptors allow, or look for who holds them: freshet top",
    },
    Limit {
        refused: |stats| &stats.connections_network_refused,
        says: "connections were refused, as their networks have limits.connections_network_max",
        cure: "raise it where many clients share an address",
    },
    Limit {
        refused: |stats| &stats.requests_no_room,
        says: "requests were refused, as those under way hold limits.requests_bytes_max",
        cure: "origins may be slow, or heads and bodies large: raise it with memory",
    },
    Limit {
        refused: |stats| &stats.requests_limited,
        says: "requests were answered with 429 by [[rate_limit]]",
        cure: "the access log has their clients",
    },
    Limit {
        refused: |stats| &stats.readers_ended,
        says: "responses were broken off, as slow clients held limits.readers_percent of memory",
        cure: "raise it, or memory",
    },
];

/// What was said of one limit.
#[derive(Default)]
struct Said {
    /// Of how many.
    count: u64,
    log: LogLimit,
}

impl Said {
    /// How many are to be told of now, where `count` were refused since the start.
    fn grown(&mut self, count: u64, now: UnixMillis) -> Option<u64> {
        let more = count.checked_sub(self.count).filter(|more| *more > 0)?;
        self.log.admit(now, SAID_EVERY)?;
        self.count = count;
        Some(more)
    }
}

/// Looks until the worker ends.
pub(crate) async fn run(worker: Rc<Worker>, certificates: Option<Arc<CertificateStore>>) {
    let mut said = LIMITS.each_ref().map(|_| Said::default());
    let mut looks = interval(LOOK_EVERY);
    // A start has looked at them itself.
    let mut looked_at = UnixMillis::now();
    loop {
        looks.tick().await;
        let now = UnixMillis::now();
        for (limit, said) in LIMITS.iter().zip(&mut said) {
            let count =
                worker.shared.stats.iter().map(|stats| (limit.refused)(stats).value()).sum();
            if let Some(more) = said.grown(count, now) {
                tracing::warn!(cure = limit.cure, "{more} {}", limit.says);
            }
        }
        if let Some(store) =
            certificates.as_ref().filter(|_| now.since(looked_at) > CERTIFICATES_EVERY)
        {
            looked_at = now;
            store.expiries().iter().filter_map(|one| due(one, now)).for_each(|(message, cure)| {
                tracing::warn!(cure, "{message}");
            });
        }
    }
}

/// What is due for a certificate, and what to do.
fn due(certificate: &Expiry, now: UnixMillis) -> Option<(String, &'static str)> {
    let validity = Validity { from_s: i64::MIN, until_s: certificate.until_s };
    let (message, cure) = renewal(validity, i64::try_from(now.0 / 1000).unwrap_or(i64::MAX))?;
    Some((format!("{}: {message}", certificate.name), cure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_limit_refused_is_said_once_in_a_while_and_all_of_it() {
        let mut said = Said::default();
        let mut at = |count, ms| said.grown(count, UnixMillis(ms));
        assert_eq!(
            [at(0, 0), at(3, 1_000), at(3, 2_000), at(5, 3_000)],
            [None, Some(3), None, None]
        );
        assert_eq!([at(9, 11_000), at(9, 60_000), at(10, 61_000)], [Some(6), None, Some(1)]);
    }

    #[test]
    fn each_limit_names_a_key_and_a_cure() {
        for limit in &LIMITS {
            assert!(!limit.cure.is_empty() && limit.says.contains(['.', '[']), "{}", limit.says);
        }
    }

    #[test]
    fn a_certificate_is_told_of_in_its_last_two_weeks() {
        let certificate = Expiry { name: "tv.example".into(), until_s: 100 * 86_400 };
        let on_day = |day: u64| due(&certificate, UnixMillis(day * 86_400_000));
        assert_eq!(on_day(85), None);
        assert_eq!(on_day(87).unwrap().0, "tv.example: the certificate expires in 13 days");
        assert_eq!(on_day(102).unwrap().0, "tv.example: the certificate expired 2 days ago");
    }
}
