//! What is told of a channel whose origin is away.

use super::Machine;
use crate::media::id_of;
use freshet_cache::Failure;
use freshet_media::cmcd;

impl Machine<'_> {
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
