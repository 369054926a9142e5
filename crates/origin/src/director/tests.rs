use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// Health and load by origin; up and idle where nothing is said.
#[derive(Default)]
struct Scene(HashMap<OriginId, (Health, u64)>);

impl Scene {
    fn with(mut self, id: u32, health: Health) -> Self {
        self.0.insert(OriginId(id), (health, 0));
        self
    }
}

impl View for Scene {
    fn health(&self, origin: OriginId) -> Health {
        self.0.get(&origin).map_or(Health::Up, |state| state.0)
    }

    fn in_flight(&self, origin: OriginId) -> u64 {
        self.0.get(&origin).map_or(0, |state| state.1)
    }
}

fn members(ids: impl IntoIterator<Item = u32>) -> Vec<Member> {
    ids.into_iter().map(|id| Member::new(OriginId(id), format!("origin-{id}"))).collect()
}

fn tally(director: &Director, requests: u64, scene: &Scene) -> HashMap<u32, u64> {
    let mut counts = HashMap::new();
    for request in 0..requests {
        let key = stable_hash(&request.to_le_bytes());
        if let Some(OriginId(id)) = director.choose(key, &[], scene) {
            *counts.entry(id).or_default() += 1;
        }
    }
    counts
}

#[test]
fn round_robin_gives_each_its_turn_in_order() {
    let director = Director::round_robin(members(0..3));
    let turns: Vec<_> =
        (0..6).filter_map(|_| director.choose(0, &[], &Scene::default())).map(|id| id.0).collect();
    assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn round_robin_stays_fair_when_one_is_down() {
    let director = Director::round_robin(members(0..4));
    let counts = tally(&director, 300, &Scene::default().with(1, Health::Down));
    assert_eq!(counts, HashMap::from([(0, 100), (2, 100), (3, 100)]));
}

#[test]
fn round_robin_spreads_weights_evenly() {
    let [a, b, c] = [5, 1, 1].map(|weight| Member::new(OriginId(weight), "x").weight(weight * 10));
    let director = Director::round_robin([a, b.clone(), Member { origin: OriginId(2), ..c }]);
    let turns: Vec<_> =
        (0..7).filter_map(|_| director.choose(0, &[], &Scene::default())).map(|id| id.0).collect();
    assert_eq!(turns, [5, 5, 1, 5, 2, 5, 5]);
}

#[test]
fn fallback_takes_the_first_healthy_that_was_not_tried() {
    let director = Director::fallback(members([7, 8, 9]));
    let choose = |tried: &[u32], scene: &Scene| {
        let tried: Vec<_> = tried.iter().map(|id| OriginId(*id)).collect();
        director.choose(0, &tried, scene).map(|id| id.0)
    };
    assert_eq!(choose(&[], &Scene::default()), Some(7));
    assert_eq!(choose(&[7], &Scene::default()), Some(8));
    assert_eq!(choose(&[], &Scene::default().with(7, Health::Down)), Some(8));
    assert_eq!(choose(&[7, 8, 9], &Scene::default()), None);
}

#[test]
fn a_suspect_origin_is_used_only_when_none_is_up_and_a_down_one_never() {
    let suspect = Scene::default().with(7, Health::Suspect).with(8, Health::Suspect);
    for director in [
        Director::fallback(members([7, 8, 9])),
        Director::round_robin(members([7, 8, 9])),
        Director::hash(members([7, 8, 9]), Some(LoadBound::default())),
    ] {
        assert_eq!(tally(&director, 20, &suspect), HashMap::from([(9, 20)]));
        let worse =
            Scene::default().with(7, Health::Suspect).with(8, Health::Down).with(9, Health::Down);
        assert_eq!(tally(&director, 20, &worse), HashMap::from([(7, 20)]));
        let down =
            Scene::default().with(7, Health::Down).with(8, Health::Down).with(9, Health::Down);
        assert_eq!(director.choose(1, &[], &down), None);
    }
}

#[test]
fn keys_spread_by_weight() {
    let mut list = members(0..4);
    list[3].weight = 3;
    let counts = tally(&Director::hash(list, None), 60_000, &Scene::default());
    for (id, share) in [(0, 10_000), (1, 10_000), (2, 10_000), (3, 30_000)] {
        assert!(counts[&id].abs_diff(share) < share / 20, "{id} got {} of {share}", counts[&id]);
    }
}

#[test]
fn placement_is_the_same_on_every_node_and_in_every_version() {
    let director = Director::hash(members(0..5), None);
    let ids = (0..8_u64)
        .filter_map(|key| director.choose(stable_hash(&key.to_le_bytes()), &[], &Scene::default()));
    assert_eq!(ids.map(|id| id.0).collect::<Vec<_>>(), PLACEMENT);
    let mut reversed = members(0..5);
    reversed.reverse();
    let other = Director::hash(reversed, None);
    let ids = (0..8_u64)
        .filter_map(|key| other.choose(stable_hash(&key.to_le_bytes()), &[], &Scene::default()));
    assert_eq!(ids.map(|id| id.0).collect::<Vec<_>>(), PLACEMENT);
}

/// Written down once; a change here moves every key of every tier in the field.
const PLACEMENT: [u32; 8] = [1, 3, 1, 1, 4, 1, 2, 3];

/// Two groups by key and one origin behind them.
fn tiers() -> Director {
    let hash = |ids| Director::hash(members(ids), None);
    Director::groups([hash(0..3), hash(10..13), Director::fallback(members([20]))])
}

#[test]
fn a_group_is_asked_when_those_before_it_have_nobody() {
    let director = tiers();
    let key = stable_hash(b"a");
    let OriginId(home) = director.choose(key, &[], &Scene::default()).expect("all are up");
    assert!(home < 3);
    let mut tried = Vec::new();
    while let Some(next) = director.choose(key, &tried, &Scene::default()) {
        tried.push(next);
    }
    let groups: Vec<_> = tried.iter().map(|id| id.0 / 10).collect();
    assert_eq!(groups, [0, 0, 1, 1, 2], "two of each, then the origin");
    let away = (0..3).fold(Scene::default(), |scene, id| scene.with(id, Health::Down));
    assert_eq!(director.choose(key, &[], &away).map(|id| id.0 / 10), Some(1));
    // One that is well far away goes before one near by that just failed.
    let sick = (0..3).fold(Scene::default(), |scene, id| scene.with(id, Health::Suspect));
    assert_eq!(director.choose(key, &[], &sick).map(|id| id.0 / 10), Some(1));
    assert!(director.has(OriginId(12)) && !director.has(OriginId(13)));
}

#[test]
fn a_key_with_copies_takes_turns_among_its_best_members() {
    let director = Director::hash(members(0..8), None);
    let key = stable_hash(b"hot");
    let mut ranking = Vec::new();
    while let Some(next) = director.choose(key, &ranking, &Scene::default()) {
        ranking.push(next);
    }
    let scene = Scene::default().with(ranking[1].0, Health::Down);
    let counts = |copies, scene: &Scene| {
        let mut counts = HashMap::<OriginId, u64>::new();
        for _ in 0..300 {
            let wanted = Wanted { copies, ..key.into() };
            *counts
                .entry(director.choose(wanted, &[], scene).expect("some are up"))
                .or_default() += 1;
        }
        counts
    };
    assert_eq!(counts(1, &Scene::default()), HashMap::from([(ranking[0], 300)]));
    let three = ranking[..3].iter().map(|id| (*id, 100)).collect();
    assert_eq!(counts(3, &Scene::default()), three);
    assert_eq!(counts(2, &scene), HashMap::from([(ranking[0], 150), (ranking[2], 150)]));
    assert_eq!(counts(100, &Scene::default()).len(), 8);
}

proptest! {
    #[test]
    fn adding_a_member_takes_its_share_of_keys_and_moves_no_others(len in 1_u32..40) {
        let before = Director::hash(members(0..len), None);
        let after = Director::hash(members(0..=len), None);
        let keys = 20_000_u64;
        let mut moved = 0;
        for key in 0..keys {
            let key = stable_hash(&key.to_le_bytes());
            let now = after.choose(key, &[], &Scene::default());
            if now != before.choose(key, &[], &Scene::default()) {
                prop_assert_eq!(now, Some(OriginId(len)));
                moved += 1;
            }
        }
        let most = keys / u64::from(len + 1) + keys / 50;
        prop_assert!(moved <= most, "{} of {} moved to one of {}", moved, keys, len + 1);
    }

    #[test]
    fn losing_a_member_moves_only_its_own_keys(
        len in 2_u32..12, gone in 0_u32..12, keys in prop::collection::vec(any::<u64>(), 1..200),
    ) {
        let gone = gone % len;
        let director = Director::hash(members(0..len), None);
        let less = Director::hash(members((0..len).filter(|id| *id != gone)), None);
        let down = Scene::default().with(gone, Health::Down);
        for key in keys {
            let home = director.choose(key, &[], &Scene::default());
            let after = less.choose(key, &[], &Scene::default());
            prop_assert_eq!(after, director.choose(key, &[], &down));
            prop_assert_eq!(after, director.choose(key, &[OriginId(gone)], &Scene::default()));
            if home != Some(OriginId(gone)) {
                prop_assert_eq!(home, after);
            }
        }
    }

    #[test]
    fn bounded_load_never_puts_a_request_above_the_bound(
        loads in prop::collection::vec(0_u64..50, 1..10), keys in prop::collection::vec(any::<u64>(), 1..300),
    ) {
        let bound = LoadBound { factor: 1.25, floor: 0 };
        let director = Director::hash(members(0..loads.len() as u32), Some(bound));
        let mut scene = Scene::default();
        for (id, load) in loads.iter().enumerate() {
            scene.0.insert(OriginId(id as u32), (Health::Up, *load));
        }
        for key in keys {
            let chosen = director.choose(key, &[], &scene).expect("all are up");
            let total: u64 = scene.0.values().map(|state| state.1).sum::<u64>() + 1;
            let slot = scene.0.get_mut(&chosen).expect("chosen from the scene");
            slot.1 += 1;
            let most = (1.25 * total as f64 / loads.len() as f64).ceil() as u64;
            prop_assert!(slot.1 <= most, "{} of {total} on one of {}", slot.1, loads.len());
        }
    }

    #[test]
    fn round_robin_is_exact_over_a_period(weights in prop::collection::vec(1_u32..20, 1..8)) {
        let list = weights.iter().enumerate();
        let director = Director::round_robin(
            list.map(|(id, weight)| Member::new(OriginId(id as u32), "x").weight(*weight)),
        );
        let period: u32 = weights.iter().sum();
        let counts = tally(&director, u64::from(period) * 3, &Scene::default());
        for (id, weight) in weights.iter().enumerate() {
            prop_assert_eq!(counts[&(id as u32)], u64::from(*weight) * 3);
        }
    }
}

/// The director of each of `ids`, by the number of its node.
fn place(ids: &[u32]) -> Vec<(u32, Director)> {
    let of = |own: u32| {
        let others = members(ids.iter().copied().filter(|id| *id != own));
        (own, Director::siblings(others, (&format!("origin-{own}"), 1), Some(LoadBound::default())))
    };
    ids.iter().map(|own| of(*own)).collect()
}

#[test]
fn siblings_agree_on_the_home_of_a_key_and_each_knows_its_own() {
    let (place, all) = (place(&[1, 2, 3]), Scene::default());
    let without = Scene::default().with(2, Health::Down);
    let mut homes = HashMap::<u32, u64>::new();
    for number in 0..3_000_u64 {
        let key = stable_hash(&number.to_le_bytes());
        let home_of = |scene: &Scene| -> Vec<u32> {
            let chosen = |(own, director): &(u32, Director)| {
                director.choose(key, &[], scene).map_or(*own, |other| other.0)
            };
            place.iter().map(chosen).collect()
        };
        let home = home_of(&all);
        assert!(home.iter().all(|one| *one == home[0]), "{home:?}");
        *homes.entry(home[0]).or_default() += 1;
        // Whoever is well.
        let known = place.iter().map(|(own, one)| one.home(key).map_or(*own, |other| other.0));
        assert_eq!(known.collect::<Vec<_>>(), home);
        // One that is away has its keys taken over, by one that all others agree on; no others move.
        let then = home_of(&without);
        assert!(then[0] == then[2] && then[0] != 2, "{then:?}");
        assert!(home[0] == 2 || then[0] == home[0], "{home:?} {then:?}");
    }
    assert!(homes.values().all(|keys| (900..1_100).contains(keys)), "{homes:?}");
}

#[test]
fn a_sibling_with_more_than_its_share_under_way_lets_keys_go_to_the_next() {
    let (_, siblings) = place(&[1, 2, 3, 4]).swap_remove(0);
    let idle = Scene::default();
    let loaded = |busy: u64, others: u64| {
        let load = [(2, busy), (3, others), (4, others)];
        Scene(load.map(|(id, load)| (OriginId(id), (Health::Up, load))).into())
    };
    let keys = || (0..400_u64).map(|number| stable_hash(&number.to_le_bytes()));
    let homes =
        |scene: &Scene| keys().map(|key| siblings.choose(key, &[], scene)).collect::<Vec<_>>();
    let home = homes(&idle);
    // Below 32 shares say nothing, and below the bound a key stays at home.
    assert_eq!(homes(&loaded(31, 0)), home);
    assert_eq!(homes(&loaded(120, 100)), home);
    let then = homes(&loaded(200, 100));
    let moved: Vec<_> =
        home.iter().zip(&then).filter(|(home, _)| **home == Some(OriginId(2))).collect();
    assert!(moved.len() > 60, "{}", moved.len());
    // Of each, the next for its key, which is this node for some; all others stay.
    for next in [Some(OriginId(3)), Some(OriginId(4)), None] {
        let taken = moved.iter().filter(|(_, then)| **then == next).count();
        assert!(taken > 10, "{next:?}: {taken}");
    }
    assert!(then.iter().all(|then| *then != Some(OriginId(2))));
    let stayed = |(home, then): (&_, &_)| *home == Some(OriginId(2)) || home == then;
    assert!(home.iter().zip(&then).all(stayed));
}

#[test]
fn one_sibling_is_asked_once_and_then_the_next_group() {
    let origins = Director::fallback(members([9]));
    let (_, siblings) = place(&[1, 2, 3]).swap_remove(0);
    let director = Director::groups([siblings, origins]);
    let scene = Scene::default();
    let keys = || (0..200_u64).map(|number| stable_hash(&number.to_le_bytes()));
    let key = keys().find(|key| director.choose(*key, &[], &scene) == Some(OriginId(2))).unwrap();
    assert_eq!(director.home(key), Some(OriginId(2)));
    assert_eq!(director.choose(key, &[OriginId(2)], &scene), Some(OriginId(9)));
    let wanted = Wanted { skips_siblings: true, ..key.into() };
    assert_eq!(director.choose(wanted, &[], &scene), Some(OriginId(9)));
    let own = keys().find(|key| director.choose(*key, &[], &scene) == Some(OriginId(9)));
    assert!(own.is_some_and(|key| director.home(key).is_none()), "it has keys of its own");
    let both = scene.with(2, Health::Down).with(3, Health::Down);
    assert!(keys().all(|key| director.choose(key, &[], &both) == Some(OriginId(9))));
}

#[test]
fn whether_another_is_well_is_known_without_a_turn() {
    let (_, siblings) = place(&[1, 2, 3]).swap_remove(0);
    let director = Director::groups([siblings, Director::round_robin(members([8, 9]))]);
    let scene = Scene::default();
    let [eight, nine] = [8, 9].map(OriginId);
    let wanted = Wanted { skips_siblings: true, ..0.into() };
    for turn in [eight, nine, eight] {
        assert_eq!(director.choose(wanted, &[], &scene), Some(turn));
        assert!(director.has_another(&[turn], &scene));
    }
    assert!(!director.has_another(&[eight, nine], &scene), "siblings are not asked behind them");
    for health in [Health::Down, Health::Suspect] {
        assert!(!director.has_another(&[eight], &Scene::default().with(9, health)));
    }
}
