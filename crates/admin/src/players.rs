//! How players say they are doing, by site and kind of stream.

use crate::context::Context;
use axum::extract::State;
use axum::http::{HeaderName, header};
use freshet_base::clock::UnixMillis;
use freshet_node::channels::Quality;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// What the sessions of one kind of stream of a site come to.
#[derive(Serialize, ToSchema)]
pub(crate) struct Players<'a> {
    /// When, ms since 1970.
    time_ms: u64,
    /// The site's name; empty where the node has one.
    site: &'a str,
    /// `vod`, `live`, `low-latency`, or `unknown` where players do not say.
    stream: &'static str,
    /// Sessions heard of within a minute.
    sessions: u64,
    /// Of these, those that ever stood still.
    starved: u64,
    /// How often they stood still.
    starvations: u64,
    /// Share of their time they stood still, of those that say for how long.
    starved_ratio: f64,
    /// Mean bit rate of what they ask for, kbit/s.
    bitrate_kbps: f64,
    /// Mean of what they have buffered, ms.
    buffer_ms: f64,
    /// Mean distance from the event, ms.
    latency_ms: f64,
    /// Mean time to the first picture, ms.
    start_up_ms: f64,
    /// Bytes of bodies sent to them.
    body_bytes: u64,
}

/// How players say they are doing, one JSON object a line, for each site and kind of stream with
/// sessions that were heard of within a minute.
#[utoipa::path(get, path = "/v1/players", tag = "look", security(("token" = [])),
    responses((status = OK, body = Players, content_type = "application/x-ndjson", description = "A line for each site and kind of stream")))]
pub(crate) async fn players(
    State(context): State<Arc<Context>>,
) -> ([(HeaderName, &'static str); 1], String) {
    let (snapshot, now) = (context.node.snapshot(), UnixMillis::now());
    let sites: Vec<&str> = snapshot.sites.all().iter().map(|site| site.name.as_str()).collect();
    let all = context.node.shared.sessions.quality_of_sites(&sites, now);
    let mut lines = String::new();
    for (site, streams) in sites.into_iter().zip(all) {
        for (stream, quality) in streams.iter().filter(|(_, quality)| quality.sessions > 0) {
            let players = view(site, stream, quality, now);
            lines.push_str(&serde_json::to_string(&players).unwrap_or_default());
            lines.push('\n');
        }
    }
    ([(header::CONTENT_TYPE, "application/x-ndjson")], lines)
}

fn view<'a>(site: &'a str, stream: &'static str, of: &Quality, now: UnixMillis) -> Players<'a> {
    Players {
        time_ms: now.0,
        site,
        stream,
        sessions: of.sessions,
        starved: of.starved,
        starvations: of.starvations,
        starved_ratio: of.starved_ratio,
        bitrate_kbps: of.bitrate_kbps,
        buffer_ms: of.buffer_ms,
        latency_ms: of.latency_ms,
        start_up_ms: of.start_up_ms,
        body_bytes: of.body_bytes,
    }
}
