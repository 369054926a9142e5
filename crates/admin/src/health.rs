//! Is the process alive, and should it get requests?

use crate::context::Context;
use axum::extract::State;
use axum::http::StatusCode;
use freshet_base::clock::UnixMillis;
use freshet_node::node::Node;
use freshet_node::site::Site;
use freshet_origin::health::Health;
use std::sync::Arc;

/// Says that the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "health",
    responses((status = OK, body = String, description = "It runs")))]
pub(crate) async fn healthz() -> &'static str {
    "alive\n"
}

/// Says whether requests should come here: not while the node drains, nor when no origin is up or
/// none has a connection left.
#[utoipa::path(get, path = "/readyz", tag = "health", responses(
    (status = OK, body = String, description = "Ready"),
    (status = SERVICE_UNAVAILABLE, body = String, description = "Not ready, and why"),
))]
pub(crate) async fn readyz(State(context): State<Arc<Context>>) -> (StatusCode, String) {
    match unready(&context.node) {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}

/// Why the node should get no requests, if so.
fn unready(node: &Node) -> Option<String> {
    if node.is_draining() {
        return Some("draining, it ends when open requests have".to_owned());
    }
    // One site without origins is no reason to keep the others from their clients.
    let reasons: Option<Vec<_>> =
        node.snapshot().sites.all().iter().map(|site| unready_site(site)).collect();
    reasons.map(|why| why.join("; "))
}

/// Why a site has nothing to ask, if so.
fn unready_site(site: &Site) -> Option<String> {
    let (now, origins) = (UnixMillis::now(), site.upstreams.board.origins());
    if any_up(site, now) {
        let up = origins.iter().filter(|origin| origin.health.health(now) != Health::Down);
        let short: Option<Vec<_>> = up.map(|origin| origin.shortage()).collect();
        return short.map(|why| why.join("; "));
    }
    if origins.is_empty() {
        return Some("there is no origin".to_owned());
    }
    let names: Vec<_> = origins.iter().map(|origin| origin.settings.name.as_str()).collect();
    Some(format!("no origin is up ({})", names.join(", ")))
}

/// Whether some origin would be asked.
pub(crate) fn any_up(site: &Site, now: UnixMillis) -> bool {
    let mut origins = site.upstreams.board.origins().iter();
    origins.any(|origin| origin.health.health(now) != Health::Down)
}
