//! Two results beside each other.

use super::report::{as_verdict, number};
use super::{Outcome, Step};
use freshet_load::measurement::Measurement;
use freshet_report::{Axis, Block, Cell, Column, Document, Plot, Section, Series, Table};

/// What of a load is compared: name, unit, figure, whether more is better.
type Figure = (&'static str, fn(&Measurement) -> Option<f64>, bool);

const FIGURES: [Figure; 9] = [
    ("goodput, Gbit/s", |m| Some(m.goodput_bps / 1e9), true),
    ("requests/s", |m| Some(m.requests_per_second), true),
    ("first byte, mean, ms", |m| Some(m.first_byte.mean_us / 1e3), false),
    ("last byte, mean, ms", |m| Some(m.last_byte.mean_us / 1e3), false),
    ("last byte, 99 %, ms", |m| Some(m.last_byte.p99_us as f64 / 1e3), false),
    ("byte hits, %", |m| m.byte_hit_ratio.map(|ratio| ratio * 100.0), true),
    ("server CPU, s/GB", |m| m.server.as_ref().map(|s| s.cpu_seconds_per_gb), false),
    ("server memory, MB", |m| m.server.as_ref().map(|s| s.memory_bytes as f64 / 1e6), false),
    ("errors", |m| Some(m.errors.total() as f64), false),
];

/// A report on how `after` differs from `before`.
pub fn document(before: &Outcome, after: &Outcome) -> Document {
    let (a, b) = names(before, after);
    let mut document = Document::new(format!("{}: {a} and {b}", before.title)).summary(format!(
        "{} ({}) beside {} ({}). A figure of one run varies by some percent from run to run.",
        a, before.target, b, after.target
    ));
    if before.scenario != after.scenario {
        document.push(Block::note(format!(
            "These are different scenarios, `{}` and `{}`: only what has the same name is compared.",
            before.scenario, after.scenario
        )));
    }
    for (outcome, name) in [(before, &a), (after, &b)] {
        if let Some(why) = &outcome.cut_short {
            document.push(Block::note(format!("{name} is not complete: {why}.")));
        }
    }
    let differing = differing(before, after);
    if !differing.is_empty() {
        let names: Vec<&str> = differing.iter().map(|(name, _)| *name).collect();
        document.push(Block::note(format!(
            "They were not measured alike, so not all of a change is the server's: {}. The values are at \
             the end.",
            names.join(", ")
        )));
    }
    document.push(kpis(before, after, &a, &b));
    let (first, second) = (means(before), means(after));
    let mut section = Section::new("Loads");
    for (step, of_first) in &first {
        let Some((_, of_second)) = second.iter().find(|(name, _)| name == step) else { continue };
        section.push(Block::from(table(step, of_first, of_second, &a, &b)));
    }
    if section.blocks.is_empty() {
        section.push(Block::paragraph("No load has the same name in both."));
    } else {
        section.push(Block::from(bars(&first, &second, &a, &b)));
    }
    document.push(section);
    if !differing.is_empty() {
        document.push(settings(&differing, &a, &b));
    }
    document
}

/// A setting by its name, and what it was in each; nothing where one does not have it.
type Differing<'a> = (&'a str, [Option<String>; 2]);

/// Settings that are not the same in both, and machines that are not.
fn differing<'a>(before: &'a Outcome, after: &'a Outcome) -> Vec<Differing<'a>> {
    let both = [before, after];
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in both.iter().flat_map(|outcome| &outcome.settings) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let of = |outcome: &Outcome, name: &str| {
        let found = outcome.settings.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.clone())
    };
    let machine = |outcome: &Outcome| {
        let machine = &outcome.machine;
        (!machine.processor.is_empty())
            .then(|| format!("{}, {} processors", machine.processor, machine.processors))
    };
    let mut found: Vec<Differing<'a>> =
        names.into_iter().map(|name| (name, both.map(|outcome| of(outcome, name)))).collect();
    found.push(("generator's machine", both.map(machine)));
    found.retain(|(_, [first, second])| first != second);
    found
}

fn settings(differing: &[Differing<'_>], a: &str, b: &str) -> Section {
    let mut table = Table::new([Column::text("setting"), Column::text(a), Column::text(b)]);
    for (name, values) in differing {
        let [first, second] =
            values.each_ref().map(|value| value.clone().unwrap_or_else(|| "–".to_owned()));
        table.push([(*name).to_owned(), first, second]);
    }
    Section::new("Settings that differ").with(table)
}

fn names(before: &Outcome, after: &Outcome) -> (String, String) {
    if before.server == after.server {
        ("before".to_owned(), "after".to_owned())
    } else {
        (before.server.clone(), after.server.clone())
    }
}

fn kpis(before: &Outcome, after: &Outcome, a: &str, b: &str) -> Section {
    let mut table = Table::new([
        Column::text("figure"),
        Column::number(a),
        Column::number(b),
        Column::number("change"),
    ]);
    for kpi in &before.kpis {
        let Some(other) = after.kpis.iter().find(|other| other.name == kpi.name) else { continue };
        let shown = |value: Option<f64>, verdict| match as_verdict(verdict) {
            Some(verdict) => Cell::judged(value.map_or_else(|| "–".to_owned(), number), verdict),
            None => value.map_or_else(|| "–".to_owned(), number).into(),
        };
        let label = match kpi.unit.as_str() {
            "" => kpi.name.clone(),
            unit => format!("{}, {unit}", kpi.name),
        };
        table.push::<Cell>([
            label.into(),
            shown(kpi.value, kpi.verdict),
            shown(other.value, other.verdict),
            change(kpi.value, other.value, kpi.more_is_better).into(),
        ]);
    }
    Section::new("Indicators").with(table)
}

/// Each load's figures, runs of the same name averaged.
fn means(outcome: &Outcome) -> Vec<(String, Vec<Option<f64>>)> {
    let mut names: Vec<&str> = Vec::new();
    for step in &outcome.steps {
        if !names.contains(&step.name.as_str()) {
            names.push(&step.name);
        }
    }
    let of = |name: &str| -> Vec<Option<f64>> {
        let steps: Vec<&Step> = outcome.steps.iter().filter(|step| step.name == name).collect();
        FIGURES
            .iter()
            .map(|(_, figure, _)| {
                let values: Option<Vec<f64>> =
                    steps.iter().map(|step| figure(&step.measured)).collect();
                values.map(|values| values.iter().sum::<f64>() / values.len().max(1) as f64)
            })
            .collect()
    };
    names.iter().map(|name| ((*name).to_owned(), of(name))).collect()
}

fn table(step: &str, first: &[Option<f64>], second: &[Option<f64>], a: &str, b: &str) -> Table {
    let mut table = Table::new([
        Column::text("figure"),
        Column::number(a),
        Column::number(b),
        Column::number("change"),
    ])
    .caption(step);
    for ((name, _, more), (x, y)) in FIGURES.iter().zip(first.iter().zip(second)) {
        if x.is_none() && y.is_none() {
            continue;
        }
        table.push::<Cell>([
            (*name).into(),
            x.map_or_else(|| "–".to_owned(), number).into(),
            y.map_or_else(|| "–".to_owned(), number).into(),
            change(*x, *y, Some(*more)).into(),
        ]);
    }
    table
}

fn bars(
    first: &[(String, Vec<Option<f64>>)],
    second: &[(String, Vec<Option<f64>>)],
    a: &str,
    b: &str,
) -> Plot {
    let both: Vec<&String> = first
        .iter()
        .map(|(name, _)| name)
        .filter(|name| second.iter().any(|(other, _)| other == *name))
        .take(12)
        .collect();
    let values = |all: &[(String, Vec<Option<f64>>)]| -> Vec<f64> {
        both.iter()
            .map(|name| {
                let found = all.iter().find(|(other, _)| other == *name);
                found.and_then(|(_, figures)| *figures.first()?).unwrap_or(f64::NAN)
            })
            .collect()
    };
    Plot::bars(
        "Goodput",
        both.iter().map(|name| (*name).clone()),
        Axis::new("goodput").unit("Gbit/s"),
    )
    .series(Series::values(a, values(first)))
    .series(Series::values(b, values(second)))
}

/// The change in percent, with a word where it is clear which way is better.
fn change(before: Option<f64>, after: Option<f64>, more_is_better: Option<bool>) -> String {
    let (Some(before), Some(after)) = (before, after) else { return "–".to_owned() };
    if before == after {
        return "same".to_owned();
    }
    if before.abs() < f64::EPSILON {
        // No percentage says how much more than nothing it is.
        let word =
            more_is_better.map(|more| if (after > 0.0) == more { "better" } else { "worse" });
        return word.map_or_else(|| "–".to_owned(), |word| format!("from 0, {word}"));
    }
    let percent = (after - before) / before.abs() * 100.0;
    let word = match more_is_better {
        // Runs differ by some percent anyhow.
        Some(_) if percent.abs() < 3.0 => "",
        Some(more) if (percent > 0.0) == more => " better",
        Some(_) => " worse",
        None => "",
    };
    format!("{percent:+.1} %{word}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Kpi;

    fn outcome(server: &str, gbps: f64) -> Outcome {
        let measured = Measurement { goodput_bps: gbps * 1e9, ..Measurement::default() };
        Outcome {
            server: server.to_owned(),
            steps: vec![Step { name: "1 MB".to_owned(), run: 1, x: 1.0, measured }],
            kpis: vec![Kpi::new("throughput", gbps, "Gbit/s").better(true)],
            ..Outcome::default()
        }
    }

    #[test]
    fn changes_are_told_with_their_direction() {
        let document = document(&outcome("nginx", 2.0), &outcome("freshet", 3.0));
        let text = freshet_report::text::render(&document);
        assert!(text.contains("+50.0 % better"), "{text}");
        assert!(text.contains("nginx") && text.contains("freshet"), "{text}");
        assert_eq!(change(Some(100.0), Some(102.0), Some(true)), "+2.0 %");
        assert_eq!(change(Some(1.0), Some(2.0), Some(false)), "+100.0 % worse");
        assert_eq!(change(None, Some(2.0), Some(false)), "–");
        // Errors where there were none are the change that must not be missed.
        assert_eq!(change(Some(0.0), Some(1000.0), Some(false)), "from 0, worse");
        assert_eq!(change(Some(0.0), Some(1.0), Some(true)), "from 0, better");
        assert_eq!(change(Some(0.0), Some(1.0), None), "–");
    }

    #[test]
    fn what_was_not_measured_alike_is_said() {
        let set = |values: &[(&str, &str)]| {
            let settings = values.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            Outcome { settings: settings.collect(), ..outcome("node", 2.0) }
        };
        let small = set(&[("threads", "1"), ("object", "10 KB"), ("pinned to processors", "1")]);
        let large = set(&[("threads", "1"), ("object", "1 MB")]);
        let shown = |before: &Outcome, after: &Outcome| {
            let text = freshet_report::text::render(&document(before, after));
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let text = shown(&small, &large);
        assert!(text.contains("not measured alike"), "{text}");
        assert!(text.contains("object, pinned to processors"), "{text}");
        assert!(text.contains("object 10 KB 1 MB") && !text.contains("threads"), "{text}");
        let text = shown(&small, &small);
        assert!(!text.contains("alike") && !text.contains("differ"), "{text}");
    }
}
