//! A seeded campaign of crashes: whatever is under way, the platform is killed after some step of it was
//! journalled, and the next one brings it to the end.
//!
//! `FRESHET_KILLS=N` says how many; `FRESHET_SEED` which.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Kills where nobody says how many.
const KILLS: u64 = 20;
/// Instances at a time.
const INSTANCES: usize = 3;
/// Records that an operation writes to the journal at most, and one more.
const RECORDS_MAX: u64 = 7;

/// Numbers that a seed gives (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().map_or(or, |text| text.parse().unwrap())
}

/// Waits until the journal has so many records more, or for a while; gives how many came.
fn wait_for_records(journal: &Path, records: u64, more: Duration) -> u64 {
    let bytes = || std::fs::metadata(journal).map_or(0, |at| at.len());
    let begun = Instant::now();
    let (mut last, mut seen) = (bytes(), 0);
    while seen < records && begun.elapsed() < Duration::from_millis(1500) {
        let now = bytes();
        if now != last {
            (last, seen) = (now, seen + 1);
        }
        std::thread::yield_now();
    }
    // Somewhere within what the step after it does.
    std::thread::sleep(more);
    seen
}

/// What an instance should be after an operation.
fn after(what: &str) -> &'static str {
    match what {
        "instantiate" | "start" => "STARTED",
        "stop" => "STOPPED",
        _ => "NOT_INSTANTIATED",
    }
}

/// What there is of an instance in a state.
fn expected(state: &str) -> &'static [&'static str] {
    match state {
        "STARTED" => &["container", "namespace", "files", "groups", "app", "rule"],
        "STOPPED" => &["namespace", "files", "app"],
        _ => &[],
    }
}

#[test]
fn crashes_lose_and_double_nothing() {
    let Some(mut world) = crate::world() else { return };
    let (kills, seed) = (number("FRESHET_KILLS", KILLS), number("FRESHET_SEED", 1));
    let mut random = Random(seed);
    world.bring();
    let journal = world.folder.path().join("state/journal");
    // The model: instances and what they are.
    let mut model: BTreeMap<String, &str> = BTreeMap::new();
    let mut reached: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for kill in 0..kills {
        if model.len() < INSTANCES {
            model.insert(world.name(), "NOT_INSTANTIATED");
        }
        let index = random.below(model.len() as u64) as usize;
        let (instance, state) =
            model.iter().nth(index).map(|(id, state)| (id.clone(), *state)).unwrap();
        let choices: &[&str] = match state {
            "STARTED" => &["stop", "terminate"],
            "STOPPED" => &["start", "terminate"],
            _ => &["instantiate"],
        };
        let what = choices[random.below(choices.len() as u64) as usize];
        let records = random.below(RECORDS_MAX + 1);
        let more = Duration::from_micros(random.below(60_000));
        // The request goes out while the journal is watched, so that it may be killed before it is answered.
        let (watched, pid) = (journal.clone(), world.pid());
        let killer = std::thread::spawn(move || {
            let seen = wait_for_records(&watched, records, more);
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            seen
        });
        let begun = world.try_begin(&instance, what);
        let seen = killer.join().unwrap();
        *reached.entry((what, seen)).or_default() += 1;
        world.kill();
        world.again();
        let place = format!("seed {seed}, kill {kill}: {what} after {seen} records and {more:?}");
        assert_eq!(world.settled(&instance), "COMPLETED", "{place}");
        // What was not answered may have been begun or not.
        let is_begun = begun.is_ok() || world.state(&instance) == after(what);
        assert!(begun.is_err() || begun.as_ref().is_ok_and(|status| *status == 202), "{place}");
        if is_begun {
            model.insert(instance.clone(), after(what));
        }
        for (one, state) in &model {
            assert_eq!(world.state(one), *state, "{place}");
            // Looking at an app that was started again may find it a moment later.
            crate::world::until(&place, || world.left(one) == expected(state));
        }
        let linked = model.values().filter(|state| **state != "NOT_INSTANTIATED").count();
        assert_eq!(world.interfaces(), linked, "{place}");
        if model[&instance] == "NOT_INSTANTIATED" && random.below(2) == 0 {
            let target = format!("{}/{instance}", crate::world::LIVES);
            assert_eq!(world.call("DELETE", &target, b"").unwrap().0, 204, "{place}");
            model.remove(&instance);
        }
    }
    println!("{kills} kills, by operation and records that were journalled: {reached:?}");
    for (instance, state) in model {
        if state != "NOT_INSTANTIATED" {
            assert_eq!(world.begin(&instance, "terminate"), 202);
            assert_eq!(world.settled(&instance), "COMPLETED");
        }
        assert_eq!(world.left(&instance), Vec::<String>::new());
    }
    assert_eq!((world.rules(), world.interfaces()), (Vec::new(), 0));
}
