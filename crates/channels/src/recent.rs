//! A table of what was named, from which the one named first leaves first.

use std::collections::{HashMap, VecDeque};

/// At most so many values, by the hashes of keys.
#[derive(Debug)]
pub(super) struct Recent<V> {
    values: HashMap<u128, V>,
    /// Their keys in the order they were named in.
    named: VecDeque<u128>,
    most: usize,
}

impl<V> Recent<V> {
    /// Of nothing, with room for `most`.
    pub(super) fn new(most: usize) -> Self {
        Self { values: HashMap::new(), named: VecDeque::new(), most }
    }

    /// Notes a value; one that is known keeps its place in the order.
    pub(super) fn insert(&mut self, key: u128, value: V) {
        if self.values.insert(key, value).is_some() {
            return;
        }
        self.named.push_back(key);
        if self.values.len() > self.most
            && let Some(first) = self.named.pop_front()
        {
            self.values.remove(&first);
        }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: u128) -> Option<&V> {
        self.values.get(&key)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}
