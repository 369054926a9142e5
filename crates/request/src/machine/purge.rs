//! Purge by the `PURGE` method.

use super::{Machine, State};
use freshet_cache::Key;
use freshet_http::reason::Reason;
use freshet_site::keys::{key_of, purged_authorities};
use freshet_site::policy::{ClientTask, Purge};
use std::sync::Arc;

impl Machine<'_> {
    pub(super) async fn purge(&mut self) -> State {
        let keys = self.purged_keys();
        let keys = keys.iter().map(|key| &**key);
        let purged = self.worker.shared.purge_each(keys, freshet_cache::Purge::Hard);
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

    /// The key of what is asked for, and where no policy makes it, those of the same at other ports of this node.
    fn purged_keys(&mut self) -> Vec<Arc<Key>> {
        let mut keys = vec![self.key()];
        let ClientTask { site, request, .. } = &self.task;
        if !site.semantics.makes_own_keys {
            let secret = self.worker.shared.cache.secret();
            let all = purged_authorities(&request.authority, &site.node().own_ports);
            let all = all.iter().map(|one| key_of(site, secret, one, &request.target));
            let others: Vec<_> = all.filter(|key| *key != *keys[0]).map(Arc::new).collect();
            keys.extend(others);
        }
        keys
    }
}
