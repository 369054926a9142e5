//! What the index tells its monitor: requests for what is stored, or could be.
//!
//! A request counts when it is answered from an object, when it brings one, and when it finds that
//! one is still good. So the monitor sees what a cache of any size would be asked for, and nothing
//! of what cannot be stored. It sees requests in the order they came, which is what it learns
//! from. For a request outside the sample all this is a comparison.

use crate::cache::{Cache, lock};
use crate::eviction::CurvePoint;
use crate::object::Object;
use crate::shard::Shard;
use freshet_base::clock::UnixMillis;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

/// What the monitor has learned.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// Bytes the cache may have at present, in all classes of memory.
    pub capacity_bytes: u64,
    /// The name of the tactic the queues are run by.
    pub tactic: &'static str,
    /// The part of all keys the tactic was chosen by.
    pub tactic_sample_rate: f64,
    /// The part of all keys the curve is made from.
    pub sample_rate: f64,
    /// Requests the curve is made from, since the start.
    pub requests_sampled: u64,
    /// Requests for what is stored or could be, since the start.
    pub requests: u64,
    /// The curve.
    pub points: Vec<CurvePoint>,
}

impl Cache {
    /// Notes that `object`, whose key has this hash, was asked for, at a time where that is known, and
    /// releases the lock of its shard. Its key is not looked at: that would be one more miss of the
    /// processor's cache.
    #[inline]
    pub(crate) fn note(
        &self,
        shard: MutexGuard<'_, Shard>,
        hash: u128,
        object: &Object,
        now: Option<UnixMillis>,
    ) {
        let point = point_of(hash);
        if u64::from(point) < self.sample_below.load(Relaxed) {
            self.show(shard, object, point, now);
        }
    }

    #[cold]
    fn show(
        &self,
        mut shard: MutexGuard<'_, Shard>,
        object: &Object,
        point: u32,
        now: Option<UnixMillis>,
    ) {
        // With some thousand a second they rarely meet, and one request more or less does no harm.
        let Ok(mut monitor) = self.monitor.try_lock() else { return };
        let requests = shard.counters.storable_requests();
        let all = requests - std::mem::replace(&mut shard.requests_shown, requests);
        drop(shard);
        let better = monitor.observe(&object.demand(point), all, now);
        self.sample_below.store(monitor.sample_below(), Relaxed);
        drop(monitor);
        if let Some(tactic) = better {
            self.with_fifo(|fifo| fifo.set_tactic(tactic));
        }
    }

    /// What the traffic has shown so far: how the hit ratios would be at some capacities, were the
    /// cache a least-recently-used one, and how it is run.
    pub fn learned(&self, capacities_bytes: &[u64]) -> Learned {
        let requests = self.stats().counters.storable_requests();
        let tactic = self.with_fifo(|fifo| fifo.tactic());
        let monitor = lock(&self.monitor);
        Learned {
            capacity_bytes: self.capacity_bytes(),
            tactic: tactic.name,
            tactic_sample_rate: monitor.tuner.sample_rate(),
            sample_rate: monitor.curve.sample_rate(),
            requests_sampled: monitor.curve.observed(),
            requests,
            points: monitor.curve.at(capacities_bytes),
        }
    }
}

/// Where a key lies among all: bits that choose neither the shard nor the place in it.
fn point_of(hash: u128) -> u32 {
    (hash >> 64) as u32
}
