//! Says in the log that an origin fails, why and what to do, and that it answers again.

use crate::error::{FailureKind, OriginError};
use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How often the log says of one origin that it fails, and that it answers again.
const EVERY: Duration = Duration::from_secs(10);

/// Failures of an origin since it last answered. While it answers, a relaxed load for each.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    failures: AtomicU64,
    since_ms: AtomicU64,
    failing: LogLimit,
    answering: LogLimit,
}

impl Outage {
    /// An exchange with the origin of this name failed.
    pub(crate) fn failed(&self, origin: &str, error: &OriginError, now: UnixMillis) {
        if matches!(error.kind(), FailureKind::ClientBody | FailureKind::ClientPath) {
            return;
        }
        if self.failures.fetch_add(1, Relaxed) == 0 {
            self.since_ms.store(now.0, Relaxed);
        }
        let Some(held_back) = self.failing.admit(now, EVERY) else { return };
        let since_s = now.since(UnixMillis(self.since_ms.load(Relaxed))).as_secs();
        let (kind, cure) = (error.kind().label(), error.kind().cure());
        tracing::warn!(origin, kind, since_s, held_back, "an origin failed: {error}; {cure}");
    }

    /// The origin answered a request.
    pub(crate) fn answered(&self, origin: &str, now: UnixMillis) {
        // One that answers every other request is said to answer as seldom as to fail.
        if self.failures.load(Relaxed) == 0 || self.answering.admit(now, EVERY).is_none() {
            return;
        }
        let failures = self.failures.swap(0, Relaxed);
        let after_s = now.since(UnixMillis(self.since_ms.load(Relaxed))).as_secs();
        tracing::info!(origin, failures, after_s, "an origin answers again");
    }
}
