//! Making room: eviction on behalf of the arena.

use crate::cache::{Cache, lock};
use crate::fifo::Busy;
use crate::object::Object;
use std::sync::{Arc, Weak};

impl Cache {
    /// Evicts until about `wanted` bytes came free; returns how many did. The arena calls it when
    /// an allocation finds no room, and anyone may to make room ahead.
    ///
    /// Objects nobody uses go first, in the order of the queues. If they do not suffice, objects
    /// that are being read and at last such that are being filled leave the index too: their
    /// memory follows when their readers leave, and what is on its way like that is not evicted
    /// for twice. At least one object goes as long as there is one.
    pub fn reclaim(&self, wanted: u64) -> u64 {
        let mut freed = 0;
        for patience in [Busy::Idle, Busy::Read, Busy::Filling] {
            let mut coming = if patience == Busy::Idle { 0 } else { self.lingering_bytes() };
            // Where nothing came free yet, one more goes even if enough is coming: readers may be
            // slow, and a caller who gets nothing has to wait for them.
            let mut nothing_yet = freed == 0;
            while freed < wanted && (nothing_yet || freed + coming < wanted) {
                let Some(victim) = self.with_fifo(|fifo| fifo.evict(patience)) else { break };
                let (now, later) = self.evict(victim);
                freed += now;
                coming += later;
                nothing_yet = false;
            }
        }
        freed
    }

    /// Takes a victim of the queues out of the index; bytes that came free now, and that will
    /// when its readers leave.
    fn evict(&self, victim: Arc<Object>) -> (u64, u64) {
        let mut shard = self.shard(victim.key());
        let taken = shard.take(&victim);
        shard.counters.evicted += u64::from(taken.is_some());
        drop(shard);
        if taken.is_none() {
            // A purge was faster and clears up itself.
            return (0, 0);
        }
        drop(taken);
        let body = Arc::clone(victim.body());
        let charged = victim.charged_bytes();
        self.evicted_bytes.add(body.held_bytes() + charged);
        let mut freed = victim.release_body(true);
        if Arc::into_inner(victim).is_some() {
            freed += charged;
        }
        let later = body.held_bytes();
        if later > 0 {
            lock(&self.lingering).push(Arc::downgrade(&body));
        }
        (freed, later)
    }

    /// Bytes of evicted bodies that are still being read.
    fn lingering_bytes(&self) -> u64 {
        let mut lingering = std::mem::take(&mut *lock(&self.lingering));
        let mut sum = 0;
        // Not under the lock: the last reference to a body may be dropped here.
        lingering.retain(|body| {
            let held = Weak::upgrade(body).map_or(0, |body| body.held_bytes());
            sum += held;
            held > 0
        });
        lock(&self.lingering).append(&mut lingering);
        sum
    }
}
