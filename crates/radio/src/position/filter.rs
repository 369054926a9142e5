//! Where a client is, as far as its measurements say: a particle filter (Gordon, Salmond and Smith, 1993).
//!
//! Each particle is a place, a velocity and, for each site, what stands between it and that place
//! ([`super::tracks`]). Particles walk on, are weighed by what is measured, and those of little weight make room for
//! copies of others.

use super::propagation::{EXCESS_M, EXPECTED, SHADOWING_DB, distance_m};
use super::tracks::{Measurement, Tracks};
use crate::Ellipse;
use crate::random::Random;

/// Particles of a client of the platform: less than half of what a study takes, and hardly worse.
pub(crate) const PARTICLES: usize = 400;
/// The share of an estimate's radius: so much of the probability is within it.
pub const CONFIDENCE: f64 = 0.95;
/// Speeds at the beginning, from nothing to this, in metres a second.
const SPEED_MAX_M_S: f64 = 20.0;
/// How much a velocity changes in a second, on each axis, in metres a second.
const ACCELERATION_M_S: f64 = 0.7;
/// How often a client turns a corner, in times a second.
const TURNS_PER_S: f64 = 1.0 / 40.0;
/// Longest time between two measurements, in seconds: after more a client is looked for anew.
const GAP_S_MAX: f64 = 30.0;
/// A measurement that is less likely than this by the best of all particles begins the search anew: the
/// logarithm of what each of its values has to have on average.
const LOST_LOG: f64 = -9.0;
/// Longest distance at which a client is looked for, in metres: the timing advance of NR ends near it.
const REACH_M: f64 = 50_000.0;

/// An estimate of a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    /// The mean, in metres.
    pub(crate) place_m: [f64; 2],
    /// Variances to the east and to the north, and their covariance, in square metres.
    pub(crate) covariance_m2: [f64; 3],
    /// The circle around the mean that has [`CONFIDENCE`] of the probability, in metres.
    pub(crate) radius_m: f64,
}

impl Estimate {
    /// The ellipse that has [`CONFIDENCE`] of the probability, were it normally distributed.
    pub(crate) fn ellipse(&self) -> Ellipse {
        let [east, north, both] = self.covariance_m2;
        let (middle, half) = ((east + north) / 2.0, ((east - north) / 2.0).hypot(both));
        let deviations = (-2.0 * (1.0 - CONFIDENCE).ln()).sqrt();
        let axis_m = |variance: f64| deviations * variance.max(0.0).sqrt();
        // The longer axis is where the variance is largest, from the north to the east.
        let angle = 0.5 * (2.0 * both).atan2(north - east);
        Ellipse {
            semi_major_m: axis_m(middle + half),
            semi_minor_m: axis_m(middle - half),
            orientation_degrees: angle.to_degrees().rem_euclid(180.0),
        }
    }
}

/// A particle filter of one client.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    random: Random,
    places_m: Vec<[f64; 2]>,
    velocities_m_s: Vec<[f64; 2]>,
    weights: Vec<f64>,
    tracks: Tracks,
}

impl Filter {
    /// Begins with a measurement; nothing where nothing of it says how far from a site the client is.
    pub(crate) fn new(measurement: &Measurement, particles: usize, seed: u64) -> Option<Self> {
        let mut random = Random::new(seed);
        let places_m = spread(measurement, particles, &mut random)?;
        let velocities_m_s =
            (0..particles).map(|_| polar(SPEED_MAX_M_S * random.uniform(), &mut random)).collect();
        let weights = vec![1.0 / particles as f64; particles];
        let mut filter = Self {
            random,
            places_m,
            velocities_m_s,
            weights,
            tracks: Tracks::new(particles, EXPECTED),
        };
        filter.weigh(measurement, 0.0);
        Some(filter)
    }

    /// Walks on for a time and takes a measurement in. Returns the logarithm of its likelihood by all that was
    /// measured before.
    pub(crate) fn step(&mut self, passed_s: f64, measurement: &Measurement) -> f64 {
        let values = measurement.heard.len() + usize::from(measurement.advance.is_some());
        if passed_s <= GAP_S_MAX {
            let moved_m = self.walk(passed_s);
            let log = self.weigh(measurement, moved_m);
            if values == 0 || log > LOST_LOG * values as f64 {
                return log;
            }
        }
        let seed = (self.random.uniform() * u32::MAX as f64) as u64;
        if let Some(anew) = Self::new(measurement, self.places_m.len(), seed) {
            *self = anew;
        }
        0.0
    }

    /// Moves all particles; returns how far on average, in metres.
    fn walk(&mut self, passed_s: f64) -> f64 {
        let noise = ACCELERATION_M_S * passed_s.sqrt();
        let turns = 1.0 - (-TURNS_PER_S * passed_s).exp();
        let mut moved_m = 0.0;
        let each = self.places_m.iter_mut().zip(&mut self.velocities_m_s).zip(&self.weights);
        for ((place_m, velocity), weight) in each {
            if self.random.uniform() < turns {
                *velocity = polar(velocity[0].hypot(velocity[1]), &mut self.random);
            }
            for axis in 0..2 {
                velocity[axis] += noise * self.random.normal();
                place_m[axis] += velocity[axis] * passed_s;
            }
            moved_m += weight * velocity[0].hypot(velocity[1]) * passed_s;
        }
        moved_m
    }

    fn weigh(&mut self, measurement: &Measurement, moved_m: f64) -> f64 {
        let mut logs = vec![0.0; self.places_m.len()];
        self.tracks.update(measurement, &self.places_m, moved_m, &mut logs);
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (weight, log) in self.weights.iter_mut().zip(&logs) {
            *weight *= (log - most).exp();
        }
        let sum: f64 = self.weights.iter().sum();
        if !(sum.is_normal() && most.is_finite()) {
            let even = 1.0 / self.weights.len() as f64;
            self.weights.fill(even);
            return f64::NEG_INFINITY;
        }
        self.weights.iter_mut().for_each(|weight| *weight /= sum);
        let effective = 1.0 / self.weights.iter().map(|weight| weight * weight).sum::<f64>();
        if effective < self.weights.len() as f64 / 2.0 {
            self.resample();
        }
        most + sum.ln()
    }

    /// Systematic resampling (Kitagawa, 1996).
    fn resample(&mut self) {
        let count = self.weights.len();
        let mut at = self.random.uniform() / count as f64;
        let (mut index, mut sum) = (0, self.weights[0]);
        let mut from = Vec::with_capacity(count);
        for _ in 0..count {
            while sum < at && index + 1 < count {
                index += 1;
                sum += self.weights[index];
            }
            from.push(index);
            at += 1.0 / count as f64;
        }
        self.places_m = from.iter().map(|index| self.places_m[*index]).collect();
        self.velocities_m_s = from.iter().map(|index| self.velocities_m_s[*index]).collect();
        self.tracks.choose(&from);
        self.weights.fill(1.0 / count as f64);
    }

    /// Where the client is.
    pub(crate) fn estimate(&self) -> Estimate {
        let mean = |of: &dyn Fn(&[f64; 2]) -> f64| {
            let each = self.places_m.iter().zip(&self.weights);
            each.map(|(place_m, weight)| weight * of(place_m)).sum::<f64>()
        };
        let [x, y] = [mean(&|place_m| place_m[0]), mean(&|place_m| place_m[1])];
        let covariance_m2 = [
            mean(&|place_m| (place_m[0] - x).powi(2)),
            mean(&|place_m| (place_m[1] - y).powi(2)),
            mean(&|place_m| (place_m[0] - x) * (place_m[1] - y)),
        ];
        let away_m = |place_m: &[f64; 2]| (place_m[0] - x).hypot(place_m[1] - y);
        let mut by_distance: Vec<(f64, f64)> = self
            .places_m
            .iter()
            .zip(&self.weights)
            .map(|(place_m, weight)| (away_m(place_m), *weight))
            .collect();
        by_distance.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let mut sum = 0.0;
        let within = by_distance.iter().find(|(_, weight)| {
            sum += weight;
            sum >= CONFIDENCE
        });
        let radius_m =
            within.or_else(|| by_distance.last()).map_or(0.0, |(distance_m, _)| *distance_m);
        Estimate { place_m: [x, y], covariance_m2, radius_m }
    }
}

/// A vector of a length, in any direction.
fn polar(length: f64, random: &mut Random) -> [f64; 2] {
    let (sin, cos) = (std::f64::consts::TAU * random.uniform()).sin_cos();
    [length * cos, length * sin]
}

/// Places around the site whose distance is known best: a ring by the timing advance, else by the power of
/// the strongest cell.
fn spread(
    measurement: &Measurement,
    particles: usize,
    random: &mut Random,
) -> Option<Vec<[f64; 2]>> {
    let strongest =
        measurement.heard.iter().max_by(|one, other| one.rsrp_dbm.total_cmp(&other.rsrp_dbm));
    let site_m = match (&measurement.advance, strongest) {
        (Some(advance), _) => advance.site_m,
        (None, Some(heard)) => heard.site_m,
        (None, None) => return None,
    };
    let places = (0..particles).map(|_| {
        let distance = match (&measurement.advance, strongest) {
            (Some(advance), _) => {
                let within = advance.step_m * (random.uniform() - 0.5);
                advance.range_m + within - (EXCESS_M * random.normal()).abs()
            }
            (None, Some(heard)) => {
                let shadowing_db = SHADOWING_DB * random.normal();
                distance_m(heard.first_metre_dbm, heard.rsrp_dbm + shadowing_db)
            }
            (None, None) => 0.0,
        };
        let [x, y] = polar(distance.clamp(0.0, REACH_M), random);
        [site_m[0] + x, site_m[1] + y]
    });
    Some(places.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ellipse_lies_as_its_covariance_does() {
        let ellipse = |covariance_m2| {
            Estimate { place_m: [0.0, 0.0], covariance_m2, radius_m: 0.0 }.ellipse()
        };
        for (covariance_m2, degrees) in [
            ([100.0, 400.0, 0.0], 0.0),
            ([400.0, 100.0, 0.0], 90.0),
            ([250.0, 250.0, 150.0], 45.0),
            ([250.0, 250.0, -150.0], 135.0),
        ] {
            let found = ellipse(covariance_m2);
            assert!((found.orientation_degrees - degrees).abs() < 1e-6, "{found:?}");
            // 2.448 deviations of 20 m and of 10 m.
            assert!((found.semi_major_m - 48.96).abs() < 0.01, "{found:?}");
            assert!((found.semi_minor_m - 24.48).abs() < 0.01, "{found:?}");
        }
    }
}
