//! Who reads a body and how far they are.

use crate::wake::WakeList;
use std::task::Waker;

/// The readers of one body, under its lock. Adding and removing one takes constant time; the
/// places of the last few are kept, so that a hit allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Readers {
    slots: Vec<Slot>,
    /// Number of the first vacant slot plus one; zero for none.
    vacant: u32,
    count: u32,
}

#[derive(Debug)]
pub(super) struct ReaderState {
    /// The next byte it reads.
    pub(super) position: u64,
    /// Where it stops; `u64::MAX` for the end of the body.
    pub(super) end: u64,
    /// Set while it waits.
    pub(super) waker: Option<Waker>,
}

#[derive(Debug)]
enum Slot {
    Taken(ReaderState),
    Vacant { next: u32 },
}

const SLOTS_KEPT: usize = 4;

/// What the place of one reader takes.
pub(super) const PLACE_BYTES: u64 = size_of::<Slot>() as u64;

impl Readers {
    /// Adds a reader and returns its number.
    pub(super) fn add(&mut self, position: u64, end: u64) -> u32 {
        let taken = Slot::Taken(ReaderState { position, end, waker: None });
        self.count += 1;
        let Some(id) = self.vacant.checked_sub(1) else {
            if self.slots.is_empty() {
                self.slots.reserve_exact(1);
            }
            self.slots.push(taken);
            return u32::try_from(self.slots.len() - 1).expect("there are fewer clients than 2^32");
        };
        let Slot::Vacant { next } = std::mem::replace(&mut self.slots[id as usize], taken) else {
            unreachable!("the list of vacant slots names vacant slots only")
        };
        self.vacant = next;
        id
    }

    pub(super) fn remove(&mut self, id: u32) {
        self.slots[id as usize] = Slot::Vacant { next: self.vacant };
        self.vacant = id + 1;
        self.count -= 1;
        if self.count == 0 && self.slots.len() > SLOTS_KEPT {
            *self = Self::default();
        }
    }

    pub(super) fn reader(&mut self, id: u32) -> &mut ReaderState {
        match &mut self.slots[id as usize] {
            Slot::Taken(reader) => reader,
            Slot::Vacant { .. } => unreachable!("a reader has its slot until it is dropped"),
        }
    }

    /// Takes the wakers of those that wait at a position for which `reached` is true.
    pub(super) fn take_wakers(&mut self, reached: impl Fn(u64) -> bool, wakes: &mut WakeList) {
        for slot in &mut self.slots {
            if let Slot::Taken(reader) = slot
                && reader.waker.is_some()
                && reached(reader.position)
            {
                wakes.extend(reader.waker.take());
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ReaderState> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Taken(reader) => Some(reader),
            Slot::Vacant { .. } => None,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.count as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let mut readers = Readers::default();
        let first = readers.add(0, 10);
        let second = readers.add(5, 10);
        readers.remove(first);
        assert_eq!(readers.add(7, 10), first);
        assert_eq!(readers.reader(second).position, 5);
        assert_eq!(readers.count(), 2);
        let many: Vec<u32> = (0..100).map(|at| readers.add(at, 200)).collect();
        assert_eq!(readers.iter().count(), 102);
        many.into_iter().chain([first, second]).for_each(|id| readers.remove(id));
        assert_eq!((readers.count(), readers.slots.capacity()), (0, 0));
    }
}
