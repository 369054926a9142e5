//! What a response tells of its way here, beside what the origin said.

use crate::machine::{Found, Machine};
use freshet_cache::StoredHead;
use freshet_http::cache_status::{CacheStatus, Forward};
use freshet_http::message::ResponseHead;
use freshet_http::reason::Reason;
use std::io::Write as _;

impl Machine<'_> {
    /// Says that there is HTTP/3, unless the response says something itself (RFC 7838). It is at a port of this
    /// node, which a cache would keep and tell clients of its own.
    pub(in crate::machine) fn advertise(&self, head: &mut ResponseHead) {
        let Some(alt_svc) = &self.task.client.alt_svc else { return };
        let is_ours = self.task.nesting.is_none() && !self.worker.is_draining();
        if is_ours && !head.fields.contains("alt-svc") && !self.comes_from_cache() {
            head.fields.append("alt-svc", alt_svc.as_bytes());
        }
    }

    /// `Age` (RFC 9111 §5.1), for what was stored before or had an age when it came.
    pub(super) fn add_age(&self, stored: &StoredHead, found: &Found, head: &mut ResponseHead) {
        let mut age = stored.freshness.age(self.task.now).as_secs();
        if found.reason == Reason::HitStaleOnError {
            // What was purged softly, or may have been elsewhere, is stale however young it is.
            age = age.max(stored.freshness.lifetime().as_secs());
        }
        if found.hit || found.collapsed || age > 0 || stored.freshness.was_aged {
            let mut value = [0; 20];
            head.fields.append("Age", decimal(age, &mut value));
        }
    }

    /// Adds what players are told of the way to them, where the site does that.
    pub(super) fn tell_players(
        &self,
        head: &mut ResponseHead,
        is_stored: bool,
        bytes: Option<u64>,
    ) {
        let settings = &self.task.site.settings;
        if settings.media.cmsd {
            let (name, delay) = (&settings.cache.name, self.started.elapsed());
            freshet_channels::tell(
                &mut head.fields,
                name,
                self.task.client.controls.as_deref(),
                delay,
                is_stored,
                bytes,
            );
        }
    }

    /// `Cache-Status` (RFC 9211), behind those of caches nearer to the origin.
    pub(super) fn add_cache_status(
        &self,
        object: Option<(&StoredHead, &Found)>,
        reason: Reason,
        stored: bool,
        head: &mut ResponseHead,
    ) {
        let cache = &self.task.site.settings.cache;
        if !cache.cache_status {
            return;
        }
        let mut status = CacheStatus { cache: &cache.name, ..CacheStatus::default() };
        match object {
            Some((stored_head, found)) if found.hit || reason.is_hit() => {
                status.hit = true;
                let mut ttl_ms = stored_head.freshness.ttl_ms(self.task.now);
                if matches!(reason, Reason::HitStale | Reason::HitStaleOnError) {
                    // Also what a purge or a fence made stale before its time (RFC 9211 §2.3).
                    ttl_ms = ttl_ms.min(-1);
                }
                status.ttl_seconds = Some(ttl_ms.div_euclid(1000));
                status.collapsed = found.collapsed;
                status.detail = Some(reason).filter(|reason| *reason != Reason::Hit);
            }
            _ => {
                let forward = reason.forward().or_else(|| self.task.reason.forward());
                status.forward = Some(forward.unwrap_or(Forward::Miss));
                status.stored = stored;
                status.forward_status = (reason == Reason::HitRevalidated).then_some(304);
                // What stays because what came is behind it says so.
                let is_told = !stored || reason == Reason::MediaBehind;
                status.detail = Some(reason).filter(|_| is_told);
            }
        }
        status.append(&mut head.fields);
    }
}

/// `number` in decimal, without an allocation.
fn decimal(number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut cursor = std::io::Cursor::new(&mut buffer[..]);
    write!(cursor, "{number}").expect("20 digits hold any u64");
    let len = usize::try_from(cursor.position()).unwrap_or(0);
    &buffer[..len]
}
