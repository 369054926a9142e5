//! How many requests or connections of each key are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WAYS: usize = 8;
/// Bits of a word that are the count; those above tell keys of a bucket apart.
const COUNT_BITS: u32 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

#[derive(Debug)]
#[repr(align(64))]
struct Bucket([AtomicU64; WAYS]);

/// Counts of keys. A key without any has no place, so there are as many as are under way.
#[derive(Debug)]
pub struct Counts {
    buckets: Box<[Bucket]>,
    uncounted: AtomicU64,
}

/// One that is under way, until it is dropped.
#[derive(Debug)]
pub struct Held {
    counts: Arc<Counts>,
    /// Its word; `None` where there was no room to count it.
    word: Option<usize>,
}

impl Counts {
    /// Room for about so many keys at a time, at most 2^24; 8 bytes each.
    pub fn new(keys_max: usize) -> Arc<Self> {
        let words = keys_max.clamp(WAYS, 1 << 24).next_power_of_two();
        let bucket = || Bucket(std::array::from_fn(|_| AtomicU64::new(0)));
        Arc::new(Self {
            buckets: (0..words / WAYS).map(|_| bucket()).collect(),
            uncounted: AtomicU64::new(0),
        })
    }

    /// One more of a key, unless `most` are there already. Where the table has no room for the key
    /// it is let in uncounted.
    pub fn enter(self: &Arc<Self>, key: u64, most: u32) -> Option<Held> {
        let most = u64::from(most).min(COUNT_MASK);
        let bucket = (key as usize) & (self.buckets.len() - 1);
        let words = &self.buckets[bucket].0;
        let name = key >> COUNT_BITS;
        loop {
            let mut place = None;
            for (index, slot) in words.iter().enumerate() {
                let word = slot.load(Relaxed);
                if word & COUNT_MASK == 0 {
                    place = place.or(Some((index, word, 0)));
                } else if word >> COUNT_BITS == name {
                    place = Some((index, word, word & COUNT_MASK));
                    break;
                }
            }
            let Some((index, word, count)) = place else {
                self.uncounted.fetch_add(1, Relaxed);
                return Some(Held { counts: Arc::clone(self), word: None });
            };
            if count >= most {
                return None;
            }
            let new = (name << COUNT_BITS) | (count + 1);
            if words[index].compare_exchange_weak(word, new, Relaxed, Relaxed).is_ok() {
                let word = Some(bucket * WAYS + index);
                return Some(Held { counts: Arc::clone(self), word });
            }
        }
    }

    /// How many of a key are under way.
    pub fn count(&self, key: u64) -> u64 {
        let words = &self.buckets[(key as usize) & (self.buckets.len() - 1)].0;
        let loaded = words.iter().map(|slot| slot.load(Relaxed));
        let of_key = |word: &u64| word >> COUNT_BITS == key >> COUNT_BITS;
        loaded.filter(of_key).map(|word| word & COUNT_MASK).sum()
    }

    /// Those that were let in uncounted.
    pub fn uncounted(&self) -> u64 {
        self.uncounted.load(Relaxed)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(word) = self.word {
            // Its count is at least 1 as long as this is there, so the word is still this key's.
            let before = self.counts.buckets[word / WAYS].0[word % WAYS].fetch_sub(1, Relaxed);
            assert!(before & COUNT_MASK > 0, "what leaves was counted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_full_bucket_lets_in_and_says_so() {
        let counts = Counts::new(8);
        let held: Vec<_> =
            (0..8_u64).map(|key| counts.enter(key << COUNT_BITS, 1).unwrap()).collect();
        assert!(counts.enter(3 << COUNT_BITS, 1).is_none());
        let uncounted = counts.enter(9 << COUNT_BITS, 1).unwrap();
        assert_eq!(counts.uncounted(), 1);
        drop((held, uncounted));
        assert!((0..8_u64).all(|key| counts.count(key << COUNT_BITS) == 0));
    }

    proptest! {
        #[test]
        fn no_key_has_more_than_it_may(
            steps in proptest::collection::vec((0_u64..8, any::<bool>()), 0..200),
            most in 1_u32..5,
        ) {
            let counts = Counts::new(64);
            let mut held: HashMap<u64, Vec<Held>> = HashMap::new();
            for (key, leaves) in steps {
                let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let of_key = held.entry(key).or_default();
                if leaves {
                    of_key.pop();
                } else {
                    let entered = counts.enter(hash, most);
                    prop_assert_eq!(entered.is_some(), of_key.len() < most as usize);
                    of_key.extend(entered);
                }
                prop_assert_eq!(counts.count(hash), of_key.len() as u64);
            }
        }
    }
}
