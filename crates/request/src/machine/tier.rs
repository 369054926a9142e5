//! Requests that come from caches behind this one.

use super::Machine;
use freshet_http::applied::{NAME, Position};
use freshet_http::message::ResponseHead;
use freshet_http::proxy_status::{ProxyError, ProxyStatus};
use freshet_http::reason::Reason;
use std::time::Duration;

impl Machine<'_> {
    /// How long it waits for the fetch of another, where that may wait for this one.
    pub(super) fn circle_patience(&self) -> Option<Duration> {
        let is_in_between = !self.task.site.settings.parents.groups.is_empty();
        (is_in_between && self.says_it_is_cache()).then_some(CIRCLE_WAIT_MAX)
    }

    /// Whether who asks says that it is a cache (RFC 8586).
    fn says_it_is_cache(&self) -> bool {
        self.task.request.fields.contains("cdn-loop")
    }

    /// Whether a cache asks: it says so, or is known as one.
    pub(super) fn comes_from_cache(&self) -> bool {
        let Self { task, .. } = self;
        self.says_it_is_cache() || task.site.is_peer(&task.client, &task.request.fields)
    }

    /// Tells a cache that is not let in itself that this is no answer to what its client asks for (RFC 9209 §2.3): it
    /// may have another way.
    pub(super) fn tell_cache_kept_out(&self, head: &mut ResponseHead) {
        let Self { task, .. } = self;
        let is_kept_out = match task.reason {
            Reason::CertificateMissing | Reason::CertificateWrong | Reason::HandshakeOfOther => {
                self.says_it_is_cache()
            }
            // A node beside this one is not under maintenance if it asks.
            Reason::Maintenance => {
                task.site.is_asked_by_sibling(&task.client, &task.request.fields)
            }
            _ => false,
        };
        if is_kept_out {
            ProxyStatus {
                proxy: &self.task.site.settings.cache.name,
                error: Some(ProxyError::HttpRequestDenied),
                details: Some(self.task.reason.sentence()),
                ..ProxyStatus::default()
            }
            .append(&mut head.fields);
        }
    }

    /// Looks at what a cache behind this one has carried out. The field goes, unless it is ahead of
    /// this node even after a moment: then it stays for the parents of this one.
    pub(super) async fn meet_child(&mut self) {
        let Some(value) = self.task.request.fields.get(NAME) else { return };
        // Anybody else could have every request sent past the cache.
        let (task, position) = (&self.task, Position::parse(value));
        let position = position.filter(|_| task.site.is_peer(&task.client, &task.request.fields));
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
