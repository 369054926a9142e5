//! Measurements in place of assumptions.

use freshet_plan::outcome::Outcome;
use freshet_plan::{File, PlanError, Request, fit, present};

fn of(text: &str, set: &[(&str, &str)]) -> Result<Outcome, PlanError> {
    let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    fit(File { name: "result.json", text }, &Request { set, ..Request::default() })
}

fn figure(outcome: &Outcome, name: &str) -> f64 {
    let found = outcome.figures.iter().find(|figure| figure.name == name);
    found.unwrap_or_else(|| panic!("{name} in {:#?}", outcome.figures)).value
}

const RUN: &str = r#"{
  "schema": 1, "scenario": "channels", "title": "t", "source": "", "server": "freshet",
  "target": "127.0.0.1:8000", "started_unix_ms": 1, "seconds": 60.0, "cut_short": null,
  "machine": {"processor": "two cores", "processors": 2, "memory_bytes": 25769803776, "kernel": "6"},
  "settings": [], "axis": "channels",
  "steps": [
    {"name": "10 channels", "run": 1, "x": 10.0,
     "measured": {"goodput_bps": 2e9, "byte_hit_ratio": 0.9, "power": {"source": "s", "watts": 50.0}}},
    {"name": "20 channels", "run": 1, "x": 20.0,
     "measured": {"goodput_bps": 3e9, "byte_hit_ratio": 0.4, "power": null}}
  ],
  "kpis": [{"name": "channels that hold", "value": 10.0, "unit": "channels", "wanted": "", "verdict": "open"}],
  "tables": [], "plots": [], "warnings": ["The generator was busy"]
}"#;

const CURVE: &str = r#"{
  "sample_rate": 0.01, "requests_seen": 5000000, "capacity_bytes": 2000000000,
  "points": [
    {"capacity_bytes": 1000000000, "request_hit_ratio": 0.6, "byte_hit_ratio": 0.5},
    {"capacity_bytes": 2000000000, "request_hit_ratio": 0.8, "byte_hit_ratio": 0.7},
    {"capacity_bytes": 8000000000, "request_hit_ratio": 0.95, "byte_hit_ratio": 0.9}
  ]
}"#;

#[test]
fn a_run_gives_the_load_that_held_and_its_power() {
    let outcome = of(RUN, &[("cost", "1000 USD"), ("rack-price", "0 USD/year/RU")]).unwrap();
    assert_eq!(figure(&outcome, "channels, measured"), 10.0);
    assert!((figure(&outcome, "delivered at peak") - 2.0).abs() < 1e-9);
    // 1000 USD and 50 W for five years at 0.12 USD/kWh and a PUE of 1.3, over 1 Gbit/s on average.
    let cost = 1000.0 + 0.05 * 43_800.0 * 0.12 * 1.3;
    let terabytes = 1e9 / 8.0 * 5.0 * 365.0 * 86_400.0 / 1e12;
    assert!((figure(&outcome, "cost of a TB") - cost / terabytes).abs() < 1e-9);
    assert!((figure(&outcome, "cost of a channel") - cost / 60.0 / 10.0).abs() < 1e-9);
    let rate = outcome.inputs.iter().find(|input| input.key == "rate").unwrap();
    assert_eq!(rate.source, "measured, `10 channels`");
    assert!(outcome.summary.contains("two cores"));
    assert!(outcome.assumptions.contains(&"The generator was busy".to_owned()));
}

#[test]
fn what_is_given_by_hand_wins_over_what_was_measured() {
    let outcome = of(RUN, &[("rate", "1 Gbit/s")]).unwrap();
    assert!((figure(&outcome, "delivered at peak") - 1.0).abs() < 1e-9);
}

#[test]
fn a_curve_gives_capacity_channels_and_what_the_origin_has_to_bear() {
    let outcome = of(CURVE, &[("rate", "10 Gbit/s")]).unwrap();
    assert!((figure(&outcome, "byte hit ratio now") - 70.0).abs() < 1e-9);
    assert!((figure(&outcome, "from the origin at peak") - 3.0).abs() < 1e-9);
    assert!((figure(&outcome, "channels in the cache") - 2e9 / 1.5e9).abs() < 1e-9);
    // 85 % is three quarters of the way from 70 % at 2 GB to 90 % at 8 GB.
    assert!((figure(&outcome, "capacity for 85.0 %") - 6.5).abs() < 1e-9);
    let unreachable = of(CURVE, &[("hit-ratio-wanted", "95 %")]).unwrap();
    assert!(unreachable.assumptions.iter().any(|note| note.contains("does not reach 95.0 %")));
    let text = present::as_text(&outcome);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(present::as_html(&outcome).contains("Hit ratio over capacity"));
}

#[test]
fn prices_of_capacity_and_origin_find_the_cheapest() {
    let priced = of(
        CURVE,
        &[("rate", "1 Gbit/s"), ("origin-price", "5 USD/TB"), ("capacity-price", "3 USD/GB")],
    )
    .unwrap();
    let rows = &priced.tables[0].rows;
    let cost = |row: usize| match rows[row].last() {
        Some(freshet_plan::outcome::Value::Number(cost)) => *cost,
        other => panic!("{other:?}"),
    };
    assert!(cost(2) < cost(1) && cost(1) < cost(0), "fewer misses cost less than the memory");
}

#[test]
fn what_cannot_be_fitted_says_why() {
    let cases = [
        ("{", "result.json:1:1: this is not JSON"),
        ("{}", "neither `steps`"),
        (r#"{"steps": []}"#, "missing field `schema`"),
        (r#"{"schema": 2, "scenario": "x", "steps": []}"#, "of version 2; this program reads 1"),
        (r#"{"schema": 1, "scenario": "x", "steps": []}"#, "no load of it delivered anything"),
        (r#"{"points": []}"#, "no points yet"),
        (
            r#"{"points": [{"capacity_bytes": 1, "request_hit_ratio": 2, "byte_hit_ratio": 0}]}"#,
            "not from 0 to 1",
        ),
        (r#"{"points": [{"capacity_bytes": 1}]}"#, "missing field `request_hit_ratio`"),
        (
            r#"{"sample_rate": 3, "points": [{"capacity_bytes": 1, "request_hit_ratio": 0, "byte_hit_ratio": 0}]}"#,
            "sample_rate",
        ),
    ];
    for (text, expected) in cases {
        let message = of(text, &[]).expect_err(text).to_string();
        assert!(message.contains(expected), "{text}: {message}");
        assert!(message.starts_with("result.json"), "{message}");
    }
}
