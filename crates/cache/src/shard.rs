//! One part of the index: the resources whose hashes begin alike, under one lock.

use crate::census::Census;
use crate::counters::Counters;
use crate::fetches::Fetches;
use crate::left::Left;
use crate::marker::{Marker, Markers};
use crate::object::Object;
use crate::variants::{Displaced, Variants};
use crate::waiting::Pending;
use freshet_base::clock::UnixMillis;
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::sync::Arc;

/// Markers of what was not fit to be shared ([`Marker`]) kept per shard, 65,536 in all. A marker is all that is left of a response
/// that was not stored, so without a bound a walk over made-up targets would fill the memory with
/// them. A marker too few costs some requests a wait.
const MARKERS_MAX: usize = 1024;

/// Parts of the index, a power of two. With 64 and a lock held for 100 ns, 16 cores looking up
/// without pause meet at a lock in one look-up out of four; real ones do other things as well.
pub(crate) const SHARDS: usize = 64;

/// The index of a part of all keys.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    resources: HashTable<Resource>,
    /// What only few keys have, so that it is not in the way of what a hit looks at.
    unsettled: HashTable<Unsettled>,
    /// Markers in the order they were set, some of them since replaced.
    markers: VecDeque<(u128, UnixMillis)>,
    objects: usize,
    /// Who counts tags, where somebody does.
    census: Option<Arc<Census>>,
    pub(crate) counters: Counters,
    /// Requests of this shard that the monitor knows of.
    pub(crate) requests_shown: u64,
}

/// What is stored of one key, one variant at least. Kept as small as it is because there is one for every
/// object: two of them are a cache line.
#[derive(Debug)]
pub(crate) struct Resource {
    hash: u128,
    pub(crate) variants: Variants,
}

/// What is about to change of one key.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    hash: u128,
    pub(crate) fetches: Fetches,
    pub(crate) markers: Markers,
}

impl Shard {
    pub(crate) fn find(&self, hash: u128) -> Option<&Resource> {
        self.resources.find(bucket(hash), |resource| resource.hash == hash)
    }

    fn find_mut(&mut self, hash: u128) -> Option<&mut Resource> {
        self.resources.find_mut(bucket(hash), |resource| resource.hash == hash)
    }

    /// Fetches under way of a key, and whether requests fetch it side by side.
    pub(crate) fn unsettled(&self, hash: u128) -> Option<&Unsettled> {
        self.unsettled.find(bucket(hash), |unsettled| unsettled.hash == hash)
    }

    fn unsettled_mut(&mut self, hash: u128) -> Option<&mut Unsettled> {
        self.unsettled.find_mut(bucket(hash), |unsettled| unsettled.hash == hash)
    }

    fn find_or_add(&mut self, hash: u128) -> &mut Resource {
        let same = |resource: &Resource| resource.hash == hash;
        let entry = self.resources.entry(bucket(hash), same, |other| bucket(other.hash));
        entry.or_insert_with(|| Resource { hash, variants: Variants::None }).into_mut()
    }

    fn unsettle(&mut self, hash: u128) -> &mut Unsettled {
        let same = |unsettled: &Unsettled| unsettled.hash == hash;
        let entry = self.unsettled.entry(bucket(hash), same, |other| bucket(other.hash));
        entry.or_insert_with(|| Unsettled { hash, ..Unsettled::default() }).into_mut()
    }

    /// Makes an object visible and returns those that leave for it.
    pub(crate) fn insert(&mut self, object: Arc<Object>) -> Vec<Arc<Object>> {
        object.set_indexed(true);
        if let Some(census) = &self.census {
            census.came(&object);
        }
        let hash = object.key().hash();
        self.unmark(hash, |markers| markers.end_for(object.selector()));
        let resource = self.find_or_add(hash);
        let Displaced { mut replaced, crowded_out } = resource.variants.insert(object);
        self.objects += 1;
        self.counters.replaced += replaced.len() as u64;
        self.counters.variants_evicted += u64::from(crowded_out.is_some());
        replaced.extend(crowded_out);
        self.left(&replaced);
        replaced
    }

    /// Takes out one object, by identity.
    pub(crate) fn take(&mut self, object: &Object) -> Option<Arc<Object>> {
        self.take_where(object.key().hash(), |other| std::ptr::eq(other, object)).pop()
    }

    /// Takes out the objects of one key for which `goes` is true.
    pub(crate) fn take_where(
        &mut self,
        hash: u128,
        goes: impl FnMut(&Object) -> bool,
    ) -> Vec<Arc<Object>> {
        let Some(resource) = self.find_mut(hash) else { return Vec::new() };
        let taken = resource.variants.take_where(goes);
        if resource.variants.is_empty() {
            let same = |resource: &Resource| resource.hash == hash;
            if let Ok(found) = self.resources.find_entry(bucket(hash), same) {
                found.remove();
            }
        }
        self.left(&taken);
        taken
    }

    /// Notes a fetch that begins.
    pub(crate) fn begin(&mut self, hash: u128, pending: Arc<Pending>) {
        self.unsettle(hash).fetches.add(pending);
    }

    /// Forgets a fetch; false where a purge forgot it before.
    pub(crate) fn end(&mut self, hash: u128, pending: &Arc<Pending>) -> bool {
        let ended = self.unsettled_mut(hash).is_some_and(|one| one.fetches.remove(pending));
        if ended {
            self.settle(hash);
        }
        ended
    }

    /// Forgets all fetches of this key and returns them.
    pub(crate) fn end_all(&mut self, hash: u128) -> Vec<Arc<Pending>> {
        let Some(unsettled) = self.unsettled_mut(hash) else { return Vec::new() };
        let ended = unsettled.fetches.take();
        self.settle(hash);
        ended
    }

    /// Forgets all fetches and returns them.
    pub(crate) fn end_everything(&mut self) -> Vec<Arc<Pending>> {
        let hashes: Vec<u128> = self.unsettled.iter().map(|unsettled| unsettled.hash).collect();
        hashes.into_iter().flat_map(|hash| self.end_all(hash)).collect()
    }

    /// Makes an object, if it is here, the newest of its key.
    pub(crate) fn renew(&mut self, object: &Arc<Object>) {
        if let Some(resource) = self.find_mut(object.key().hash()) {
            resource.variants.renew(object);
        }
    }

    /// Lets requests of this key fetch side by side.
    pub(crate) fn mark(&mut self, hash: u128, marker: Marker) {
        self.markers.push_back((hash, marker.until));
        self.unsettle(hash).markers.set(marker);
        if self.markers.len() > MARKERS_MAX
            && let Some((oldest, until)) = self.markers.pop_front()
        {
            self.unmark(oldest, |markers| markers.end_until(until));
        }
    }

    /// Takes markers of this key out.
    pub(crate) fn unmark(&mut self, hash: u128, end: impl FnOnce(&mut Markers)) {
        if let Some(unsettled) = self.unsettled_mut(hash) {
            end(&mut unsettled.markers);
            self.settle(hash);
        }
    }

    /// What is remembered of responses whose markers still hold.
    pub(crate) fn left_by(&self, now: UnixMillis) -> impl Iterator<Item = &Arc<Left>> {
        self.unsettled.iter().flat_map(move |one| one.markers.left(now))
    }

    pub(crate) fn objects(&self) -> usize {
        self.objects
    }

    pub(crate) fn keys(&self) -> usize {
        self.resources.len()
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.iter()
    }

    fn left(&mut self, objects: &[Arc<Object>]) {
        self.objects -= objects.len();
        for object in objects {
            object.set_indexed(false);
            self.counters.left_unasked += u64::from(object.is_awaited());
            if let Some(census) = &self.census {
                census.left(object);
            }
        }
    }

    /// Has the tags of objects counted.
    pub(crate) fn be_counted(&mut self, census: &Arc<Census>) {
        if self.census.is_some() {
            return;
        }
        self.census = Some(Arc::clone(census));
        for object in self.resources.iter().flat_map(|resource| resource.variants.iter()) {
            census.came(object);
        }
    }

    /// Forgets that something is about to change of a key, where nothing is any more.
    fn settle(&mut self, hash: u128) {
        let same = |unsettled: &Unsettled| unsettled.hash == hash;
        let Ok(found) = self.unsettled.find_entry(bucket(hash), same) else { return };
        let Unsettled { fetches, markers, .. } = found.get();
        if fetches.is_empty() && markers.is_empty() {
            found.remove();
        }
    }
}

impl Resource {
    pub(crate) fn hash(&self) -> u128 {
        self.hash
    }
}

/// The part of a hash that places it within its shard: not the bits that chose the shard.
fn bucket(hash: u128) -> u64 {
    hash as u64
}

/// Which part a hash belongs to: its highest bits, so that the order of parts is that of hashes.
pub(crate) fn shard_of(hash: u128) -> usize {
    (hash >> (u128::BITS - SHARDS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_resources_are_a_cache_line() {
        assert_eq!(2 * size_of::<Resource>(), 64);
    }
}
