//! Which tactic is best for the traffic, measured.
//!
//! Each tactic runs in a shadow cache over the same sample of keys, as much smaller than the cache
//! as the sample is. Every request of the sample says for each of them whether it would have been
//! a hit where that of the present tactic would not, or the other way round. The tactic that is
//! ahead by more than chance explains becomes the present one.

use super::shadow::{Demand, Shadow};
use super::tactic::{Objective, TACTICS, Tactic, first};

/// Requests of the sample between two decisions.
const DECISION_EVERY: u64 = 256;

/// What was seen counts half after so many requests of the sample for each object that it may
/// have. A change costs what the other tactic would not have evicted, so it should not follow each
/// phase of the day.
const HALF_LIFE_PER_OBJECT: f64 = 32.0;

/// How many standard deviations a tactic must be ahead, as if requests came independently.
const DEVIATIONS_MIN: f64 = 3.0;

/// The least part of all requests, or bytes, a tactic must be ahead by: less is not worth an
/// exchange of what is stored.
const GAIN_MIN: f64 = 0.001;

/// A tactic stays until the sample's misses came to so many times what a shadow holds: before that
/// it is what came before it that is being judged.
const TURNOVERS_MIN: u64 = 2;

/// A sample with fewer than this part of the objects it may have takes in more keys.
const GROWTH_BELOW: usize = 8;

/// The shadows and what they showed.
#[derive(Debug)]
pub struct Tuner {
    contenders: Vec<Contender>,
    current: usize,
    /// Keys up to here are in the sample, of 2^32.
    sample_below: u64,
    sample_objects_max: usize,
    requests: u64,
    /// Misses since the last change.
    misses: u64,
    /// What was asked for lately, by what it is worth ([`Shadow::value`]).
    asked: f64,
}

#[derive(Debug)]
struct Contender {
    shadow: Shadow,
    /// What it had lately, by what it is worth.
    had: f64,
    /// For each contender the squares of what lately only one of both had: the variance of the
    /// difference of `had` if both are as good.
    apart: [f64; TACTICS.len()],
}

impl Tuner {
    /// A tuner that looks at all keys until a shadow has more than `sample_objects_max` objects,
    /// and at half of them each time it does. Begins as is best for `objective`, which is what most
    /// requests count for. Takes some 150 bytes per tactic and object.
    pub fn new(objective: Objective, sample_objects_max: usize) -> Self {
        let contender = |tactic: &Tactic| Contender {
            shadow: Shadow::new(*tactic),
            had: 0.0,
            apart: [0.0; TACTICS.len()],
        };
        Self {
            contenders: TACTICS.iter().map(contender).collect(),
            current: first(objective),
            sample_below: WHOLE,
            sample_objects_max: sample_objects_max.max(1),
            requests: 0,
            misses: 0,
            asked: 0.0,
        }
    }

    /// Shows a request, of which those outside the sample are passed over. `capacity_bytes` is
    /// what the cache holds. The tactic to change to, where there is a better one.
    pub fn observe(&mut self, request: &Demand, capacity_bytes: u64) -> Option<Tactic> {
        if u64::from(request.point) >= self.sample_below {
            return None;
        }
        let capacity = (u128::from(capacity_bytes) * u128::from(self.sample_below)) >> WHOLE_BITS;
        let capacity = u64::try_from(capacity).unwrap_or(u64::MAX).max(1);
        let weight = self.contenders[self.current].shadow.value(request);
        let mut hits = [false; TACTICS.len()];
        for (contender, hit) in self.contenders.iter_mut().zip(&mut hits) {
            *hit = contender.shadow.request(request, capacity);
        }
        for (contender, hit) in self.contenders.iter_mut().zip(hits) {
            contender.had += if hit { weight } else { 0.0 };
            for (apart, other) in contender.apart.iter_mut().zip(hits) {
                *apart += if hit == other { 0.0 } else { weight * weight };
            }
        }
        self.asked += weight;
        self.requests += 1;
        self.misses += u64::from(!hits[self.current]);
        if !self.requests.is_multiple_of(DECISION_EVERY) {
            return None;
        }
        if self.objects() > self.sample_objects_max {
            self.halve_sample();
        }
        self.decide()
    }

    /// The tactic in use.
    pub fn tactic(&self) -> Tactic {
        TACTICS[self.current]
    }

    /// The part of all keys that is in the sample.
    pub fn sample_rate(&self) -> f64 {
        self.sample_below as f64 / WHOLE as f64
    }

    /// Keys whose point is below are in the sample.
    pub fn sample_below(&self) -> u64 {
        self.sample_below
    }

    /// Looks at half the keys from now on.
    pub fn halve_sample(&mut self) {
        self.sample_below = (self.sample_below / 2).max(1);
        for contender in &mut self.contenders {
            contender.shadow.keep_below(self.sample_below);
        }
    }

    /// Looks at twice the keys where objects have become so large, or so few, that the sample says
    /// little. Those that are new to it are misses for all tactics alike.
    pub fn grow_sample(&mut self) {
        if self.objects() < self.sample_objects_max / GROWTH_BELOW && self.sample_below < WHOLE {
            self.sample_below *= 2;
        }
    }

    fn objects(&self) -> usize {
        self.contenders.iter().map(|one| one.shadow.len()).max().unwrap_or(0)
    }

    fn decide(&mut self) -> Option<Tactic> {
        let current = &self.contenders[self.current];
        let ahead = |index: &usize| {
            let (other, apart) = (&self.contenders[*index], current.apart[*index]);
            let least = (DEVIATIONS_MIN * apart.sqrt()).max(GAIN_MIN * self.asked);
            other.had - current.had > least
        };
        let current_objects = current.shadow.len() as u64;
        let best = (0..self.contenders.len())
            .filter(ahead)
            .max_by(|a, b| self.contenders[*a].had.total_cmp(&self.contenders[*b].had));
        let half_life = HALF_LIFE_PER_OBJECT * self.sample_objects_max as f64;
        let keep = 0.5_f64.powf(DECISION_EVERY as f64 / half_life);
        self.asked *= keep;
        for contender in &mut self.contenders {
            contender.had *= keep;
            contender.apart.iter_mut().for_each(|apart| *apart *= keep * keep);
        }
        if self.misses < TURNOVERS_MIN * current_objects {
            return None;
        }
        self.current = best?;
        self.misses = 0;
        Some(self.tactic())
    }
}

/// All keys.
const WHOLE: u64 = 1 << WHOLE_BITS;
const WHOLE_BITS: u32 = 32;
