//! What all objects with one tag may have of the memory together, as those of a site.
//!
//! The queues of eviction serve whoever asks most: a site that fills memory with what is asked for twice takes it from
//! all others. A share bounds that. It counts what the queues count of its objects, each with all it
//! will have when it stops growing, and when something new comes and the sum is above the bound, objects of the share
//! leave: those that came first, unless they were used since their last turn (a second chance). What it does not
//! use, others have; below its bound an object of the share is as any.

use crate::cache::{Cache, lock};
use crate::eviction::fifo::{Busy, Resident};
use crate::object::Object;
use crate::shard::SHARDS;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

/// Turns that one look for a victim takes at most, which bounds the time under the lock.
const TURNS_MAX: usize = 1 << 16;

/// The line is cleared of what has left the memory once it has doubled, and is longer than this.
const LINE_FLOOR: usize = 64;

/// No bound.
const ANY: u64 = u64::MAX;

/// The shares of an index, by tag.
pub(crate) type Shares = HashMap<u64, Arc<Share>>;

/// A share.
#[derive(Debug)]
pub(crate) struct Share {
    bytes_max: AtomicU64,
    bytes: AtomicU64,
    line: Mutex<Line>,
}

/// The objects of a share in the order of their turns, some of which have left.
#[derive(Debug, Default)]
struct Line {
    turns: VecDeque<Turn>,
    cleared_at: usize,
}

#[derive(Debug)]
struct Turn {
    object: Weak<Object>,
    /// Its uses when it had its last turn.
    hits: u64,
}

/// What an object knows of its share.
#[derive(Debug)]
pub(crate) struct Part {
    share: Arc<Share>,
    bytes: AtomicU64,
}

impl Part {
    pub(crate) fn of(share: &Arc<Share>) -> Self {
        Self { share: Arc::clone(share), bytes: AtomicU64::new(0) }
    }

    pub(crate) fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// Has the object counted with so many bytes. Under the lock of the queues.
    pub(crate) fn count(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Relaxed);
        self.share.bytes.fetch_add(bytes.wrapping_sub(before), Relaxed);
    }
}

impl Share {
    fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max: AtomicU64::new(bytes_max),
            bytes: AtomicU64::new(0),
            line: Mutex::default(),
        }
    }

    fn add(&self, object: &Arc<Object>) {
        let mut line = lock(&self.line);
        if line.turns.len() >= line.cleared_at.max(LINE_FLOOR) {
            line.turns.retain(|turn| turn.object.strong_count() > 0);
            line.cleared_at = 2 * line.turns.len();
        }
        line.turns.push_back(Turn { object: Arc::downgrade(object), hits: object.hits() });
    }

    /// The next object that has to leave, where one has to; after `turns` turns the others are spared.
    fn victim(&self, turns: &mut usize) -> Option<Arc<Object>> {
        // Dropped behind the lock: these may be the last references.
        let mut passed = Vec::new();
        let mut line = lock(&self.line);
        while self.bytes.load(Relaxed) > self.bytes_max.load(Relaxed) && *turns > 0 {
            *turns -= 1;
            let Turn { object, hits } = line.turns.pop_front()?;
            let Some(object) = object.upgrade() else { continue };
            let used = object.hits();
            let stays = used > hits || object.is_lower() || object.busy() == Busy::Filling;
            if object.is_indexed() && !stays {
                return Some(object);
            }
            if object.is_indexed() {
                line.turns.push_back(Turn { object: Arc::downgrade(&object), hits: used });
            }
            passed.push(object);
        }
        None
    }

    fn turns(&self) -> usize {
        (2 * lock(&self.line).turns.len() + 1).min(TURNS_MAX)
    }
}

impl Cache {
    /// Bounds the memory of the objects with each of these tags, in bytes; those that had a bound and are not named have
    /// none any more. What is above its bound leaves. O(objects) where a tag is new, else O(tags).
    pub fn set_shares(&self, bounds: &[(u64, u64)]) {
        let mut shares = Shares::clone(&self.shares.load());
        shares.values().for_each(|share| share.bytes_max.store(ANY, Relaxed));
        let before = shares.len();
        for (tag, bytes_max) in bounds {
            let share = shares.entry(*tag).or_insert_with(|| Arc::new(Share::new(ANY)));
            share.bytes_max.store(*bytes_max, Relaxed);
        }
        let has_new = shares.len() > before;
        let all: Vec<_> = shares.values().map(Arc::clone).collect();
        self.shares.store(Arc::new(shares));
        if has_new {
            for object in (0..SHARDS).flat_map(|part| self.objects_of_part(part)) {
                self.join_share(&object);
                self.with_fifo(|fifo| fifo.recount(&object));
            }
        }
        all.iter().for_each(|share| self.keep_to(share));
    }

    /// Bytes of the objects with a tag, where these have or had a bound.
    pub fn share_bytes(&self, tag: u64) -> Option<u64> {
        Some(self.shares.load().get(&tag)?.bytes.load(Relaxed))
    }

    /// Makes an object one of its share's, where its tags have one.
    pub(crate) fn join_share(&self, object: &Arc<Object>) {
        let shares = self.shares.load();
        if shares.is_empty() {
            return;
        }
        let share = object.tags().iter().find_map(|tag| shares.get(tag));
        if let Some(share) = share.filter(|share| object.join(share)) {
            share.add(object);
        }
    }

    /// Makes room in the share of an object that has come.
    pub(crate) fn keep_to_share_of(&self, object: &Object) {
        if let Some(part) = object.part() {
            self.keep_to(part.share());
        }
    }

    fn keep_to(&self, share: &Share) {
        let mut turns = share.turns();
        while let Some(victim) = share.victim(&mut turns) {
            self.retire(self.take_for_others(&victim).as_slice());
        }
    }
}
