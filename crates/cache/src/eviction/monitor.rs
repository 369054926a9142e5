//! What is learned from the traffic, at a bounded cost.

use super::curve::Curve;
use super::shadow::Demand;
use super::tactic::{Objective, Tactic};
use super::tiers::DiskTuner;
use super::tuner::Tuner;
use freshet_base::clock::UnixMillis;
use freshet_disk::tactic::Tactic as DiskTactic;

/// Requests looked at in one second. Each costs about a microsecond in eight shadows and the
/// curve, so this is half a percent of one core; where there are more, fewer keys are looked at.
const OBSERVED_PER_SECOND_MAX: u32 = 5_000;

/// Memory behind each object of the largest sample, and one of the smallest and the largest
/// sample. Shadows take some 1.2 KB for it, those of disks 500 bytes and a curve 100: 3 % of the memory
/// of the cache.
const MEMORY_PER_OBJECT: u64 = 64 << 10;
const OBJECTS_MIN: u64 = 256;
const OBJECTS_MAX: u64 = 16_384;
const SHADOWS_BYTES: u64 = 1_200;
const CURVE_BYTES: u64 = 100;
const DISK_SHADOWS_BYTES: u64 = 500;

/// The curve reaches to so many times the capacity.
const REACH: u64 = 16;

/// That of disks reaches to so many times theirs: they are hundreds of times as large, and where the
/// sample reaches further it has less of what is near.
const DISK_REACH: u64 = 8;

/// Shadows and curve of one cache.
#[derive(Debug)]
pub(crate) struct Monitor {
    pub(crate) tuner: Tuner,
    /// The curve of memory.
    pub(crate) curve: Curve,
    /// That of memory and disks, where there are disks.
    pub(crate) disk_curve: Option<Curve>,
    /// How disks are run best, where there are disks.
    pub(crate) disks: Option<DiskTuner>,
    capacity_bytes: u64,
    objects_max: usize,
    second: u64,
    in_second: u32,
}

impl Monitor {
    /// A monitor of a cache of `capacity_bytes` over disks of `disk_bytes`.
    pub(crate) fn new(objective: Objective, capacity_bytes: u64, disk_bytes: u64) -> Self {
        let objects_max = objects_max(capacity_bytes);
        Self {
            tuner: Tuner::new(objective, objects_max),
            curve: Curve::new(objects_max, capacity_bytes.saturating_mul(REACH)),
            disk_curve: (disk_bytes > 0).then(|| {
                let reach = disk_bytes.saturating_mul(DISK_REACH).saturating_add(capacity_bytes);
                Curve::new(objects_max, reach)
            }),
            disks: (disk_bytes > 0).then(|| DiskTuner::new(objective, disk_bytes, objects_max)),
            capacity_bytes,
            objects_max,
            second: 0,
            in_second: 0,
        }
    }

    /// The cache may have more, or less, from now on.
    pub(crate) fn set_capacity(&mut self, capacity_bytes: u64) {
        self.capacity_bytes = capacity_bytes;
        self.curve.set_reach(capacity_bytes.saturating_mul(REACH));
    }

    /// Bytes it takes at most.
    pub(crate) fn bytes_max(&self) -> u64 {
        let disks = u64::from(self.disk_curve.is_some());
        let each = SHADOWS_BYTES + CURVE_BYTES + disks * (CURVE_BYTES + DISK_SHADOWS_BYTES);
        self.objects_max as u64 * each
    }

    /// Shows a request of the sample, and how many requests there were since the last one, this one
    /// included. The tactic to change to, where there is a better one.
    pub(crate) fn observe(
        &mut self,
        request: &Demand,
        all: u64,
        now: Option<UnixMillis>,
    ) -> Option<Tactic> {
        for curve in self.curves() {
            curve.count_all(all);
            curve.observe(request);
        }
        self.pace(now);
        self.tuner.observe(request, self.capacity_bytes)
    }

    /// The same of what may go to a disk: the tactic to run disks by from now on, where there is a
    /// better one.
    pub(crate) fn observe_for_disks(&mut self, request: &Demand) -> Option<DiskTactic> {
        self.disks.as_mut()?.observe(request, self.tuner.tactic(), self.capacity_bytes)
    }

    /// Keys whose point is below are in a sample.
    pub(crate) fn sample_below(&self) -> u64 {
        let curve = self.disk_curve.as_ref().map_or(0, Curve::sample_below);
        let disks = self.disks.as_ref().map_or(0, DiskTuner::sample_below);
        self.tuner.sample_below().max(self.curve.sample_below()).max(curve).max(disks)
    }

    fn curves(&mut self) -> impl Iterator<Item = &mut Curve> {
        [Some(&mut self.curve), self.disk_curve.as_mut()].into_iter().flatten()
    }

    fn pace(&mut self, now: Option<UnixMillis>) {
        let second = now.map_or(self.second, |now| now.0 / 1000);
        if second == self.second {
            self.in_second += 1;
            if self.in_second > OBSERVED_PER_SECOND_MAX {
                self.in_second = 0;
                let below = self.sample_below();
                if self.tuner.sample_below() == below {
                    self.tuner.halve_sample();
                } else if let Some(disks) =
                    self.disks.as_mut().filter(|one| one.sample_below() == below)
                {
                    disks.halve_sample();
                } else if let Some(curve) = self.curves().find(|one| one.sample_below() == below) {
                    curve.halve_sample();
                }
            }
            return;
        }
        if self.in_second < OBSERVED_PER_SECOND_MAX / 4 {
            self.tuner.grow_sample();
            self.disks.iter_mut().for_each(DiskTuner::grow_sample);
            self.curves().for_each(Curve::grow_sample);
        }
        (self.second, self.in_second) = (second, 1);
    }
}

fn objects_max(capacity_bytes: u64) -> usize {
    let objects = (capacity_bytes / MEMORY_PER_OBJECT).clamp(OBJECTS_MIN, OBJECTS_MAX);
    usize::try_from(objects).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(name: u64) -> Demand {
        let hash = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let point = (hash >> 32) as u32;
        Demand { point, fingerprint: hash, bytes: 1000, objective: Objective::Bytes }
    }

    #[test]
    fn a_rush_at_few_objects_makes_the_sample_smaller_and_quiet_larger() {
        let mut monitor = Monitor::new(Objective::Bytes, 1 << 30, 1 << 40);
        for request in 0..300_000 {
            monitor.observe(&demand(request % 50), 1, Some(UnixMillis(1_000_000)));
        }
        assert!(monitor.sample_below() <= 1 << 27, "{}", monitor.sample_below());
        for second in 0..100 {
            monitor.observe(&demand(1), 1, Some(UnixMillis(2_000_000 + second * 1000)));
        }
        assert_eq!(monitor.sample_below(), 1 << 32);
    }

    #[test]
    fn small_caches_have_small_samples() {
        let bytes_max = |capacity| Monitor::new(Objective::Bytes, capacity, 1 << 50).bytes_max();
        assert!(bytes_max(16 << 20) * 33 < 16 << 20);
        assert!(bytes_max(1 << 40) < 32 << 20);
    }
}
