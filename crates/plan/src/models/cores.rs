//! Cores that share a processor's frequency unevenly, after paper 003.

use crate::mistake::PlanError;
use crate::outcome::{Check, Contradiction, Figure, Formula, Outcome, ResultColumn, ResultTable};
use crate::papers;
use crate::quantity::{Frequency, Quantity};
use crate::reader::{Bound, Reader};
use freshet_report::{Axis, Plot, Series};

/// The paper's case.
pub(crate) const INPUTS: &str = include_str!("../inputs/cores.toml");

const SUM: &str = "sum of frequencies";
const FORWARDED: &str = "forwarded on fast cores";

struct Processor {
    name: String,
    cores: f64,
    fast_cores: f64,
    /// In GHz: all alike, fast, slow.
    ghz: [f64; 3],
}

impl Processor {
    /// GHz of all cores: when they are alike, and when some are fast.
    fn sums(&self) -> [f64; 2] {
        let [all, fast, slow] = self.ghz;
        let slow_cores = self.cores - self.fast_cores;
        [self.cores * all, self.fast_cores * fast + slow_cores * slow]
    }
}

/// Runs the model.
pub(crate) fn cores(mut reader: Reader<'_>) -> Result<Outcome, PlanError> {
    let rate: Quantity<Frequency> = reader.quantity("rate-of-core", Bound::Positive);
    let at: Quantity<Frequency> = reader.quantity("frequency-of-core", Bound::Positive);
    let rows = reader.rows("processor");
    let processors: Vec<Processor> = rows
        .iter()
        .map(|row| {
            let cores = reader.number_of_row(row, "cores", Bound::Count, None);
            let fast_cores = reader.number_of_row(row, "fast-cores", Bound::CountOrNone, None);
            if fast_cores > cores {
                let message = format!("`{}` has more fast cores than cores", row.name);
                reader.refuse_row(row, "fast-cores", message, "fast cores are some of the cores");
            }
            let ghz = ["frequency", "fast", "slow"].map(|key| {
                let value: Quantity<Frequency> = reader.of_row(row, key, Bound::Positive, None);
                value.to("GHz")
            });
            // Power is the same either way; it is there to be said.
            let _: Quantity<crate::quantity::Power> =
                reader.of_row(row, "power", Bound::Positive, None);
            Processor { name: row.name.clone(), cores, fast_cores, ghz }
        })
        .collect();
    let is_paper = !reader.is_changed();
    let inputs = reader.finish()?;
    let per_ghz = rate.to("Mpps") / at.to("GHz");
    let mut figures = Vec::new();
    for one in &processors {
        let [alike, uneven] = one.sums();
        figures.push(Figure::new(format!("{}, all alike", one.name), alike, "GHz", 1, SUM));
        figures.push(Figure::new(format!("{}, uneven", one.name), uneven, "GHz", 1, SUM));
    }
    Ok(Outcome {
        model: "cores",
        title: "Fast and slow cores".to_owned(),
        summary: "What processors have when all cores run alike and when some are guaranteed to be \
                  faster, at the same power; `freshet router cores` sets a machine so."
            .to_owned(),
        papers: vec![papers::P003],
        figures,
        tables: vec![table(&processors, per_ghz)],
        is_changed: !is_paper,
        checks: if is_paper { checks(&processors) } else { Vec::new() },
        contradictions: if is_paper { contradictions(&processors) } else { Vec::new() },
        assumptions: vec![
            "A core forwards in proportion to its frequency; `freshet plan forwarding` has what does \
             not."
                .to_owned(),
        ],
        formulas: formulas(&processors, per_ghz),
        inputs,
        range: None,
        plots: vec![plot(&processors)],
    })
}

fn table(processors: &[Processor], per_ghz: f64) -> ResultTable {
    let columns = vec![
        ResultColumn::words("processor"),
        ResultColumn::numbers("all alike", "GHz", 1, SUM),
        ResultColumn::numbers("uneven", "GHz", 1, SUM),
        ResultColumn::numbers("alike", "Mpps", 2, FORWARDED),
        ResultColumn::numbers("fast", "Mpps", 2, FORWARDED),
    ];
    let rows = processors
        .iter()
        .map(|one| {
            let [alike, uneven] = one.sums();
            vec![
                one.name.as_str().into(),
                alike.into(),
                uneven.into(),
                (one.fast_cores * one.ghz[0] * per_ghz).into(),
                (one.fast_cores * one.ghz[1] * per_ghz).into(),
            ]
        })
        .collect();
    ResultTable {
        name: "cores",
        title: "Frequencies and what they forward".to_owned(),
        columns,
        rows,
    }
}

/// 003 Table 1 prints the frequencies; their sums follow from it and are what the power is shared by.
fn checks(processors: &[Processor]) -> Vec<Check> {
    let sums = [("6252N", "55.2", "56.0"), ("6230N", "46.0", "45.6")];
    let of = |name: &str| processors.iter().find(|one| one.name == name).map(Processor::sums);
    sums.into_iter()
        .filter_map(|(name, alike, uneven)| {
            let [found_alike, found_uneven] = of(name)?;
            Some([
                Check::printed(
                    format!("{name}, all alike, GHz"),
                    alike,
                    found_alike,
                    "003 Table 1",
                ),
                Check::printed(format!("{name}, uneven, GHz"), uneven, found_uneven, "003 Table 1"),
            ])
        })
        .flatten()
        .collect()
}

fn contradictions(processors: &[Processor]) -> Vec<Contradiction> {
    let differences: Vec<String> = processors
        .iter()
        .map(|one| {
            let [alike, uneven] = one.sums();
            format!("{} {:+.1} GHz", one.name, uneven - alike)
        })
        .collect();
    vec![
        Contradiction {
            source: "003 Table 1",
            says: "uneven frequencies within the same power".to_owned(),
            but: format!("the sums differ either way: {}", differences.join(", ")),
            why: "power does not grow in proportion to frequency, and steps are of 0.1 GHz"
                .to_owned(),
        },
        Contradiction {
            source: "003 §2.1 and §3.2",
            says: "the cores of socket 1, which run Redis, have 2.1 GHz".to_owned(),
            but: "§3.2 has them at a fixed 2.3 GHz".to_owned(),
            why: "uneven frequencies may have been on in one series of tests only".to_owned(),
        },
    ]
}

fn formulas(processors: &[Processor], per_ghz: f64) -> Vec<Formula> {
    let first = processors.first();
    vec![
        Formula {
            result: SUM,
            formula: "cores × frequency; fast cores × fast + the others × slow",
            example: first.map_or_else(String::new, |one| {
                let [_, fast, slow] = one.ghz;
                format!(
                    "{} × {fast} + {} × {slow} = {:.1} GHz",
                    one.fast_cores,
                    one.cores - one.fast_cores,
                    one.sums()[1]
                )
            }),
            inputs: &[
                "processor.cores",
                "processor.frequency",
                "processor.fast-cores",
                "processor.fast",
                "processor.slow",
            ],
            source: "003 Table 1",
        },
        Formula {
            result: FORWARDED,
            formula: "fast cores × frequency × rate of a core / its frequency",
            example: format!("{per_ghz:.3} Mpps for a GHz"),
            inputs: &[
                "rate-of-core",
                "frequency-of-core",
                "processor.fast-cores",
                "processor.fast",
            ],
            source: "003 Figure 7",
        },
    ]
}

fn plot(processors: &[Processor]) -> Plot {
    let names = processors.iter().map(|one| one.name.clone());
    let of = |which: usize| processors.iter().map(move |one| one.sums()[which]);
    Plot::bars("Sum of frequencies", names, Axis::new("frequency").unit("GHz"))
        .series(Series::values("all alike", of(0)))
        .series(Series::values("uneven", of(1)))
}
