//! Tokens that are not good any more although nobody revoked them: those for one use that had it, and
//! those that were refused by chance.

use crate::limits::USED_MAX;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

const SHARDS: usize = 16;

/// Tokens by digests of what is signed of them, until they end. It outlives verifiers: what was used
/// stays used when keys are read again. Bounded, and nothing leaves it before its time.
#[derive(Debug, Default)]
pub struct Used {
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    /// Until when each is remembered, in seconds of Unix time.
    until: HashMap<u128, u64>,
    /// When the first of them ends.
    soonest_s: u64,
}

/// What comes of noting a token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Noted {
    /// It is remembered from now on.
    New,
    /// It was there.
    Known,
    /// It was not there, and there is no room for it.
    Full,
}

impl Used {
    /// Whether a token is remembered.
    pub(crate) fn has(&self, digest: u128, now_s: u64) -> bool {
        self.shard(digest).until.get(&digest).is_some_and(|until_s| *until_s > now_s)
    }

    /// Remembers a token until `until_s`. O(1), but where room has to be made.
    pub(crate) fn note(&self, digest: u128, until_s: u64, now_s: u64) -> Noted {
        let mut shard = self.shard(digest);
        if shard.until.get(&digest).is_some_and(|until_s| *until_s > now_s) {
            return Noted::Known;
        }
        if shard.until.len() >= USED_MAX / SHARDS && shard.soonest_s <= now_s {
            shard.until.retain(|_, until_s| *until_s > now_s);
            shard.soonest_s = shard.until.values().copied().min().unwrap_or(u64::MAX);
        }
        if shard.until.len() >= USED_MAX / SHARDS {
            return Noted::Full;
        }
        let is_first = shard.until.is_empty();
        shard.soonest_s = if is_first { until_s } else { shard.soonest_s.min(until_s) };
        shard.until.insert(digest, until_s);
        Noted::New
    }

    fn shard(&self, digest: u128) -> std::sync::MutexGuard<'_, Shard> {
        let shard = &self.shards[(digest >> 124) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_new_once_until_it_ends() {
        let used = Used::default();
        assert_eq!(used.note(1, 100, 50), Noted::New);
        assert_eq!(used.note(1, 100, 99), Noted::Known);
        assert!(used.has(1, 99) && !used.has(1, 100) && !used.has(2, 50));
        assert_eq!(used.note(1, 200, 100), Noted::New);
    }

    #[test]
    fn there_is_room_for_so_many_and_for_more_when_those_have_ended() {
        let used = Used::default();
        let all = 0..u128::try_from(USED_MAX / SHARDS).unwrap();
        // All in one shard.
        assert!(all.clone().all(|digest| used.note(digest, 100, 0) == Noted::New));
        assert_eq!(used.note(u128::from(u64::MAX), 200, 99), Noted::Full);
        assert!(used.has(0, 99), "nothing leaves before its time");
        assert_eq!(used.note(u128::from(u64::MAX), 200, 100), Noted::New);
        assert_eq!(used.shards[0].lock().unwrap().until.len(), 1);
    }
}
