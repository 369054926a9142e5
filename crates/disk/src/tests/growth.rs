//! An index that is made longer while the log goes on.

use super::engine::SMALL;
use super::world::World;
use crate::geometry::FormatOptions;

/// A store whose index is too short by three doublings, and how often that has grown.
fn short() -> (World, u64) {
    let options = FormatOptions { object_bytes: Some(64 << 10), ..SMALL };
    let mut world = World::new(64 << 20, 7, options);
    let lines = world.opened().volume.index().lines();
    (world, lines)
}

#[test]
fn no_write_waits_for_more_than_a_part_of_a_longer_index() {
    let (mut world, lines) = short();
    let (mut longest, mut next) = (0, 0);
    while world.opened().volume.index().lines() <= 4 * lines {
        let before = world.device.moved().0;
        world.insert(next, 3_000, 0).expect("there is room");
        longest = longest.max(world.device.moved().0 - before);
        next += 1;
    }
    assert!(next > 4_000, "{next}: of some dozens of segments");
    // The ends of two segments, each with more than a hundred records.
    assert!(longest <= 128 << 10, "{longest} B were read");
    world.opened().writer.drain().expect("the drive works");
    for at in 0..next {
        assert!(world.look(at, true, (0, 3_000)), "{at}");
    }
    assert_eq!(world.opened().volume.counts().index_dropped.value(), 0);
}

#[test]
fn what_changes_while_an_index_grows_is_so_in_the_longer_one() {
    let (mut world, lines) = short();
    let mut next = 0;
    // Until the first footer is being read.
    while !world.opened().writer.goes_on() {
        world.insert(next, 3_000, 0).expect("there is room");
        next += 1;
    }
    let is_longer = |world: &mut World| world.opened().volume.index().lines() > lines;
    assert!(!is_longer(&mut world));
    let (replaced, purged) = ([1, 2, next - 1, next - 2], [3, next - 3]);
    for at in replaced {
        world.insert(at, 2_000, 0).expect("there is room");
    }
    for at in purged {
        assert!(world.purge_resource(at));
    }
    world.opened().writer.drain().expect("the drive works");
    while !is_longer(&mut world) {
        world.opened().writer.go_on().expect("the drive works");
    }
    for round in ["before", "after a power cut"] {
        for at in 0..next {
            let len = if replaced.contains(&at) { 2_000 } else { 3_000 };
            let is_there = world.look(at, true, (0, len));
            assert_eq!(is_there, !purged.contains(&at), "{at} {round}");
        }
        world.opened().writer.flush().expect("the drive works");
        world.device.power_cut();
        world.open().expect("it can be opened");
    }
}
