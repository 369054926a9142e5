//! The figures of the node as JSON, for `freshet stat` and `freshet top`.

use crate::context::Context;
use crate::groups::{GroupFigures, groups};
use crate::process::Process;
use axum::Json;
use axum::extract::State;
use freshet_base::clock::UnixMillis;
use freshet_base::histogram::Totals;
use freshet_http::reason::Reason;
use freshet_node::log::decode;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// Figures since the node started.
#[derive(Serialize, ToSchema)]
pub(crate) struct Stats {
    /// Program version.
    version: &'static str,
    /// When these figures were taken, ms since 1970.
    time_ms: u64,
    /// Since the start, s.
    uptime_s: f64,
    /// Whether it is about to end.
    draining: bool,
    /// Workers.
    workers: usize,
    /// Client connections open.
    connections: usize,
    /// Sums of the workers' counters by name.
    counters: BTreeMap<&'static str, u64>,
    /// Responses by hundreds of their status.
    statuses: BTreeMap<&'static str, u64>,
    /// Time to the first byte of hits.
    hit_first_byte: Times,
    /// Time to the first byte of everything else.
    miss_first_byte: Times,
    /// The index.
    cache: CacheFigures,
    /// Memory for objects.
    memory: MemoryFigures,
    /// Memory of a lower class, where there is some.
    lower_memory: Option<LowerMemoryFigures>,
    /// Groups of workers, where there are several.
    groups: Vec<GroupFigures>,
    /// Why recent requests were answered as they were, most frequent first.
    reasons: Vec<ReasonCount>,
    /// How many requests `reasons` looks back on.
    reasons_of: usize,
    /// Memory of the whole process in RAM, bytes.
    resident_bytes: Option<u64>,
}

/// Times as they were counted.
#[derive(Serialize, ToSchema)]
struct Times {
    /// Values.
    count: u64,
    /// Their sum, µs.
    sum_us: u64,
    /// Median, µs.
    p50_us: u64,
    /// 99 of 100 are below, µs.
    p99_us: u64,
    /// Largest value of each bucket that is not empty, µs, and its count.
    #[schema(value_type = Vec<[u64; 2]>)]
    buckets: Vec<(u64, u64)>,
}

/// Figures of the index.
#[derive(Serialize, ToSchema)]
struct CacheFigures {
    objects: u64,
    bytes: u64,
    evicted: u64,
    evicted_bytes: u64,
    purged: u64,
    waits: u64,
}

/// Figures of the arena, bytes.
#[derive(Serialize, ToSchema)]
struct MemoryFigures {
    limit_bytes: u64,
    committed_bytes: u64,
    used_bytes: u64,
    metadata_bytes: u64,
}

/// Figures of memory of a lower class.
#[derive(Serialize, ToSchema)]
struct LowerMemoryFigures {
    limit_bytes: u64,
    used_bytes: u64,
    objects: u64,
    /// Hits answered from it; they are among all hits.
    hits: u64,
    demoted: u64,
    demoted_bytes: u64,
    promoted: u64,
    promoted_bytes: u64,
    evicted: u64,
    /// Objects it had no room for.
    refused: u64,
}

/// A reason and how often it occurred.
#[derive(Serialize, ToSchema)]
struct ReasonCount {
    code: &'static str,
    sentence: &'static str,
    count: u64,
}

/// Gives all figures at once.
#[utoipa::path(get, path = "/v1/stats", tag = "look", security(("token" = [])),
    responses((status = OK, body = Stats, description = "The figures")))]
pub(crate) async fn stats(State(context): State<Arc<Context>>) -> Json<Stats> {
    let node = &context.node;
    let sums = node.sums();
    let cache = node.shared.cache.stats();
    let arena = node.shared.cache.memory();
    let now = UnixMillis::now();
    let (reasons, reasons_of) = reasons(&node.shared.log.recent(usize::MAX));
    Json(Stats {
        version: env!("CARGO_PKG_VERSION"),
        time_ms: now.0,
        uptime_s: now.since(node.started).as_secs_f64(),
        draining: node.is_draining(),
        workers: node.shared.stats.len(),
        connections: node.shared.connections.load(std::sync::atomic::Ordering::Relaxed),
        counters: sums.counters.iter().map(|(name, _, value)| (*name, *value)).collect(),
        statuses: CLASSES.into_iter().zip(sums.statuses).skip(1).collect(),
        hit_first_byte: times(&sums.hit_first_byte_us),
        miss_first_byte: times(&sums.miss_first_byte_us),
        cache: CacheFigures {
            objects: cache.objects,
            bytes: cache.bytes,
            evicted: cache.counters.evicted,
            evicted_bytes: cache.evicted_bytes,
            purged: cache.counters.purged,
            waits: cache.counters.waits,
        },
        memory: MemoryFigures {
            limit_bytes: arena.limit_bytes,
            committed_bytes: arena.committed_bytes,
            used_bytes: arena.used_bytes,
            metadata_bytes: arena.metadata_bytes,
        },
        lower_memory: node.shared.cache.lower_stats().map(|lower| LowerMemoryFigures {
            limit_bytes: lower.limit_bytes,
            used_bytes: lower.used_bytes,
            objects: lower.objects,
            hits: lower.hits,
            demoted: lower.demoted,
            demoted_bytes: lower.demoted_bytes,
            promoted: lower.promoted,
            promoted_bytes: lower.promoted_bytes,
            evicted: lower.evicted,
            refused: lower.refused,
        }),
        groups: groups(node),
        reasons,
        reasons_of,
        resident_bytes: Process::read().resident_bytes,
    })
}

/// Names of the hundreds of statuses, by index.
pub(crate) const CLASSES: [&str; 6] = ["0xx", "1xx", "2xx", "3xx", "4xx", "5xx"];

fn times(totals: &Totals) -> Times {
    Times {
        count: totals.count(),
        sum_us: totals.sum(),
        p50_us: totals.quantile(0.5),
        p99_us: totals.quantile(0.99),
        buckets: totals.buckets().collect(),
    }
}

fn reasons(records: &[Box<[u8]>]) -> (Vec<ReasonCount>, usize) {
    let mut counts: BTreeMap<Reason, u64> = BTreeMap::new();
    for record in records {
        if let Some(reason) = decode(&mut &record[..]).and_then(|record| record.reason()) {
            *counts.entry(*reason).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts
        .into_iter()
        .map(|(reason, count)| ReasonCount {
            code: reason.code(),
            sentence: reason.sentence(),
            count,
        })
        .collect();
    counts.sort_by_key(|entry| std::cmp::Reverse(entry.count));
    (counts, records.len())
}
