//! Purge by the `PURGE` method.

use super::{Machine, State};
use freshet_http::reason::Reason;
use freshet_site::policy::Purge;

impl Machine<'_> {
    pub(super) async fn purge(&mut self) -> State {
        let key = self.key();
        let purged = self.worker.shared.purge(&key, freshet_cache::Purge::Hard);
        let is_durable = purged.durability.reached().await;
        self.worker.stats.purges.increment();
        self.task.reason = Reason::Purge;
        let site = self.task.site.clone();
        let policy = &*site.policy;
        match policy.purge(&mut self.task, purged.objects) {
            Purge::Restart => State::Restart(None),
            // It holds here, but a disk is away, or the process that takes over has not said that
            // it knows: who asked has to be told.
            Purge::Synth(200 | 404, _) if !is_durable => {
                State::Synth(202, Some("Purged, but not durable yet".into()))
            }
            Purge::Synth(status, reason) => State::Synth(status, reason),
        }
    }
}
