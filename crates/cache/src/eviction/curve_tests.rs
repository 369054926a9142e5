use super::*;
use proptest::prelude::*;

fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn demand(name: u64, bytes: u64) -> Demand {
    Demand {
        point: (mix(name) >> 32) as u32,
        fingerprint: mix(mix(name)),
        bytes,
        objective: crate::eviction::Objective::Bytes,
    }
}

/// The exact curve: for each request the bytes of what was asked for since, one by one.
fn exact(requests: &[Demand], capacity_bytes: u64) -> (f64, f64) {
    let mut stack: Vec<(u64, u64)> = Vec::new();
    let (mut hits, mut hit_bytes, mut bytes) = (0.0, 0.0, 0.0);
    for request in requests {
        bytes += request.bytes as f64;
        let at = stack.iter().rposition(|(name, _)| *name == request.fingerprint);
        if let Some(at) = at {
            let since: u64 = stack[at + 1..].iter().map(|(_, bytes)| bytes).sum();
            if since + request.bytes < capacity_bytes {
                hits += 1.0;
                hit_bytes += request.bytes as f64;
            }
            stack.remove(at);
        }
        stack.push((request.fingerprint, request.bytes));
    }
    (hits / requests.len() as f64, hit_bytes / bytes)
}

fn zipf(names: u64, len: usize, seed: u64) -> Vec<Demand> {
    let sums: Vec<f64> = (1..=names)
        .scan(0.0, |sum, rank| {
            *sum += (rank as f64).powf(-0.8);
            Some(*sum)
        })
        .collect();
    let draw = |index: usize| {
        let unit = (mix(seed ^ mix(index as u64)) >> 11) as f64 / (1_u64 << 53) as f64;
        let name = sums.partition_point(|upper| *upper < unit * sums[sums.len() - 1]) as u64;
        demand(name, 1 + mix(name) % 20_000)
    };
    (0..len).map(draw).collect()
}

#[test]
fn steps_follow_each_other_without_gaps() {
    for step in 0..STEPS - 1 {
        let start = start_of(step);
        assert_eq!(step_of(start), step, "{start}");
        assert!(start_of(step + 1) > start);
        assert_eq!(step_of(start_of(step + 1) - 1), step);
    }
    assert_eq!(step_of(u64::MAX), STEPS - 1);
}

proptest! {
    /// With all keys in the sample and capacities where steps begin, nothing is estimated.
    #[test]
    fn without_sampling_it_is_exact(
        requests in prop::collection::vec((0..60_u64, 1..5_000_u64), 1..600),
        steps in prop::collection::vec(0..300_usize, 1..8),
    ) {
        let requests: Vec<Demand> = requests.into_iter().map(|(name, bytes)| demand(name, bytes)).collect();
        let mut curve = Curve::new(64, u64::MAX);
        requests.iter().for_each(|request| curve.observe(request));
        curve.count_all(requests.len() as u64);
        for step in steps {
            let capacity = start_of(step);
            let (request_ratio, byte_ratio) = exact(&requests, capacity);
            let point = curve.at(&[capacity])[0];
            prop_assert!((point.request_hit_ratio - request_ratio).abs() < 1e-9);
            prop_assert!((point.byte_hit_ratio - byte_ratio).abs() < 1e-9);
        }
    }
}

/// The bounds the module's documentation names.
const REQUEST_ERROR_MAX: f64 = 0.03;
const BYTE_ERROR_MAX: f64 = 0.05;

#[test]
fn a_sample_comes_close_to_the_exact_curve() {
    for seed in 0..3 {
        let requests = zipf(20_000, 120_000, seed);
        let mut all = Curve::new(20_000, u64::MAX);
        let mut sampled = Curve::new(2_048, u64::MAX);
        for request in &requests {
            all.observe(request);
            sampled.observe(request);
        }
        sampled.count_all(requests.len() as u64);
        assert!((0.05..=0.13).contains(&sampled.sample_rate()), "{}", sampled.sample_rate());
        let footprint: u64 = 20_000 * 10_000;
        let capacities: Vec<u64> = (1..=20).map(|part| footprint * part / 20).collect();
        for (exact, close) in all.at(&capacities).into_iter().zip(sampled.at(&capacities)) {
            let error = (exact.request_hit_ratio - close.request_hit_ratio).abs();
            assert!(error < REQUEST_ERROR_MAX, "{exact:?} {close:?}");
            let error = (exact.byte_hit_ratio - close.byte_hit_ratio).abs();
            assert!(error < BYTE_ERROR_MAX, "{exact:?} {close:?}");
        }
    }
}

#[test]
fn the_sample_stays_within_its_bounds_whatever_is_asked_for() {
    let mut curve = Curve::new(256, 1 << 40);
    for name in 0..200_000 {
        curve.observe(&demand(name, 1 + mix(name) % (64 << 20)));
        assert!(curve.objects() <= 256 && curve.slots.len() <= 512);
    }
    assert!(curve.sample_rate() < 0.01);
    let point = curve.at(&[1 << 40])[0];
    assert_eq!((point.request_hit_ratio, point.byte_hit_ratio), (0.0, 0.0));
}

#[test]
fn what_is_out_of_reach_costs_no_part_of_the_sample() {
    // Ten million bytes are in reach, and all that is ever asked for is a hundred times that.
    let mut curve = Curve::new(2_000, 10_000_000);
    for name in 0..100_000 {
        curve.observe(&demand(name, 10_000));
    }
    assert_eq!(curve.sample_rate(), 1.0);
    assert!(curve.objects() <= 1_001);
}

#[test]
fn what_became_of_a_scan_is_forgotten() {
    let mut curve = Curve::new(256, 1 << 40);
    let loop_of_hundred = |curve: &mut Curve, rounds: u64| {
        for round in 0..rounds * 100 {
            curve.observe(&demand(round % 100, 1_000));
            curve.count_all(1);
            curve.grow_sample();
        }
    };
    for name in 1_000..50_000 {
        curve.observe(&demand(name, 1_000));
        curve.count_all(1);
    }
    loop_of_hundred(&mut curve, 20_000);
    let ratio = curve.at(&[200_000])[0].request_hit_ratio;
    assert!(ratio > 0.9, "{ratio}");
}

#[test]
fn the_most_popular_counts_whether_it_is_in_the_sample_or_not() {
    // Half of all requests are for one object that the sample has, or has not.
    for popular in [
        (0..).find(|name| demand(*name, 1).point > u32::MAX / 2),
        (0..).find(|name| demand(*name, 1).point < 1 << 20),
    ] {
        let popular = popular.expect("there are such names");
        let mut curve = Curve::new(512, u64::MAX);
        for index in 0..100_000_u64 {
            let name = if index % 2 == 0 { popular } else { 1_000 + mix(index) % 10_000_000 };
            curve.observe(&demand(name, 1_000));
            curve.count_all(1);
        }
        let ratio = curve.at(&[100_000_000])[0].request_hit_ratio;
        assert!((0.45..0.56).contains(&ratio), "{ratio}");
    }
}
