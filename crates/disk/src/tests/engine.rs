//! What the engine does while nothing is wrong, and after it was stopped.

use super::world::World;
use crate::error::DiskError;
use crate::geometry::FormatOptions;
use crate::purges::{Soft, Target};
use crate::recovery;
use crate::superblock::Superblock;
use crate::writer::Stream;
use freshet_device::Device;
use freshet_device::simulation::Faults;

pub(super) const SMALL: FormatOptions = FormatOptions {
    object_bytes: Some(8 << 10),
    segment_bytes: Some(512 << 10),
    record_bytes_max: Some(64 << 10),
    check_bytes: Some(4096),
};

#[test]
fn objects_of_all_sizes_come_back_whole_and_in_parts() {
    let mut world = World::new(16 << 20, 1, SMALL);
    let sizes =
        [0, 1, 511, 4096, 5000, 31_000, 33_000, 60_000, 64 << 10, 65_537, 200_000, 1_000_000];
    for (at, len) in sizes.into_iter().enumerate() {
        world.insert(at as u64, len, 0).expect("there is room");
    }
    world.opened().writer.drain().expect("the drive works");
    for round in 0..2 {
        for (at, len) in sizes.into_iter().enumerate() {
            for whole in [true, false] {
                assert!(world.look(at as u64, whole, (0, len)), "{len}");
                assert!(world.look(at as u64, whole, (len / 3, len * 2 / 3)), "{len}");
                assert!(world.look(at as u64, whole, (len.saturating_sub(1), len)), "{len}");
            }
        }
        if round == 0 {
            world.opened().writer.stop().expect("the drive works");
            let report = world.open().expect("it was stopped in order");
            assert!(report.was_clean && report.had_checkpoint, "{report:?}");
        }
    }
}

#[test]
fn a_newer_object_takes_the_place_of_an_older_one() {
    let mut world = World::new(16 << 20, 2, SMALL);
    for _ in 0..3 {
        world.insert(1, 10_000, 0).expect("there is room");
    }
    world.opened().writer.drain().expect("the drive works");
    assert!(world.look(1, true, (0, 10_000)));
    let entries = world.opened().volume.stats().entries;
    assert_eq!(entries, 1);
}

#[test]
fn the_log_goes_round_and_keeps_the_newest() {
    let mut world = World::new(16 << 20, 3, SMALL);
    for resource in 0..1200 {
        world.insert(resource, 20_000, 0).expect("old segments are freed");
    }
    world.opened().writer.drain().expect("the drive works");
    let hits =
        (1200 - 500..1200).filter(|resource| world.look(*resource, true, (0, 20_000))).count();
    assert_eq!(hits, 500, "the newest are there");
    assert!(!world.look(0, true, (0, 20_000)), "the oldest are gone");
    let stats = world.opened().volume.stats();
    let admitted = stats.written.admitted_bytes as f64;
    let amplification = stats.written.total() as f64 / admitted;
    assert!(amplification < 1.2, "records of 20 KB: {amplification}");
    assert!(stats.live_bytes <= stats.log_bytes);
}

#[test]
fn a_crash_forgets_nothing_of_what_was_written() {
    let mut world = World::new(16 << 20, 4, SMALL);
    for resource in 0..1500 {
        world.opened().writer.set_keeps(true);
        world.insert(resource, 20_000, 0).expect("old segments are freed");
        world.look(resource % 40, true, (0, 20_000));
        if resource % 7 == 0 {
            world.purge_resource(resource);
        }
        if resource % 370 == 0 {
            world.opened().writer.drain().expect("the drive works");
            let before = world.opened().volume.stats().written;
            let report = world.open().expect("it is whole");
            assert!(!report.was_clean && !report.lost_purges, "{report:?}");
            let after = world.opened().volume.stats().written;
            let is_less = [
                after.admitted_bytes < before.admitted_bytes,
                after.reinserted_bytes < before.reinserted_bytes,
                after.metadata_bytes < before.metadata_bytes,
                after.total() < before.total(),
            ];
            assert_eq!(is_less, [false; 4], "{before:?} {after:?}");
            assert!(after.total() <= before.total() * 21 / 20 + (1 << 20), "{before:?} {after:?}");
        }
    }
}

#[test]
fn the_index_grows_by_what_arrives_and_a_start_finds_all_of_it() {
    let options = FormatOptions { object_bytes: Some(64 << 10), ..SMALL };
    let mut world = World::new(16 << 20, 5, options);
    let lines = world.opened().volume.geometry().lines;
    let log_bytes = world.opened().volume.geometry().log_bytes();
    for (round, len) in [(0, 20_000), (1, 9_000)] {
        let last = log_bytes * 8 / 10 / len;
        for resource in 0..last {
            let resource = round * 10_000 + resource;
            world.insert(resource, len, 0).expect("old segments are freed");
            if resource % 97 == 0 {
                world.purge_resource(resource);
            }
        }
        world.opened().writer.drain().expect("the drive works");
        for is_again in [false, true] {
            if is_again {
                world.open().expect("it is whole");
            }
            let found = (0..last).filter(|at| world.look(round * 10_000 + at, true, (0, len)));
            let purged = (0..last).filter(|at| (round * 10_000 + at) % 97 == 0).count();
            assert_eq!(found.count() + purged, last as usize, "{len} again {is_again}");
        }
        assert_eq!(world.opened().volume.counts().index_dropped.value(), 0);
    }
    assert!(world.opened().volume.index().lines() > 3 * lines);
    assert_eq!(Superblock::read(&**world.opened().volume.device()).map(|read| read.version), Ok(4));
}

#[test]
fn starts_stay_short_however_often_a_node_is_restarted() {
    let mut world =
        World::new(64 << 20, 6, FormatOptions { segment_bytes: Some(4 << 20), ..SMALL });
    let segments = world.opened().volume.geometry().segments;
    for restart in 0..60 {
        // A part of a segment each time, which brings no checkpoint by itself.
        for resource in 0..60 {
            world.insert(restart * 60 + resource, 20_000, 0).expect("old segments are freed");
        }
        world.opened().writer.drain().expect("the drive works");
        let report = world.open().expect("it is whole");
        assert!(report.replayed <= u64::from(segments / 4 + 2) * 60, "{report:?}");
    }
}

/// Writes objects of `len` bytes until the log has gone round, and asks for all that must be there.
fn fill_and_ask(options: FormatOptions, bytes: u64, len: u64) -> (World, u64) {
    let mut world = World::new(bytes, 31, options);
    let geometry = *world.opened().volume.geometry();
    let last = geometry.log_bytes() * 3 / 2 / len;
    for resource in 0..last {
        world.insert(resource, len, 0).expect("old segments are freed");
        world.opened().writer.tend().expect("the drive works");
    }
    world.opened().writer.drain().expect("the drive works");
    // What is free or was freed ahead are two segments, what is written in a third.
    let in_segment = geometry.segment_bytes / (len + len / 16);
    let there = u64::from(geometry.segments - 3) * in_segment;
    for round in ["before", "after"] {
        let hits = (last - there..last)
            .filter(|resource| world.look(*resource, true, (0, len)))
            .count() as u64;
        let dropped = world.opened().volume.counts().index_dropped.value();
        assert_eq!((hits, dropped), (there, 0), "of {len} bytes, {round} the restart");
        world.device.process_end();
        world.open().expect("it can be opened");
    }
    (world, there)
}

#[test]
fn the_index_a_store_is_made_with_holds_all_objects_of_a_mebibyte() {
    // In small, and as it is made unless said otherwise.
    for len in [65_535, 64 << 10, 65_537, 100_000, 300_000] {
        let half = FormatOptions { object_bytes: Some(32 << 10), ..SMALL };
        fill_and_ask(half, 16 << 20, len);
    }
    let (mut world, _) = fill_and_ask(FormatOptions::default(), 96 << 20, 1 << 20);
    let stats = world.opened().volume.stats();
    assert!(stats.entries * (1 << 20) <= stats.log_bytes, "one record for each: {stats:?}");
}

#[test]
fn the_index_of_a_store_for_objects_of_a_mebibyte_takes_9_4_bytes_for_each() {
    let options =
        FormatOptions { object_bytes: Some(64 << 10), segment_bytes: Some(4 << 20), ..SMALL };
    let (mut world, there) = fill_and_ask(options, 64 << 20, 64 << 10);
    let geometry = *world.opened().volume.geometry();
    let design = geometry.device_bytes / (64 << 10);
    let stats = world.opened().volume.stats();
    assert!(stats.index_bytes as f64 <= 9.4 * design as f64 + 64.0, "{stats:?}");
    assert!(there > design * 2 / 3, "{there} of {design}");
}

#[test]
fn what_is_used_is_kept_when_its_segment_is_freed() {
    let mut world = World::new(16 << 20, 4, SMALL);
    world.opened().writer.set_keeps(true);
    for resource in 0..2000 {
        world.insert(resource, 20_000, 0).expect("old segments are freed");
        if resource % 20 == 0 {
            world.opened().writer.drain().expect("the drive works");
            assert!(world.look(0, true, (0, 100)) || resource == 0);
        }
    }
    assert!(world.opened().volume.stats().written.reinserted_bytes > 0);
}

#[test]
fn what_is_used_outlives_what_is_not_though_the_log_goes_round_three_times() {
    let mut world = World::new(16 << 20, 6, SMALL);
    world.opened().writer.set_keeps(true);
    // Of one record, and of several.
    let used = |resource: u64| if resource < 40 { 20_000 } else { 200_000 };
    for passing in 0..2400 {
        if passing % 10 == 0 && passing < 450 {
            world.insert(passing / 10, used(passing / 10), 0).expect("there is room");
        }
        world.insert(1000 + passing, 20_000, 0).expect("old segments are freed");
        if passing % 200 == 0 {
            world.opened().writer.drain().expect("the drive works");
            for resource in 0..45 {
                world.look(resource, true, (0, used(resource)));
            }
        }
    }
    world.opened().writer.drain().expect("the drive works");
    let there = (0..45).filter(|one| world.look(*one, true, (0, used(*one)))).count();
    assert!(there >= 43, "{there} of 45");
    let written = world.opened().volume.stats().written;
    assert!(written.reinserted_bytes < written.admitted_bytes / 4, "{written:?}");
}

#[test]
fn what_is_kept_is_found_while_it_is_written_again() {
    let mut world = World::new(16 << 20, 14, SMALL);
    world.opened().writer.set_keeps(true);
    for resource in 0..11 {
        world.insert(resource, if resource < 10 { 20_000 } else { 100_000 }, 0).expect("room");
    }
    world.opened().writer.seal(Stream::New).expect("the drive works");
    let there = |world: &mut World| {
        (0..11).filter(|one| world.look(*one, true, (0, 100_000))).collect::<Vec<_>>()
    };
    let all = there(&mut world);
    let entries = world.opened().volume.stats().entries;
    assert_eq!((all.len(), entries), (11, 12));
    // What was to be kept and could not be written is where it was.
    let geometry = *world.opened().volume.geometry();
    world.device.set_no_space(Some(geometry.segment_at(0)..geometry.device_bytes));
    assert!(world.opened().writer.reclaim().is_err());
    assert_eq!(there(&mut world), all);
    world.device.set_no_space(None);
    world.opened().writer.reclaim().expect("the drive works");
    let written = world.opened().volume.stats().written;
    assert!(written.reinserted_bytes > 0, "{written:?}");
    assert_eq!((there(&mut world), world.opened().volume.stats().entries), (all, entries));
}

#[test]
fn purges_hold_over_a_restart() {
    let mut world = World::new(16 << 20, 5, SMALL);
    for resource in 0..20 {
        world.insert(resource, 9000, resource % 2).expect("there is room");
    }
    world.opened().writer.drain().expect("the drive works");
    assert!(world.purge_resource(2));
    assert!(world.purge(Target::Tag(1), None));
    assert!(world.purge(Target::Tag(0), Some(Soft { from_ms: 77, grace_ms: None })));
    for _ in 0..2 {
        for resource in 0..20 {
            let there = world.look(resource, true, (0, 9000));
            assert_eq!(there, resource % 2 == 0 && resource != 2, "{resource}");
        }
        world.device.process_end();
        world.open().expect("it can be opened");
    }
    world.insert(2, 100, 1).expect("there is room");
    world.opened().writer.drain().expect("the drive works");
    assert!(world.look(2, true, (0, 100)), "what came after the purge stays");
}

#[test]
fn notes_hold_over_a_restart() {
    let mut world = World::new(16 << 20, 11, SMALL);
    for resource in 0..20 {
        world.insert(resource, 9000, 0).expect("there is room");
    }
    world.opened().writer.drain().expect("the drive works");
    for resource in [3, 7, 14, 3] {
        assert!(world.note(resource));
    }
    world.insert(7, 100, 0).expect("there is room");
    for round in 0..4 {
        world.opened().writer.drain().expect("the drive works");
        world.opened().writer.flush().expect("the drive works");
        for resource in 0..20 {
            let there = world.look(resource, true, (0, 9000));
            assert_eq!(there, ![3, 14].contains(&resource), "{resource} in round {round}");
        }
        assert_eq!(world.common.notes.all().len(), 3, "the same note counts once");
        match round {
            0 => world.device.power_cut(),
            1 => world.device.process_end(),
            _ => world.opened().writer.stop().expect("the drive works"),
        }
        let report = world.open().expect("it can be opened");
        assert_eq!(report.was_clean, round > 1, "{report:?}");
    }
}

#[test]
fn notes_that_are_older_than_all_content_can_go() {
    let mut world = World::new(16 << 20, 12, SMALL);
    world.insert(0, 20_000, 0).expect("there is room");
    world.opened().writer.drain().expect("the drive works");
    assert!(world.note(0) && world.note(1));
    assert_eq!(world.forget_done(), 0, "there is something older");
    for resource in 0..1200 {
        world.insert(resource, 20_000, 0).expect("old segments are freed");
        world.opened().writer.tend().expect("the drive works");
    }
    world.opened().writer.drain().expect("the drive works");
    for _ in 0..2 {
        // After a restart what the journal knows is there again, and goes again.
        assert_eq!(world.forget_done(), 2);
        let there = |world: &mut World| {
            (0..1200).filter(|resource| world.look(*resource, false, (0, 100))).count()
        };
        let before = there(&mut world);
        assert!(before > 500);
        assert_eq!(there(&mut world), before, "nothing is refused for them");
        world.device.process_end();
        world.open().expect("it can be opened");
        assert_eq!(there(&mut world), before);
    }
}

#[test]
fn what_there_is_no_room_for_a_note_about_is_refused() {
    let mut world = World::new(8 << 20, 13, SMALL);
    for resource in 0..40 {
        world.insert(resource, 4000, 0).expect("there is room");
    }
    world.opened().writer.drain().expect("the drive works");
    // More than half of the room for marks, which is 10 KiB on such a drive.
    for resource in (0..700).step_by(7) {
        assert!(world.note(resource));
    }
    world.insert(1, 500, 0).expect("there is room");
    world.opened().writer.stop().expect("the drive works");
    world.open().expect("it was stopped in order");
    let known = world.common.notes.all().len();
    assert!((1..100).contains(&known), "{known}");
    let there = (0..40).filter(|resource| world.look(*resource, true, (0, 4000)));
    assert_eq!(there.collect::<Vec<_>>(), [1], "what is newer than all notes");
}

#[test]
fn a_process_that_ends_loses_nothing_that_was_written() {
    let mut world = World::new(16 << 20, 6, SMALL);
    for resource in 0..300 {
        world.insert(resource, 5000 + resource * 100, 0).expect("there is room");
    }
    world.opened().writer.drain().expect("the drive works");
    world.device.process_end();
    let (before, _) = world.device.moved();
    let report = world.open().expect("it can be opened");
    let (after, _) = world.device.moved();
    assert!(!report.was_clean);
    for resource in 0..300 {
        assert!(world.look(resource, true, (0, 100_000)), "{resource}");
    }
    let geometry = *world.opened().volume.geometry();
    let bound = geometry.checkpoint_bytes + geometry.journal_bytes + 300 * (64 << 10) + (1 << 20);
    assert!(after - before <= bound, "{} bytes were read, the bound is {bound}", after - before);
}

#[test]
fn without_any_checkpoint_the_segments_say_what_they_have() {
    let mut world = World::new(16 << 20, 7, SMALL);
    for resource in 0..300 {
        world.insert(resource, 20_000, 0).expect("there is room");
    }
    assert!(world.purge_resource(299));
    world.opened().writer.stop().expect("the drive works");
    let geometry = *world.opened().volume.geometry();
    for at in geometry.checkpoint_at {
        world.device.flip_bit(at..at + 100);
    }
    let report = world.open().expect("it can be opened");
    assert!(!report.had_checkpoint && !report.lost_purges, "{report:?}");
    for resource in 0..300 {
        assert_eq!(world.look(resource, true, (0, 20_000)), resource != 299, "{resource}");
    }
}

#[test]
fn what_is_spoiled_on_its_way_is_read_once_more() {
    let mut world = World::new(32 << 20, 8, SMALL);
    for resource in 0..100 {
        world.insert(resource, 100_000, 0).expect("there is room");
    }
    world.opened().writer.drain().expect("the drive works");
    // One read in sixteen.
    world.device.set_faults(Faults { flips: u16::MAX / 16, ..Faults::default() });
    let hits = (0..100).filter(|resource| world.look(*resource, false, (0, 100_000))).count();
    assert!(world.opened().volume.counts().damaged.value() > 0);
    assert!(hits >= 95, "{hits}");
    world.device.set_faults(Faults::default());
    let kept = (0..100).filter(|resource| world.look(*resource, false, (0, 100_000))).count();
    assert!(kept >= hits, "{kept} after {hits}");
}

#[test]
fn a_bad_range_costs_its_own_objects_only() {
    let mut world = World::new(16 << 20, 8, SMALL);
    for resource in 0..100 {
        world.insert(resource, 40_000, 0).expect("there is room");
    }
    world.opened().writer.drain().expect("the drive works");
    let at = world.opened().volume.geometry().segment_at(1);
    world.device.set_bad(at + 8192..at + 50_000);
    let hits = (0..100).filter(|resource| world.look(*resource, true, (0, 40_000))).count();
    assert!((97..100).contains(&hits), "{hits}");
    assert_eq!(world.opened().volume.stats().segments_retired, 1);
    world.device.repair();
    for resource in 0..2000 {
        world.insert(resource, 20_000, 0).expect("the rest of the disk serves on");
    }
}

#[test]
fn a_store_of_the_first_version_is_read_and_made_one_of_this() {
    let mut world = World::new(16 << 20, 10, SMALL);
    for resource in 0..40 {
        world.insert(resource, 50_000, 0).expect("there is room");
    }
    // Long objects had all their bytes in chunks, and heads without any.
    world.insert_in_chunks_alone(40, 200_000);
    world.opened().writer.stop().expect("the drive works");
    let good = Superblock::read(&*world.device).expect("it was formatted");
    let first = Superblock { version: 1, ..good.clone() };
    first.write(&*world.device).expect("the drive works");
    // There were no notes, and checkpoints did not speak of any.
    let device: &dyn Device = &*world.device;
    for at in good.geometry.checkpoint_at {
        let mut header = device.read(at, 4096).expect("the drive works");
        header[0] = 1;
        let sum = crc32c::crc32c(&header[..120]);
        header[120..].fill(0);
        header[120..124].copy_from_slice(&sum.to_le_bytes());
        device.write(at, header).expect("the drive works");
    }
    for _ in 0..2 {
        let report = world.open().expect("the version before is read");
        assert!(report.was_clean && report.had_checkpoint, "{report:?}");
        for resource in 0..=40 {
            let len = if resource < 40 { 50_000 } else { 200_000 };
            assert!(world.look(resource, true, (0, len)), "{resource}");
            assert!(world.look(resource, false, (len / 2, len)), "{resource}");
        }
        assert_eq!(Superblock::read(&*world.device), Ok(good.clone()));
        world.opened().writer.stop().expect("the drive works");
    }
}

#[test]
fn what_is_no_store_is_named_and_left_alone() {
    let mut world = World::new(8 << 20, 9, SMALL);
    world.opened().writer.stop().expect("the drive works");
    let sim = world.device.clone();
    let device: &dyn Device = &*sim;
    let good = Superblock::read(device).expect("it was formatted");
    // The second copy serves where the first is damaged.
    sim.flip_bit(8..200);
    assert_eq!(Superblock::read(device), Ok(good.clone()));
    // A newer format.
    let newer = Superblock { version: 9, ..good.clone() };
    newer.write(device).expect("the drive works");
    assert!(matches!(Superblock::read(device), Err(DiskError::DeviceNewer { version: 9, .. })));
    // A longer device, cut off.
    let mut longer = good;
    longer.geometry.device_bytes = 9 << 20;
    let short = freshet_device::simulation::SimulatedDevice::new(9 << 20, 1, Default::default());
    longer.write(&short).expect("the drive works");
    let block = short.prefix(8 << 20);
    let result = Superblock::read(&block);
    assert!(matches!(result, Err(DiskError::DeviceTruncated { .. })), "{result:?}");
    // Another program's.
    let foreign = freshet_device::simulation::SimulatedDevice::new(8 << 20, 1, Default::default());
    let mut bytes = freshet_device::block::Block::new(4096);
    bytes[0x438] = 0x53;
    bytes[0x439] = 0xef;
    (&foreign as &dyn Device).write(0, bytes).expect("the drive works");
    assert_eq!(
        Superblock::read(&foreign),
        Err(DiskError::DeviceForeign { holds: "an ext4 file system" })
    );
    assert_eq!(crate::superblock::contents(&foreign), Ok(Some("an ext4 file system")));
    let common = super::world::common();
    assert!(recovery::inspect(&foreign, &common).is_err());
}
