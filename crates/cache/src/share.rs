//! What all objects with one tag may have of the memory together, as those of a site.
//!
//! The queues of eviction serve whoever asks most: a site that fills memory with what is asked for twice takes it from
//! all others. A share bounds that. It counts what the queues count of its objects, each with all it
//! will have when it stops growing, and when something new comes and the sum is above the bound, objects of the share
//! leave: those that came first, unless they were used since their last turn (a second chance). What it does not
//! use, others have; below its bound an object of the share is as any.

use crate::eviction::fifo::{Busy, Resident};
use crate::lock::lock;
use crate::object::Object;
use freshet_base::ledger::Ledger;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

/// Turns that one look for a victim takes at most, which bounds the time under the lock.
const TURNS_MAX: usize = 1 << 16;

/// The line is cleared of what has left the memory once it has doubled, and is longer than this.
const LINE_FLOOR: usize = 64;

/// No bound.
pub(crate) const ANY: u64 = u64::MAX;

/// The shares of an index, by tag.
pub(crate) type Shares = HashMap<u64, Arc<Share>>;

/// A share.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) bytes_max: AtomicU64,
    pub(crate) bytes: AtomicU64,
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
        self.share.bytes.recount(before, bytes, Relaxed);
    }
}

impl Share {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max: AtomicU64::new(bytes_max),
            bytes: AtomicU64::new(0),
            line: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, object: &Arc<Object>) {
        let mut line = lock(&self.line);
        if line.turns.len() >= line.cleared_at.max(LINE_FLOOR) {
            line.turns.retain(|turn| turn.object.strong_count() > 0);
            line.cleared_at = 2 * line.turns.len();
        }
        line.turns.push_back(Turn { object: Arc::downgrade(object), hits: object.hits() });
    }

    /// The next object that has to leave, where one has to; after `turns` turns the others are spared.
    pub(crate) fn victim(&self, turns: &mut usize) -> Option<Arc<Object>> {
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

    pub(crate) fn turns(&self) -> usize {
        (2 * lock(&self.line).turns.len() + 1).min(TURNS_MAX)
    }
}
