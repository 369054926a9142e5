//! Clients, fills, purges and evictions on several threads at once, against what every byte must
//! be. A run that stands still is a failure: nothing here waits for time.
#![allow(clippy::print_stdout, reason = "the figures are worth reading with `--nocapture`")]

mod executor;

use executor::Executor;
use freshet_store::{Arena, Body, BodyError, BodyReader, BodyWriter, Lease, Next};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A random sequence (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// One representation: its bytes follow from its seed.
#[derive(Clone)]
struct Object {
    body: Arc<Body>,
    seed: u64,
    len: u64,
}

impl Object {
    fn byte_at(&self, offset: u64) -> u8 {
        (self.seed.wrapping_add(offset.wrapping_mul(0x9E37_79B1)) >> 13) as u8
    }

    fn check(&self, offset: u64, lease: &Lease) {
        for (at, byte) in (offset..).zip(lease.iter()) {
            assert_eq!(*byte, self.byte_at(at), "wrong byte at {at} of {}", self.seed);
        }
    }
}

struct World {
    arena: Arc<Arena>,
    index: Mutex<HashMap<u64, Object>>,
    executor: Executor,
    /// How many leases a client may hold while it waits for more. Who does so when memory is almost
    /// nothing waits for himself.
    leases_max: usize,
    seed: AtomicU64,
    read_bytes: AtomicU64,
    transits: AtomicU64,
    fetches: AtomicU64,
}

impl World {
    fn new(limit_bytes: u64, threads: usize, leases_max: usize) -> Arc<Self> {
        let world = Arc::new(Self {
            arena: Arena::new(limit_bytes).expect("address space is free"),
            index: Mutex::default(),
            executor: Executor::new(threads),
            leases_max,
            seed: AtomicU64::new(1),
            read_bytes: AtomicU64::new(0),
            transits: AtomicU64::new(0),
            fetches: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&world);
        world.arena.set_reclaim(Box::new(move |bytes| {
            weak.upgrade().map_or(0, |world| world.evict(bytes))
        }));
        world
    }

    /// Takes objects nobody reads or fills out of the index.
    fn evict(&self, bytes: u64) -> u64 {
        let mut index = self.index.lock().expect("no thread panics under it");
        let keys: Vec<u64> = index.keys().copied().collect();
        let mut freed = 0;
        for key in keys {
            let body = &index[&key].body;
            if freed < bytes && body.readers() == 0 && body.writers() == 0 {
                freed += body.clear();
                index.remove(&key);
            }
        }
        freed
    }

    /// The object of this key with a reader, and a writer for a new one.
    fn look_up(
        self: &Arc<Self>,
        key: u64,
        random: &mut Random,
    ) -> (Object, BodyReader, Option<BodyWriter>) {
        let mut index = self.index.lock().expect("no thread panics under it");
        if let Some(object) = index.get(&key) {
            return (object.clone(), range(object, random), None);
        }
        let len = match random.below(10) {
            0 => random.below(3_000),
            1..8 => random.below(300_000),
            _ => random.below(6_000_000),
        };
        let total = (!random.one_in(3)).then_some(len);
        let seed = self.seed.fetch_add(0x1_0001, Relaxed);
        let is_pass = random.one_in(10);
        let body =
            if is_pass { Body::transit(&self.arena, total) } else { Body::new(&self.arena, total) };
        let object = Object { body, seed, len };
        if !is_pass {
            let weak = Arc::downgrade(self);
            object.body.on_transit(move || {
                let Some(world) = weak.upgrade() else { return };
                world.transits.fetch_add(1, Relaxed);
                let mut index = world.index.lock().expect("no thread panics under it");
                if index.get(&key).is_some_and(|object| object.seed == seed) {
                    index.remove(&key);
                }
            });
            index.insert(key, object.clone());
        }
        // The writer exists before anyone else can see the body without it.
        let writer = object.body.writer(0, None);
        let reader = if is_pass { object.body.reader(..) } else { range(&object, random) };
        (object, reader, Some(writer))
    }
}

fn range(object: &Object, random: &mut Random) -> BodyReader {
    match random.below(4) {
        0 => {
            let start = random.below(object.len);
            object.body.reader(start..start + random.below(object.len) + 1)
        }
        _ => object.body.reader(..),
    }
}

async fn fill(
    world: Arc<World>,
    object: Object,
    mut writer: BodyWriter,
    end: u64,
    mut random: Random,
) {
    world.fetches.fetch_add(1, Relaxed);
    let breaks_at = if random.one_in(12) { random.below(object.len) } else { u64::MAX };
    let step_max = 1 + random.below(60_000);
    while writer.position() < end {
        let position = writer.position();
        if position >= breaks_at {
            return match random.below(2) {
                0 => drop(writer),
                _ => writer.fail(BodyError::OriginFailed("reset".into())),
            };
        }
        let room = match writer.reserve(step_max as usize).await {
            Ok(room) => room,
            Err(BodyError::NoReaders) => return,
            Err(error) => panic!("a fill failed: {error}"),
        };
        let n = room.len().min(1 + random.below(step_max) as usize).min((end - position) as usize);
        (position..).zip(&mut room[..n]).for_each(|(at, byte)| *byte = object.byte_at(at));
        writer.commit(n);
        if random.one_in(4) {
            executor::yield_now().await;
        }
    }
    writer.finish().expect("the fill came to its end");
}

async fn client(world: Arc<World>, key: u64, mut random: Random) {
    let (object, mut reader, writer) = world.look_up(key, &mut random);
    if let Some(writer) = writer {
        let (end, random) = (object.len, Random(random.next()));
        world.executor.spawn(fill(world.clone(), object.clone(), writer, end, random));
    }
    let step_max = 1 + random.below(100_000) as usize;
    let mut kept: Vec<(u64, Lease)> = Vec::new();
    loop {
        let at = reader.position();
        match reader.next(step_max).await {
            Next::Data(lease) => {
                assert!(!lease.is_empty() && lease.len() <= step_max);
                object.check(at, &lease);
                world.read_bytes.fetch_add(lease.len() as u64, Relaxed);
                if random.one_in(8) && kept.len() < world.leases_max {
                    kept.push((at, lease));
                }
            }
            Next::End => break,
            Next::Failed(BodyError::Aborted | BodyError::OriginFailed(_)) => break,
            Next::Failed(error) => panic!("a client saw {error}"),
            Next::Hole(hole) => {
                assert_eq!(hole.start, at);
                if random.one_in(3) {
                    break;
                }
                let end = hole.end.min(object.len);
                // A body whose length is unknown and whose fill is gone may end right here.
                if end <= at {
                    break;
                }
                let writer = object.body.writer(at, Some(end));
                let random = Random(random.next());
                world.executor.spawn(fill(world.clone(), object.clone(), writer, end, random));
            }
        }
        if random.one_in(6) {
            executor::yield_now().await;
        }
        if random.one_in(300) {
            break;
        }
        // What is leased stays as it is, whatever was purged, evicted or written since.
        if random.one_in(10) {
            kept.iter().for_each(|(at, lease)| object.check(*at, lease));
        }
    }
    drop(reader);
    kept.iter().for_each(|(at, lease)| object.check(*at, lease));
}

async fn purge(world: Arc<World>, key: u64, mut random: Random) {
    let object = world.index.lock().expect("no thread panics under it").remove(&key);
    let Some(object) = object else { return };
    executor::yield_now().await;
    match random.below(3) {
        0 => object.body.enter_transit(),
        _ => drop(object.body.clear()),
    }
}

/// Runs with a seed; `FRESHET_STRESS_SEED` adds to it, for longer searches.
fn run(seed: u64, limit_bytes: u64, leases_max: usize, tasks: u64, keys: u64) {
    let world = World::new(limit_bytes, 4, leases_max);
    let fresh = world.arena.stats();
    let more = std::env::var("FRESHET_STRESS_SEED").ok().and_then(|text| text.parse::<u64>().ok());
    let seed = seed + more.unwrap_or(0);
    let mut random = Random(seed);
    for _ in 0..tasks / 64 {
        for _ in 0..64 {
            let (key, own) = (random.below(keys), Random(random.next()));
            if random.one_in(8) {
                world.executor.spawn(purge(world.clone(), key, own));
            } else {
                world.executor.spawn(client(world.clone(), key, own));
            }
        }
        // At most so many at once: more would all be waiting.
        world.executor.wait_below(192, seed);
        let stats = world.arena.stats();
        // Bodies themselves are charged even where there is no room.
        let slack = 1 << 20;
        assert!(stats.committed_bytes + stats.metadata_bytes <= limit_bytes + slack, "{stats:?}");
    }
    world.executor.wait_below(1, seed);
    let busy = world.arena.stats();
    println!(
        "seed {seed}: {} MiB read, {} fetches, {} transits, {busy:?}",
        world.read_bytes.load(Relaxed) >> 20,
        world.fetches.load(Relaxed),
        world.transits.load(Relaxed),
    );
    let held: u64 = {
        let index = world.index.lock().expect("no thread panics under it");
        index.values().map(|object| object.body.held_bytes()).sum()
    };
    assert!(held <= busy.used_bytes);
    assert_eq!((busy.pinned_bytes, busy.waiting), (0, 0));
    let index = std::mem::take(&mut *world.index.lock().expect("no thread panics under it"));
    drop(index);
    let empty = world.arena.stats();
    assert_eq!((empty.used_bytes, empty.metadata_bytes), (0, fresh.metadata_bytes), "{empty:?}");
}

#[test]
fn every_byte_is_right_with_room_to_spare() {
    run(1, 96 << 20, 4, 3_000, 60);
}

#[test]
fn every_byte_is_right_when_memory_is_short() {
    run(2, 16 << 20, 1, 3_000, 60);
}

#[test]
fn nothing_stands_still_when_memory_is_almost_nothing() {
    run(3, 4 << 20, 0, 1_500, 30);
}

#[test]
fn one_popular_key_is_shared_by_all() {
    run(4, 24 << 20, 2, 2_000, 2);
}
