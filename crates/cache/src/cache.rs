//! The cache as a whole: what its parts are and the locks around them.
//!
//! Locks are taken one at a time, with one exception: an insertion asks the log of purges while it
//! holds its shard's lock, so that no purge falls between the question and the insertion; and the
//! monitor's lock is taken under a shard's, but never waited for. No memory is charged, freed or evicted and nobody is woken under any of them.

use crate::census::Census;
use crate::error::CacheError;
use crate::eviction::fifo::S3Fifo;
use crate::eviction::monitor::Monitor;
use crate::eviction::{Objective, Tactic};
use crate::key::{Key, Secret};
use crate::lock::lock;
use crate::lower::Lower;
use crate::object::Object;
use crate::order::Order;
use crate::purge_log::{self, PurgeLog, Seq};
use crate::shard::{SHARDS, Shard, shard_of};
use crate::share::Shares;
use arc_swap::ArcSwap;
use freshet_base::clock::UnixMillis;
use freshet_base::counter::SharedCounter;
use freshet_disk::tactic::Chosen;
use freshet_store::Arena;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

/// What an operator may set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What the cache is to have the most of, where an object does not say ([`crate::ObjectSpec`]).
    pub objective: Objective,
    /// Requests that may wait for one fetch. Each costs a connection and some hundred bytes here;
    /// the default is beyond what one node has of connections for one object.
    pub waiters_max: usize,
    /// The largest body worth keeping; `None` is a quarter of the arena's limit. The index does
    /// not enforce it: who fills asks [`Cache::object_bytes_max`] and does not insert, or calls
    /// [`Cache::forget`] when a body turns out larger.
    pub object_bytes_max: Option<u64>,
    /// Bytes of the disks beneath, 0 without any: a second curve says what more of them would do.
    pub disk_bytes: u64,
    /// How long what goes to a disk lives at least.
    pub disk_lifetime_min: Duration,
    /// How the disks are run: it is chosen by what the requests show.
    pub disk_tactic: Chosen,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            objective: Objective::default(),
            waiters_max: 100_000,
            object_bytes_max: None,
            disk_bytes: 0,
            disk_lifetime_min: Duration::ZERO,
            disk_tactic: Chosen::default(),
        }
    }
}

/// The index of everything stored in one arena. Shared by all workers.
pub struct Cache {
    pub(crate) arena: Arc<Arena>,
    pub(crate) settings: Settings,
    secret: Secret,
    shards: Box<[Mutex<Shard>]>,
    fifo: Mutex<S3Fifo<Object>>,
    pub(crate) lower: OnceLock<Lower>,
    pub(crate) monitor: Mutex<Monitor>,
    /// Keys whose point is below are in the monitor's sample.
    pub(crate) sample_below: AtomicU64,
    pub(crate) purges: Mutex<PurgeLog>,
    pub(crate) order: Arc<Order>,
    /// Indexes that may have copies of what is here.
    pub(crate) others: OnceLock<Box<[Weak<Self>]>>,
    pub(crate) evicted_bytes: SharedCounter,
    pub(crate) refused_room: SharedCounter,
    /// Who counts tags, where somebody wants to know.
    pub(crate) census: OnceLock<Arc<Census>>,
    /// Bounds of what objects with a tag have together; mostly none.
    pub(crate) shares: ArcSwap<Shares>,
    /// Whether a resource has had too many variants and nobody was told.
    crowded: AtomicBool,
    /// Whether somebody was told.
    crowded_told: AtomicBool,
}

impl Cache {
    /// An empty cache over `arena`, which from now on asks it to evict when memory is short. Keys
    /// are hashed under `secret`.
    ///
    /// # Errors
    /// A setting is out of its bounds.
    pub fn new(
        arena: Arc<Arena>,
        secret: Secret,
        settings: Settings,
    ) -> Result<Arc<Self>, CacheError> {
        Self::in_order(arena, secret, settings, Arc::new(Order::after(Self::DOUBTED_BELOW)))
    }

    /// As [`Cache::new`], one of several that count by the same order.
    pub(crate) fn in_order(
        arena: Arc<Arena>,
        secret: Secret,
        settings: Settings,
        order: Arc<Order>,
    ) -> Result<Arc<Self>, CacheError> {
        if settings.waiters_max == 0 {
            return Err(CacheError::ConfigWaiters);
        }
        let limit = arena.limit_bytes();
        let monitor = Monitor::new(settings.objective, limit, settings.disk_bytes);
        let sample_below = monitor.sample_below().into();
        arena.charge_metadata(monitor.bytes_max()).map_err(CacheError::LocalMemory)?;
        let cache = Arc::new(Self {
            arena,
            secret,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            fifo: Mutex::new(S3Fifo::new(Tactic::first(settings.objective))),
            lower: OnceLock::new(),
            census: OnceLock::new(),
            shares: ArcSwap::default(),
            monitor: Mutex::new(monitor),
            sample_below,
            purges: Mutex::new(PurgeLog::new(purge_log::ENTRIES_MAX)),
            order,
            others: OnceLock::new(),
            evicted_bytes: SharedCounter::default(),
            refused_room: SharedCounter::default(),
            crowded: AtomicBool::new(false),
            crowded_told: AtomicBool::new(false),
            settings,
        });
        let weak = Arc::downgrade(&cache);
        cache.arena.set_reclaim(Box::new(move |bytes| {
            weak.upgrade().map_or(0, |cache| cache.reclaim(bytes))
        }));
        Ok(cache)
    }

    /// What is put into the index as doubted, and not validated since, is below this number in the order of
    /// purges; nothing else is.
    pub const DOUBTED_BELOW: u64 = 1;

    /// Puts the fence at a number in the order of purges ([`Cache::next_in_order`]): what was fetched, or
    /// last validated, before it is not to be used without being validated. 0 is no fence, and
    /// [`u64::MAX`] holds for everything, also for what is yet to come. O(1): objects stay as they are.
    pub fn fence(&self, seq: u64) {
        self.order.fence(seq);
    }

    /// Has the fence hold for everything from this time on, whoever sleeps until then. Whoever moves the fence
    /// may be stopped, as a machine is that is moved, and wakes up together with those who look up.
    pub fn trust_until(&self, end: UnixMillis) {
        self.order.trust_until(end);
    }

    /// Where the fence is; [`Object::born_seq`] below it is behind. Whoever looks up compares: this
    /// cache does not know what a request may use all the same.
    pub fn fenced_below(&self, now: UnixMillis) -> u64 {
        self.order.fenced_below(now)
    }

    /// Whether the fence holds for everything, also for what is yet to come.
    pub fn trusts_nothing(&self, now: UnixMillis) -> bool {
        self.fenced_below(now) == u64::MAX
    }

    /// From which number in the order on something has to be for a request that comes now. Where the fence
    /// holds for everything, that is what is asked for or validated from now on: a fetch that is under way may
    /// have been asked for before a purge that this request comes after. So each fetch has a number of its
    /// own then.
    pub fn usable_from(&self, now: UnixMillis) -> u64 {
        match self.fenced_below(now) {
            u64::MAX => self.purge_seq() + 1,
            fence => fence,
        }
    }

    /// The place in the order of a fetch that begins.
    pub(crate) fn place_of_fetch(&self, now: UnixMillis) -> Seq {
        if self.trusts_nothing(now) { self.next_in_order() } else { self.purge_seq() }
    }

    pub(crate) fn note_crowded(&self) {
        self.crowded.store(true, Relaxed);
    }

    /// True once, when a resource has had more than [`crate::VARIANTS_MAX`] variants.
    pub fn tell_crowded(&self) -> bool {
        self.crowded.load(Relaxed) && !self.crowded_told.swap(true, Relaxed)
    }

    /// The key of `authority` and `target`; see [`crate::key::KeyBuilder`] for other keys.
    pub fn key(&self, authority: &str, target: &str) -> Key {
        self.secret.key(authority, target)
    }

    /// The secret of this cache's keys.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The memory bodies are kept in.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Bytes of the disks beneath.
    pub fn disk_bytes(&self) -> u64 {
        self.settings.disk_bytes
    }

    /// The largest body worth keeping, in bytes: what is longer than half of the memory would drive out all else, and
    /// itself.
    pub fn object_bytes_max(&self) -> u64 {
        let limit = self.arena.limit_bytes();
        self.settings.object_bytes_max.unwrap_or(limit / 4).min(limit / 2)
    }

    /// Takes one object out of the index, as one whose body became too large; whether it was
    /// there. Those being answered from it go on, and so does its fill as long as it is read.
    pub fn forget(&self, object: &Arc<Object>) -> bool {
        let mut shard = self.shard(object.key());
        let taken = shard.take(object);
        shard.counters.forgotten += u64::from(taken.is_some());
        drop(shard);
        self.retire(taken.as_slice());
        taken.is_some()
    }

    /// Clears up behind objects that were taken out of the index: their places in the queues and
    /// their memory.
    pub(crate) fn retire(&self, objects: &[Arc<Object>]) {
        if objects.is_empty() {
            return;
        }
        self.with_fifo(|fifo| objects.iter().for_each(|object| fifo.remove(object)));
        self.retire_lower(objects);
        for object in objects {
            object.release_body(false);
        }
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.order.next_id()
    }

    pub(crate) fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        self.shard_at(shard_of(key.hash()))
    }

    pub(crate) fn shard_at(&self, index: usize) -> MutexGuard<'_, Shard> {
        lock(&self.shards[index])
    }

    /// Does something with the eviction queues and drops what they let go after their lock.
    pub(crate) fn with_fifo<R>(&self, act: impl FnOnce(&mut S3Fifo<Object>) -> R) -> R {
        S3Fifo::with(&self.fifo, act)
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("settings", &self.settings).finish_non_exhaustive()
    }
}
