//! What the index tells its monitor: requests for what is stored, or could be.
//!
//! A request counts when it is answered from an object, when it brings one, and when it finds that
//! one is still good. So the monitor sees what a cache of any size would be asked for, and nothing
//! of what cannot be stored. It sees requests in the order they came, which is what it learns
//! from. For a request outside the sample all this is a comparison.

use crate::cache::Cache;
use crate::eviction::{Curve, CurvePoint};
use crate::lock::lock;
use crate::object::Object;
use crate::shard::Shard;
use freshet_base::clock::UnixMillis;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

/// What the monitor has learned.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// The name of the tactic the queues are run by.
    pub tactic: &'static str,
    /// The name of the tactic the disks are run by, where there are disks.
    pub disk_tactic: Option<&'static str>,
    /// The part of all keys the tactic was chosen by.
    pub tactic_sample_rate: f64,
    /// Requests for what is stored or could be, since the start.
    pub requests: u64,
    /// What other capacities of memory would do, all its classes together.
    pub memory: LearnedCurve,
    /// What the present memory would do over other capacities of disks, where there are disks.
    pub disks: Option<LearnedCurve>,
}

/// A curve as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedCurve {
    /// Bytes there are at present.
    pub capacity_bytes: u64,
    /// The part of all keys the curve is made from.
    pub sample_rate: f64,
    /// Requests the curve is made from, since the start.
    pub requests_sampled: u64,
    /// The curve.
    pub points: Vec<CurvePoint>,
}

impl LearnedCurve {
    /// A curve at some capacities, beside `besides_bytes` that are there in any case.
    fn new(curve: &Curve, capacity_bytes: u64, asked_bytes: &[u64], besides_bytes: u64) -> Self {
        let whole: Vec<u64> =
            asked_bytes.iter().map(|bytes| bytes.saturating_add(besides_bytes)).collect();
        let mut points = curve.at(&whole);
        for (point, bytes) in points.iter_mut().zip(asked_bytes) {
            point.capacity_bytes = *bytes;
        }
        Self {
            capacity_bytes,
            sample_rate: curve.sample_rate(),
            requests_sampled: curve.observed(),
            points,
        }
    }
}

impl Learned {
    /// Adds what an index has learned from other keys, at the same capacities. The tactics of the first stand
    /// for all: they see traffic of the same kind.
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.memory.add(&other.memory);
        if let (Some(disks), Some(more)) = (&mut self.disks, &other.disks) {
            disks.add(more);
        }
    }

    /// Says of which capacities of all indexes this is.
    pub(crate) fn set_capacities(
        &mut self,
        memory_bytes: u64,
        memory_asked: &[u64],
        disk_bytes: u64,
        disk_asked: &[u64],
    ) {
        self.memory.set_capacities(memory_bytes, memory_asked);
        if let Some(disks) = &mut self.disks {
            disks.set_capacities(disk_bytes, disk_asked);
        }
    }
}

impl LearnedCurve {
    /// Adds a curve over other keys: a ratio of both is that of each by its requests.
    fn add(&mut self, other: &Self) {
        let (own, more) = (self.requests_sampled as f64, other.requests_sampled as f64);
        let mean = |one: f64, two: f64| match own + more {
            0.0 => one,
            all => (one * own + two * more) / all,
        };
        for (point, two) in self.points.iter_mut().zip(&other.points) {
            point.request_hit_ratio = mean(point.request_hit_ratio, two.request_hit_ratio);
            point.byte_hit_ratio = mean(point.byte_hit_ratio, two.byte_hit_ratio);
        }
        self.sample_rate = mean(self.sample_rate, other.sample_rate);
        self.requests_sampled += other.requests_sampled;
    }

    fn set_capacities(&mut self, capacity_bytes: u64, asked_bytes: &[u64]) {
        self.capacity_bytes = capacity_bytes;
        for (point, bytes) in self.points.iter_mut().zip(asked_bytes) {
            point.capacity_bytes = *bytes;
        }
    }
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
        let demand = object.demand(point);
        let better = monitor.observe(&demand, all, now);
        let lives = object.with_head(|head| head.freshness.lifetime());
        if lives >= self.settings.disk_lifetime_min
            && let Some(better) = monitor.observe_for_disks(&demand)
        {
            self.settings.disk_tactic.set(better);
        }
        self.sample_below.store(monitor.sample_below(), Relaxed);
        drop(monitor);
        if let Some(tactic) = better {
            self.with_fifo(|fifo| fifo.set_tactic(tactic));
        }
    }

    /// What the traffic has shown so far: how the hit ratios would be at some capacities of memory
    /// and of disks, were the cache a least-recently-used one, and how it is run.
    pub fn learned(&self, memory_bytes: &[u64], disk_bytes: &[u64]) -> Learned {
        let requests = self.stats().counters.storable_requests();
        let tactic = self.with_fifo(|fifo| fifo.tactic());
        let capacity = self.capacity_bytes();
        let monitor = lock(&self.monitor);
        let of_disks = |curve: &Curve| {
            LearnedCurve::new(curve, self.settings.disk_bytes, disk_bytes, capacity)
        };
        Learned {
            tactic: tactic.name,
            disk_tactic: monitor.disks.as_ref().map(|_| self.settings.disk_tactic.tactic().name),
            tactic_sample_rate: monitor.tuner.sample_rate(),
            requests,
            memory: LearnedCurve::new(&monitor.curve, capacity, memory_bytes, 0),
            disks: monitor.disk_curve.as_ref().map(of_disks),
        }
    }
}

/// Where a key lies among all: bits that choose neither the shard nor the place in it.
fn point_of(hash: u128) -> u32 {
    (hash >> 64) as u32
}
