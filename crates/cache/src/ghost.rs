//! The ghost queue of S3-FIFO: fingerprints of what the small queue let go lately.

use hashbrown::HashTable;
use std::collections::VecDeque;

/// Remembers a bounded number of fingerprints in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Ghost {
    ring: VecDeque<Entry>,
    set: HashTable<Entry>,
    /// Tells a fingerprint's present entry from an older one of the same fingerprint that is still
    /// in the ring.
    serial: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    fingerprint: u64,
    serial: u64,
}

impl Ghost {
    /// Remembers `fingerprint` and forgets the oldest until at most `entries_max` remain. O(1)
    /// amortised.
    pub(crate) fn remember(&mut self, fingerprint: u64, entries_max: usize) {
        self.forget(fingerprint);
        self.serial += 1;
        let entry = Entry { fingerprint, serial: self.serial };
        self.set.insert_unique(fingerprint, entry, |entry| entry.fingerprint);
        self.ring.push_back(entry);
        while self.ring.len() > entries_max {
            let Some(oldest) = self.ring.pop_front() else { break };
            if let Ok(found) =
                self.set.find_entry(oldest.fingerprint, |e| e.serial == oldest.serial)
            {
                found.remove();
            }
        }
    }

    /// Whether `fingerprint` was remembered; it no longer is.
    pub(crate) fn forget(&mut self, fingerprint: u64) -> bool {
        match self.set.find_entry(fingerprint, |entry| entry.fingerprint == fingerprint) {
            Ok(found) => {
                found.remove();
                true
            }
            Err(_) => false,
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.set.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_beyond_the_bound() {
        let mut ghost = Ghost::default();
        for fingerprint in 0..10 {
            ghost.remember(fingerprint, 4);
        }
        assert_eq!(ghost.len(), 4);
        assert!(!ghost.forget(5));
        assert!(ghost.forget(6));
        assert!(!ghost.forget(6));
    }

    #[test]
    fn remembering_again_makes_it_the_newest() {
        let mut ghost = Ghost::default();
        ghost.remember(1, 3);
        ghost.remember(2, 3);
        ghost.remember(1, 3);
        ghost.remember(3, 3);
        ghost.remember(4, 3);
        assert!(ghost.forget(1));
        assert!(!ghost.forget(2));
    }
}
