//! Gateways that wait to be told that what they remember is not so any more.

use super::Shared;
use crate::limits::WATCH_MAX;
use freshet_documents::problem::Problem;
use freshet_platform::Answer;
use std::time::Duration;
use tokio::time::timeout;

impl Shared {
    /// Which version decisions rest on now, as an entity tag: at once where that is not the one a gateway
    /// knows, else as soon as there is another, or 304 when it has waited as long as it prefers (`wait`, RFC 7240
    /// §4.3).
    pub(super) async fn changed(&self, known: Option<&str>, prefer: Option<&str>) -> Answer {
        let mut versions = self.version.subscribe();
        let tag = |version: &str| format!("\"{version}\"");
        let is_known = |version: &str| known == Some(&*tag(version));
        if is_known(&versions.borrow_and_update()) {
            // Nobody has to say who they are here, so there is an end to how many wait.
            let Ok(_place) = self.watchers.try_acquire() else {
                return Problem::new(503, "as many gateways as may wait for changes").into();
            };
            // Whether it came or not, what there is now is what is told.
            drop(timeout(wait(prefer), versions.changed()).await);
        }
        let version = versions.borrow().clone();
        let status = if is_known(&version) { 304 } else { 204 };
        Answer { status, ..Answer::nothing() }.with("ETag", tag(&version))
    }
}

/// How long somebody prefers to wait; not at all where they do not say.
fn wait(prefer: Option<&str>) -> Duration {
    let preferences = prefer.unwrap_or_default().split(',');
    let seconds = preferences.filter_map(|one| one.trim().strip_prefix("wait=")?.parse().ok());
    seconds.map(Duration::from_secs).next().unwrap_or_default().min(WATCH_MAX)
}
