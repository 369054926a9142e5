//! Moving what is stored from one index to another, as when a process takes over from one before.

use crate::cache::Cache;
use crate::eviction::fifo::Resident;
use crate::key::Key;
use crate::object::{Object, ObjectSpec};
use crate::selector::Selector;
use crate::shard::SHARDS;
use crate::ticket::Born;
use freshet_base::clock::UnixMillis;
use std::sync::Arc;

/// What an object was before it came here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Past {
    /// How often it was served.
    pub hits: u64,
    /// Uses the eviction counted, 0 to 15.
    pub frequency: u8,
    /// When it was softly purged.
    pub soft_purged_at: Option<UnixMillis>,
    /// The number of the last purge here when the move began: what was purged since does not come
    /// back ([`Cache::purge_seq`]).
    pub born_seq: u64,
    /// Whether it may be something that was purged elsewhere ([`Cache::fence`]).
    pub is_doubted: bool,
}

impl Past {
    /// The past of an object, for another index. One that has proved itself keeps a use for that.
    pub fn of(object: &Object) -> Self {
        Self {
            hits: object.hits(),
            frequency: object.frequency().max(u8::from(object.usage().is_proven())),
            soft_purged_at: object.soft_purged_at(),
            born_seq: 0,
            is_doubted: false,
        }
    }
}

impl Cache {
    /// All objects, those that are worth least first: in this order they are best restored. Locks
    /// one shard at a time. O(objects).
    pub fn objects_by_worth(&self) -> Vec<Arc<Object>> {
        let mut all = Vec::new();
        for index in 0..SHARDS {
            let shard = self.shard_at(index);
            all.extend(shard.resources().flat_map(|one| one.variants.iter()).map(Arc::clone));
        }
        Self::sort_by_worth(&mut all);
        all
    }

    pub(crate) fn sort_by_worth(objects: &mut [Arc<Object>]) {
        objects.sort_by_cached_key(|one| (one.usage().is_proven(), one.frequency(), one.hits()));
    }

    /// The number of the last purge.
    pub fn purge_seq(&self) -> u64 {
        self.order.last()
    }

    /// Puts an object into the index that was in another one. `None` where there is one already
    /// that the same requests select, it was purged since the move began, or there is no room.
    pub fn restore(
        self: &Arc<Self>,
        key: Key,
        spec: ObjectSpec,
        past: Past,
    ) -> Option<Arc<Object>> {
        let wanted = Selector { variation: spec.variation.clone(), scheme: spec.head.scheme_bound };
        let is_known = self.shard(&key).find(key.hash()).is_some_and(|resource| {
            resource.variants.iter().any(|other| *other.selector() == wanted)
        });
        if is_known {
            return None;
        }
        let content = if past.is_doubted { 0 } else { past.born_seq };
        let born = Born { seq: past.born_seq, content, is_ahead: false };
        let object = self.insert(&Arc::new(key), None, born, spec);
        if !object.is_indexed() {
            return None;
        }
        object.set_past(past.hits, past.frequency, past.soft_purged_at);
        Some(object)
    }
}
