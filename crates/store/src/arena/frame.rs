//! Which pages of one frame are free.
//!
//! A bit for each page. A run may begin at any page: where runs had to begin at multiples of their
//! length, as blocks of a buddy system do, objects of 5 pages would waste three of eight.

use crate::limits::FRAME_PAGES;

const WORDS: usize = FRAME_PAGES as usize / 64;

#[derive(Clone)]
pub(crate) struct Frame {
    /// A set bit is a free page.
    free: [u64; WORDS],
    /// Length of the longest run of free pages.
    longest: u16,
    pages_free: u16,
}

impl Frame {
    /// A frame of which every page is in use.
    pub(crate) const fn full() -> Self {
        Self { free: [0; WORDS], longest: 0, pages_free: 0 }
    }

    /// A frame of which every page is free.
    pub(crate) const fn empty() -> Self {
        let pages = FRAME_PAGES as u16;
        Self { free: [u64::MAX; WORDS], longest: pages, pages_free: pages }
    }

    /// Takes `pages` adjacent pages out of the shortest run that holds them, lowest first. Returns the
    /// first page. Looks at every run: some 100 ns.
    pub(crate) fn take(&mut self, pages: u32) -> Option<u32> {
        if pages == 0 || pages > u32::from(self.longest) {
            return None;
        }
        let (mut best, mut second) = ((0, 0), 0);
        for (page, len) in self.runs() {
            let is_better = len >= pages && (best.1 == 0 || len < best.1);
            second = second.max(if is_better { best.1 } else { len });
            if is_better {
                best = (page, len);
            }
        }
        let (page, len) = best;
        self.set(page, pages, false);
        self.pages_free -= pages as u16;
        self.longest = second.max(len - pages) as u16;
        Some(page)
    }

    /// Gives back `pages` pages from `page` on, joining free neighbours. They need not be a run
    /// that was taken as one.
    pub(crate) fn give(&mut self, page: u32, pages: u32) {
        assert!(page + pages <= FRAME_PAGES, "pages beyond the frame given back");
        if pages == 0 {
            return;
        }
        self.set(page, pages, true);
        self.pages_free += pages as u16;
        let end = self.end_of_run(page + pages - 1);
        let first = self.first_of_run(page);
        self.longest = self.longest.max((end - first) as u16);
    }

    /// Length of the longest run of free pages.
    pub(crate) fn longest(&self) -> u32 {
        u32::from(self.longest)
    }

    #[cfg(test)]
    fn pages_free(&self) -> u32 {
        u32::from(self.pages_free)
    }

    /// Runs of free pages, lowest first, with their lengths.
    fn runs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = self.next(at, true).filter(|first| *first < FRAME_PAGES)?;
            let end = self.next(first, false).unwrap_or(FRAME_PAGES);
            at = end;
            Some((first, end - first))
        })
    }

    /// The first page from `page` on that is free, or is not.
    fn next(&self, page: u32, is_free: bool) -> Option<u32> {
        let flip = if is_free { 0 } else { u64::MAX };
        let from = page as usize / 64;
        let words = self.free.iter().enumerate().skip(from);
        let mut masked = words.map(|(at, word)| {
            let below = if at == from { (1_u64 << (page % 64)) - 1 } else { 0 };
            (at as u32, (word ^ flip) & !below)
        });
        let (at, word) = masked.find(|(_, word)| *word != 0)?;
        Some(at * 64 + word.trailing_zeros())
    }

    /// Where the run of free pages ends that this free page is in.
    fn end_of_run(&self, page: u32) -> u32 {
        self.next(page, false).unwrap_or(FRAME_PAGES)
    }

    /// Where the run of free pages begins that this free page is in.
    fn first_of_run(&self, page: u32) -> u32 {
        let last = page as usize / 64;
        let words = self.free.iter().enumerate().take(last + 1).rev();
        let mut masked = words.map(|(at, word)| {
            let above = if at == last { !(u64::MAX >> (63 - page % 64)) } else { 0 };
            (at as u32, !word & !above)
        });
        let taken = masked.find(|(_, word)| *word != 0);
        taken.map_or(0, |(at, word)| at * 64 + 64 - word.leading_zeros())
    }

    /// Says of pages that they are free, or that they are not, which was otherwise before.
    fn set(&mut self, page: u32, pages: u32, is_free: bool) {
        let end = page + pages;
        for (at, word) in (0_u32..).zip(&mut self.free) {
            let (from, to) = (page.max(at * 64), end.min(at * 64 + 64));
            if from >= to {
                continue;
            }
            let mask = (u64::MAX >> (64 - (to - from))) << (from % 64);
            let were = if is_free { *word & mask == 0 } else { *word & mask == mask };
            assert!(were, "pages given back twice, or taken twice");
            *word ^= mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_lie_side_by_side_and_all_joins_again() {
        let mut frame = Frame::empty();
        for at in 0..102 {
            assert_eq!(frame.take(5), Some(at * 5));
        }
        assert_eq!((frame.take(5), frame.longest()), (None, 2));
        frame.give(10, 5);
        frame.give(500, 5);
        assert_eq!(frame.longest(), 5);
        assert_eq!(frame.take(2), Some(510), "the shortest run that has them");
        frame.give(510, 2);
        frame.give(505, 5);
        assert_eq!(frame.longest(), 12);
        (0..100).filter(|at| *at != 2).for_each(|at| frame.give(at * 5, 5));
        assert_eq!(frame.longest(), FRAME_PAGES);
    }

    #[test]
    #[should_panic(expected = "given back")]
    fn giving_back_twice_is_a_bug() {
        let mut frame = Frame::empty();
        let page = frame.take(4).expect("an empty frame has room");
        frame.give(page, 4);
        frame.give(page, 4);
    }

    proptest! {
        #[test]
        fn runs_never_overlap_and_all_memory_comes_back(
            steps in prop::collection::vec((any::<bool>(), 1u32..=256, any::<prop::sample::Index>()), 1..400)
        ) {
            let mut frame = Frame::empty();
            let mut used = [false; FRAME_PAGES as usize];
            let mut runs: Vec<(u32, u32)> = Vec::new();
            for (free, pages, pick) in steps {
                let longest = used.split(|used| *used).map(<[bool]>::len).max().unwrap_or(0);
                prop_assert_eq!(frame.longest() as usize, longest);
                if free && !runs.is_empty() {
                    let at = pick.index(runs.len());
                    let (page, pages) = runs.swap_remove(at);
                    // Half of the run first: runs need not come back as they were taken.
                    frame.give(page, pages / 2);
                    frame.give(page + pages / 2, pages - pages / 2);
                    used[page as usize..(page + pages) as usize].fill(false);
                } else if let Some(page) = frame.take(pages) {
                    let span = &mut used[page as usize..(page + pages) as usize];
                    prop_assert!(span.iter().all(|used| !used));
                    span.fill(true);
                    runs.push((page, pages));
                } else {
                    prop_assert!(longest < pages as usize, "a free run was not found");
                }
                prop_assert_eq!(
                    frame.pages_free() as usize,
                    used.iter().filter(|used| !**used).count()
                );
            }
            for (page, pages) in runs {
                frame.give(page, pages);
            }
            prop_assert_eq!(frame.longest(), FRAME_PAGES);
        }
    }
}
