//! `vod` and `live-linear`: one size of objects, all equally popular, at several numbers of
//! connections.
//!
//! The method of the 500 Gbps study: uniform random requests over a data set, at 256, 512 and 4,096
//! connections, the latter with a pause of 115 to 120 ms between requests, TLS 1.2, the mean of five
//! runs. On demand all is in the cache beforehand; live, the data set is sized so that only a share of
//! it fits, and what does not is fetched and replaces something.

use super::result::mean_and_deviation;
use super::{Bench, DataSet, ExtraTable, Kpi, Moment, Outcome, Setup, studies};
use freshet_base::units::format_bytes;
use freshet_load::error::{LabError, require};
use freshet_load::{CONNECTIONS_MAX, Pace};
use std::time::Duration;

/// From this many connections on each pauses between requests.
const PAUSING_CONNECTIONS: usize = 4096;

/// The pause.
const PAUSE: (Duration, Duration) = (Duration::from_millis(115), Duration::from_millis(120));

/// Share of the live data set that fits the cache.
pub const LIVE_SHARE: f64 = 0.933;

/// How far the byte hit ratio may be from the share that fits.
const LIVE_TOLERANCE: f64 = 0.01;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content {
    /// Everything is in the cache.
    OnDemand {
        /// How many objects there are.
        objects: u64,
    },
    /// A share of the data set fits.
    Live {
        /// Bytes of objects that the cache can hold.
        cache_bytes: u64,
        /// The share that fits, 0 to 1.
        share: f64,
    },
}

/// What the scenario can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Which content.
    pub content: Content,
    /// Bytes of an object.
    pub object_bytes: u64,
    /// Its path, with `{n}`.
    pub path: String,
    /// Numbers of connections, one after the other.
    pub connections: Vec<usize>,
    /// Runs of each.
    pub runs: u32,
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
    let (name, title, objects) = match options.content {
        Content::OnDemand { objects } => ("vod", "Video on demand", objects),
        Content::Live { cache_bytes, share } => {
            let fine = share > 0.0 && share <= 1.0;
            require(fine, "share", share, "more than 0 and at most 1")?;
            let objects = cache_bytes as f64 / options.object_bytes.max(1) as f64 / share;
            ("live-linear", "Live-linear video", objects.round() as u64)
        }
    };
    require(!options.connections.is_empty(), "connections", "none", "at least one number")?;
    for connections in &options.connections {
        let fine = (1..=CONNECTIONS_MAX).contains(connections);
        require(fine, "connections", connections, "1 to 1000000")?;
    }
    require((1..=100).contains(&options.runs), "runs", options.runs, "1 to 100")?;
    let source = format!("{}, VoD and Live Linear Test Methodologies", studies::THROUGHPUT);
    let mut bench = Bench::new(name, title, &source, setup, show)?;
    let data =
        DataSet { class: format_bytes(options.object_bytes), path: options.path.clone(), objects };
    bench.note("object", format_bytes(options.object_bytes));
    bench.note("objects", objects);
    bench.note("path", &options.path);
    bench.note("runs", options.runs);
    bench.plan(options.connections.len() * options.runs as usize, "connections");
    let workload = data.workload(0.0)?;
    bench.fill(data.filling()?, objects)?;
    for connections in &options.connections {
        for _ in 0..options.runs {
            if bench.is_over() {
                break;
            }
            let mut load = bench.load(workload.clone());
            load.connections = *connections;
            load.threads = load.threads.min(*connections);
            if *connections >= PAUSING_CONNECTIONS {
                load.pace = Pace::Closed { think: Some(PAUSE) };
            }
            bench.measure(&format!("{connections} connections"), *connections as f64, load)?;
        }
    }
    judge(&mut bench, options);
    Ok(bench.finish())
}

fn judge(bench: &mut Bench<'_>, options: &Options) {
    let mut table = ExtraTable {
        caption: "Mean of the runs".to_owned(),
        columns: ["connections", "runs", "Gbit/s", "deviation, %", "requests/s", "byte hits, %"]
            .map(str::to_owned)
            .to_vec(),
        rows: Vec::new(),
    };
    let mut best: Option<(usize, f64)> = None;
    let mut ratios = Vec::new();
    for connections in &options.connections {
        let name = format!("{connections} connections");
        let runs: Vec<_> = bench
            .outcome
            .steps
            .iter()
            .filter(|step| step.name == name)
            .map(|s| &s.measured)
            .collect();
        let goodput: Vec<f64> = runs.iter().map(|run| run.goodput_bps / 1e9).collect();
        if goodput.is_empty() {
            continue;
        }
        let (mean, deviation) = mean_and_deviation(&goodput);
        let requests =
            runs.iter().map(|run| run.requests_per_second).sum::<f64>() / runs.len() as f64;
        let hits: Vec<f64> = runs.iter().filter_map(|run| run.byte_hit_ratio).collect();
        ratios.extend_from_slice(&hits);
        table.rows.push(vec![
            connections.to_string(),
            runs.len().to_string(),
            format!("{mean:.2}"),
            format!("{:.1}", deviation / mean.max(1e-9) * 100.0),
            format!("{requests:.0}"),
            if hits.is_empty() {
                "?".to_owned()
            } else {
                format!("{:.2}", mean_and_deviation(&hits).0 * 100.0)
            },
        ]);
        if best.is_none_or(|(_, before)| mean > before) {
            best = Some((*connections, mean));
        }
    }
    bench.outcome.tables.push(table);
    let (published, wanted, fine): (_, _, fn(f64, f64) -> bool) = match options.content {
        Content::OnDemand { .. } => (
            "315.4 Gbps at 256 and 340.18 Gbps at 512 connections (one processor), 487.20 Gbps (two), \
             Figure 5",
            "100 %".to_owned(),
            |ratio, _| ratio >= 0.9995,
        ),
        Content::Live { share, .. } => (
            "366.38 Gbps (one processor) and 509.65 Gbps (two) at 256 connections each, Figure 4",
            format!("{:.1} % ± {:.0} point", share * 100.0, LIVE_TOLERANCE * 100.0),
            |ratio, share| (ratio - share).abs() <= LIVE_TOLERANCE,
        ),
    };
    if let Some((connections, gbps)) = best {
        let name = format!("throughput, best at {connections} connections");
        let kpi = Kpi::new(name, gbps, "Gbit/s").published(published).better(true);
        bench.outcome.kpis.push(kpi);
    }
    let ratio = (!ratios.is_empty()).then(|| mean_and_deviation(&ratios).0);
    let share = match options.content {
        Content::OnDemand { .. } => 1.0,
        Content::Live { share, .. } => share,
    };
    let is_fine = ratio.is_some_and(|ratio| fine(ratio, share));
    bench.outcome.kpis.push(
        Kpi::new("byte hit ratio", ratio.map(|ratio| ratio * 100.0), "%")
            .wanted(wanted, is_fine)
            .published(format!("{:.1} % by design", share * 100.0)),
    );
    if ratio.is_none() && !bench.outcome.steps.is_empty() {
        bench.warn(
            "Hits are not known: responses do not say (Cache-Status, X-Cache, Age), and the origin is \
             not the lab's (--with-origin)",
        );
    }
}
