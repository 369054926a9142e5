//! What becomes of a response that has to wait for its client: whether it may keep what it is made
//! of in memory meanwhile.

use super::pace::Pace;
use crate::client::Client;
use crate::delivery::ResponseBody;
use crate::ledger::readers::{Held, Hold, ReaderLimits};
use crate::worker::Worker;
use std::time::Duration;

/// What one response keeps, and how fast its client takes it.
#[derive(Default)]
pub(super) struct Keeping {
    hold: Option<Hold>,
    is_loose: bool,
    pace: Pace,
}

/// How a response goes on while its client is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Settled {
    /// As it is.
    Kept,
    /// Its body is to be loosened, and what was given out of it let go.
    Loosened,
    /// Not at all.
    Ended,
}

impl Keeping {
    /// Counts what the body of a response keeps, now that its client is waited for. Cheap where it
    /// was counted before.
    pub(super) fn settle(
        &mut self,
        worker: &Worker,
        client: &Client,
        body: &ResponseBody,
    ) -> Settled {
        let Some(holding) = body.holding() else { return Settled::Kept };
        let held = holding.held;
        let counted = self.hold.as_ref().map(Hold::held);
        let is_counted = |counted: Held| {
            counted.id == held.id && (holding.least_bytes.is_some() || counted.bytes >= held.bytes)
        };
        if counted.is_some_and(is_counted) {
            return Settled::Kept;
        }
        let limits = reader_limits(worker);
        let readers = &worker.shared.readers;
        if let Some(hold) = readers.hold(client.network, held, limits) {
            self.hold = Some(hold);
            if holding.least_bytes.is_some() {
                body.widen();
            }
            return Settled::Kept;
        }
        if let Some(bytes) = holding.least_bytes {
            // Its bytes come only once: it gets on with few of them ahead of the client.
            let least = Held { bytes, ..held };
            self.hold = readers.hold_least(client.network, least, limits);
            if self.hold.is_some() {
                return Settled::Kept;
            }
            worker.stats.readers_ended.increment();
            return Settled::Ended;
        }
        self.hold = None;
        if !std::mem::replace(&mut self.is_loose, true) {
            worker.stats.readers_loosened.increment();
        }
        Settled::Loosened
    }

    /// Whether the response goes on from small copies.
    pub(super) fn is_loose(&self) -> bool {
        self.is_loose
    }

    /// Notes how long the client was waited for and what it took; false when it is too slow, which
    /// is counted.
    pub(super) fn note(
        &mut self,
        worker: &Worker,
        waited: Duration,
        bytes: u64,
        window: Duration,
    ) -> bool {
        let rate_min = worker.snapshot().settings.limits.send_rate_min;
        let is_slow = self.pace.note(waited, bytes, window, rate_min).is_err();
        if is_slow {
            worker.stats.readers_slow.increment();
        }
        !is_slow
    }
}

fn reader_limits(worker: &Worker) -> ReaderLimits {
    let snapshot = worker.snapshot();
    let limits = &snapshot.settings.limits;
    let memory_bytes = worker.shared.arena.limit_bytes();
    ReaderLimits::of(memory_bytes, limits.readers_percent, limits.readers_network_percent)
}
