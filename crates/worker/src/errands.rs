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

    /// Whether there is room for so many bytes of this one, which it has then in place of what it had, where all of
    /// its kind may have `most`.
    pub fn holds(&self, bytes: u64, most: u64) -> bool {
        let others = self.of.bytes.get() - self.bytes.get();
        let has_room = others.saturating_add(bytes) <= most;
        if has_room {
            self.of.bytes.set(others + bytes);
            self.bytes.set(bytes);
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
        assert!(one.holds(600, 1000) && !other.holds(500, 1000) && other.holds(400, 1000));
        assert!(!one.holds(u64::MAX, 1000) && !one.holds(601, 1000));
        // What it holds later takes the place of what it held.
        assert!(one.holds(100, 1000) && other.holds(900, 1000) && !one.holds(101, 1000));
        drop(one);
        assert!(other.holds(1000, 1000) && !other.holds(1001, 1000));
        drop(other);
        assert_eq!((all.count.get(), all.bytes.get()), (0, 0));
    }
}
