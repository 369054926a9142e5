//! New words about objects whose bytes stay.

use super::engine::SMALL;
use super::world::World;
use crate::geometry::FormatOptions;
use crate::purges::{Soft, Target};

/// The renewal that describes a resource now.
fn renewal(world: &mut World, resource: u64) -> Option<u64> {
    assert!(world.look(resource, true, (0, u64::MAX)), "{resource} is gone");
    World::renewal_of(&world.find(resource, false).expect("it was found just now"))
}

fn settle(world: &mut World) {
    world.opened().writer.drain().expect("the drive works");
    world.opened().writer.flush().expect("the drive works");
}

#[test]
fn the_last_of_many_is_found_after_every_kind_of_end() {
    let mut world = World::new(12 << 20, 50, SMALL);
    let sizes = [0, 700, 20_000, 64 << 10, 300_000];
    for (resource, len) in (0..).zip(sizes) {
        world.insert(resource, len, 0).expect("there is room");
    }
    settle(&mut world);
    let entries = world.opened().volume.stats().entries;
    for end in 0..4 {
        let last: Vec<_> = (0..sizes.len() as u64)
            .map(|resource| (0..20).map(|_| world.renew(resource)).last().flatten())
            .collect();
        assert!(last.iter().all(Option::is_some));
        settle(&mut world);
        match end {
            0 => {}
            1 => world.device.power_cut(),
            2 => world.opened().writer.stop().expect("the drive works"),
            _ => {
                world.opened().writer.checkpoint(false).expect("the drive works");
                world.device.process_end();
            }
        }
        if end > 0 {
            world.open().expect("it is whole");
        }
        let found: Vec<_> =
            (0..sizes.len() as u64).map(|resource| renewal(&mut world, resource)).collect();
        assert_eq!(found, last, "end {end}");
        let stats = world.opened().volume.stats();
        assert_eq!(stats.entries, entries + sizes.len() as u64, "one entry for each object");
    }
    world.insert(2, 10_000, 0).expect("there is room");
    settle(&mut world);
    assert_eq!(renewal(&mut world, 2), None, "it was about the bytes before");
}

#[test]
fn what_was_found_good_after_a_soft_purge_is_good() {
    let mut world = World::new(12 << 20, 51, SMALL);
    for resource in 0..3 {
        world.insert(resource, 5000, 9).expect("there is room");
    }
    settle(&mut world);
    assert!(world.renew(0).is_some());
    let left = Soft { from_ms: 77, grace_ms: Some(3) };
    assert!(world.purge(Target::Tag(9), Some(left)));
    assert!(world.renew(1).is_some());
    settle(&mut world);
    let soft = |world: &mut World| {
        [0, 1, 2].map(|resource| world.find(resource, true).and_then(|stored| stored.soft))
    };
    assert_eq!(soft(&mut world), [Some(left), None, Some(left)]);
    world.device.power_cut();
    world.open().expect("it is whole");
    assert_eq!(soft(&mut world), [Some(left), None, Some(left)]);
    assert!(world.purge(Target::Tag(9), None));
    assert!((0..3).all(|resource| !world.look(resource, true, (0, 5000))));
}

#[test]
fn it_goes_with_its_object_into_a_longer_index_and_round_the_log() {
    let options = FormatOptions { object_bytes: Some(64 << 10), ..SMALL };
    let mut world = World::new(16 << 20, 52, options);
    world.opened().writer.set_keeps(true);
    let lines = world.opened().volume.geometry().lines;
    // Both are past their time, as they were written.
    world.expires_ms = 0;
    for resource in 0..2 {
        world.insert(resource, 5000, 0).expect("there is room");
    }
    world.expires_ms = u64::MAX;
    settle(&mut world);
    let last = world.renew(0);
    settle(&mut world);
    for resource in 2..8000 {
        if resource % 50 == 0 {
            assert_eq!(renewal(&mut world, 0), last, "at {resource}");
            world.look(1, true, (0, 5000));
        }
        world.insert(resource, 9000, 0).expect("old segments are freed");
    }
    assert!(world.opened().volume.index().lines() > lines);
    assert!(!world.look(1, true, (0, 5000)), "nobody said that it is of use any more");
    world.device.power_cut();
    world.open().expect("it is whole");
    assert_eq!(renewal(&mut world, 0), last);
}
