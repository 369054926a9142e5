//! Values that many share, each kept once under a small number.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Shared values with their numbers, which are given again the longest unused first: somebody may
/// still be reading the value that was there.
#[derive(Debug)]
pub(super) struct Interned<T> {
    values: Vec<Option<T>>,
    users: Vec<u32>,
    numbers: HashMap<T, u16>,
    free: VecDeque<u16>,
    most: usize,
}

impl<T: Clone + Eq + Hash> Interned<T> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            values: Vec::new(),
            users: Vec::new(),
            numbers: HashMap::new(),
            free: VecDeque::new(),
            most,
        }
    }

    /// The value's number with one user more, and whether it is new; none when there is no room.
    pub(super) fn take(&mut self, value: &T) -> Option<(u16, bool)> {
        if let Some(number) = self.numbers.get(value) {
            self.users[usize::from(*number)] += 1;
            return Some((*number, false));
        }
        let number = if self.values.len() < self.most {
            self.values.push(None);
            self.users.push(0);
            (self.values.len() - 1) as u16
        } else {
            self.free.pop_front()?
        };
        self.place(number, value.clone());
        self.users[usize::from(number)] += 1;
        Some((number, true))
    }

    /// Whether the value has a number.
    pub(super) fn has(&self, value: &T) -> bool {
        self.numbers.contains_key(value)
    }

    /// One user less.
    pub(super) fn release(&mut self, number: u16) {
        let place = usize::from(number);
        let Some(users) = self.users.get_mut(place).filter(|users| **users > 0) else { return };
        *users -= 1;
        if *users == 0
            && let Some(value) = self.values[place].take()
        {
            self.numbers.remove(&value);
            self.free.push_back(number);
        }
    }

    /// Puts a value where another process had it; it has no users yet.
    pub(super) fn place(&mut self, number: u16, value: T) {
        let place = usize::from(number);
        while self.values.len() <= place {
            self.free.push_back(self.values.len() as u16);
            self.values.push(None);
            self.users.push(0);
        }
        self.free.retain(|free| *free != number);
        self.numbers.insert(value.clone(), number);
        self.values[place] = Some(value);
    }

    /// All values by their numbers; unused numbers have none.
    pub(super) fn values(&self) -> &[Option<T>] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_once_and_numbers_come_again() {
        let mut values = Interned::new(2);
        assert_eq!(values.take(&"a"), Some((0, true)));
        assert_eq!(values.take(&"b"), Some((1, true)));
        assert_eq!(values.take(&"a"), Some((0, false)));
        assert_eq!(values.take(&"c"), None);
        values.release(1);
        values.release(1);
        assert_eq!(values.take(&"c"), Some((1, true)));
        values.release(0);
        assert_eq!(values.take(&"a"), Some((0, false)));
    }

    #[test]
    fn a_value_stays_where_it_was_placed() {
        let mut values = Interned::new(4);
        values.place(2, "c");
        assert_eq!(values.take(&"c"), Some((2, false)));
        assert_eq!(values.take(&"d"), Some((3, true)));
        assert_eq!(values.take(&"e"), Some((0, true)));
        assert_eq!(values.take(&"f"), Some((1, true)));
        assert_eq!(values.take(&"g"), None);
    }
}
