//! How many tags objects have, for those who want to know: see [`Cache::count_tags`](crate::Cache::count_tags).

use crate::object::Object;
use freshet_base::ledger::Ledger;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Parts of the table, each with a lock of its own.
const PARTS: usize = 16;

/// What is counted of the tags of all objects in the index.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TagCounts {
    /// Different tags.
    pub tags: u64,
    /// Objects that have any.
    pub objects: u64,
    /// Tags of all objects together.
    pub references: u64,
}

/// How many objects have each tag. Takes 16 bytes for each tag there is.
#[derive(Debug, Default)]
pub(crate) struct Census {
    holders: [Mutex<HashMap<u64, u32>>; PARTS],
    tags: AtomicU64,
    objects: AtomicU64,
    references: AtomicU64,
}

impl Census {
    pub(crate) fn came(&self, object: &Object) {
        if object.tags().is_empty() {
            return;
        }
        self.objects.fetch_add(1, Relaxed);
        self.references.fetch_add(object.tags().len() as u64, Relaxed);
        for tag in object.tags() {
            let mut holders = self.part(*tag).lock().unwrap_or_else(PoisonError::into_inner);
            let count = holders.entry(*tag).or_default();
            *count += 1;
            if *count == 1 {
                self.tags.fetch_add(1, Relaxed);
            }
        }
    }

    pub(crate) fn left(&self, object: &Object) {
        if object.tags().is_empty() {
            return;
        }
        self.objects.give_back(1, Relaxed);
        self.references.give_back(object.tags().len() as u64, Relaxed);
        for tag in object.tags() {
            let mut holders = self.part(*tag).lock().unwrap_or_else(PoisonError::into_inner);
            let Some(count) = holders.get_mut(tag) else { continue };
            *count -= 1;
            if *count == 0 {
                holders.remove(tag);
                self.tags.give_back(1, Relaxed);
            }
        }
    }

    /// What was counted.
    pub(crate) fn counts(&self) -> TagCounts {
        TagCounts {
            tags: self.tags.load(Relaxed),
            objects: self.objects.load(Relaxed),
            references: self.references.load(Relaxed),
        }
    }

    fn part(&self, tag: u64) -> &Mutex<HashMap<u64, u32>> {
        // Tags are hashes: their low bits are as good as any.
        &self.holders[tag as usize % PARTS]
    }
}
