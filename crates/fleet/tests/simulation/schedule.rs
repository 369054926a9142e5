//! What happens when, in virtual milliseconds.
//!
//! A wheel of one list for each of the milliseconds to come, and a map for what is farther off: a world
//! of ten thousand nodes has some hundred million events, and a heap of them takes longer than they do.

use std::collections::{BTreeMap, VecDeque};

/// Milliseconds that have a list: more than nearly everything is off.
const NEAR_MS: u64 = 1 << 15;

/// Events in the order of time, those of one millisecond in the order they were given in.
pub(crate) struct Schedule<E> {
    now_ms: u64,
    /// What is left of this millisecond.
    due: VecDeque<E>,
    near: Vec<Vec<E>>,
    far: BTreeMap<u64, Vec<E>>,
    len: usize,
}

impl<E> Schedule<E> {
    pub(crate) fn new() -> Self {
        let near = (0..NEAR_MS).map(|_| Vec::new()).collect();
        Self { now_ms: 0, due: VecDeque::new(), near, far: BTreeMap::new(), len: 0 }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub(crate) fn add(&mut self, in_ms: u64, event: E) {
        self.len += 1;
        let at_ms = self.now_ms + in_ms;
        match in_ms {
            0 => self.due.push_back(event),
            _ if in_ms < NEAR_MS => self.near[(at_ms % NEAR_MS) as usize].push(event),
            _ => self.far.entry(at_ms).or_default().push(event),
        }
    }

    /// The next, whose time it is then; `None` when there are no more.
    pub(crate) fn next(&mut self) -> Option<E> {
        loop {
            if let Some(event) = self.due.pop_front() {
                self.len -= 1;
                return Some(event);
            }
            if self.len == 0 {
                return None;
            }
            self.now_ms += 1;
            // What comes near was given before whatever is given from now on.
            let last_ms = self.now_ms + NEAR_MS - 1;
            if let Some(events) = self.far.remove(&last_ms) {
                self.near[(last_ms % NEAR_MS) as usize] = events;
            }
            self.due = std::mem::take(&mut self.near[(self.now_ms % NEAR_MS) as usize]).into();
        }
    }
}

#[test]
fn events_come_in_the_order_of_time_and_then_as_they_were_given() {
    let mut schedule = Schedule::new();
    for (number, in_ms) in [3, 1, 0, 40_000, 3, NEAR_MS, 1].into_iter().enumerate() {
        schedule.add(in_ms, (in_ms, number));
    }
    let mut came = Vec::new();
    while let Some((at_ms, number)) = schedule.next() {
        assert_eq!(schedule.now_ms(), at_ms);
        came.push(number);
        if number == 1 {
            // At a time that something was given for when it was far off.
            schedule.add(NEAR_MS - 1, (NEAR_MS, 7));
            schedule.add(0, (1, 8));
        }
    }
    assert_eq!(came, [2, 1, 6, 8, 0, 4, 5, 7, 3]);
}
