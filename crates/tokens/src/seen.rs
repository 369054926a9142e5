//! Tokens whose signature was found good.

use crate::limits::SEEN_MAX;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::collections::HashMap;
use std::hash::Hasher as _;
use std::sync::{Arc, Mutex, PoisonError};

const SHARDS: usize = 16;

/// What was read of tokens that were good, by a keyed hash of 128 bits of all that was signed, the
/// signature included. Nobody can find another text with the same hash without the key, and nobody
/// sees hashes. Bounded: the older half goes when a shard is full.
#[derive(Debug)]
pub(crate) struct Seen<T> {
    key: [u8; 16],
    shards: [Mutex<Generations<T>>; SHARDS],
}

#[derive(Debug)]
struct Generations<T> {
    young: HashMap<u128, Arc<T>>,
    old: HashMap<u128, Arc<T>>,
}

impl<T> Seen<T> {
    /// Nothing yet; `key` is random.
    pub(crate) fn new(key: [u8; 16]) -> Self {
        let none = || Mutex::new(Generations { young: HashMap::new(), old: HashMap::new() });
        Self { key, shards: std::array::from_fn(|_| none()) }
    }

    /// What a token says: remembered, or as `read` finds it. What is not good is not remembered.
    pub(crate) fn get_or<E>(
        &self,
        parts: &[&[u8]],
        read: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        for part in parts {
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        let hash = hasher.finish128().as_u128();
        let shard = &self.shards[(hash >> 124) as usize % SHARDS];
        let lock = || shard.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut known = lock();
            if let Some(found) = known.young.get(&hash) {
                return Ok(Arc::clone(found));
            }
            if let Some(found) = known.old.remove(&hash) {
                known.keep(hash, Arc::clone(&found));
                return Ok(found);
            }
        }
        // Not under the lock: it takes a thousand times as long.
        let found = Arc::new(read()?);
        lock().keep(hash, Arc::clone(&found));
        Ok(found)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        let count = |shard: &Mutex<Generations<T>>| {
            let known = shard.lock().unwrap();
            known.young.len() + known.old.len()
        };
        self.shards.iter().map(count).sum()
    }
}

impl<T> Generations<T> {
    fn keep(&mut self, hash: u128, value: Arc<T>) {
        if self.young.len() >= SEEN_MAX / SHARDS / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_good_is_read_once_and_what_was_not_again() {
        let seen = Seen::new([1; 16]);
        let good = || seen.get_or(&[b"a", b"b"], || Ok::<_, ()>(7)).unwrap();
        assert_eq!(*good(), 7);
        assert_eq!(*seen.get_or(&[b"a", b"b"], || Err(())).unwrap(), 7);
        // Where one part ends matters.
        assert_eq!(seen.get_or(&[b"ab", b""], || Err(())), Err(()));
        assert_eq!(seen.get_or(&[b"c"], || Err(())), Err(()));
        assert_eq!(*seen.get_or(&[b"c"], || Ok::<_, ()>(8)).unwrap(), 8);
    }

    #[test]
    fn it_does_not_grow_and_keeps_what_is_used() {
        let seen = Seen::new([1; 16]);
        let mut again = 0;
        for number in 0..200_000_u32 {
            let _ = seen.get_or(&[&number.to_le_bytes()], || Ok::<_, ()>(0));
            let used = seen.get_or(&[b"used"], || {
                again += 1;
                Ok::<_, ()>(1)
            });
            assert_eq!(used.map(|value| *value), Ok(1));
        }
        assert!(seen.len() <= SEEN_MAX, "{}", seen.len());
        assert_eq!(again, 1);
    }
}
