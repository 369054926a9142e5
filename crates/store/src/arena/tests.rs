use super::*;
use crate::limits::{PAGE_BYTES, PIECE_METADATA_BYTES};
use crate::piece::Piece;
use std::sync::Weak;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Wake, Waker};

const MIB: usize = 1 << 20;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn arena(mib: u64) -> Arc<Arena> {
    Arena::new(mib << 20).expect("address space is free")
}

/// Takes pieces of this length until there are no more.
fn exhaust(arena: &Arc<Arena>, len: usize) -> Vec<PieceMut> {
    std::iter::from_fn(|| arena.allocate(len)).collect()
}

fn total(stats: ArenaStats) -> u64 {
    stats.committed_bytes + stats.metadata_bytes
}

#[test]
fn limits_out_of_range_are_refused() {
    let refused = Arena::new(1 << 20).map(drop).expect_err("one MiB is less than a frame");
    assert!(matches!(refused, StoreError::ConfigMemoryLimit { bytes: 1_048_576, .. }));
    assert!(Arena::new(u64::MAX).is_err());
    let arena = arena(8);
    assert!(arena.allocate(0).is_none());
    assert!(arena.allocate(MIB + 1).is_none());
}

#[test]
fn the_limit_is_hard_whatever_the_length() {
    for len in [1, 700, 3000, 4096, 5000, 72_000, MIB] {
        let arena = arena(16);
        let fresh = arena.stats();
        let pieces = exhaust(&arena, len);
        let full = arena.stats();
        assert!(total(full) <= 16 << 20, "{len}: {full:?}");
        assert!(full.used_bytes >= (pieces.len() * len) as u64);
        assert_eq!(full.refusals, 1);
        drop(pieces);
        let empty = arena.stats();
        assert_eq!((empty.used_bytes, empty.metadata_bytes), (0, fresh.metadata_bytes));
        // Everything has joined again: the longest pieces fit as often as in a fresh arena.
        assert_eq!(exhaust(&arena, MIB).len(), 14, "{len}");
    }
}

#[test]
fn memory_is_committed_as_it_is_needed() {
    let arena = arena(64);
    assert_eq!(arena.stats().committed_bytes, 0);
    let piece = arena.allocate(4096);
    assert_eq!(arena.stats().committed_bytes, FRAME_BYTES);
    drop(piece);
    assert_eq!(arena.stats().committed_bytes, FRAME_BYTES, "kept for the next piece");
    assert_eq!(arena.stats().free_bytes, FRAME_BYTES);
}

#[test]
fn a_piece_takes_whole_pages_and_gives_its_tail_back() {
    let arena = arena(8);
    let mut piece = arena.allocate(72_000).expect("memory is free");
    assert_eq!(arena.stats().used_bytes, 18 * PAGE_BYTES);
    piece.spare()[..5000].fill(7);
    let lease = piece.publish(5000);
    piece.trim();
    assert_eq!((piece.capacity(), arena.stats().used_bytes), (8192, 2 * PAGE_BYTES));
    drop(piece);
    assert!(lease.iter().all(|byte| *byte == 7));
    let part = lease.slice(10..20);
    drop(lease);
    assert_eq!((&*part, arena.stats().used_bytes), (&[7; 10][..], 2 * PAGE_BYTES));
    drop(part);
    assert_eq!(arena.stats().used_bytes, 0);
}

#[test]
#[should_panic(expected = "above the watermark")]
fn unpublished_bytes_cannot_be_leased() {
    let mut piece = arena(8).allocate(100).expect("memory is free");
    piece.publish(10);
    piece.share().lease(5, 6);
}

#[test]
fn metadata_gets_whole_frames_back_and_is_refused_when_there_are_none() {
    let arena = arena(16);
    let mut pieces = exhaust(&arena, MIB);
    let before = arena.stats();
    let refused = arena.charge_metadata(3 << 20);
    assert_eq!(refused, Err(StoreError::LocalMemoryFull { bytes: 3 << 20 }));
    assert_eq!(arena.stats().metadata_bytes, before.metadata_bytes);
    pieces.truncate(10);
    arena.charge_metadata(3 << 20).expect("two frames are free");
    assert!(arena.stats().committed_bytes < before.committed_bytes);
    assert!(total(arena.stats()) <= 16 << 20);
    arena.release_metadata(3 << 20);
    pieces.extend(exhaust(&arena, MIB));
    assert_eq!(arena.stats(), ArenaStats { refusals: 2, ..before });
}

#[test]
fn what_is_charged_beyond_the_limit_is_paid_back_by_the_next_free_frame() {
    let arena = arena(16);
    let mut pieces = exhaust(&arena, MIB);
    arena.charge_unrefused(2 << 20);
    assert!(total(arena.stats()) > 16 << 20);
    assert!(arena.allocate(1).is_none(), "nothing more while there is a debt");
    pieces.truncate(pieces.len() - 4);
    assert!(total(arena.stats()) <= 16 << 20);
    arena.release_metadata(2 << 20);
}

#[test]
fn metadata_finds_room_in_frames_that_are_in_use_and_gives_it_back() {
    let arena = arena(64);
    let pieces = exhaust(&arena, 128 << 10);
    // Half of all is free, and no frame is.
    let mut held: Vec<_> = pieces.into_iter().step_by(2).collect();
    arena.charge_metadata(24 << 20).expect("so much is free in parts of frames");
    assert!(total(arena.stats()) <= 64 << 20);
    let bytes = vec![7; 128 << 10];
    let fill = |arena: &Arc<Arena>| {
        let mut piece = arena.allocate(bytes.len())?;
        piece.spare().copy_from_slice(&bytes);
        piece.publish(bytes.len());
        Some(piece)
    };
    let before = held.len();
    held.extend(std::iter::from_fn(|| fill(&arena)));
    assert!(held.len() >= before + 40, "only {} pieces more", held.len() - before);
    assert!(arena.charge_metadata(4 << 20).is_err(), "all is in use");
    assert!(total(arena.stats()) <= 64 << 20);
    arena.release_metadata(24 << 20);
    held.extend(std::iter::from_fn(|| fill(&arena)));
    assert!(held.len() >= 2 * before - 16, "{} pieces of {}", held.len(), 2 * before);
    held.clear();
    assert_eq!(arena.stats().used_bytes, 0);
    assert!(total(arena.stats()) <= 64 << 20);
}

/// Makes the arena evict from the list that is returned, oldest first.
fn evict_from_list(arena: &Arc<Arena>) -> Arc<Mutex<Vec<PieceMut>>> {
    let list = Arc::new(Mutex::new(Vec::<PieceMut>::new()));
    let (held, arena_again) = (list.clone(), Arc::downgrade(arena));
    arena.set_reclaim(Box::new(move |bytes| {
        // No lock of the arena is held: asking for its figures does not hang.
        arena_again.upgrade().map(|arena| arena.stats());
        let mut freed = 0;
        while freed < bytes {
            let mut list = held.lock().expect("no test panics in here");
            if list.is_empty() {
                break;
            }
            let oldest = list.remove(0);
            drop(list);
            freed += u64::from(oldest.capacity());
            drop(oldest);
        }
        freed
    }));
    list
}

#[test]
fn the_owner_is_asked_to_evict_when_nothing_is_left() {
    let arena = arena(16);
    let list = evict_from_list(&arena);
    for _ in 0..200 {
        let piece = arena.allocate(300_000).expect("the owner evicts");
        list.lock().expect("no test panics in here").push(piece);
        assert!(total(arena.stats()) <= 16 << 20);
    }
    arena.charge_metadata(8 << 20).expect("the owner evicts until frames are free");
    assert!(total(arena.stats()) <= 16 << 20);
    assert!(arena.stats().reclaim_calls > 0 && arena.stats().reclaimed_bytes > 8 << 20);
    arena.release_metadata(8 << 20);
    // The list lives in the arena's hook, and its pieces keep the arena.
    list.lock().expect("no test panics in here").clear();
}

#[test]
fn fragments_serve_those_who_can_use_them() {
    let arena = arena(8);
    let mut pieces = exhaust(&arena, 64 << 10);
    for at in (0..pieces.len()).rev().step_by(2) {
        pieces.swap_remove(at);
    }
    assert!(arena.allocate(MIB).is_none());
    let need = Need { best: 1 << 20, good: 64 << 10, least: 16 << 10 };
    let piece = arena.allocate_near(need).expect("64 KiB are free in many places");
    assert_eq!(piece.capacity(), 64 << 10);
}

fn poll(wait: &mut MemoryWait, count: &Arc<Count>) -> Poll<PieceMut> {
    wait.poll(&mut Context::from_waker(&Waker::from(count.clone())))
}

#[test]
fn the_queue_is_served_in_order_and_nobody_overtakes() {
    let arena = arena(8);
    let mut pieces = exhaust(&arena, 64 << 10);
    let need = Need { best: 64 << 10, good: 64 << 10, least: 64 << 10 };
    let counts: Vec<Arc<Count>> = (0..3).map(|_| Arc::default()).collect();
    let mut waits: Vec<MemoryWait> = counts.iter().map(|_| arena.wait(need)).collect();
    for (wait, count) in waits.iter_mut().zip(&counts) {
        assert!(poll(wait, count).is_pending());
    }
    assert_eq!(arena.stats().waiting, 3);

    pieces.pop();
    assert!(arena.allocate(64 << 10).is_none(), "what came back is the first waiter's");
    let woken = || counts.iter().map(|count| count.0.load(SeqCst)).collect::<Vec<_>>();
    assert_eq!(woken(), [1, 0, 0]);
    let first = poll(&mut waits[0], &counts[0]);
    assert!(first.is_ready());

    // The second goes away without having looked: its memory is the third's.
    pieces.pop();
    assert_eq!(woken(), [1, 1, 0]);
    waits.remove(1);
    assert_eq!(woken(), [1, 1, 1]);
    assert!(poll(&mut waits[1], &counts[2]).is_ready());
    assert_eq!((arena.stats().waiting, arena.stats().waits), (0, 3));
}

#[test]
fn memory_that_is_free_already_serves_the_queue_at_once() {
    let arena = arena(8);
    let need = Need { best: 64 << 10, good: 16 << 10, least: 16 << 10 };
    let mut wait = arena.wait(need);
    assert!(poll(&mut wait, &Arc::default()).is_ready());
    let ungranted = arena.wait(need);
    drop((wait, ungranted));
    assert_eq!((arena.stats().used_bytes, arena.stats().waiting), (0, 0));
}

#[test]
fn pieces_keep_their_arena() {
    let arena = arena(8);
    let mut piece = arena.allocate(100).expect("memory is free");
    let weak: Weak<Arena> = Arc::downgrade(&arena);
    drop(arena);
    piece.spare().fill(1);
    assert!(weak.upgrade().is_some());
    drop(piece);
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_piece_is_charged_what_it_costs() {
    assert_eq!(size_of::<Piece>(), 8);
    let arena = arena(8);
    let before = arena.stats().metadata_bytes;
    let piece = arena.allocate(1);
    assert_eq!(arena.stats().metadata_bytes - before, PIECE_METADATA_BYTES);
    assert_eq!(arena.stats().used_bytes, 64);
    drop(piece);
}

fn placed(limit_bytes: u64, path: &std::path::Path) -> Result<Arc<Arena>, StoreError> {
    Arena::in_place(limit_bytes, &Placement::File(path.into()))
}

#[test]
fn a_file_that_is_memory_serves_as_such() {
    // tmpfs stands in for a file system with DAX.
    let folder = tempfile::tempdir_in("/dev/shm").expect("tmpfs is there");
    let path = folder.path().join("memory");
    let arena = placed(8 << 20, &path).expect("there is room");
    assert_eq!(std::fs::metadata(&path).map(|found| found.len()).ok(), Some(8 << 20));
    for round in 0..3u8 {
        let mut pieces = exhaust(&arena, MIB);
        assert!(pieces.len() >= 6, "{}", pieces.len());
        let leases: Vec<_> = pieces
            .iter_mut()
            .map(|piece| {
                piece.spare().fill(round);
                piece.publish(MIB)
            })
            .collect();
        assert!(leases.iter().all(|lease| lease.iter().all(|byte| *byte == round)));
        assert!(leases.iter().all(|lease| !lease.is_worth_lending() && !lease.is_worth_lending()));
    }
    let taken = placed(8 << 20, &path).map(drop).expect_err("it is in use");
    assert_eq!(taken, StoreError::LocalMemoryTaken { path: path.clone() });
    drop(arena);
    // It is found again, and made longer.
    placed(16 << 20, &path).expect("it was let go");
}

#[test]
fn what_cannot_be_memory_is_refused_with_a_reason() {
    let why = |path: &std::path::Path, bytes| match placed(bytes, path) {
        Err(StoreError::ConfigMemoryFile { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let shm = tempfile::tempdir_in("/dev/shm").expect("tmpfs is there");
    assert!(why(shm.path(), 8 << 20).contains("cannot be opened"));
    assert!(why(std::path::Path::new("/dev/null"), 8 << 20).contains("no DAX device"));
    let full = shm.path().join("full");
    assert!(why(&full, 1 << 41).contains("no room"));
    assert_eq!(std::fs::metadata(&full).map(|found| found.len()).ok(), Some(0));
    let disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
    assert!(why(&disk.path().join("file"), 8 << 20).contains("on a disk"));
}

#[test]
fn memory_comes_from_a_node_that_is_there() {
    let arena = Arena::in_place(8 << 20, &Placement::Node(0)).expect("every machine has node 0");
    let mut piece = arena.allocate(MIB).expect("there is room");
    piece.spare().fill(7);
    assert!(piece.publish(MIB).iter().all(|byte| *byte == 7));
    let refused = Arena::in_place(8 << 20, &Placement::Node(NODE_MAX)).map(drop);
    assert!(matches!(refused, Err(StoreError::ConfigMemoryNode { node: NODE_MAX, .. })));
}
