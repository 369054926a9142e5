//! The indexes of a node: one for each group of workers, over an arena of its own.
//!
//! A machine with several NUMA nodes has a group for each of them, others have one. Each key has a home:
//! the index in which it is looked up, fetched and stored, from whichever group it is asked for. So there is
//! one fetch for a crowd over all groups, and what is asked for once is in memory once. What a group
//! asks for a second time it copies; copies are found first and never stand alone.
//!
//! Whoever asks by key, or for everything, needs to know nothing of this; only a look-up says from which
//! group it is ([`Groups::lookup_from`]).

use crate::cache::{Cache, Settings};
use crate::census::TagCounts;
use crate::copies::{Copying, Lately};
use crate::error::CacheError;
use crate::key::{Key, Secret};
use crate::left::Left;
use crate::lookup::{Asker, Lookup, Use};
use crate::lower::LowerStats;
use crate::object::{Object, ObjectSpec};
use crate::observe::Learned;
use crate::order::Order;
use crate::purge::Purge;
use crate::restore::Past;
use crate::selector::{RequestKeys, Selecting};
use crate::stats::{PAGE_OBJECTS_MAX, Page, Peek, Stats};
use freshet_base::clock::UnixMillis;
use freshet_store::{Arena, ArenaStats};
use std::sync::Arc;

/// The indexes of a node.
#[derive(Debug)]
pub struct Groups {
    all: Box<[Arc<Cache>]>,
    /// What each has asked for lately of others'; nothing where there is one.
    lately: Box<[Lately]>,
}

impl Groups {
    /// Empty indexes, one over each of these arenas, of which there is at least one. Bytes of disks are
    /// those of all.
    ///
    /// # Errors
    /// A setting is out of its bounds, or an arena is too small.
    ///
    /// # Panics
    /// There is no arena.
    pub fn new(
        arenas: Vec<Arc<Arena>>,
        secret: &Secret,
        settings: &Settings,
    ) -> Result<Arc<Self>, CacheError> {
        assert!(!arenas.is_empty(), "a node has memory");
        let order = Arc::new(Order::after(Cache::DOUBTED_BELOW));
        let count = arenas.len();
        let settings =
            Settings { disk_bytes: settings.disk_bytes / count as u64, ..settings.clone() };
        let begin =
            |arena| Cache::in_order(arena, secret.clone(), settings.clone(), Arc::clone(&order));
        let all: Box<[_]> = arenas.into_iter().map(begin).collect::<Result<_, _>>()?;
        for cache in all.iter().filter(|_| count > 1) {
            let others = all.iter().filter(|other| !Arc::ptr_eq(other, cache));
            let _ = cache.others.set(others.map(Arc::downgrade).collect());
        }
        let lately = all.iter().filter(|_| count > 1).map(|_| Lately::new()).collect();
        Ok(Arc::new(Self { all, lately }))
    }

    /// All of them, in the order of their groups.
    pub fn all(&self) -> &[Arc<Cache>] {
        &self.all
    }

    /// The one of a group.
    pub fn of(&self, group: usize) -> &Arc<Cache> {
        &self.all[group]
    }

    /// The group a key is at home in.
    #[inline]
    pub fn home_of(&self, key: &Key) -> usize {
        let count = self.all.len();
        if count == 1 {
            return 0;
        }
        // Bits that choose neither the shard nor what the monitor looks at. Keys are hashed under a
        // secret, so each group gets its part of them, whatever they are.
        let point = key.hash() as u64 & u64::from(u32::MAX);
        ((point * count as u64) >> 32) as usize
    }

    /// The index a key is at home in.
    #[inline]
    pub fn home(&self, key: &Key) -> &Arc<Cache> {
        &self.all[self.home_of(key)]
    }

    /// The memory for bodies of a key.
    pub fn arena_of(&self, key: &Key) -> &Arc<Arena> {
        self.home(key).arena()
    }

    /// Looks up a key at home; see [`Cache::lookup`].
    pub fn lookup(
        &self,
        key: &Key,
        request: &dyn Selecting,
        now: UnixMillis,
        classify: &mut dyn FnMut(&Object) -> Use,
    ) -> Lookup {
        self.home(key).lookup(key, request, now, classify)
    }

    /// Looks up a key at home for a request that is foreseen; see [`Cache::lookup_ahead`].
    pub fn lookup_ahead(
        &self,
        key: &Key,
        request: &dyn Selecting,
        now: UnixMillis,
        classify: &mut dyn FnMut(&Object) -> Use,
    ) -> Lookup {
        self.home(key).lookup_ahead(key, request, now, classify)
    }

    /// Looks up a key for a worker of a group: among the copies that has, and at home. Where it
    /// `takes_any`, every variant is selected, as by [`Cache::lookup_any_variant`].
    pub fn lookup_from(
        &self,
        group: usize,
        key: &Key,
        (request, takes_any): (&dyn Selecting, bool),
        asker: Asker,
        now: UnixMillis,
        classify: &mut dyn FnMut(&Object) -> Use,
    ) -> Lookup {
        let keys = || match takes_any {
            true => RequestKeys::taking_any(request),
            false => RequestKeys::new(request),
        };
        let home = self.home_of(key);
        if home != group
            && let Some(object) = self.all[group].lookup_copy(key, keys(), now, classify)
        {
            return Lookup::Hit { object, refresh: None };
        }
        self.all[home].lookup_with(key, keys(), asker, now, classify)
    }

    /// Begins to copy an object that was found from a group, where it is of another one and this is the
    /// second time.
    pub fn copy_for(self: &Arc<Self>, group: usize, object: &Arc<Object>) -> Option<Copying> {
        let is_elsewhere = self.is_of_other(group, object);
        is_elsewhere.then(|| Copying::begin(self, group, object)).flatten()
    }

    /// Whether an object that was found from a group is in the memory of another one.
    #[inline]
    pub fn is_of_other(&self, group: usize, object: &Object) -> bool {
        self.home_of(object.key()) != group && !object.is_copy()
    }

    /// Groups that have copies of what is at home in another one for this key. Counts as no use.
    pub fn copied_to(&self, key: &Key) -> impl Iterator<Item = usize> {
        let has_copy = |cache: &Cache| cache.peek(key).variants.iter().any(|one| one.is_copy());
        let copied = self.all.iter().enumerate().filter(move |(_, cache)| has_copy(cache));
        copied.map(|(group, _)| group)
    }

    /// What a group has asked for lately of others'; `None` where there is one group.
    pub(crate) fn lately(&self, group: usize) -> Option<&Lately> {
        self.lately.get(group)
    }

    /// Takes one object out; see [`Cache::forget`]. With a copy goes its original: what is wrong with one
    /// is so with the other.
    pub fn forget(&self, object: &Arc<Object>) -> bool {
        let original = object.original();
        let was_there = self.home(original.key()).forget(original);
        if object.is_copy() {
            self.home(original.key()).drop_copies(original.key());
        }
        was_there
    }

    /// What is known of a key; see [`Cache::peek`].
    pub fn peek(&self, key: &Key) -> Peek {
        self.home(key).peek(key)
    }

    /// See [`Cache::was_purged_since`].
    pub fn was_purged_since(&self, seq: u64, key: &Key, tags: &[u64]) -> bool {
        self.home(key).was_purged_since(seq, key, tags)
    }

    /// See [`Cache::restore`].
    pub fn restore(&self, key: Key, spec: ObjectSpec, past: Past) -> Option<Arc<Object>> {
        self.home(&key).restore(key, spec, past)
    }

    /// See [`Cache::place_lower`].
    pub fn place_lower(&self, object: &Arc<Object>) {
        self.home(object.key()).place_lower(object);
    }

    /// Purges all variants of a key and returns how many there were. In each index it has the same number.
    pub fn purge(&self, key: &Key, how: Purge) -> usize {
        let seq = self.next_in_order();
        self.all.iter().map(|cache| cache.purge_at(seq, key, how)).sum()
    }

    /// Purges all objects with a tag and returns how many there were.
    pub fn purge_tag(&self, tag: u64, how: Purge) -> usize {
        self.purge_tags(&[tag], how)
    }

    /// Purges all objects with one of these tags and returns how many there were.
    pub fn purge_tags(&self, tags: &[u64], how: Purge) -> usize {
        let seq = self.next_in_order();
        self.all.iter().map(|cache| cache.purge_tags_at(seq, tags, how)).sum()
    }

    /// Purges everything and returns how many objects there were.
    pub fn purge_all(&self, how: Purge) -> usize {
        let seq = self.next_in_order();
        self.all.iter().map(|cache| cache.purge_all_at(seq, how)).sum()
    }

    /// See [`Cache::next_in_order`].
    pub fn next_in_order(&self) -> u64 {
        self.first().next_in_order()
    }

    /// See [`Cache::purge_seq`].
    pub fn purge_seq(&self) -> u64 {
        self.first().purge_seq()
    }

    /// See [`Cache::fence`].
    pub fn fence(&self, seq: u64) {
        self.first().fence(seq);
    }

    /// See [`Cache::trust_until`].
    pub fn trust_until(&self, end: UnixMillis) {
        self.first().trust_until(end);
    }

    /// See [`Cache::fenced_below`].
    pub fn fenced_below(&self, now: UnixMillis) -> u64 {
        self.first().fenced_below(now)
    }

    /// See [`Cache::trusts_nothing`].
    pub fn trusts_nothing(&self, now: UnixMillis) -> bool {
        self.first().trusts_nothing(now)
    }

    /// See [`Cache::usable_from`].
    pub fn usable_from(&self, now: UnixMillis) -> u64 {
        self.first().usable_from(now)
    }

    /// The key of `authority` and `target`.
    pub fn key(&self, authority: &str, target: &str) -> Key {
        self.first().key(authority, target)
    }

    /// The secret of all keys.
    pub fn secret(&self) -> &Secret {
        self.first().secret()
    }

    /// The largest body worth keeping, in bytes: not more than half of a group's memory.
    pub fn object_bytes_max(&self) -> u64 {
        match self.all.len() {
            1 => self.first().object_bytes_max(),
            _ => self.first().object_bytes_max().min(self.group_bytes() / 2),
        }
    }

    /// Memory of the smallest group.
    pub fn group_bytes(&self) -> u64 {
        self.all.iter().map(|cache| cache.arena().limit_bytes()).min().unwrap_or(0)
    }

    /// Bytes of the disks beneath.
    pub fn disk_bytes(&self) -> u64 {
        self.all.iter().map(|cache| cache.disk_bytes()).sum()
    }

    /// Bytes they may have in all classes of memory.
    pub fn capacity_bytes(&self) -> u64 {
        self.all.iter().map(|cache| cache.capacity_bytes()).sum()
    }

    /// True once, when a resource has had too many variants.
    pub fn tell_crowded(&self) -> bool {
        self.all.iter().any(|cache| cache.tell_crowded())
    }

    /// The figures of all; a copy is an object.
    pub fn stats(&self) -> Stats {
        let mut all = Stats::default();
        self.all.iter().for_each(|cache| all.add(&cache.stats()));
        all
    }

    /// The figures of all arenas.
    pub fn memory(&self) -> ArenaStats {
        let mut all = ArenaStats::default();
        self.all.iter().for_each(|cache| all.add(&cache.arena().stats()));
        all
    }

    /// What the lower classes hold, where there are some.
    pub fn lower_stats(&self) -> Option<LowerStats> {
        let each = self.all.iter().filter_map(|cache| cache.lower_stats());
        each.reduce(|mut all, one| {
            all.add(&one);
            all
        })
    }

    /// What the traffic has shown so far; see [`Cache::learned`]. Each index learns from its part of all
    /// keys what a part of the memory would do.
    pub fn learned(&self, memory_bytes: &[u64], disk_bytes: &[u64]) -> Learned {
        let count = self.all.len() as u64;
        let part = |all: &[u64]| -> Vec<u64> { all.iter().map(|bytes| bytes / count).collect() };
        let (memory, disks) = (part(memory_bytes), part(disk_bytes));
        let mut each = self.all.iter().map(|cache| cache.learned(&memory, &disks));
        let mut all = each.next().expect("there is an index");
        each.for_each(|one| all.add(&one));
        all.set_capacities(self.capacity_bytes(), memory_bytes, self.disk_bytes(), disk_bytes);
        all
    }

    /// A part of all objects in the order of their hashes; see [`Cache::page`].
    pub fn page(&self, from: u128, objects_max: usize) -> Page {
        let objects_max = objects_max.clamp(1, PAGE_OBJECTS_MAX);
        if let [only] = &*self.all {
            return only.page(from, objects_max);
        }
        let pages: Vec<Page> = self.all.iter().map(|cache| cache.page(from, objects_max)).collect();
        // Behind where one of them ended it is not known what else there is.
        let mut next = pages.iter().filter_map(|page| page.next).min();
        let mut objects: Vec<_> = pages.into_iter().flat_map(|page| page.objects).collect();
        objects.retain(|one| !one.is_copy() && next.is_none_or(|next| one.key().hash() < next));
        objects.sort_by_key(|one| one.key().hash());
        if let Some(last) = objects.get(objects_max - 1).map(|one| one.key().hash()) {
            // All variants of a key are on one page.
            let end = objects.partition_point(|one| one.key().hash() <= last);
            next = objects.get(end).map(|one| one.key().hash()).or(next);
            objects.truncate(end);
        }
        Page { objects, next }
    }

    /// The objects of one part of all indexes, without copies; see [`Cache::objects_of_part`].
    pub fn objects_of_part(&self, part: usize) -> Vec<Arc<Object>> {
        let objects = self.all.iter().flat_map(|cache| cache.objects_of_part(part));
        objects.filter(|object| !object.is_copy()).collect()
    }

    /// What is remembered of responses of one part of all indexes that were not kept; see
    /// [`Cache::left_of_part`].
    pub fn left_of_part(&self, part: usize, now: UnixMillis) -> Vec<Arc<Left>> {
        self.all.iter().flat_map(|cache| cache.left_of_part(part, now)).collect()
    }

    /// Ends the marker of a response that was not kept.
    pub fn forget_left(&self, left: &Arc<Left>) {
        self.home(left.key()).forget_left(left);
    }

    /// Looks at every object but copies; see [`Cache::each_object`].
    pub fn each_object(&self, look: &mut dyn FnMut(&Object)) {
        for cache in &self.all {
            cache.each_object(&mut |object| {
                if !object.is_copy() {
                    look(object);
                }
            });
        }
    }

    /// All objects but copies, those that are worth least first; see [`Cache::objects_by_worth`].
    pub fn objects_by_worth(&self) -> Vec<Arc<Object>> {
        let mut all: Vec<_> = self.all.iter().flat_map(|cache| cache.objects_by_worth()).collect();
        all.retain(|object| !object.is_copy());
        if self.all.len() > 1 {
            Cache::sort_by_worth(&mut all);
        }
        all
    }

    /// See [`Cache::set_shares`]; each group has its part of every bound.
    pub fn set_shares(&self, bounds: &[(u64, u64)]) {
        let parts = self.all.len() as u64;
        let bounds: Vec<_> = bounds.iter().map(|(tag, bytes)| (*tag, bytes / parts)).collect();
        self.all.iter().for_each(|cache| cache.set_shares(&bounds));
    }

    /// See [`Cache::share_bytes`].
    pub fn share_bytes(&self, tag: u64) -> Option<u64> {
        self.all.iter().map(|cache| cache.share_bytes(tag)).sum()
    }

    /// See [`Cache::count_tags`].
    pub fn count_tags(&self) {
        self.all.iter().for_each(|cache| cache.count_tags());
    }

    /// What was counted of tags; a tag that is in several indexes counts for each.
    pub fn tag_counts(&self) -> TagCounts {
        let counts = self.all.iter().map(|cache| cache.tag_counts());
        counts.fold(TagCounts::default(), |all, one| TagCounts {
            tags: all.tags + one.tags,
            objects: all.objects + one.objects,
            references: all.references + one.references,
        })
    }

    /// See [`Arena::return_pages`].
    pub fn return_pages(&self) {
        self.all.iter().for_each(|cache| cache.arena().return_pages());
    }

    /// The one that is asked for what is the same in all.
    fn first(&self) -> &Arc<Cache> {
        &self.all[0]
    }
}
