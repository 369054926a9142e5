use super::super::tactic::{Admission, TACTICS, Worth};
use super::super::tuner::Tuner;
use super::*;
use proptest::prelude::*;

fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn demand(name: u64, bytes: u64) -> Demand {
    counted(Objective::Bytes, name, bytes)
}

fn counted(objective: Objective, name: u64, bytes: u64) -> Demand {
    Demand { point: (mix(name) >> 32) as u32, fingerprint: mix(mix(name)), bytes, objective }
}

fn tactic(name: &str) -> Tactic {
    *TACTICS.iter().find(|tactic| tactic.name == name).expect("it is in the table")
}

#[derive(Clone)]
struct Item {
    name: u64,
    bytes: u64,
    recent: u64,
    total: u64,
    /// When its credit runs out, and a number that grows.
    due: (u64, u64),
}

/// The queues as one would write them with nothing in mind but to be right: lists that are
/// searched from end to end. Without contests.
struct Naive {
    tactic: Tactic,
    small: Vec<Item>,
    main: Vec<Item>,
    ghosts: Vec<u64>,
    now: u64,
    pushed: u64,
}

impl Naive {
    fn bytes(items: &[Item]) -> u64 {
        items.iter().map(|item| item.bytes).sum()
    }

    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    fn enter_main(&mut self, mut item: Item, is_new: bool) {
        item.total = (item.total + item.recent).min(255);
        let uses = match self.tactic.worth {
            Worth::Total => (item.total + 1).min(255),
            Worth::Recent if is_new => 1,
            Worth::Recent => item.recent.min(3),
        };
        self.pushed += 1;
        item.due = (self.now + (uses * 16).min(4096), self.pushed);
        item.recent = 0;
        self.main.push(item);
    }

    fn small_is_over(&self) -> bool {
        let (small, main) = (Self::bytes(&self.small), Self::bytes(&self.main));
        let is_direct = self.tactic.admission == Admission::Direct;
        let floor = if is_direct { 0 } else { 64.min(self.len() / 2) };
        self.small.len() > floor && small as f64 >= self.tactic.small_share * (small + main) as f64
    }

    fn evict(&mut self) {
        loop {
            if self.main.is_empty() || (!self.small.is_empty() && self.small_is_over()) {
                let item = self.small.remove(0);
                let enough = match self.tactic.admission {
                    Admission::Uses(enough) => u64::from(enough),
                    _ => 1,
                };
                if item.recent >= enough {
                    self.enter_main(item, true);
                    continue;
                }
                self.ghosts.retain(|name| *name != item.name);
                self.ghosts.push(item.name);
                let most = self.len().max(64);
                // A ghost that was taken back leaves its place, which counts.
                while self.ghosts.len() > most {
                    self.ghosts.remove(0);
                }
                return;
            }
            let first = (0..self.main.len()).min_by_key(|index| self.main[*index].due);
            let item = self.main.remove(first.expect("there is one"));
            self.now = self.now.max(item.due.0);
            if item.recent == 0 {
                return;
            }
            self.enter_main(item, false);
        }
    }

    fn request(&mut self, name: u64, bytes: u64, capacity: u64) -> bool {
        if let Some(item) =
            self.small.iter_mut().chain(&mut self.main).find(|item| item.name == name)
        {
            item.recent = (item.recent + 1).min(15);
            return true;
        }
        while Self::bytes(&self.small) + Self::bytes(&self.main) + bytes > capacity {
            self.evict();
        }
        let item = Item { name, bytes, recent: 0, total: 0, due: (0, 0) };
        let known = self.ghosts.contains(&name);
        self.ghosts.iter_mut().filter(|ghost| **ghost == name).for_each(|ghost| *ghost = u64::MAX);
        if known || self.tactic.admission == Admission::Direct {
            self.enter_main(item, true);
        } else {
            self.small.push(item);
        }
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_queues_do_what_plain_lists_do(
        requests in prop::collection::vec((0..400_u64, 0..3_u32), 1..1_500),
        which in 0..6_usize,
        capacity in 2_000..20_000_u64,
    ) {
        let tactic = TACTICS[which];
        prop_assert!(tactic.admission != Admission::Contest);
        let mut shadow = Shadow::new(tactic);
        let mut naive = Naive {
            tactic, small: Vec::new(), main: Vec::new(), ghosts: Vec::new(), now: 0, pushed: 0,
        };
        for (name, shift) in requests {
            // Low numbers are asked for more often.
            let name = name >> shift;
            let bytes = 1 + mix(name) % 200;
            let hit = shadow.request(&demand(name, bytes), capacity);
            prop_assert_eq!(hit, naive.request(name, bytes, capacity), "{}", name);
            prop_assert_eq!(shadow.len(), naive.len());
            prop_assert!(shadow.bytes() <= capacity);
        }
    }

    #[test]
    fn bytes_add_up_whatever_the_tactic_and_whenever_it_changes(
        requests in prop::collection::vec((0..300_u64, 1..500_u64, 0..40_usize), 1..1_000),
        objective in prop::sample::select(vec![Objective::Requests, Objective::Bytes]),
    ) {
        let mut shadow = Shadow::new(Tactic::first(objective));
        for (name, bytes, change) in requests {
            if let Some(tactic) = TACTICS.get(change) {
                shadow.set_tactic(*tactic);
            }
            let objective = if name % 2 == 0 { objective } else { Objective::Bytes };
            shadow.request(&counted(objective, name, bytes), 5_000);
            let sum: u64 = shadow.index.iter().map(|name| name.bytes()).sum();
            prop_assert_eq!(shadow.bytes(), sum);
            prop_assert!(sum <= 5_000);
        }
    }
}

#[test]
fn giant_objects_do_not_push_everything_out_where_requests_count() {
    let mut shadow = Shadow::new(Tactic::first(Objective::Requests));
    let small = |shadow: &mut Shadow| {
        let request = |name| counted(Objective::Requests, name, 1_000);
        (0..500).filter(|name| shadow.request(&request(*name), 1_000_000)).count()
    };
    small(&mut shadow);
    small(&mut shadow);
    for giant in 0..50 {
        let giant = counted(Objective::Requests, 1_000_000 + giant, 400_000);
        shadow.request(&giant, 1_000_000);
    }
    assert!(small(&mut shadow) >= 490);
    let too_large = counted(Objective::Requests, 9, 2_000_000);
    assert!(!shadow.request(&too_large, 1_000_000) || shadow.bytes() <= 1_000_000);
}

/// Hits of a cache that follows its tuner, and of one that keeps the first tactic.
fn with_and_without(requests: impl Iterator<Item = Demand>, capacity: u64) -> (usize, usize) {
    let first = Tactic::first(Objective::Bytes);
    let mut tuned = Shadow::new(first);
    let mut fixed = Shadow::new(first);
    let mut tuner = Tuner::new(Objective::Bytes, 512);
    let mut hits = (0, 0);
    for request in requests {
        hits.0 += usize::from(tuned.request(&request, capacity));
        hits.1 += usize::from(fixed.request(&request, capacity));
        if let Some(tactic) = tuner.observe(&request, capacity) {
            tuned.set_tactic(tactic);
        }
        assert!(tuner.sample_rate() == 1.0 || capacity > 512);
    }
    hits
}

#[test]
fn what_is_asked_for_again_much_later_makes_the_small_queue_longer() {
    // Some things are asked for three times at once and never again, and fill a main queue that is
    // hard to get out of. Others are asked for again 450 things later, which 600 places suffice
    // for if they are kept in the order they came.
    let requests = (0..20_000_u64).flat_map(|time| {
        let (burst, pair) = (1 << 40 | time, 1 << 41);
        let names = [burst, burst, burst, pair | time, pair | time.saturating_sub(150)];
        names.map(|name| demand(name, 1))
    });
    let (tuned, fixed) = with_and_without(requests, 600);
    assert!(tuned > fixed + 10_000, "{tuned} {fixed}");
}

#[test]
fn a_tuner_says_the_same_each_time_and_keeps_its_bounds_under_a_scan() {
    let run = || {
        let mut tuner = Tuner::new(Objective::Bytes, 128);
        let mut changes = Vec::new();
        for time in 0..50_000_u64 {
            let name = if time % 3 == 0 { 1 << 40 | time } else { mix(time) % (1 + time % 900) };
            changes.extend(tuner.observe(&demand(name, 1 + name % 50), 100_000));
        }
        (changes, tuner.sample_rate())
    };
    let (changes, rate) = run();
    assert_eq!((changes, rate), run());
    assert!(rate < 0.2, "{rate}");
}

#[test]
fn ways_that_differ_by_chance_only_are_not_changed() {
    let mut tuner = Tuner::new(Objective::Bytes, 256);
    // All alike and independent: no order of eviction is better than another.
    let changes = (0..60_000_u64)
        .filter_map(|time| tuner.observe(&demand(mix(time) % 1_000, 1), 200))
        .count();
    assert!(changes <= 1, "{changes}");
    assert_eq!(tactic(tuner.tactic().name), tuner.tactic());
}

/// What two classes had of as many requests each, by objects of 1,000 and of 9,000 bytes. Those of
/// the first are named evenly, their sizes take turns; both classes ask alike for as many objects.
fn shared(first: Objective, second: Objective, scale: u64, tactic: Tactic) -> [[usize; 2]; 2] {
    let mut shadow = Shadow::new(tactic);
    let mut hits = [[0; 2]; 2];
    for time in 0..200_000_u64 {
        let class = time % 2;
        // Of 1,000 objects the first are asked for most.
        let name = mix(time) % 1_000 * (mix(time + 1) % 1_000) / 1_000;
        let is_large = usize::from(mix(name) % 2 == 1);
        let objective = if class == 0 { first } else { second };
        let bytes = [1_000, 9_000][is_large] * if class == 0 { 1 } else { scale };
        let request = counted(objective, class << 40 | name, bytes);
        let hit = shadow.request(&request, 1_500_000 * (1 + scale));
        hits[class as usize][is_large] += usize::from(hit && time > 100_000);
    }
    hits
}

#[test]
fn each_class_has_an_order_of_its_own_and_none_drives_the_other_out() {
    use Objective::{Bytes, Requests};
    for tactic in TACTICS.into_iter().filter(|tactic| tactic.worth == Worth::Total) {
        for scale in [1, 100] {
            let all = |hits: [usize; 2]| hits[0] + hits[1];
            let alike = shared(Bytes, Bytes, scale, tactic);
            let mixed = shared(Requests, Bytes, scale, tactic);
            let name = tactic.name;
            // The first class has more hits of small ones than where it counts bytes, and fewer
            // of large ones; the second still has both alike.
            assert!(mixed[0][0] > alike[0][0], "{name} {scale} {mixed:?} {alike:?}");
            assert!(mixed[0][1] < alike[0][1], "{name} {scale} {mixed:?} {alike:?}");
            let part = mixed[1][0] as f64 / mixed[1][1] as f64;
            assert!((0.8..1.2).contains(&part), "{name} {scale} {mixed:?} {alike:?}");
            // Neither is starved, though one's objects are a hundred times as large as the other's.
            for class in [0, 1] {
                let part = all(mixed[class]) as f64 / all(alike[class]) as f64;
                assert!(part > 0.9, "{name} {scale} {mixed:?} {alike:?}");
            }
        }
    }
}
