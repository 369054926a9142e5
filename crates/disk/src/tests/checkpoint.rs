//! Checkpoints that are written while the log goes on.

use super::engine::SMALL;
use super::world::World;
use crate::geometry::FormatOptions;
use freshet_device::Device;
use freshet_device::block::Block;

#[test]
fn no_write_waits_for_more_than_a_part_of_a_checkpoint() {
    // Some megabytes of index, on a drive in memory.
    let many = FormatOptions { object_bytes: Some(512), ..SMALL };
    let mut world = World::new(160 << 20, 1, many);
    let index_bytes = world.opened().volume.index().bytes();
    assert!(index_bytes > 2 << 20, "{index_bytes}");
    for at in 0..500 {
        world.insert(at, 3_000, 0).expect("there is room");
    }
    world.opened().writer.checkpoint_in_time().expect("the drive works");
    let (mut next, mut longest) = (500, 0);
    while world.opened().writer.is_checkpointing() {
        let before = world.device.moved().1;
        world.insert(next, 3_000, 0).expect("there is room");
        longest = longest.max(world.device.moved().1 - before);
        next += 1;
    }
    assert!(next > 550, "{next}: it went on beside the log");
    // A part of it, and what was collected of the log.
    assert!((1 << 20..3 << 19).contains(&longest), "{longest}");
    world.device.power_cut();
    let report = world.open().expect("it can be opened");
    assert!(report.had_checkpoint && report.entries > 500, "{report:?}");
    for at in 0..500 {
        assert!(world.look(at, true, (0, u64::MAX)), "{at}");
    }
}

#[test]
fn a_power_cut_at_any_write_of_a_checkpoint_leaves_a_store_that_is_whole() {
    for stage in 0..6 {
        let mut world = World::new(16 << 20, stage, SMALL);
        for at in 0..200 {
            world.insert(at, 9_000, 0).expect("there is room");
        }
        world.opened().writer.checkpoint(false).expect("the drive works");
        for at in 200..260 {
            world.insert(at, 9_000, 0).expect("there is room");
        }
        assert!(world.purge_resource(7));
        world.opened().writer.checkpoint_in_time().expect("the drive works");
        for step in 0..stage {
            // Added, replaced, taken out and written between two writes of it.
            world.insert(300 + step, 9_000, 0).expect("there is room");
            world.insert(step, 8_000, 0).expect("there is room");
            assert!(world.purge_resource(20 + step));
            world.opened().writer.drain().expect("the drive works");
            world.opened().writer.step_checkpoint().expect("the drive works");
        }
        world.opened().writer.flush().expect("the drive works");
        world.device.power_cut();
        let report = world.open().expect("it can be opened");
        assert!(report.had_checkpoint, "stage {stage}: {report:?}");
        for at in (0..260).chain(300..300 + stage) {
            let is_gone = at == 7 || (20..20 + stage).contains(&at);
            assert_eq!(world.look(at, true, (0, u64::MAX)), !is_gone, "stage {stage}: {at}");
        }
    }
}

#[test]
fn of_a_journal_that_ends_before_the_checkpoint_purges_are_lost() {
    let mut world = World::new(16 << 20, 1, SMALL);
    for at in 0..50 {
        world.insert(at, 9_000, 0).expect("there is room");
    }
    for at in 0..5 {
        assert!(world.purge_resource(at));
    }
    world.opened().writer.checkpoint(false).expect("the drive works");
    assert!(world.purge_resource(7));
    // The drive has neither copy of it any more.
    let geometry = *world.opened().volume.geometry();
    let nothing = Block::new(geometry.journal_bytes as usize);
    let device: &dyn Device = &*world.device;
    device.write(geometry.journal_at, nothing).expect("the drive works");
    world.device.process_end();
    for start in 0..2 {
        let report = world.open().expect("it can be opened");
        assert!(report.lost_purges || start > 0, "{report:?}");
        let found = (0..50).filter(|at| world.look(*at, true, (0, u64::MAX))).count();
        assert_eq!(found, 0, "any of it may have been purged");
        world.device.power_cut();
    }
    world.open().expect("it can be opened");
    world.insert(8, 9_000, 0).expect("there is room");
    world.insert(9, 9_000, 0).expect("there is room");
    world.opened().writer.checkpoint(false).expect("the drive works");
    assert!(world.purge_resource(8));
    world.device.power_cut();
    let report = world.open().expect("it can be opened");
    assert!(!report.lost_purges, "{report:?}");
    assert!(!world.look(8, true, (0, u64::MAX)));
    assert!(world.look(9, true, (0, u64::MAX)));
    assert!(!world.look(10, true, (0, u64::MAX)), "it is from before what was lost");
}
