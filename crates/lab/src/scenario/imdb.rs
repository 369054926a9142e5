//! `imdb`: many Redis servers at a time, the in-memory database test of the MEC platform study.

use super::{Bench, ExtraPlot, ExtraTable, Kpi, Moment, Outcome, Setup, studies};
use freshet_load::Progress;
use freshet_load::error::{LabError, require};
use freshet_load::observe::{PowerSource, Server};
use freshet_load::redis::{Memory, RedisFigures, RedisLoad, RedisServer, second_memory};
use freshet_load::target::Target;
use std::path::Path;
use std::time::{Duration, Instant};

/// The limit of the study: operations take less than this on average.
const SLA_US: f64 = 1000.0;

/// What the scenario can be told. The default is the study's, but for the number of keys, which is
/// 210,000,000 there.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Servers.
    pub servers: usize,
    /// GETs for each SET.
    pub gets_per_set: u32,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Operations in a pipeline.
    pub pipeline: usize,
    /// Threads for each server.
    pub threads: usize,
    /// Connections of each thread.
    pub connections: usize,
    /// Keys of each server.
    pub keys: u64,
    /// Processors for the servers, in turn; where empty they go where they like.
    pub server_cpus: Vec<usize>,
    /// Bytes each server may hold.
    pub memory_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            servers: 20,
            gets_per_set: 4,
            value_bytes: 1024,
            pipeline: 64,
            threads: 3,
            connections: 3,
            keys: 100_000,
            server_cpus: Vec::new(),
            memory_bytes: 1 << 30,
        }
    }
}

/// The setup of a scenario that has no target but the servers it starts.
pub fn setup() -> Setup {
    let target = Target {
        address: std::net::SocketAddr::from(([127, 0, 0, 1], 6379)),
        authority: "localhost".to_owned(),
        tls: None,
    };
    let mut setup = Setup::new(target);
    setup.server_name = "Redis".to_owned();
    setup.power = PowerSource::Local;
    setup
}

/// Runs it.
///
/// # Errors
/// [`LabError`] when it cannot begin: no redis-server, a setting out of bounds.
pub fn run(
    setup: Setup,
    options: &Options,
    show: &mut dyn FnMut(&Moment),
) -> Result<Outcome, LabError> {
    require((1..=256).contains(&options.servers), "servers", options.servers, "1 to 256")?;
    require((1..=64).contains(&options.threads), "threads", options.threads, "1 to 64")?;
    let fine = (1..=1000).contains(&options.connections);
    require(fine, "connections", options.connections, "1 to 1000")?;
    require((1..=10_000).contains(&options.pipeline), "pipeline", options.pipeline, "1 to 10000")?;
    let fine = (1..=1 << 20).contains(&options.value_bytes);
    require(fine, "value", options.value_bytes, "1 byte to 1 MiB")?;
    let fine = (1..=1_000_000_000).contains(&options.keys);
    require(fine, "keys", options.keys, "1 to 1000000000")?;
    let source = format!("{}, section 2.2.2 and Table 5", studies::MEC);
    let mut bench = Bench::new("imdb", "In-memory databases", &source, setup, show)?;
    bench.outcome.target = "servers started for this run".to_owned();
    bench.outcome.settings.retain(|(name, _)| name != "protocol" && name != "content checked");
    bench.note("servers", options.servers);
    bench.note("GET : SET", format!("{} : 1", options.gets_per_set));
    bench.note("value", format!("{} B", options.value_bytes));
    bench.note("pipeline", options.pipeline);
    bench.note("threads × connections", format!("{} × {}", options.threads, options.connections));
    bench.note("keys of a server", format!("{}, Gaussian", options.keys));
    let mut memories = vec![("DRAM", Memory::Any)];
    match second_memory(Path::new("/sys")) {
        Some(node) => memories.push(("second memory", Memory::Node(node))),
        None => bench.warn(
            "This machine has one class of memory: no NUMA node has memory and no processors, so there \
             is nothing to compare DRAM with",
        ),
    }
    bench.plan(memories.len(), "servers");
    for (name, memory) in memories {
        if !bench.is_over() {
            measure(&mut bench, options, name, memory)?;
        }
    }
    Ok(bench.finish())
}

fn measure(
    bench: &mut Bench<'_>,
    options: &Options,
    name: &str,
    memory: Memory,
) -> Result<(), LabError> {
    let mut servers = Vec::with_capacity(options.servers);
    for number in 0..options.servers {
        let cpu = options.server_cpus.get(number % options.server_cpus.len().max(1)).copied();
        servers.push(RedisServer::start(memory, cpu, options.memory_bytes)?);
    }
    let load = |server: &RedisServer, number: usize| RedisLoad {
        address: server.address,
        threads: options.threads,
        connections: options.connections,
        pipeline: options.pipeline,
        gets_per_set: options.gets_per_set,
        value_bytes: options.value_bytes,
        keys: options.keys,
        duration: bench.setup.duration,
        seed: bench.setup.seed + number as u64,
        stop: bench.setup.stop.clone(),
    };
    let loads: Vec<RedisLoad> =
        servers.iter().enumerate().map(|(number, server)| load(server, number)).collect();
    bench.tell(&format!("{name}, filling"), &Progress::default());
    for load in &loads {
        load.fill()?;
    }
    let pids: Vec<u32> = servers.iter().map(RedisServer::pid).collect();
    bench.observer.server = Some(Server::processes(&pids)?);
    let begun = Instant::now();
    let first = bench.observer.read(0.0);
    let span = bench.setup.duration;
    let running: Vec<_> =
        loads.into_iter().map(|load| std::thread::spawn(move || load.run())).collect();
    while running.iter().any(|thread| !thread.is_finished()) {
        let left_s = span.saturating_sub(begun.elapsed()).as_secs_f64();
        let at_s = begun.elapsed().as_secs_f64();
        bench.tell(name, &Progress { at_s, left_s, ..Progress::default() });
        std::thread::sleep(Duration::from_millis(50));
    }
    let figures: Vec<RedisFigures> =
        running.into_iter().filter_map(|thread| thread.join().ok()).collect();
    let seconds = begun.elapsed().as_secs_f64();
    let end = bench.observer.read(seconds);
    let cores = end.cpu_seconds.zip(first.cpu_seconds).map(|(end, first)| (end - first) / seconds);
    report(bench, name, &figures, cores, end.memory_bytes);
    drop(servers);
    Ok(())
}

fn report(
    bench: &mut Bench<'_>,
    name: &str,
    figures: &[RedisFigures],
    cores: Option<f64>,
    memory_bytes: Option<u64>,
) {
    let mut table = ExtraTable {
        caption: format!("{name}: each server"),
        columns: ["server", "operations/s", "KB/s", "mean, ms", "99 %, ms", "hits, %", "failures"]
            .map(str::to_owned)
            .to_vec(),
        rows: Vec::new(),
    };
    for (number, server) in figures.iter().enumerate() {
        let asked = (server.hits + server.misses).max(1) as f64;
        table.rows.push(vec![
            format!("{}", number + 1),
            format!("{:.0}", server.operations_per_second()),
            format!("{:.0}", server.kilobytes_per_second()),
            format!("{:.3}", server.latency.mean_us / 1e3),
            format!("{:.3}", server.latency.p99_us as f64 / 1e3),
            format!("{:.1}", server.hits as f64 / asked * 100.0),
            server.failures.to_string(),
        ]);
    }
    bench.outcome.tables.push(table);
    let by_server = |of: &dyn Fn(&RedisFigures) -> f64| -> Vec<(f64, f64)> {
        figures.iter().enumerate().map(|(n, server)| ((n + 1) as f64, of(server))).collect()
    };
    let plot = |title: &str, y: &str, of: &dyn Fn(&RedisFigures) -> f64| ExtraPlot {
        title: format!("{name}: {title}"),
        x: "server".to_owned(),
        y: y.to_owned(),
        series: vec![(name.to_owned(), by_server(of))],
        limit: None,
    };
    let mut latency =
        plot("mean latency of each server", "time, ms", &|server| server.latency.mean_us / 1e3);
    latency.limit = Some(("SLA: 1 ms".to_owned(), SLA_US / 1e3));
    let rate = plot("operations of each server", "thousands per second", &|server| {
        server.operations_per_second() / 1e3
    });
    bench.outcome.plots.extend([rate, latency]);
    let total: f64 = figures.iter().map(RedisFigures::operations_per_second).sum();
    let kilobytes: f64 = figures.iter().map(RedisFigures::kilobytes_per_second).sum();
    let count = figures.len().max(1) as f64;
    let slowest = figures.iter().map(|server| server.latency.mean_us).fold(0.0, f64::max);
    let failures: u64 = figures.iter().map(|server| server.failures).sum();
    let done = total > 0.0;
    let kpis = [
        Kpi::new(format!("{name}: operations per second, all servers"), total, "1/s")
            .published(
                "persistent memory: up to 97 % of DRAM, Figure 10; twice the servers, Figure 9",
            )
            .better(true),
        Kpi::new(format!("{name}: operations per second, each server"), total / count, "1/s")
            .better(true),
        Kpi::new(format!("{name}: memory bandwidth, all servers"), kilobytes, "KB/s").better(true),
        Kpi::new(
            format!("{name}: mean latency, slowest server"),
            done.then_some(slowest / 1e3),
            "ms",
        )
        .wanted("less than 1 ms", slowest < SLA_US)
        .published("all tests met less than 1 ms, Figures 9 and 10")
        .better(false),
        Kpi::new(format!("{name}: connections that failed"), failures as f64, "")
            .wanted("none", failures == 0)
            .better(false),
        Kpi::new(format!("{name}: processors in use by all servers"), cores, ""),
        Kpi::new(
            format!("{name}: resident memory of all servers"),
            memory_bytes.map(|bytes| bytes as f64 / 1e6),
            "MB",
        ),
    ];
    bench.outcome.kpis.extend(kpis);
    if bench.setup.stop.load(std::sync::atomic::Ordering::Relaxed) {
        bench.outcome.cut_short = Some("it was interrupted".to_owned());
    }
}
