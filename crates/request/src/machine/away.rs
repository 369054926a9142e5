//! What is told of a channel whose origin is away.

use super::Machine;
use super::lookup::may_serve_on_error;
use freshet_cache::{Failure, Object};
use freshet_channels::Directives;
use freshet_fetch::Cause;
use freshet_media::cmcd;
use freshet_origin::error::FailureKind;
use freshet_site::keys::id_of;
use std::time::Duration;
use tokio::time::timeout;

/// Waits for something no longer than this, where it is bounded.
///
/// # Errors
/// The failure that an origin which says nothing has come to by then.
pub(super) async fn within<T>(
    patience: Option<Duration>,
    coming: impl Future<Output = T>,
) -> Result<T, Failure> {
    let Some(patience) = patience else { return Ok(coming.await) };
    let late = |_| Cause::Origin(FailureKind::FirstByteTimeout).failure("its playlist is late");
    timeout(patience, coming).await.map_err(late)
}

impl Machine<'_> {
    /// How long the origin of a channel's playlist is waited for before an old one, which may be served when
    /// an origin fails, is served as if it had: players would stand still. `None` without an end of its own.
    pub(super) fn patience(&self, stale: Option<&Object>) -> Option<Duration> {
        let (site, shared) = (&self.task.site, &self.worker.shared);
        let request = &self.task.request;
        let is_channels = site.settings.media.read && shared.channels.count() > 0;
        if !is_channels
            || !site.semantics.serves_stale_on_error
            || !stale.is_some_and(|stale| may_serve_on_error(stale, self.task.now))
            // An answer that is held back until there is news is meant to be late.
            || Directives::of(&request.target).are_there()
        {
            return None;
        }
        let key = id_of(site, shared.cache.secret(), &request.authority, &request.target);
        shared.channels.patience_of(&key)
    }

    /// The failure as who asks for a channel's playlist is told of it, where nothing that is stored
    /// helps: 503, with a time to come again. An old version helps a player that has been playing, as
    /// what it names is here. One that begins with it would soon stand still, and says that it begins
    /// by a session nobody has heard of before.
    pub(super) fn channel_is_away(&self, failure: &Failure, has_stale: bool) -> Option<Failure> {
        let (site, shared) = (&self.task.site, &self.worker.shared);
        if failure.status < 500 || !site.settings.media.read || shared.channels.count() == 0 {
            return None;
        }
        let (request, now) = (&self.task.request, self.task.now);
        let key = id_of(site, shared.cache.secret(), &request.authority, &request.target);
        let until = shared.channels.begins_until(&key, now)?;
        let begins = || {
            let mut room = [0; cmcd::BYTES_MAX];
            let text = cmcd::said(&request.target, &request.fields, &mut room)?;
            let said = shared.sessions.said(site.name.as_str(), text);
            Some(now > until && shared.sessions.began_after(&said, until))
        };
        if has_stale && begins() != Some(true) {
            return None;
        }
        self.worker.stats.media_away.increment();
        Some(Failure { status: 503, ..failure.clone() })
    }
}
