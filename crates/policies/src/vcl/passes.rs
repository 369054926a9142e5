//! Hit-for-pass: requests whose responses a policy wants passed for a while.

use freshet_base::clock::UnixMillis;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Notes of a policy and those that follow it. Beyond, those that are over are dropped, and if that is not enough, all: a
/// request too many that waits for another is better than memory without end.
const NOTES_MAX: usize = 100_000;

/// Until when, and which fetch brought it about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Note {
    pub(super) until: UnixMillis,
    pub(super) fetch: u64,
}

/// What is passed, by what was hashed, and until when.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// Whether there are any: most policies have none, and then nothing is locked.
    any: AtomicBool,
    secret: RandomState,
    notes: Mutex<HashMap<u64, Note>>,
}

impl Passes {
    /// The number of what was hashed.
    pub(super) fn key(&self, parts: &[u8]) -> u64 {
        self.secret.hash_one(parts)
    }

    pub(super) fn note(&self, key: u64, until: UnixMillis, fetch: u64, now: UnixMillis) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() >= NOTES_MAX {
            notes.retain(|_, note| note.until > now);
            if notes.len() >= NOTES_MAX {
                notes.clear();
            }
        }
        notes.insert(key, Note { until, fetch });
        self.any.store(true, Relaxed);
    }

    pub(super) fn forget(&self, key: u64) {
        if self.any.load(Relaxed) {
            self.notes.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
    }

    /// The note about what has this number, while it holds.
    pub(super) fn get(&self, key: impl FnOnce() -> u64, now: UnixMillis) -> Option<Note> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let key = key();
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.get(&key).copied().filter(|note| note.until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_holds_for_its_time_and_its_key() {
        let passes = Passes::default();
        let (a, b) = (passes.key(b"a\0"), passes.key(b"b\0"));
        assert_eq!(passes.get(|| a, UnixMillis(0)), None);
        passes.note(a, UnixMillis(10), 7, UnixMillis(0));
        let note = Note { until: UnixMillis(10), fetch: 7 };
        assert_eq!(passes.get(|| a, UnixMillis(9)), Some(note));
        assert_eq!(passes.get(|| a, UnixMillis(10)), None);
        assert_eq!(passes.get(|| b, UnixMillis(9)), None);
        passes.forget(a);
        assert_eq!(passes.get(|| a, UnixMillis(9)), None);
    }
}
