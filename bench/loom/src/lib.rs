//! Every order in which threads can meet where nothing is locked: the words of a disk's index, which move while
//! they are looked for, and the watermark of a piece of memory, below which others read while more is written.
//!
//! The product's own files are taken in, with atomics that loom looks through: it runs a test once for each order of
//! the threads, and for each value that a load may see by the memory model, on whatever processor.
#![cfg(test)]
#![forbid(unsafe_code)]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

#[path = "../../../crates/disk/src/moves.rs"]
mod moves;
#[path = "../../../crates/store/src/watermark.rs"]
mod watermark;

use loom::cell::Cell;
use loom::sync::Arc;
use loom::thread;
use moves::Moves;
use sync::{AtomicU64, Ordering::Relaxed};
use watermark::Watermark;

/// How often one thread is interrupted by another: faults that take more are rare, and orders many.
const INTERRUPTIONS_MAX: usize = 3;

/// Words of an index, and what counts their moves.
struct Words<const COUNT: usize> {
    words: [AtomicU64; COUNT],
    moves: Moves,
}

impl<const COUNT: usize> Words<COUNT> {
    fn new(values: [u64; COUNT]) -> Arc<Self> {
        Arc::new(Self { words: values.map(AtomicU64::new), moves: Moves::default() })
    }

    /// Whether an entry is in one of the two words it may be in.
    fn has(&self, value: u64, places: [usize; 2]) -> bool {
        let is_there = || places.iter().any(|at| self.words[*at].load(Relaxed) == value);
        self.moves.find(|| is_there().then_some(())).is_some()
    }

    fn shift(&self, value: u64, from: usize, to: usize) {
        self.moves.shift(value, &self.words[from], &self.words[to]);
    }
}

/// Runs `test` once for each order in which its threads are interrupted by one another a few times.
fn every_order(test: impl Fn() + Send + Sync + 'static) {
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(INTERRUPTIONS_MAX);
    orders.check(test);
}

#[test]
fn an_entry_that_moves_there_and_back_is_found() {
    every_order(|| {
        let words = Words::new([7, 0]);
        let mover = Arc::clone(&words);
        let mover = thread::spawn(move || {
            mover.shift(7, 0, 1);
            mover.shift(7, 1, 0);
        });
        assert!(words.has(7, [0, 1]), "it was there all the time");
        mover.join().expect("it moves");
    });
}

#[test]
fn all_of_a_row_that_moves_on_are_found() {
    every_order(|| {
        let words = Words::new([7, 8, 0]);
        let mover = Arc::clone(&words);
        let mover = thread::spawn(move || {
            mover.shift(8, 1, 2);
            mover.shift(7, 0, 1);
        });
        assert!(words.has(8, [1, 2]), "it was there all the time");
        mover.join().expect("it moves");
    });
}

#[test]
fn what_is_below_the_watermark_was_written() {
    every_order(|| {
        let bytes: Arc<[Cell<u8>; 2]> = Arc::new([Cell::new(0), Cell::new(0)]);
        let mark = Arc::new(Watermark::default());
        let (written, raised) = (Arc::clone(&bytes), Arc::clone(&mark));
        let writer = thread::spawn(move || {
            for (at, byte) in written.iter().enumerate() {
                byte.set(at as u8 + 1);
                raised.raise(at as u32 + 1);
            }
        });
        for end in 1..=2 {
            if mark.covers(end) {
                // Loom says so where somebody may write to it meanwhile.
                assert_eq!(bytes[end as usize - 1].get(), end as u8);
            }
        }
        writer.join().expect("it writes");
        assert_eq!(mark.value(), 2);
    });
}
