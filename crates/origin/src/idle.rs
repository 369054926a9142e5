//! Which idle connection is used next and which have idled too long: bookkeeping without I/O.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Idle connections to one origin, used last in, first out: the warm ones stay warm and the
/// surplus of a burst grows old and is closed.
#[derive(Debug)]
pub(crate) struct IdleList<C> {
    /// Oldest first.
    entries: VecDeque<(Instant, C)>,
}

impl<C> Default for IdleList<C> {
    fn default() -> Self {
        Self { entries: VecDeque::new() }
    }
}

impl<C> IdleList<C> {
    /// Keeps `connection` from `now` on. Returns the oldest one where there are more than `max`.
    pub(crate) fn push(&mut self, connection: C, now: Instant, max: usize) -> Option<C> {
        self.entries.push_back((now, connection));
        if self.entries.len() > max { self.pop_oldest() } else { None }
    }

    /// The connection that idled least.
    pub(crate) fn pop(&mut self) -> Option<C> {
        self.entries.pop_back().map(|(_, connection)| connection)
    }

    /// The connection that idled longest.
    pub(crate) fn pop_oldest(&mut self) -> Option<C> {
        self.entries.pop_front().map(|(_, connection)| connection)
    }

    /// The next connection that has idled for `age_max` or longer, oldest first.
    pub(crate) fn pop_expired(&mut self, now: Instant, age_max: Duration) -> Option<C> {
        let (since, _) = self.entries.front()?;
        if now.saturating_duration_since(*since) < age_max {
            return None;
        }
        self.pop_oldest()
    }

    /// Removes the connections for which `keep` is false.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut C) -> bool) {
        self.entries.retain_mut(|(_, connection)| keep(connection));
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_last_in_is_the_first_out_and_the_oldest_gives_way() {
        let (mut list, now) = (IdleList::default(), Instant::now());
        assert_eq!(list.push('a', now, 2), None);
        assert_eq!(list.push('b', now, 2), None);
        assert_eq!(list.push('c', now, 2), Some('a'));
        assert_eq!((list.pop(), list.pop(), list.pop()), (Some('c'), Some('b'), None));
        assert_eq!(list.push('d', now, 0), Some('d'));
    }

    #[test]
    fn expiry_takes_the_old_ones_only() {
        let (mut list, now) = (IdleList::default(), Instant::now());
        for (name, at) in [('a', 0), ('b', 5), ('c', 9)] {
            list.push(name, now + SECOND * at, 9);
        }
        let then = now + SECOND * 10;
        assert_eq!(list.pop_expired(then, SECOND * 5), Some('a'));
        assert_eq!(list.pop_expired(then, SECOND * 5), Some('b'));
        assert_eq!(list.pop_expired(then, SECOND * 5), None);
        list.retain(|name| *name != 'c');
        assert_eq!(list.len(), 0);
    }
}
