//! Time as a value.
//!
//! Code that decides takes [`UnixMillis`] as an argument; only the edges of the program read the
//! clock, with [`UnixMillis::now`]. Wall-clock time is what HTTP dates and ages are made of (RFC
//! 9111 §4.2); timeouts use the monotonic clock of the runtime instead.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock, for who waits on a thread of its own; in a simulated world that one's.
pub fn monotonic() -> Instant {
    #[cfg(feature = "simulation")]
    if let Some(clock) = crate::simulation::clock() {
        return crate::simulation::origin() + Duration::from_millis(clock().0);
    }
    Instant::now()
}

/// Milliseconds since 1970-01-01T00:00:00Z. Saturates instead of wrapping in all arithmetic.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// The wall clock now. A clock before 1970 reads as 0.
    pub fn now() -> Self {
        #[cfg(feature = "simulation")]
        if let Some(clock) = crate::simulation::clock() {
            return clock();
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// The instant at `seconds` after the epoch; negative values read as 0.
    pub fn from_seconds(seconds: i64) -> Self {
        Self(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000))
    }

    /// Whole seconds since the epoch, rounded down.
    pub fn seconds(self) -> i64 {
        i64::try_from(self.0 / 1000).unwrap_or(i64::MAX)
    }

    /// How long after `earlier` this is; zero where it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// This instant moved later by `span`.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(UnixMillis(5).since(UnixMillis(9)), Duration::ZERO);
        assert_eq!(UnixMillis(u64::MAX).plus(Duration::from_secs(1)), UnixMillis(u64::MAX));
        assert_eq!(UnixMillis::from_seconds(-3), UnixMillis(0));
    }
}
