//! What is under way beside requests, within bounds.

use std::cell::Cell;
use std::rc::Rc;

/// How much of one kind is under way on a worker.
#[derive(Debug, Default)]
pub struct Errands {
    count: Cell<u64>,
    bytes: Cell<u64>,
}

/// Something that is under way, counted as long as it is.
#[derive(Debug)]
pub struct Errand {
    of: Rc<Errands>,
    bytes: Cell<u64>,
}

impl Errand {
    /// One more, where fewer than `most` are under way.
    pub fn begin(of: &Rc<Errands>, most: u64) -> Option<Self> {
        if of.count.get() >= most {
            return None;
        }
        of.count.set(of.count.get() + 1);
        Some(Self { of: Rc::clone(of), bytes: Cell::new(0) })
    }

    /// Whether there is room for so many bytes more, which it has then, where all of its kind may have `most`.
    pub fn takes(&self, bytes: u64, most: u64) -> bool {
        let all = self.of.bytes.get().saturating_add(bytes);
        let has_room = all <= most;
        if has_room {
            self.of.bytes.set(all);
            self.bytes.set(self.bytes.get() + bytes);
        }
        has_room
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        self.of.count.set(self.of.count.get() - 1);
        self.of.bytes.set(self.of.bytes.get() - self.bytes.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_gives_its_place_and_its_bytes_back() {
        let all = Rc::<Errands>::default();
        let one = Errand::begin(&all, 2).expect("there is room");
        let other = Errand::begin(&all, 2).expect("there is room");
        assert!(Errand::begin(&all, 2).is_none());
        assert!(one.takes(600, 1000) && !other.takes(500, 1000) && other.takes(400, 1000));
        assert!(!one.takes(u64::MAX, 1000));
        drop(one);
        assert!(other.takes(600, 1000) && !other.takes(1, 1000));
        drop(other);
        assert_eq!((all.count.get(), all.bytes.get()), (0, 0));
    }
}
