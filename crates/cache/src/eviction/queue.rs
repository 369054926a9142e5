//! The two queues: one in the order of arrival, one in the order in which credit runs out.
//!
//! Both hold weak references: what the index drops gives its memory back at once and leaves a dead
//! place, skipped when its turn comes. Where more than half of a queue is dead it is compacted.

use super::fifo::{GONE, Resident};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

/// Queues shorter than this are not compacted: it would save nothing worth the walk.
pub(crate) const COMPACTION_FLOOR_ENTRIES: usize = 64;

/// The most credit an entry gets at once, in ticks. It bounds how many places of the main queue
/// there can be apart, some hundred bytes each.
pub(crate) const CREDIT_TICKS_MAX: u64 = 4096;

/// Entries in the order they came.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    entries: VecDeque<Weak<E>>,
    dead: usize,
    pub(crate) bytes: u64,
}

/// Entries in the order their credit runs out, those of the same tick in the order they came. With
/// credit of one tick each it is a FIFO.
///
/// Time here is a count of ticks that moves on to the tick of the first entry when that is taken,
/// so what stays without being used is overtaken (the aging of GreedyDual).
#[derive(Debug)]
pub(crate) struct Wheel<E> {
    ticks: BTreeMap<u64, VecDeque<Weak<E>>>,
    now: u64,
    places: usize,
    dead: usize,
    pub(crate) bytes: u64,
}

impl<E: Resident> Queue<E> {
    pub(crate) fn new() -> Self {
        Self { entries: VecDeque::new(), dead: 0, bytes: 0 }
    }

    pub(crate) fn live(&self) -> usize {
        self.entries.len() - self.dead
    }

    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn push(&mut self, entry: &Arc<E>) {
        self.entries.push_back(Arc::downgrade(entry));
    }

    /// Puts back what was popped last.
    pub(crate) fn unpop(&mut self, entry: &Arc<E>) {
        self.entries.push_front(Arc::downgrade(entry));
    }

    /// The oldest live entry; its bytes stay counted.
    pub(crate) fn pop(&mut self, dropped: &mut Vec<Arc<E>>) -> Option<Arc<E>> {
        while let Some(weak) = self.entries.pop_front() {
            if let Some(entry) = upgrade(&weak, dropped) {
                return Some(entry);
            }
            self.dead -= 1;
        }
        None
    }

    /// Counts a place as dead and clears up when there are many of them; whether it did.
    pub(crate) fn bury(&mut self, dropped: &mut Vec<Arc<E>>) -> bool {
        self.dead += 1;
        if self.entries.len() < COMPACTION_FLOOR_ENTRIES || self.dead * 2 <= self.entries.len() {
            return false;
        }
        compact(&mut self.entries, dropped);
        self.dead = 0;
        true
    }
}

impl<E: Resident> Wheel<E> {
    pub(crate) fn new() -> Self {
        Self { ticks: BTreeMap::new(), now: 0, places: 0, dead: 0, bytes: 0 }
    }

    pub(crate) fn live(&self) -> usize {
        self.places - self.dead
    }

    /// Adds an entry whose turn comes when `credit` ticks have gone by, [`CREDIT_TICKS_MAX`] at
    /// most.
    pub(crate) fn push(&mut self, entry: &Arc<E>, credit: u64) {
        let due = self.now + credit.min(CREDIT_TICKS_MAX);
        self.ticks.entry(due).or_default().push_back(Arc::downgrade(entry));
        self.places += 1;
    }

    /// Adds an entry behind all others.
    pub(crate) fn push_last(&mut self, entry: &Arc<E>) {
        let last = self.ticks.last_key_value().map_or(self.now, |(tick, _)| *tick);
        self.ticks.entry(last).or_default().push_back(Arc::downgrade(entry));
        self.places += 1;
    }

    /// Puts back what was popped last.
    pub(crate) fn unpop(&mut self, entry: &Arc<E>) {
        self.ticks.entry(self.now).or_default().push_front(Arc::downgrade(entry));
        self.places += 1;
    }

    /// The live entry whose credit runs out first; its bytes stay counted.
    pub(crate) fn pop(&mut self, dropped: &mut Vec<Arc<E>>) -> Option<Arc<E>> {
        while let Some(mut first) = self.ticks.first_entry() {
            self.now = self.now.max(*first.key());
            let weak = first.get_mut().pop_front();
            if first.get().is_empty() {
                first.remove();
            }
            let Some(weak) = weak else { continue };
            self.places -= 1;
            if let Some(entry) = upgrade(&weak, dropped) {
                return Some(entry);
            }
            self.dead -= 1;
        }
        None
    }

    /// Takes from each entry what credit it has beyond so many ticks; the order stays.
    pub(crate) fn limit_credit(&mut self, ticks_max: u64) {
        let last = self.now + ticks_max;
        let beyond = self.ticks.split_off(&last);
        let entries: VecDeque<_> = beyond.into_values().flatten().collect();
        if !entries.is_empty() {
            self.ticks.insert(last, entries);
        }
    }

    /// As [`Queue::bury`].
    pub(crate) fn bury(&mut self, dropped: &mut Vec<Arc<E>>) -> bool {
        self.dead += 1;
        if self.places < COMPACTION_FLOOR_ENTRIES || self.dead * 2 <= self.places {
            return false;
        }
        self.ticks.retain(|_, entries| {
            compact(entries, dropped);
            !entries.is_empty()
        });
        self.places -= self.dead;
        self.dead = 0;
        true
    }
}

/// The entry of a place, unless that is dead.
fn upgrade<E: Resident>(weak: &Weak<E>, dropped: &mut Vec<Arc<E>>) -> Option<Arc<E>> {
    let entry = weak.upgrade()?;
    if entry.usage().place.load(Relaxed) != GONE {
        return Some(entry);
    }
    dropped.push(entry);
    None
}

/// Keeps what is still in a queue.
pub(crate) fn compact<E: Resident>(entries: &mut VecDeque<Weak<E>>, dropped: &mut Vec<Arc<E>>) {
    entries.retain(|weak| upgrade(weak, dropped).is_some());
    entries.shrink_to(entries.len() * 2);
}
