//! The points in time of all keys, in a table of a fixed size.

use crate::limits::REFILL_MAX;
use crate::rate::{Rate, Verdict};
use crate::ticks::Ticks;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Words that a key may be in: a cache line, so that a look-up reads memory once.
const WAYS: usize = 8;
/// Bits of a word that are the point in time, modulo that; those above tell keys of a bucket apart.
const TIME_BITS: u32 = 43;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// A cache line of words.
#[derive(Debug)]
#[repr(align(64))]
struct Bucket([AtomicU64; WAYS]);

/// How far each key has come. Shared by all workers; 32 to 64 bytes for each key it is made for.
///
/// Two keys share a word where they agree in the bits that choose the bucket and in 21 more: a few
/// pairs in a million keys, found by nobody on purpose.
#[derive(Debug)]
pub struct Rates {
    buckets: Box<[Bucket]>,
    /// Keys that had to go while they had a meaning.
    evicted: AtomicU64,
    /// Where the next sweep begins, and what the last whole one and this one have counted.
    sweep: AtomicUsize,
    live: AtomicU64,
    counting: AtomicU64,
}

impl Rates {
    /// Room for so many keys, at most 2^28. With as many, one in 10 000 finds its bucket full.
    pub fn new(keys_max: usize) -> Self {
        let words = keys_max.clamp(WAYS, 1 << 28).saturating_mul(4).next_power_of_two();
        let bucket = || Bucket(std::array::from_fn(|_| AtomicU64::new(0)));
        Self {
            buckets: (0..words / WAYS).map(|_| bucket()).collect(),
            evicted: AtomicU64::new(0),
            sweep: AtomicUsize::new(0),
            live: AtomicU64::new(0),
            counting: AtomicU64::new(0),
        }
    }

    /// One request of a key. Lock-free: it is tried again only where another worker has changed the
    /// same word meanwhile.
    #[inline]
    pub fn take(&self, key: u64, rate: &Rate, now: Ticks) -> Verdict {
        let Bucket(words) = self.bucket(key);
        loop {
            let place = find(words, key, now);
            let verdict = rate.verdict(if place.is_known { place.ahead } else { 0 });
            if !verdict.is_allowed() {
                return verdict;
            }
            let new = word(key, now.0.wrapping_add(verdict.ahead));
            let slot = &words[place.index];
            if slot.compare_exchange_weak(place.word, new, Relaxed, Relaxed).is_ok() {
                if !place.is_known && place.ahead > 0 {
                    self.evicted.fetch_add(1, Relaxed);
                }
                return verdict;
            }
        }
    }

    /// What a request of a key would get now. Changes nothing.
    pub fn peek(&self, key: u64, rate: &Rate, now: Ticks) -> Verdict {
        let place = find(&self.bucket(key).0, key, now);
        rate.verdict(if place.is_known { place.ahead } else { 0 })
    }

    /// Clears what has no meaning any more in the next `part` of the table, from 0 to 1. All of it
    /// has to be swept once in ten days at least: a point in time looks new again after twelve.
    pub fn sweep(&self, part: f64, now: Ticks) {
        let all = self.buckets.len();
        let many = ((all as f64 * part) as usize).clamp(1, all);
        let from = self.sweep.load(Relaxed).min(all);
        let until = (from + many).min(all);
        let mut live = 0;
        for slot in self.buckets[from..until].iter().flat_map(|bucket| &bucket.0) {
            let word = slot.load(Relaxed);
            if ahead(word, now) > 0 {
                live += 1;
            } else if word != 0 {
                // Where this fails it has just been used.
                let _ = slot.compare_exchange(word, 0, Relaxed, Relaxed);
            }
        }
        self.counting.fetch_add(live, Relaxed);
        let is_round = until == all;
        if is_round {
            self.live.store(self.counting.swap(0, Relaxed), Relaxed);
        }
        self.sweep.store(if is_round { 0 } else { until }, Relaxed);
    }

    /// Keys that had a meaning when the last whole sweep saw them.
    pub fn live(&self) -> u64 {
        self.live.load(Relaxed)
    }

    /// Keys that were forgotten too early, for want of room.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    #[inline]
    fn bucket(&self, key: u64) -> &Bucket {
        &self.buckets[(key >> (64 - TIME_BITS)) as usize & (self.buckets.len() - 1)]
    }
}

/// Where a key is, or where it goes: the first word without a meaning, or the one with the least.
struct Place {
    index: usize,
    word: u64,
    ahead: u64,
    is_known: bool,
}

#[inline]
fn find(words: &[AtomicU64; WAYS], key: u64, now: Ticks) -> Place {
    let mut least = Place { index: 0, word: 0, ahead: u64::MAX, is_known: false };
    for (index, slot) in words.iter().enumerate() {
        let word = slot.load(Relaxed);
        let ahead = ahead(word, now);
        if ahead > 0 && (word ^ (key << TIME_BITS)) >> TIME_BITS == 0 {
            return Place { index, word, ahead, is_known: true };
        }
        if ahead < least.ahead {
            least = Place { index, word, ahead, is_known: false };
        }
    }
    least
}

fn word(key: u64, time: u64) -> u64 {
    (key << TIME_BITS) | (time & TIME_MASK)
}

/// Ticks that a word's point is ahead of now; 0 where it is not.
#[inline]
fn ahead(word: u64, now: Ticks) -> u64 {
    const HORIZON: u64 = REFILL_MAX.as_secs() * 8_000_000;
    let ahead = word.wrapping_sub(now.0) & TIME_MASK;
    if word == 0 || ahead > HORIZON { 0 } else { ahead }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600 * 8_000_000;

    fn rate(text: &str) -> Rate {
        Rate::parse(text, None).unwrap()
    }

    #[test]
    fn a_fresh_key_has_its_burst_whatever_the_time_is() {
        for now in [0, 1, DAY, TIME_MASK - 1, TIME_MASK, TIME_MASK + 1, u64::MAX - DAY] {
            let rates = Rates::new(8);
            let (one, now) = (rate("3/s"), Ticks(now));
            let allowed = (0..5).filter(|_| rates.take(42, &one, now).is_allowed()).count();
            assert_eq!(allowed, 3, "at {now:?}");
        }
    }

    #[test]
    fn what_has_no_meaning_any_more_does_not_come_back() {
        let (rates, one, start) = (Rates::new(8), rate("1/d"), Ticks(5));
        assert!(rates.take(1, &one, start).is_allowed());
        assert!(!rates.take(1, &one, Ticks(start.0 + DAY - 1)).is_allowed());
        rates.sweep(1.0, Ticks(start.0 + DAY + 1));
        assert_eq!(rates.live(), 0);
        // A round of the clock later its point would be ahead again.
        assert!(rates.take(1, &one, Ticks(start.0 + TIME_MASK)).is_allowed());
    }

    #[test]
    fn the_least_loaded_makes_room_and_is_counted() {
        let (rates, heavy, light) = (Rates::new(8), rate("1/h"), rate("1/s"));
        // All of one bucket: the bits that choose it are the same.
        let same = rates.buckets.len() as u64 * (1 << (64 - TIME_BITS));
        for key in 1..=8 {
            let rate = if key == 5 { &light } else { &heavy };
            assert!(rates.take(key + same, rate, Ticks(0)).is_allowed());
        }
        assert_eq!(rates.evicted(), 0);
        assert!(rates.take(9 + same, &heavy, Ticks(0)).is_allowed());
        assert_eq!(rates.evicted(), 1);
        assert!(rates.peek(5 + same, &light, Ticks(0)).is_allowed(), "it was forgotten");
        assert!(!rates.peek(6 + same, &heavy, Ticks(0)).is_allowed());
    }

    #[test]
    fn a_million_keys_are_32_mib_and_hardly_one_is_lost() {
        let rates = Rates::new(1_000_000);
        assert_eq!(rates.bytes(), 32 << 20);
        let secret = crate::Secret::from_bytes([3; 16]);
        let one = rate("1/h");
        let second = (0..1_000_000_u64)
            .filter(|n| rates.take(secret.key(0, &n.to_le_bytes()), &one, Ticks(1)).is_allowed())
            .count();
        let shared = 1_000_000 - second;
        assert!(shared < 20, "{shared} keys shared a word with another");
        rates.sweep(1.0, Ticks(1));
        assert!(rates.evicted() < 300, "{}", rates.evicted());
        assert_eq!(rates.live() + rates.evicted() + shared as u64, 1_000_000);
    }
}
