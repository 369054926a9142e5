//! How players say they are doing, by site and kind of stream, and each by itself.

use crate::context::Context;
use crate::problem::Problem;
use crate::query::Pairs;
use axum::extract::State;
use axum::http::{HeaderName, header};
use freshet_base::clock::UnixMillis;
use freshet_node::channels::limits::SESSIONS_MAX;
use freshet_node::channels::{One, Quality};
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
    /// What that is a second, kbit/s, since each was heard of first.
    delivered_kbps: f64,
}

/// How one player says it is doing.
#[derive(Serialize, ToSchema)]
pub(crate) struct PlayerSession<'a> {
    /// Hash of the session's name, in hexadecimal digits; another one after a restart.
    session: String,
    /// The site's name; empty where the node has one.
    site: &'a str,
    /// `vod`, `live`, `low-latency`, or `unknown` where the player does not say.
    stream: &'static str,
    /// Number of the autonomous system of its client, where there is a database of these.
    network: Option<u32>,
    /// When it was heard of first, ms since 1970.
    first_ms: u64,
    /// When it was heard of last, ms since 1970.
    last_ms: u64,
    /// How often it stood still.
    starvations: u32,
    /// For how long, ms, where it says that.
    starved_ms: Option<u32>,
    /// Bit rate of what it asks for, kbit/s.
    bitrate_kbps: Option<u32>,
    /// What it has buffered, ms.
    buffer_ms: Option<u32>,
    /// Distance from the event, ms.
    latency_ms: Option<u32>,
    /// Time to the first picture, ms.
    start_up_ms: Option<u32>,
    /// Bytes of bodies sent to it.
    body_bytes: u64,
    /// What that is a second, kbit/s, where it was heard of for longer than a moment.
    delivered_kbps: Option<f64>,
}

/// Lines where the request does not say how many.
const SESSIONS_DEFAULT: u64 = 1000;

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

/// How each player says it is doing that was heard of within a minute, one JSON object a line, in no order.
#[utoipa::path(get, path = "/v1/players/sessions", tag = "look", security(("token" = [])),
    params(("count" = Option<u64>, Query, description = "Lines, 1000 if not given, 100000 at most")),
    responses((status = OK, body = PlayerSession, content_type = "application/x-ndjson", description = "A line for each session"),
        (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json", description = "The request is wrong")))]
pub(crate) async fn sessions(
    State(context): State<Arc<Context>>,
    query: Pairs,
) -> Result<([(HeaderName, &'static str); 1], String), Problem> {
    let (snapshot, now) = (context.node.snapshot(), UnixMillis::now());
    let sites: Vec<&str> = snapshot.sites.all().iter().map(|site| site.name.as_str()).collect();
    let count = query.number("count", SESSIONS_DEFAULT)?;
    let most = usize::try_from(count).unwrap_or(SESSIONS_MAX).min(SESSIONS_MAX);
    let mut lines = String::new();
    for (place, one) in context.node.shared.sessions.list(&sites, now, most) {
        let site = sites.get(place).copied().unwrap_or_default();
        lines.push_str(&serde_json::to_string(&session(site, &one)).unwrap_or_default());
        lines.push('\n');
    }
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], lines))
}

fn session<'a>(site: &'a str, of: &One) -> PlayerSession<'a> {
    PlayerSession {
        session: format!("{:016x}", of.name),
        site,
        stream: of.stream,
        network: of.network,
        first_ms: of.first.0,
        last_ms: of.last.0,
        starvations: of.starvations,
        starved_ms: of.starved_ms,
        bitrate_kbps: of.bitrate_kbps,
        buffer_ms: of.buffer_ms,
        latency_ms: of.latency_ms,
        start_up_ms: of.start_up_ms,
        body_bytes: of.body_bytes,
        delivered_kbps: of.delivered_kbps,
    }
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
        delivered_kbps: of.delivered_kbps,
    }
}
