//! `sweep`: sizes of objects from 100 KB to 50 MB at 100 connections and 90 to 95 % hits, the method of
//! the dense edge node.

use super::{Bench, DataSet, ExtraTable, Kpi, Moment, Outcome, Setup, object_path, studies};
use freshet_base::units::{format_bytes, parse_bytes};
use freshet_load::error::{LabError, require};

/// Sizes of the study; its KB are of 1,000 bytes.
pub const SIZES: [&str; 6] = ["100KB", "500KB", "1MB", "10MB", "16MB", "50MB"];

/// Bytes of objects per size at most, so that a sweep of large ones does not fill a small cache alone.
pub const SET_BYTES: u64 = 1_000_000_000;

/// Objects per size at most.
const SET_OBJECTS_MAX: u64 = 1000;

/// What the study published for a size.
struct Published {
    size: &'static str,
    /// Time to the last byte, in ms.
    last_byte_ms: Option<f64>,
    /// Requests per second per watt, and watts.
    power: Option<(f64, f64)>,
}

const PUBLISHED: [Published; 3] = [
    Published { size: "100KB", last_byte_ms: Some(4.4), power: None },
    Published { size: "1MB", last_byte_ms: None, power: Some((46.9, 473.9)) },
    Published { size: "50MB", last_byte_ms: Some(995.2), power: Some((1.09, 426.5)) },
];

/// What the scenario can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Sizes, as `100KB`.
    pub sizes: Vec<String>,
    /// Connections.
    pub connections: usize,
    /// Share of requests for objects that are known, 0 to 1.
    pub hit_share: f64,
    /// Bytes of the known objects of each size, about.
    pub set_bytes: u64,
    /// Path of an object with `{size}` and `{n}`; `None` for the lab's origin.
    pub path: Option<String>,
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
    let fine = options.hit_share > 0.0 && options.hit_share <= 1.0;
    require(fine, "hits", options.hit_share, "more than 0 and at most 1")?;
    require(!options.sizes.is_empty(), "sizes", "none", "at least one")?;
    let mut sets = Vec::new();
    for size in &options.sizes {
        let bytes = parse_bytes(size).ok().filter(|bytes| *bytes > 0);
        let Some(bytes) = bytes else {
            return Err(LabError::ConfigSetting {
                setting: "sizes",
                got: size.clone(),
                expected: "sizes with units, as 100KB,1MB,50MB",
            });
        };
        let objects = (options.set_bytes / bytes).clamp(1, SET_OBJECTS_MAX);
        let path = match &options.path {
            Some(path) => path.replace("{size}", size),
            None => object_path(size, "sweep"),
        };
        sets.push((bytes, DataSet { class: format_bytes(bytes), path, objects }));
    }
    let source = format!("{}, Edge CDN Node Performance", studies::DENSE);
    let mut bench = Bench::new("sweep", "Sizes of objects", &source, setup, show)?;
    bench.note("connections", options.connections);
    bench.note("known objects asked for", format!("{:.1} %", options.hit_share * 100.0));
    bench.plan(sets.len(), "object, bytes");
    for (bytes, set) in &sets {
        if bench.is_over() {
            break;
        }
        bench.fill(set.filling()?, set.objects)?;
        if bench.is_over() {
            break;
        }
        let mut load = bench.load(set.workload(1.0 - options.hit_share)?);
        load.connections = options.connections;
        bench.measure(&set.class, *bytes as f64, load)?;
    }
    judge(&mut bench, options);
    Ok(bench.finish())
}

fn judge(bench: &mut Bench<'_>, options: &Options) {
    let columns = [
        "object",
        "TTFB, ms",
        "TTLB, ms",
        "requests/s",
        "goodput, Gbit/s",
        "throughput, Gbit/s",
        "errors",
        "cores",
        "memory, MB",
        "W",
        "requests/s/W",
        "byte hits, %",
    ];
    let mut table = ExtraTable {
        caption: "By size".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    let mut kpis = Vec::new();
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
    };
    for (step, size) in bench.outcome.steps.iter().zip(&options.sizes) {
        let m = &step.measured;
        let watts = m.power.as_ref().map(|power| power.watts);
        let last_ms = m.last_byte.mean_us / 1e3;
        table.rows.push(vec![
            step.name.clone(),
            format!("{:.2}", m.first_byte.mean_us / 1e3),
            format!("{last_ms:.2}"),
            format!("{:.0}", m.requests_per_second),
            format!("{:.3}", m.goodput_bps / 1e9),
            shown(m.throughput_bps.map(|bits| bits / 1e9), 3),
            m.errors.total().to_string(),
            shown(m.server.as_ref().map(|server| server.cores), 2),
            shown(m.server.as_ref().map(|server| server.memory_bytes as f64 / 1e6), 0),
            shown(watts, 1),
            shown(m.requests_per_joule(), 2),
            shown(m.byte_hit_ratio.map(|ratio| ratio * 100.0), 1),
        ]);
        let published = PUBLISHED.iter().find(|published| published.size == size);
        let mut kpi =
            Kpi::new(format!("time to last byte, {}", step.name), last_ms, "ms").better(false);
        if let Some(ms) = published.and_then(|published| published.last_byte_ms) {
            kpi = kpi.published(format!("{ms} ms with 200 GbE, TTLB"));
        }
        kpis.push(kpi);
        let mut kpi = Kpi::new(
            format!("requests per second per watt, {}", step.name),
            m.requests_per_joule(),
            "1/s/W",
        )
        .better(true);
        if let Some((ratio, watts)) = published.and_then(|published| published.power) {
            kpi = kpi.published(format!("{ratio} at {watts} W"));
        }
        if kpi.value.is_some() {
            kpis.push(kpi);
        }
    }
    let goodput: Vec<f64> =
        bench.outcome.steps.iter().map(|step| step.measured.goodput_bps / 1e9).collect();
    if let Some(best) = goodput.iter().copied().reduce(f64::max) {
        kpis.push(Kpi::new("goodput, best size", best, "Gbit/s").better(true).published(
            "158.8 Gbps (larger sizes) and 149.1 Gbps (smaller) of goodput, 170.5 and 164 Gbps of \
             throughput",
        ));
    }
    let ratios: Option<Vec<f64>> =
        bench.outcome.steps.iter().map(|step| step.measured.byte_hit_ratio).collect();
    let lowest = ratios.and_then(|ratios| ratios.into_iter().reduce(f64::min));
    // Few large objects: the share of hits is only as exact as the number of requests allows.
    let fewest = bench.outcome.steps.iter().map(|step| step.measured.requests).min().unwrap_or(0);
    let noise = 3.0 * (options.hit_share * (1.0 - options.hit_share) / fewest.max(1) as f64).sqrt();
    let floor = options.hit_share - noise.max(0.02);
    kpis.push(
        Kpi::new("byte hit ratio, lowest of all sizes", lowest.map(|ratio| ratio * 100.0), "%")
            .wanted(
                format!(
                    "at least {:.1} % ({:.1} % asked for)",
                    floor * 100.0,
                    options.hit_share * 100.0
                ),
                lowest.is_some_and(|ratio| ratio >= floor),
            )
            .published("90 to 95 % by design"),
    );
    bench.outcome.tables.push(table);
    bench.outcome.kpis.extend(kpis);
}
