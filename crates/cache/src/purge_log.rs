//! What was purged lately, for responses whose fetch began before.
//!
//! A purge removes what is in the index. A response that was asked for before the purge and comes
//! after it is as old as what was removed and must not get in either. So each purge of a tag or a
//! key leaves its number here, and an insertion compares it with the number its fetch began at.
//! The log is bounded: when it forgets an entry it refuses every fetch that began before that
//! entry, which costs a second fetch and never serves what was purged.

use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, Hasher};

/// Entries remembered, 3 MiB at most. Only those newer than the oldest fetch under way matter:
/// this lasts for 65 s of fetching at 1,000 purges a second.
pub(crate) const ENTRIES_MAX: usize = 1 << 16;

/// The order of purges and of the beginnings of fetches, from 1.
pub(crate) type Seq = u64;

#[derive(Debug)]
pub(crate) struct PurgeLog {
    seqs: HashMap<u64, Seq, BuildHasherDefault<Identity>>,
    order: VecDeque<(u64, Seq)>,
    floor: Seq,
    entries_max: usize,
}

impl PurgeLog {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { seqs: HashMap::default(), order: VecDeque::new(), floor: 0, entries_max }
    }

    /// Notes that what has this hash was purged at `seq`, which is not below earlier ones.
    pub(crate) fn note(&mut self, hash: u64, seq: Seq) {
        self.seqs.insert(hash, seq);
        self.order.push_back((hash, seq));
        while self.order.len() > self.entries_max {
            let Some((hash, seq)) = self.order.pop_front() else { break };
            self.floor = self.floor.max(seq);
            if self.seqs.get(&hash) == Some(&seq) {
                self.seqs.remove(&hash);
            }
        }
    }

    /// Notes that everything was purged at `seq`.
    pub(crate) fn note_all(&mut self, seq: Seq) {
        self.floor = self.floor.max(seq);
    }

    /// Whether what has this hash was purged after `born_seq`, or may have been.
    pub(crate) fn purged_since(&self, hash: u64, born_seq: Seq) -> bool {
        born_seq < self.floor || self.seqs.get(&hash).is_some_and(|seq| *seq > born_seq)
    }
}

/// Hashes are hashes already.
#[derive(Debug, Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_before_the_purge_is_purged_and_what_began_after_is_not() {
        let mut log = PurgeLog::new(8);
        log.note(1, 5);
        assert!(log.purged_since(1, 4));
        assert!(!log.purged_since(1, 5));
        assert!(!log.purged_since(2, 4));
    }

    #[test]
    fn a_forgotten_entry_refuses_all_that_began_before_it() {
        let mut log = PurgeLog::new(2);
        log.note(1, 1);
        log.note(2, 2);
        log.note(1, 3);
        assert!(log.purged_since(1, 2));
        assert!(log.purged_since(9, 0));
        assert!(!log.purged_since(9, 1));
        log.note(3, 4);
        log.note(4, 5);
        assert!(log.purged_since(1, 2));
        assert!(!log.purged_since(9, 3));
    }
}
