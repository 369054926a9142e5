//! Which tactic is best for the traffic, measured.
//!
//! Each tactic runs in a shadow cache over the same sample of keys, as much smaller than the cache
//! as the sample is. Every request of the sample says for each of them whether it would have been
//! a hit where that of the present tactic would not, or the other way round. The tactic that is
//! ahead by more than chance explains becomes the present one.

use super::shadow::{Shadow, Use};
use super::tactic::{Objective, TACTICS, Tactic, first};

/// Requests of the sample between two decisions.
const DECISION_EVERY: u64 = 256;

/// Requests of the sample after which what was seen counts half. With a sample of 4,096 objects
/// and 8 in 10 hits they renew the shadows three times, so one that had a bad start is judged by
/// what it does now.
const HALF_LIFE: f64 = 65_536.0;

/// How many standard deviations a tactic must be ahead. It is asked some hundred times in a half
/// life whether one of seven is, so two would be passed by chance often and four almost never.
const DEVIATIONS_MIN: f64 = 3.0;

/// The least part of all requests, or bytes, a tactic must have been ahead by: less is not worth
/// an exchange of what is stored.
const GAIN_MIN: f64 = 0.001;

/// The shadows and what they showed.
#[derive(Debug)]
pub struct Tuner {
    objective: Objective,
    contenders: Vec<Contender>,
    current: usize,
    /// Keys up to here are in the sample, of 2^32.
    sample_below: u64,
    sample_objects_max: usize,
    requests: u64,
    /// What was asked for lately, in requests or bytes.
    asked: f64,
    hits: Vec<bool>,
}

#[derive(Debug)]
struct Contender {
    shadow: Shadow,
    /// What it had lately and the present tactic had not, less the other way round.
    lead: f64,
    /// The squares of all that went into `lead`: its variance if there is no difference.
    squares: f64,
}

impl Tuner {
    /// A tuner that looks at all keys until a shadow has more than `sample_objects_max` objects,
    /// and at half of them each time it does. Takes some 150 bytes per tactic and object.
    pub fn new(objective: Objective, sample_objects_max: usize) -> Self {
        let contender = |tactic: &Tactic| Contender {
            shadow: Shadow::new(objective, *tactic),
            lead: 0.0,
            squares: 0.0,
        };
        Self {
            objective,
            contenders: TACTICS.iter().map(contender).collect(),
            current: first(objective),
            sample_below: WHOLE,
            sample_objects_max: sample_objects_max.max(1),
            requests: 0,
            asked: 0.0,
            hits: Vec::new(),
        }
    }

    /// Shows a request, of which those outside the sample are passed over. `capacity_bytes` is
    /// what the cache holds. The tactic to change to, where there is a better one.
    pub fn observe(&mut self, request: &Use, capacity_bytes: u64) -> Option<Tactic> {
        if u64::from(request.point) >= self.sample_below {
            return None;
        }
        let capacity = (u128::from(capacity_bytes) * u128::from(self.sample_below)) >> WHOLE_BITS;
        let capacity = u64::try_from(capacity).unwrap_or(u64::MAX).max(1);
        self.hits.clear();
        for contender in &mut self.contenders {
            self.hits.push(contender.shadow.request(request, capacity));
        }
        let weight = match self.objective {
            Objective::Requests => 1.0,
            Objective::Bytes => request.bytes as f64,
        };
        let current = self.hits[self.current];
        for (contender, hit) in self.contenders.iter_mut().zip(&self.hits) {
            if *hit != current {
                contender.lead += if *hit { weight } else { -weight };
                contender.squares += weight * weight;
            }
        }
        self.asked += weight;
        self.requests += 1;
        if !self.requests.is_multiple_of(DECISION_EVERY) {
            return None;
        }
        self.fit_sample();
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

    /// Keeps the sample within its bounds. It grows again when the objects have become larger.
    fn fit_sample(&mut self) {
        let objects = self.contenders.iter().map(|one| one.shadow.len()).max().unwrap_or(0);
        if objects > self.sample_objects_max {
            self.halve_sample();
        } else if objects < self.sample_objects_max / 8 && self.sample_below < WHOLE {
            self.sample_below *= 2;
        }
    }

    fn decide(&mut self) -> Option<Tactic> {
        let ahead = |one: &Contender| {
            one.lead > DEVIATIONS_MIN * one.squares.sqrt() && one.lead > GAIN_MIN * self.asked
        };
        let best = (0..self.contenders.len())
            .filter(|index| ahead(&self.contenders[*index]))
            .max_by(|a, b| self.contenders[*a].lead.total_cmp(&self.contenders[*b].lead));
        if let Some(best) = best {
            self.current = best;
            self.asked = 0.0;
            for contender in &mut self.contenders {
                (contender.lead, contender.squares) = (0.0, 0.0);
            }
            return Some(self.tactic());
        }
        let keep = 0.5_f64.powf(DECISION_EVERY as f64 / HALF_LIFE);
        self.asked *= keep;
        for contender in &mut self.contenders {
            contender.lead *= keep;
            contender.squares *= keep * keep;
        }
        None
    }
}

/// All keys.
const WHOLE: u64 = 1 << WHOLE_BITS;
const WHOLE_BITS: u32 = 32;
