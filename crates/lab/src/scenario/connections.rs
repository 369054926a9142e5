//! `connections`: the peak number of simultaneous connections, the KPIs of section 2.1 of the channel
//! density study.
//!
//! Connections that ask without a pause become more until throughput grows no further while response
//! times do; the peak is then held for five minutes, or as told.

use super::{Bench, ExtraTable, Kpi, Moment, Outcome, Setup, studies};
use crate::ladder::TABLE_3;
use freshet_load::CONNECTIONS_MAX;
use freshet_load::error::{LabError, require};
use freshet_load::workload::{Draw, Workload};
use std::time::Duration;

/// Throughput that grows by less than this factor grows no further.
const GAIN_MIN: f64 = 1.03;

/// Response times that grow by more than this factor have degraded.
const GROWTH_MAX: f64 = 1.5;

/// What the scenario can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Connections to begin with.
    pub first: usize,
    /// Connections at most.
    pub last: usize,
    /// How many times more each step has.
    pub factor: f64,
    /// How long the peak is held.
    pub hold: Duration,
    /// Channels that are asked for; the n-th as often as 1/n of the first.
    pub channels: u64,
    /// Segments of each.
    pub segments: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            first: 16,
            last: 16_384,
            factor: 2.0,
            hold: Duration::from_secs(300),
            channels: 10,
            segments: 4,
        }
    }
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
    let fine = options.first >= 1 && options.first <= options.last;
    require(
        fine && options.last <= CONNECTIONS_MAX,
        "connections",
        format!("{} to {}", options.first, options.last),
        "from a lower to a higher number",
    )?;
    let fine = options.factor > 1.0 && options.factor <= 10.0;
    require(fine, "factor", options.factor, "more than 1, at most 10")?;
    let source = format!("{}, section 2.1", studies::CHANNELS);
    let mut bench = Bench::new("connections", "Simultaneous connections", &source, setup, show)?;
    bench.note("channels", options.channels);
    bench.note("segments of a channel", options.segments);
    bench.note("peak held for", format!("{:?}", options.hold));
    bench.plan(steps(options).len() + 1, "connections");
    let objects = options.channels * options.segments * TABLE_3.len() as u64;
    bench.fill(workload(options, true)?, objects)?;
    let workload = workload(options, false)?;
    let mut best: Option<(usize, f64, f64)> = None;
    let mut degraded = false;
    for connections in steps(options) {
        if bench.is_over() || degraded {
            break;
        }
        let mut load = bench.load(workload.clone());
        load.connections = connections;
        load.threads = load.threads.min(connections);
        let step =
            bench.measure(&format!("{connections} connections"), connections as f64, load)?;
        let (goodput, response) = (step.measured.goodput_bps, step.measured.last_byte.mean_us);
        match best {
            Some((_, most, before)) if goodput < most * GAIN_MIN => {
                degraded = response > before * GROWTH_MAX;
            }
            _ => best = Some((connections, goodput, response)),
        }
    }
    bench.planned = bench.outcome.steps.len() + 1;
    let mut held = None;
    if let Some((connections, _, response)) = best
        && !bench.is_over()
    {
        let mut load = bench.load(workload);
        load.connections = connections;
        load.threads = load.threads.min(connections);
        load.duration = options.hold;
        let step = bench.measure(&format!("{connections} held"), connections as f64, load)?;
        held = Some((connections, response, step.measured.clone()));
    }
    if !degraded && held.is_some() {
        bench.warn(format!(
            "Response times had not degraded at {} connections: the peak may be higher (--max)",
            options.last
        ));
    }
    if let Some((connections, response, measured)) = held {
        let was_held = measured.connections_peak as usize >= connections && !bench.is_over();
        let kpis = [
            Kpi::new("peak of simultaneous connections", connections as f64, "")
                .wanted("held to the end", was_held)
                .published("200 connections/s and 2,000 transactions/s a machine, section 2.2.1")
                .better(true),
            Kpi::new("maximum throughput", measured.goodput_bps / 1e9, "Gbit/s")
                .published("42.5 Gbps of HTTPS per virtual machine, section 2.2.1")
                .better(true),
            Kpi::new("mean response time at the peak", measured.last_byte.mean_us / 1e3, "ms")
                .wanted(
                    "no more than 1.5 times that of the ramp",
                    measured.last_byte.mean_us <= response * GROWTH_MAX,
                )
                .better(false),
            Kpi::new("byte hit ratio", measured.byte_hit_ratio.map(|ratio| ratio * 100.0), "%")
                .published("85 % wanted, section 2.1.4"),
            Kpi::new("channels asked for", options.channels as f64, ""),
        ];
        bench.outcome.kpis.extend(kpis);
        let rows = measured.classes.iter().map(|class| {
            vec![
                class.name.clone(),
                class.requests.to_string(),
                format!("{:.2}", class.first_byte.mean_us / 1e3),
                format!("{:.2}", class.last_byte.mean_us / 1e3),
                format!("{:.2}", class.last_byte.p99_us as f64 / 1e3),
            ]
        });
        let table = ExtraTable {
            caption: "Response time by size of object at the peak (section 2.1.1)".to_owned(),
            columns: ["object", "responses", "first byte, ms", "last byte, ms", "99 %, ms"]
                .map(str::to_owned)
                .to_vec(),
            rows: rows.collect(),
        };
        bench.outcome.tables.push(table);
    }
    Ok(bench.finish())
}

fn steps(options: &Options) -> Vec<usize> {
    let mut steps = vec![options.first];
    while let Some(last) = steps.last().copied()
        && last < options.last
        && steps.len() < 64
    {
        let next = (last as f64 * options.factor).round() as usize;
        steps.push(next.max(last + 1).min(options.last));
    }
    steps
}

/// Single requests, channels by their popularity, the eleven objects evenly: they are the most popular
/// ones of the study's production environment.
fn workload(options: &Options, is_filling: bool) -> Result<Workload, LabError> {
    let (channels, segments) = (options.channels, options.segments);
    let (channel, segment) = match is_filling {
        true => (
            Draw::Sequence { first: 1, divide: segments, modulo: channels },
            Draw::Sequence { first: 1, divide: 1, modulo: segments },
        ),
        false => (Draw::zipf(channels, 1.0)?, Draw::Uniform { first: 1, last: segments }),
    };
    let workload =
        Workload::default().variable("channel", channel)?.variable("segment", segment)?;
    let requests: Vec<(String, String)> = TABLE_3
        .iter()
        .map(|rung| {
            let class = format!("{} KB", rung.segment_bytes / 1024);
            (class, format!("/channel-{{channel}}/{}/{{segment}}", rung.path))
        })
        .collect();
    let requests: Vec<(&str, &str)> =
        requests.iter().map(|(class, path)| (class.as_str(), path.as_str())).collect();
    if is_filling {
        return workload.session(1.0, false, &requests);
    }
    requests.iter().try_fold(workload, |workload, request| {
        workload.session(1.0, false, std::slice::from_ref(request))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_to_the_last() {
        let options = Options { first: 10, last: 70, factor: 2.0, ..Options::default() };
        assert_eq!(steps(&options), [10, 20, 40, 70]);
        let options = Options { first: 1, last: 3, factor: 1.1, ..Options::default() };
        assert_eq!(steps(&options), [1, 2, 3]);
    }
}
