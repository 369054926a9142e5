use super::*;
use crate::error::BodyError;
use crate::limits::{
    FILL_AHEAD_BYTES_MAX, PAGE_BYTES, TRANSIT_WINDOW_BYTES, TRANSIT_WINDOW_BYTES_LEAST,
    TRANSIT_WINDOW_BYTES_MIN,
};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn arena() -> Arc<Arena> {
    Arena::new(16 << 20).expect("address space is free")
}

fn byte_at(offset: u64) -> u8 {
    (offset ^ (offset >> 8) ^ (offset >> 16)) as u8
}

/// Writes what fits into one reservation and at most `len` bytes.
fn step(writer: &mut BodyWriter, len: usize) -> Poll<Result<usize, BodyError>> {
    let from = writer.position();
    let mut cx = Context::from_waker(Waker::noop());
    writer
        .poll_reserve(&mut cx, len)
        .map_ok(|room| {
            let n = room.len().min(len);
            (from..).zip(&mut room[..n]).for_each(|(at, byte)| *byte = byte_at(at));
            n
        })
        .map_ok(|n| {
            writer.commit(n);
            n
        })
}

/// Writes `len` bytes, which must not have to wait.
fn fill(writer: &mut BodyWriter, mut len: usize) {
    while len > 0 {
        match step(writer, len) {
            Poll::Ready(Ok(n)) => len -= n,
            other => panic!("{len} bytes could not be written: {other:?}"),
        }
    }
}

fn read(reader: &mut BodyReader, max: usize) -> Poll<Next> {
    reader.poll_next(&mut Context::from_waker(Waker::noop()), max)
}

/// Reads as long as there is data, checks it, and returns the number of bytes and what came then.
fn drain(reader: &mut BodyReader) -> (u64, Poll<Next>) {
    let from = reader.position();
    loop {
        let at = reader.position();
        match read(reader, 100_000) {
            Poll::Ready(Next::Data(lease)) => {
                assert!((at..).zip(lease.iter()).all(|(at, byte)| *byte == byte_at(at)));
            }
            other => return (reader.position() - from, other),
        }
    }
}

fn complete(arena: &Arc<Arena>, len: usize) -> Arc<Body> {
    let body = Body::new(arena, Some(len as u64));
    let mut writer = body.writer(0, None);
    fill(&mut writer, len);
    writer.finish().expect("every byte was written");
    assert!(body.is_complete());
    body
}

#[test]
fn readers_see_bytes_as_soon_as_they_are_committed() {
    let body = Body::new(&arena(), None);
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut cx = Context::from_waker(&waker);
    let mut writer = body.writer(0, None);
    let mut reader = body.reader(..);
    assert!(reader.poll_next(&mut cx, 10).is_pending());
    fill(&mut writer, 15);
    assert_eq!(count.0.load(SeqCst), 1);
    let Poll::Ready(Next::Data(first)) = reader.poll_next(&mut cx, 10) else { panic!("no data") };
    assert_eq!((first.len(), first[9]), (10, byte_at(9)));
    assert_eq!(drain(&mut reader).0, 5);
    assert!(reader.poll_next(&mut cx, 10).is_pending());
    assert_eq!((body.total(), body.is_complete(), body.held_bytes()), (None, false, 15));
    writer.finish().expect("an open end is where the writer stops");
    assert_eq!(count.0.load(SeqCst), 2);
    assert!(matches!(drain(&mut reader), (0, Poll::Ready(Next::End))));
    assert_eq!((body.total(), body.is_complete()), (Some(15), true));
}

#[test]
fn an_empty_body_ends_at_once() {
    let body = Body::new(&arena(), None);
    let mut reader = body.reader(..);
    body.writer(0, None).finish().expect("nothing was announced");
    assert!(matches!(read(&mut reader, 1), Poll::Ready(Next::End)));
    assert!(body.is_complete());
}

#[test]
fn ranges_end_where_they_or_the_body_end() {
    let body = complete(&arena(), 100_000);
    for (range, want) in [(10..20, 10), (99_990..200_000, 10), (100_000..100_001, 0), (50..50, 0)] {
        assert!(matches!(drain(&mut body.reader(range)), (n, Poll::Ready(Next::End)) if n == want));
    }
    assert!(matches!(drain(&mut body.reader(..=9)), (10, Poll::Ready(Next::End))));
}

#[test]
fn bytes_in_one_piece_are_leased_without_a_reader() {
    let arena = arena();
    // A page: one that is longer by a part of a page lies in two pieces.
    let body = complete(&arena, 4096);
    let lease = body.lease(1000..4096).expect("it is held in one piece");
    assert!(lease.iter().zip(1000..).all(|(byte, at)| *byte == byte_at(at)));
    assert!(body.lease(1000..4097).is_none());
    assert!(body.lease(4096..4096).is_none());
    assert_eq!(body.readers(), 0);
    body.clear();
    assert!(body.lease(0..1).is_none());
    assert_eq!(lease.len(), 3096);
    assert_eq!(lease[0], byte_at(1000));

    let passing = Body::transit(&arena, Some(10));
    let mut writer = passing.writer(0, None);
    fill(&mut writer, 10);
    assert!(passing.lease(0..10).is_none());
}

#[test]
fn holes_are_named_and_writers_fill_them() {
    let body = Body::new(&arena(), Some(30_000));
    let mut reader = body.reader(5_000..);
    assert!(
        matches!(read(&mut reader, 1), Poll::Ready(Next::Hole(hole)) if hole == (5_000..30_000))
    );
    let mut later = body.writer(20_000, Some(25_000));
    fill(&mut later, 5_000);
    later.finish().expect("its part is written");
    assert!(
        matches!(read(&mut reader, 1), Poll::Ready(Next::Hole(hole)) if hole == (5_000..20_000))
    );
    let mut first = body.writer(5_000, Some(20_000));
    assert!(read(&mut reader, 1).is_pending());
    fill(&mut first, 15_000);
    assert!(matches!(
        step(&mut first, 1),
        Poll::Ready(Err(BodyError::OriginTooLong { expected: 20_000 }))
    ));
    first.finish().expect("its part is written");
    let (n, then) = drain(&mut reader);
    assert!(matches!(then, Poll::Ready(Next::Hole(hole)) if hole == (25_000..30_000)));
    assert_eq!((n, body.held_bytes(), body.is_complete()), (20_000, 20_000, false));
}

#[test]
fn a_reader_far_ahead_of_the_writer_sees_a_hole() {
    let body = Body::new(&arena(), Some(10 << 20));
    let mut writer = body.writer(0, None);
    let far = FILL_AHEAD_BYTES_MAX + 1;
    let mut reader = body.reader(far..far + 10);
    assert!(
        matches!(read(&mut reader, 1), Poll::Ready(Next::Hole(hole)) if hole == (far..far + 10))
    );
    fill(&mut writer, 1);
    assert!(read(&mut reader, 1).is_pending());
}

#[test]
fn bytes_that_are_held_are_not_stored_twice() {
    let body = Body::new(&arena(), Some(100_000));
    let mut middle = body.writer(40_000, Some(60_000));
    fill(&mut middle, 10_000);
    let mut whole = body.writer(0, None);
    fill(&mut whole, 45_000);
    // Room that was given out before the other writer came is cut at the commit.
    let mut cx = Context::from_waker(Waker::noop());
    fill(&mut middle, 2_000);
    let mut overlapping = body.writer(55_000, Some(70_000));
    let Poll::Ready(Ok(room)) = overlapping.poll_reserve(&mut cx, 15_000) else {
        panic!("no room")
    };
    let n = room.len();
    (55_000..).zip(room).for_each(|(at, byte)| *byte = byte_at(at));
    fill(&mut middle, 8_000);
    overlapping.commit(n);
    fill(&mut whole, 55_000);
    whole.finish().expect("all bytes were sent");
    assert_eq!(body.held_bytes(), 100_000);
    assert!(body.is_complete());
    assert!(matches!(drain(&mut body.reader(..)), (100_000, Poll::Ready(Next::End))));
}

#[test]
fn a_writer_that_fails_or_goes_away_tells_its_readers() {
    let body = Body::new(&arena(), Some(10_000));
    let mut writer = body.writer(0, None);
    let mut reader = body.reader(..);
    fill(&mut writer, 100);
    writer.fail(BodyError::OriginFailed("reset".into()));
    let (n, then) = drain(&mut reader);
    let reset = BodyError::OriginFailed("reset".into());
    assert!(matches!(then, Poll::Ready(Next::Failed(error)) if error == reset));
    assert_eq!(n, 100);

    // Another one takes over, and is dropped.
    let mut again = body.writer(100, None);
    assert!(read(&mut reader, 1).is_pending());
    fill(&mut again, 100);
    drop(again);
    let (n, then) = drain(&mut reader);
    assert!(matches!(then, Poll::Ready(Next::Failed(BodyError::Aborted))));
    assert_eq!(n, 100);
}

#[test]
fn what_a_writer_leaves_is_missing_and_may_come_from_another() {
    let body = Body::new(&arena(), Some(10_000));
    let mut writer = body.writer(0, None);
    let mut reader = body.reader(..);
    fill(&mut writer, 100);
    writer.leave();
    let (n, then) = drain(&mut reader);
    assert!(matches!(then, Poll::Ready(Next::Hole(hole)) if hole == (100..10_000)));
    assert_eq!(n, 100);
    let mut other = body.writer(100, None);
    fill(&mut other, 9_900);
    other.finish().expect("all bytes were sent");
    assert!(matches!(drain(&mut reader), (9_900, Poll::Ready(Next::End))));
}

#[test]
fn an_end_before_the_announced_one_is_the_origins_fault() {
    let body = Body::new(&arena(), Some(10_000));
    let mut reader = body.reader(..);
    let mut writer = body.writer(0, None);
    fill(&mut writer, 5);
    let truncated = BodyError::OriginTruncated { expected: 10_000, got: 5 };
    assert_eq!(writer.finish(), Err(truncated.clone()));
    assert!(matches!(drain(&mut reader).1, Poll::Ready(Next::Failed(error)) if error == truncated));
}

#[test]
fn an_open_end_before_bytes_that_are_held_is_the_origins_fault() {
    let body = Body::new(&arena(), None);
    let mut later = body.writer(100, Some(200));
    fill(&mut later, 100);
    later.finish().expect("its part is written");
    let mut writer = body.writer(0, None);
    fill(&mut writer, 50);
    assert_eq!(writer.finish(), Err(BodyError::OriginTruncated { expected: 200, got: 50 }));
    assert_eq!(body.total(), None);
    assert!(!body.set_total(150));
    assert!(body.set_total(200) && !body.set_total(201));
}

#[test]
fn memory_of_short_and_finished_bodies_is_what_they_need() {
    let arena = arena();
    let known = complete(&arena, 500);
    assert_eq!(arena.stats().used_bytes, 512);
    let unknown = Body::new(&arena, None);
    let mut writer = unknown.writer(0, None);
    fill(&mut writer, 500);
    assert_eq!(arena.stats().used_bytes, 512 + (16 << 10));
    let mut reader = unknown.reader(..);
    let Poll::Ready(Next::Data(lease)) = read(&mut reader, 100) else { panic!("no data") };
    writer.finish().expect("an open end");
    assert_eq!(arena.stats().used_bytes, 512 + PAGE_BYTES + 512, "the lease holds the page");
    assert!((0..).zip(lease.iter()).all(|(at, byte)| *byte == byte_at(at)));
    drop(lease);
    assert_eq!(arena.stats().used_bytes, 1024);
    assert!(matches!(drain(&mut reader), (400, Poll::Ready(Next::End))));

    let longer = Body::new(&arena, None);
    let mut writer = longer.writer(0, None);
    fill(&mut writer, 70_000);
    writer.finish().expect("an open end");
    assert_eq!(arena.stats().used_bytes, 1024 + 18 * PAGE_BYTES);
    drop((known, unknown, reader, longer));
    assert_eq!(arena.stats().used_bytes, 0);
}

#[test]
fn clearing_frees_what_nobody_reads_and_pins_the_rest() {
    let arena = arena();
    let body = complete(&arena, 1 << 20);
    let mut reader = body.reader(..);
    let Poll::Ready(Next::Data(lease)) = read(&mut reader, 10) else { panic!("no data") };
    assert_eq!(body.clear(), 0);
    assert_eq!(arena.stats().pinned_bytes, 1 << 20);
    assert!(matches!(drain(&mut reader), (n, Poll::Ready(Next::End)) if n == (1 << 20) - 10));
    drop(reader);
    assert_eq!((body.held_bytes(), arena.stats().used_bytes), (0, 1 << 20));
    assert!(matches!(drain(&mut body.reader(..)), (0, Poll::Ready(Next::Hole(_)))));
    assert_eq!(lease[9], byte_at(9));
    drop(lease);
    assert_eq!((arena.stats().pinned_bytes, arena.stats().used_bytes), (0, 0));
    assert_eq!(complete(&arena, 1 << 20).clear(), 1 << 20);
}

#[test]
fn a_cleared_fill_goes_on_for_its_readers_only() {
    let arena = arena();
    let body = Body::new(&arena, Some(1 << 20));
    let mut reader = body.reader(..);
    let mut writer = body.writer(0, None);
    fill(&mut writer, 1000);
    body.clear();
    fill(&mut writer, 1000);
    assert_eq!(drain(&mut reader).0, 2000);
    drop(reader);
    assert_eq!(body.held_bytes(), 0);
    assert_eq!(step(&mut writer, 1), Poll::Ready(Err(BodyError::NoReaders)));
}

#[test]
fn transit_holds_a_window_and_waits_for_the_slowest_reader() {
    let arena = arena();
    let body = Body::transit(&arena, None);
    let mut writer = body.writer(0, None);
    for limit in [TRANSIT_WINDOW_BYTES_LEAST, TRANSIT_WINDOW_BYTES] {
        while step(&mut writer, 10_000).is_ready() {}
        assert!((limit..limit + 10_000).contains(&writer.position()));
        body.widen();
    }
    let window = writer.position();

    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let (mut slow, mut fast) = (body.reader(..), body.reader(..));
    let mut cx = Context::from_waker(&waker);
    assert!(writer.poll_reserve(&mut cx, 1).is_pending());
    assert_eq!(drain(&mut fast).0, window);
    assert_eq!((count.0.load(SeqCst), body.held_bytes()), (0, window));
    assert!(matches!(read(&mut slow, 100_000), Poll::Ready(Next::Data(_))));
    assert_eq!(count.0.load(SeqCst), 1);
    assert!(body.held_bytes() < window);
    assert!(step(&mut writer, 1).is_ready());

    drop(slow);
    assert_eq!(drain(&mut fast).0, 1);
    assert_eq!(body.held_bytes(), 0);
    assert!(writer.poll_reserve(&mut cx, 1).is_ready());
    drop(fast);
    assert_eq!(step(&mut writer, 1), Poll::Ready(Err(BodyError::NoReaders)));
    let mut late = body.reader(..);
    drop(writer);
    assert!(matches!(read(&mut late, 1), Poll::Ready(Next::Hole(_))));
}

#[test]
fn a_reader_that_keeps_up_has_more_ahead_of_it_than_one_that_does_not() {
    let body = Body::transit(&arena(), None);
    let (mut writer, mut reader) = (body.writer(0, None), body.reader(..));
    while writer.position() < 1 << 20 {
        assert!(step(&mut writer, 4096).is_ready());
        let _ = drain(&mut reader);
    }
    while step(&mut writer, 4096).is_ready() {}
    let ahead_bytes = writer.position() - (1 << 20);
    assert!((TRANSIT_WINDOW_BYTES_MIN..TRANSIT_WINDOW_BYTES_MIN + 4096).contains(&ahead_bytes));
}

#[test]
fn a_reader_behind_a_gap_does_not_hold_up_the_writer_ahead() {
    let body = Body::transit(&arena(), Some(8 << 20));
    let (mut ahead, mut first) = (body.writer(0, None), body.reader(..));
    while ahead.position() < 1 << 20 {
        fill(&mut ahead, 16 << 10);
        assert_eq!(drain(&mut first).0, 16 << 10);
    }
    let mut late = body.reader(..);
    assert!(matches!(read(&mut late, 1), Poll::Ready(Next::Hole(hole)) if hole == (0..1 << 20)));
    fill(&mut ahead, 1000);
    assert_eq!(drain(&mut first).0, 1000);

    // The late one gets a writer of its own; when the first leaves, what the one ahead brings would
    // be gone before the late one came to it.
    let mut behind = body.writer(0, Some(1 << 20));
    fill(&mut behind, 10_000);
    assert_eq!(drain(&mut late).0, 10_000);
    drop(first);
    assert_eq!(step(&mut behind, 1), Poll::Ready(Ok(1)));
    assert_eq!(step(&mut ahead, 1), Poll::Ready(Err(BodyError::NoReaders)));
}

#[test]
fn a_large_response_passes_through_little_memory() {
    let arena = Arena::new(4 << 20).expect("address space is free");
    let body = Body::new(&arena, Some(100 << 20));
    let entered = Arc::new(Count::default());
    let hook = entered.clone();
    body.on_transit(move || hook.wake());
    let (mut writer, mut reader) = (body.writer(0, None), body.reader(..));
    let mut sum = 0;
    while writer.position() < 100 << 20 {
        while writer.position() < 100 << 20 && step(&mut writer, 60_000).is_ready() {}
        sum += drain(&mut reader).0;
    }
    writer.finish().expect("every byte was written");
    assert!(matches!(drain(&mut reader), (_, Poll::Ready(Next::End))));
    assert_eq!((sum, entered.0.load(SeqCst)), (100 << 20, 1));
    assert!(body.is_transit() && !body.is_complete());
    let late = entered.clone();
    body.on_transit(move || late.wake());
    assert_eq!(entered.0.load(SeqCst), 2);
}

#[test]
fn without_leave_to_enter_transit_short_memory_is_an_error() {
    let arena = Arena::new(4 << 20).expect("address space is free");
    let body = Body::new(&arena, Some(100 << 20));
    let (mut writer, mut reader) = (body.writer(0, None), body.reader(..));
    writer.set_allow_transit(false);
    let error = loop {
        if let Poll::Ready(Err(error)) = step(&mut writer, 60_000) {
            break error;
        }
    };
    assert_eq!((error, body.is_transit()), (BodyError::NoMemory, false));
    assert!(drain(&mut reader).1.is_pending());
    body.enter_transit();
    assert_eq!(body.held_bytes(), 0);
    fill(&mut writer, 100_000);
}

#[test]
fn when_all_memory_is_in_fills_each_goes_on_in_turn() {
    let arena = Arena::new(4 << 20).expect("address space is free");
    let total = 3 << 20;
    let bodies: Vec<_> = (0..40).map(|_| Body::new(&arena, Some(total))).collect();
    let mut pairs: Vec<_> =
        bodies.iter().map(|body| (body.writer(0, None), body.reader(..))).collect();
    let mut rounds = 0;
    while pairs.iter().any(|(writer, _)| writer.position() < total) {
        for (writer, _) in &mut pairs {
            while writer.position() < total && step(writer, 50_000).is_ready() {}
        }
        for (_, reader) in &mut pairs {
            let _ = drain(reader);
        }
        rounds += 1;
        assert!(rounds < 1000, "the fills stand still: {arena:?}");
    }
    assert!(arena.stats().waits > 0);
    for (writer, mut reader) in pairs {
        writer.finish().expect("every byte was written");
        assert!(matches!(drain(&mut reader).1, Poll::Ready(Next::End)));
    }
    assert_eq!((arena.stats().used_bytes, arena.stats().waiting), (0, 0));
}

#[test]
fn a_writer_that_waits_for_memory_hears_that_its_readers_left() {
    let arena = Arena::new(4 << 20).expect("address space is free");
    let _all: Vec<_> = std::iter::from_fn(|| arena.allocate(4096)).collect();
    let body = Body::transit(&arena, None);
    let (mut writer, reader) = (body.writer(0, None), body.reader(..));
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    assert!(writer.poll_reserve(&mut Context::from_waker(&waker), 1).is_pending());
    assert_eq!(arena.stats().waiting, 1);
    drop(reader);
    assert_eq!(count.0.load(SeqCst), 1);
    assert_eq!(step(&mut writer, 1), Poll::Ready(Err(BodyError::NoReaders)));
    drop(writer);
    assert_eq!(arena.stats().waiting, 0);
}

#[test]
fn a_reader_that_leaves_lets_its_body_be_evicted_for_those_who_wait() {
    let arena = Arena::new(4 << 20).expect("address space is free");
    let evictable = complete(&arena, 1 << 20);
    let held = Arc::downgrade(&evictable);
    let held = move |_| held.upgrade().map_or(0, |body| body.clear());
    let mut reader = evictable.reader(..);
    let _rest: Vec<_> = std::iter::from_fn(|| arena.allocate(4096)).collect();
    arena.set_reclaim(Box::new(held));
    let body = Body::transit(&arena, None);
    let (mut writer, _client) = (body.writer(0, None), body.reader(..));
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    assert!(writer.poll_reserve(&mut Context::from_waker(&waker), 1).is_pending());
    assert_eq!(drain(&mut reader).0, 1 << 20);
    drop(reader);
    assert!(count.0.load(SeqCst) > 0);
    assert!(step(&mut writer, 1).is_ready());
}

#[test]
fn trailers_come_with_the_end() {
    let body = Body::new(&arena(), None);
    assert_eq!(body.trailers(), None);
    body.set_trailers([("Digest", "x")].into_iter().collect());
    assert_eq!(body.trailers().and_then(|fields| fields.get("digest")), Some(&b"x"[..]));
}

#[test]
fn bodies_and_their_readers_cost_what_is_charged() {
    let arena = arena();
    let before = arena.stats();
    let bodies: Vec<_> = (0..100).map(|_| Body::new(&arena, None)).collect();
    let each = (arena.stats().metadata_bytes - before.metadata_bytes) / 100;
    assert!((150..350).contains(&each), "{each}");
    drop(bodies);
    assert_eq!(arena.stats().metadata_bytes, before.metadata_bytes);
}

#[test]
fn a_short_body_that_is_whole_costs_two_lines() {
    let arena = arena();
    let charged = || arena.stats().metadata_bytes;
    let before = charged();
    let body = complete(&arena, 1000);
    let rested = charged() - before;
    assert_eq!(rested, 128 + crate::limits::PIECE_METADATA_BYTES);
    assert_eq!(size_of::<Body>() + 16, 128);
    // Who reads it has a place for as long as it does.
    let mut reader = body.reader(500..);
    assert_eq!((body.readers(), drain(&mut reader).0), (1, 500));
    drop(reader);
    assert_eq!((body.readers(), charged() - before), (0, rested));
    assert_eq!(body.lease(0..1000).map(|lease| lease.len()), Some(1000));
    // One that is longer, or not whole, keeps the places of those to come.
    let long = complete(&arena, 5000);
    let part = Body::new(&arena, Some(1000));
    drop(part.writer(0, None));
    assert!(charged() - before > 2 * rested + 100);
    drop((body, long, part));
    assert_eq!(charged(), before);
}
