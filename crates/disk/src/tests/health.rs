//! A disk that slows, fails here and there, or fails altogether.

use super::engine::SMALL;
use super::world::World;
use crate::error::DiskError;
use crate::health::{Health, Levels, Watch, try_out};
use crate::pace::Pace;
use freshet_device::IoError;
use freshet_device::simulation::Faults;
use std::time::{Duration, Instant};

/// A world of 100 objects, all written.
fn filled(seed: u64) -> World {
    let mut world = World::new(16 << 20, seed, SMALL);
    for resource in 0..100 {
        world.insert(resource, 40_000, 0).expect("there is room");
    }
    world.opened().writer.drain().expect("the drive works");
    world
}

/// Lets seconds pass in which some objects are asked for; how the disk was at the end of each.
fn pass(world: &mut World, pace: &mut Pace, now: &mut Instant, seconds: u64) -> Vec<Health> {
    let volume = std::sync::Arc::clone(&world.opened().volume);
    let mut watch = Watch::new(&volume, (Levels::new(1), 0), pace, *now);
    (0..seconds)
        .map(|second| {
            for resource in second * 7..second * 7 + 7 {
                world.look(resource % 100, true, (0, 40_000));
            }
            *now += Duration::from_secs(1);
            watch.look(*now)
        })
        .collect()
}

#[test]
fn a_disk_that_slows_is_suspect_until_it_is_fast_again() {
    let mut world = filled(41);
    let (mut pace, mut now) = (Pace::new(), Instant::now());
    world.device.set_read_time(Duration::from_millis(1));
    let states = pass(&mut world, &mut pace, &mut now, 30);
    assert!(states.iter().all(|health| *health == Health::Healthy), "{states:?}");
    world.device.set_read_time(Duration::from_millis(200));
    let states = pass(&mut world, &mut pace, &mut now, 12);
    let first = states.iter().position(|health| *health != Health::Healthy);
    assert_eq!(first, Some(9), "{states:?}");
    let why = states[11].why().expect("it is said why");
    assert!(why.contains("took 200 ms, 1.0 ms are usual"), "{why}");
    // Still so after it was opened again.
    assert!(matches!(pass(&mut world, &mut pace, &mut now, 3)[2], Health::Suspect(_)));
    world.device.set_read_time(Duration::from_millis(2));
    let states = pass(&mut world, &mut pace, &mut now, 12);
    assert_eq!(states.iter().position(|health| *health == Health::Healthy), Some(9), "{states:?}");
}

/// A processor with too much to do sees late what ends in time.
#[test]
fn a_disk_that_seems_to_finish_nothing_and_answers_a_probe_is_not_suspect() {
    let mut world = filled(49);
    let (mut pace, mut now) = (Pace::new(), Instant::now());
    world.device.set_stalled(Duration::from_secs(2));
    let states = pass(&mut world, &mut pace, &mut now, 5);
    assert!(states.iter().all(|health| *health == Health::Healthy), "{states:?}");
    world.device.set_read_time(Duration::from_secs(3));
    let states = pass(&mut world, &mut pace, &mut now, 5);
    assert!(states.iter().all(|health| health.why() == Some("it does not answer")), "{states:?}");
    world.device.set_stalled(Duration::ZERO);
    world.device.set_read_time(Duration::from_millis(1));
    assert_eq!(pass(&mut world, &mut pace, &mut now, 3)[2], Health::Healthy);
}

#[test]
fn a_suspect_disk_is_not_waited_for_long() {
    let mut world = filled(42);
    let volume = std::sync::Arc::clone(&world.opened().volume);
    let usual = Duration::from_secs(1);
    assert_eq!(volume.patience(usual), Some(usual));
    volume.note_late();
    volume.set_suspect(Some(Duration::from_millis(50)));
    assert_eq!(volume.patience(usual), Some(Duration::from_millis(50)));
    volume.note_late();
    let counts = volume.counts();
    assert_eq!((counts.timeouts.value(), counts.hedges.value()), (1, 1));
    assert_eq!(volume.failures(), 1, "what is not waited for is no failure");
}

#[test]
fn bad_places_do_not_take_the_disk_away() {
    let mut world = filled(43);
    let (mut pace, mut now) = (Pace::new(), Instant::now());
    // A fifth of what was written, in two segments.
    let at = world.opened().volume.geometry().segment_at(2);
    let long = world.opened().volume.geometry().segment_bytes;
    world.device.set_bad(at..at + 2 * long);
    let states = pass(&mut world, &mut pace, &mut now, 30);
    assert!(states.iter().all(|health| *health == Health::Healthy), "{states:?}");
    let counts = world.opened().volume.counts();
    assert!(counts.read_errors.value() >= 8, "{}", counts.read_errors.value());
    assert_eq!(world.opened().volume.stats().segments_retired, 2);
    assert!(try_out(&world.opened().volume, 1).is_ok());
}

#[test]
fn a_segment_that_was_given_up_is_used_again_once_it_can_be_read() {
    for stays_bad in [false, true] {
        let mut world = filled(47);
        let geometry = *world.opened().volume.geometry();
        let at = geometry.segment_at(2);
        world.device.set_bad(at..at + 2 * geometry.segment_bytes);
        for resource in 0..100 {
            world.look(resource, true, (0, 40_000));
        }
        let given_up = |world: &mut World| world.opened().volume.stats().segments_retired;
        assert_eq!(given_up(&mut world), 2);
        if !stays_bad {
            world.device.repair();
        }
        // Until the log has gone round, then once more from what a restart knows.
        for round in 0..2 {
            for resource in 0..2 * geometry.log_bytes() / 40_000 {
                world.insert(1000 * (round + 1) + resource, 40_000, 0).expect("there is room");
            }
            world.opened().writer.drain().expect("the drive works");
            assert_eq!(given_up(&mut world), if stays_bad { 2 } else { 0 });
            world.device.process_end();
            world.open().expect("it is whole");
        }
    }
}

#[test]
fn a_segment_that_failed_when_its_turn_came_is_tried_again_the_next_time() {
    let mut world = filled(48);
    let geometry = *world.opened().volume.geometry();
    let at = geometry.segment_at(2);
    world.device.set_bad(at..at + 2 * geometry.segment_bytes);
    for resource in 0..100 {
        world.look(resource, true, (0, 40_000));
    }
    // Twice round: it is tried, and then nobody tries it at each segment that is freed.
    let mut go_round = |round: u64| {
        for resource in 0..2 * geometry.log_bytes() / 40_000 {
            world.insert(1000 * (round + 1) + resource, 40_000, 0).expect("there is room");
        }
        world.opened().writer.drain().expect("the drive works");
        world.device.repair();
        world.opened().volume.stats().segments_retired
    };
    assert_eq!([go_round(0), go_round(1)], [2, 0]);
}

#[test]
fn a_disk_that_fails_everywhere_is_left_and_not_trusted_before_it_works() {
    let mut world = filled(44);
    let (mut pace, mut now) = (Pace::new(), Instant::now());
    world.device.set_faults(Faults { read_errors: u16::MAX, ..Faults::default() });
    let states = pass(&mut world, &mut pace, &mut now, 12);
    assert_eq!(states[0], Health::Offline("16 reads in 16 fail".into()), "at once");
    let failing = Err(DiskError::DeviceFailing { failed: 16, reads: 16 });
    assert_eq!(try_out(&world.opened().volume, 1), failing);
    world.device.set_faults(Faults::default());
    assert_eq!(try_out(&world.opened().volume, 1), Ok(()));
    world.device.set_read_time(Duration::from_secs(3));
    let late = Err(DiskError::DeviceIo(IoError::TimedOut));
    assert_eq!(try_out(&world.opened().volume, 1), late);
}

#[test]
fn a_store_without_space_keeps_what_it_has_and_uses_what_there_is() {
    let mut world = filled(45);
    let geometry = *world.opened().volume.geometry();
    // What was never written has no blocks, as in a file with holes.
    let last = geometry.segment_at(9);
    world.device.set_no_space(Some(last..geometry.device_bytes));
    let mut failed = 0;
    for resource in 100..500 {
        failed += u32::from(world.insert(resource, 40_000, 0).is_err());
        failed += u32::from(world.opened().writer.tend().is_err());
    }
    // Each of them once, and then one of them each time the log goes round.
    assert!((10..=geometry.segments + 4).contains(&failed), "{failed}");
    let volume = std::sync::Arc::clone(&world.opened().volume);
    assert_eq!((volume.failures(), volume.stats().segments_retired), (0, 0));
    world.opened().writer.drain().expect("what was written before is written again");
    let newest = (450..500).filter(|resource| world.look(*resource, true, (0, 40_000))).count();
    assert!(newest >= 45, "{newest}: but for what was in a write that failed");
    // No space at all, not for a footer either; each attempt costs the oldest segment.
    world.device.set_no_space(Some(geometry.segment_at(0)..geometry.device_bytes));
    for resource in 500..504 {
        let _ = world.insert(resource, 40_000, 0);
    }
    let _ = world.opened().writer.drain();
    world.device.process_end();
    world.open().expect("it can be opened and read");
    let kept = (450..500).filter(|resource| world.look(*resource, true, (0, 40_000))).count();
    assert!(kept >= 30, "{kept}");
    world.device.set_no_space(None);
    for resource in 600..1000 {
        world.insert(resource, 40_000, 0).expect("there is space again");
    }
    assert_eq!(world.opened().volume.stats().segments_retired, 0);
}
