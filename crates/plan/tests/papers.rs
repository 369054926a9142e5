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

/// 002: at the price of the text the conclusion's sums are ten times too high; at ten times the
/// price the first comes out, and the second is short of what its own energy costs.
#[test]
fn cost_gives_the_conclusion_at_ten_times_the_stated_price_only() {
    let stated = case(Model::Cost);
    assert!(stated.checks.iter().all(|check| check.agrees == Agrees::No), "{:#?}", stated.checks);
    let request = Request {
        set: vec![("price".to_owned(), "0.125 USD/kWh".to_owned())],
        ..Request::default()
    };
    let outcome = plan(Model::Cost, &request).unwrap();
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
            _ => key,
        };
        let value = if key == "years" { "4 years" } else { "4" };
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
        assert!(!outcome.contradictions.is_empty(), "{}", model.name());
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
