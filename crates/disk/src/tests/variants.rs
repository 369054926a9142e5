//! Responses of one resource that are selected by what a request says.

use super::engine::SMALL;
use super::world::{World, finish, key};
use crate::limits::VARIANTS_MAX;
use crate::slot::head_kind;
use std::sync::Arc;

const RESOURCE: u64 = 1;

/// As many variants as a resource may have, which all would get the same kind by their hashes alone.
fn alike(count: usize) -> Vec<u64> {
    (1..).step_by(2).filter(|variant| head_kind(*variant) == head_kind(1)).take(count).collect()
}

fn insert(world: &mut World, variant: u64) {
    world.variant = variant;
    world.insert(RESOURCE, 3000, 0).expect("there is room");
}

/// The variants that are found, sorted.
fn found(world: &mut World) -> Vec<u64> {
    let volume = Arc::clone(&world.opened().volume);
    let heads = finish(volume.read_heads(key(RESOURCE), false, &world.arena));
    let heads = heads.expect("the drive answers").expect("the drive works");
    let mut variants: Vec<u64> = heads.iter().map(|stored| stored.variant).collect();
    variants.sort_unstable();
    variants
}

#[test]
fn variants_stay_beside_one_another_over_any_end() {
    let all = alike(VARIANTS_MAX.into());
    // One write has all of them, or each has one.
    for is_one_by_one in [false, true] {
        let mut world = World::new(16 << 20, 21, SMALL);
        for round in 0..3 {
            for variant in &all {
                insert(&mut world, *variant);
                if is_one_by_one {
                    world.opened().writer.drain().expect("the drive works");
                }
            }
            world.opened().writer.drain().expect("the drive works");
            assert_eq!(found(&mut world), all, "in round {round}");
            assert_eq!(world.opened().volume.stats().entries, all.len() as u64, "once each");
            match round {
                0 => world.device.process_end(),
                1 => world.opened().writer.stop().expect("the drive works"),
                _ => {
                    world.opened().writer.flush().expect("the drive works");
                    world.device.power_cut();
                }
            }
            world.open().expect("it can be opened");
            assert_eq!(found(&mut world), all, "after the end of round {round}");
        }
    }
}

#[test]
fn where_there_are_too_many_the_oldest_goes() {
    let all = alike(usize::from(VARIANTS_MAX) + 2);
    let mut world = World::new(16 << 20, 22, SMALL);
    for variant in &all {
        insert(&mut world, *variant);
    }
    world.opened().writer.drain().expect("the drive works");
    assert_eq!(found(&mut world), all[2..]);
}
