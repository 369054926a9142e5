//! Seeded campaigns of crashes: whatever is under way, the platform is killed after some step of it was
//! journalled, and the next one brings it to the end. What an app sends meanwhile arrives.
//!
//! `FRESHET_KILLS=N` says how many; `FRESHET_SEED` which.

use crate::world::{PACKAGES, World};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// Kills where nobody says how many.
const KILLS: u64 = 20;
/// Instances at a time.
const INSTANCES: usize = 3;
/// Records that an operation writes to the journal at most, and one more.
const RECORDS_MAX: u64 = 7;
/// Bytes that are under way from an app while the platform is killed, and how many of them a client takes a
/// second: they are under way for longer than a platform takes to come back.
const FLOW_BYTES: usize = 3 << 20;
const FLOW_BYTES_PER_SECOND: &str = "2M";

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

/// Kills the platform while something is asked of it, so that it may be before the answer: after so many
/// records of the journal and some time. Gives the answer and how many records came.
fn killed_meanwhile<T>(
    world: &mut World,
    records: u64,
    more: Duration,
    ask: impl FnOnce(&World) -> T,
) -> (T, u64) {
    let (journal, pid) = (world.folder.path().join("state/journal"), world.pid());
    let killer = std::thread::spawn(move || {
        let seen = wait_for_records(&journal, records, more);
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        seen
    });
    let answer = ask(world);
    let seen = killer.join().unwrap();
    world.kill();
    (answer, seen)
}

#[test]
fn crashes_lose_and_double_nothing() {
    let Some(mut world) = crate::world() else { return };
    let (kills, seed) = (number("FRESHET_KILLS", KILLS), number("FRESHET_SEED", 1));
    let mut random = Random(seed);
    world.bring();
    // The model: instances and what they are.
    let mut model: BTreeMap<String, &str> = BTreeMap::new();
    let mut reached: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    let mut flows = 0;
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
        let process = |one: &String| {
            let path = world.folder.path().join("state/apps").join(one).join("process");
            std::fs::read_to_string(path).unwrap()
        };
        // An app that nothing is done to, the process it is, and a flow from it.
        let other = model.iter().find(|(id, state)| **id != instance && **state == "STARTED");
        let other = other.map(|(id, _)| (id.clone(), process(id)));
        let flow = other.as_ref().map(|(id, _)| {
            let address = world.address(id);
            (
                world.receive(&format!("http://{address}/{FLOW_BYTES}"), FLOW_BYTES_PER_SECOND),
                address,
            )
        });
        let (begun, seen) =
            killed_meanwhile(&mut world, records, more, |world| world.try_begin(&instance, what));
        *reached.entry((what, seen)).or_default() += 1;
        world.again();
        let place = format!("seed {seed}, kill {kill}: {what} after {seen} records and {more:?}");
        let settled = world.settled(&instance);
        assert_eq!(settled, "COMPLETED", "{place}: {}", world.get("/app_lcm/v1/app_lcm_op_occs"));
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
        if let (Some((id, before)), Some((flow, address))) = (other, flow) {
            assert_eq!(flow.wait_with_output().unwrap().stdout.len(), FLOW_BYTES, "{place}");
            assert_eq!(world.ask_app(&format!("http://{address}/")), id, "{place}");
            let now = world.folder.path().join("state/apps").join(&id).join("process");
            assert_eq!(std::fs::read_to_string(now).unwrap(), before, "{place}");
            flows += 1;
        }
        if model[&instance] == "NOT_INSTANTIATED" && random.below(2) == 0 {
            let target = format!("{}/{instance}", crate::world::LIVES);
            assert_eq!(world.call("DELETE", &target, b"").unwrap().0, 204, "{place}");
            model.remove(&instance);
        }
    }
    println!(
        "{kills} kills beside {flows} flows, by operation and records that were journalled: {reached:?}"
    );
    for (instance, state) in model {
        if state != "NOT_INSTANTIATED" {
            assert_eq!(world.begin(&instance, "terminate"), 202);
            assert_eq!(world.settled(&instance), "COMPLETED");
        }
        assert_eq!(world.left(&instance), Vec::<String>::new());
    }
    assert_eq!((world.rules(), world.interfaces()), (Vec::new(), 0));
}

/// A package is there, whole, or it is not: whether it was coming or going.
#[test]
fn crashes_leave_no_part_of_a_package() {
    let Some(mut world) = crate::world() else { return };
    let (kills, seed) = (number("FRESHET_KILLS", KILLS), number("FRESHET_SEED", 1));
    let mut random = Random(seed);
    let archive = world.pack();
    let bytes = std::fs::read(&archive).unwrap();
    let mut id = world.name_package("hello", &archive);
    let mut reached: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut state = "CREATED".to_owned();
    for kill in 0..kills {
        let (records, more) = (random.below(2), Duration::from_micros(random.below(80_000)));
        let what = if state == "CREATED" { "upload" } else { "removal" };
        let (answer, _) = killed_meanwhile(&mut world, records, more, |world| match what {
            "upload" => world.call("PUT", &format!("{PACKAGES}/{id}/package_content"), &bytes),
            _ => world.call("DELETE", &format!("{PACKAGES}/{id}"), b""),
        });
        world.again();
        let place =
            format!("seed {seed}, kill {kill}: {what} after {records} records and {more:?}");
        let known = world.get(&format!("{PACKAGES}/{id}"));
        state = known["onboardingState"].as_str().unwrap_or("gone").to_owned();
        *reached
            .entry((what, if state == "ONBOARDED" { "there" } else { "not there" }))
            .or_default() += 1;
        // What was answered is so.
        if let Ok((status, said)) = answer {
            let promised = if what == "upload" { (202, "ONBOARDED") } else { (204, "gone") };
            assert_eq!((status, state.as_str()), promised, "{place}: {said}");
        }
        let there = std::fs::read_dir(world.folder.path().join("state/packages")).unwrap();
        let there: BTreeSet<String> =
            there.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let wanted = (state == "ONBOARDED").then(|| id.clone()).into_iter().collect();
        assert_eq!(there, wanted, "{place}");
        match state.as_str() {
            "ONBOARDED" => {
                let content = world.call("GET", &format!("{PACKAGES}/{id}/appd"), b"").unwrap();
                assert_eq!((content.0, &content.1["appDId"]), (200, &"hello-d".into()), "{place}");
            }
            "gone" => {
                id = world.name_package("hello", &archive);
                state = "CREATED".to_owned();
            }
            _ => {}
        }
    }
    println!("{kills} kills, by what was asked and what there was of the package: {reached:?}");
}
