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

use crate::eviction::Objective;
use crate::eviction::fifo::{Busy, Resident, S3Fifo, Usage};
use crate::lock::lock;
use crate::object::Object;
use freshet_base::clock::UnixMillis;
use freshet_base::counter::SharedCounter;
use freshet_base::ledger::Ledger;
use freshet_store::Arena;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, Weak};
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
    pub(crate) arena: Arc<Arena>,
    pub(crate) takes: LowerTakes,
    pub(crate) fifo: Mutex<S3Fifo<Lodger>>,
    /// What was begun to be moved here, a part at each eviction. It is in no queue.
    pub(crate) moving: Mutex<Option<Arc<Object>>>,
    /// When the newest response came that went into the index, Unix milliseconds: the clock of
    /// evictions, which what comes is the cause of.
    pub(crate) newest_ms: AtomicU64,
    pub(crate) desk: Arc<Desk>,
}

/// What lodgers share.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) jobs: Mutex<Jobs>,
    pub(crate) more: Condvar,
    /// Charged to the first class for what is here.
    pub(crate) charged_bytes: AtomicU64,
    pub(crate) hits: SharedCounter,
    pub(crate) demoted: SharedCounter,
    pub(crate) demoted_bytes: SharedCounter,
    pub(crate) promoted: SharedCounter,
    pub(crate) promoted_bytes: SharedCounter,
    pub(crate) evicted: SharedCounter,
    pub(crate) refused: SharedCounter,
}

/// Moves that are to be made.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) waiting: VecDeque<(Job, Weak<Object>)>,
    pub(crate) has_ended: bool,
}

/// A move.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    /// Back to the first class.
    Promote,
    /// To the lower class, to stay there.
    Place,
}

/// An object's stay in the lower class.
#[derive(Debug)]
pub(crate) struct Lodger {
    pub(crate) object: Weak<Object>,
    pub(crate) usage: Usage,
    pub(crate) bytes: u64,
    pub(crate) charged_bytes: u64,
    pub(crate) fingerprint: u64,
    pub(crate) objective: Objective,
    /// A rule sent it here: uses do not bring it back.
    pub(crate) stays: bool,
    pub(crate) was_asked: AtomicBool,
    pub(crate) desk: Arc<Desk>,
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
        self.desk.charged_bytes.give_back(self.charged_bytes, Relaxed);
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
    pub(crate) fn ask(&self, job: Job, object: &Weak<Object>) -> bool {
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
    pub(crate) fn takes(&self, object: &Object) -> bool {
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
    pub(crate) fn is_spent(&self, object: &Object) -> bool {
        let now = UnixMillis(self.newest_ms.load(Relaxed));
        !object.body().has_attachment()
            && object.with_head(|head| {
                let fresh = &head.freshness;
                let stale = fresh.stale_while_revalidate().max(fresh.stale_if_error());
                fresh.age(now) > fresh.lifetime().saturating_add(stale)
            })
    }

    pub(crate) fn with_fifo<R>(&self, act: impl FnOnce(&mut S3Fifo<Lodger>) -> R) -> R {
        S3Fifo::with(&self.fifo, act)
    }

    /// Whether heads of what is here crowd the first class.
    pub(crate) fn is_top_heavy(&self, first: &Arena) -> bool {
        self.desk.charged_bytes.load(Relaxed) > first.limit_bytes() / HEADS_PART
    }
}
