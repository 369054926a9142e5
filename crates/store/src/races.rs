//! What threads do to each other, in pieces small enough for an interpreter that looks at every access: a race or
//! a reference that is not allowed is an error there, whatever the bytes turn out to be (`bench/miri/run`).
//! Machine code runs the same many times over.

use crate::arena::Arena;
use crate::limits::PIECE_BYTES_MAX;
use crate::piece::{Lease, PieceMut, WeakLease};
use std::sync::Arc;
use std::thread;

/// How often a race is run: an interpreter chooses another order by its seed.
const ROUNDS: u32 = if cfg!(miri) { 1 } else { 200 };
const ARENA_BYTES: u64 = 4 << 20;

fn arena() -> Arc<Arena> {
    Arena::new(ARENA_BYTES).expect("address space is free")
}

fn write(piece: &mut PieceMut, bytes: usize, value: u8) -> Lease {
    piece.spare()[..bytes].fill(value);
    piece.publish(bytes)
}

#[test]
fn readers_see_what_was_published_while_more_is_written() {
    let arena = arena();
    for _ in 0..ROUNDS {
        let mut piece = arena.allocate(300).expect("memory is free");
        let share = piece.share();
        thread::scope(|scope| {
            scope.spawn(move || {
                (1..=3).for_each(|value| drop(write(&mut piece, 100, value)));
                piece.trim();
            });
            // Nothing but the watermark says that a part is there.
            for part in 1..=3u8 {
                let end = u32::from(part) * 100;
                while share.published() < end {
                    thread::yield_now();
                }
                let lease = share.lease(end - 100, 100);
                assert!(lease.iter().all(|byte| *byte == part));
            }
        });
    }
}

#[test]
fn memory_that_one_thread_lets_go_of_is_written_by_another() {
    let arena = arena();
    for _ in 0..ROUNDS {
        // There is room for a few, so that it is used over and over.
        let len = PIECE_BYTES_MAX as usize;
        thread::scope(|scope| {
            for value in [1, 2] {
                let arena = &arena;
                scope.spawn(move || {
                    for _ in 0..2 {
                        let Some(mut piece) = arena.allocate(len) else { continue };
                        let lease = write(&mut piece, 64, value);
                        let reader = thread::spawn(move || lease.iter().all(|byte| *byte == value));
                        drop(piece);
                        assert!(reader.join().expect("it reads"));
                    }
                });
            }
        });
    }
    assert_eq!(arena.stats().used_bytes, 0);
}

#[test]
fn a_claim_gets_whole_bytes_or_none_while_they_go() {
    let arena = arena();
    for _ in 0..ROUNDS {
        let mut piece = arena.allocate(200).expect("memory is free");
        let lease = write(&mut piece, 200, 7);
        let claim: WeakLease = lease.downgrade();
        thread::scope(|scope| {
            scope.spawn(move || drop((piece, lease)));
            if let Some(lease) = claim.upgrade() {
                assert!(lease.iter().all(|byte| *byte == 7));
            }
            // What comes into the same memory is another's.
            let mut next = arena.allocate(200).expect("memory is free");
            write(&mut next, 200, 8);
        });
        assert!(claim.upgrade().is_none());
    }
}
