//! `forwarding`: packets a second through the edge router without loss, the forwarding test of the MEC
//! platform study, by the method of RFC 2544.

use super::{Bench, ExtraPlot, ExtraTable, Kpi, Moment, Outcome, Setup, imdb, studies};
use crate::forwarding::search::{self, Verdict};
use crate::forwarding::{Bed, Middle, Plan, Trial};
use freshet_load::Progress;
use freshet_load::error::{LabError, require};
use freshet_load::redis::{Memory, RedisFigures, RedisLoad, RedisServer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Internet mix of the study: 64 B 20 %, 128 B 10 %, 256 B 20 %, 512 B 10 %, 1024 B 20 %, 1500 B 20 %.
pub const MIX: [u16; 10] = [64, 1024, 256, 1500, 128, 64, 1500, 512, 256, 1024];

/// Packets a second for each core of the study, whose cores forward 3.4 million together.
const STUDY_PER_CORE: f64 = 0.567e6;
/// Bytes around a frame on Ethernet that no interface counts: preamble, check sequence and gap.
const LAYER_1_BYTES: f64 = 24.0;
/// Headers of the tunnel and of the link, in bytes.
const TUNNEL_BYTES: f64 = 44.0;
const LINK_BYTES: f64 = 14.0;
/// A confirmation that loses makes room for one that is lower by this share.
const STEP: f64 = 0.03;
/// How often.
const STEPS_MAX: u32 = 12;

/// What the scenario can be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is measured, in this order.
    pub middles: Vec<Middle>,
    /// Bytes of packets in turn, by the name of the profile.
    pub profiles: Vec<(String, Vec<u16>)>,
    /// Runs of each.
    pub runs: u32,
    /// Length of a trial of the search; the confirmation takes [`Setup::duration`].
    pub search: Duration,
    /// Where the search begins, in packets a second.
    pub most: f64,
    /// Rules of the router.
    pub rules: u16,
    /// Packets that take turns, each with its own client, server, ports and protocol.
    pub clients: u32,
    /// Both ways at a time, or from clients alone.
    pub is_duplex: bool,
    /// Processors of the load and of what is measured.
    pub cpus: [usize; 2],
    /// In-memory databases beside it.
    pub beside: Option<imdb::Options>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            middles: vec![
                Middle::Bare,
                Middle::Pass,
                Middle::Breakout,
                Middle::Tap,
                Middle::Kernel,
                Middle::Bridge,
            ],
            profiles: vec![("IMIX".to_owned(), MIX.to_vec())],
            runs: 3,
            search: Duration::from_secs(1),
            most: 4e6,
            rules: 256,
            clients: 1000,
            is_duplex: true,
            cpus: [0, 1],
            beside: None,
        }
    }
}

/// The setup of a scenario whose target it makes itself.
pub fn setup() -> Setup {
    let mut setup = imdb::setup();
    setup.server_name = "Edge router".to_owned();
    setup
}

/// What was found for one middle and one profile.
struct Row {
    middle: Middle,
    profile: usize,
    rates: Vec<f64>,
    is_generators: bool,
    confirmed: Option<Trial>,
}

impl Row {
    fn median(&self) -> Option<f64> {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied()
    }
}

/// Runs it.
///
/// # Errors
/// [`LabError`] when it cannot begin: no root, a setting out of bounds.
pub fn run(
    setup: Setup,
    options: &Options,
    show: &mut dyn FnMut(&Moment),
) -> Result<Outcome, LabError> {
    check(options)?;
    let source = format!("{}, section 2.2.1 and Tables 2 to 4; RFC 2544, 26.1", studies::MEC);
    let mut bench = Bench::new("forwarding", "Forwarding without loss", &source, setup, show)?;
    describe(&mut bench, options);
    let beside = options.beside.as_ref().map(|beside| Beside::start(beside, &bench.setup));
    let beside = beside.transpose()?;
    bench.plan(options.middles.len() * options.profiles.len() * options.runs as usize, "bytes");
    let mut rows = Vec::new();
    let mut trials = Vec::new();
    let mut clock = Vec::new();
    for &middle in &options.middles {
        let plan = Plan {
            middle,
            rules: options.rules,
            clients: options.clients,
            cpus: options.cpus,
            ways: [true, options.is_duplex],
        };
        let mut bed = Bed::new(plan)?;
        for profile in 0..options.profiles.len() {
            let mut row =
                Row { middle, profile, rates: Vec::new(), is_generators: false, confirmed: None };
            for _ in 0..options.runs {
                if bench.is_over() {
                    break;
                }
                measure(&mut bench, options, &mut bed, &mut row, &mut trials, &mut clock)?;
            }
            rows.push(row);
        }
    }
    report(&mut bench, options, &rows, &trials, &clock);
    if let Some(beside) = beside {
        beside.report(&mut bench);
    }
    Ok(bench.finish())
}

fn check(options: &Options) -> Result<(), LabError> {
    require(!options.middles.is_empty(), "mode", "nothing", "at least one")?;
    require((1..=100).contains(&options.runs), "runs", options.runs, "1 to 100")?;
    require((1..=256).contains(&options.rules), "rules", options.rules, "1 to 256")?;
    let fine = (1..=50_000).contains(&options.clients);
    require(fine, "packets", options.clients, "1 to 50000")?;
    require((1e3..=1e8).contains(&options.most), "rate", options.most, "1000 to 100000000")?;
    let many = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let [load, router] = options.cpus;
    let fine = load != router && load < many && router < many;
    let got = format!("{load},{router}");
    require(fine, "cpus", got, "two processors of this machine, of the load and of the router")?;
    let sizes = options.profiles.iter().flat_map(|(_, sizes)| sizes);
    for size in sizes {
        require((64..=1500).contains(size), "sizes", size, "64 to 1500 bytes")?;
    }
    Ok(())
}

fn describe(bench: &mut Bench<'_>, options: &Options) {
    bench.outcome.target = "a wire of veth pairs made for this run".to_owned();
    bench.outcome.settings.retain(|(name, _)| {
        !["protocol", "content checked", "threads", "warm-up", "time limit"]
            .contains(&name.as_str())
    });
    let [load, router] = options.cpus;
    bench.note("ways", if options.is_duplex { "both at a time, summed" } else { "from clients" });
    bench.note("packets in turn", format!("{}, TCP and UDP", options.clients));
    bench.note("rules", format!("{}, of which the last matches", options.rules));
    bench.note("trials of the search", format!("{:?}", options.search));
    bench.note("processor of the load", load);
    bench.note("processor of what is measured", router);
    for (name, value) in environment(router) {
        bench.note(&name, value);
    }
    for (name, value) in [
        (
            "unlike the study: ports",
            "veth pairs in place of XL710 40G and SR-IOV; no cables, no queues",
        ),
        ("unlike the study: memory", "no pages of 1 GB: XDP needs none"),
        (
            "unlike the study: forwarding",
            "on one core in place of six, in the kernel in place of a VM",
        ),
        ("unlike the study: generator", "the lab's own, in the kernel, in place of TRex 2.53"),
    ] {
        bench.note(name, value);
    }
}

/// What the study's Tables 2 and 3 say of their machines.
fn environment(cpu: usize) -> Vec<(String, String)> {
    let read = |path: String| {
        let text = std::fs::read_to_string(path).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let dmi = |name: &str| read(format!("/sys/class/dmi/id/{name}"));
    let core = format!("/sys/devices/system/cpu/cpu{cpu}");
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let microcode = cpuinfo.lines().find_map(|line| line.strip_prefix("microcode"));
    let microcode = microcode.map(|text| text.trim_start_matches([' ', '\t', ':']).to_owned());
    let pages = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let pages = pages.lines().find_map(|line| line.strip_prefix("HugePages_Total:"));
    let rows = [
        ("machine", dmi("product_name")),
        ("BIOS", dmi("bios_version")),
        ("microcode", microcode),
        ("frequency driver", read(format!("{core}/cpufreq/scaling_driver"))),
        ("frequency governor", read(format!("{core}/cpufreq/scaling_governor"))),
        ("base frequency, kHz", read(format!("{core}/cpufreq/base_frequency"))),
        ("turbo off", read("/sys/devices/system/cpu/intel_pstate/no_turbo".to_owned())),
        ("huge pages", pages.map(|text| text.trim().to_owned())),
        ("kernel's command line", read("/proc/cmdline".to_owned())),
    ];
    let shown =
        |value: Option<String>| value.unwrap_or_else(|| "not shown by the system".to_owned());
    rows.map(|(name, value)| (name.to_owned(), shown(value))).to_vec()
}

/// Megahertz of a processor now.
fn megahertz(cpu: usize) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("cpu MHz"));
    lines.nth(cpu)?.split(':').nth(1)?.trim().parse().ok()
}

fn measure(
    bench: &mut Bench<'_>,
    options: &Options,
    bed: &mut Bed,
    row: &mut Row,
    trials: &mut Vec<(Middle, usize, Trial)>,
    clock: &mut Vec<f64>,
) -> Result<(), LabError> {
    let (name, sizes) = &options.profiles[row.profile];
    let step = format!("{}, {name}", row.middle.name());
    let stop = Arc::clone(&bench.setup.stop);
    let mut attempt = |bench: &mut Bench<'_>, rate: f64, span: Duration| {
        let left_s = span.as_secs_f64();
        bench.tell(&step, &Progress { left_s, ..Progress::default() });
        let trial = bed.trial(rate, span, sizes, &stop)?;
        clock.extend(megahertz(options.cpus[1]));
        trials.push((row.middle, row.profile, trial.clone()));
        Ok::<_, LabError>(trial)
    };
    let found = search::highest(options.most, 0.02, |rate| {
        if stop.load(Ordering::Relaxed) {
            return Ok(Verdict::Void);
        }
        attempt(bench, rate, options.search).map(|trial| trial.verdict())
    })?;
    row.is_generators |= found.is_generators;
    let Some(mut rate) = found.rate else { return Ok(()) };
    // The short trials of the search found where to look; what counts is a long one.
    for _ in 0..STEPS_MAX {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let trial = attempt(bench, rate, bench.setup.duration)?;
        match trial.verdict() {
            Verdict::Whole => {
                row.rates.push(trial.offered);
                row.confirmed = Some(trial);
                return Ok(());
            }
            Verdict::Lost => rate *= 1.0 - STEP,
            Verdict::Void => {}
        }
    }
    bench.warn(format!(
        "{step}: no rate near that of the search held for {:?}",
        bench.setup.duration
    ));
    Ok(())
}

fn mean_bytes(sizes: &[u16]) -> f64 {
    sizes.iter().map(|size| f64::from(*size)).sum::<f64>() / sizes.len().max(1) as f64
}

fn report(
    bench: &mut Bench<'_>,
    options: &Options,
    rows: &[Row],
    trials: &[(Middle, usize, Trial)],
    clock: &[f64],
) {
    bench.outcome.tables.push(rates_table(options, rows));
    plots(bench, options, rows, trials);
    let mix = options.profiles.iter().position(|(name, _)| name == "IMIX").unwrap_or(0);
    let of = |middle: Middle| {
        rows.iter().find(|row| row.middle == middle && row.profile == mix)?.median()
    };
    let name = &options.profiles[mix].0;
    let kernel = of(Middle::Kernel);
    for &middle in &options.middles {
        let rate = of(middle);
        let rate_mpps = rate.map(|rate| rate / 1e6);
        let title = format!("{}, {name}: without loss, one core", middle.name());
        let mut kpi = Kpi::new(title, rate_mpps, "Mpps").better(true);
        if let Some(least) = least(middle).filter(|_| name == "IMIX") {
            kpi = kpi.wanted(format!("at least {least} Mpps"), rate_mpps >= Some(least));
        }
        bench.outcome.kpis.push(match middle {
            Middle::Breakout => kpi.published(
                "3.4 Mpps on six cores, 0.567 a core, Figures 7 and 8. Others say: eUPF 1 Mpps a queue, \
                 Ella Core 2.2 to 5.2 Mpps",
            ),
            _ => kpi,
        });
    }
    if let Some(rate) = of(Middle::Breakout) {
        let kpi = Kpi::new(
            "breakout: of a core of the study (veth, not a network card)",
            rate / STUDY_PER_CORE,
            "times",
        )
        .wanted("at least 2 times", rate >= 2.0 * STUDY_PER_CORE)
        .better(true);
        bench.outcome.kpis.push(kpi);
    }
    if let Some((rate, kernel)) = of(Middle::Breakout).zip(kernel) {
        let kpi = Kpi::new("breakout: of the kernel's own forwarding", rate / kernel, "times")
            .wanted("at least 2 times", rate >= 2.0 * kernel)
            .better(true);
        bench.outcome.kpis.push(kpi);
    }
    for &middle in options.middles.iter().filter(|middle| middle.is_router()) {
        let of = rows.iter().filter(|row| row.middle == middle);
        let disordered: u64 = of.filter_map(|row| Some(row.confirmed.as_ref()?.disordered)).sum();
        bench.outcome.kpis.push(
            Kpi::new(
                format!("{}: packets that another overtook", middle.name()),
                disordered as f64,
                "",
            )
            .wanted("none", disordered == 0),
        );
    }
    if !clock.is_empty() {
        let least = clock.iter().copied().fold(f64::INFINITY, f64::min);
        let most = clock.iter().copied().fold(0.0, f64::max);
        let mean = clock.iter().sum::<f64>() / clock.len() as f64;
        bench.outcome.kpis.push(Kpi::new("frequency, mean", mean, "MHz"));
        bench.outcome.kpis.push(Kpi::new("frequency, spread", most - least, "MHz").better(false));
    }
    let void = trials.iter().filter(|(_, _, trial)| trial.verdict() == Verdict::Void).count();
    if void > 0 {
        bench.warn(format!(
            "{void} of {} trials were void: the load was late by more than 1 % of their time, or packets were \
             lost while what is measured had no processor. A machine with other work does that, so does \
             a virtual one that shares processors, and a rate above what the load can send",
            trials.len()
        ));
    }
    for row in rows.iter().filter(|row| row.is_generators && !row.rates.is_empty()) {
        bench.warn(format!(
            "{}, {}: the load, not what is measured, was the limit of the search",
            row.middle.name(),
            options.profiles[row.profile].0
        ));
    }
}

/// What is wanted of a core with the mix, in millions of packets a second: twice the study's, and for a tap,
/// which sends two for one, as many of these.
const fn least(middle: Middle) -> Option<f64> {
    match middle {
        Middle::Breakout => Some(1.2),
        Middle::Tap => Some(0.8),
        _ => None,
    }
}

fn rates_table(options: &Options, rows: &[Row]) -> ExtraTable {
    let columns = [
        "what",
        "packets",
        "Mpps",
        "runs, Mpps",
        "Gbit/s",
        "Gbit/s with L1",
        "sent",
        "lost",
        "drops",
        "late, ms",
        "absent, ms",
        "overtaken",
        "void slices",
    ];
    let mut table = ExtraTable {
        caption: "The highest rate without loss: the median of the runs, and the confirming trial of the \
                  last one. Both ways are summed; bits are those of the clients' packets, and with L1 \
                  those of the wire."
            .to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    for row in rows {
        let (name, sizes) = &options.profiles[row.profile];
        let bytes = mean_bytes(sizes);
        let tunnel = if row.middle == Middle::Kernel { 0.0 } else { TUNNEL_BYTES };
        let rate = row.median();
        let gigabits = |bytes: f64| {
            rate.map_or_else(|| "–".to_owned(), |rate| format!("{:.2}", rate * bytes * 8.0 / 1e9))
        };
        let runs: Vec<String> = row.rates.iter().map(|rate| format!("{:.2}", rate / 1e6)).collect();
        let trial = row.confirmed.clone().unwrap_or_default();
        table.rows.push(vec![
            row.middle.name().to_owned(),
            name.clone(),
            rate.map_or_else(|| "–".to_owned(), |rate| format!("{:.3}", rate / 1e6)),
            runs.join(" "),
            gigabits(bytes),
            gigabits(bytes + tunnel + LINK_BYTES + LAYER_1_BYTES),
            trial.sent.to_string(),
            trial.lost().to_string(),
            trial.ring_drops.to_string(),
            format!("{:.2}", trial.late_seconds * 1e3),
            format!("{:.2}", trial.absent_seconds * 1e3),
            trial.disordered.to_string(),
            trial.void_slices.to_string(),
        ]);
    }
    table
}

fn plots(
    bench: &mut Bench<'_>,
    options: &Options,
    rows: &[Row],
    trials: &[(Middle, usize, Trial)],
) {
    let single = |profile: usize| {
        let (_, sizes) = &options.profiles[profile];
        sizes.windows(2).all(|pair| pair[0] == pair[1]).then(|| f64::from(sizes[0]))
    };
    let by_size = |of: &dyn Fn(f64, f64) -> f64| -> Vec<(String, Vec<(f64, f64)>)> {
        let line = |middle: &Middle| {
            let points = rows.iter().filter(|row| row.middle == *middle).filter_map(|row| {
                let bytes = single(row.profile)?;
                Some((bytes, of(row.median()?, bytes)))
            });
            (middle.name().to_owned(), points.collect::<Vec<_>>())
        };
        options.middles.iter().map(line).filter(|(_, points)| points.len() > 1).collect()
    };
    let mut show = |title: &str, y: &str, series: Vec<(String, Vec<(f64, f64)>)>| {
        if !series.is_empty() {
            let (title, x, y) = (title.to_owned(), "packet, bytes".to_owned(), y.to_owned());
            bench.outcome.plots.push(ExtraPlot { title, x, y, series, limit: None });
        }
    };
    show("Packets without loss, by size", "Mpps", by_size(&|rate, _| rate / 1e6));
    let bits = by_size(&|rate, bytes| rate * bytes * 8.0 / 1e9);
    show("Bits without loss, by size", "Gbit/s", bits);
    let mix = options.profiles.iter().position(|(name, _)| name == "IMIX").unwrap_or(0);
    let lost = |middle: &Middle| {
        let mut points: Vec<(f64, f64)> = trials
            .iter()
            .filter(|(of, profile, trial)| {
                of == middle && *profile == mix && trial.verdict() != Verdict::Void
            })
            .map(|(_, _, trial)| {
                // A tap is to get a copy of each.
                let all = trial.sent.max(1) * if *middle == Middle::Tap { 2 } else { 1 };
                (trial.offered / 1e6, trial.lost() as f64 / all as f64 * 100.0)
            })
            .collect();
        points.sort_by(|left, right| left.0.total_cmp(&right.0));
        (middle.name().to_owned(), points)
    };
    let series: Vec<_> =
        options.middles.iter().map(lost).filter(|(_, points)| points.len() > 1).collect();
    if !series.is_empty() {
        bench.outcome.plots.push(ExtraPlot {
            title: format!("{}: loss by what was offered", options.profiles[mix].0),
            x: "offered, Mpps".to_owned(),
            y: "lost, %".to_owned(),
            series,
            limit: None,
        });
    }
}

/// In-memory databases with their load, at the lowest priority, for as long as it is kept.
struct Beside {
    stop: Arc<AtomicBool>,
    loads: Vec<JoinHandle<RedisFigures>>,
    _servers: Vec<RedisServer>,
}

impl Beside {
    fn start(options: &imdb::Options, setup: &Setup) -> Result<Self, LabError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut servers = Vec::new();
        let mut loads = Vec::new();
        for number in 0..options.servers {
            let cpu = options.server_cpus.get(number % options.server_cpus.len().max(1)).copied();
            let server = RedisServer::start(Memory::Any, cpu, options.memory_bytes)?;
            lower(Some(server.pid()))?;
            let load = RedisLoad {
                address: server.address,
                threads: options.threads,
                connections: options.connections,
                pipeline: options.pipeline,
                gets_per_set: options.gets_per_set,
                value_bytes: options.value_bytes,
                keys: options.keys,
                // Until it is told to stop.
                duration: Duration::from_secs(7 * 86_400),
                seed: setup.seed + number as u64,
                stop: Arc::clone(&stop),
            };
            load.fill()?;
            servers.push(server);
            loads.push(std::thread::spawn(move || {
                // Without it the load only has the priority of everything else.
                let _ = lower(None);
                load.run()
            }));
        }
        Ok(Self { stop, loads, _servers: servers })
    }

    fn report(mut self, bench: &mut Bench<'_>) {
        self.stop.store(true, Ordering::Relaxed);
        let figures: Vec<RedisFigures> =
            self.loads.drain(..).filter_map(|load| load.join().ok()).collect();
        let rate: f64 = figures.iter().map(RedisFigures::operations_per_second).sum();
        let title = format!("beside: operations per second, {} databases", figures.len());
        bench.outcome.kpis.push(Kpi::new(title, rate, "1/s").better(true));
        let slowest = figures.iter().map(|one| one.latency.mean_us).fold(0.0, f64::max);
        let kpi = Kpi::new("beside: mean latency, slowest database", slowest / 1e3, "ms");
        bench.outcome.kpis.push(kpi.better(false));
    }
}

impl Drop for Beside {
    /// Also where the scenario ends early.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Gives a process, or this thread, the lowest priority.
fn lower(process: Option<u32>) -> Result<(), LabError> {
    let process = process.and_then(|pid| rustix::process::Pid::from_raw(pid as i32));
    rustix::process::setpriority_process(process, 19).map_err(|error| LabError::LocalSystem {
        what: "priority of databases".to_owned(),
        why: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_that_of_the_study() {
        let share = |size: u16| MIX.iter().filter(|one| **one == size).count() * 10;
        let shares = [64, 128, 256, 512, 1024, 1500].map(share);
        assert_eq!(shares, [20, 10, 20, 10, 20, 20]);
        assert_eq!(mean_bytes(&MIX), 632.8);
    }

    #[test]
    fn settings_out_of_bounds_are_refused() {
        let wrong = |change: &dyn Fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            check(&options).unwrap_err().to_string()
        };
        assert!(wrong(&|options| options.cpus = [1, 1]).starts_with("cpus is 1,1"));
        assert!(wrong(&|options| options.cpus = [0, 4096]).contains("two processors"));
        assert!(wrong(&|options| options.rules = 257).contains("1 to 256"));
        assert!(wrong(&|options| options.profiles[0].1 = vec![40]).contains("64 to 1500"));
    }
}
