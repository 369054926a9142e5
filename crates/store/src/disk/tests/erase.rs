//! What an erasure leaves on a drive, also where the power goes meanwhile.

use super::engine::SMALL;
use super::world::{World, content, key};
use crate::disk::device::Device;
use crate::disk::erase::{Erased, Erasure, Order};
use crate::disk::intake::object_id;
use crate::disk::purges::Target;
use crate::disk::simulation::Faults;
use std::collections::HashSet;
use std::time::{Duration, Instant};

const LENGTHS: [u64; 5] = [700, 9_000, 40_000, 70_000, 300_000];

/// Objects of two tags between one another, some of them replaced, until the log has gone round.
fn two_tags(seed: u64) -> World {
    let mut world = World::new(16 << 20, seed, SMALL);
    world.opened().writer.set_keeps(true);
    for at in 0..400 {
        world.insert(at % 230, LENGTHS[(at % 5) as usize], at % 230 % 2).expect("there is room");
    }
    world.opened().writer.drain().expect("the drive works");
    world
}

/// Words of 8 bytes on the drive that are some of what was inserted with tag 1.
fn found_on_drive(world: &World) -> usize {
    let ones = world.inserted.iter().filter(|inserted| inserted.tag == 1);
    let words: HashSet<[u8; 8]> =
        ones.flat_map(|one| content(one.number, one.len).as_chunks::<8>().0.to_vec()).collect();
    let bytes = (&*world.device as &dyn Device).read(0, 16 << 20).expect("the drive works");
    bytes.as_chunks::<8>().0.iter().filter(|word| words.contains(*word)).count()
}

/// Erases what is purged until that is over or fails.
fn erase(world: &mut World) -> Erased {
    let erasure = Erasure::new(world.common.next_seq());
    let mut order = Order::new(&erasure);
    let writer = &mut world.opened().writer;
    let mut goes_on = order.begin(writer).is_ok();
    while goes_on {
        // Time enough for what else there is to write.
        let later = Instant::now() + Duration::from_secs(3600);
        goes_on = order.step_at(writer, later).unwrap_or(false);
    }
    drop(order);
    erasure.erased()
}

/// Resources of a tag that can be found.
fn findable(world: &mut World, tag: u64) -> Vec<u64> {
    (0..230).filter(|at| at % 2 == tag && world.find(*at, false).is_some()).collect()
}

#[test]
fn nothing_of_what_was_erased_is_on_the_drive_and_others_are_whole() {
    let mut world = two_tags(71);
    assert!(found_on_drive(&world) > 10_000, "the test would find it");
    let others = findable(&mut world, 0);
    assert!(others.len() > 30 && findable(&mut world, 1).len() > 30);
    assert!(world.purge(Target::Tag(1), None));
    assert!(found_on_drive(&world) > 10_000, "a purge leaves the bytes");
    let erased = erase(&mut world);
    assert!(erased.is_whole() && erased.is_over, "{erased:?}");
    assert_eq!(found_on_drive(&world), 0);
    for is_again in [false, true] {
        if is_again {
            world.open().expect("it is whole");
        }
        assert_eq!(findable(&mut world, 0), others, "again {is_again}");
        for at in &others {
            assert!(world.look(*at, true, (0, u64::MAX)), "{at}");
        }
    }
    // What is there already is not written again.
    let again = erase(&mut world);
    assert!(again.is_whole() && again.overwritten_bytes == 0, "{again:?}");
    // The log goes on, and keeps nothing that was erased.
    for at in 1000..1400 {
        world.insert(at, 40_000, 0).expect("old segments are freed");
    }
    world.opened().writer.drain().expect("the drive works");
    assert_eq!(found_on_drive(&world), 0);
}

#[test]
fn an_erasure_that_is_cut_short_harms_nothing_and_can_be_done_again() {
    for seed in 0..4 {
        let mut world = two_tags(seed);
        assert!(world.purge(Target::Tag(1), None));
        world.device.cut_after(40 + seed * 90);
        assert!(!erase(&mut world).is_whole(), "it was cut short");
        world.device.power_cut();
        world.device.repair();
        world.open().expect("it can be opened");
        for at in 0..230 {
            world.look(at, true, (0, u64::MAX));
        }
        assert_eq!(findable(&mut world, 1), [], "the purge is durable");
        let erased = erase(&mut world);
        assert!(erased.is_whole(), "{seed}: {erased:?}");
        assert_eq!(found_on_drive(&world), 0, "{seed}");
    }
}

#[test]
fn a_drive_that_loses_writes_gets_no_proof() {
    let mut world = two_tags(5);
    assert!(world.purge(Target::Tag(1), None));
    world.device.set_faults(Faults { lost_writes: 20_000, ..Faults::default() });
    let erased = erase(&mut world);
    assert!(erased.left_bytes > 0 && !erased.is_whole(), "{erased:?}");
}

#[test]
fn a_segment_that_fails_gets_no_proof() {
    let mut world = two_tags(6);
    assert!(world.purge(Target::Tag(1), None));
    let geometry = *world.opened().volume.geometry();
    let start = geometry.segment_at(3);
    world.device.set_bad(start..start + geometry.segment_bytes);
    let erased = erase(&mut world);
    assert!(erased.left_bytes == geometry.segment_bytes && !erased.is_whole(), "{erased:?}");
}

#[test]
fn what_began_before_an_erasure_is_not_written_after_it() {
    let mut world = two_tags(7);
    let object = object_id(&world.common, key(900));
    let bytes = content(900, 20_000);
    let erasure = Erasure::new(world.common.next_seq());
    let mut order = Order::new(&erasure);
    let writer = &mut world.opened().writer;
    order.begin(writer).expect("the drive works");
    let before = writer.volume().books().written.admitted_bytes;
    writer.store_chunk(key(900), object, 0, 20_000, &[&bytes]).expect("it is left out");
    assert_eq!(writer.volume().books().written.admitted_bytes, before);
    let younger = object_id(&world.common, key(901));
    let writer = &mut world.opened().writer;
    writer.store_chunk(key(901), younger, 0, 20_000, &[&bytes]).expect("it is written");
    assert!(writer.volume().books().written.admitted_bytes > before);
    assert!(order.step_at(writer, Instant::now()).expect("the drive works"));
}
