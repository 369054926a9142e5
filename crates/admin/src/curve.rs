//! What the hit ratio would be with more memory or disk, or less.

use crate::context::Context;
use crate::problem::Problem;
use crate::query::Pairs;
use axum::Json;
use axum::extract::State;
use freshet_cache::LearnedCurve;
use freshet_cache::eviction::CurvePoint;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Capacities as eighths of the present one, where the request names none.
const EIGHTHS: [u64; 8] = [1, 2, 4, 6, 8, 16, 32, 64];

/// Capacities of disks as halves of the present one, where the request names none.
const HALVES: [u64; 4] = [1, 2, 4, 8];

/// Capacities of a kind one request may ask for.
const CAPACITIES_MAX: usize = 64;

/// The miss-ratio curve of the node's own traffic.
#[derive(Serialize, ToSchema)]
pub(crate) struct Curve {
    /// What memory would do, all its classes together.
    #[serde(flatten)]
    memory: CapacityCurve,
    /// Requests for what is stored or can be, since the start.
    requests_seen: u64,
    /// The order of eviction that is assumed: `lru`. The node's own is as a rule a little better.
    order: &'static str,
    /// How the node runs its queues, as the traffic has shown to be best.
    tactic: &'static str,
    /// How it runs its disks, as the traffic has shown to be best, where there are some.
    disk_tactic: Option<&'static str>,
    /// The same for the disks, where there are some: what would be answered from the present memory
    /// and disks of so many bytes together.
    disks: Option<CapacityCurve>,
}

/// What other capacities of memory, or of disks, would do.
#[derive(Serialize, ToSchema)]
struct CapacityCurve {
    /// Room for content at present, bytes.
    capacity_bytes: u64,
    /// How many requests the curve is made from.
    requests_sampled: u64,
    /// The part of all keys that is looked at, 0 to 1.
    sample_rate: f64,
    /// The curve, in the order of the capacities asked for.
    points: Vec<Point>,
}

/// One capacity.
#[derive(Serialize, ToSchema)]
struct Point {
    /// Room for objects, bytes.
    capacity_bytes: u64,
    /// The part of requests that would be answered from it, 0 to 1.
    request_hit_ratio: f64,
    /// The part of bytes, 0 to 1.
    byte_hit_ratio: f64,
}

impl From<LearnedCurve> for CapacityCurve {
    fn from(curve: LearnedCurve) -> Self {
        Self {
            capacity_bytes: curve.capacity_bytes,
            requests_sampled: curve.requests_sampled,
            sample_rate: curve.sample_rate,
            points: curve.points.into_iter().map(Point::from).collect(),
        }
    }
}

impl From<CurvePoint> for Point {
    fn from(point: CurvePoint) -> Self {
        Self {
            capacity_bytes: point.capacity_bytes,
            request_hit_ratio: point.request_hit_ratio,
            byte_hit_ratio: point.byte_hit_ratio,
        }
    }
}

/// Says what the hit ratio would be with other capacities.
#[utoipa::path(get, path = "/v1/curve", tag = "look", security(("token" = [])),
    params(("capacity" = Option<Vec<u64>>, Query, description =
        "Memory in bytes, any number of times up to 64 and up to 16 times the present one; \
         an eighth of the present one to eight times as much if not given"),
        ("disk" = Option<Vec<u64>>, Query, description =
        "The same of all disks together, up to 8 times the present one; \
         half the present one to four times as much if not given")),
    responses((status = OK, body = Curve, description = "The curve"), (status = BAD_REQUEST, body = Problem,
        content_type = "application/problem+json", description = "The request is wrong")))]
pub(crate) async fn curve(
    State(context): State<Arc<Context>>,
    query: Pairs,
) -> Result<Json<Curve>, Problem> {
    let cache = &context.node.shared.cache;
    let eighth = cache.capacity_bytes() / 8;
    let half = cache.disk_bytes() / 2;
    let memory = capacities(&query, "capacity", EIGHTHS.map(|part| eighth.saturating_mul(part)))?;
    let disks = capacities(&query, "disk", HALVES.map(|part| half.saturating_mul(part)))?;
    let learned = cache.learned(&memory, &disks);
    Ok(Json(Curve {
        memory: learned.memory.into(),
        requests_seen: learned.requests,
        order: "lru",
        tactic: learned.tactic,
        disk_tactic: learned.disk_tactic,
        disks: learned.disks.map(CapacityCurve::from),
    }))
}

/// The capacities a request names, or these.
fn capacities<const N: usize>(
    query: &Pairs,
    name: &str,
    default: [u64; N],
) -> Result<Vec<u64>, Problem> {
    let mut capacities = Vec::new();
    for text in query.all(name) {
        capacities.push(text.parse().map_err(|_| {
            Problem::bad_request(
                format!("{name}: `{text}` is not a number of bytes"),
                format!("write it in decimal, as {name}=4294967296"),
            )
        })?);
    }
    if capacities.len() > CAPACITIES_MAX {
        return Err(Problem::bad_request(
            format!("{name}: {} are too many", capacities.len()),
            format!("ask for {CAPACITIES_MAX} at a time"),
        ));
    }
    Ok(if capacities.is_empty() { default.to_vec() } else { capacities })
}
