//! Which pages of one frame are free: a buddy system in 1024 bits.
//!
//! The blocks of a frame form a binary tree, numbered like a heap: node 1 is the whole frame, the
//! children of node `n` are `2n` and `2n + 1`, and nodes 512 to 1023 are the pages. A set bit says
//! that this block is free *as a block*: neither its parent nor its children have theirs set.

use crate::limits::FRAME_PAGES;

/// The order of a whole frame; a block of order `k` has `2^k` pages.
pub(crate) const ORDER_MAX: u32 = FRAME_PAGES.ilog2();

const WORDS: usize = (2 * FRAME_PAGES as usize) / 64;

#[derive(Clone)]
pub(crate) struct Frame {
    free: [u64; WORDS],
    /// Bit `k`: some block of order `k` is free.
    orders: u16,
    pages_free: u16,
}

impl Frame {
    /// A frame of which every page is in use.
    pub(crate) const fn full() -> Self {
        Self { free: [0; WORDS], orders: 0, pages_free: 0 }
    }

    /// A frame of which every page is free.
    pub(crate) fn empty() -> Self {
        let mut frame = Self::full();
        frame.give(0, FRAME_PAGES);
        frame
    }

    /// Takes `pages` adjacent pages out of the smallest free block that holds them, lowest first,
    /// and leaves the rest of that block free. Returns the first page.
    pub(crate) fn take(&mut self, pages: u32) -> Option<u32> {
        let order = order_of(pages);
        let found = (u32::from(self.orders) >> order << order).trailing_zeros();
        if found > ORDER_MAX {
            return None;
        }
        let node = self.first_free(found);
        self.clear(node, found);
        self.pages_free -= 1 << found;
        let page = (node - (FRAME_PAGES >> found)) << found;
        self.give(page + pages, (1 << found) - pages);
        Some(page)
    }

    /// Gives back `pages` pages from `page` on, joining free neighbours. They need not be a run
    /// that was taken as one.
    pub(crate) fn give(&mut self, mut page: u32, pages: u32) {
        let end = page + pages;
        assert!(end <= FRAME_PAGES, "pages beyond the frame given back");
        self.pages_free += pages as u16;
        assert!(u32::from(self.pages_free) <= FRAME_PAGES, "more pages given back than taken");
        while page < end {
            let aligned = page.trailing_zeros().min(ORDER_MAX);
            let order = aligned.min((end - page).ilog2());
            self.give_block(page, order);
            page += 1 << order;
        }
    }

    /// Bit `k` says that a block of order `k` is free.
    pub(crate) fn orders(&self) -> u16 {
        self.orders
    }

    #[cfg(test)]
    fn pages_free(&self) -> u32 {
        u32::from(self.pages_free)
    }

    fn give_block(&mut self, page: u32, mut order: u32) {
        let mut node = (FRAME_PAGES + page) >> order;
        debug_assert!(!self.overlaps_free(node, order), "pages given back twice");
        while node > 1 && self.is_free(node ^ 1) {
            self.clear(node ^ 1, order);
            node /= 2;
            order += 1;
        }
        self.free[node as usize / 64] |= 1 << (node % 64);
        self.orders |= 1 << order;
    }

    fn clear(&mut self, node: u32, order: u32) {
        self.free[node as usize / 64] &= !(1 << (node % 64));
        if self.level(order).is_none() {
            self.orders &= !(1 << order);
        }
    }

    fn first_free(&self, order: u32) -> u32 {
        self.level(order).expect("the mask of orders says that a block is free")
    }

    /// The first free node of this order.
    fn level(&self, order: u32) -> Option<u32> {
        let first = FRAME_PAGES >> order;
        if first < 64 {
            let word = self.free[0] & (((1 << first) - 1) << first);
            return (word != 0).then(|| word.trailing_zeros());
        }
        let words = first as usize / 64..first as usize / 32;
        let at = words.clone().find(|at| self.free[*at] != 0)?;
        Some(at as u32 * 64 + self.free[at].trailing_zeros())
    }

    fn is_free(&self, node: u32) -> bool {
        self.free[node as usize / 64] & (1 << (node % 64)) != 0
    }

    /// Whether this block, one above or one below is free.
    fn overlaps_free(&self, node: u32, order: u32) -> bool {
        let above = (0..=ORDER_MAX - order).any(|up| self.is_free(node >> up));
        let below = (1..=order).any(|down| {
            (node << down..(node + 1) << down).any(|descendant| self.is_free(descendant))
        });
        above || below
    }
}

/// The order of the smallest block of at least this many pages.
pub(crate) fn order_of(pages: u32) -> u32 {
    pages.next_power_of_two().ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_tail_of_a_block_stays_free_and_all_joins_again() {
        let mut frame = Frame::empty();
        assert_eq!(frame.take(18), Some(0));
        assert_eq!(frame.pages_free(), FRAME_PAGES - 18);
        assert_eq!(frame.take(8), Some(24), "the best fit is the tail of the first block");
        assert_eq!(frame.take(512), None);
        frame.give(24, 8);
        frame.give(0, 18);
        assert_eq!(frame.orders(), 1 << ORDER_MAX);
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
                    let block = pages.next_power_of_two() as usize;
                    let fits = used.chunks(block).any(|chunk| chunk.iter().all(|used| !used));
                    prop_assert!(!fits, "an aligned free block was not found");
                }
                prop_assert_eq!(
                    frame.pages_free() as usize,
                    used.iter().filter(|used| !**used).count()
                );
            }
            for (page, pages) in runs {
                frame.give(page, pages);
            }
            prop_assert_eq!(frame.orders(), 1 << ORDER_MAX);
        }
    }
}
