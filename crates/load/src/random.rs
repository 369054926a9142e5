//! Random numbers for picking objects: fast, seeded, the same on every machine.

use crate::content::mix;

/// SplitMix64. Good enough to pick objects with, and one multiplication chain per number.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
    /// What numbers that name something unknown differ by from those of another run.
    run: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: mix(seed), run: 0 }
    }

    /// The same numbers, and names of this run alone for what is unknown.
    pub(crate) fn of_run(self, run: u64) -> Self {
        Self { run: mix(run), ..self }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number for something that nobody has asked for before, not in another run of the same seed either:
    /// the cache may still have what that asked for.
    pub(crate) fn unknown(&mut self) -> u64 {
        self.next() ^ self.run
    }

    /// A number from `first` to `last`, both included, each as likely; `first` if they are swapped.
    pub(crate) fn between(&mut self, first: u64, last: u64) -> u64 {
        let span = u128::from(last.saturating_sub(first)) + 1;
        first + ((u128::from(self.next()) * span) >> 64) as u64
    }

    /// From 0 up to but without 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Normally distributed with mean 0 and deviation 1 (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Exponentially distributed with mean 1: the gaps between arrivals that know nothing of each
    /// other.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_bounds_and_reach_both() {
        let mut random = Random::new(7);
        let mut seen = [0_u32; 4];
        for _ in 0..4000 {
            seen[(random.between(3, 6) - 3) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
        assert_eq!(random.between(5, 5), 5);
        assert_eq!(random.between(9, 2), 9);
        let _ = random.between(0, u64::MAX);
    }

    #[test]
    fn distributions_have_their_moments() {
        let mut random = Random::new(1);
        let count = 100_000;
        let normal: Vec<f64> = (0..count).map(|_| random.normal()).collect();
        let mean = normal.iter().sum::<f64>() / f64::from(count);
        let square = normal.iter().map(|x| x * x).sum::<f64>() / f64::from(count);
        assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.03, "{mean} {square}");
        let gaps = (0..count).map(|_| random.exponential()).sum::<f64>() / f64::from(count);
        assert!((gaps - 1.0).abs() < 0.02, "{gaps}");
    }
}
