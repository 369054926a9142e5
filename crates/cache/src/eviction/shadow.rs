//! A cache of names: the real queues over objects that are nothing but a name and a size.
//!
//! It answers what a cache of some size, run in some way, would have had of the requests it is
//! shown. Shown a sample of the keys it does so for a cache as much larger (miniature simulation,
//! Waldspurger et al., ATC 2017).

use super::fifo::{Busy, Resident, S3Fifo, Usage};
use super::tactic::{Objective, Tactic};
use hashbrown::HashTable;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A request for an object that could be stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Demand {
    /// Where its key lies among all keys, evenly spread: a sample has those below some point. All
    /// variants of a key lie at one point.
    pub point: u32,
    /// A hash of its identity.
    pub fingerprint: u64,
    /// Its bytes in the cache.
    pub bytes: u64,
    /// What a use of it counts for.
    pub objective: Objective,
}

/// A cache of names.
#[derive(Debug)]
pub struct Shadow {
    queues: S3Fifo<Name>,
    index: HashTable<Arc<Name>>,
}

#[derive(Debug)]
struct Name {
    point: u32,
    fingerprint: u64,
    bytes: AtomicU64,
    objective: Objective,
    usage: Usage,
    /// Hits since it came.
    hits: AtomicU32,
}

impl Shadow {
    /// An empty cache.
    pub fn new(tactic: Tactic) -> Self {
        Self { queues: S3Fifo::new(tactic), index: HashTable::new() }
    }

    /// Requests an object from a cache of `capacity_bytes`; whether it was there. It is afterwards,
    /// unless it is larger than the cache.
    pub fn request(&mut self, request: &Demand, capacity_bytes: u64) -> bool {
        self.hits(request, capacity_bytes).is_some()
    }

    /// The same; how often it was hit since it came, this time included, where it was there.
    pub(crate) fn hits(&mut self, request: &Demand, capacity_bytes: u64) -> Option<u64> {
        let same = |name: &Arc<Name>| name.fingerprint == request.fingerprint;
        if let Some(name) = self.index.find(request.fingerprint, same) {
            name.usage.touch();
            let hits = name.hits.load(Relaxed).saturating_add(1);
            name.hits.store(hits, Relaxed);
            if name.bytes.swap(request.bytes, Relaxed) != request.bytes {
                let name = Arc::clone(name);
                self.queues.recount(&name);
                self.make_room(0, capacity_bytes);
            }
            return Some(hits.into());
        }
        if request.bytes > capacity_bytes {
            return None;
        }
        self.make_room(request.bytes, capacity_bytes);
        let name = Arc::new(Name {
            point: request.point,
            fingerprint: request.fingerprint,
            bytes: AtomicU64::new(request.bytes),
            objective: request.objective,
            usage: Usage::default(),
            hits: AtomicU32::new(0),
        });
        self.queues.push(&name);
        self.index.insert_unique(request.fingerprint, name, |name| name.fingerprint);
        None
    }

    /// Runs the queues in another way from now on.
    pub fn set_tactic(&mut self, tactic: Tactic) {
        self.queues.set_tactic(tactic);
    }

    /// How the queues are run.
    pub fn tactic(&self) -> Tactic {
        self.queues.tactic()
    }

    /// Objects that are in it.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Bytes of the objects that are in it.
    pub fn bytes(&self) -> u64 {
        self.queues.bytes()
    }

    /// What a hit is worth that answers a request, in bytes.
    pub(crate) fn value(&self, request: &Demand) -> f64 {
        self.queues.value(request.objective, request.bytes)
    }

    /// Forgets what is not in the sample below `point`.
    pub(crate) fn keep_below(&mut self, point: u64) {
        let queues = &mut self.queues;
        self.index.retain(|name| {
            let stays = u64::from(name.point) < point;
            if !stays {
                queues.remove(name);
            }
            stays
        });
        drop(self.queues.take_dropped());
    }

    fn make_room(&mut self, bytes: u64, capacity_bytes: u64) {
        while self.queues.bytes() + bytes > capacity_bytes {
            let Some(victim) = self.queues.evict(Busy::Idle) else { break };
            let same = |name: &Arc<Name>| Arc::ptr_eq(name, &victim);
            if let Ok(found) = self.index.find_entry(victim.fingerprint, same) {
                found.remove();
            }
        }
        drop(self.queues.take_dropped());
    }
}

impl Resident for Name {
    fn usage(&self) -> &Usage {
        &self.usage
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn bytes_expected(&self) -> u64 {
        self.bytes()
    }

    fn may_grow(&self) -> bool {
        false
    }

    fn busy(&self) -> Busy {
        Busy::Idle
    }

    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn objective(&self) -> Objective {
        self.objective
    }
}

#[cfg(test)]
#[path = "shadow_tests.rs"]
mod tests;
