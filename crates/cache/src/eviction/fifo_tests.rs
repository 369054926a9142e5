use super::*;
use crate::eviction::queue::COMPACTION_FLOOR_ENTRIES;
use std::collections::HashMap;

#[derive(Debug)]
struct Entry {
    name: u64,
    bytes: AtomicU64,
    busy: Busy,
    usage: Usage,
}

impl Resident for Entry {
    fn usage(&self) -> &Usage {
        &self.usage
    }
    fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
    fn bytes_expected(&self) -> u64 {
        self.bytes()
    }
    fn may_grow(&self) -> bool {
        self.busy == Busy::Filling
    }
    fn busy(&self) -> Busy {
        self.busy
    }
    fn fingerprint(&self) -> u64 {
        self.name.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    fn objective(&self) -> Objective {
        Objective::Bytes
    }
}

/// A cache of `limit` bytes over the queue: what the index does, without the index.
struct Toy {
    fifo: S3Fifo<Entry>,
    map: HashMap<u64, Arc<Entry>>,
    limit: u64,
    hits: u64,
}

impl Toy {
    fn new(limit: u64) -> Self {
        Self {
            fifo: S3Fifo::new(Tactic::first(Objective::Bytes)),
            map: HashMap::new(),
            limit,
            hits: 0,
        }
    }

    fn request(&mut self, name: u64, bytes: u64, busy: Busy) -> bool {
        if let Some(entry) = self.map.get(&name) {
            entry.usage.touch();
            self.hits += 1;
            return true;
        }
        while self.fifo.bytes() + bytes > self.limit {
            let victim = self.fifo.evict(Busy::Filling).expect("something is resident");
            assert!(self.map.remove(&victim.name).is_some());
        }
        let entry =
            Arc::new(Entry { name, bytes: AtomicU64::new(bytes), busy, usage: Usage::default() });
        self.fifo.push(&entry);
        self.map.insert(name, entry);
        assert_eq!(self.fifo.len(), self.map.len());
        false
    }
}

/// Hits of plain LRU with room for `capacity` entries, by a clock per entry.
fn lru_hits(requests: &[u64], capacity: usize) -> u64 {
    let mut last_use: HashMap<u64, usize> = HashMap::new();
    let mut order = std::collections::BTreeMap::new();
    let mut hits = 0;
    for (now, name) in requests.iter().enumerate() {
        if let Some(before) = last_use.insert(*name, now) {
            order.remove(&before);
            hits += 1;
        } else if order.len() == capacity {
            let (_, oldest) = order.pop_first().expect("it is full");
            last_use.remove(&oldest);
        }
        order.insert(now, *name);
    }
    hits
}

/// Numbers that look random, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Requests for `names` things whose popularity falls with their rank to the power of `skew`.
fn zipf(names: usize, skew: f64, len: usize, seed: u64) -> Vec<u64> {
    let mut sums: Vec<f64> = Vec::with_capacity(names);
    let mut sum = 0.0;
    for rank in 1..=names {
        sum += (rank as f64).powf(-skew);
        sums.push(sum);
    }
    let mut random = Random(seed);
    let mut draw = || {
        let at = random.unit() * sum;
        sums.partition_point(|upper| *upper < at) as u64
    };
    (0..len).map(|_| draw()).collect()
}

#[test]
fn hit_ratio_on_a_zipf_workload_is_not_below_lru() {
    for skew in [0.7, 0.9, 1.1] {
        for capacity in [16, 100, 1_000, 3_000] {
            let requests = zipf(20_000, skew, 200_000, 42);
            let mut toy = Toy::new(capacity as u64);
            for name in &requests {
                toy.request(*name, 1, Busy::Idle);
            }
            let lru = lru_hits(&requests, capacity);
            assert!(toy.hits >= lru, "skew {skew} capacity {capacity}: {} < {lru}", toy.hits);
        }
    }
}

#[test]
fn one_hit_wonders_do_not_push_out_what_is_used() {
    let mut toy = Toy::new(1_000);
    for round in 0..4 {
        for name in 0..800 {
            let hit = toy.request(name, 1, Busy::Idle);
            assert!(hit || round == 0);
        }
    }
    // Ten times the capacity of things that are asked for once.
    for name in 10_000..20_000 {
        toy.request(name, 1, Busy::Idle);
    }
    let kept = (0..800).filter(|name| toy.map.contains_key(name)).count();
    assert!(kept >= 790, "{kept} of 800 kept");
}

#[test]
fn a_ghost_that_comes_back_goes_to_main() {
    let mut toy = Toy::new(100);
    for name in 0..150 {
        toy.request(name, 1, Busy::Idle);
    }
    assert!(!toy.map.contains_key(&10));
    toy.request(10, 1, Busy::Idle);
    let entry = &toy.map[&10];
    assert_eq!(entry.usage.place.load(Relaxed), MAIN);
}

#[test]
fn large_entries_count_by_their_bytes() {
    let mut toy = Toy::new(10_000);
    for name in 0..1_000 {
        toy.request(name, 1 + name % 997, Busy::Idle);
        assert!(toy.fifo.bytes() <= 10_000);
        let sum: u64 = toy.map.values().map(|entry| entry.bytes()).sum();
        assert_eq!(toy.fifo.bytes(), sum);
    }
}

#[test]
fn busy_entries_go_last_and_still_go() {
    let mut fifo = S3Fifo::new(Tactic::first(Objective::Bytes));
    let entry = |name, busy| {
        Arc::new(Entry { name, bytes: AtomicU64::new(1), busy, usage: Usage::default() })
    };
    let entries = [
        entry(0, Busy::Filling),
        entry(1, Busy::Read),
        entry(2, Busy::Idle),
        entry(3, Busy::Read),
        entry(4, Busy::Idle),
    ];
    for entry in &entries {
        fifo.push(entry);
    }
    let mut evict = |patience| fifo.evict(patience).map(|entry| entry.name);
    assert_eq!(evict(Busy::Idle), Some(2));
    assert_eq!(evict(Busy::Idle), Some(4));
    assert_eq!(evict(Busy::Idle), None);
    let mut read = [evict(Busy::Read), evict(Busy::Read)];
    read.sort_unstable();
    assert_eq!(read, [Some(1), Some(3)]);
    assert_eq!(evict(Busy::Read), None);
    assert_eq!(evict(Busy::Filling), Some(0));
    assert_eq!(evict(Busy::Filling), None);
    assert_eq!((fifo.len(), fifo.bytes()), (0, 0));
}

#[test]
fn growth_is_counted_by_later_calls() {
    let mut fifo = S3Fifo::new(Tactic::first(Objective::Bytes));
    let growing = Arc::new(Entry {
        name: 1,
        bytes: AtomicU64::new(10),
        busy: Busy::Filling,
        usage: Usage::default(),
    });
    fifo.push(&growing);
    growing.bytes.store(500, Relaxed);
    fifo.measure(MEASURED_PER_INSERTION);
    assert_eq!(fifo.bytes(), 500);
    fifo.remove(&growing);
    growing.bytes.store(900, Relaxed);
    fifo.measure(MEASURED_PER_INSERTION);
    assert_eq!((fifo.bytes(), fifo.growing.len()), (0, 0));
}

#[test]
fn dead_places_stay_fewer_than_half() {
    let mut toy = Toy::new(1 << 20);
    let mut random = Random(1);
    for name in 0..20_000 {
        toy.request(name, 1, Busy::Idle);
        if name % 3 != 0 {
            let victim = random.next() % (name + 1);
            if let Some(entry) = toy.map.remove(&victim) {
                toy.fifo.remove(&entry);
            }
        }
        let places = toy.fifo.small.places();
        assert!(
            places < COMPACTION_FLOOR_ENTRIES || (places - toy.fifo.small.live()) * 2 <= places
        );
    }
    let names: Vec<u64> = toy.map.keys().copied().collect();
    for name in names {
        let entry = toy.map.remove(&name).expect("just listed");
        toy.fifo.remove(&entry);
    }
    assert_eq!((toy.fifo.len(), toy.fifo.bytes()), (0, 0));
    assert!(toy.fifo.small.places() < COMPACTION_FLOOR_ENTRIES);
}

#[test]
fn an_entry_removed_before_it_was_pushed_is_never_queued() {
    let mut fifo = S3Fifo::new(Tactic::first(Objective::Bytes));
    let entry = Arc::new(Entry {
        name: 1,
        bytes: AtomicU64::new(10),
        busy: Busy::Idle,
        usage: Usage::default(),
    });
    fifo.remove(&*entry);
    fifo.push(&entry);
    assert_eq!((fifo.len(), fifo.bytes()), (0, 0));
    assert!(fifo.evict(Busy::Filling).is_none());
}

#[test]
fn the_walk_ends_when_every_entry_is_used_all_the_time() {
    let mut toy = Toy::new(1_000);
    for name in 0..1_000 {
        toy.request(name, 1, Busy::Idle);
    }
    for name in 1_000..1_100 {
        for entry in toy.map.values() {
            for _ in 0..FREQUENCY_MAX {
                entry.usage.touch();
            }
        }
        toy.request(name, 1, Busy::Idle);
    }
    assert_eq!(toy.fifo.len(), 1_000);
}
