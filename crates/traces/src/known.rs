//! Which transactions are in which trace.

use crate::context::Context;
use crate::limits::{KNOWN_MAX, SHARDS};
use crate::span::Span;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Transactions that are sampled, by their numbers: their places, and what was told of them so far. The
/// oldest leave when there are too many.
#[derive(Debug)]
pub(crate) struct Known([Mutex<Shard>; SHARDS]);

#[derive(Debug, Default)]
struct Shard {
    spans: HashMap<u64, (Context, Option<Box<Span>>)>,
    order: VecDeque<u64>,
}

impl Known {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }

    /// Where a transaction is.
    pub(crate) fn context(&self, id: u64) -> Option<Context> {
        self.shard(id).spans.get(&id).map(|(context, _)| *context)
    }

    /// Notes where a transaction is.
    pub(crate) fn add(&self, id: u64, context: Context) {
        let mut shard = self.shard(id);
        if shard.order.len() >= KNOWN_MAX / SHARDS
            && let Some(oldest) = shard.order.pop_front()
        {
            shard.spans.remove(&oldest);
        }
        if shard.spans.insert(id, (context, None)).is_none() {
            shard.order.push_back(id);
        }
    }

    /// Tells of a transaction; gives its span when that has ended. Its place stays known, since what is
    /// done for it may begin later, as a fetch in the background does.
    pub(crate) fn tell(&self, id: u64, tell: impl FnOnce(&mut Span)) -> Option<Box<Span>> {
        let mut shard = self.shard(id);
        let (context, span) = shard.spans.get_mut(&id)?;
        let known = span.get_or_insert_with(|| Box::new(Span::of(*context)));
        tell(known);
        if known.has_ended() { span.take() } else { None }
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, Shard> {
        let shard = &self.0[(id % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leave_and_there_are_never_too_many() {
        let known = Known::new();
        let many = KNOWN_MAX as u64 * 3;
        for id in 0..many {
            known.add(id, Context::root());
            // Once more changes nothing of how many there are.
            known.add(id, Context::root());
        }
        let left = (0..many).filter(|id| known.context(*id).is_some()).count();
        assert!(left <= KNOWN_MAX && left > KNOWN_MAX / 2, "{left}");
        assert!(known.context(0).is_none() && known.context(many - 1).is_some());
        assert!(known.tell(0, |_| panic!("nobody knows it")).is_none());
    }
}
