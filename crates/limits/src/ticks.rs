//! Points in time as limits keep them.

use std::time::Duration;

/// Nanoseconds of a tick: short enough that a million requests a second are evenly apart to an
/// eighth.
const TICK_NS: u128 = 125;

/// A point in monotonic time, or a length of it, in eighths of a microsecond from wherever its owner
/// began to count.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Ticks(pub u64);

impl From<Duration> for Ticks {
    /// Rounded down; what is longer than 70 000 years is that long.
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos() / TICK_NS).unwrap_or(u64::MAX))
    }
}

impl From<Ticks> for Duration {
    fn from(Ticks(ticks): Ticks) -> Self {
        Self::new(ticks / 8_000_000, (ticks % 8_000_000) as u32 * TICK_NS as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_to_an_eighth_of_a_microsecond() {
        for ns in [0, 125, 999_999_875, 1_000_000_000, 86_400_000_000_000, u64::MAX / 125 * 125] {
            let time = Duration::from_nanos(ns);
            assert_eq!(Duration::from(Ticks::from(time)), time);
        }
        assert_eq!(Ticks::from(Duration::from_nanos(249)), Ticks(1));
    }
}
