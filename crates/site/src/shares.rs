//! Named parts of the memory with limits of their own: the storages of Varnish's command line.
//!
//! All bodies are in one arena. Where shares are set up, each body is lent its bytes by one of
//! them: a share that is full lets objects of its own go, those that were not asked for since they
//! were looked at last, and refuses where that is not enough. A node without shares does none of
//! this.

use crate::upkeep::upkeep_of;
use freshet_base::counter::SharedCounter;
use freshet_base::ledger::Ledger;
use freshet_cache::{Groups, Object};
use freshet_store::Body;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The share of what lives for a moment, is passed, or is made here. It is always there.
pub const TRANSIENT: &str = "Transient";
/// What an object costs besides its fields and its body: about what Varnish takes for one.
const OBJECT_BYTES: u64 = 100;

/// Objects a queue has before those that have left are looked for.
const QUEUE_MIN: usize = 1024;
/// What a body is lent at a time while it grows and its end is not known.
const PIECE_BYTES: u64 = 16 << 10;

/// The shares of a node.
#[derive(Debug)]
pub struct Shares {
    all: Vec<Arc<Share>>,
    /// The one that is next to take an object which nothing was said about.
    turn: AtomicUsize,
    /// Objects that may be let go for one piece of another.
    evictions_max: AtomicU64,
    /// What lives shorter than this is transient, milliseconds.
    shortlived_ms: AtomicU64,
}

/// A part of the memory.
pub struct Share {
    name: Arc<str>,
    /// What kind of storage it is called.
    kind: Box<str>,
    limit_bytes: Option<u64>,
    used_bytes: AtomicU64,
    /// Objects it may let go, those it is to look at first in front.
    queue: Mutex<VecDeque<Candidate>>,
    /// How long the queue gets before it is cleared of objects that have left.
    queue_max: AtomicUsize,
    /// Loans that are there now.
    loans: AtomicU64,
    /// What was done.
    pub counters: ShareCounters,
}

/// What was done with a share.
#[derive(Debug, Default)]
pub struct ShareCounters {
    /// Requests for bytes.
    pub requests: SharedCounter,
    /// Requests that were refused.
    pub refusals: SharedCounter,
    /// Bytes lent.
    pub lent_bytes: SharedCounter,
    /// Bytes given back.
    pub returned_bytes: SharedCounter,
    /// Objects let go to make room.
    pub evicted: SharedCounter,
    /// Objects kept because they were asked for since they were looked at last.
    pub kept: SharedCounter,
    /// Requests refused since too many objects would have had to go for one.
    pub limited: SharedCounter,
}

struct Candidate {
    object: Weak<Object>,
    /// How often it had been hit when it was put here.
    hits: u64,
}

/// The bytes a share has lent to one body. They go back when it is dropped, which is with the body.
pub struct Loan {
    share: Arc<Share>,
    shares: Arc<Shares>,
    cache: Weak<Groups>,
    /// What is lent without the body's own bytes.
    fixed_bytes: u64,
    lent_bytes: AtomicU64,
}

impl Shares {
    /// Shares by name and kind, each with its limit. One named [`TRANSIENT`] is made where there is
    /// none.
    pub fn new<'a>(shares: impl IntoIterator<Item = (&'a str, &'a str, Option<u64>)>) -> Arc<Self> {
        let mut all: Vec<_> = shares
            .into_iter()
            .map(|(name, kind, limit)| Arc::new(Share::new(name, kind, limit)))
            .collect();
        if !all.iter().any(|share| &*share.name == TRANSIENT) {
            all.push(Arc::new(Share::new(TRANSIENT, "malloc", None)));
        }
        Arc::new(Self {
            all,
            turn: AtomicUsize::new(0),
            evictions_max: AtomicU64::new(50),
            shortlived_ms: AtomicU64::new(10_000),
        })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Share>> {
        self.all.iter()
    }

    /// How many objects may be let go for one piece of another, and how short a life is transient.
    pub fn set_rules(&self, evictions_max: u64, shortlived: Duration) {
        self.evictions_max.store(evictions_max, Relaxed);
        let ms = u64::try_from(shortlived.as_millis()).unwrap_or(u64::MAX);
        self.shortlived_ms.store(ms, Relaxed);
    }

    /// What lives shorter than this is transient.
    pub fn shortlived(&self) -> Duration {
        Duration::from_millis(self.shortlived_ms.load(Relaxed))
    }

    /// The one with this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Share>> {
        self.all.iter().find(|share| &*share.name == name)
    }

    /// The one for what lives for a moment.
    pub fn transient(&self) -> &Arc<Share> {
        // It was put there when they were made.
        self.named(TRANSIENT).unwrap_or(&self.all[0])
    }

    /// The one whose turn it is to take an object.
    pub fn next(&self) -> &Arc<Share> {
        let mut lasting = self.all.iter().filter(|share| &*share.name != TRANSIENT);
        let count = lasting.clone().count();
        if count < 2 {
            return lasting.next().unwrap_or_else(|| self.transient());
        }
        let turn = self.turn.fetch_add(1, Relaxed) % count;
        lasting.nth(turn).unwrap_or_else(|| self.transient())
    }

    /// Objects let go, objects kept because they were in use, and how often too many would have had
    /// to go.
    pub fn evictions(&self) -> (u64, u64, u64) {
        let sum = |of: fn(&ShareCounters) -> &SharedCounter| {
            self.all.iter().map(|share| of(&share.counters).value()).sum()
        };
        let evicted = sum(|counters| &counters.evicted);
        let kept = sum(|counters| &counters.kept);
        let limited = sum(|counters| &counters.limited);
        (evicted, kept, limited)
    }

    /// Lends `share`'s bytes for an object whose head takes `head_bytes`; `None` where it has too
    /// few.
    pub fn lend(
        self: &Arc<Self>,
        share: &Arc<Share>,
        head_bytes: u64,
        cache: &Arc<Groups>,
    ) -> Option<Arc<Loan>> {
        let loan = Loan {
            share: Arc::clone(share),
            shares: Arc::clone(self),
            cache: Arc::downgrade(cache),
            fixed_bytes: OBJECT_BYTES + head_bytes,
            lent_bytes: AtomicU64::new(0),
        };
        share.loans.fetch_add(1, Relaxed);
        loan.grow(OBJECT_BYTES + head_bytes).then(|| Arc::new(loan))
    }
}

impl Share {
    fn new(name: &str, kind: &str, limit_bytes: Option<u64>) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            limit_bytes,
            used_bytes: AtomicU64::new(0),
            queue: Mutex::default(),
            queue_max: AtomicUsize::new(0),
            loans: AtomicU64::new(0),
            counters: ShareCounters::default(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What kind of storage it is called.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Bytes lent now.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }

    /// Bytes left, where there is a limit.
    pub fn free_bytes(&self) -> Option<u64> {
        Some(self.limit_bytes?.saturating_sub(self.used_bytes()))
    }

    /// Loans that are there now.
    pub fn loans(&self) -> u64 {
        self.loans.load(Relaxed)
    }

    /// Takes `bytes` where they are free.
    fn take(&self, bytes: u64) -> bool {
        let limit = self.limit_bytes.unwrap_or(u64::MAX);
        let taken = self.used_bytes.fetch_update(Relaxed, Relaxed, |used| {
            used.checked_add(bytes).filter(|used| *used <= limit)
        });
        if taken.is_ok() {
            self.counters.lent_bytes.add(bytes);
        }
        taken.is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used_bytes.give_back(bytes, Relaxed);
        self.counters.returned_bytes.add(bytes);
    }

    /// Lets up to `most` objects go; whether one went.
    fn evict(&self, cache: &Groups) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        // Each is looked at once: those in use are kept the first time.
        for _ in 0..2 * queue.len() {
            let Some(candidate) = queue.pop_front() else { break };
            let Some(object) = candidate.object.upgrade() else { continue };
            if !object.is_indexed() {
                continue;
            }
            if object.hits() > candidate.hits {
                self.counters.kept.add(1);
                queue.push_back(Candidate { hits: object.hits(), ..candidate });
                continue;
            }
            drop(queue);
            cache.forget(&object);
            self.counters.evicted.add(1);
            return true;
        }
        false
    }
}

impl Loan {
    /// The share that lends.
    pub fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// Borrows more; whether there was enough, objects let go included.
    pub fn grow(&self, bytes: u64) -> bool {
        let share = &self.share;
        share.counters.requests.add(1);
        let mut left = self.shares.evictions_max.load(Relaxed);
        while !share.take(bytes) {
            let makes_room = left > 0
                && share.limit_bytes.is_none_or(|limit| bytes <= limit)
                && self.cache.upgrade().is_some_and(|cache| share.evict(&cache));
            if !makes_room {
                share.counters.refusals.add(1);
                share.counters.limited.add(u64::from(left == 0));
                return false;
            }
            left -= 1;
        }
        self.lent_bytes.fetch_add(bytes, Relaxed);
        true
    }

    /// Borrows what a body of `held_bytes` needs for `more`. One whose end is not known takes memory
    /// by the piece.
    pub fn cover(&self, held_bytes: u64, more: u64, is_open: bool) -> bool {
        let wanted = held_bytes.saturating_add(more);
        let lent = self.lent_bytes.load(Relaxed) - self.fixed_bytes;
        if wanted <= lent {
            return true;
        }
        let piece = wanted.next_multiple_of(PIECE_BYTES) - lent;
        if is_open && self.share.take(piece) {
            self.share.counters.requests.add(1);
            self.lent_bytes.fetch_add(piece, Relaxed);
            return true;
        }
        // The last piece may be shorter.
        self.grow(wanted - lent)
    }

    /// Gives back what a body does not need any more: it has `held_bytes` now.
    pub fn settle(&self, held_bytes: u64) {
        let needed = self.fixed_bytes + held_bytes;
        // Two that fill parts of a body may both find that there is too much.
        let most = |lent| (lent > needed).then_some(needed);
        if let Ok(lent) = self.lent_bytes.fetch_update(Relaxed, Relaxed, most) {
            self.share.give_back(lent - needed);
        }
    }

    /// From now on the object may be let go to make room.
    pub fn offer(&self, object: &Arc<Object>) {
        if self.share.limit_bytes.is_some() {
            let mut queue = self.share.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let candidate = Candidate { object: Arc::downgrade(object), hits: object.hits() };
            queue.push_back(candidate);
            // Objects that left otherwise would stay here until there is no room.
            if queue.len() >= self.share.queue_max.load(Relaxed).max(QUEUE_MIN) {
                queue.retain(|candidate| candidate.object.strong_count() > 0);
                self.share.queue_max.store(2 * queue.len(), Relaxed);
            }
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.share.give_back(self.lent_bytes.load(Relaxed));
        self.share.loans.give_back(1, Relaxed);
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share")
            .field("name", &self.name)
            .field("limit_bytes", &self.limit_bytes)
            .field("used_bytes", &self.used_bytes())
            .finish_non_exhaustive()
    }
}

/// What a body was lent, and by which share.
#[inline]
pub fn loan_of(body: &Body) -> Option<&Loan> {
    upkeep_of(body)?.loan()
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_cache::{Secret, Settings};
    use freshet_store::Arena;

    fn cache() -> Arc<Groups> {
        let arena = Arena::new(16 << 20).expect("16 MiB are enough");
        Groups::new(vec![arena], &Secret::random(), &Settings::default()).expect("there is room")
    }

    #[test]
    fn a_share_lends_up_to_its_limit_and_takes_back() {
        let (cache, shares) = (cache(), Shares::new([("s0", "malloc", Some(1000))]));
        let share = shares.named("s0").expect("it was named");
        let loan = shares.lend(share, 50, &cache).expect("150 of 1000 bytes");
        assert!(loan.grow(850));
        assert!(!loan.grow(1));
        assert_eq!((share.used_bytes(), share.free_bytes()), (1000, Some(0)));
        assert!(shares.lend(share, 0, &cache).is_none());
        loan.settle(50);
        assert_eq!(share.used_bytes(), 200);
        drop(loan);
        assert_eq!((share.used_bytes(), share.loans()), (0, 0));
        assert_eq!(share.counters.refusals.value(), 2);
        assert_eq!(share.counters.lent_bytes.value(), share.counters.returned_bytes.value());
    }

    #[test]
    fn objects_go_by_turn_to_the_shares_that_last() {
        let shares = Shares::new([
            ("a", "malloc", None),
            (TRANSIENT, "malloc", None),
            ("b", "malloc", None),
        ]);
        let names: Vec<_> = (0..4).map(|_| shares.next().name().to_string()).collect();
        assert_eq!(names, ["a", "b", "a", "b"]);
        let alone = Shares::new([(TRANSIENT, "malloc", None)]);
        assert_eq!(&**alone.next().name(), TRANSIENT);
        assert_eq!(&**alone.transient().name(), TRANSIENT);
    }
}
