//! Runs of pages out of all frames, as numbers only: nothing here touches memory.

use super::frame::Frame;
use super::frame_set::FrameSet;
use crate::limits::FRAME_PAGES;

/// Classes of lengths of runs: each length up to 7, and four classes to a power of two above.
const CLASSES: usize = 32;

/// The class of the longest run of a frame, or of a run that is wanted; 1 to [`FRAME_PAGES`].
fn class_of(pages: u32) -> usize {
    if pages < 8 {
        return pages as usize - 1;
    }
    let power = pages.ilog2();
    7 + (power as usize - 3) * 4 + (pages >> (power - 2)) as usize % 4
}

/// The class from which on all runs are as long as this or longer.
fn class_from(pages: u32) -> usize {
    if pages == 1 { 0 } else { class_of(pages - 1) + 1 }
}

/// The frames of an arena and which of their pages are free. Runs never cross a frame. The lowest
/// frame that fits is taken, so that high frames become wholly free and can be given back.
pub(crate) struct Pages {
    frames: Vec<Frame>,
    /// By class: committed frames whose longest free run is of that class.
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
            with_free: (0..CLASSES).map(|_| FrameSet::new(frames)).collect(),
            uncommitted,
            committed: 0,
            used: 0,
        }
    }

    /// Takes `pages` adjacent pages (at most a frame) from committed frames.
    pub(crate) fn take(&mut self, pages: u32) -> Option<PageRun> {
        let at = self.frame_with(pages)?;
        Some(self.take_in(at, pages))
    }

    /// A frame with a run of so many pages, and if possible without a much longer one. Where only some
    /// of a class have it, two of them are looked at.
    fn frame_with(&self, pages: u32) -> Option<u32> {
        let (some, all) = (class_of(pages), class_from(pages));
        let has = |at: &u32| self.frames[*at as usize].longest() >= pages;
        let near = if some < all {
            let set = &self.with_free[some];
            set.first().filter(has).or_else(|| set.last().filter(has))
        } else {
            None
        };
        near.or_else(|| self.with_free[all..].iter().find_map(FrameSet::first))
    }

    /// Takes a run of `most` pages of the highest frame of those with about so long a run, or else the
    /// longest run there is.
    pub(crate) fn take_highest(&mut self, most: u32) -> Option<PageRun> {
        let enough = class_from(most);
        let mut classes = (enough..CLASSES).chain((0..enough).rev());
        let at = classes.find_map(|class| self.with_free[class].last())?;
        Some(self.take_in(at, self.frames[at as usize].longest().min(most)))
    }

    /// Takes a run of a frame that has it.
    fn take_in(&mut self, at: u32, pages: u32) -> PageRun {
        let page = self.change(at, |frame| frame.take(pages));
        let page = page.expect("the set of frames says that the run is free");
        self.used += u64::from(pages);
        PageRun { page: at * FRAME_PAGES + page, pages }
    }

    /// Takes the longest run of at least `least` and at most `best` pages from committed frames.
    pub(crate) fn take_longest(&mut self, best: u32, least: u32) -> Option<PageRun> {
        self.take(best).or_else(|| {
            let sets = &self.with_free[class_of(least)..=class_of(best)];
            let at = sets.iter().rev().find_map(FrameSet::first)?;
            let pages = self.frames[at as usize].longest().min(best);
            (pages >= least).then(|| self.take_in(at, pages))
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

    /// The frame that [`Pages::commit`] would make available.
    pub(crate) fn next_uncommitted(&self) -> Option<u32> {
        self.uncommitted.first()
    }

    /// Whether a frame is not available.
    pub(crate) fn is_uncommitted(&self, frame: u32) -> bool {
        self.uncommitted.contains(frame)
    }

    /// Withdraws the highest committed frame that is wholly free, and returns its number.
    pub(crate) fn uncommit(&mut self) -> Option<u32> {
        let at = self.with_free[CLASSES - 1].last()?;
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
        let class = |frame: &Frame| Some(frame.longest()).filter(|pages| *pages > 0).map(class_of);
        let before = class(frame);
        let out = change(frame);
        let after = class(frame);
        if before != after {
            if let Some(before) = before {
                self.with_free[before].remove(at);
            }
            if let Some(after) = after {
                self.with_free[after].insert(at);
            }
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
        assert_eq!(pages.take(5), Some(PageRun { page: 8, pages: 5 }));
        pages.give(PageRun { page: 8, pages: 5 });
        assert_eq!(pages.take_longest(100, 4), Some(PageRun { page: 8, pages: 8 }));
        assert_eq!(pages.take_longest(100, 4), Some(PageRun { page: 32, pages: 4 }));
        assert_eq!(pages.take_longest(100, 1), None);
    }

    #[test]
    fn classes_rise_with_length_and_none_is_left_out() {
        let classes: Vec<usize> = (1..=FRAME_PAGES).map(class_of).collect();
        assert!(classes.is_sorted() && classes.windows(2).all(|pair| pair[1] - pair[0] <= 1));
        assert_eq!((classes[0], classes[FRAME_PAGES as usize - 1]), (0, CLASSES - 1));
        for pages in 2..=FRAME_PAGES {
            let shortest = (1..=FRAME_PAGES).find(|len| class_of(*len) == class_from(pages));
            assert!(shortest >= Some(pages) && class_from(pages) <= class_of(pages) + 1, "{pages}");
        }
        assert_eq!(class_from(1), 0);
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
