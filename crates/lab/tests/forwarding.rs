//! A wire made for measurements carries its load, and says what did not arrive.

#![cfg(feature = "router")]
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

#[path = "../../../tests/skip.rs"]
mod skip;

use freshet_lab::forwarding::search::Verdict;
use freshet_lab::forwarding::{Bed, Middle, Plan};
use freshet_lab::scenario::forwarding::{self, MIX, Options};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One wire at a time has the two processors.
static ALONE: Mutex<()> = Mutex::new(());

fn bed(middle: Middle) -> Option<Bed> {
    if let Some(why) = freshet_router::kernel::namespace::missing() {
        skip::skip(why);
        return None;
    }
    let plan = Plan { middle, rules: 256, clients: 1000, cpus: [0, 1], ways: [true, true] };
    Some(Bed::new(plan).unwrap())
}

/// At a rate that is far below what anything here does, and at one that is far above.
#[test]
fn what_is_sent_arrives_or_is_counted_as_dropped() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for middle in Middle::ALL {
        let Some(mut bed) = bed(middle) else { return };
        for (rate, packets) in [(2e4, 1000_u32), (2e7, 100_000)] {
            let span = Duration::from_secs_f64(f64::from(packets) / rate);
            let trial = bed.trial(rate, span, &MIX, &AtomicBool::new(false)).unwrap();
            assert_eq!(trial.sent, u64::from(packets), "{middle:?}");
            let missing = trial.sent - trial.received;
            let drops = if middle == Middle::Tap { missing } else { trial.ring_drops };
            assert_eq!(missing, drops, "{middle:?}: {trial:?}");
            assert!(trial.offered <= rate * 1.01, "{trial:?}");
            if rate < 1e6 {
                assert!(trial.received * 10 > trial.sent * 9, "{middle:?}: {trial:?}");
            } else {
                assert_eq!(trial.verdict(), Verdict::Void, "no load is that fast: {trial:?}");
            }
        }
    }
}

#[test]
fn a_short_run_has_a_row_for_each_size_and_leaves_nothing() {
    if let Some(why) = freshet_router::kernel::namespace::missing() {
        skip::skip(why);
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut setup = forwarding::setup();
    setup.duration = Duration::from_millis(20);
    let options = Options {
        middles: vec![Middle::Pass],
        profiles: vec![("IMIX".to_owned(), MIX.to_vec()), ("64 B".to_owned(), vec![64])],
        runs: 1,
        search: Duration::from_millis(10),
        most: 2e4,
        ..Options::default()
    };
    let outcome = forwarding::run(setup, &options, &mut |_| {}).unwrap();
    assert_eq!(outcome.tables[0].rows.len(), 2, "{:?}", outcome.tables);
    assert!(outcome.kpis.iter().any(|kpi| kpi.name.starts_with("pass, IMIX")));
    let namespaces = std::process::Command::new("ip").args(["netns", "list"]).output().unwrap();
    let own = format!("freshet{}-", std::process::id());
    assert!(!String::from_utf8_lossy(&namespaces.stdout).contains(&own));
}
