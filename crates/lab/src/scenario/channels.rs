//! `channels`: how many live channels a node holds, the method of the channel density study.
//!
//! Users come by the clock, in five steps. Each asks on a connection of its own for all eleven objects
//! of one segment (Table 3); 85 % of them for a segment of a known channel, 15 % for one that nobody has
//! asked for. The number of channels grows until byte hits or response times no longer hold.

use super::{Bench, ERRORS_MAX, ExtraPlot, Kpi, Moment, Outcome, Setup, studies};
use crate::ladder::TABLE_3;
use freshet_base::units::format_bytes;
use freshet_load::Pace;
use freshet_load::error::{LabError, require};
use freshet_load::measurement::Measurement;
use freshet_load::workload::{Draw, Workload};

/// Bytes of all eleven objects of a segment, as the study's equation has them.
pub const SEGMENT_BYTES: u64 = 25_000_000;

/// Segments of a channel: 6 minutes of 6 s.
pub const SEGMENTS: u64 = 60;

/// The class whose response time the study plots.
const JUDGED_CLASS: &str = "4096 KB";

/// How much longer responses may take than with the fewest channels.
const GROWTH_MAX: f64 = 1.25;

/// Share of hits that may be missing, besides what chance explains.
const TOLERANCE: f64 = 0.01;

/// Steps of the search for the highest number.
const SEARCH_STEPS: usize = 4;

/// Channels at most.
const CHANNELS_MAX: u64 = 100_000;

/// What the scenario can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Numbers of channels, ascending.
    pub profiles: Vec<u64>,
    /// Segments of each.
    pub segments: u64,
    /// Users per second in the first step; each further step has as many more.
    pub users: f64,
    /// Steps of the load.
    pub steps: u32,
    /// Share of users that ask for known channels.
    pub known_share: f64,
    /// Users at a time at most.
    pub connections: usize,
    /// Bytes that the cache can hold, for the number that the equation gives.
    pub cache_bytes: Option<u64>,
    /// Whether the highest number is searched for beyond the profiles.
    pub search: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profiles: vec![100, 175, 250],
            segments: SEGMENTS,
            users: 50.0,
            steps: 5,
            known_share: 0.85,
            connections: 4000,
            cache_bytes: None,
            search: true,
        }
    }
}

/// Channels that fit a cache: `n = cache / 25 MB / segments`.
pub fn computed_channels(cache_bytes: u64, segments: u64) -> f64 {
    cache_bytes as f64 / SEGMENT_BYTES as f64 / segments.max(1) as f64
}

/// How a number of channels came out.
#[derive(Clone, Copy, Debug)]
struct Trial {
    channels: u64,
    gbps: f64,
    byte_hit_ratio: Option<f64>,
    response_ms: f64,
    holds: bool,
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
    let fine = (1..=20).contains(&options.steps);
    require(fine, "steps", options.steps, "1 to 20")?;
    let share = options.known_share;
    require(share > 0.0 && share <= 1.0, "known", share, "more than 0 and at most 1")?;
    let fine = options.profiles.iter().all(|n| (1..=CHANNELS_MAX).contains(n));
    let fine = fine && !options.profiles.is_empty() && options.profiles.is_sorted();
    let got = format!("{:?}", options.profiles);
    require(fine, "channels", got, "ascending numbers from 1 to 100000")?;
    require((1..=10_000).contains(&options.segments), "segments", options.segments, "1 to 10000")?;
    let source = format!("{}, section 2.2.3 and Table 3", studies::CHANNELS);
    let mut bench = Bench::new("channels", "Live channels", &source, setup, show)?;
    bench.setup.streams = 1;
    bench.note("segments of a channel", options.segments);
    bench.note("users per second", format!("{} steps of {}", options.steps, options.users));
    bench.note("users of known channels", format!("{:.0} %", share * 100.0));
    if let Some(bytes) = options.cache_bytes {
        bench.note("cache", format_bytes(bytes));
    }
    bench.plan(options.profiles.len() * options.steps as usize, "channels");
    let mut trials: Vec<Trial> = Vec::new();
    for channels in &options.profiles {
        let steps: Vec<u32> = (1..=options.steps).collect();
        try_out(&mut bench, options, *channels, &steps, &mut trials)?;
    }
    if options.search && !bench.is_over() {
        search(&mut bench, options, &mut trials)?;
    }
    judge(&mut bench, options, &mut trials);
    Ok(bench.finish())
}

/// Looks for the highest number that holds: doubles while all hold, then halves the gap.
fn search(
    bench: &mut Bench<'_>,
    options: &Options,
    trials: &mut Vec<Trial>,
) -> Result<(), LabError> {
    for _ in 0..SEARCH_STEPS {
        let held = trials.iter().filter(|trial| trial.holds).map(|trial| trial.channels).max();
        let failed = trials
            .iter()
            .filter(|trial| !trial.holds && Some(trial.channels) > held)
            .map(|trial| trial.channels)
            .min();
        let next = match (held, failed) {
            (Some(held), None) => (held * 2).min(CHANNELS_MAX),
            (held, Some(failed)) => u64::midpoint(held.unwrap_or(0), failed),
            (None, None) => return Ok(()),
        };
        let is_known = trials.iter().any(|trial| trial.channels == next);
        if next == 0 || is_known || bench.is_over() {
            return Ok(());
        }
        bench.planned += 1;
        try_out(bench, options, next, &[options.steps], trials)?;
    }
    Ok(())
}

/// Measures one number of channels at these steps of the load; the last one judges.
fn try_out(
    bench: &mut Bench<'_>,
    options: &Options,
    channels: u64,
    steps: &[u32],
    trials: &mut Vec<Trial>,
) -> Result<(), LabError> {
    if bench.is_over() {
        return Ok(());
    }
    let objects = channels * options.segments * TABLE_3.len() as u64;
    bench.fill(workload(channels, options.segments, None)?, objects)?;
    let workload = workload(channels, options.segments, Some(options.known_share))?;
    let (mut ratios, mut users, mut failed, mut last) = (Vec::new(), 0.0, 0.0_f64, None);
    let mut keeps_up = true;
    for step in steps {
        if bench.is_over() {
            return Ok(());
        }
        let per_second = options.users * f64::from(*step);
        let mut load = bench.load(workload.clone());
        load.connections = options.connections;
        load.pace = Pace::Open { per_second, is_random: false };
        let word = if channels == 1 { "channel" } else { "channels" };
        let name = format!("{channels} {word}, {per_second} users/s");
        let measured = &bench.measure(&name, channels as f64, load)?.measured;
        ratios.extend(measured.byte_hit_ratio);
        users += measured.requests as f64 / TABLE_3.len() as f64;
        failed = failed.max(measured.failed_share());
        keeps_up &= measured.keeps_up();
        last = Some((measured.goodput_bps / 1e9, response_ms(measured)));
    }
    // What was cut short says nothing of a number of channels.
    let Some((gbps, response_ms)) = last.filter(|_| !bench.is_over()) else { return Ok(()) };
    let ratio = (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64);
    let share = options.known_share;
    let chance = 3.0 * (share * (1.0 - share) / users.max(1.0)).sqrt();
    let hits_hold = ratio.is_none_or(|ratio| ratio >= share - TOLERANCE.max(chance));
    let base = trials.first().map_or(response_ms, |trial| trial.response_ms);
    // An error is a quick response, and nobody's channel; neither are users who were not served.
    let is_well = failed <= ERRORS_MAX && keeps_up;
    let holds = is_well && hits_hold && response_ms <= base * GROWTH_MAX;
    trials.push(Trial { channels, gbps, byte_hit_ratio: ratio, response_ms, holds });
    Ok(())
}

fn response_ms(measured: &Measurement) -> f64 {
    let class = measured.classes.iter().find(|class| class.name == JUDGED_CLASS);
    class.map_or(0.0, |class| class.last_byte.mean_us / 1e3)
}

/// The users; without a share of known ones each segment is asked for once, to fill the cache.
fn workload(channels: u64, segments: u64, known_share: Option<f64>) -> Result<Workload, LabError> {
    let (channel, segment) = match known_share {
        None => (
            Draw::Sequence { first: 1, divide: segments, modulo: channels },
            Draw::Sequence { first: 1, divide: 1, modulo: segments },
        ),
        Some(_) => {
            (Draw::Uniform { first: 1, last: channels }, Draw::Uniform { first: 1, last: segments })
        }
    };
    let workload = Workload::default()
        .variable("channel", channel)?
        .variable("segment", segment)?
        .variable("nobody", Draw::Random)?;
    let classes: Vec<String> =
        TABLE_3.iter().map(|rung| format!("{} KB", rung.segment_bytes / 1024)).collect();
    let requests = |prefix: &str| -> Vec<(String, String)> {
        TABLE_3
            .iter()
            .zip(&classes)
            .map(|(rung, class)| {
                (class.clone(), format!("{prefix}/channel-{{channel}}/{}/{{segment}}", rung.path))
            })
            .collect()
    };
    let session = |workload: Workload, weight: f64, prefix: &str| {
        let requests = requests(prefix);
        let requests: Vec<(&str, &str)> =
            requests.iter().map(|(class, path)| (class.as_str(), path.as_str())).collect();
        // Whoever fills keeps its connection.
        workload.session(weight, known_share.is_some(), &requests)
    };
    let share = known_share.unwrap_or(1.0);
    let workload = session(workload, share, "")?;
    if share < 1.0 { session(workload, 1.0 - share, "/{nobody}") } else { Ok(workload) }
}

fn judge(bench: &mut Bench<'_>, options: &Options, trials: &mut [Trial]) {
    trials.sort_by_key(|trial| trial.channels);
    let share = options.known_share;
    let points = |of: &dyn Fn(&Trial) -> Option<f64>| -> Vec<(f64, f64)> {
        trials.iter().filter_map(|trial| Some((trial.channels as f64, of(trial)?))).collect()
    };
    let name = bench.outcome.server.clone();
    let plot = |title: &str, y: &str, points, limit| ExtraPlot {
        title: title.to_owned(),
        x: "channels".to_owned(),
        y: y.to_owned(),
        series: vec![(name.clone(), points)],
        limit,
    };
    let plots = [
        plot(
            "Throughput by number of channels (as Figure 12)",
            "goodput, Gbit/s",
            points(&|trial| Some(trial.gbps)),
            None,
        ),
        plot(
            "Byte hit ratio by number of channels (as Figure 13)",
            "byte hits, %",
            points(&|trial| trial.byte_hit_ratio.map(|ratio| ratio * 100.0)),
            Some((format!("wanted: {:.0} %", share * 100.0), share * 100.0)),
        ),
        plot(
            "Response time of 4 MB objects (as Figure 14)",
            "time to last byte, ms",
            points(&|trial| Some(trial.response_ms)),
            None,
        ),
    ];
    bench.outcome.plots.extend(plots);
    let held =
        trials.iter().filter(|trial| trial.holds).max_by_key(|trial| trial.channels).copied();
    let is_bounded = trials.iter().any(|trial| !trial.holds);
    if !trials.is_empty() {
        let label = if is_bounded { "channels that hold" } else { "channels that hold, at least" };
        let kpi = Kpi::new(label, held.map(|trial| trial.channels as f64), "")
            .wanted("at least one number", held.is_some())
            .published("100 (DRAM), 175 and 250 (PMem) per virtual machine, Table 1")
            .better(true);
        bench.outcome.kpis.push(kpi);
    }
    if let Some(bytes) = options.cache_bytes {
        let computed = computed_channels(bytes, options.segments);
        let kpi = Kpi::new("channels by the equation, cache / 25 MB / segments", computed, "")
            .published("96 for 3 × 48 GB, 171 for 2 × 128 GB, 256 for 3 × 128 GB, section 2.2.3");
        bench.outcome.kpis.push(kpi);
    }
    if let Some(held) = held {
        let kpi = Kpi::new("throughput at that number", held.gbps, "Gbit/s")
            .published("42.5 Gbps of HTTPS per virtual machine, section 2.2.1")
            .better(true);
        bench.outcome.kpis.push(kpi);
        let ratio = held.byte_hit_ratio.map(|ratio| ratio * 100.0);
        let mut kpi =
            Kpi::new("byte hit ratio at that number", ratio, "%").published("85 %, section 2.1.4");
        // Where hits are not known, response times alone judge.
        if ratio.is_some() {
            kpi = kpi.wanted(format!("{:.0} %, but for chance", share * 100.0), true);
        }
        bench.outcome.kpis.push(kpi);
    } else if let Some(first) = trials.first() {
        let ratio = first.byte_hit_ratio.map(|ratio| ratio * 100.0);
        let kpi = Kpi::new(format!("byte hit ratio at {} channels", first.channels), ratio, "%")
            .wanted(format!("{:.0} %", share * 100.0), false)
            .published("85 %, section 2.1.4");
        bench.outcome.kpis.push(kpi);
    }
    if trials.iter().any(|trial| trial.byte_hit_ratio.is_none()) {
        bench.warn("Hits are not known here, so response times alone judged (see --with-origin)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equation_gives_the_numbers_of_the_study() {
        // Table 1: three devices of 48 GB, two and three of 128 GB.
        for (gigabytes, channels) in [(3 * 48, 96.0), (2 * 128, 171.0), (3 * 128, 256.0)] {
            let computed = computed_channels(gigabytes * 1_000_000_000, SEGMENTS);
            assert!((computed - channels).abs() < 1.0, "{computed}");
        }
    }

    #[test]
    fn a_user_asks_for_all_eleven_objects_of_a_segment() {
        let workload = workload(3, 60, Some(0.85)).unwrap();
        assert_eq!(workload.session_requests_max(), 11);
        assert!(workload.closes() && !workload.is_sequential());
        assert!(workload.classes().contains(&JUDGED_CLASS.to_owned()));
        let filling = self::workload(3, 60, None).unwrap();
        assert!(filling.is_sequential() && !filling.closes());
    }
}
