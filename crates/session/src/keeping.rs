//! What becomes of a response that has to wait for its client: whether it may keep what it is made
//! of in memory meanwhile.

use super::pace::Pace;
use freshet_access::client::Client;
use freshet_access::ledger::readers::{Held, Hold, Loss, ReaderLimits};
use freshet_request::delivery::ResponseBody;
use freshet_site::pieces::{Holding, Without};
use freshet_worker::worker::Worker;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// How exactly it is known since when a client has taken nothing.
const RENEWAL_INTERVAL: Duration = Duration::from_millis(100);

/// How much of what a network may hold is given to those who could do with less, in percent: to responses that
/// are not kept, as more room ahead of their clients, and to such as need not have begun yet. The rest is for
/// the least that each of many others needs.
const EASY_PERCENT: u64 = 25;

/// How much of the memory of one group responses may keep, in percent, where all that is read is there.
const GROUP_PERCENT_MAX: u64 = 90;

/// What one response keeps, and how fast its client takes it.
#[derive(Default)]
pub(super) struct Keeping {
    hold: Option<Hold>,
    renewed: Option<Instant>,
    is_loose: bool,
    /// Whether it waited for a place among others of its connection.
    is_among_others: bool,
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
    /// was counted before. Of what the body gave out the last `unsent_bytes` can be taken back.
    pub(super) fn settle(
        &mut self,
        worker: &Worker,
        client: &Client,
        body: &ResponseBody,
        unsent_bytes: u64,
    ) -> Settled {
        let is_lost = self.hold.as_ref().is_some_and(Hold::is_lost);
        let Some(holding) = body.holding(unsent_bytes) else {
            self.hold.take_if(|_| is_lost);
            return Settled::Kept;
        };
        let held = holding.held;
        let counted = self.hold.as_ref().map(Hold::held);
        let passes = holding.without.least_bytes().is_some();
        let is_counted =
            |counted: Held| counted.id == held.id && (passes || counted.bytes >= held.bytes);
        if !is_lost && counted.is_some_and(is_counted) {
            if let Some(hold) = &mut self.hold {
                hold.note_loss(loss_of(holding.without));
            }
            return Settled::Kept;
        }
        // Who has lost a place does not take another's.
        if !is_lost && self.take_place(worker, client, body, holding) {
            return Settled::Kept;
        }
        if matches!(holding.without, Without::Ends { .. }) {
            self.hold = None;
            worker.stats.readers_ended.increment();
            return Settled::Ended;
        }
        self.loosen(worker);
        Settled::Loosened
    }

    /// The response keeps nothing from now on.
    pub(super) fn loosen(&mut self, worker: &Worker) {
        self.hold = None;
        if !std::mem::replace(&mut self.is_loose, true) {
            worker.stats.readers_loosened.increment();
        }
    }

    fn take_place(
        &mut self,
        worker: &Worker,
        client: &Client,
        body: &ResponseBody,
        Holding { held, without }: Holding,
    ) -> bool {
        let limits = reader_limits(worker);
        let readers = &worker.shared.readers;
        let loss = loss_of(without);
        // Who reads is not cut off for others of its network that do not; but of those of one connection none ends for
        // another that would only have been at risk.
        let most = if self.is_among_others { loss } else { Loss::Ends };
        // What it had before, if anything, is not counted beside it.
        self.hold = None;
        let Some(least_bytes) = without.least_bytes() else {
            self.hold = match loss {
                Loss::GoesOn => readers.hold(client.network, held, loss, limits),
                _ => readers.hold_instead(client.network, held, (loss, most), limits),
            };
            return self.hold.is_some();
        };
        let easy = limits.within_network_percent(EASY_PERCENT);
        let wide = readers.hold(client.network, held, loss, easy);
        if wide.is_some() {
            body.widen();
        }
        // In transit it gets on with few bytes ahead of the client.
        let least = Held { bytes: least_bytes, ..held };
        let instead = || readers.hold_instead(client.network, least, (loss, most), limits);
        self.hold = wide.or_else(instead);
        self.hold.is_some()
    }

    /// Has a response keep what it is made of before it begins, where there is a place for that beside
    /// those that have begun, or where it `insists` on one of these. Whether it may.
    pub(super) fn begin(
        &mut self,
        worker: &Worker,
        client: &Client,
        held: Held,
        insists: bool,
    ) -> bool {
        self.is_among_others = true;
        if self.hold.as_ref().is_some_and(|hold| hold.held().id == held.id && !hold.is_lost()) {
            return true;
        }
        let limits = reader_limits(worker);
        let (most, limits) = match insists {
            true => (Loss::MayBreak, limits),
            false => (Loss::GoesOn, limits.within_network_percent(EASY_PERCENT)),
        };
        let losses = (Loss::MayBreak, most);
        self.hold = worker.shared.readers.hold_instead(client.network, held, losses, limits);
        self.is_loose &= self.hold.is_none();
        self.hold.is_some()
    }

    /// Ready once another has the place of this response, which then has to be settled anew.
    pub(super) fn poll_lost(&self, cx: &Context<'_>) -> Poll<()> {
        self.hold.as_ref().map_or(Poll::Pending, |hold| hold.poll_lost(cx))
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
        if let Some(hold) = self.hold.as_mut().filter(|_| bytes > 0) {
            let now = Instant::now();
            if self.renewed.is_none_or(|renewed| now - renewed >= RENEWAL_INTERVAL) {
                hold.renew();
                self.renewed = Some(now);
            }
        }
        let rate_min = worker.snapshot().settings.limits.send_rate_min;
        let is_slow = self.pace.note(waited, bytes, window, rate_min).is_err();
        if is_slow {
            worker.stats.readers_slow.increment();
        }
        !is_slow
    }
}

/// What becomes of a response that loses its place.
fn loss_of(without: Without) -> Loss {
    match without {
        Without::GoesOn | Without::ReadsAgain { .. } => Loss::GoesOn,
        Without::MayBreak => Loss::MayBreak,
        Without::Ends { .. } => Loss::Ends,
    }
}

pub(super) fn reader_limits(worker: &Worker) -> ReaderLimits {
    let snapshot = worker.snapshot();
    let limits = &snapshot.settings.limits;
    // Each group has as much.
    let group_bytes = worker.own_memory().limit_bytes();
    let memory_bytes = group_bytes * worker.shared.layout.groups.len() as u64;
    ReaderLimits::of(memory_bytes, limits.readers_percent, limits.readers_network_percent)
        .within(group_bytes / 100 * GROUP_PERCENT_MAX)
}
