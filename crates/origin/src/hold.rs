//! An origin that refused a connection is left alone for a moment, where that is wished for.

use freshet_base::clock::UnixMillis;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How long it is left alone, and until when it is.
#[derive(Debug, Default)]
pub struct Hold {
    span_ms: AtomicU64,
    until_ms: AtomicU64,
}

impl Hold {
    /// From now on it is left alone for so long; not at all for nothing, which it begins with.
    pub fn set(&self, span: Duration) {
        self.span_ms.store(u64::try_from(span.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// It refused a connection.
    pub(crate) fn begin(&self, now: UnixMillis) {
        let span_ms = self.span_ms.load(Relaxed);
        if span_ms > 0 {
            self.until_ms.store(now.0.saturating_add(span_ms), Relaxed);
        }
    }

    /// Whether it is left alone.
    pub(crate) fn is_on(&self, now: UnixMillis) -> bool {
        let left_ms = self.until_ms.load(Relaxed).saturating_sub(now.0);
        // A clock that was set back makes nobody wait for longer than was said.
        left_ms > 0 && left_ms <= self.span_ms.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_refused_is_left_alone_for_as_long_as_was_said() {
        let hold = Hold::default();
        hold.begin(UnixMillis(1000));
        assert!(!hold.is_on(UnixMillis(1000)), "nobody said so");
        hold.set(Duration::from_millis(250));
        hold.begin(UnixMillis(1000));
        assert!(hold.is_on(UnixMillis(1000)) && hold.is_on(UnixMillis(1249)));
        assert!(!hold.is_on(UnixMillis(1250)));
        assert!(!hold.is_on(UnixMillis(10)), "the clock was set back");
    }
}
