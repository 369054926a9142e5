//! What an erasure leaves on a drive, also where the power goes meanwhile.

use super::engine::SMALL;
use super::world::{World, content, key};
use crate::erase::{Asked, Order};
use crate::erasure::{Erased, Progress};
use crate::geometry::FormatOptions;
use crate::intake::object_id;
use crate::limits::FORMAT_VERSION_ERASED;
use crate::purges::Target;
use crate::superblock::Superblock;
use freshet_device::Device;
use freshet_device::simulation::Faults;
use std::collections::HashSet;
use std::time::{Duration, Instant};

const LENGTHS: [u64; 5] = [700, 9_000, 40_000, 70_000, 300_000];

/// Objects of two tags between one another, some of them replaced, until the log has gone round.
fn two_tags(seed: u64) -> World {
    let mut world = World::new(16 << 20, seed, SMALL);
    world.opened().writer.set_keeps(true);
    world.opened().volume.set_discards(true);
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
    let device = &*world.device as &dyn Device;
    let bytes = device.read(0, device.bytes() as usize).expect("the drive works");
    bytes.as_chunks::<8>().0.iter().filter(|word| words.contains(*word)).count()
}

/// Begins to erase what is purged.
pub(super) fn begin(world: &mut World) -> Option<Order> {
    let asked = Asked { since: world.common.next_seq(), what: "one".into() };
    Order::begin(&mut world.opened().writer, &asked).ok()
}

/// The next step, once there was time enough for what else there is to write; whether there is another.
pub(super) fn step(world: &mut World, order: &mut Order) -> Option<bool> {
    let later = Instant::now() + Duration::from_secs(3600);
    order.step_at(&mut world.opened().writer, later).ok()
}

/// Erases what is purged until that is over or fails.
fn erase(world: &mut World) -> Erased {
    let Some(mut order) = begin(world) else { return Erased::default() };
    while step(world, &mut order) == Some(true) {}
    erased(world)
}

fn erased(world: &mut World) -> Erased {
    world.opened().volume.erasure().map(|progress| progress.erased).unwrap_or_default()
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
    assert!(erased.is_whole(), "{erased:?}");
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
        // What was begun is gone on with; where even that was lost, it is asked for again.
        match Order::resume(&world.opened().writer) {
            Some(mut order) => while step(&mut world, &mut order) == Some(true) {},
            None => drop(erase(&mut world)),
        }
        let erased = erased(&mut world);
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
    let mut order = begin(&mut world).expect("the drive works");
    let writer = &mut world.opened().writer;
    let before = writer.volume().books().written.admitted_bytes;
    writer.store_chunk((key(900), 0), object, 0, 20_000, &[&bytes]).expect("it is left out");
    assert_eq!(writer.volume().books().written.admitted_bytes, before);
    let younger = object_id(&world.common, key(901));
    let writer = &mut world.opened().writer;
    writer.store_chunk((key(901), 0), younger, 0, 20_000, &[&bytes]).expect("it is written");
    assert!(writer.volume().books().written.admitted_bytes > before);
    assert!(order.step_at(writer, Instant::now()).expect("the drive works"));
}

#[test]
fn the_next_process_goes_on_where_the_one_before_was_killed() {
    let mut world = two_tags(8);
    assert!(world.purge(Target::Tag(1), None));
    let others = findable(&mut world, 0);
    let mut order = begin(&mut world).expect("the drive works");
    while erased(&mut world).segments_done < 20 {
        assert_eq!(step(&mut world, &mut order), Some(true));
    }
    let device = &**world.opened().volume.device();
    assert_eq!(Superblock::read(device).map(|read| read.version), Ok(FORMAT_VERSION_ERASED));
    let Progress { since, what, .. } = world.opened().volume.erasure().expect("it was begun");
    // How far it is is made durable with purges, every few seconds; and in each checkpoint.
    world.opened().writer.tend().expect("the drive works");
    for is_in_checkpoint in [false, true] {
        if is_in_checkpoint {
            world.opened().writer.checkpoint(false).expect("the drive works");
        }
        world.device.power_cut();
        world.device.repair();
        world.open().expect("it can be opened");
        let progress = world.opened().volume.erasure().expect("it is remembered");
        assert_eq!((progress.since, &*progress.what), (since, &*what));
        assert_eq!(progress.erased.segments_done, 20, "in checkpoint {is_in_checkpoint}");
    }
    let mut order = Order::resume(&world.opened().writer).expect("it is not over");
    while step(&mut world, &mut order) == Some(true) {}
    assert!(erased(&mut world).is_whole());
    assert_eq!(found_on_drive(&world), 0);
    assert_eq!(findable(&mut world, 0), others);
    world.open().expect("it can be opened");
    assert!(Order::resume(&world.opened().writer).is_none(), "it is over");
    assert!(erased(&mut world).is_whole(), "the proof is kept");
}

#[test]
fn what_is_written_between_two_steps_waits_for_one_and_is_not_overwritten() {
    let long = FormatOptions { segment_bytes: Some(4 << 20), ..SMALL };
    let mut world = World::new(48 << 20, 9, long);
    for at in 0..500 {
        world.insert(at, LENGTHS[(at % 5) as usize], at % 2).expect("there is room");
    }
    world.opened().writer.drain().expect("the drive works");
    assert!(world.purge(Target::Tag(1), None));
    let mut order = begin(&mut world).expect("the drive works");
    let (mut steps, mut next) = (0, 1_000);
    loop {
        let (read_before, written_before) = world.device.moved();
        let Some(goes_on) = step(&mut world, &mut order) else { panic!("the drive works") };
        let (read, written) = world.device.moved();
        let (read, written) = (read - read_before, written - written_before);
        // Twice, as blocks at the edges are read whole, and records' heads besides.
        assert!(read < 5 << 20 && written < 2 << 20, "step {steps}: {read}, {written}");
        if !goes_on {
            break;
        }
        steps += 1;
        // The log goes round once while it is erased, through segments that are being visited too.
        world.insert(next, 300_000, 0).expect("old segments are freed");
        next += 1;
    }
    world.opened().writer.drain().expect("the drive works");
    assert!(steps > 40, "{steps}");
    assert!(erased(&mut world).is_whole(), "{:?}", erased(&mut world));
    let mut found = 0;
    for at in 1_000..next {
        found += usize::from(world.find(at, false).is_some());
        world.look(at, true, (0, u64::MAX));
    }
    assert!(found > 40, "{found}");
    assert_eq!(found_on_drive(&world), 0);
}
