//! Faults by the hundred: every seed is a life of a drive with crashes, torn, lost and misdirected writes,
//! flipped bits, reads of other places and other times, errors and hangs. The long form is `bench/store/faults`.

use super::engine::SMALL;
use super::erase::{begin, step};
use super::world::World;
use crate::erase::Order;
use crate::geometry::FormatOptions;
use crate::purges::{Soft, Target};
use freshet_base::splitmix::{self, mixed};
use freshet_device::simulation::Faults;
use std::sync::Arc;

/// What a life came to.
#[derive(Debug, Default)]
struct Life {
    looks: u64,
    hits: u64,
    crashes: u64,
    purges: u64,
    notes: u64,
    forgotten: u64,
    refused: u64,
    renewed: u64,
    grown: u64,
    /// Erasures that went through all of a drive.
    erased: u64,
}

/// Lives one seed. Panics on a wrong byte, on purged content, on content that a lost note is about
/// and on an engine that panics.
fn live(seed: u64) -> Life {
    let mut random = mixed(seed ^ 0x5eed);
    let mut next = move |end: u64| splitmix::next(&mut random) % end.max(1);
    let mut life = Life::default();
    let bytes = (6 + next(6)) << 20;
    let grows = next(2) == 0;
    let object_bytes = if grows { 64 << 10 } else { 8 << 10 };
    let options = FormatOptions { object_bytes: Some(object_bytes), ..SMALL };
    let mut world = World::new(bytes, seed, options);
    world.opened().writer.set_keeps(next(2) == 0);
    world.opened().volume.set_discards(next(2) == 0);
    let kind = seed % 5;
    for _ in 0..2 + next(3) {
        // Kinds of lives: only power cuts; media errors too; hangs and lost writes too; flipped bits; a drive
        // that mistakes one place for another.
        let some = |wanted: bool, most: u64, next: &mut dyn FnMut(u64) -> u64| {
            if wanted { next(most) as u16 } else { 0 }
        };
        let faults = Faults {
            read_errors: some(kind == 1, 600, &mut next),
            write_errors: some(kind == 1, 300, &mut next),
            short: some(kind == 1 || kind == 3, 300, &mut next),
            hangs: some(kind == 2, 150, &mut next),
            flips: some(kind == 2 || kind == 3, 1500, &mut next),
            lost_writes: some(kind == 2, 600, &mut next),
            misdirected_writes: some(kind == 4, 600, &mut next),
            misdirected_reads: some(kind == 4, 1500, &mut next),
            stale_reads: some(kind == 4, 1500, &mut next),
            swapped_sectors: some(kind == 4, 1500, &mut next),
        };
        world.device.set_faults(faults);
        if next(3) > 0 {
            world.device.cut_after(next(400));
        }
        let mut erasing = Order::resume(&world.opened().writer);
        // Many short ones come among the others.
        let mut short = if grows { next(200) } else { 0 };
        for _ in 0..60 + next(120) {
            for _ in 0..short.min(4) {
                short -= 1;
                let _ = world.insert(60 + next(140), next(900), 0);
            }
            let resource = next(60);
            match next(24) {
                0..9 => {
                    let len = match next(6) {
                        0 => next(2000),
                        1..4 => next(50_000),
                        _ => next(300_000),
                    };
                    let _ = world.insert(resource, len, next(6));
                }
                9..15 => {
                    let start = next(80_000);
                    life.looks += 1;
                    life.hits += u64::from(world.look(
                        resource,
                        next(2) == 0,
                        (start, start + next(90_000)),
                    ));
                }
                15 => life.purges += u64::from(world.purge_resource(resource)),
                16 => {
                    let target = if next(6) == 0 { Target::All } else { Target::Tag(next(6)) };
                    let grace_ms = (next(2) == 0).then_some(3);
                    let soft = (next(2) == 0).then_some(Soft { from_ms: 5, grace_ms });
                    life.purges += u64::from(world.purge(target, soft));
                }
                17 if next(8) == 0 => life.forgotten += world.forget_done() as u64,
                17 => drop(world.opened().writer.drain()),
                18 => drop(world.opened().writer.tend()),
                20 | 21 => life.renewed += u64::from(world.renew(resource).is_some()),
                22 => {
                    let mut left = next(60);
                    erasing = erasing.take().or_else(|| begin(&mut world));
                    while left > 0
                        && let Some(order) = &mut erasing
                    {
                        left -= 1;
                        let goes_on = step(&mut world, order);
                        life.erased += u64::from(goes_on == Some(false));
                        if goes_on != Some(true) {
                            erasing = None;
                        }
                    }
                }
                19 => life.notes += u64::from(world.note(next(60))),
                _ => {
                    let _ = match next(8) {
                        0 => world.opened().writer.checkpoint(false),
                        1 => world.opened().writer.checkpoint_in_time(),
                        2..5 => world.opened().writer.step_checkpoint(),
                        _ => world.opened().writer.flush(),
                    };
                }
            }
        }
        life.crashes += 1;
        let volume = Arc::clone(&world.opened().volume);
        life.grown += u64::from(volume.index().lines() > volume.geometry().lines);
        world.device.set_faults(Faults::default());
        match next(4) {
            0 => world.device.process_end(),
            1 => {
                let _ = world.opened().writer.stop();
                world.device.power_cut();
            }
            _ => world.device.power_cut(),
        }
        if kind == 3 && next(3) == 0 {
            world.device.flip_bit(0..bytes);
        }
        match world.open() {
            Ok(report) => {
                let stats = world.opened().volume.stats();
                assert!(stats.live_bytes <= stats.log_bytes * 9 / 8, "{stats:?} {report:?}");
            }
            // Only where both superblocks or the whole journal were spoiled.
            Err(error) => {
                assert!(kind >= 2, "seed {seed}: {error}");
                life.refused += 1;
                return life;
            }
        }
        world.opened().writer.set_keeps(next(2) == 0);
        world.opened().volume.set_discards(next(2) == 0);
        for resource in 0..if grows { 200 } else { 60 } {
            life.looks += 1;
            life.hits += u64::from(world.look(resource, true, (0, u64::MAX)));
        }
    }
    life
}

#[test]
fn no_seed_brings_wrong_bytes_or_what_was_purged_or_noted() {
    let seeds = std::env::var("FRESHET_SEEDS").ok().and_then(|text| text.parse().ok());
    let first = std::env::var("FRESHET_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let count: u64 = seeds.unwrap_or(200);
    let mut sum = Life::default();
    for seed in first..first + count {
        let life = std::panic::catch_unwind(|| live(seed)).unwrap_or_else(|_| {
            panic!("seed {seed} failed; FRESHET_SEED={seed} FRESHET_SEEDS=1 repeats it")
        });
        sum.looks += life.looks;
        sum.hits += life.hits;
        sum.crashes += life.crashes;
        sum.purges += life.purges;
        sum.notes += life.notes;
        sum.forgotten += life.forgotten;
        sum.refused += life.refused;
        sum.grown += life.grown;
        sum.renewed += life.renewed;
        sum.erased += life.erased;
    }
    println!("{count} seeds: {sum:?}");
    assert!(sum.hits * 4 > sum.looks, "the campaign must find something to judge: {sum:?}");
    assert!(sum.grown > count / 4, "too few indexes grew: {sum:?}");
    assert!(sum.crashes >= 2 * count && sum.purges > count && sum.notes > count);
    assert!(sum.erased * 4 > count, "too little was erased: {sum:?}");
    assert!(sum.renewed > 4 * count, "too little was renewed: {sum:?}");
}

#[test]
fn the_same_seed_lives_the_same_life() {
    for seed in [3, 6, 9] {
        assert_eq!(format!("{:?}", live(seed)), format!("{:?}", live(seed)));
    }
}

#[test]
fn what_was_sealed_before_a_power_cut_is_served_after_it() {
    for seed in 0..20 {
        let mut world = World::new(12 << 20, seed, SMALL);
        for resource in 0..150 {
            world
                .insert(resource, 10_000 + mixed(seed ^ resource) % 30_000, 0)
                .expect("there is room");
        }
        world.opened().writer.drain().expect("the drive works");
        world.opened().writer.flush().expect("the drive works");
        for resource in 150..200 {
            let _ = world.insert(resource, 20_000, 0);
        }
        world.device.power_cut();
        world.open().expect("it can be opened");
        let hits = (0..150).filter(|resource| world.look(*resource, true, (0, u64::MAX))).count();
        assert_eq!(hits, 150, "seed {seed}");
    }
}
