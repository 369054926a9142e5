//! Runs of pages out of all frames, as numbers only: nothing here touches memory.

use super::frame::{Frame, ORDER_MAX, order_of};
use super::frame_set::FrameSet;
use crate::limits::FRAME_PAGES;

/// The frames of an arena and which of their pages are free. Runs never cross a frame. The lowest
/// frame that fits is taken, so that high frames become wholly free and can be given back.
pub(crate) struct Pages {
    frames: Vec<Frame>,
    /// By order: committed frames with a free block of that order.
    with_free: Vec<FrameSet>,
    uncommitted: FrameSet,
    committed: u32,
    used: u64,
}

/// A run of pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PageRun {
    pub(crate) page: u32,
    pub(crate) pages: u32,
}

impl Pages {
    /// `frames` frames, none of them committed.
    pub(crate) fn new(frames: u32) -> Self {
        let mut uncommitted = FrameSet::new(frames);
        (0..frames).for_each(|frame| uncommitted.insert(frame));
        Self {
            frames: vec![Frame::full(); frames as usize],
            with_free: (0..=ORDER_MAX).map(|_| FrameSet::new(frames)).collect(),
            uncommitted,
            committed: 0,
            used: 0,
        }
    }

    /// Takes `pages` adjacent pages (at most a frame) from committed frames.
    pub(crate) fn take(&mut self, pages: u32) -> Option<PageRun> {
        let sets = self.with_free.iter().skip(order_of(pages) as usize);
        let at = sets.filter_map(FrameSet::first).next()?;
        Some(self.take_in(at, pages))
    }

    /// Takes a run of `most` pages, a power of two, out of the shortest block that has them, or else
    /// the longest block there is; of the highest frame with such a block.
    pub(crate) fn take_highest(&mut self, most: u32) -> Option<PageRun> {
        let enough = order_of(most);
        let mut orders = (enough..=ORDER_MAX).chain((0..enough).rev());
        let last = |order: u32| Some((order.min(enough), self.with_free[order as usize].last()?));
        let (order, at) = orders.find_map(last)?;
        Some(self.take_in(at, 1 << order))
    }

    /// Takes a run of a frame that has it.
    fn take_in(&mut self, at: u32, pages: u32) -> PageRun {
        let page = self.change(at, |frame| frame.take(pages));
        let page = page.expect("the set of frames says that a block is free");
        self.used += u64::from(pages);
        PageRun { page: at * FRAME_PAGES + page, pages }
    }

    /// Takes the longest run of at least `least` and at most `best` pages from committed frames.
    pub(crate) fn take_longest(&mut self, best: u32, least: u32) -> Option<PageRun> {
        self.take(best).or_else(|| {
            let orders = (order_of(least)..order_of(best)).rev();
            orders.map(|order| (1 << order).min(best)).find_map(|pages| self.take(pages))
        })
    }

    /// Gives pages back; they may be part of a run.
    pub(crate) fn give(&mut self, run: PageRun) {
        self.used -= u64::from(run.pages);
        self.change(run.page / FRAME_PAGES, |frame| frame.give(run.page % FRAME_PAGES, run.pages));
    }

    /// Makes the lowest uncommitted frame available; false when there is none.
    pub(crate) fn commit(&mut self) -> bool {
        let Some(at) = self.uncommitted.first() else { return false };
        self.uncommitted.remove(at);
        self.committed += 1;
        self.change(at, |frame| *frame = Frame::empty());
        true
    }

    /// Withdraws the highest committed frame that is wholly free, and returns its number.
    pub(crate) fn uncommit(&mut self) -> Option<u32> {
        let at = self.with_free.last()?.last()?;
        self.change(at, |frame| *frame = Frame::full());
        self.uncommitted.insert(at);
        self.committed -= 1;
        Some(at)
    }

    /// Frames committed.
    pub(crate) fn committed(&self) -> u32 {
        self.committed
    }

    /// Pages in use.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn heap_bytes(&self) -> u64 {
        let sets: u64 = self.with_free.iter().map(FrameSet::heap_bytes).sum();
        (self.frames.len() * size_of::<Frame>()) as u64 + sets + self.uncommitted.heap_bytes()
    }

    /// Changes a frame and keeps the sets of frames true.
    fn change<T>(&mut self, at: u32, change: impl FnOnce(&mut Frame) -> T) -> T {
        let frame = &mut self.frames[at as usize];
        let before = frame.orders();
        let out = change(frame);
        let after = frame.orders();
        let mut changed = before ^ after;
        while changed != 0 {
            let order = changed.trailing_zeros();
            changed &= changed - 1;
            let set = &mut self.with_free[order as usize];
            if after & (1 << order) == 0 { set.remove(at) } else { set.insert(at) }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fragments_are_taken_longest_first() {
        let mut pages = Pages::new(1);
        assert!(pages.commit());
        let whole = pages.take(512).expect("one frame is committed");
        pages.give(PageRun { page: whole.page + 8, pages: 8 });
        pages.give(PageRun { page: whole.page + 32, pages: 4 });
        assert_eq!(pages.take_longest(100, 16), None);
        assert_eq!(pages.take_longest(100, 4), Some(PageRun { page: 8, pages: 8 }));
        assert_eq!(pages.take_longest(100, 4), Some(PageRun { page: 32, pages: 4 }));
        assert_eq!(pages.take_longest(100, 1), None);
    }

    #[test]
    fn only_wholly_free_frames_are_withdrawn() {
        let mut pages = Pages::new(2);
        assert!(pages.commit() && pages.commit() && !pages.commit());
        let run = pages.take(1).expect("two frames are committed");
        assert_eq!(pages.uncommit(), Some(1));
        assert_eq!(pages.uncommit(), None);
        pages.give(run);
        assert_eq!(pages.uncommit(), Some(0));
        assert_eq!((pages.committed(), pages.used()), (0, 0));
        assert_eq!(pages.take(1), None);
    }

    proptest! {
        #[test]
        fn runs_of_many_frames_never_overlap(
            steps in prop::collection::vec((0u8..8, 1u32..=256, any::<prop::sample::Index>()), 1..300)
        ) {
            let mut pages = Pages::new(4);
            let mut used = [false; 4 * FRAME_PAGES as usize];
            let mut runs: Vec<PageRun> = Vec::new();
            for (what, wanted, pick) in steps {
                match what {
                    0 => drop(pages.commit()),
                    1 => if let Some(frame) = pages.uncommit() {
                        let first = (frame * FRAME_PAGES) as usize;
                        prop_assert!(used[first..first + 512].iter().all(|used| !used));
                    },
                    2..5 if !runs.is_empty() => {
                        let run = runs.swap_remove(pick.index(runs.len()));
                        used[run.page as usize..(run.page + run.pages) as usize].fill(false);
                        pages.give(run);
                    }
                    _ => if let Some(run) = pages.take_longest(wanted, wanted.div_ceil(8)) {
                        prop_assert!(run.pages <= wanted && run.pages >= wanted.div_ceil(8));
                        prop_assert_eq!(
                            run.page / FRAME_PAGES,
                            (run.page + run.pages - 1) / FRAME_PAGES
                        );
                        let span = &mut used[run.page as usize..(run.page + run.pages) as usize];
                        prop_assert!(span.iter().all(|used| !used));
                        span.fill(true);
                        runs.push(run);
                    },
                }
                prop_assert_eq!(pages.used(), used.iter().filter(|used| **used).count() as u64);
            }
            runs.into_iter().for_each(|run| pages.give(run));
            while pages.uncommit().is_some() {}
            prop_assert_eq!((pages.committed(), pages.used()), (0, 0));
        }
    }
}
