//! Which keys are asked for so often that one member should not have to answer for them alone.

use freshet_base::clock::UnixMillis;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Slots of the table. Keys that share one push each other out unless one of them is asked for more,
/// so what is counted is always what is asked for most; 4096 are 32 KiB.
const SLOTS: usize = 1 << 12;
/// Bits of a slot's count; it stays at the largest value.
const COUNT_BITS: u32 = 24;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
/// Bits of a slot's second, which begins anew every three days.
const SECOND_BITS: u32 = 18;
const SECOND_MASK: u64 = (1 << SECOND_BITS) - 1;

/// Estimates how often each key is asked for, in memory that does not grow. A slot has the second it
/// was last counted in and a count that is halved with each second that passes, so that it stays
/// between one and two times the rate. Counts of several threads may be lost where they meet.
#[derive(Debug)]
pub struct HotKeys {
    /// Tag (22 bits), second (18 bits) and count (24 bits).
    slots: Box<[AtomicU64]>,
    rate: u64,
}

impl HotKeys {
    /// Finds keys that are asked for at least `rate` times a second; 0 finds none.
    pub fn new(rate: u32) -> Self {
        let slots = if rate == 0 { 0 } else { SLOTS };
        Self { slots: (0..slots).map(|_| AtomicU64::new(0)).collect(), rate: rate.into() }
    }

    /// Counts that a key of this hash is asked for at `now`; whether it is hot. O(1).
    pub fn ask(&self, key_hash: u64, now: UnixMillis) -> bool {
        let Some(slot) = self.slots.get(key_hash as usize & (SLOTS - 1)) else { return false };
        let tag = key_hash >> (COUNT_BITS + SECOND_BITS);
        let second = (now.0 / 1000) & SECOND_MASK;
        let before = slot.load(Relaxed);
        let passed = second.wrapping_sub(before >> COUNT_BITS) & SECOND_MASK;
        let count = (before & COUNT_MAX) >> passed.min(u64::from(COUNT_BITS));
        let (tag, count) = match before >> (COUNT_BITS + SECOND_BITS) {
            known if known == tag => (tag, (count + 1).min(COUNT_MAX)),
            known if count > 1 => (known, count - 1),
            _ => (tag, 1),
        };
        slot.store(tag << (COUNT_BITS + SECOND_BITS) | second << COUNT_BITS | count, Relaxed);
        tag == key_hash >> (COUNT_BITS + SECOND_BITS) && count >= self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    /// Whether a key is hot at the end of ten seconds in which it is asked for evenly.
    fn at_rate(keys: &HotKeys, key_hash: u64, rate: u64, from_ms: u64) -> bool {
        (0..rate * 10).fold(false, |_, request| {
            keys.ask(key_hash, UnixMillis(from_ms + request * 1000 / rate))
        })
    }

    #[test]
    fn a_key_is_hot_at_its_rate_and_not_at_a_third_of_it() {
        for rate in [20_u32, 100, 1000] {
            let keys = HotKeys::new(rate);
            assert!(at_rate(&keys, 7, u64::from(rate), MINUTE));
            assert!(!at_rate(&keys, 8, u64::from(rate) / 3, MINUTE));
        }
    }

    #[test]
    fn it_cools_when_it_is_left_alone() {
        let keys = HotKeys::new(100);
        assert!(at_rate(&keys, 7, 200, MINUTE));
        assert!(!keys.ask(7, UnixMillis(MINUTE + 15_000)));
        // Also over the end of the seconds a slot knows.
        assert!(!keys.ask(7, UnixMillis(MINUTE + (1 << 18) * 1000 + 14_000)));
    }

    #[test]
    fn keys_of_one_slot_leave_it_to_the_one_that_is_asked_for_more() {
        let keys = HotKeys::new(50);
        let other = 7 | 1 << 60;
        let mut hot = false;
        for request in 0..1000 {
            let now = UnixMillis(MINUTE + request * 10);
            hot = keys.ask(7, now);
            if request % 10 == 0 {
                assert!(!keys.ask(other, now));
            }
        }
        assert!(hot);
    }

    #[test]
    fn no_rate_finds_nothing() {
        let keys = HotKeys::new(0);
        assert!((0..100_000).all(|request| !keys.ask(7, UnixMillis(request / 100))));
    }
}
