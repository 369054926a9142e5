//! Requests that come from caches behind this one.

use super::Machine;
use crate::client::Client;
use crate::policy::ClientTask;
use crate::sites::SiteRef;
use freshet_http::applied::{NAME, Position};
use std::time::Duration;

impl Machine<'_> {
    /// How long it waits for the fetch of another, where that may wait for this one.
    pub(super) fn circle_patience(&self) -> Option<Duration> {
        let is_in_between = !self.task.site.settings.parents.groups.is_empty();
        let comes_from_cache = || self.task.request.fields.contains("cdn-loop");
        (is_in_between && comes_from_cache()).then_some(CIRCLE_WAIT_MAX)
    }

    /// Looks at what a cache behind this one has carried out. The field goes, unless it is ahead of
    /// this node even after a moment: then it stays for the parents of this one.
    pub(super) async fn meet_child(&mut self) {
        let Some(value) = self.task.request.fields.get(NAME) else { return };
        // Anybody else could have every request sent past the cache.
        let position = Position::parse(value).filter(|_| is_peer(&self.task));
        let is_ahead = match position {
            Some(position) => !self.worker.shared.applied.reaches(&position).await,
            None => false,
        };
        if is_ahead {
            self.is_behind = true;
        } else {
            self.task.request.fields.remove(NAME);
        }
    }
}

/// How long a request of a cache waits for what this node asks its own parents for on behalf of another: where
/// they are in a circle, each would wait for the other for ever. One past the cache comes back to whoever it
/// was at, and is told so (RFC 8586).
const CIRCLE_WAIT_MAX: Duration = Duration::from_secs(3);

/// Whether a client is a cache that may have what is for caches: by its address, or by a name in its
/// certificate.
pub(crate) fn is_peer(task: &ClientTask) -> bool {
    is_peer_of(&task.site, &task.client)
}

/// The same of a site and a client.
pub(super) fn is_peer_of(site: &SiteRef, client: &Client) -> bool {
    let cache = &site.settings.cache;
    let is_at = |ip| cache.peers.iter().any(|network| network.contains(ip));
    client.address.is_some_and(|address| is_at(address.ip()))
        || client.certificate_for(Some(site)).is_some_and(|shown| {
            shown
                .names
                .iter()
                .any(|name| cache.peer_names.iter().any(|pattern| pattern.covers(name)))
        })
}
