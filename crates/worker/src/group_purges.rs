//! Purges of what origins make invalid together (RFC 9875).
//!
//! Each looks at every object in memory, so they are done away from the workers, one walk at a time for all that wait:
//! what clients can bring about with a request costs a node one processor at most.

use crate::worker::Shared;
use freshet_cache::Purge;
use freshet_http::cache_groups;
use freshet_site::keys::key_authority;
use freshet_site::sites::SiteName;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::{spawn_blocking, spawn_local};

/// Groups that are to be purged.
#[derive(Default)]
pub struct GroupPurges {
    /// Tags of those that no walk has begun for.
    waiting: Mutex<Vec<u64>>,
    /// Held by the walk.
    turn: tokio::sync::Mutex<()>,
}

impl Shared {
    /// Forgets all of these groups of an origin, of a site, and returns when memory has. Who is not waited for any more
    /// does it all the same.
    pub async fn forget_groups(
        self: &Arc<Self>,
        site: &SiteName,
        authority: &str,
        groups: &[String],
    ) {
        if groups.is_empty() {
            return;
        }
        let authority = key_authority(authority);
        let tags = groups.iter().map(|group| site.tag(&cache_groups::tag(authority, group)));
        self.group_purges.waiting().extend(tags);
        // Its only error is a panic, which the thread has told of.
        let _ = spawn_local(walk(Arc::clone(self))).await;
    }
}

async fn walk(shared: Arc<Shared>) {
    let _turn = shared.group_purges.turn.lock().await;
    let mut tags = mem::take(&mut *shared.group_purges.waiting());
    if tags.is_empty() {
        // The walk before has taken these along.
        return;
    }
    tags.sort_unstable();
    tags.dedup();
    let shared = Arc::clone(&shared);
    // Whoever waits for this need not wait until a disk has noted it.
    let _ = spawn_blocking(move || drop(shared.purge_tags(&tags, Purge::Hard))).await;
}

impl GroupPurges {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
