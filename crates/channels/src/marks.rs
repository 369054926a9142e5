//! Which numbers a table has, as far as that can be told without its lock: who asks for none of them
//! hears so at once, but for the few that share a place with one.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Places for numbers: half a MiB, several times as many as films have segments.
const PLACES: usize = 1 << 19;

/// How many numbers are at each place. One that is full stays so.
pub(super) struct Marks(Box<[AtomicU8]>);

impl Default for Marks {
    fn default() -> Self {
        Self((0..PLACES).map(|_| AtomicU8::new(0)).collect())
    }
}

impl Marks {
    /// Whether a number may be there; never no for one that is.
    pub(super) fn may_have(&self, number: u64) -> bool {
        self.place(number).load(Relaxed) > 0
    }

    /// Adds a number. Nobody else adds or removes one meanwhile.
    pub(super) fn add(&self, number: u64) {
        let place = self.place(number);
        place.store(place.load(Relaxed).saturating_add(1), Relaxed);
    }

    /// Takes a number away that was added. Nobody else adds or removes one meanwhile.
    pub(super) fn remove(&self, number: u64) {
        let place = self.place(number);
        let count = place.load(Relaxed);
        if count < u8::MAX {
            place.store(count.saturating_sub(1), Relaxed);
        }
    }

    #[allow(clippy::indexing_slicing, reason = "the remainder is below the length")]
    fn place(&self, number: u64) -> &AtomicU8 {
        #[allow(clippy::cast_possible_truncation, reason = "its bits are evenly spread")]
        let place = number as usize % PLACES;
        &self.0[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_there_until_all_of_their_place_are_gone() {
        let marks = Marks::default();
        let (one, other) = (7, 7 + PLACES as u64);
        assert!(!marks.may_have(one));
        marks.add(one);
        marks.add(other);
        marks.remove(one);
        assert!(marks.may_have(other));
        marks.remove(other);
        assert!(!marks.may_have(other) && !marks.may_have(8));
        // Where they cannot be counted any more none of them is forgotten.
        (0..300).for_each(|_| marks.add(one));
        (0..299).for_each(|_| marks.remove(one));
        assert!(marks.may_have(one));
    }
}
