use super::place::{Locate, Position};
use super::prefix::{self, Prefix, Prefixes};
use super::table::{Draft, KeyPart, Node, Region, Site, Zone};
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

/// How nodes are, by number; those that are not there are up.
#[derive(Default)]
struct Seen {
    standings: HashMap<NodeId, Standing>,
    sent: HashMap<NodeId, u64>,
}

const UP: Standing = Standing { health: Health::Up, share_percent: 100 };

impl View for Seen {
    fn standing(&self, node: NodeId) -> Standing {
        self.standings.get(&node).copied().unwrap_or(UP)
    }

    fn sent(&self, node: NodeId) -> u64 {
        self.sent.get(&node).copied().unwrap_or(0)
    }
}

impl Seen {
    fn with(health: Health, nodes: &[NodeId]) -> Self {
        let standing = Standing { health, share_percent: 100 };
        Self { standings: nodes.iter().map(|id| (*id, standing)).collect(), ..Self::default() }
    }
}

/// Regions in a row from west to east, with so many nodes each, a zone `10.N.0.0/16` for each.
fn draft(nodes_of_regions: &[usize]) -> Draft {
    let mut out = Draft::default();
    let mut prefixes = prefix::Draft::default();
    for (at, count) in nodes_of_regions.iter().enumerate() {
        let id = RegionId::try_from(at).unwrap();
        out.regions.push(Region {
            name: format!("r{at}"),
            coordinates: Coordinates::new(10.0, 10.0 * at as f64),
            overflows_to_nearest: true,
            ..Region::default()
        });
        out.zones.push(Zone { name: format!("z{at}"), region: Some(id), ..Zone::default() });
        prefixes.add(Prefix::read(&format!("10.{at}.0.0/16")).unwrap(), u32::from(id));
        for number in 0..*count {
            out.nodes.push(Node {
                name: format!("r{at}-{number}"),
                region: id,
                weight: 1,
                addresses: vec![[192, 0, 2, number as u8].into()],
                host: format!("r{at}-{number}.example"),
            });
        }
    }
    out.prefixes = Prefixes::new(prefixes).unwrap();
    out.sites.push(Site::new("a.example"));
    out
}

fn ask(client: &str, key: u64) -> Question<'static> {
    Question {
        site: 0,
        client: client.parse().unwrap(),
        key,
        wanted: 1,
        family: Family::Any,
        kept: None,
        avoid: &[],
    }
}

fn region_of(table: &Table, decision: &Decision) -> Option<RegionId> {
    decision.picks.first().and_then(|id| table.node(id)).map(|node| node.region)
}

/// Keys as `key_of` makes them: spread over 64 bits.
fn key(number: u64) -> u64 {
    freshet_origin::director::stable_hash(&number.to_le_bytes())
}

#[test]
fn regions_follow_one_another_as_nodes_go() {
    let mut draft = draft(&[2, 2, 2]);
    draft.regions[1].overflow = vec![2];
    draft.trusts_when_all_are_down = true;
    let table = Table::new(draft);
    let region = |down: &[NodeId]| {
        let decision = table.decide(&ask("10.1.2.3", 7), &Seen::with(Health::Down, down), &mut ());
        region_of(&table, &decision)
    };
    assert_eq!(region(&[]), Some(1));
    assert_eq!(region(&[2]), Some(1));
    assert_eq!(region(&[2, 3]), Some(2), "the one it names before the nearest");
    assert_eq!(region(&[2, 3, 4, 5]), Some(0));
    assert_eq!(region(&[0, 1, 2, 3, 4, 5]), Some(1), "where all are down, nobody is believed");
    let drained = Seen::with(Health::Drained, &[0, 1, 2, 3, 4, 5]);
    assert_eq!(table.decide(&ask("10.1.2.3", 7), &drained, &mut ()).picks, Picks::default());
}

#[test]
fn a_full_region_flows_over_and_a_full_world_is_better_than_none() {
    let table = Table::new(draft(&[1, 1]));
    let half = Standing { health: Health::Up, share_percent: 50 };
    let seen = Seen { standings: HashMap::from([(0, half)]), ..Seen::default() };
    let at_home = (0..1000)
        .filter(|number| {
            let decision = table.decide(&ask("10.0.0.1", key(*number)), &seen, &mut ());
            region_of(&table, &decision) == Some(0)
        })
        .count();
    assert!((400..600).contains(&at_home), "{at_home}");
    let none = Standing { share_percent: 0, ..half };
    let seen = Seen { standings: HashMap::from([(0, none), (1, none)]), ..Seen::default() };
    assert_eq!(table.decide(&ask("10.0.0.1", 7), &seen, &mut ()).picks, Picks::one(0));
    let seen = Seen {
        standings: HashMap::from([(0, none), (1, Standing { health: Health::Suspect, ..UP })]),
        ..Seen::default()
    };
    assert_eq!(table.decide(&ask("10.1.0.1", 7), &seen, &mut ()).picks, Picks::one(0));
}

#[test]
fn a_client_stays_with_its_node_while_that_is_good_and_in_reach() {
    let mut draft = draft(&[4, 4]);
    draft.regions[0].overflows_to_nearest = false;
    let table = Table::new(draft);
    let sent = |kept: NodeId, seen: &Seen| {
        let question = Question { kept: Some(kept), ..ask("10.0.0.1", 7) };
        table.decide(&question, seen, &mut ()).picks.first()
    };
    let own = table.decide(&ask("10.0.0.1", 7), &Seen::default(), &mut ()).picks.first();
    for kept in 0..4 {
        assert_eq!(sent(kept, &Seen::default()), Some(kept));
    }
    assert_eq!(sent(5, &Seen::default()), own, "of a region that the client is not sent to");
    assert_eq!(sent(99, &Seen::default()), own);
    let other = (own.unwrap() + 1) % 4;
    for health in [Health::Down, Health::Suspect, Health::Drained] {
        assert_eq!(sent(other, &Seen::with(health, &[other])), own);
    }
}

#[test]
fn nodes_inside_a_zone_come_before_its_region() {
    let mut draft = draft(&[2, 2]);
    draft.zones[0].nodes = vec![3];
    let table = Table::new(draft);
    let decide = |seen: &Seen| table.decide(&ask("10.0.0.1", 7), seen, &mut ()).picks.first();
    assert_eq!(decide(&Seen::default()), Some(3));
    assert!(decide(&Seen::with(Health::Down, &[3])).is_some_and(|id| id < 2));
}

struct East;

impl Locate for East {
    fn locate(&self, client: IpAddr) -> Position {
        let place = client.is_ipv4().then(|| Coordinates::new(10.0, 21.0).unwrap());
        Position { place, country: place.and_then(|_| Code::parse("jp")), network_bits: 20 }
    }
}

#[test]
fn who_is_in_no_zone_goes_where_it_is_near_or_where_the_default_is() {
    let mut with_locator = draft(&[1, 1, 1]);
    with_locator.locator = Some(Arc::new(East));
    with_locator.default_region = Some(1);
    with_locator.sites.push(Site { zones_only: true, ..Site::new("b.example") });
    for codes in [["DE", "JP"], ["DE", "AT"]] {
        let countries = codes.iter().filter_map(|code| Code::parse(code)).collect();
        with_locator.sites.push(Site { countries, ..Site::new("c.example") });
    }
    let table = Table::new(with_locator);
    let near = table.decide(&ask("203.0.113.1", 7), &Seen::default(), &mut ());
    assert_eq!((region_of(&table, &near), near.scope_bits), (Some(2), 20));
    let nowhere = table.decide(&ask("2001:db8::1", 7), &Seen::default(), &mut ());
    // That nobody knows holds for a network too.
    assert_eq!((region_of(&table, &nowhere), nowhere.scope_bits), (Some(1), 20));
    let is_refused = |site, client| {
        let question = Question { site, ..ask(client, 7) };
        table.decide(&question, &Seen::default(), &mut ()).is_refused
    };
    for (client, refused) in [
        ("10.0.0.1", [false, false, false, false]),
        ("203.0.113.1", [false, true, false, true]),
        ("2001:db8::1", [false, true, true, true]),
    ] {
        assert_eq!([0, 1, 2, 3].map(|site| is_refused(site, client)), refused, "{client}");
    }
}

#[test]
fn an_answer_has_several_nodes_of_the_family_that_is_asked_for() {
    let mut draft = draft(&[4]);
    draft.nodes[2].addresses = vec!["2001:db8::2".parse().unwrap()];
    draft.sites.push(Site { regions: vec![0], ..Site::new("b.example") });
    let table = Table::new(draft);
    let ids = |wanted, family| {
        let question = Question { wanted, family, ..ask("10.0.0.1", 7) };
        let decision = table.decide(&question, &Seen::default(), &mut ());
        let mut ids = decision.picks.as_slice().to_vec();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(8, Family::Any), [0, 1, 2, 3]);
    assert_eq!(ids(8, Family::V4), [0, 1, 3]);
    assert_eq!(ids(2, Family::V6), [2]);
    assert_eq!(ids(2, Family::V4).len(), 2);
    assert!(table.has_family(0, Family::V6) && table.has_family(1, Family::V4));
}

#[test]
fn what_is_asked_for_by_all_does_not_load_one_node() {
    let table = Table::new(draft(&[10]));
    let mut seen = Seen::default();
    // A third of the requests are for one key.
    for number in 0..20_000_u64 {
        let key = if number % 3 == 0 { 1 } else { key(number) };
        let id = table.decide(&ask("10.0.0.1", key), &seen, &mut ()).picks.first().unwrap();
        *seen.sent.entry(id).or_default() += 1;
    }
    let most = *seen.sent.values().max().unwrap();
    assert!(most <= 2_000 * 130 / 100, "{most} of a mean of 2000");
}

#[test]
fn a_key_that_is_spread_has_a_few_homes_and_each_client_one_of_them() {
    let mut draft = draft(&[8]);
    draft.sites[0].spread = 3;
    let table = Table::new(draft);
    let home = |client: &str| {
        let decision = table.decide(&ask(client, 7), &Seen::default(), &mut ());
        assert_eq!(decision.scope_bits, 24);
        decision.picks.first().unwrap()
    };
    let mut homes: Vec<_> = (0..200).map(|at| home(&format!("10.0.{at}.1"))).collect();
    assert_eq!(home("10.0.5.1"), home("10.0.5.200"));
    homes.sort_unstable();
    homes.dedup();
    assert_eq!(homes.len(), 3);
}

#[test]
fn a_ladder_has_two_rungs_of_a_region_at_most() {
    let table = Table::new(draft(&[4, 4, 1]));
    let (first, ladder) = table.decide_ladder(&ask("10.0.0.1", 7), &Seen::default(), 6);
    let regions: Vec<_> = ladder.iter().map(|id| table.node(*id).unwrap().region).collect();
    assert_eq!(regions, [0, 0, 1, 1, 2]);
    assert_eq!(first.picks.first(), Some(ladder[0]));
}

#[test]
fn a_story_says_why() {
    let table = Table::new(draft(&[2, 1]));
    let mut story = Story::default();
    let decision =
        table.decide(&ask("10.0.0.1", 7), &Seen::with(Health::Down, &[0, 1]), &mut story);
    assert_eq!(
        story.lines(&table, &decision),
        [
            "the client is in zone z0, with all of its /16",
            "nodes that are up and within their load",
            "  region r0: nobody (r0-0 is down; r0-1 is down)",
            "  region r1: r1-0",
            "sent to r1-0",
        ]
    );
}

/// Homes of keys with `nodes` nodes of these weights in one region.
fn homes(weights: &[u32], keys: u64) -> Vec<NodeId> {
    let mut draft = draft(&[weights.len()]);
    draft.sites[0].key = vec![KeyPart::Path, KeyPart::Client];
    for (node, weight) in draft.nodes.iter_mut().zip(weights) {
        node.weight = *weight;
    }
    let table = Table::new(draft);
    let home = |number| {
        let decision = table.decide(&ask("10.0.0.1", key(number)), &Seen::default(), &mut ());
        decision.picks.first().unwrap()
    };
    (0..keys).map(home).collect()
}

#[test]
fn a_share_of_the_keys_is_as_the_weight_says() {
    let homes = homes(&[1, 1, 2], 20_000);
    let heavy = homes.iter().filter(|id| **id == 2).count();
    assert!((9_500..10_500).contains(&heavy), "{heavy}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_node_more_moves_its_share_of_the_keys_and_to_itself_only(count in 1..30_usize) {
        const KEYS: u64 = 4000;
        let (before, after) = (homes(&vec![1; count], KEYS), homes(&vec![1; count + 1], KEYS));
        let moved: Vec<_> = before.iter().zip(&after).filter(|(a, b)| a != b).collect();
        prop_assert!(moved.iter().all(|(_, to)| **to == count as NodeId));
        let most = KEYS as f64 * (1.0 / (count + 1) as f64 + 0.02);
        prop_assert!(moved.len() as f64 <= most, "{} of {KEYS} moved at {count}", moved.len());
    }

    #[test]
    fn nobody_is_sent_to_a_worse_node_than_there_is_or_to_a_region_further_on(
        regions in prop::collection::vec(0..4_usize, 1..5),
        healths in prop::collection::vec((0..4_u8, 0..=100_u8), 16),
        home in 0..5_usize, asked in any::<u64>(), wanted in 1..4_usize,
        trusts in any::<bool>(), kept in prop::option::of(0..16_u32),
    ) {
        let mut draft = draft(&regions);
        draft.trusts_when_all_are_down = trusts;
        let table = Table::new(draft);
        let health = |code| match code {
            0 => Health::Up,
            1 => Health::Suspect,
            2 => Health::Down,
            _ => Health::Drained,
        };
        let standings = (0..).zip(&healths).map(|(id, (code, share))| {
            (id, Standing { health: health(*code), share_percent: *share })
        });
        let seen = Seen { standings: standings.collect(), ..Seen::default() };
        let client = format!("10.{}.0.1", home % regions.len());
        let question = Question { wanted, kept, ..ask(&client, asked) };
        let decision = table.decide(&question, &seen, &mut ());
        let all = 0..table.nodes().len() as NodeId;
        let of = |health: Health| all.clone().filter(|id| seen.standing(*id).health == health).count();
        let picked: Vec<_> =
            decision.picks.as_slice().iter().map(|id| seen.standing(*id).health).collect();
        prop_assert!(!picked.contains(&Health::Drained));
        if of(Health::Up) > 0 {
            prop_assert!(!picked.is_empty() && picked.iter().all(|one| *one == Health::Up));
        } else if of(Health::Suspect) > 0 {
            prop_assert!(!picked.is_empty() && picked.iter().all(|one| *one == Health::Suspect));
        } else {
            prop_assert_eq!(!picked.is_empty(), trusts && of(Health::Down) > 0);
        }
        // All of one region, none twice, and no region before it in the order had one as good.
        let ids = decision.picks.as_slice();
        let places: Vec<_> = ids.iter().map(|id| table.node(*id).unwrap().region).collect();
        prop_assert!(places.windows(2).all(|pair| pair[0] == pair[1]));
        prop_assert!((1..ids.len()).all(|at| !ids[..at].contains(&ids[at])));
        let is_kept = kept.is_some() && decision.picks.first() == kept;
        if let (Some(region), false) = (places.first(), is_kept) {
            let order = &table.zone_orders[home % regions.len()];
            let before = order.iter().take_while(|one| *one != region);
            let sheds = |id: &NodeId| {
                key::sheds(table.seeds[*id as usize], asked, seen.standing(*id).share_percent)
            };
            let is_within = ids.iter().all(|id| !sheds(id));
            let better = before.flat_map(|one| &table.members[usize::from(*one)]).any(|id| {
                let as_good = seen.standing(*id).health == picked[0];
                as_good && (picked[0] != Health::Up || !is_within || !sheds(id))
            });
            prop_assert!(!better);
        }
    }
}
