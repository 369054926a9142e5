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

/// Estimates how often each key is asked for, in memory that does not grow and without a lock. A slot
/// has the second it was last counted in and a count that is halved with each second that passes, so
/// that it stays between one and two times the rate. Counts of several threads may be lost where they
/// meet.
#[derive(Debug, Default)]
pub struct HotKeys {
    /// Tag (22 bits), second (18 bits) and count (24 bits). None where nobody wants to know.
    slots: Box<[AtomicU64]>,
}

impl HotKeys {
    /// Counts; one by [`HotKeys::default`] knows of nothing.
    pub fn counting() -> Self {
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Counts that a key of this hash is asked for `times` more at `now`, which may be 0. How often it
    /// is asked for, about requests a second; 0 where others are asked for so much more that nothing is
    /// known of it. O(1).
    pub fn ask(&self, key_hash: u64, times: u64, now: UnixMillis) -> u64 {
        let Some(slot) = self.slots.get(key_hash as usize & (SLOTS - 1)) else { return 0 };
        let own = key_hash >> (COUNT_BITS + SECOND_BITS);
        let second = (now.0 / 1000) & SECOND_MASK;
        let before = slot.load(Relaxed);
        let passed = second.wrapping_sub(before >> COUNT_BITS) & SECOND_MASK;
        let count = (before & COUNT_MAX) >> passed.min(u64::from(COUNT_BITS));
        let (tag, count) = match before >> (COUNT_BITS + SECOND_BITS) {
            known if known == own => (own, count.saturating_add(times).min(COUNT_MAX)),
            known if count > times => (known, count - times),
            _ => (own, times.min(COUNT_MAX)),
        };
        slot.store(tag << (COUNT_BITS + SECOND_BITS) | second << COUNT_BITS | count, Relaxed);
        if tag == own { count } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    /// What is known of a key at the end of ten seconds in which it is asked for evenly.
    fn at_rate(keys: &HotKeys, key_hash: u64, rate: u64, from_ms: u64) -> u64 {
        (0..rate * 10).fold(0, |_, request| {
            keys.ask(key_hash, 1, UnixMillis(from_ms + request * 1000 / rate))
        })
    }

    #[test]
    fn a_key_is_hot_at_its_rate_and_not_at_a_third_of_it() {
        for rate in [20, 100, 1000] {
            let keys = HotKeys::counting();
            assert!(at_rate(&keys, 7, rate, MINUTE) >= rate);
            assert!(at_rate(&keys, 8, rate / 3, MINUTE) < rate);
        }
    }

    #[test]
    fn it_cools_when_it_is_left_alone() {
        let keys = HotKeys::counting();
        assert!(at_rate(&keys, 7, 200, MINUTE) >= 200);
        assert!(keys.ask(7, 1, UnixMillis(MINUTE + 15_000)) < 20);
        // Also over the end of the seconds a slot knows.
        assert!(keys.ask(7, 1, UnixMillis(MINUTE + (1 << 18) * 1000 + 14_000)) < 20);
    }

    #[test]
    fn keys_of_one_slot_leave_it_to_the_one_that_is_asked_for_more() {
        let keys = HotKeys::counting();
        let other = 7 | 1 << 60;
        let mut known = 0;
        for request in 0..1000 {
            let now = UnixMillis(MINUTE + request * 10);
            known = keys.ask(7, 1, now);
            if request > 0 && request % 10 == 0 {
                assert_eq!(keys.ask(other, 1, now), 0);
            }
        }
        assert!(known >= 50, "{known}");
    }

    #[test]
    fn many_at_once_count_as_so_many_and_a_look_as_none() {
        let keys = HotKeys::counting();
        let now = UnixMillis(MINUTE);
        assert_eq!([keys.ask(7, 4, now), keys.ask(7, 0, now), keys.ask(7, 1, now)], [4, 4, 5]);
        assert_eq!(keys.ask(7, u64::MAX, now), COUNT_MAX);
    }

    #[test]
    fn where_nobody_wants_to_know_nothing_is_known() {
        let keys = HotKeys::default();
        assert!((0..100_000).all(|request| keys.ask(7, 1, UnixMillis(request / 100)) == 0));
    }
}
