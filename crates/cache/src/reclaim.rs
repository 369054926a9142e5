//! Making room: eviction on behalf of the arena.

use crate::cache::Cache;
use crate::eviction::fifo::Busy;
use crate::object::Object;
use std::sync::Arc;

impl Cache {
    /// Evicts until about `wanted` bytes came free; returns how many did. The arena calls it when
    /// an allocation finds no room, and anyone may to make room ahead.
    ///
    /// Objects nobody uses go first, in the order of the queues. If they do not suffice, objects
    /// that are being read and at last such that are being filled leave the index too: their
    /// memory follows when their readers leave, and what is on its way like that is not evicted
    /// for twice. At least one object goes as long as there is one. Where there is memory of a lower
    /// class, objects nobody uses move there and stay in the index.
    pub fn reclaim(&self, wanted: u64) -> u64 {
        let mut freed = self.relieve(wanted);
        let mut evicted_any = freed > 0;
        for patience in [Busy::Idle, Busy::Read, Busy::Filling] {
            let is_idle = patience == Busy::Idle;
            let mut coming = if is_idle { 0 } else { self.arena.stats().pinned_bytes };
            // One goes even if enough is coming: those readers may be slow, and a caller who gets
            // nothing has to wait for them.
            while freed < wanted && (!evicted_any || freed + coming < wanted) {
                let Some(victim) = self.with_fifo(|fifo| fifo.evict(patience)) else { break };
                let demoted =
                    if is_idle { self.demote_victim(&victim, wanted - freed) } else { None };
                let (now, later) = match demoted {
                    Some(freed) => (freed, 0),
                    None => self.evict(victim),
                };
                freed += now;
                coming += later;
                evicted_any |= now + later > 0;
            }
        }
        if freed == 0 { self.free_heads(wanted) } else { freed }
    }

    /// Takes a victim of the queues out of the index; bytes that came free now, and that will
    /// when its readers leave.
    pub(crate) fn evict(&self, victim: Arc<Object>) -> (u64, u64) {
        if self.take_for_others(&victim).is_none() {
            // A purge was faster and clears up itself.
            return (0, 0);
        }
        let body = Arc::clone(victim.body());
        let charged = victim.charged_bytes();
        let freed = victim.release_body(true);
        let later = body.held_bytes();
        if later > 0 {
            // The head comes free, but it is the body that is wanted: an arena that hears of
            // progress asks for more at once, and all readers' objects would be gone at that.
            return (freed, later);
        }
        let is_last = Arc::into_inner(victim).is_some();
        (freed + if is_last { charged } else { 0 }, 0)
    }
    /// Takes an object that is to make room for others out of the index, and counts it with its bytes; `None`
    /// where somebody was faster.
    pub(crate) fn take_for_others(&self, victim: &Object) -> Option<Arc<Object>> {
        let mut shard = self.shard(victim.key());
        let taken = shard.take(victim)?;
        shard.counters.evicted += 1;
        drop(shard);
        self.evicted_bytes.add(taken.body().held_bytes() + taken.charged_bytes());
        Some(taken)
    }
}
