//! A histogram of times that costs one add per value.

use crate::counter::Counter;

/// Sub-buckets per power of two: 16 keeps the error of a read-out under 1/16, about 6 %.
const STEPS: usize = 16;
/// Powers of two above the first `STEPS` values: reaches 2^36 µs, some 19 hours.
const POWERS: usize = 32;

/// Upper ends of the few buckets of times that are counted by many labels, in microseconds.
pub const FEW_BUCKETS_US: [u64; 13] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// Counts of values in log-linear buckets. One writer, any number of readers, as [`Counter`].
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[Counter]>,
    sum: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = (0..STEPS * (POWERS + 1)).map(|_| Counter::default()).collect();
        Self { buckets, sum: Counter::default() }
    }
}

impl Histogram {
    /// Counts `value`; values beyond the range count in the last bucket.
    #[inline]
    pub fn record(&self, value: u64) {
        self.buckets[bucket_of(value)].increment();
        self.sum.add(value);
    }

    /// Adds the counts of this histogram to `total`.
    pub fn add_to(&self, total: &mut Totals) {
        total.counts.resize(self.buckets.len(), 0);
        for (sum, bucket) in total.counts.iter_mut().zip(&self.buckets) {
            *sum += bucket.value();
        }
        total.sum += self.sum.value();
    }
}

/// Sums over several histograms.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    counts: Vec<u64>,
    sum: u64,
}

impl Totals {
    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The value below which `share` (0 to 1) of all values lie, to within 1/16; 0 without values.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_of(index);
            }
        }
        0
    }

    /// The buckets that are not empty: the largest value of each and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter().enumerate();
        counts.filter(|(_, count)| **count > 0).map(|(index, count)| (upper_of(index), *count))
    }

    /// How many values are at most `limit`, to within one bucket.
    pub fn count_up_to(&self, limit: u64) -> u64 {
        self.counts
            .iter()
            .enumerate()
            .take_while(|(i, _)| upper_of(*i) <= limit)
            .map(|(_, n)| n)
            .sum()
    }
}

fn bucket_of(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let power = 63 - value.leading_zeros() as usize - STEPS.ilog2() as usize;
    let step = (value >> power) as usize & (STEPS - 1);
    ((power + 1) * STEPS + step).min(STEPS * (POWERS + 1) - 1)
}

/// The largest value of a bucket.
fn upper_of(index: usize) -> u64 {
    if index < STEPS {
        return index as u64;
    }
    let power = index / STEPS - 1;
    (((index % STEPS + STEPS + 1) as u64) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for value in (0..10_000).chain((20..35).map(|power| (1 << power) + 12_345)) {
            let index = bucket_of(value);
            assert!(value <= upper_of(index), "{value}");
            assert!(index == 0 || value > upper_of(index - 1), "{value}");
        }
    }

    #[test]
    fn quantiles_are_within_a_sixteenth() {
        let histogram = Histogram::default();
        (1..=10_000).for_each(|value| histogram.record(value));
        let mut total = Totals::default();
        histogram.add_to(&mut total);
        assert_eq!(total.count(), 10_000);
        for (share, want) in [(0.5, 5_000.0), (0.99, 9_900.0)] {
            let got = total.quantile(share) as f64;
            assert!((got - want).abs() / want < 1.0 / 16.0, "{share}: {got}");
        }
        assert_eq!(total.buckets().map(|(_, count)| count).sum::<u64>(), 10_000);
        assert_eq!(Totals::default().quantile(0.5), 0);
    }
}
