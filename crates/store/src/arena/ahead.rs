//! Memory that is made ready before anybody needs it.
//!
//! The kernel clears pages at first touch, which is most of what a fresh process does under load. A
//! thread that runs when nothing else wants to takes frames ahead: cleared, and free like others. They
//! count as committed, so the limit holds as it does without it.

use super::{Arena, State};
use crate::idle::Idle;
use crate::limits::{AHEAD_IDLE, AHEAD_PAUSE, FRAME_BYTES};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// What there is to do for who keeps memory ready.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// A frame was made ready; there may be another one to do.
    Done,
    /// So much is ready.
    Enough,
    /// All is in use that the limit allows.
    NoRoom,
    /// The kernel does not do it, or nothing is to be taken any more.
    Refused,
}

impl Arena {
    /// Keeps `ready_bytes` ready from now on, as far as the limit allows, on a thread that takes hardly any
    /// time from others.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn keep_ready(self: &Arc<Self>, ready_bytes: u64) -> io::Result<Idle> {
        let arena = Arc::clone(self);
        Idle::start("memory", move || match arena.make_ready(ready_bytes) {
            Step::Done => Some(Duration::ZERO),
            Step::Enough => Some(AHEAD_PAUSE),
            Step::NoRoom => Some(AHEAD_IDLE),
            Step::Refused => None,
        })
    }

    /// Takes one frame more from the kernel where less than `ready_bytes` are free in those there are.
    fn make_ready(&self, ready_bytes: u64) -> Step {
        if self.returns.load(Relaxed) {
            // Another process is to have it.
            return Step::Refused;
        }
        let next = |state: &State| match state.next_frame() {
            _ if state.ready_bytes() >= ready_bytes => Err(Step::Enough),
            None => Err(Step::NoRoom),
            Some(frame) => Ok(frame),
        };
        let frame = match next(&self.state()) {
            Ok(frame) => frame,
            Err(step) => return step,
        };
        // Without the lock, for a frame of which nobody has anything. Where somebody takes it meanwhile,
        // its pages are those that would come anyway.
        if self.mapping.populate(u64::from(frame) * FRAME_BYTES, FRAME_BYTES as u32).is_err() {
            return Step::Refused;
        }
        let mut state = self.state();
        match next(&state) {
            Ok(still) if still == frame => state.commit_frame(),
            // Given back by all: nothing of it may stay that is not counted.
            _ if state.is_uncommitted(frame) => {
                self.mapping.discard(u64::from(frame) * FRAME_BYTES, FRAME_BYTES as u32);
            }
            _ => {}
        }
        drop(state);
        Step::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PIECE_BYTES_MAX;

    /// Pages this thread had to be given so far.
    fn faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("proc is mounted");
        let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
        fields.split(' ').nth(7).and_then(|text| text.parse().ok()).expect("a number")
    }

    /// What filling an arena costs in faults.
    fn fill(arena: &Arc<Arena>) -> u64 {
        let before = faults();
        let take = || arena.allocate(PIECE_BYTES_MAX as usize);
        let mut pieces: Vec<_> = std::iter::from_fn(take).collect();
        pieces.iter_mut().for_each(|piece| piece.spare().fill(1));
        assert!(pieces.len() >= 60, "{}", pieces.len());
        faults() - before
    }

    #[test]
    fn what_is_ready_costs_no_faults_and_the_limit_holds() {
        let arena = || Arena::new(64 << 20).expect("address space is free");
        let without = fill(&arena());
        assert!(without >= 30, "a fault for each huge page at least: {without}");
        let ready = arena();
        while ready.make_ready(u64::MAX) == Step::Done {}
        let stats = ready.stats();
        assert!(stats.committed_bytes + stats.metadata_bytes <= stats.limit_bytes, "{stats:?}");
        assert!(stats.committed_bytes >= 60 << 20, "{stats:?}");
        let with = fill(&ready);
        assert!(with * 4 < without, "{with} of {without}");
        // What describes objects has the room that it has without.
        ready.charge_metadata(8 << 20).expect("frames are given back for it");
        assert_eq!(ready.make_ready(u64::MAX), Step::NoRoom);
        let stats = ready.stats();
        assert!(stats.committed_bytes + stats.metadata_bytes <= stats.limit_bytes, "{stats:?}");
        ready.release_metadata(8 << 20);
    }

    #[test]
    fn as_much_is_ready_as_is_wanted_and_no_more() {
        let arena = Arena::new(64 << 20).expect("address space is free");
        let mut taken = Vec::new();
        for _ in 0..5 {
            while arena.make_ready(5 << 20) == Step::Done {}
            assert_eq!(arena.make_ready(5 << 20), Step::Enough);
            assert!((5 << 20..8 << 20).contains(&arena.stats().free_bytes), "{:?}", arena.stats());
            taken.extend((0..4).map(|_| arena.allocate(1 << 20).expect("memory is free")));
        }
    }

    #[test]
    fn it_ends_when_nobody_wants_it() {
        let arena = Arena::new(16 << 20).expect("address space is free");
        let ahead = arena.keep_ready(u64::MAX).expect("there are threads");
        while arena.stats().committed_bytes < 12 << 20 {
            std::thread::yield_now();
        }
        drop(ahead);
        assert_eq!(Arc::strong_count(&arena), 1);
    }
}
