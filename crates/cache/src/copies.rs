//! Copies of what is in another index of the node: what a group of workers asks for often is in its own
//! memory as well.
//!
//! A copy is good as long as its original is in the index, under the head it was copied with: each use
//! looks. So nothing has to be told to copies, and what is purged, replaced or found to be good in one
//! index is so in all of them. What is told nevertheless only spares memory ([`Cache::drop_copies`]), but
//! for one thing: a response that came since is newer than a copy, and may be for the same requests.

use crate::cache::Cache;
use crate::eviction::fifo::Resident;
use crate::groups::Groups;
use crate::key::Key;
use crate::lookup::{Use, select};
use crate::object::{Object, ObjectSpec, StoredHead};
use crate::original::Original;
use crate::purge_log::Seq;
use crate::selector::RequestKeys;
use crate::ticket::Born;
use freshet_base::clock::UnixMillis;
use freshet_store::Body;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Objects of other groups that are remembered as asked for once: 512 KiB for each group.
const LATELY: usize = 1 << 16;
/// Set in the place of an object that is being copied; numbers of objects do not come so far.
const UNDER_WAY: u64 = 1 << 63;

/// Objects of other groups that one group has asked for lately.
#[derive(Debug)]
pub(crate) struct Lately(Box<[AtomicU64]>);

impl Lately {
    pub(crate) fn new() -> Self {
        Self((0..LATELY).map(|_| AtomicU64::new(0)).collect())
    }

    /// Notes a request for an object; whether it was the second, and the object is to be copied.
    fn is_second(&self, id: u64) -> bool {
        let place = self.place(id);
        match place.load(Relaxed) {
            seen if seen == id => {
                place.compare_exchange(id, id | UNDER_WAY, Relaxed, Relaxed).is_ok()
            }
            seen if seen == id | UNDER_WAY => false,
            _ => {
                place.store(id, Relaxed);
                false
            }
        }
    }

    /// Notes that a copy was made, or will not be.
    fn end(&self, id: u64) {
        let _ = self.place(id).compare_exchange(id | UNDER_WAY, 0, Relaxed, Relaxed);
    }

    fn place(&self, id: u64) -> &AtomicU64 {
        &self.0[id as usize % LATELY]
    }
}

/// A copy that is being made: its body is to come.
pub struct Copying {
    original: Original,
    groups: Arc<Groups>,
    /// The group it is for.
    to: usize,
    /// The number of the last purge when it began.
    begun: Seq,
}

impl Copying {
    /// Begins to copy an object of another group that is asked for a second time in group `to`; `None` where
    /// it was not, is not all there yet, or other responses may be for the same requests.
    pub(crate) fn begin(groups: &Arc<Groups>, to: usize, object: &Arc<Object>) -> Option<Self> {
        if !object.body().is_complete() || !groups.lately(to)?.is_second(object.id()) {
            return None;
        }
        let begun = groups.purge_seq();
        let original = Original { object: Arc::clone(object), head: object.head() };
        let copying = Self { original, groups: Arc::clone(groups), to, begun };
        copying.is_distinct().then_some(copying)
    }

    /// What is copied.
    pub fn original(&self) -> &Arc<Object> {
        &self.original.object
    }

    /// Puts the copy into its index, with a body that has all the bytes of the original's; whether it is
    /// there. Where the original was purged or replaced meanwhile, it is not.
    pub fn finish(&self, body: Arc<Body>) -> bool {
        let Original { object, head } = &self.original;
        let original = Original { object: Arc::clone(object), head: Arc::clone(head) };
        let spec = ObjectSpec {
            head: StoredHead::clone(head),
            body,
            variation: object.variation().cloned(),
            tags: object.tags().into(),
            objective: Some(object.objective()),
        };
        let content = object.born_seq().min(self.begun);
        let born = Born { seq: self.begun, content, is_ahead: false };
        // The key in memory of its own, as all that a look-up reads.
        let key = Arc::new(Key::clone(object.key()));
        let own = self.groups.of(self.to);
        let copy = own.put(&key, None, born, spec, Some(original));
        // Who counts hits goes on from those before it.
        copy.set_past(object.hits(), 0, None);
        // One that came meanwhile did not find this copy to drop it.
        if copy.is_indexed() && !self.is_distinct() {
            own.forget(&copy);
        }
        copy.is_indexed()
    }

    /// Whether no newer response is stored that may be for the same requests: those under the same rule
    /// of `Vary` are for others.
    fn is_distinct(&self) -> bool {
        let original = &self.original.object;
        let shape = original.selector().shape();
        let variants = self.groups.peek(original.key()).variants;
        let mut newer = variants.iter().take_while(|other| !Arc::ptr_eq(other, original));
        original.is_indexed() && newer.all(|other| other.selector().has(&shape))
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        if let Some(lately) = self.groups.lately(self.to) {
            lately.end(self.original.object.id());
        }
    }
}

impl Cache {
    /// A copy that answers a request, counted as a hit. One that does not any more is let go.
    pub(crate) fn lookup_copy(
        &self,
        key: &Key,
        mut keys: RequestKeys<'_>,
        now: UnixMillis,
        classify: &mut dyn FnMut(&Object) -> Use,
    ) -> Option<Arc<Object>> {
        let mut shard = self.shard(key);
        let resource = shard.find(key.hash())?;
        let mut look = |copy: &Object| match copy.copied().is_some_and(Original::is_current) {
            true => classify(copy),
            false => Use::Validate,
        };
        let (copy, usage) = select(resource, &mut keys, &mut look).0?;
        if usage != Use::Serve {
            // What becomes of the original is decided where that is.
            drop(shard);
            self.forget(&copy);
            return None;
        }
        shard.counters.lookups += 1;
        shard.counters.hits += 1;
        copy.touch();
        copy.original().touch_from_afar();
        self.note(shard, key.hash(), &copy, Some(now));
        copy.prefetch_response();
        Some(copy)
    }

    /// Lets copies in other indexes go, of all variants of a key.
    pub(crate) fn drop_copies(&self, key: &Key) {
        for other in self.others.get().into_iter().flatten().filter_map(|other| other.upgrade()) {
            let copies = other.shard(key).take_where(key.hash(), Object::is_copy);
            other.retire(&copies);
        }
    }
}

impl fmt::Debug for Copying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copying").field("to", &self.to).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_request_is_told_once_until_the_copy_is_made() {
        let lately = Lately::new();
        let asked: Vec<bool> = (0..4).map(|_| lately.is_second(7)).collect();
        assert_eq!(asked, [false, true, false, false]);
        lately.end(7);
        assert_eq!([lately.is_second(7), lately.is_second(7)], [false, true]);
        // Another in the same place.
        assert!(!lately.is_second(7 + LATELY as u64));
        assert!(!lately.is_second(7));
    }
}
