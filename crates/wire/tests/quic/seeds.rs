//! Which seeds a test goes through: as many as it says, or those that `FRESHET_QUIC_SEEDS` names for campaigns
//! (`bench/http3/simulation`): so many, or from one to another as in `310..311`.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn asked() -> Option<Range<u64>> {
    let text = std::env::var("FRESHET_QUIC_SEEDS").ok()?;
    let (first, end) = text.split_once("..").unwrap_or(("0", &text));
    let number = |text: &str| text.parse().expect("FRESHET_QUIC_SEEDS is N or N..M");
    Some(number(first)..number(end))
}

/// Goes through the seeds, all of them, and fails with those that failed. How many they were, where they are enough to say
/// something of what seeds have in common.
pub(crate) fn each(count: u64, mut with: impl FnMut(u64)) -> Option<u64> {
    let seeds = asked().unwrap_or(0..count);
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        if catch_unwind(AssertUnwindSafe(|| with(seed))).is_err() {
            eprintln!("seed {seed} failed");
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
    let gone = seeds.end.saturating_sub(seeds.start);
    (gone >= count).then_some(gone)
}
