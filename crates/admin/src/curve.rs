//! What the hit ratio would be with more memory, or less.

use crate::problem::Problem;
use crate::query::Pairs;
use crate::server::Context;
use axum::Json;
use axum::extract::State;
use freshet_cache::eviction::CurvePoint;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Capacities as eighths of the present one, where the request names none.
const EIGHTHS: [u64; 8] = [1, 2, 4, 6, 8, 16, 32, 64];

/// Capacities one request may ask for.
const CAPACITIES_MAX: usize = 64;

/// The miss-ratio curve of the node's own traffic.
#[derive(Serialize, ToSchema)]
pub(crate) struct Curve {
    /// Memory for objects at present, bytes.
    capacity_bytes: u64,
    /// Requests for what is stored or can be, since the start.
    requests_seen: u64,
    /// How many of them the curve is made from.
    requests_sampled: u64,
    /// The part of all keys that is looked at, 0 to 1.
    sample_rate: f64,
    /// The order of eviction that is assumed: `lru`. The node's own is as a rule a little better.
    order: &'static str,
    /// How the node runs its queues, as the traffic has shown to be best.
    tactic: &'static str,
    /// The curve, in the order of the capacities asked for.
    points: Vec<Point>,
}

/// One capacity.
#[derive(Serialize, ToSchema)]
struct Point {
    /// Memory for objects, bytes.
    capacity_bytes: u64,
    /// The part of requests that would be answered from it, 0 to 1.
    request_hit_ratio: f64,
    /// The part of bytes, 0 to 1.
    byte_hit_ratio: f64,
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
        "Capacity in bytes, any number of times up to 64 and up to 16 times the present one; \
         an eighth of the present one to eight times as much if not given")),
    responses((status = OK, body = Curve), (status = BAD_REQUEST, body = Problem)))]
pub(crate) async fn curve(
    State(context): State<Arc<Context>>,
    query: Pairs,
) -> Result<Json<Curve>, Problem> {
    let cache = &context.node.shared.cache;
    let mut capacities = Vec::new();
    for text in query.all("capacity") {
        capacities.push(text.parse().map_err(|_| {
            Problem::bad_request(
                format!("capacity: `{text}` is not a number of bytes"),
                "write it in decimal, as capacity=4294967296",
            )
        })?);
    }
    if capacities.len() > CAPACITIES_MAX {
        return Err(Problem::bad_request(
            format!("{} capacities are too many", capacities.len()),
            format!("ask for {CAPACITIES_MAX} at a time"),
        ));
    }
    if capacities.is_empty() {
        let eighth = cache.capacity_bytes() / 8;
        capacities = EIGHTHS.map(|eighths| eighth.saturating_mul(eighths)).to_vec();
    }
    let learned = cache.learned(&capacities);
    Ok(Json(Curve {
        capacity_bytes: learned.capacity_bytes,
        requests_seen: learned.requests,
        requests_sampled: learned.requests_sampled,
        sample_rate: learned.sample_rate,
        order: "lru",
        tactic: learned.tactic,
        points: learned.points.into_iter().map(Point::from).collect(),
    }))
}
