//! How much a client may ask for that is of no use to it.

use super::limits::{IDLE_FRAMES_MAX, IDLE_FRAMES_PER_SECOND, RESETS_MAX, RESETS_PER_SECOND};
use freshet_base::debt::Debt;
use std::time::Duration;

/// What a connection's client has done to no use. Times are since the connection began.
#[derive(Debug)]
pub(super) struct Calm {
    resets: Debt,
    idle_frames: Debt,
}

impl Calm {
    pub(super) const fn new() -> Self {
        Self {
            resets: Debt::new(RESETS_MAX, RESETS_PER_SECOND),
            idle_frames: Debt::new(IDLE_FRAMES_MAX, IDLE_FRAMES_PER_SECOND),
        }
    }

    /// A stream ended before it was done; false when there are too many.
    pub(super) fn reset(&mut self, now: Duration) -> bool {
        self.resets.owe(now)
    }

    /// A frame brought nothing; false when there are too many.
    pub(super) fn idle_frame(&mut self, now: Duration) -> bool {
        self.idle_frames.owe(now)
    }

    /// A frame brought something, or something was sent.
    pub(super) fn useful_frame(&mut self) {
        self.idle_frames.forgive(1);
    }

    /// A response was sent whole.
    pub(super) fn response(&mut self) {
        self.resets.forgive(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_forgiven_in_time() {
        let mut calm = Calm::new();
        assert!((0..RESETS_MAX).all(|_| calm.reset(Duration::ZERO)));
        assert!(!calm.reset(Duration::ZERO));
        let mut calm = Calm::new();
        assert!((0..RESETS_MAX).all(|_| calm.reset(Duration::ZERO)));
        let later = Duration::from_secs(1);
        assert!((0..RESETS_PER_SECOND).all(|_| calm.reset(later)));
        assert!(!calm.reset(later));
    }

    #[test]
    fn work_of_use_pays() {
        let mut calm = Calm::new();
        for _ in 0..10 * RESETS_MAX {
            assert!(calm.reset(Duration::ZERO));
            calm.response();
        }
        for _ in 0..10 * IDLE_FRAMES_MAX {
            assert!(calm.idle_frame(Duration::ZERO));
            calm.useful_frame();
        }
    }
}
