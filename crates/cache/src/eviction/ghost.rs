//! Ghosts: fingerprints of what was let go lately, and how often it had been used.

use hashbrown::HashTable;
use std::collections::VecDeque;

/// Remembers a bounded number of fingerprints in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Ghost {
    ring: VecDeque<Place>,
    set: HashTable<Known>,
    /// Tells a fingerprint's present entry from an older one of the same fingerprint that is still
    /// in the ring. The ring is shorter than 2^32.
    serial: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    fingerprint: u64,
    serial: u32,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    fingerprint: u64,
    serial: u32,
    memory: Memory,
}

/// What is remembered of an entry.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Memory {
    /// Uses, saturated.
    pub(crate) uses: u8,
    /// The epoch they were counted to.
    pub(crate) epoch: u16,
}

impl Ghost {
    /// Remembers `fingerprint` and forgets the oldest until at most `entries_max` remain. O(1)
    /// amortised.
    pub(crate) fn remember(&mut self, fingerprint: u64, memory: Memory, entries_max: usize) {
        self.recall(fingerprint);
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let known = Known { fingerprint, serial, memory };
        self.set.insert_unique(fingerprint, known, |entry| entry.fingerprint);
        self.ring.push_back(Place { fingerprint, serial });
        while self.ring.len() > entries_max {
            let Some(oldest) = self.ring.pop_front() else { break };
            if let Ok(found) =
                self.set.find_entry(oldest.fingerprint, |e| e.serial == oldest.serial)
            {
                found.remove();
            }
        }
    }

    /// What is remembered of `fingerprint`, if it is; it no longer is.
    pub(crate) fn recall(&mut self, fingerprint: u64) -> Option<Memory> {
        let found = self.set.find_entry(fingerprint, |entry| entry.fingerprint == fingerprint);
        found.ok().map(|found| found.remove().0.memory)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.set.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remember(ghost: &mut Ghost, fingerprint: u64, entries_max: usize) {
        ghost.remember(fingerprint, Memory::default(), entries_max);
    }

    #[test]
    fn the_oldest_are_forgotten_beyond_the_bound() {
        let mut ghost = Ghost::default();
        for fingerprint in 0..10 {
            remember(&mut ghost, fingerprint, 4);
        }
        assert_eq!(ghost.len(), 4);
        assert!(ghost.recall(5).is_none());
        assert!(ghost.recall(6).is_some());
        assert!(ghost.recall(6).is_none());
    }

    #[test]
    fn remembering_again_makes_it_the_newest() {
        let mut ghost = Ghost::default();
        for fingerprint in [1, 2, 1, 3, 4] {
            remember(&mut ghost, fingerprint, 3);
        }
        assert!(ghost.recall(1).is_some());
        assert!(ghost.recall(2).is_none());
    }

    #[test]
    fn what_was_remembered_last_counts() {
        let mut ghost = Ghost::default();
        ghost.remember(1, Memory { uses: 2, epoch: 7 }, 3);
        ghost.remember(1, Memory { uses: 3, epoch: 8 }, 3);
        assert_eq!(ghost.recall(1), Some(Memory { uses: 3, epoch: 8 }));
    }
}
