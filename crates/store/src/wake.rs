//! Wakers collected under a lock and woken after it.

use std::task::Waker;

const INLINE: usize = 4;

/// Wakers to wake once the lock that guards what they wait for has been let go. The first few need
/// no allocation. Dropping the list wakes them.
#[derive(Default)]
pub(crate) struct WakeList {
    first: [Option<Waker>; INLINE],
    len: usize,
    more: Vec<Waker>,
}

impl WakeList {
    pub(crate) fn push(&mut self, waker: Waker) {
        match self.first.get_mut(self.len) {
            Some(slot) => *slot = Some(waker),
            None => self.more.push(waker),
        }
        self.len += 1;
    }

    pub(crate) fn extend(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.push(waker);
        }
    }
}

impl Drop for WakeList {
    fn drop(&mut self) {
        self.first
            .iter_mut()
            .filter_map(Option::take)
            .chain(self.more.drain(..))
            .for_each(Waker::wake);
    }
}
