//! Memory over disks: which tactic of disks is best for the traffic, measured.
//!
//! Beneath one shadow of memory each tactic of disks runs a shadow of its own, over the same sample of
//! keys. What memory has is the same for all of them, so it is simulated once. The tactic whose hits
//! are worth most, less what it writes, is the one to run the disks by.

use super::shadow::{Demand, Shadow};
use super::shadow_disk::{Asked, ShadowDisk};
use super::tactic::{Objective, Tactic};
use super::tuner::Tuner;
use freshet_disk::budget::Seen;
use freshet_disk::tactic::{TACTICS, Tactic as DiskTactic};

/// What a byte written costs, in bytes of hits: six tenths of a point of hits are worth no more than
/// writing what is fetched a half more often.
const WRITE_PRICE: f64 = 0.02;

/// Requests of the sample between two decisions.
const DECISION_EVERY: u64 = 256;

/// What was seen counts half after so many requests of the sample for each object that it may have.
const HALF_LIFE_PER_OBJECT: f64 = 32.0;

/// How many standard deviations it has to be ahead, as if requests came independently.
const DEVIATIONS_MIN: f64 = 3.0;

/// The least part of what was asked for that a tactic has to be ahead by.
const GAIN_MIN: f64 = 0.002;

/// A tactic stays until the sample missed so many times what a shadow holds.
const TURNOVERS_MIN: u64 = 1;

/// A sample with fewer than this part of the objects it may have takes in more keys.
const GROWTH_BELOW: usize = 8;

/// Segments of a shadow: enough that one of them is a small part of it.
const SEGMENTS: u64 = 64;

/// Fingerprints of fetches that a shadow remembers for each object it may have.
const SEEN_PER_OBJECT: u64 = 2;

/// Shadows of disks, and what they showed.
#[derive(Debug)]
pub struct DiskTuner {
    memory: Shadow,
    contenders: Vec<Contender>,
    current: usize,
    /// Keys up to here are in the sample, of 2^32.
    sample_below: u64,
    objects_max: usize,
    disk_bytes: u64,
    requests: u64,
    misses: u64,
    /// What was asked for lately.
    asked: f64,
}

#[derive(Debug)]
struct Contender {
    disk: ShadowDisk,
    /// What it had lately less what it wrote, by what both are worth.
    gain: f64,
    /// For each contender the squares of what lately only one of both had: the variance of the
    /// difference of their hits if both are as good.
    apart: [f64; TACTICS.len()],
    written_bytes: u64,
}

impl DiskTuner {
    /// A tuner of disks of `disk_bytes`, which looks at all keys until a shadow has more than
    /// `objects_max` objects, and at half of them each time it does. Takes some 150 bytes per tactic
    /// and object.
    pub fn new(objective: Objective, disk_bytes: u64, objects_max: usize) -> Self {
        let slots = SEEN_PER_OBJECT * objects_max as u64;
        let contender = |tactic: &DiskTactic| Contender {
            disk: ShadowDisk::new(*tactic, disk_bytes, SEGMENTS, Seen::with_slots(slots)),
            gain: 0.0,
            apart: [0.0; TACTICS.len()],
            written_bytes: 0,
        };
        Self {
            memory: Shadow::new(Tactic::first(objective)),
            contenders: TACTICS.iter().map(contender).collect(),
            current: 0,
            sample_below: 1 << 32,
            objects_max: objects_max.max(1),
            disk_bytes,
            requests: 0,
            misses: 0,
            asked: 0.0,
        }
    }

    /// Shows a request, of which those outside the sample are passed over, and what memory is run by
    /// and holds. The tactic to change to, where there is a better one.
    pub fn observe(
        &mut self,
        request: &Demand,
        tactic: Tactic,
        memory_bytes: u64,
    ) -> Option<DiskTactic> {
        if u64::from(request.point) >= self.sample_below {
            return None;
        }
        if self.memory.tactic() != tactic {
            self.memory.set_tactic(tactic);
        }
        let capacity = self.scaled(memory_bytes);
        let worth = self.memory.value(request);
        self.asked += worth;
        let hits = self.memory.hits(request, capacity);
        let mut had = [false; TACTICS.len()];
        for (contender, had) in self.contenders.iter_mut().zip(&mut had) {
            *had = ask(&mut contender.disk, request, hits);
        }
        self.misses += u64::from(had.get(self.current) == Some(&false));
        if hits.is_none() {
            for (contender, here) in self.contenders.iter_mut().zip(had) {
                contender.gain += if here { worth } else { 0.0 };
                for (apart, other) in contender.apart.iter_mut().zip(had) {
                    *apart += if here == other { 0.0 } else { worth * worth };
                }
            }
        }
        self.requests += 1;
        if !self.requests.is_multiple_of(DECISION_EVERY) {
            return None;
        }
        if self.objects() > self.objects_max {
            self.halve_sample();
        }
        self.decide()
    }

    /// The tactic in use.
    pub fn tactic(&self) -> DiskTactic {
        TACTICS.get(self.current).copied().unwrap_or_default()
    }

    /// Keys whose point is below are in the sample.
    pub fn sample_below(&self) -> u64 {
        self.sample_below
    }

    /// Looks at half the keys from now on.
    pub fn halve_sample(&mut self) {
        self.sample_below = (self.sample_below / 2).max(1);
        self.memory.keep_below(self.sample_below);
        self.scale();
    }

    /// Looks at twice the keys where a shadow has so few objects that the sample says little.
    pub fn grow_sample(&mut self) {
        if self.objects() < self.objects_max / GROWTH_BELOW && self.sample_below < 1 << 32 {
            self.sample_below *= 2;
            self.scale();
        }
    }

    fn objects(&self) -> usize {
        self.contenders.iter().map(|one| one.disk.len()).max().unwrap_or(0)
    }

    /// Makes the shadows as large as the sample is of all keys.
    fn scale(&mut self) {
        let capacity = self.scaled(self.disk_bytes);
        for contender in &mut self.contenders {
            contender.disk.keep_below(self.sample_below, capacity);
        }
    }

    fn scaled(&self, bytes: u64) -> u64 {
        let scaled = (u128::from(bytes) * u128::from(self.sample_below)) >> 32;
        u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
    }

    fn decide(&mut self) -> Option<DiskTactic> {
        for contender in &mut self.contenders {
            let written = contender.disk.written();
            let bytes = written.admitted_bytes + written.kept_bytes;
            contender.gain -= WRITE_PRICE * (bytes - contender.written_bytes) as f64;
            contender.written_bytes = bytes;
        }
        let gain = |at: usize| self.contenders.get(at).map_or(0.0, |one| one.gain);
        let best = (0..self.contenders.len()).max_by(|a, b| gain(*a).total_cmp(&gain(*b)))?;
        let current = self.contenders.get(self.current)?;
        let apart = current.apart.get(best).copied().unwrap_or(0.0);
        let least = (DEVIATIONS_MIN * apart.sqrt()).max(GAIN_MIN * self.asked);
        let is_better = current.gain + least < gain(best);
        let objects = current.disk.len() as u64;
        let keep =
            0.5_f64.powf(DECISION_EVERY as f64 / (HALF_LIFE_PER_OBJECT * self.objects_max as f64));
        self.asked *= keep;
        for contender in &mut self.contenders {
            contender.gain *= keep;
            contender.apart.iter_mut().for_each(|apart| *apart *= keep * keep);
        }
        if !is_better || self.misses < TURNOVERS_MIN * objects {
            return None;
        }
        (self.current, self.misses) = (best, 0);
        Some(self.tactic())
    }
}

/// Asks a disk for what memory had not, or tells it of what memory had; whether it was on either.
fn ask(disk: &mut ShadowDisk, request: &Demand, hits: Option<u64>) -> bool {
    let Demand { fingerprint, point, bytes, .. } = *request;
    let asked = Asked { fingerprint, point, bytes };
    match hits {
        Some(hits) => {
            disk.served(asked, hits);
            true
        }
        None => disk.request(asked),
    }
}

/// Memory over one disk, of names: all that is decided about either, and nothing of what is done.
#[derive(Debug)]
pub struct Tiers {
    memory: Shadow,
    memory_bytes: u64,
    tuner: Tuner,
    disk: ShadowDisk,
    disk_tuner: Option<DiskTuner>,
    changes: u64,
}

impl Tiers {
    /// Empty memory of so many bytes over an empty disk of so many bytes and segments, with about so
    /// many objects in it; run by one tactic, or by what is measured with a sample of `sample` objects
    /// in either.
    pub fn new(
        objective: Objective,
        memory_bytes: u64,
        (disk_bytes, segments, objects): (u64, u64, u64),
        disk: Result<DiskTactic, usize>,
    ) -> Self {
        let sample = disk.err().unwrap_or(DEFAULT_SAMPLE);
        let seen = Seen::with_slots(SEEN_PER_OBJECT * objects.max(1));
        let tactic = disk.unwrap_or_default();
        Self {
            memory: Shadow::new(Tactic::first(objective)),
            memory_bytes,
            tuner: Tuner::new(objective, sample),
            disk: ShadowDisk::new(tactic, disk_bytes, segments, seen),
            disk_tuner: disk.is_err().then(|| DiskTuner::new(objective, disk_bytes, sample)),
            changes: 0,
        }
    }

    /// Asks for an object; whether it was in memory or on the disk.
    pub fn request(&mut self, request: &Demand) -> bool {
        let hits = self.memory.hits(request, self.memory_bytes);
        let had = ask(&mut self.disk, request, hits);
        if let Some(better) = self.tuner.observe(request, self.memory_bytes) {
            self.memory.set_tactic(better);
        }
        if let Some(tuner) = &mut self.disk_tuner
            && let Some(better) = tuner.observe(request, self.memory.tactic(), self.memory_bytes)
        {
            self.disk.set_tactic(better);
            self.changes += 1;
        }
        had
    }

    /// The disk.
    pub fn disk(&self) -> &ShadowDisk {
        &self.disk
    }

    /// How often the tactic of the disk was changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

/// Objects of a sample.
const DEFAULT_SAMPLE: usize = 4096;
