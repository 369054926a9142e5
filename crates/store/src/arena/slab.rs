//! Parts of pages for small pieces, as numbers only.
//!
//! A run of 1 to 32 pages is cut into at most 64 slots of one size class; a word says which are
//! free. A run whose last slot comes back is returned to the pages at once.

use super::pages::PageRun;
use crate::limits::{PAGE_BYTES, SLAB_BYTES_MAX, SLAB_BYTES_MIN, SLAB_RUN_PAGES_MAX, SLAB_STEPS};

const CLASSES: usize = class_of(SLAB_BYTES_MAX) + 1;
const SLOTS_MAX: u32 = u64::BITS;
/// The fewest slots of a run, so that what describes it costs each little. Long runs of many sizes would
/// mostly be unused where memory is small.
const SLOTS_WANTED: u32 = 4;
/// A run leaves over this part of itself at most.
const LEFT_PART: u32 = 40;

/// All runs that are cut into parts.
pub(crate) struct Slabs {
    slabs: Vec<Slab>,
    vacant: Vec<u32>,
    /// By class: the slabs with a free slot.
    partial: [Vec<u32>; CLASSES],
    free_bytes: u64,
}

impl Default for Slabs {
    fn default() -> Self {
        let partial = std::array::from_fn(|_| Vec::new());
        Self { slabs: Vec::new(), vacant: Vec::new(), partial, free_bytes: 0 }
    }
}

/// A slot that was taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Slot {
    /// Number of the slab, to give the slot back with.
    pub(crate) slab: u32,
    /// Offset in the arena.
    pub(crate) start: u64,
    /// Size of the slot.
    pub(crate) bytes: u32,
}

struct Slab {
    run: PageRun,
    free: u64,
    slot_bytes: u32,
    slots: u32,
    /// Where in its class's list this slab is, while it has a free slot.
    listed_at: u32,
}

impl Slabs {
    /// Takes a slot of at least `bytes` (1 to [`SLAB_BYTES_MAX`]) from a slab that has one.
    pub(crate) fn take(&mut self, bytes: u32) -> Option<Slot> {
        let id = *self.partial[class_of(bytes)].last()?;
        let slab = &mut self.slabs[id as usize];
        let slot = slab.free.trailing_zeros();
        slab.free &= slab.free - 1;
        let is_full = slab.free == 0;
        let start = slab.start() + u64::from(slot * slab.slot_bytes);
        let bytes = slab.slot_bytes;
        self.free_bytes -= u64::from(bytes);
        if is_full {
            self.unlist(id);
        }
        Some(Slot { slab: id, start, bytes })
    }

    /// Adds a run of pages for parts of this size.
    pub(crate) fn add(&mut self, bytes: u32, run: PageRun) {
        let slot_bytes = slot_bytes_of(bytes);
        let slots = (run.pages * PAGE_BYTES as u32 / slot_bytes).min(SLOTS_MAX);
        let free = u64::MAX >> (SLOTS_MAX - slots);
        let slab = Slab { run, free, slot_bytes, slots, listed_at: 0 };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.slabs[id as usize] = slab;
                id
            }
            None => {
                self.slabs.push(slab);
                u32::try_from(self.slabs.len() - 1).expect("page numbers fit 32 bits, so do slabs")
            }
        };
        self.free_bytes += u64::from(slots * slot_bytes);
        self.list(id);
    }

    /// Gives a slot back; returns the run when that was its last one.
    pub(crate) fn give(&mut self, id: u32, start: u64) -> Option<PageRun> {
        let slab = &mut self.slabs[id as usize];
        let slot = (start - slab.start()) / u64::from(slab.slot_bytes);
        assert!(slab.free & (1 << slot) == 0, "a slot given back twice");
        let was_full = slab.free == 0;
        slab.free |= 1 << slot;
        let run = (slab.free.count_ones() == slab.slots).then_some(slab.run);
        self.free_bytes += u64::from(slab.slot_bytes);
        if was_full {
            self.list(id);
        }
        if run.is_some() {
            self.unlist(id);
            let slab = &self.slabs[id as usize];
            self.free_bytes -= u64::from(slab.slots * slab.slot_bytes);
            self.vacant.push(id);
        }
        run
    }

    /// Bytes of free slots.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    fn list(&mut self, id: u32) {
        let slab = &mut self.slabs[id as usize];
        let list = &mut self.partial[class_of(slab.slot_bytes)];
        slab.listed_at = list.len() as u32;
        list.push(id);
    }

    fn unlist(&mut self, id: u32) {
        let slab = &self.slabs[id as usize];
        let at = slab.listed_at as usize;
        let list = &mut self.partial[class_of(slab.slot_bytes)];
        list.swap_remove(at);
        if let Some(moved) = list.get(at) {
            self.slabs[*moved as usize].listed_at = at as u32;
        }
    }
}

impl Slab {
    fn start(&self) -> u64 {
        u64::from(self.run.page) * PAGE_BYTES
    }
}

/// How many pages a new run for parts of this size should have, and how many it must have. It is
/// the shortest that leaves hardly anything over.
pub(crate) fn run_pages(bytes: u32) -> (u32, u32) {
    let slot = slot_bytes_of(bytes);
    let is_tight = |pages: &u32| {
        let run = pages * PAGE_BYTES as u32;
        (run - (run / slot).min(SLOTS_MAX) * slot) * LEFT_PART <= run
    };
    let mut lengths = (SLOTS_WANTED * slot).div_ceil(PAGE_BYTES as u32)..=SLAB_RUN_PAGES_MAX;
    (lengths.find(is_tight).unwrap_or(SLAB_RUN_PAGES_MAX), 1)
}

/// The size of the slot for this many bytes.
pub(crate) const fn slot_bytes_of(bytes: u32) -> u32 {
    size_of_slot(bytes).0
}

const fn class_of(bytes: u32) -> usize {
    size_of_slot(bytes).1
}

/// The size of the slot for this many bytes, and the number of its class.
const fn size_of_slot(bytes: u32) -> (u32, usize) {
    let bytes = if bytes < SLAB_BYTES_MIN { SLAB_BYTES_MIN } else { bytes };
    let (mut from, mut class, mut tier) = (SLAB_BYTES_MIN, 0, 0);
    loop {
        let (to, step) = SLAB_STEPS[tier];
        if bytes <= to {
            let steps = (bytes - from).div_ceil(step);
            return (from + steps * step, class + steps as usize);
        }
        class += ((to - from) / step) as usize;
        (from, tier) = (to, tier + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_of_every_size_fill_their_runs() {
        for bytes in 1..=SLAB_BYTES_MAX {
            let (slot, (pages, _)) = (slot_bytes_of(bytes), run_pages(bytes));
            assert!((1..=SLAB_RUN_PAGES_MAX).contains(&pages) && class_of(slot) == class_of(bytes));
            assert!(
                slot >= bytes && slot - bytes < SLAB_BYTES_MIN.max(slot / 16),
                "{bytes} B: {slot}"
            );
            let run = pages * PAGE_BYTES as u32;
            let slots = (run / slot).min(SLOTS_MAX);
            assert!((run - slots * slot) * LEFT_PART <= run, "{bytes} B: {slots} in {pages} pages");
        }
    }

    proptest! {
        #[test]
        fn slots_never_overlap_and_empty_runs_come_back(
            steps in prop::collection::vec((any::<bool>(), 1u32..=SLAB_BYTES_MAX, any::<prop::sample::Index>()), 1..500)
        ) {
            let mut slabs = Slabs::default();
            let mut next_page = 0;
            let mut runs_out = 0u32;
            let mut slots: Vec<Slot> = Vec::new();
            for (free, bytes, pick) in steps {
                if free && !slots.is_empty() {
                    let slot = slots.swap_remove(pick.index(slots.len()));
                    runs_out -= u32::from(slabs.give(slot.slab, slot.start).is_some());
                    continue;
                }
                let slot = slabs.take(bytes).unwrap_or_else(|| {
                    let (pages, _) = run_pages(bytes);
                    slabs.add(bytes, PageRun { page: next_page, pages });
                    next_page += pages;
                    runs_out += 1;
                    slabs.take(bytes).expect("a run was just added")
                });
                prop_assert!(slot.bytes >= bytes && slot.bytes == slot_bytes_of(bytes));
                let end = slot.start + u64::from(slot.bytes);
                prop_assert!(end <= u64::from(next_page) * PAGE_BYTES);
                let apart = |other: &Slot| {
                    end <= other.start || other.start + u64::from(other.bytes) <= slot.start
                };
                prop_assert!(slots.iter().all(apart));
                slots.push(slot);
            }
            for slot in slots {
                runs_out -= u32::from(slabs.give(slot.slab, slot.start).is_some());
            }
            prop_assert_eq!((runs_out, slabs.free_bytes()), (0, 0));
        }
    }
}
