//! What is under way beside requests, and is bounded.

use std::cell::Cell;
use std::rc::Rc;

/// Something that is under way beside requests, counted as long as it is.
#[derive(Debug)]
pub(super) struct Errand(Rc<Cell<u64>>);

impl Errand {
    /// One more, where fewer than `most` are under way.
    pub(super) fn begin(under_way: &Rc<Cell<u64>>, most: u64) -> Option<Self> {
        if under_way.get() >= most {
            return None;
        }
        under_way.set(under_way.get() + 1);
        Some(Self(Rc::clone(under_way)))
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
