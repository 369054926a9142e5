//! Who was let in not long ago.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// How long a password that was checked is good without another check.
const TIME_MS: u64 = 5 * 60 * 1000;
/// Most of them. Each is 40 bytes; where there are more people at a time than that, those who come
/// then are checked again.
const ENTRIES_MAX: usize = 4096;

/// Digests of names and passwords that were right, with until when they are remembered.
#[derive(Default)]
pub(super) struct Remembered(Mutex<HashMap<[u8; 32], u64>>);

impl Remembered {
    pub(super) fn has(&self, digest: &[u8; 32], now_ms: u64) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(digest).is_some_and(|until| now_ms < *until)
    }

    pub(super) fn add(&self, digest: [u8; 32], now_ms: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= ENTRIES_MAX {
            all.retain(|_, until| now_ms < *until);
        }
        if all.len() < ENTRIES_MAX {
            all.insert(digest, now_ms.saturating_add(TIME_MS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_end_to_it() {
        let remembered = Remembered::default();
        for number in 0..2 * ENTRIES_MAX as u64 {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            remembered.add(digest, 0);
        }
        assert_eq!(remembered.0.lock().unwrap().len(), ENTRIES_MAX);
        remembered.add([1; 32], TIME_MS);
        assert_eq!(remembered.0.lock().unwrap().len(), 1, "what is over makes room");
    }
}
