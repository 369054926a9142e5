//! Requests that are examples of how long responses take: those whose traces a collector is told of.

use freshet_base::clock::UnixMillis;
use std::sync::{Mutex, PoisonError};

/// Upper ends of the buckets of first-byte times, in µs: a hit from memory takes tens of them, an
/// origin far away a second.
pub const FIRST_BYTE_BUCKETS_US: [u64; 18] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000,
];

/// The last traced request of each bucket, and of what is longer; of hits, and of others.
pub type OfBuckets = [Option<Exemplar>; FIRST_BYTE_BUCKETS_US.len() + 1];

/// A request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exemplar {
    /// Its trace, in hexadecimal digits.
    pub trace_id: Box<str>,
    /// How long its first byte took.
    pub first_byte_us: u64,
    /// When it was over.
    pub at: UnixMillis,
}

/// The examples of a node. It is locked for requests that are traced, and for who reads metrics.
#[derive(Debug, Default)]
pub struct Exemplars(Mutex<[OfBuckets; 2]>);

impl Exemplars {
    /// Takes the place of the one before of as long.
    pub fn note(&self, is_hit: bool, exemplar: Exemplar) {
        let at = FIRST_BYTE_BUCKETS_US.partition_point(|end| *end < exemplar.first_byte_us);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all[usize::from(is_hit)][at] = Some(exemplar);
    }

    /// Those of hits, or of others.
    pub fn of(&self, is_hit: bool) -> OfBuckets {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(is_hit)].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_has_the_last_of_its_own() {
        let exemplars = Exemplars::default();
        for (is_hit, first_byte_us) in [(true, 0), (true, 50), (true, 51), (false, u64::MAX)] {
            let trace_id = format!("{first_byte_us:032x}").into();
            exemplars.note(is_hit, Exemplar { trace_id, first_byte_us, at: UnixMillis(7) });
        }
        let times = |is_hit| exemplars.of(is_hit).map(|one| one.map(|one| one.first_byte_us));
        assert_eq!(times(true)[..3], [Some(50), Some(51), None]);
        assert_eq!((times(false)[0], times(false)[18]), (None, Some(u64::MAX)));
    }
}
