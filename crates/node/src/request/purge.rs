//! Purge by the `PURGE` method.

use super::{Machine, State};
use crate::policy::Purge;
use freshet_http::reason::Reason;
use std::sync::Arc;

impl Machine<'_> {
    pub(super) async fn purge(&mut self) -> State {
        let key = self.key();
        let objects = self.worker.shared.purge(&key, freshet_cache::Purge::Hard).durable().await;
        self.worker.stats.purges.increment();
        self.task.reason = Reason::Purge;
        let policy = Arc::clone(&self.task.snapshot.policy);
        match policy.purge(&mut self.task, objects) {
            Purge::Restart => State::Restart,
            Purge::Synth(status, reason) => State::Synth(status, reason),
        }
    }
}
