//! Memory of a lower class behind the first: what is evicted there moves here, and back by use.
//!
//! An object that moves stays in the index, with its head, its purges and its bans; only the bytes
//! of its body change their place ([`freshet_store::Body::move_part`]), and who reads them does not see it. So
//! nothing of this costs a request for an object in the first class.
//!
//! ```text
//!   first class, its queues ── victim ──► lower class, queues of its own ── victim ──► gone
//!                 ▲                                   │
//!                 └────── used PROMOTED_AT_USES times ┘
//! ```
//! An object is in the queues of one class at a time. In those of the lower one a lodger stands
//! for it, a new one for each stay.

use crate::cache::{Cache, lock};
use crate::eviction::fifo::{Busy, Resident, S3Fifo, Usage};
use crate::eviction::{Objective, Tactic};
use crate::object::Object;
use freshet_base::clock::UnixMillis;
use freshet_base::counter::SharedCounter;
use freshet_store::{Arena, Moved};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Uses since its last turn that bring an object back to the first class: two, as for the main
/// queue there. One would move what is asked for once more and never again.
const PROMOTED_AT_USES: u8 = 2;

/// Moves that wait at most. More are forgotten: what is used again asks again.
const JOBS_MAX: usize = 1024;

/// The largest part of the class that one object may have.
const OBJECT_PART: u64 = 4;

/// The part of the first class that heads of objects in the lower one may take before these are
/// evicted for it.
const HEADS_PART: u64 = 2;

/// Which of the objects that leave the first class the lower one takes.
#[derive(Clone, Debug, PartialEq)]
pub struct LowerTakes {
    /// Lengths of bodies.
    pub bytes: RangeInclusive<u64>,
    /// The shortest lifetime.
    pub lifetime_min: Duration,
}

/// What was counted of a lower class, and what it holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LowerStats {
    /// Bytes it has.
    pub limit_bytes: u64,
    /// Bytes of it in use.
    pub used_bytes: u64,
    /// Objects in it.
    pub objects: u64,
    /// Look-ups answered from it; they are among all hits.
    pub hits: u64,
    /// Objects that moved to it.
    pub demoted: u64,
    /// Bytes that moved to it.
    pub demoted_bytes: u64,
    /// Objects that moved back.
    pub promoted: u64,
    /// Bytes that moved back.
    pub promoted_bytes: u64,
    /// Objects evicted from it.
    pub evicted: u64,
    /// Objects it had no room for.
    pub refused: u64,
}

impl LowerStats {
    /// Adds what another holds.
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            limit_bytes,
            used_bytes,
            objects,
            hits,
            demoted,
            demoted_bytes,
            promoted,
            promoted_bytes,
            evicted,
            refused,
        } = other;
        self.limit_bytes += limit_bytes;
        self.used_bytes += used_bytes;
        self.objects += objects;
        self.hits += hits;
        self.demoted += demoted;
        self.demoted_bytes += demoted_bytes;
        self.promoted += promoted;
        self.promoted_bytes += promoted_bytes;
        self.evicted += evicted;
        self.refused += refused;
    }
}

/// A lower class of memory.
#[derive(Debug)]
pub(crate) struct Lower {
    arena: Arc<Arena>,
    takes: LowerTakes,
    fifo: Mutex<S3Fifo<Lodger>>,
    /// What was begun to be moved here, a part at each eviction. It is in no queue.
    moving: Mutex<Option<Arc<Object>>>,
    /// When the newest response came that went into the index, Unix milliseconds: the clock of
    /// evictions, which what comes is the cause of.
    newest_ms: AtomicU64,
    desk: Arc<Desk>,
}

/// What lodgers share.
#[derive(Debug, Default)]
struct Desk {
    jobs: Mutex<Jobs>,
    more: Condvar,
    /// Charged to the first class for what is here.
    charged_bytes: AtomicU64,
    hits: SharedCounter,
    demoted: SharedCounter,
    demoted_bytes: SharedCounter,
    promoted: SharedCounter,
    promoted_bytes: SharedCounter,
    evicted: SharedCounter,
    refused: SharedCounter,
}

#[derive(Debug, Default)]
struct Jobs {
    waiting: VecDeque<(Job, Weak<Object>)>,
    has_ended: bool,
}

#[derive(Clone, Copy, Debug)]
enum Job {
    Promote,
    Place,
}

/// An object's stay in the lower class.
#[derive(Debug)]
pub(crate) struct Lodger {
    object: Weak<Object>,
    usage: Usage,
    bytes: u64,
    charged_bytes: u64,
    fingerprint: u64,
    objective: Objective,
    /// A rule sent it here: uses do not bring it back.
    stays: bool,
    was_asked: AtomicBool,
    desk: Arc<Desk>,
}

impl Lodger {
    /// Counts a hit. Called under the lock of the object's shard.
    pub(crate) fn touch(&self) {
        self.desk.hits.add(1);
        self.usage.touch();
        if self.usage.frequency() >= PROMOTED_AT_USES
            && !self.stays
            && !self.was_asked.swap(true, Relaxed)
            && !self.desk.ask(Job::Promote, &self.object)
        {
            self.was_asked.store(false, Relaxed);
        }
    }

    /// Uses since its last turn.
    pub(crate) fn frequency(&self) -> u8 {
        self.usage.frequency()
    }
}

impl Drop for Lodger {
    fn drop(&mut self) {
        self.desk.charged_bytes.fetch_sub(self.charged_bytes, Relaxed);
    }
}

impl Resident for Lodger {
    fn usage(&self) -> &Usage {
        &self.usage
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn bytes_expected(&self) -> u64 {
        self.bytes + self.charged_bytes
    }

    fn may_grow(&self) -> bool {
        false
    }

    fn busy(&self) -> Busy {
        self.object.upgrade().map_or(Busy::Idle, |object| object.busy())
    }

    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn objective(&self) -> Objective {
        self.objective
    }
}

impl Desk {
    /// Asks for a move; false where too much waits.
    fn ask(&self, job: Job, object: &Weak<Object>) -> bool {
        let mut jobs = lock(&self.jobs);
        let has_room = jobs.waiting.len() < JOBS_MAX && !jobs.has_ended;
        if has_room {
            jobs.waiting.push_back((job, Weak::clone(object)));
        }
        drop(jobs);
        self.more.notify_one();
        has_room
    }
}

impl Lower {
    fn takes(&self, object: &Object) -> bool {
        let body = object.body();
        let bytes = body.held_bytes();
        bytes > 0
            && bytes <= self.arena.limit_bytes() / OBJECT_PART
            && self.takes.bytes.contains(&bytes)
            && body.is_complete()
            && !body.is_transit()
            && object.with_head(|head| head.freshness.lifetime()) >= self.takes.lifetime_min
    }

    /// Whether an object is past its lifetime and the times it may be served stale, so that it is
    /// not worth a move. Where somebody looks after the end of its time, that one knows.
    fn is_spent(&self, object: &Object) -> bool {
        let now = UnixMillis(self.newest_ms.load(Relaxed));
        !object.body().has_attachment()
            && object.with_head(|head| {
                let fresh = &head.freshness;
                let stale = fresh.stale_while_revalidate().max(fresh.stale_if_error());
                fresh.age(now) > fresh.lifetime().saturating_add(stale)
            })
    }

    fn with_fifo<R>(&self, act: impl FnOnce(&mut S3Fifo<Lodger>) -> R) -> R {
        S3Fifo::with(&self.fifo, act)
    }

    /// Whether heads of what is here crowd the first class.
    fn is_top_heavy(&self, first: &Arena) -> bool {
        self.desk.charged_bytes.load(Relaxed) > first.limit_bytes() / HEADS_PART
    }
}

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
