//! What a drive is told that it need not keep, and when.

use super::engine::SMALL;
use super::world::World;
use crate::discard::Discards;
use crate::limits::DISCARD_BYTES;
use crate::purges::Target;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A world whose log went round, and in which something is used all the time.
fn went_round(seed: u64) -> World {
    let mut world = World::new(16 << 20, seed, SMALL);
    world.opened().writer.set_keeps(true);
    world.opened().volume.set_discards(true);
    for resource in 0..1500 {
        insert(&mut world, resource);
    }
    world.opened().writer.drain().expect("the drive works");
    world.opened().writer.flush().expect("the drive works");
    world
}

fn insert(world: &mut World, resource: u64) -> bool {
    let inserted = world.insert(resource, 20_000, 0).is_ok();
    if resource.is_multiple_of(20) {
        let _ = world.opened().writer.drain();
        world.look(0, true, (0, 100));
    }
    inserted
}

#[test]
fn a_segment_is_discarded_when_its_opening_is_durable_and_before_it_is_written() {
    let mut world = went_round(11);
    let geometry = *world.opened().volume.geometry();
    let discards = world.device.discards();
    assert!(discards.len() as u32 > geometry.segments, "{}", discards.len());
    for (range, unflushed) in &discards {
        let from = range.start - geometry.segments_at;
        assert!(from.is_multiple_of(geometry.segment_bytes), "{range:?}");
        assert_eq!(range.end - range.start, geometry.segment_bytes);
        // What was kept of it, and that it is gone, was written before.
        assert_eq!(*unflushed, 0, "{range:?}");
    }
    let bytes: u64 = discards.iter().map(|(range, _)| range.end - range.start).sum();
    let told = world.opened().volume.counts().discarded_bytes.value();
    // The drive does at once what it is told; the newest segments are not written to yet.
    assert!((bytes - 2 * geometry.segment_bytes..=bytes).contains(&told), "{told} of {bytes}");
    assert!(world.look(1499, true, (0, 20_000)));
}

#[test]
fn what_is_used_outlives_a_power_cut_at_any_moment() {
    for seed in 0..60 {
        let mut world = went_round(seed);
        world.device.cut_after(1 + 3 * seed);
        (2000..2400).find(|resource| !insert(&mut world, *resource)).expect("the power goes");
        world.device.power_cut();
        world.open().expect("it can be opened");
        assert!(world.look(0, true, (0, 20_000)), "seed {seed}");
    }
}

#[test]
fn what_is_purged_stays_purged_though_its_segment_was_discarded_and_not_written() {
    let mut world = went_round(12);
    assert!(world.purge(Target::All, None));
    for resource in 3000..3040 {
        insert(&mut world, resource);
    }
    world.device.power_cut();
    world.open().expect("it can be opened");
    assert!((0..1500).all(|resource| !world.look(resource, true, (0, 20_000))));
}

#[test]
fn a_drive_is_told_of_a_long_segment_a_part_at_a_time() {
    let mut world = World::new(16 << 20, 1, SMALL);
    let volume = Arc::clone(&world.opened().volume);
    volume.set_discards(true);
    let begun = world.device.discards().len();
    let told = || world.device.discards().len() - begun;
    let start = 1 << 30;
    let mut discards = Discards::begin(&volume, start..start + 5 * DISCARD_BYTES / 2);
    assert_eq!(told(), 1);
    // The first write begins the next part, and no other until that is reached.
    discards.clear_to(&volume, start + 4096).expect("the drive works");
    assert_eq!(told(), 2);
    discards.clear_to(&volume, start + DISCARD_BYTES).expect("the drive works");
    assert_eq!(told(), 2);
    discards.clear_to(&volume, start + DISCARD_BYTES + 4096).expect("the drive works");
    assert_eq!(told(), 3);
    discards.end(&volume).expect("the drive works");
    assert_eq!(told(), 3);
    assert_eq!(volume.counts().discarded_bytes.value(), 5 * DISCARD_BYTES / 2);
}

#[test]
fn a_drive_that_knows_no_discards_is_not_told_again() {
    let mut world = World::new(16 << 20, 1, SMALL);
    let volume = Arc::clone(&world.opened().volume);
    volume.set_discards(true);
    world.device.set_knows_discards(false);
    for resource in 0..200 {
        world.insert(resource, 20_000, 0).expect("it is written all the same");
    }
    assert!(!volume.discards.load(Relaxed));
    assert_eq!(volume.counts().discarded_bytes.value(), 0);
    world.opened().writer.drain().expect("the drive works");
    assert!(world.look(199, true, (0, 20_000)));
}
