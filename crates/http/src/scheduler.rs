//! Which stream sends next (RFC 9218 §10).

use crate::priority::Priority;
use std::collections::VecDeque;

/// The streams of a connection that could send at once, in their order: by urgency; within one those
/// that are of no use in parts one after another, by number; those that are of use in parts in turn.
/// Where an urgency has both, the first of the former has a place in the turn.
///
/// A stream that has nothing to send, or no window, is not here, and so in nobody's way.
#[derive(Debug)]
pub struct Scheduler<K> {
    /// Those that had streams, from the most urgent. Most connections only ever use one.
    levels: Vec<Level<K>>,
    /// Streams in all of them.
    streams: usize,
}

#[derive(Debug)]
struct Level<K> {
    urgency: u8,
    /// Whether the next turn is one of `parts`.
    turn_of_parts: bool,
    /// In order. New ones mostly are the last, and those that are done the first.
    whole: VecDeque<K>,
    parts: VecDeque<K>,
}

impl<K> Level<K> {
    fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.parts.is_empty()
    }
}

impl<K> Default for Scheduler<K> {
    fn default() -> Self {
        Self { levels: Vec::new(), streams: 0 }
    }
}

impl<K: Copy + Ord> Scheduler<K> {
    /// A stream that was not here can send.
    pub fn add(&mut self, stream: K, priority: Priority) {
        let urgency = priority.urgency;
        let at = self.levels.partition_point(|level| level.urgency < urgency);
        if self.levels.get(at).is_none_or(|level| level.urgency != urgency) {
            let (whole, parts) = (VecDeque::new(), VecDeque::new());
            self.levels.reserve_exact(1);
            self.levels.insert(at, Level { urgency, turn_of_parts: false, whole, parts });
        }
        let Some(level) = self.levels.get_mut(at) else { return };
        self.streams += 1;
        if priority.incremental {
            level.parts.push_back(stream);
        } else {
            let at = level.whole.partition_point(|other| *other < stream);
            level.whole.insert(at, stream);
        }
    }

    /// A stream cannot send any more.
    pub fn remove(&mut self, stream: K, priority: Priority) {
        let mut levels = self.levels.iter_mut();
        let Some(level) = levels.find(|level| level.urgency == priority.urgency) else { return };
        let at = match priority.incremental {
            true => level.parts.iter().position(|other| *other == stream),
            false => level.whole.binary_search(&stream).ok(),
        };
        let Some(at) = at else { return };
        let streams = if priority.incremental { &mut level.parts } else { &mut level.whole };
        streams.remove(at);
        self.streams -= 1;
    }

    /// Whether no stream can send.
    pub fn is_empty(&self) -> bool {
        self.streams == 0
    }

    /// The stream whose turn it is and will be, however often it had one, until another can send; `None`
    /// where others take turns with it.
    pub fn alone(&self) -> Option<K> {
        let level = self.levels.iter().find(|level| !level.is_empty())?;
        match (level.whole.front(), level.parts.len()) {
            (Some(first), 0) => Some(*first),
            (None, 1) => level.parts.front().copied(),
            _ => None,
        }
    }

    /// The stream whose turn it is. It stays, and has had its turn.
    pub fn take_turn(&mut self) -> Option<K> {
        let level = self.levels.iter_mut().find(|level| !level.is_empty())?;
        let takes_parts = level.whole.is_empty() || level.turn_of_parts;
        if takes_parts && let Some(stream) = level.parts.pop_front() {
            level.parts.push_back(stream);
            level.turn_of_parts = false;
            return Some(stream);
        }
        level.turn_of_parts = true;
        level.whole.front().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn of(urgency: u8, incremental: bool) -> Priority {
        Priority { urgency, incremental }
    }

    fn turns(scheduler: &mut Scheduler<u32>, count: usize) -> Vec<u32> {
        (0..count).filter_map(|_| scheduler.take_turn()).collect()
    }

    #[test]
    fn the_more_urgent_go_first_and_equals_one_after_another() {
        let mut scheduler = Scheduler::<u32>::default();
        for (stream, urgency) in [(1, 5), (3, 3), (5, 3), (7, 0)] {
            scheduler.add(stream, of(urgency, false));
        }
        assert_eq!(turns(&mut scheduler, 2), [7, 7]);
        scheduler.remove(7, of(0, false));
        assert_eq!(turns(&mut scheduler, 2), [3, 3]);
        scheduler.remove(3, of(3, false));
        assert_eq!(turns(&mut scheduler, 1), [5]);
        scheduler.remove(5, of(3, false));
        assert_eq!(turns(&mut scheduler, 1), [1]);
        scheduler.remove(1, of(5, false));
        assert_eq!(scheduler.take_turn(), None);
    }

    #[test]
    fn incremental_ones_take_turns_and_the_others_have_one_together() {
        let mut scheduler = Scheduler::<u32>::default();
        for stream in [1, 3, 5] {
            scheduler.add(stream, of(2, true));
        }
        assert_eq!(turns(&mut scheduler, 6), [1, 3, 5, 1, 3, 5]);
        scheduler.add(7, of(2, false));
        scheduler.add(9, of(2, false));
        assert_eq!(turns(&mut scheduler, 8), [7, 1, 7, 3, 7, 5, 7, 1]);
    }

    proptest! {
        /// Against a list that is searched: who may be next, and that nobody who may is left out.
        #[test]
        fn every_turn_is_of_the_most_urgent_and_shared(
            steps in proptest::collection::vec((0_u32..12, 0_u8..8, any::<bool>(), 0_usize..6), 1..60),
        ) {
            let mut scheduler = Scheduler::<u32>::default();
            let mut model: BTreeMap<u32, Priority> = BTreeMap::new();
            for (stream, urgency, incremental, count) in steps {
                match model.remove(&stream) {
                    Some(priority) => scheduler.remove(stream, priority),
                    None => {
                        model.insert(stream, of(urgency, incremental));
                        scheduler.add(stream, of(urgency, incremental));
                    }
                }
                let Some(urgency) = model.values().map(|priority| priority.urgency).min() else {
                    prop_assert_eq!(scheduler.take_turn(), None);
                    continue;
                };
                let most_urgent = model.iter().filter(|(_, other)| other.urgency == urgency);
                let (parts, whole): (Vec<_>, Vec<_>) = most_urgent.partition(|(_, other)| other.incremental);
                let first = whole.first().map(|(stream, _)| **stream);
                let candidates = parts.len() + usize::from(first.is_some());
                let alone = scheduler.alone();
                prop_assert_eq!(alone.is_some(), candidates == 1);
                let got = turns(&mut scheduler, count);
                prop_assert_eq!(got.len(), count);
                for stream in &got {
                    let may = first == Some(*stream) || parts.iter().any(|(part, _)| *part == stream);
                    prop_assert!(may && alone.is_none_or(|alone| alone == *stream));
                }
                // A whole round has everybody who takes turns.
                let places = parts.len() + parts.len().max(1) * usize::from(first.is_some());
                let round = turns(&mut scheduler, places + 1);
                for (part, _) in &parts {
                    prop_assert!(round.contains(part));
                }
            }
        }
    }
}
