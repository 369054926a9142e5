//! How often something is logged that may happen with every request.

use crate::clock::UnixMillis;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Lets one line through in a span of time and counts those it holds back. A relaxed atomic or two
/// each; any number of threads.
#[derive(Debug, Default)]
pub struct LogLimit {
    /// When the last line was let through, plus one; 0 for never.
    last_ms: AtomicU64,
    held_back: AtomicU64,
}

impl LogLimit {
    /// A limit that lets the first line through.
    pub const fn new() -> Self {
        Self { last_ms: AtomicU64::new(0), held_back: AtomicU64::new(0) }
    }

    /// Whether a line may be written now: `Some` with how many were held back since the last one,
    /// or `None`. A clock that was set back lets one through.
    pub fn admit(&self, now: UnixMillis, every: Duration) -> Option<u64> {
        let (last_ms, now_ms) = (self.last_ms.load(Relaxed), now.0.saturating_add(1));
        let every_ms = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
        let is_due = last_ms == 0 || now_ms < last_ms || now_ms - last_ms >= every_ms;
        // Of several threads that find it due, one writes.
        if is_due && self.last_ms.compare_exchange(last_ms, now_ms, Relaxed, Relaxed).is_ok() {
            return Some(self.held_back.swap(0, Relaxed));
        }
        self.held_back.fetch_add(1, Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(10);

    #[test]
    fn the_first_of_a_span_is_let_through_and_the_rest_is_counted() {
        let limit = LogLimit::new();
        let admit = |ms| limit.admit(UnixMillis(ms), EVERY);
        assert_eq!([admit(0), admit(1), admit(9_999)], [Some(0), None, None]);
        assert_eq!([admit(10_000), admit(10_001), admit(30_000)], [Some(2), None, Some(1)]);
    }

    #[test]
    fn a_clock_set_back_does_not_silence_it() {
        let limit = LogLimit::new();
        assert_eq!(limit.admit(UnixMillis(1_000_000), EVERY), Some(0));
        assert_eq!(limit.admit(UnixMillis(5), EVERY), Some(0));
        assert_eq!(limit.admit(UnixMillis(6), EVERY), None);
    }
}
