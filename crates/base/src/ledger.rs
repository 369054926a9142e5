//! Counts of what is held, that several threads write.
//!
//! An atomic number wraps in silence when more is taken from it than there is, and then it says for ever
//! that almost everything is held. That can only be a bug, so here it is one that is seen: whoever gives back
//! what was not taken panics, in a release build too.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A count of what is held. Each taking is counted before what was taken can be given back.
pub trait Ledger<Amount> {
    /// Takes `amount` from what is held; what is left.
    ///
    /// # Panics
    /// Less was held: that is a bug.
    fn give_back(&self, amount: Amount, order: Ordering) -> Amount;

    /// Counts `now` in place of `before`.
    ///
    /// # Panics
    /// Less than `before` was held: that is a bug.
    fn recount(&self, before: Amount, now: Amount, order: Ordering);
}

macro_rules! ledger {
    ($($atomic:ty: $amount:ty),*) => {$(
        impl Ledger<$amount> for $atomic {
            #[inline]
            #[track_caller]
            fn give_back(&self, amount: $amount, order: Ordering) -> $amount {
                let held = self.fetch_sub(amount, order);
                let left = held.checked_sub(amount);
                left.expect("no more is given back than was taken")
            }

            #[inline]
            #[track_caller]
            fn recount(&self, before: $amount, now: $amount, order: Ordering) {
                match now.checked_sub(before) {
                    Some(more) => {
                        self.fetch_add(more, order);
                    }
                    None => {
                        self.give_back(before - now, order);
                    }
                }
            }
        }
    )*};
}

ledger!(AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_is_given_back_was_taken() {
        let held = AtomicU64::new(5);
        assert_eq!(held.give_back(3, Relaxed), 2);
        held.recount(2, 7, Relaxed);
        held.recount(7, 1, Relaxed);
        assert_eq!(held.give_back(1, Relaxed), 0);
    }

    #[test]
    #[should_panic(expected = "no more is given back than was taken")]
    fn giving_back_more_is_a_bug_that_is_seen() {
        AtomicUsize::new(1).give_back(2, Relaxed);
    }
}
