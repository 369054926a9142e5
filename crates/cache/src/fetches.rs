//! Fetches under way of one resource, found by the requests that wait for them.
//!
//! Clients choose variants where an origin varies by a field of any value, so there may be as many
//! fetches as an origin has connections. They are in a table by the hashes of their selectors, and a
//! look-up computes one hash for each thing that selectors look at: as a rule one.

use crate::selector::{RequestKeys, Shape};
use crate::waiting::Pending;
use hashbrown::HashTable;
use std::sync::Arc;

/// Exclusive fetches, each under its selector.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    table: HashTable<Arc<Pending>>,
    /// What their selectors look at, in the order it first came, and how many do.
    shapes: Vec<(Shape, usize)>,
}

impl Fetches {
    /// Adds one that begins.
    pub(crate) fn add(&mut self, pending: Arc<Pending>) {
        match self.shapes.iter_mut().find(|(shape, _)| pending.selector.has(shape)) {
            Some((_, count)) => *count += 1,
            None => {
                self.shapes.reserve_exact(1);
                self.shapes.push((pending.selector.shape(), 1));
            }
        }
        self.table.insert_unique(pending.hash, pending, |other| other.hash);
    }

    /// Removes one; whether it was here.
    pub(crate) fn remove(&mut self, pending: &Arc<Pending>) -> bool {
        let is_it = |other: &Arc<Pending>| Arc::ptr_eq(other, pending);
        let Ok(found) = self.table.find_entry(pending.hash, is_it) else { return false };
        found.remove();
        let at = self.shapes.iter().position(|(shape, _)| pending.selector.has(shape));
        if let Some(at) = at {
            self.shapes[at].1 -= 1;
            if self.shapes[at].1 == 0 {
                self.shapes.remove(at);
            }
        }
        true
    }

    /// One whose response the request may wait for.
    pub(crate) fn find(&self, keys: &mut RequestKeys<'_>) -> Option<&Arc<Pending>> {
        if keys.takes_any() {
            return self.table.iter().find(|one| one.selector.selects(keys));
        }
        self.shapes.iter().find_map(|(shape, _)| {
            let hash = shape.hash_for(keys);
            self.table.find(hash, |one| one.selector.selects(keys))
        })
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Pending>> {
        self.table.iter()
    }

    /// Takes all of them out.
    pub(crate) fn take(&mut self) -> Vec<Arc<Pending>> {
        self.shapes.clear();
        self.table.drain().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}
