//! Waiting until what was asked for holds over a power cut.

use freshet_device::Completion;
use freshet_disk::Pending;
use std::time::{Duration, Instant};

/// How long is waited: longer than a disk may take for a write and a flush before it is left. What
/// it did not take is applied to it when it comes back.
const DURABLE_MAX: Duration = Duration::from_secs(20);

/// A purge or a ban, or several, that are carried out in memory and on their way to the disks.
#[derive(Debug, Default)]
#[must_use]
pub struct Durability {
    completions: Vec<Completion>,
    is_away: bool,
}

impl From<Pending> for Durability {
    fn from(pending: Pending) -> Self {
        Self { completions: pending.completions, is_away: pending.away > 0 }
    }
}

impl Durability {
    /// Waits for `more` as well.
    pub fn add(&mut self, more: Self) {
        self.completions.extend(more.completions);
        self.is_away |= more.is_away;
    }

    /// Waits for something else as well, where there is something.
    pub fn and(mut self, more: Option<Completion>) -> Self {
        self.completions.extend(more);
        self
    }

    /// Whether nothing is to be waited for, and no disk is away.
    pub fn is_reached(&self) -> bool {
        self.completions.is_empty() && !self.is_away
    }

    /// Waits until it is durable on every disk; whether it is. Where it is not, it holds as long as
    /// this process does, and for good once it reached a disk that is in use.
    pub async fn reached(self) -> bool {
        let all = async {
            let mut is_durable = !self.is_away;
            for one in self.completions {
                is_durable &= one.await.result.is_ok();
            }
            is_durable
        };
        said(tokio::time::timeout(DURABLE_MAX, all).await.unwrap_or(false))
    }

    /// The same, on a thread that may block.
    pub fn wait(self) -> bool {
        let until = Instant::now() + DURABLE_MAX;
        let mut is_durable = !self.is_away;
        for one in self.completions {
            let left = until.saturating_duration_since(Instant::now());
            is_durable &= one.wait(left).result.is_ok();
        }
        said(is_durable)
    }
}

fn said(is_durable: bool) -> bool {
    if !is_durable {
        tracing::warn!("a purge or ban is not durable on every disk yet");
    }
    is_durable
}
