//! Which bit rate a player chooses: by the throughput it has seen and by what its buffer holds.
//!
//! The estimate is the harmonic mean of the last segments, as common players have it: one slow segment
//! weighs more than one fast one. The choice is the highest bit rate below a part of it, and the lowest
//! of all when the buffer is nearly dry.

use std::collections::VecDeque;
use std::time::Duration;

/// Segments that the estimate is made of.
const SEGMENTS: usize = 5;

/// Part of the estimate that a bit rate may take, so that chance does not empty the buffer.
const SAFETY: f64 = 0.8;

/// What throughput was seen.
#[derive(Debug, Default)]
pub(super) struct Estimate {
    /// Seconds per bit of the last segments.
    seen: VecDeque<f64>,
}

impl Estimate {
    /// Takes note of `bytes` that took `span`.
    pub(super) fn add(&mut self, bytes: u64, span: Duration) {
        if bytes == 0 {
            return;
        }
        if self.seen.len() == SEGMENTS {
            self.seen.pop_front();
        }
        self.seen.push_back(span.as_secs_f64().max(1e-6) / (bytes as f64 * 8.0));
    }

    /// Bits per second; `None` before the first segment.
    pub(super) fn bits_per_second(&self) -> Option<f64> {
        let sum: f64 = self.seen.iter().sum();
        (sum > 0.0).then(|| self.seen.len() as f64 / sum)
    }

    /// Which of `bandwidths` (ascending, bits per second) to fetch next, with `ahead` to play and
    /// segments of length `segment`. The lowest before anything is known.
    pub(super) fn choose(&self, bandwidths: &[u64], ahead: Duration, segment: Duration) -> usize {
        let Some(estimate) = self.bits_per_second().filter(|_| ahead >= segment / 2) else {
            return 0;
        };
        let affordable = (estimate * SAFETY) as u64;
        bandwidths.partition_point(|bandwidth| *bandwidth <= affordable).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LADDER: [u64; 3] = [1_000_000, 4_000_000, 16_000_000];
    const SEGMENT: Duration = Duration::from_secs(6);

    #[test]
    fn the_first_choice_is_the_lowest_and_later_ones_follow_the_throughput() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.choose(&LADDER, SEGMENT, SEGMENT), 0);
        estimate.add(1_000_000, Duration::from_secs(1));
        assert_eq!(estimate.choose(&LADDER, SEGMENT, SEGMENT), 1);
        for _ in 0..5 {
            estimate.add(10_000_000, Duration::from_secs(1));
        }
        assert_eq!(estimate.choose(&LADDER, SEGMENT, SEGMENT), 2);
        estimate.add(10_000, Duration::from_secs(1));
        assert_eq!(estimate.choose(&LADDER, SEGMENT, SEGMENT), 0);
    }

    #[test]
    fn a_buffer_that_is_nearly_dry_asks_for_the_lowest() {
        let mut estimate = Estimate::default();
        estimate.add(100_000_000, Duration::from_secs(1));
        assert_eq!(estimate.choose(&LADDER, 3 * SEGMENT, SEGMENT), 2);
        assert_eq!(estimate.choose(&LADDER, SEGMENT / 4, SEGMENT), 0);
        assert_eq!(estimate.choose(&[], SEGMENT, SEGMENT), 0);
    }
}
