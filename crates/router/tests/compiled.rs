//! Compiled rules answer what the rules mean, for any set of them and any packet.

mod support;

use freshet_router::rule::compile::{Table, Target, TooMuch, target};
use freshet_router::rule::reference::{entries, first_match, matches};
use freshet_router::rule::{Act, AddressRange, Direction, Filter, Part, Rule, Subject};
use freshet_router::session::network::Networks;
use support::Random;

fn subject(random: &mut Random) -> Subject {
    let client = support::client_address(random);
    let version = if client >> 32 == 0xffff { 4 } else { 6 };
    let server = support::server_address(random, version);
    let port = |random: &mut Random| random.of(&[53, 80, 81, 443, 8089, 8090, 65535]);
    Subject {
        version,
        addresses: if random.one_in(2) { [client, server] } else { [server, client] },
        ports: (!random.one_in(4)).then(|| [port(random), port(random)]),
        protocol: random.of(&[1, 6, 17, 58, 132]),
        traffic_class: random.of(&[0, 3, 184, 187]),
    }
}

#[test]
fn compiled_rules_answer_what_the_rules_mean() {
    let profiles = support::profiles();
    let mut matched = 0;
    for seed in 0..150 {
        let mut random = Random(seed);
        let most = random.of(&[1, 8, 60]);
        let networks = if seed % 2 == 0 { Networks::default() } else { support::networks() };
        let apps = support::apps_in(&mut random, &networks);
        let rules = support::rules(&mut random, most, &apps);
        let table = Table::new(seed, &rules, &profiles).unwrap();
        for direction in [Direction::Uplink, Direction::Downlink] {
            let entries = entries(&rules, direction);
            for _ in 0..200 {
                let subject = subject(&mut random);
                let profile = random.below(profiles.len() as u64) as usize;
                let meant = first_match(&entries, direction, &subject, &profiles[profile]);
                let found = table.first_match(direction, &subject, profile);
                assert_eq!(found, meant, "seed {seed}: {subject:?}\n{rules:#?}");
                matched += usize::from(meant.is_some());
            }
        }
    }
    assert!((10_000..50_000).contains(&matched), "{matched} of 60000: a test that shows nothing");
}

/// A part of a rule's packets passes a limiter of its own, and meets what the rule's others meet.
#[test]
fn parts_of_rules_differ_in_their_limiter_alone() {
    let profiles = support::profiles();
    let (mut held, mut matched) = (0, 0);
    for seed in 0..150 {
        let mut random = Random(seed);
        let apps = support::apps_in(&mut random, &Networks::default());
        let rules = support::rules(&mut random, 30, &apps);
        let whole: Vec<Rule> =
            rules.iter().map(|rule| Rule { parts: Vec::new(), ..rule.clone() }).collect();
        let table = Table::new(seed, &rules, &profiles).unwrap();
        for direction in [Direction::Uplink, Direction::Downlink] {
            let entries = entries(&whole, direction);
            for _ in 0..200 {
                let subject = subject(&mut random);
                let number = random.below(profiles.len() as u64) as usize;
                let profile = &profiles[number];
                let meant = first_match(&entries, direction, &subject, profile).map(|place| {
                    let rule = &rules[usize::from(entries[place].rule.number)];
                    let accepts = |filter: &Filter| matches(filter, direction, &subject, profile);
                    let part = rule
                        .parts
                        .iter()
                        .find(|part| accepts(&part.filter) || accepts(&part.filter.reversed()));
                    Target {
                        limiter: part.map_or(0, |part| part.limiter),
                        ..target(&entries[place])
                    }
                });
                let found = table.first_match(direction, &subject, number);
                let side = &table.sides[direction as usize];
                let found = found.map(|place| side.targets[place]);
                assert_eq!(found, meant, "seed {seed}: {subject:?}\n{rules:#?}");
                matched += usize::from(meant.is_some());
                held += usize::from(meant.is_some_and(|target| target.limiter != 0));
            }
        }
    }
    assert!(held > 500, "{held} of {matched}: a test that shows nothing");
}

/// However many there are, what is too much is said, and soon.
#[test]
fn many_parts_are_too_much() {
    let filter = |port: u16| Filter { ports: [vec![port..=port], Vec::new()], ..Filter::default() };
    let part = |number: u16| Part { filter: filter(number), limiter: 1 };
    let rule = Rule {
        filters: (0..256).map(filter).collect(),
        parts: (0..256).map(part).collect(),
        ..support::rule_for_all(Act::Drop, None)
    };
    let all = Rule { filters: vec![Filter::default()], ..rule.clone() };
    // As they go, and the other way.
    let small = Rule { parts: all.parts[..127].to_vec(), ..all.clone() };
    assert_eq!(Table::new(0, &[small], &[]).map(|table| table.generation), Ok(0));
    assert!(matches!(Table::new(0, &[all], &[]), Err(TooMuch::Entries(_))));
    assert!(matches!(Table::new(0, &[rule], &[]), Err(TooMuch::Entries(_))));
}

#[test]
fn too_much_is_refused() {
    let rule = |number: u16, filters| Rule {
        id: number.to_string(),
        number,
        is_flow: false,
        priority: 0,
        filters,
        act: Act::Drop,
        app: None,
        is_active: true,
        limiter: 0,
        parts: Vec::new(),
    };
    let rules: Vec<Rule> = (0..257).map(|number| rule(number, vec![Filter::default()])).collect();
    assert_eq!(Table::new(0, &rules[..256], &[]).map(|table| table.generation), Ok(0));
    assert_eq!(Table::new(0, &rules, &[]).map(|_| ()), Err(TooMuch::Entries(257)));
    let address = |number: u128| AddressRange { first: number << 64, last: number << 64 };
    let many = |count: u128| Filter {
        addresses: [(1..=count).map(address).collect(), Vec::new()],
        ..Filter::default()
    };
    let of = |counts: &[u128]| {
        let rules: Vec<Rule> = counts.iter().map(|count| rule(0, vec![many(*count)])).collect();
        Table::new(0, &rules, &[]).map(|_| ())
    };
    assert_eq!(of(&[250, 250]), Ok(()));
    assert_eq!(of(&[250, 251]), Err(TooMuch::Addresses));
}
