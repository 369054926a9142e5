//! Many threads at once, and what must hold whatever they do.

use crate::fixture::*;
use freshet_cache::{Cache, Failure, Key, Lookup, LowerTakes, Object, Purge, Ticket, WaitOutcome};
use freshet_http::reason::Reason;
use freshet_store::{Arena, Body, BodyWriter, Next};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

const THREADS: u64 = 4;
const KEYS: u64 = 24;
const STEPS: u64 = 3_000;
const BODY_BYTES_MAX: u64 = 300_000;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// An origin whose content has versions, and the requests it is serving.
#[derive(Default)]
struct Origin {
    version: AtomicU64,
    fetching: AtomicU64,
    fetches: AtomicU64,
}

struct World {
    cache: Arc<Cache>,
    origins: Vec<(Key, Origin)>,
    /// Whether purges come; without them fetches are strictly one at a time.
    purges: bool,
}

/// The bytes of a body: they tell key, version and offset.
fn pattern(key: u64, version: u64, offset: u64) -> u8 {
    (key.wrapping_mul(31) ^ version.wrapping_mul(131) ^ (offset >> 10)) as u8
}

fn body_bytes(key: u64) -> u64 {
    1 + (key * 7919 * 131) % BODY_BYTES_MAX
}

impl World {
    fn new(limit_bytes: u64, purges: bool) -> Self {
        let cache = cache(limit_bytes);
        let origins = (0..KEYS)
            .map(|number| (key(&cache, &format!("/{number}")), Origin::default()))
            .collect();
        Self { cache, origins, purges }
    }

    fn run(&self) {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || self.visit(Random(thread * 2_654_435_761 + 88_172_645)));
            }
        });
    }

    fn visit(&self, mut random: Random) {
        for _ in 0..STEPS {
            // The lower half is more popular.
            let number = random.below(KEYS).min(random.below(KEYS));
            if self.purges && random.below(10) == 0 {
                self.purge(number, random.below(3));
            } else {
                self.request(number, &mut random);
            }
        }
    }

    fn purge(&self, number: u64, how: u64) {
        let (key, origin) = &self.origins[number as usize];
        origin.version.fetch_add(1, SeqCst);
        match how {
            0 => self.cache.purge(key, Purge::Hard),
            1 => self.cache.purge(key, Purge::Soft(START)),
            _ => self.cache.purge_tag(number, Purge::Hard),
        };
    }

    fn request(&self, number: u64, random: &mut Random) {
        let (key, _) = &self.origins[number as usize];
        loop {
            match look(&self.cache, key, &request(&[]), START) {
                Lookup::Hit { object, refresh } => {
                    drop(refresh);
                    return read(number, &object, random);
                }
                Lookup::Miss { ticket, .. } => {
                    return self.fetch(number, ticket, random);
                }
                Lookup::HitForMiss { ticket, .. } => drop(ticket),
                Lookup::Crowded { .. } => panic!("nobody waits that long"),
                Lookup::Wait { waiter, .. } => {
                    if random.below(20) == 0 {
                        return drop(waiter);
                    }
                    if let WaitOutcome::Failed(failure) = block_on(waiter) {
                        assert_eq!(failure.status, 502);
                        return;
                    }
                }
            }
        }
    }

    fn fetch(&self, number: u64, ticket: Ticket, random: &mut Random) {
        let (_, origin) = &self.origins[number as usize];
        if ticket.is_exclusive() && !self.purges {
            assert_eq!(origin.fetching.fetch_add(1, SeqCst), 0, "two fetches of one key");
        }
        origin.fetches.fetch_add(1, SeqCst);
        let version = origin.version.load(SeqCst);
        std::thread::yield_now();
        if !self.purges {
            origin.fetching.fetch_sub(1, SeqCst);
        }
        match random.below(20) {
            0 => return drop(ticket),
            1 => {
                let detail = "no".into();
                let reason = Reason::OriginNameUnknown;
                let failure = Failure { status: 502, error: None, reason, detail };
                return ticket.fail(Arc::new(failure));
            }
            _ => {}
        }
        let bytes = body_bytes(number);
        let total = (random.below(2) == 0).then_some(bytes);
        let body = Body::new(self.cache.arena(), total);
        let mut made = head(1000);
        made.fields.set("ETag", version.to_le_bytes());
        let mut spec = spec_of(made, Arc::clone(&body));
        spec.tags = Box::new([number]);
        let reader = body.reader(..);
        let mut writer = body.writer(0, None);
        // As a node with little memory for a large object would: it waits for no reader of its
        // own, which is on this very thread.
        writer.set_allow_transit(false);
        let object = ticket.insert(spec);
        if fill(&mut writer, number, version, bytes) {
            writer.finish().expect("all was written");
        } else {
            self.cache.forget(&object);
            drop(writer);
        }
        drop(reader);
    }
}

/// Reads a part and checks that it is all of one version.
fn read(number: u64, object: &Object, random: &mut Random) {
    let version = version_of(object);
    let until = random.below(body_bytes(number)) + 1;
    let mut reader = object.body().reader(..until);
    let mut offset = 0;
    loop {
        match block_on(reader.next(64 << 10)) {
            Next::Data(lease) => {
                for (at, byte) in lease.iter().enumerate() {
                    assert_eq!(*byte, pattern(number, version, offset + at as u64));
                }
                offset += lease.len() as u64;
            }
            Next::End => return assert_eq!(offset, until),
            // Evicted, purged or given up while it was filled: a node would fetch the rest.
            Next::Hole(_) | Next::Failed(_) => return,
        }
    }
}

fn fill(writer: &mut BodyWriter, number: u64, version: u64, bytes: u64) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    while writer.position() < bytes {
        let position = writer.position();
        let Poll::Ready(Ok(room)) = writer.poll_reserve(&mut cx, 8 << 10) else { return false };
        let len = room.len().min(8 << 10).min((bytes - position) as usize);
        for (at, byte) in room[..len].iter_mut().enumerate() {
            *byte = pattern(number, version, position + at as u64);
        }
        writer.commit(len);
    }
    true
}

fn assert_settled(world: &World) {
    let stats = world.cache.stats();
    let counters = stats.counters;
    let left = counters.evicted + counters.replaced + counters.forgotten;
    // Soft purges take nothing out, so with purges this is no more than a bound.
    assert!(stats.objects + left <= counters.inserted);
    if !world.purges {
        assert_eq!(stats.objects + left, counters.inserted);
    }
    for (key, _) in &world.origins {
        let peek = world.cache.peek(key);
        assert_eq!((peek.fetches, peek.waiters), (0, 0));
    }
    let arena = world.cache.arena().stats();
    assert!(arena.committed_bytes + arena.metadata_bytes <= arena.limit_bytes);
    assert_eq!((arena.pinned_bytes, arena.waiting), (0, 0));
    while world.cache.reclaim(u64::MAX) > 0 {}
    assert_eq!(world.cache.stats().objects, 0);
    assert_eq!(world.cache.arena().stats().used_bytes, 0);
}

#[test]
fn each_key_is_fetched_by_one_at_a_time_and_bytes_are_right() {
    let world = World::new(64 * MIB, false);
    world.run();
    assert_settled(&world);
}

#[test]
fn the_same_with_little_memory() {
    let world = World::new(4 * MIB, false);
    world.run();
    assert!(world.cache.stats().counters.evicted > 0);
    assert_settled(&world);
}

#[test]
fn the_same_with_purges() {
    let world = World::new(6 * MIB, true);
    world.run();
    assert!(world.cache.stats().counters.refused_purged > 0);
    assert_settled(&world);
}

#[test]
fn the_same_with_purges_and_memory_of_a_lower_class() {
    let world = World::new(4 * MIB, true);
    let arena = Arena::new(4 * MIB).expect("address space is there");
    let takes = LowerTakes { bytes: 0..=u64::MAX, lifetime_min: Duration::ZERO };
    assert!(world.cache.set_lower(Arc::clone(&arena), takes));
    let mover = Arc::clone(&world.cache);
    let mover = std::thread::spawn(move || mover.serve_lower());
    world.run();
    world.cache.end_lower();
    mover.join().expect("it does not panic");
    let lower = world.cache.lower_stats().expect("there is a lower class");
    assert!(lower.demoted > 0 && lower.hits > 0 && lower.promoted > 0, "{lower:?}");
    assert_settled(&world);
    let lower = world.cache.lower_stats().expect("there is a lower class");
    assert_eq!((lower.objects, lower.used_bytes, arena.stats().pinned_bytes), (0, 0, 0));
}

#[test]
fn nothing_from_before_a_purge_is_served_after_it() {
    let cache = cache(32 * MIB);
    let key = key(&cache, "/a");
    let origin = AtomicU64::new(0);
    let purged = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..THREADS - 1 {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    let least = purged.load(SeqCst);
                    match look(&cache, &key, &request(&[]), START) {
                        Lookup::Hit { object, .. } => assert!(version_of(&object) >= least),
                        Lookup::Miss { ticket, .. } => {
                            let mut made = head(1000);
                            let version = origin.load(SeqCst);
                            made.fields.set("ETag", version.to_le_bytes());
                            std::thread::yield_now();
                            let body = Body::new(cache.arena(), Some(0));
                            let mut spec = spec_of(made, body);
                            spec.tags = Box::new([7]);
                            ticket.insert(spec);
                        }
                        Lookup::Wait { waiter, .. } => _ = block_on(waiter),
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
        for version in 1..=20_000 {
            origin.store(version, SeqCst);
            match version % 3 {
                0 => cache.purge(&key, Purge::Hard),
                1 => cache.purge_tag(7, Purge::Hard),
                _ => cache.purge_all(Purge::Hard),
            };
            purged.store(version, SeqCst);
        }
        done.store(true, SeqCst);
    });
    assert!(cache.stats().counters.inserted > 0);
}

fn version_of(object: &Object) -> u64 {
    let head = object.head();
    let tag = head.etag().expect("it was set");
    u64::from_le_bytes(tag.try_into().expect("eight bytes"))
}
