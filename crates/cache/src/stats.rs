//! Figures of the index.

use crate::cache::Cache;
use crate::census::TagCounts;
use crate::counters::Counters;
use crate::key::Key;
use crate::marker::Marker;
use crate::object::Object;
use crate::shard::{SHARDS, shard_of};
use std::sync::Arc;

/// The most objects one page of a listing has: some milliseconds of work and a MiB of text.
pub const PAGE_OBJECTS_MAX: usize = 1000;

/// Figures of a whole cache at about one time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Objects in the index.
    pub objects: u64,
    /// Keys they have.
    pub keys: u64,
    /// Bytes of their bodies and heads as last measured; what is being filled is behind by a
    /// little.
    pub bytes: u64,
    /// Bytes of evicted objects, bodies and heads.
    pub evicted_bytes: u64,
    /// Objects not inserted because there was no room for their heads.
    pub refused_room: u64,
    /// What was counted since the start.
    pub counters: Counters,
}

impl Stats {
    /// Adds the figures of another index.
    pub(crate) fn add(&mut self, other: &Self) {
        let Self { objects, keys, bytes, evicted_bytes, refused_room, counters } = other;
        self.objects += objects;
        self.keys += keys;
        self.bytes += bytes;
        self.evicted_bytes += evicted_bytes;
        self.refused_room += refused_room;
        self.counters.add(counters);
    }
}

/// A part of a listing.
#[derive(Debug)]
pub struct Page {
    /// Objects, all variants of a key together, in an order that does not change.
    pub objects: Vec<Arc<Object>>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<u128>,
}

/// What is known of one key.
#[derive(Debug)]
pub struct Peek {
    /// Stored variants, newest first.
    pub variants: Vec<Arc<Object>>,
    /// Exclusive fetches under way.
    pub fetches: usize,
    /// Requests that wait for them.
    pub waiters: usize,
    /// Notes of responses that were not fit to be shared, some of them over.
    pub markers: Vec<Marker>,
}

impl Cache {
    /// The figures now. Takes each shard's lock for a moment.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            bytes: self.with_fifo(|fifo| fifo.bytes())
                + self.lower_stats().map_or(0, |lower| lower.used_bytes),
            evicted_bytes: self.evicted_bytes.value(),
            refused_room: self.refused_room.value(),
            ..Stats::default()
        };
        for index in 0..SHARDS {
            let shard = self.shard_at(index);
            stats.objects += shard.objects() as u64;
            stats.keys += shard.keys() as u64;
            stats.counters.add(&shard.counters);
        }
        stats
    }

    /// What is known of `key`. Changes nothing and counts as no use.
    pub fn peek(&self, key: &Key) -> Peek {
        let shard = self.shard(key);
        let resource = shard.find(key.hash());
        let unsettled = shard.unsettled(key.hash());
        let fetches = || unsettled.into_iter().flat_map(|one| one.fetches.iter());
        Peek {
            variants: resource
                .map_or_else(Vec::new, |found| found.variants.iter().cloned().collect()),
            fetches: fetches().count(),
            waiters: fetches().map(|pending| pending.waiters()).sum(),
            markers: unsettled.into_iter().flat_map(|one| one.markers.iter()).collect(),
        }
    }

    /// A part of all objects, in the order of their hashes: from `from` (0 at first, then what the
    /// page before said) and about `objects_max`, [`PAGE_OBJECTS_MAX`] at most. The variants of
    /// one key are not separated, so there can be more. What comes and goes meanwhile may be
    /// listed or not. Locks one shard at a time, for O(its resources).
    pub fn page(&self, from: u128, objects_max: usize) -> Page {
        let objects_max = objects_max.clamp(1, PAGE_OBJECTS_MAX);
        let mut page = Page { objects: Vec::new(), next: None };
        for index in shard_of(from)..SHARDS {
            let shard = self.shard_at(index);
            let mut hashes: Vec<u128> =
                shard.resources().map(|found| found.hash()).filter(|hash| *hash >= from).collect();
            hashes.sort_unstable();
            for hash in hashes {
                if page.objects.len() >= objects_max {
                    page.next = Some(hash);
                    return page;
                }
                let variants = shard.find(hash).map(|found| found.variants.iter().cloned());
                page.objects.extend(variants.into_iter().flatten());
            }
        }
        page
    }

    /// Counts the tags of objects from now on, of those that are there already too. Costs a look-up
    /// for each tag of an object that comes or goes. O(objects) once.
    pub fn count_tags(&self) {
        let census = Arc::clone(self.census.get_or_init(Arc::default));
        for index in 0..SHARDS {
            self.shard_at(index).be_counted(&census);
        }
    }

    /// What was counted; nothing before [`Cache::count_tags`].
    pub fn tag_counts(&self) -> TagCounts {
        self.census.get().map_or_else(TagCounts::default, |census| census.counts())
    }
}
