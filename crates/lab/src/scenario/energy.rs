//! `energy`: power when idle and at low, typical and high load, the method of the energy study.
//!
//! High load is as much as the connections bring. The study takes it to be 125 % of typical power and
//! low load 66 %; the same shares of typical load are asked for here, and the power is measured.

use super::{Bench, DataSet, ExtraTable, Kpi, Moment, Outcome, Setup, studies};
use freshet_base::units::format_bytes;
use freshet_load::LabError;
use freshet_load::Pace;
use std::time::Duration;

/// Low and high load as shares of typical load.
const LOW: f64 = 0.66;
const HIGH: f64 = 1.25;

/// Shares of a year at low, typical and high load.
const YEAR: [f64; 3] = [0.16, 0.68, 0.16];

/// Hours of a year.
const HOURS: f64 = 365.0 * 24.0;

/// What the scenario can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Bytes of an object.
    pub object_bytes: u64,
    /// Its path, with `{n}`.
    pub path: String,
    /// How many objects there are.
    pub objects: u64,
    /// Connections.
    pub connections: usize,
    /// How long the idle server is watched.
    pub idle: Duration,
}

/// Runs it.
///
/// # Errors
/// [`LabError`] when it cannot begin.
pub fn run(
    setup: Setup,
    options: &Options,
    show: &mut dyn FnMut(&Moment),
) -> Result<Outcome, LabError> {
    let source = format!("{}, Energy Consumption Modeling and Figure 2", studies::ENERGY);
    let mut bench = Bench::new("energy", "Energy", &source, setup, show)?;
    let (path, objects) = (options.path.clone(), options.objects);
    let data = DataSet { class: format_bytes(options.object_bytes), path, objects };
    bench.note("object", format_bytes(options.object_bytes));
    bench.note("objects", objects);
    bench.note("connections", options.connections);
    bench.plan(4, "share of high load, %");
    bench.fill(data.filling()?, objects)?;
    if !bench.is_over() {
        bench.idle("idle", options.idle);
    }
    let workload = data.workload(0.0)?;
    let mut high = None;
    for (name, share) in [("high", 1.0), ("typical", 1.0 / HIGH), ("low", LOW / HIGH)] {
        if bench.is_over() {
            break;
        }
        let mut load = bench.load(workload.clone());
        load.connections = options.connections;
        if let Some(rate) = high {
            load.pace = Pace::Open { per_second: f64::max(rate * share, 0.1), is_random: true };
        }
        let step = bench.measure(name, share * 100.0, load)?;
        high.get_or_insert(step.measured.requests_per_second);
    }
    judge(&mut bench);
    Ok(bench.finish())
}

fn judge(bench: &mut Bench<'_>) {
    let watts = |name: &str| {
        let step = bench.outcome.steps.iter().find(|step| step.name == name)?;
        step.measured.power.as_ref().map(|power| power.watts)
    };
    let powers = ["low", "typical", "high"].map(watts);
    let mut table = ExtraTable {
        caption: "By load".to_owned(),
        columns: ["load", "Gbit/s", "requests/s", "cores", "W", "Gbit/s/W", "CPU s/GB"]
            .map(str::to_owned)
            .to_vec(),
        rows: Vec::new(),
    };
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
    };
    for name in ["idle", "low", "typical", "high"] {
        let Some(step) = bench.outcome.steps.iter().find(|step| step.name == name) else {
            continue;
        };
        let m = &step.measured;
        table.rows.push(vec![
            name.to_owned(),
            format!("{:.3}", m.goodput_bps / 1e9),
            format!("{:.0}", m.requests_per_second),
            shown(m.server.as_ref().map(|server| server.cores), 2),
            shown(m.power.as_ref().map(|power| power.watts), 1),
            shown(m.gbps_per_watt().filter(|ratio| *ratio > 0.0), 3),
            shown(
                m.server.as_ref().map(|s| s.cpu_seconds_per_gb).filter(|seconds| *seconds > 0.0),
                3,
            ),
        ]);
    }
    let efficiency = bench
        .outcome
        .steps
        .iter()
        .find(|step| step.name == "high")
        .and_then(|step| step.measured.gbps_per_watt());
    let throughput = bench
        .outcome
        .steps
        .iter()
        .find(|step| step.name == "high")
        .map(|s| s.measured.goodput_bps / 1e9);
    let year = match powers {
        [Some(low), Some(typical), Some(high)] => {
            Some(HOURS * (YEAR[0] * low + YEAR[1] * typical + YEAR[2] * high) / 1e6)
        }
        _ => None,
    };
    let idle = watts("idle");
    let kpis = [
        Kpi::new("throughput at high load", throughput, "Gbit/s").better(true),
        Kpi::new("throughput per watt at high load", efficiency, "Gbit/s/W")
            .published("1.18 Gbps/W with 1.2 Tbps; 1 Gbps/W down to 336 W, Figure 2")
            .better(true),
        Kpi::new("idle power", idle, "W").better(false),
        Kpi::new("energy in a year", year, "MWh")
            .published("the study's equation, with powers measured here; switches are not in it")
            .better(false),
    ];
    bench.outcome.kpis.extend(kpis);
    bench.outcome.tables.push(table);
    if efficiency.is_none() {
        bench.warn(
            "There is no figure for power, so no watts, no Gbit/s per watt and no energy: nothing is \
             guessed. Processor time per gigabyte, where it is known, says how servers compare",
        );
    }
}
