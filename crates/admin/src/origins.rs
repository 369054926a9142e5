//! Origins: how they do, and an operator's word on them.

use crate::answer::Input;
use crate::context::Context;
use crate::problem::Problem;
use crate::scope::Scope;
use axum::Json;
use axum::extract::{Path, State};
use freshet_base::clock::UnixMillis;
use freshet_node::sites::Sites;
use freshet_origin::Origin;
use freshet_origin::health::{Health, Override};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use utoipa::ToSchema;

/// An origin.
#[derive(Serialize, ToSchema)]
pub(crate) struct OriginView {
    /// Name in configuration, logs and metrics, behind its site's and a slash where there are several
    /// sites.
    name: String,
    /// Where it listens.
    address: String,
    /// `up`, `suspect` (asked last because connections failed just now) or `down`.
    health: &'static str,
    /// What an operator said: `auto`, `up` or `down`.
    said: Said,
    /// When its health changed last, s since 1970; 0 if it never did.
    changed: f64,
    /// Exchanges begun.
    requests: u64,
    /// Exchanges that failed.
    failures: u64,
    /// Exchanges under way.
    in_flight: u64,
    /// Open connections.
    connections: u64,
    /// Of these, idle ones.
    connections_idle: u64,
    /// Mean time to the first byte of an answer, ms.
    first_byte_ms: f64,
}

/// An operator's word.
#[derive(Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Said {
    /// Probes and connections decide.
    Auto,
    /// Use it whatever they say.
    Up,
    /// Do not use it.
    Down,
}

/// What an origin is to be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OriginState {
    /// The operator's word.
    state: Said,
}

/// Lists the origins.
#[utoipa::path(get, path = "/v1/origins", tag = "origins", security(("token" = [])),
    responses((status = OK, body = [OriginView], description = "The origins")))]
pub(crate) async fn origins(
    State(context): State<Arc<Context>>,
    scope: Scope,
) -> Json<Vec<OriginView>> {
    let snapshot = context.node.snapshot();
    Json(seen(&snapshot.sites, &scope).map(|(name, origin)| view(&name, origin)).collect())
}

/// The origins that are a token's business, with their names.
fn seen<'a>(
    sites: &'a Sites,
    scope: &'a Scope,
) -> impl Iterator<Item = (Cow<'a, str>, &'a Arc<Origin>)> {
    sites
        .all()
        .iter()
        .filter(|site| scope.covers(site.name.as_str()))
        .flat_map(|site| site.origins())
}

/// Takes an origin out, puts it in, or leaves it to the probes. Holds until the node is restarted or the
/// origin's configuration changes.
#[utoipa::path(post, path = "/v1/origins/{name}", tag = "origins", security(("token" = [])),
    params(("name" = String, Path, description = "Name of the origin")),
    request_body = OriginState,
    responses((status = OK, body = OriginView, description = "The origin as it is now"), (status = NOT_FOUND, body = Problem,
        content_type = "application/problem+json", description = "There is none of this name")))]
pub(crate) async fn set_origin(
    State(context): State<Arc<Context>>,
    scope: Scope,
    Path(name): Path<String>,
    Input(input): Input<OriginState>,
) -> Result<Json<OriginView>, Problem> {
    let snapshot = context.node.snapshot();
    let Some((_, origin)) = seen(&snapshot.sites, &scope).find(|(known, _)| *known == name) else {
        let names: Vec<_> = seen(&snapshot.sites, &scope).map(|(name, _)| name).collect();
        return Err(Problem::not_found(
            format!("there is no origin `{name}`"),
            format!("there are: {}", names.join(", ")),
        ));
    };
    let word = match input.state {
        Said::Auto => Override::Auto,
        Said::Up => Override::Up,
        Said::Down => Override::Down,
    };
    origin.health.set_override(word, UnixMillis::now());
    tracing::info!(origin = name, ?word, "an operator spoke");
    Ok(Json(view(&name, origin)))
}

fn view(name: &str, origin: &Origin) -> OriginView {
    let stats = &origin.stats;
    let responses = stats.responses.value();
    OriginView {
        name: name.to_owned(),
        address: origin.settings.address.to_string(),
        health: health_word(origin.health.health(UnixMillis::now())),
        said: match origin.health.spoken() {
            Override::Auto => Said::Auto,
            Override::Up => Said::Up,
            Override::Down => Said::Down,
        },
        changed: origin.health.changed().0 as f64 / 1000.0,
        requests: stats.requests.value(),
        failures: stats.failures_sum(),
        in_flight: stats.in_flight.value(),
        connections: stats.open.value(),
        connections_idle: stats.idle.value(),
        first_byte_ms: stats.first_byte_us_sum.value() as f64 / 1000.0 / responses.max(1) as f64,
    }
}

/// Health in one word.
pub(crate) fn health_word(health: Health) -> &'static str {
    match health {
        Health::Up => "up",
        Health::Suspect => "suspect",
        Health::Down => "down",
    }
}
