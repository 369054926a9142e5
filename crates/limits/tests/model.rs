//! Rates held against an exact model, and over threads.

use freshet_limits::{Rate, Rates, Secret, Ticks};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A leaky bucket in integers, one for each key, forgetting nothing: its level in ticks leaks one a
/// tick, and a request adds an interval where that stays within the burst.
#[derive(Default)]
struct Bucket {
    level: u128,
    at: u64,
}

impl Bucket {
    fn take(&mut self, interval: u64, burst: u64, now: u64) -> bool {
        self.level = self.level.saturating_sub(u128::from(now - self.at));
        self.at = now;
        let fits = self.level + u128::from(interval) <= u128::from(interval) * u128::from(burst);
        if fits {
            self.level += u128::from(interval);
        }
        fits
    }
}

proptest! {
    #[test]
    fn rates_are_a_leaky_bucket_for_each_key(
        start in prop_oneof![Just(0_u64), 1..u64::MAX / 4, Just((1 << 43) - 1000)],
        count in 1_u64..50,
        period_ms in 1_u64..60_000,
        burst in 1_u64..60,
        steps in proptest::collection::vec((0_u64..20, 0_u64..4_000_000), 1..400),
    ) {
        let rate = Rate::parse(&format!("{count}/{period_ms}ms"), Some(burst)).unwrap();
        let interval = (period_ms * 8000 + count / 2) / count;
        let (rates, secret) = (Rates::new(10_000), Secret::from_bytes([9; 16]));
        let mut model: HashMap<u64, Bucket> = HashMap::new();
        let mut now = start;
        for (number, pause) in steps {
            now += pause;
            let bucket = model.entry(number).or_insert(Bucket { level: 0, at: start });
            let key = secret.key(7, &number.to_le_bytes());
            let peeked = rates.peek(key, &rate, Ticks(now));
            let verdict = rates.take(key, &rate, Ticks(now));
            prop_assert_eq!(peeked, verdict);
            let expected = bucket.take(interval, burst, now);
            prop_assert_eq!(verdict.is_allowed(), expected);
            let left = (u128::from(interval * burst) - bucket.level) / u128::from(interval);
            prop_assert_eq!(u128::from(verdict.remaining()), if expected { left } else { 0 });
            prop_assert_eq!(u128::from(Ticks::from(verdict.reset()).0), bucket.level);
            if !expected {
                // Who waits as long as told, and no less, is let in.
                let wait = Ticks::from(verdict.retry_after()).0;
                prop_assert!(!rates.peek(key, &rate, Ticks(now + wait - 1)).is_allowed());
                prop_assert!(rates.peek(key, &rate, Ticks(now + wait)).is_allowed());
            }
        }
        prop_assert_eq!(rates.evicted(), 0);
    }
}

#[test]
fn a_limit_holds_over_all_threads_together() {
    const THREADS: u64 = 4;
    let (rates, secret) = (Rates::new(1000), Secret::from_bytes([4; 16]));
    let rate = Rate::parse("1000/h", None).unwrap();
    let allowed: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (rates, secret, allowed) = (&rates, &secret, &allowed);
            scope.spawn(move || {
                for turn in 0..3000_u64 {
                    let key = (turn + thread) % 3;
                    // Clocks of threads are read at slightly different times.
                    let verdict = rates.take(secret.key(key, b""), &rate, Ticks(1000 + turn % 7));
                    allowed[key as usize].fetch_add(u64::from(verdict.is_allowed()), Relaxed);
                }
            });
        }
    });
    for sum in &allowed {
        assert_eq!(sum.load(Relaxed), 1000);
    }
}

#[test]
fn any_text_is_a_rate_or_refused() {
    bolero::check!().with_type::<(String, Option<u64>)>().for_each(|(text, burst)| {
        if let Ok(rate) = Rate::parse(text, *burst) {
            let rates = Rates::new(8);
            assert!(rates.take(1, &rate, Ticks(5)).is_allowed());
            assert!(rate.refill().as_secs() <= 86_400);
        }
        let _ = text.parse::<freshet_limits::Prefix>();
    });
}
