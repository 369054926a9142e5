//! Purging: taking responses out before their time.

use crate::cache::Cache;
use crate::key::Key;
use crate::left::Left;
use crate::lock::lock;
use crate::marker::Markers;
use crate::object::Object;
use crate::purge_log::Seq;
use crate::shard::{SHARDS, Shard};
use crate::waiting::{Pending, WaitOutcome};
use freshet_base::clock::UnixMillis;
use freshet_http::freshness::Lifetimes;
use std::sync::Arc;

/// How to purge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purge {
    /// Forget the responses.
    Hard,
    /// Keep them as stale from this time on: they may be served while they are being refreshed,
    /// as far as their heads allow.
    Soft(UnixMillis),
    /// Keep them with these lifetimes in the place of those they have, which may be longer.
    Given(Lifetimes),
}

impl Cache {
    /// Purges all variants of `key` and returns how many there were. Fetches under way do not
    /// count: what they bring is not kept, and those that waited for them look up again.
    pub fn purge(&self, key: &Key, how: Purge) -> usize {
        self.purge_at(self.next_in_order(), key, how)
    }

    pub(crate) fn purge_at(&self, seq: Seq, key: &Key, how: Purge) -> usize {
        lock(&self.purges).note(key.hash() as u64, seq);
        let mut gone = Gone::default();
        let mut shard = self.shard(key);
        let found = shard.purge(key.hash(), how, &mut |_| true, &mut gone);
        // Fetches that have nothing stored yet are of this key as well.
        gone.pending.append(&mut shard.end_all(key.hash()));
        if how == Purge::Hard {
            // What says that nothing is kept of it goes with it.
            shard.unmark(key.hash(), Markers::end_all);
        }
        drop(shard);
        self.finish(gone);
        found
    }

    /// Purges all objects with this [`crate::object::tag`] and returns how many there were. What
    /// is being fetched and turns out to have it is not kept. O(objects); locks one shard at a
    /// time.
    pub fn purge_tag(&self, tag: u64, how: Purge) -> usize {
        self.purge_tags(&[tag], how)
    }

    /// Purges all objects with one of these tags as [`Cache::purge_tag`] does, in one walk.
    pub fn purge_tags(&self, tags: &[u64], how: Purge) -> usize {
        self.purge_tags_at(self.next_in_order(), tags, how)
    }

    pub(crate) fn purge_tags_at(&self, seq: Seq, tags: &[u64], how: Purge) -> usize {
        let mut purges = lock(&self.purges);
        tags.iter().for_each(|tag| purges.note(*tag, seq));
        drop(purges);
        self.walk(how, &mut |object| object.has_one_of(tags))
    }

    /// Purges everything and returns how many objects there were. Nothing that is being fetched
    /// now is kept. O(objects); locks one shard at a time.
    pub fn purge_all(&self, how: Purge) -> usize {
        self.purge_all_at(self.next_in_order(), how)
    }

    pub(crate) fn purge_all_at(&self, seq: Seq, how: Purge) -> usize {
        lock(&self.purges).note_all(seq);
        let found = self.walk(how, &mut |_| true);
        for index in 0..SHARDS {
            let pending = self.shard_at(index).end_everything();
            self.finish(Gone { objects: Vec::new(), pending });
        }
        found
    }

    /// A number behind all fetches that have begun, for a rule that holds for what they bring:
    /// [`Object::born_seq`] is below it.
    pub fn next_in_order(&self) -> u64 {
        self.order.next()
    }

    /// Whether something was purged since this place in the order that a response of `key` with these tags would
    /// be, or may have been.
    pub fn was_purged_since(&self, seq: u64, key: &Key, tags: &[u64]) -> bool {
        let purges = lock(&self.purges);
        let mut all = tags.iter().copied().chain([key.hash() as u64]);
        all.any(|hash| purges.purged_since(hash, seq))
    }

    /// Looks at every object; one shard is locked at a time, so `look` calls nothing of this cache.
    pub fn each_object(&self, look: &mut dyn FnMut(&Object)) {
        for index in 0..SHARDS {
            let shard = self.shard_at(index);
            shard.resources().flat_map(|resource| resource.variants.iter()).for_each(|o| look(o));
        }
    }

    /// Parts the index has, for walks that rest between them.
    pub const PARTS: usize = SHARDS;

    /// The objects of one part.
    pub fn objects_of_part(&self, part: usize) -> Vec<Arc<Object>> {
        let shard = self.shard_at(part % SHARDS);
        shard.resources().flat_map(|resource| resource.variants.iter()).map(Arc::clone).collect()
    }

    /// What is remembered of responses of one part that were not kept, while their markers hold.
    pub fn left_of_part(&self, part: usize, now: UnixMillis) -> Vec<Arc<Left>> {
        self.shard_at(part % SHARDS).left_by(now).map(Arc::clone).collect()
    }

    /// Ends the marker of a response that was not kept.
    pub fn forget_left(&self, left: &Arc<Left>) {
        self.shard(left.key()).unmark(left.key().hash(), |markers| markers.end_of(left));
    }

    /// Invalidates what is stored of `key` because of an unsafe request (RFC 9111 §4.4): a hard
    /// purge.
    pub fn invalidate(&self, key: &Key) -> usize {
        self.purge(key, Purge::Hard)
    }

    /// Takes out or marks the objects for which `goes` is true, in all shards.
    fn walk(&self, how: Purge, goes: &mut dyn FnMut(&Object) -> bool) -> usize {
        let mut found = 0;
        for index in 0..SHARDS {
            let mut gone = Gone::default();
            let mut shard = self.shard_at(index);
            let with_any: Vec<u128> = shard
                .resources()
                .filter(|resource| resource.variants.iter().any(|object| goes(object)))
                .map(|resource| resource.hash())
                .collect();
            for hash in with_any {
                found += shard.purge(hash, how, goes, &mut gone);
            }
            drop(shard);
            self.finish(gone);
        }
        found
    }

    fn finish(&self, gone: Gone) {
        self.retire(&gone.objects);
        for pending in gone.pending {
            pending.finish(WaitOutcome::TryAgain);
        }
    }
}

/// What a purge took out, to be cleared up after the lock.
#[derive(Default)]
struct Gone {
    objects: Vec<Arc<Object>>,
    pending: Vec<Arc<Pending>>,
}

impl Shard {
    /// Purges the variants of one key for which `goes` is true, and says how many there were, copies of
    /// what is in other indexes not counted; if there are any, fetches of the key are forgotten too, since
    /// they may be refreshing just these.
    fn purge(
        &mut self,
        hash: u128,
        how: Purge,
        goes: &mut dyn FnMut(&Object) -> bool,
        gone: &mut Gone,
    ) -> usize {
        let found = match how {
            Purge::Hard => {
                let mut taken = self.take_where(hash, goes);
                let found = taken.iter().filter(|object| !object.is_copy()).count();
                gone.objects.append(&mut taken);
                found
            }
            Purge::Soft(at) => self.mark_where(hash, goes, &|object| object.soft_purge(at)),
            Purge::Given(lifetimes) => {
                self.mark_where(hash, goes, &|object| object.give(&lifetimes))
            }
        };
        if found > 0 {
            gone.pending.append(&mut self.end_all(hash));
        }
        self.counters.purged += found as u64;
        found
    }

    /// Marks the variants of one key for which `goes` is true, and says how many there were, without
    /// copies.
    fn mark_where(
        &self,
        hash: u128,
        goes: &mut dyn FnMut(&Object) -> bool,
        mark: &dyn Fn(&Object),
    ) -> usize {
        let variants = self.find(hash).map(|resource| resource.variants.iter());
        let matching = variants.into_iter().flatten().filter(|object| goes(object));
        matching.inspect(|object| mark(object)).filter(|object| !object.is_copy()).count()
    }
}
