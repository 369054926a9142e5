//! Properties of the models: more never makes less where it must not, and units do not matter.

use freshet_plan::outcome::Outcome;
use freshet_plan::{Model, Request, plan};
use proptest::prelude::*;

fn with(model: Model, set: &[(&str, String)]) -> Outcome {
    let set = set.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    plan(model, &Request { set, ..Request::default() }).unwrap_or_else(|error| panic!("{error}"))
}

fn figures(outcome: &Outcome) -> Vec<f64> {
    outcome.figures.iter().map(|figure| figure.value).collect()
}

fn all_at_most(less: &[f64], more: &[f64]) -> bool {
    less.len() == more.len() && less.iter().zip(more).all(|(a, b)| *a <= b * (1.0 + 1e-9) + 1e-9)
}

fn proportional(first: &[f64], second: &[f64], factor: f64) -> bool {
    first.iter().zip(second).all(|(a, b)| (a * factor - b).abs() <= b.abs() * 1e-9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn cost_is_proportional_to_price_pue_and_years(price in 0.01f64..1.0, factor in 1.0f64..5.0) {
        let base = figures(&with(Model::Cost, &[("price", format!("{price} USD/kWh")), ("pue", "1".into()), ("years", "1 year".into())]));
        for (key, value) in [
            ("price", format!("{} USD/kWh", price * factor)),
            ("pue", format!("{factor}")),
            ("years", format!("{factor} years")),
        ] {
            let mut set = vec![("price", format!("{price} USD/kWh")), ("pue", "1".into()), ("years", "1 year".into())];
            set.retain(|(other, _)| *other != key);
            set.push((key, value));
            let other = figures(&with(Model::Cost, &set));
            prop_assert!(proportional(&base, &other, factor), "{key}: {base:?} {other:?}");
        }
    }

    #[test]
    fn a_unit_changes_no_result(price in 0.01f64..1.0, minutes in 1.0f64..60.0) {
        let kwh = figures(&with(Model::Cost, &[("price", format!("{price} USD/kWh"))]));
        let mwh = figures(&with(Model::Cost, &[("price", format!("{} USD/MWh", price * 1000.0))]));
        prop_assert!(proportional(&kwh, &mwh, 1.0));
        let min = figures(&with(Model::Channels, &[("buffer", format!("{minutes} min"))]));
        let s = figures(&with(Model::Channels, &[("buffer", format!("{} s", minutes * 60.0))]));
        prop_assert!(proportional(&min, &s, 1.0));
    }

    #[test]
    fn a_longer_buffer_or_a_larger_segment_never_holds_more_channels(
        minutes in 1.0f64..60.0,
        megabytes in 1.0f64..100.0,
        more in 1.0f64..3.0,
    ) {
        let of = |minutes: f64, megabytes: f64| figures(&with(Model::Channels, &[
            ("buffer", format!("{minutes} min")),
            ("segment", format!("{megabytes} MB")),
        ]));
        let base = of(minutes, megabytes);
        prop_assert!(all_at_most(&of(minutes * more, megabytes), &base));
        prop_assert!(all_at_most(&of(minutes, megabytes * more), &base));
    }

    #[test]
    fn a_dearer_server_never_makes_a_cheaper_tb(cost in 1e3f64..1e5, more in 0.0f64..1e5) {
        let of = |cost: f64| with(Model::Tco, &[("configuration.DRAM.cost", format!("{cost} USD"))]).figures[0].value;
        prop_assert!(of(cost) <= of(cost + more));
    }

    #[test]
    fn more_misses_never_make_a_drive_last_longer(hits in 0.0f64..1.0, fewer in 0.0f64..1.0) {
        let of = |hits: f64| figures(&with(Model::Endurance, &[("byte-hit-ratio", format!("{hits}"))]));
        // Never written lasts for ever, which is not less than anything.
        prop_assert!(all_at_most(&of(hits * fewer), &of(hits)));
    }

    #[test]
    fn more_viewers_never_need_fewer_nodes(viewers in 0u32..5_000_000, more in 0u32..5_000_000) {
        // Up to the sum the counts allow at once.
        let of = |viewers: u32| figures(&with(Model::Fleet, &[("viewers", viewers.to_string())]));
        let (few, many) = (of(viewers), of(viewers + more));
        // The edge only: a larger edge keeps more, and its parents may need less.
        prop_assert!(all_at_most(&few[..2], &many[..2]), "{few:?} {many:?}");
    }

    #[test]
    fn no_file_panics(text in "[a-z= \"\\[\\]0-9.%\\n-]{0,80}") {
        for model in Model::ALL {
            let file = Some(freshet_plan::File { name: "x", text: &text });
            let _ = plan(model, &Request { file, ..Request::default() });
        }
    }
}
