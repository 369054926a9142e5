//! The shares of an index: which there are, and that each is kept to.

use crate::cache::Cache;
use crate::object::Object;
use crate::shard::SHARDS;
use crate::share::{ANY, Share, Shares};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Cache {
    /// Bounds the memory of the objects with each of these tags, in bytes; those that had a bound and are not named have
    /// none any more. What is above its bound leaves. O(objects) where a tag is new, else O(tags).
    pub fn set_shares(&self, bounds: &[(u64, u64)]) {
        let mut shares = Shares::clone(&self.shares.load());
        shares.values().for_each(|share| share.bytes_max.store(ANY, Relaxed));
        let before = shares.len();
        for (tag, bytes_max) in bounds {
            let share = shares.entry(*tag).or_insert_with(|| Arc::new(Share::new(ANY)));
            share.bytes_max.store(*bytes_max, Relaxed);
        }
        let has_new = shares.len() > before;
        let all: Vec<_> = shares.values().map(Arc::clone).collect();
        self.shares.store(Arc::new(shares));
        if has_new {
            for object in (0..SHARDS).flat_map(|part| self.objects_of_part(part)) {
                self.join_share(&object);
                self.with_fifo(|fifo| fifo.recount(&object));
            }
        }
        all.iter().for_each(|share| self.keep_to(share));
    }

    /// Bytes of the objects with a tag, where these have or had a bound.
    pub fn share_bytes(&self, tag: u64) -> Option<u64> {
        Some(self.shares.load().get(&tag)?.bytes.load(Relaxed))
    }

    /// Makes an object one of its share's, where its tags have one.
    pub(crate) fn join_share(&self, object: &Arc<Object>) {
        let shares = self.shares.load();
        if shares.is_empty() {
            return;
        }
        let share = object.tags().iter().find_map(|tag| shares.get(tag));
        if let Some(share) = share.filter(|share| object.join(share)) {
            share.add(object);
        }
    }

    /// Makes room in the share of an object that has come.
    pub(crate) fn keep_to_share_of(&self, object: &Object) {
        if let Some(part) = object.part() {
            self.keep_to(part.share());
        }
    }

    fn keep_to(&self, share: &Share) {
        let mut turns = share.turns();
        while let Some(victim) = share.victim(&mut turns) {
            self.retire(self.take_for_others(&victim).as_slice());
        }
    }
}
