//! A response on a disk becomes an object in memory.

use super::meta::{self, Meta};
use super::source::OnDisk;
use crate::keepers::{Restored, Wanted, objective_of};
use crate::worker::Worker;
use freshet_base::clock::UnixMillis;
use freshet_cache::{ObjectSpec, Selecting};
use freshet_disk::purges::Soft;
use freshet_disk::{Disks, Stored};
use freshet_http::freshness::Freshness;
use freshet_store::{Arena, Body, Standing};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// How long a client waits for a disk to say what it has, before an origin is asked instead.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// Looks for a response on the disks, with its first bytes where they are wanted.
pub(super) async fn restore(
    disks: &Disks,
    worker: &Worker,
    wanted: Wanted<'_>,
) -> Option<Restored> {
    let (shared, Wanted { key, request, selection, whole }) = (&worker.shared, wanted);
    let arena = shared.cache.arena_of(key);
    let found = find(disks, key.hash(), whole, arena).await;
    let selected = found.into_iter().find_map(|stored| {
        let meta = meta::read(&stored.meta).filter(|meta| *meta.key == *key.text())?;
        selects(&meta, selection).then_some((stored, meta))
    });
    let (mut stored, mut meta) = selected?;
    let (head, now) = ((key, &meta.head, stored.born), UnixMillis::now());
    let is_banned = shared.bans.bans_stored(&shared.cache, head, request);
    if is_banned || !stored.may_have(0..stored.total) {
        stored.forget();
        return None;
    }
    if stored.volume().is_suspect() && !is_whole(&stored) && !may_be_continued(&meta) {
        // Nobody else could go on where the disk is late.
        stored.volume().note_late();
        return None;
    }
    if let Some(soft) = stored.soft {
        meta.head.freshness = left(meta.head.freshness, soft, now);
    }
    let body = Body::new(arena, Some(stored.total));
    put_payload(&body, &mut stored).await;
    body.set_stored_number(stored.number());
    let (tags, kind) = (stored.tags.clone(), stored.kind());
    let is_doubted = stored.validated < shared.disks_doubted_below.load(SeqCst);
    body.set_source(Arc::new(OnDisk(stored)));
    body.set_standing(Standing::Kept { generation: 0, kind });
    worker.stats.disk_hits.increment();
    let objective =
        worker.snapshot().sites.of_key(key).and_then(|site| objective_of(&site.settings, key));
    let (head, variation) = (meta.head, meta.variation);
    let spec = ObjectSpec { head, body, variation, tags, objective };
    Some(Restored { spec, is_doubted })
}

/// The responses of a resource, newest first. Disks that fail or are late are passed over.
async fn find(disks: &Disks, key: u128, whole: bool, arena: &Arc<Arena>) -> Vec<Stored> {
    let mut found = Vec::new();
    for volume in disks.holders(key) {
        let Some(patience) = volume.patience(LOOK_TIMEOUT) else {
            volume.note_late();
            continue;
        };
        match tokio::time::timeout(patience, volume.read_heads(key, whole, arena)).await {
            Ok(Ok(more)) => found.extend(more),
            Ok(Err(_)) => {}
            Err(_) => volume.note_late(),
        }
    }
    found.sort_by_key(|stored| std::cmp::Reverse(stored.seq));
    found
}

/// Whether all bytes came along with the head.
fn is_whole(stored: &Stored) -> bool {
    stored.total == 0 || (stored.payload.is_some() && stored.payload_from == 0)
}

/// Whether an origin can be asked for the rest of what is served.
fn may_be_continued(meta: &Meta) -> bool {
    meta.head.etag().is_some_and(|etag| etag.starts_with(b"\""))
}

/// Takes the bytes that came along with the head.
async fn put_payload(body: &Arc<Body>, stored: &mut Stored) {
    match stored.payload.take() {
        Some(payload) => {
            let mut writer = body.writer(stored.payload_from, None);
            if writer.adopt(&payload).await.is_ok() {
                let _ = writer.finish();
            }
        }
        None if stored.total == 0 => drop(body.writer(0, None).finish()),
        None => {}
    }
}

fn selects(meta: &Meta, selection: &dyn Selecting) -> bool {
    let variation = meta.variation.as_ref();
    meta.head.scheme_bound.is_none_or(|scheme| scheme == selection.scheme())
        && variation.is_none_or(|variation| variation.is_for(selection))
}

/// What a soft purge leaves of a response's life, which is never more than it has.
fn left(mut freshness: Freshness, soft: Soft, now: UnixMillis) -> Freshness {
    let ends = UnixMillis(soft.from_ms);
    if let Some(grace) = soft.grace_ms {
        freshness = freshness.with_grace(Duration::from_millis(grace));
    }
    if ends <= now {
        return freshness.ended(ends);
    }
    freshness.set_lifetime(freshness.lifetime().min(freshness.age(ends)));
    freshness
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_http::freshness::Reuse;

    const START: UnixMillis = UnixMillis(1_800_000_000_000);

    fn after(seconds: u64) -> UnixMillis {
        START.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_soft_purge_shortens_a_life_and_never_lengthens_it() {
        let stored = Freshness::from_policy(START, Duration::from_secs(100))
            .with_grace(Duration::from_secs(10));
        let soft = |from: UnixMillis, grace_ms| Soft { from_ms: from.0, grace_ms };
        let at_once = left(stored.clone(), soft(after(20), None), after(25));
        assert_eq!(at_once.reuse(after(19)), Reuse::StaleWhileRevalidate);
        assert_eq!(at_once.reuse(after(30)), Reuse::Stale);
        let with_grace = left(stored.clone(), soft(after(20), Some(3000)), after(25));
        assert_eq!(with_grace.reuse(after(22)), Reuse::StaleWhileRevalidate);
        assert_eq!(with_grace.reuse(after(23)), Reuse::Stale);
        let soon = left(stored.clone(), soft(after(40), Some(3000)), after(25));
        assert_eq!(soon.reuse(after(39)), Reuse::Fresh);
        assert_eq!(soon.reuse(after(42)), Reuse::StaleWhileRevalidate);
        assert_eq!(soon.reuse(after(43)), Reuse::Stale);
        let late = left(stored, soft(after(4000), None), after(25));
        assert_eq!(late.reuse(after(100)), Reuse::StaleWhileRevalidate);
    }
}
