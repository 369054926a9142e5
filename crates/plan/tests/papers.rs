//! The papers' cases: every printed cell, and the papers' own sums.

use freshet_plan::outcome::{Agrees, Outcome};
use freshet_plan::{Model, Request, plan};

fn case(model: Model) -> Outcome {
    plan(model, &Request::default()).unwrap_or_else(|error| panic!("{}: {error}", model.name()))
}

/// Checks of one place: all of them, and those that agree to the last printed digit.
fn agreeing(outcome: &Outcome, source: &str) -> (usize, usize) {
    let of_source: Vec<_> = outcome.checks.iter().filter(|check| check.source == source).collect();
    let good = of_source.iter().filter(|check| check.agrees == Agrees::ToTheLastDigit).count();
    (of_source.len(), good)
}

fn cell(outcome: &Outcome, what: &str) -> String {
    let found = outcome.checks.iter().find(|check| check.what == what);
    found.unwrap_or_else(|| panic!("{what}")).model.clone()
}

/// 002 Table 2 and the energy of its conclusion.
#[test]
fn energy_gives_every_cell_of_table_2_and_the_conclusion() {
    let outcome = case(Model::Energy);
    assert_eq!(agreeing(&outcome, "002 Table 2"), (25, 25), "{:#?}", outcome.checks);
    assert_eq!(agreeing(&outcome, "002 conclusion"), (2, 2), "{:#?}", outcome.checks);
    assert_eq!(cell(&outcome, "10 Gbit/s servers, 1 Tbit/s, MWh"), "269.38");
    assert_eq!(cell(&outcome, "400 Gbit/s servers, 800 Gbit/s, MWh"), "16.06");
}

/// 002 Table 3, the intensity below Figure 5 and the carbon of the conclusion.
#[test]
fn carbon_gives_every_cell_of_table_3_and_the_conclusion() {
    let outcome = case(Model::Carbon);
    assert_eq!(agreeing(&outcome, "002 Table 3"), (25, 25), "{:#?}", outcome.checks);
    assert_eq!(agreeing(&outcome, "002 below Figure 5"), (1, 1));
    assert_eq!(agreeing(&outcome, "002 conclusion"), (2, 2));
    assert_eq!(cell(&outcome, "10 Gbit/s servers, 800 Gbit/s, tCO2e"), "194.35");
}

/// 002: the price is the one with which the first sum of the conclusion comes out, ten times that of the
/// text; the second is short of what its own energy costs.
#[test]
fn cost_gives_the_conclusion_and_names_the_misprinted_price() {
    let outcome = case(Model::Cost);
    let agrees: Vec<Agrees> = outcome.checks.iter().map(|check| check.agrees).collect();
    assert_eq!(agrees, [Agrees::WithinItsWords, Agrees::No], "{:#?}", outcome.checks);
    for word in ["are 4,274 USD", "needs 0.1249 USD/kWh"] {
        assert!(contradicts(&outcome, word), "{word}: {:#?}", outcome.contradictions);
    }
    assert!(outcome.assumptions.join("\n").contains("0.0125 that it states twice is a misprint"));
    let saved: Vec<f64> = outcome
        .tables
        .iter()
        .find(|table| table.name == "replacement")
        .unwrap()
        .rows
        .iter()
        .filter_map(|row| match row.get(1) {
            Some(freshet_plan::outcome::Value::Number(saved)) => Some(*saved),
            _ => None,
        })
        .collect();
    assert!((saved[1] - 42_700.0).abs() < 50.0, "{saved:?}");
    assert!((saved[2] - 29_787.0).abs() < 1.0, "{saved:?}");
}

/// A power 10 W off breaks a cell, so the powers are those the table was made with.
#[test]
fn the_powers_are_the_ones_the_table_was_made_with() {
    let servers = ["10", "25", "100", "200", "400"].map(|rate| format!("{rate} Gbit/s servers"));
    let base = case(Model::Energy);
    let table = |outcome: &Outcome| outcome.tables[0].rows.clone();
    for server in servers {
        let key = format!("server.{server}.power");
        let stated = base.inputs.iter().find(|input| input.key == key).unwrap();
        let watts: f64 = stated.value.trim_end_matches(" W").parse().unwrap();
        for other in [watts - 10.0, watts + 10.0] {
            let set = vec![(key.clone(), format!("{other} W"))];
            let outcome = plan(Model::Energy, &Request { set, ..Request::default() }).unwrap();
            let differs = table(&outcome).iter().zip(table(&base)).any(|(row, base)| {
                row.iter().zip(&base).any(|pair| match pair {
                    (
                        freshet_plan::outcome::Value::Number(a),
                        freshet_plan::outcome::Value::Number(b),
                    ) => format!("{a:.2}") != format!("{b:.2}"),
                    _ => false,
                })
            });
            assert!(differs, "{key}={other} W");
        }
    }
}

/// 000 Tables 1 and 4: channels of all five configurations in a server, a socket and a virtual
/// machine, within what "approximately" means there.
#[test]
fn channels_give_all_five_configurations() {
    let outcome = case(Model::Channels);
    assert_eq!(outcome.checks.len(), 15);
    assert!(
        outcome.checks.iter().all(|check| check.agrees == Agrees::WithinItsWords),
        "{:#?}",
        outcome.checks
    );
    let headline: Vec<f64> = outcome.figures.iter().map(|figure| figure.value).collect();
    assert!(headline.iter().all(|channels| channels.fract() == 0.0), "{headline:?}");
    assert_eq!(headline.last(), Some(&1365.0));
    let exact = [
        ("DRAM, channels in a VM", "96.0"),
        ("PMem 2-2-1, channels in a socket", "341.3"),
        ("PMem 2-2-2, channels in a server", "1024.0"),
        ("PMem 2-2-2, 2nd gen, channels in a VM", "256.0"),
        ("PMem 2-2-2-2, 3rd gen, channels in a server", "1365.3"),
    ];
    for (what, value) in exact {
        assert_eq!(cell(&outcome, what), value, "{what}");
    }
}

/// 000 §2.4: the first finding comes out; the other two need rates that only Figure 12 has.
#[test]
fn cost_of_a_rack_gives_the_first_finding_and_says_what_the_others_need() {
    let outcome = case(Model::Tco);
    let agrees: Vec<Agrees> = outcome.checks.iter().map(|check| check.agrees).collect();
    assert_eq!(agrees, [Agrees::WithinItsWords, Agrees::No, Agrees::No]);
    assert_eq!(cell(&outcome, "PMem 2-2-1 against DRAM, cost of a TB"), "31.3 % lower");
    let said = outcome.assumptions.join("\n");
    assert!(said.contains("needs 4.23 times the rate"), "{said}");
    // 8 servers of 1.1 kW for five years at 0.12 USD/kWh and a PUE of 1.3.
    let energy = 8.0 * 1.1 * 43_800.0 * 0.12 * 1.3;
    let row = &outcome.tables[0].rows[0];
    assert!(row.iter().any(|value| matches!(
        value,
        freshet_plan::outcome::Value::Number(number) if (number - energy).abs() < 0.01
    )));
}

/// 000 §2, Table 2 and 001: what their words say of endurance and growth.
#[test]
fn endurance_and_fleet_agree_with_the_papers_words() {
    for model in [Model::Endurance, Model::Fleet] {
        let outcome = case(model);
        assert_eq!(outcome.checks.len(), 3, "{}", model.name());
        assert!(
            outcome.checks.iter().all(|check| check.agrees != Agrees::No),
            "{:#?}",
            outcome.checks
        );
    }
    let endurance = case(Model::Endurance);
    let value =
        |name: &str| endurance.figures.iter().find(|figure| figure.name == name).unwrap().value;
    assert!((value("live writes of a drive") - 240.0).abs() < 1e-9);
    // 292 PB over 128 GB drives written 240 times a day.
    let years = 292e15 / (128e9 * 240.0 * 365.0);
    assert!((value("PMem, 256 B writes, live") - years).abs() < 1e-9);
}

/// What is not the paper's case is not compared with the paper.
#[test]
fn changed_inputs_are_not_held_against_the_papers() {
    for model in Model::ALL {
        let key = if model == Model::Fleet { "viewers" } else { "years" };
        let key = match model {
            Model::Channels => "sockets",
            Model::Endurance => "write-amplification",
            Model::Forwarding => "cores",
            Model::Cores => "rate-of-core",
            Model::Memory => "threads",
            Model::Latency => "budget",
            _ => key,
        };
        let value = match key {
            "years" => "4 years",
            "rate-of-core" => "1 Mpps",
            "budget" => "10 ms",
            _ => "4",
        };
        let set = vec![(key.to_owned(), value.to_owned())];
        let outcome = plan(model, &Request { set, ..Request::default() }).unwrap();
        assert!(outcome.checks.is_empty() && outcome.contradictions.is_empty(), "{}", model.name());
        assert!(outcome.inputs.iter().any(|input| input.source == "flag") || key == "years");
    }
}

/// Every contradiction says what, against what, and why; every input says where it is from.
#[test]
fn nothing_is_without_its_source() {
    for model in Model::ALL {
        let outcome = case(model);
        // Of latency its paper has one sentence, which does not contradict itself.
        let has_one = !outcome.contradictions.is_empty() || model == Model::Latency;
        assert!(has_one, "{}", model.name());
        for one in &outcome.contradictions {
            assert!(one.source.starts_with("00"), "{one:?}");
            assert!(!one.says.is_empty() && !one.but.is_empty() && !one.why.is_empty(), "{one:?}");
        }
        for input in &outcome.inputs {
            assert!(!input.source.is_empty(), "{}: {}", model.name(), input.key);
        }
        let results: Vec<&str> = outcome.formulas.iter().map(|formula| formula.result).collect();
        let used = outcome.figures.iter().map(|figure| figure.formula).chain(
            outcome.tables.iter().flat_map(|table| &table.columns).map(|column| column.formula),
        );
        for formula in used.filter(|formula| !formula.is_empty()) {
            assert!(results.contains(&formula), "{}: {formula}", model.name());
        }
    }
}

fn value(outcome: &Outcome, name: &str) -> f64 {
    let found = outcome.figures.iter().find(|figure| figure.name == name);
    found.unwrap_or_else(|| panic!("{name} in {:#?}", outcome.figures)).value
}

fn contradicts(outcome: &Outcome, word: &str) -> bool {
    outcome.contradictions.iter().any(|one| one.but.contains(word))
}

/// 003 §3.1: the unit must be Mpps, 28 % is less than the first step promises, and the flat rate is
/// more than a port of 40G carries.
#[test]
fn forwarding_finds_the_unit_and_what_limits() {
    let outcome = case(Model::Forwarding);
    assert!((value(&outcome, "mean packet") - 632.8).abs() < 1e-9);
    assert!((value(&outcome, "rate of a core") - 0.567).abs() < 5e-4);
    assert_eq!(value(&outcome, "cycles for a packet").round(), 4941.0);
    assert!((value(&outcome, "rate, mean packets") - 17.2).abs() < 0.05);
    // From the two points by hand: 0.342466 - 0.288184 µs over 1/2.3 - 1/2.8 ns.
    assert!((value(&outcome, "more at 3.3 GHz") - 36.8).abs() < 0.1);
    assert!((value(&outcome, "more at 3.6 GHz") - 47.2).abs() < 0.1);
    for word in ["0.58 and 0.69 Mpps", "37 % at 3.3 and 47 % at 3.6 GHz", "40.8 Gbit/s, 41.3"] {
        assert!(contradicts(&outcome, word), "{word}: {:#?}", outcome.contradictions);
    }
}

/// 003 Table 1: what the frequencies sum to.
#[test]
fn cores_sum_to_more_on_one_processor_and_to_less_on_the_other() {
    let outcome = case(Model::Cores);
    assert_eq!(agreeing(&outcome, "003 Table 1"), (4, 4), "{:#?}", outcome.checks);
    assert!(contradicts(&outcome, "6252N +0.8 GHz, 6230N -0.4 GHz"));
}

/// 003 Table 5 fits, and what §2.2.2 loads it with does not.
#[test]
fn memory_holds_the_machines_and_not_their_keys() {
    let outcome = case(Model::Memory);
    assert_eq!(outcome.checks.len(), 8);
    assert!(outcome.checks.iter().all(|check| check.agrees == Agrees::WithinItsWords));
    assert_eq!(value(&outcome, "content of the load").round(), 215.0);
    assert_eq!(value(&outcome, "operations a machine needs").round(), 576.0);
    for word in ["215 GB", "75 Gbit/s of answers", "1.4 times"] {
        assert!(contradicts(&outcome, word), "{word}: {:#?}", outcome.contradictions);
    }
}

/// 003 §1.2: 8 ms are 60 % less than 20.
#[test]
fn latency_gives_the_radio_before() {
    let outcome = case(Model::Latency);
    assert_eq!(agreeing(&outcome, "003 §1.2"), (1, 1));
    // 8 ms, 2 × (10 km × 5 µs + 2 × 50 µs), 1 ms.
    assert!((value(&outcome, "network edge") - 9.3).abs() < 1e-9);
    assert!(value(&outcome, "far cloud") > 80.0);
}
