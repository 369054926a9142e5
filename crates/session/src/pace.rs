//! The least rate at which a client takes its response.

use std::time::Duration;

/// How much a client takes of one response while it is waited for.
///
/// Only the time counts in which there was something to take. A limit on the time without a byte is
/// met by a client that takes one now and then; this one is not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    waited: Duration,
    bytes: u64,
}

/// The client took less than it has to.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct TooSlow;

impl Pace {
    /// Notes that the client was waited for and took `bytes` since the last time. In each `window`
    /// of waiting it has to take `rate_min` bytes for each second of it; 0 asks for nothing.
    ///
    /// # Errors
    /// [`TooSlow`] at the end of a window in which it took less.
    pub(super) fn note(
        &mut self,
        waited: Duration,
        bytes: u64,
        window: Duration,
        rate_min: u64,
    ) -> Result<(), TooSlow> {
        self.waited += waited;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.waited < window {
            return Ok(());
        }
        let least = rate_min as f64 * self.waited.as_secs_f64();
        let taken = std::mem::take(self).bytes;
        if (taken as f64) < least { Err(TooSlow) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_byte_now_and_then_is_too_slow_at_the_end_of_a_window() {
        let mut pace = Pace::default();
        for _ in 0..59 {
            assert_eq!(pace.note(SECOND, 1, WINDOW, 100), Ok(()));
        }
        assert_eq!(pace.note(SECOND, 1, WINDOW, 100), Err(TooSlow));
    }

    #[test]
    fn time_without_waiting_and_bytes_in_bursts_are_fine() {
        let mut pace = Pace::default();
        for _ in 0..1000 {
            assert_eq!(pace.note(30 * SECOND, 3000, WINDOW, 100), Ok(()));
        }
        assert_eq!(pace.note(WINDOW, 0, WINDOW, 0), Ok(()));
    }
}
