//! How objects move between the classes of memory: down when they are evicted, back by use.

use crate::cache::Cache;
use crate::eviction::Tactic;
use crate::eviction::fifo::{Busy, Resident as _, S3Fifo, Usage};
use crate::lock::lock;
use crate::lower::{Job, Lodger, Lower, LowerStats, LowerTakes};
use crate::object::Object;
use freshet_base::clock::UnixMillis;
use freshet_store::{Arena, Moved};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

impl Cache {
    /// Gives the cache memory of a lower class, once; false where it has some. From now on what is
    /// evicted moves there. Somebody has to run [`Cache::serve_lower`] for what is to come back.
    pub fn set_lower(self: &Arc<Self>, arena: Arc<Arena>, takes: LowerTakes) -> bool {
        let lower = Lower {
            arena: Arc::clone(&arena),
            takes,
            fifo: Mutex::new(S3Fifo::new(Tactic::first(self.settings.objective))),
            moving: Mutex::default(),
            newest_ms: AtomicU64::new(0),
            desk: Arc::default(),
        };
        if self.lower.set(lower).is_err() {
            return false;
        }
        lock(&self.monitor).set_capacity(self.arena.limit_bytes() + arena.limit_bytes());
        let weak = Arc::downgrade(self);
        arena.set_reclaim(Box::new(move |bytes| {
            weak.upgrade().map_or(0, |cache| cache.reclaim_lower(bytes))
        }));
        true
    }

    /// Whether there is memory of a lower class.
    pub fn has_lower(&self) -> bool {
        self.lower.get().is_some()
    }

    /// Moves what is asked for until [`Cache::end_lower`] is called; for a thread of its own, after
    /// [`Cache::set_lower`].
    pub fn serve_lower(&self) {
        let Some(lower) = self.lower.get() else { return };
        loop {
            let mut jobs = lock(&lower.desk.jobs);
            while jobs.waiting.is_empty() && !jobs.has_ended {
                jobs = lower.desk.more.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            }
            if jobs.has_ended {
                return;
            }
            let next = jobs.waiting.pop_front();
            drop(jobs);
            let Some((job, Some(object))) = next.map(|(job, weak)| (job, weak.upgrade())) else {
                continue;
            };
            match job {
                Job::Promote => self.promote(lower, &object),
                Job::Place => self.place(lower, &object),
            }
        }
    }

    /// Ends [`Cache::serve_lower`].
    pub fn end_lower(&self) {
        if let Some(lower) = self.lower.get() {
            lock(&lower.desk.jobs).has_ended = true;
            lower.desk.more.notify_all();
        }
    }

    /// Has an object whose body is complete moved to the lower class at once, to stay there, as far
    /// as that takes it.
    pub fn place_lower(&self, object: &Arc<Object>) {
        if let Some(lower) = self.lower.get() {
            lower.desk.ask(Job::Place, &Arc::downgrade(object));
        }
    }

    /// What the lower class holds, where there is one.
    pub fn lower_stats(&self) -> Option<LowerStats> {
        let lower = self.lower.get()?;
        let (arena, desk) = (lower.arena.stats(), &lower.desk);
        Some(LowerStats {
            limit_bytes: arena.limit_bytes,
            used_bytes: arena.used_bytes,
            objects: lower.with_fifo(|fifo| fifo.len()) as u64,
            hits: desk.hits.value(),
            demoted: desk.demoted.value(),
            demoted_bytes: desk.demoted_bytes.value(),
            promoted: desk.promoted.value(),
            promoted_bytes: desk.promoted_bytes.value(),
            evicted: desk.evicted.value(),
            refused: desk.refused.value(),
        })
    }

    /// Bytes the cache may have in all classes of memory.
    pub fn capacity_bytes(&self) -> u64 {
        let lower = self.lower.get().map_or(0, |lower| lower.arena.limit_bytes());
        self.arena.limit_bytes() + lower
    }

    /// Takes objects that left the index out of the queues of the lower class.
    pub(crate) fn retire_lower(&self, objects: &[Arc<Object>]) {
        let Some(lower) = self.lower.get() else { return };
        for lodger in objects.iter().filter_map(|object| object.end_stay()) {
            lower.with_fifo(|fifo| fifo.remove(&lodger));
        }
    }

    /// Makes room in the first class for `wanted` bytes before anything is evicted there: goes on
    /// with what is on its way down, and evicts what has its heads there and too many of them.
    /// Returns what came free.
    pub(crate) fn relieve(&self, wanted: u64) -> u64 {
        let Some(lower) = self.lower.get() else { return 0 };
        let mut freed = 0;
        while freed < wanted && lower.is_top_heavy(&self.arena) {
            let Some((heads, _)) = self.evict_lodger(lower, Busy::Idle) else { break };
            freed += heads;
        }
        if freed >= wanted {
            return freed;
        }
        // Taken under its lock, and moved after.
        let begun = lock(&lower.moving).take();
        freed + begun.map_or(0, |begun| self.demote(lower, begun, wanted - freed))
    }

    /// Evicts objects whose bytes are in the lower class for the sake of their heads.
    pub(crate) fn free_heads(&self, wanted: u64) -> u64 {
        let Some(lower) = self.lower.get() else { return 0 };
        let mut freed = 0;
        while freed < wanted {
            let Some((heads, _)) = self.evict_lodger(lower, Busy::Idle) else { break };
            freed += heads;
        }
        freed
    }

    /// Notes when a response came.
    pub(crate) fn note_time(&self, received: UnixMillis) {
        if let Some(lower) = self.lower.get() {
            lower.newest_ms.fetch_max(received.0, Relaxed);
        }
    }

    /// Moves a victim of the first class down, as much of it as is `wanted`; what came free. `None`
    /// where the lower class does not take it, or it is of no use any more.
    pub(crate) fn demote_victim(&self, victim: &Arc<Object>, wanted: u64) -> Option<u64> {
        let lower = self.lower.get().filter(|one| one.takes(victim) && !one.is_spent(victim))?;
        Some(self.demote(lower, Arc::clone(victim), wanted))
    }

    fn demote(&self, lower: &Lower, object: Arc<Object>, wanted: u64) -> u64 {
        let mut freed = 0;
        loop {
            match object.body().move_part(&lower.arena) {
                Moved::Part { bytes, freed_bytes } => {
                    lower.desk.demoted_bytes.add(bytes);
                    freed += freed_bytes;
                }
                Moved::All => {
                    self.lodge(lower, &object, false);
                    return freed;
                }
                Moved::NoRoom => {
                    lower.desk.refused.add(1);
                    return freed + self.evict(object).0;
                }
            }
            if freed >= wanted && !object.body().is_in(&lower.arena) {
                let mut moving = lock(&lower.moving);
                if moving.is_none() {
                    *moving = Some(object);
                    return freed;
                }
            }
        }
    }

    /// Takes an object into the lower class whose bytes are all there.
    fn lodge(&self, lower: &Lower, object: &Arc<Object>, stays: bool) {
        let charged_bytes = object.charged_bytes();
        lower.desk.charged_bytes.fetch_add(charged_bytes, Relaxed);
        let lodger = Arc::new(Lodger {
            object: Arc::downgrade(object),
            usage: Usage::default(),
            bytes: object.body().held_bytes(),
            charged_bytes,
            fingerprint: object.fingerprint(),
            objective: object.objective(),
            stays,
            was_asked: AtomicBool::new(false),
            desk: Arc::clone(&lower.desk),
        });
        let shard = self.shard(object.key());
        // Who takes it out of the index from now on finds the lodger.
        let begins = object.is_indexed() && object.begin_stay(&lodger);
        drop(shard);
        if begins {
            lower.desk.demoted.add(1);
            lower.with_fifo(|fifo| fifo.push(&lodger));
        }
    }

    fn promote(&self, lower: &Lower, object: &Arc<Object>) {
        let home = Arc::clone(object.body().arena());
        loop {
            match object.body().move_part(&home) {
                Moved::Part { bytes, .. } => lower.desk.promoted_bytes.add(bytes),
                Moved::All => break,
                // Half of it is in no queue of the first class, where it could not stay.
                Moved::NoRoom => {
                    self.forget(object);
                    return;
                }
            }
        }
        let shard = self.shard(object.key());
        let lodger = object.end_stay();
        let is_indexed = object.is_indexed();
        drop(shard);
        let Some(lodger) = lodger else { return };
        lower.with_fifo(|fifo| fifo.remove(&lodger));
        if is_indexed {
            lower.desk.promoted.add(1);
            self.with_fifo(|fifo| fifo.push(object));
        }
    }

    fn place(&self, lower: &Lower, object: &Arc<Object>) {
        if !lower.takes(object) || !object.is_indexed() {
            return;
        }
        loop {
            match object.body().move_part(&lower.arena) {
                Moved::Part { bytes, .. } => lower.desk.demoted_bytes.add(bytes),
                Moved::All => break,
                // What is there stays, until the object leaves the first class.
                Moved::NoRoom => return lower.desk.refused.add(1),
            }
        }
        self.with_fifo(|fifo| fifo.remove(object));
        self.lodge(lower, object, true);
    }

    /// Evicts until about `wanted` bytes of the lower class came free.
    fn reclaim_lower(&self, wanted: u64) -> u64 {
        let Some(lower) = self.lower.get() else { return 0 };
        let mut freed = 0;
        for patience in [Busy::Idle, Busy::Read] {
            while freed < wanted {
                let Some((_, bytes)) = self.evict_lodger(lower, patience) else { break };
                freed += bytes;
            }
        }
        freed
    }

    /// Evicts one object of the lower class; what came free in the first one and in it.
    fn evict_lodger(&self, lower: &Lower, patience: Busy) -> Option<(u64, u64)> {
        let lodger = lower.with_fifo(|fifo| fifo.evict(patience))?;
        let Some(object) = lodger.object.upgrade() else { return Some((0, 0)) };
        let charged_bytes = lodger.charged_bytes;
        let mut shard = self.shard(object.key());
        let is_here = object.end_stay().is_some();
        let taken = if is_here { shard.take(&object) } else { None };
        shard.counters.evicted += u64::from(taken.is_some());
        drop(shard);
        if taken.is_none() {
            return Some((0, 0));
        }
        drop(taken);
        lower.desk.evicted.add(1);
        self.evicted_bytes.add(lodger.bytes + charged_bytes);
        let freed = object.release_body(true);
        let is_last = Arc::into_inner(object).is_some();
        Some((if is_last { charged_bytes } else { 0 }, freed))
    }
}
