//! Hit-for-pass: requests whose responses a policy wants passed for a while.

use freshet_base::clock::UnixMillis;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Notes of one policy. Beyond, those that are over are dropped, and if that is not enough, all: a
/// request too many that waits for another is better than memory without end.
const NOTES_MAX: usize = 100_000;

/// What is passed, by what was hashed, and until when.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// Whether there are any: most policies have none, and then nothing is locked.
    any: AtomicBool,
    secret: RandomState,
    until: Mutex<HashMap<u64, UnixMillis>>,
}

impl Passes {
    /// The number of what was hashed.
    pub(super) fn key(&self, parts: &[u8]) -> u64 {
        self.secret.hash_one(parts)
    }

    pub(super) fn note(&self, key: u64, until: UnixMillis, now: UnixMillis) {
        let mut notes = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() >= NOTES_MAX {
            notes.retain(|_, until| *until > now);
            if notes.len() >= NOTES_MAX {
                notes.clear();
            }
        }
        notes.insert(key, until);
        self.any.store(true, Relaxed);
    }

    pub(super) fn has(&self, parts: &[u8], now: UnixMillis) -> bool {
        if !self.any.load(Relaxed) {
            return false;
        }
        let notes = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        notes.get(&self.key(parts)).is_some_and(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_holds_for_its_time_and_its_key() {
        let passes = Passes::default();
        assert!(!passes.has(b"a\0", UnixMillis(0)));
        passes.note(passes.key(b"a\0"), UnixMillis(10), UnixMillis(0));
        assert!(passes.has(b"a\0", UnixMillis(9)));
        assert!(!passes.has(b"a\0", UnixMillis(10)) && !passes.has(b"b\0", UnixMillis(9)));
    }
}
