//! Blocks: networks that get nothing until a time.

use crate::answer::Input;
use crate::context::Context;
use crate::problem::Problem;
use crate::scope::Scope;
use axum::Json;
use axum::extract::State;
use freshet_base::clock::UnixMillis;
use freshet_base::units::parse_duration;
use freshet_limits::{Cause, LimitError, Prefix};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;

/// Longest block. Who is to stay out for longer belongs into a firewall.
const TIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// A network that is to get nothing.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlockToAdd {
    /// The address or network, as `192.0.2.7` or `2001:db8::/56`.
    #[schema(pattern = r"^[0-9A-Fa-f:.]{2,45}(/[0-9]{1,3})?$", example = "192.0.2.0/24")]
    network: String,
    /// For how long, as `10m`, `6h` or `30d`; up to a year.
    #[serde(rename = "for")]
    #[schema(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|min|h|d|w))+$", example = "1h")]
    time: String,
    /// At this site only, where there are several. Without it its connections are closed at once.
    site: Option<String>,
    /// Why, for whoever reads the list.
    #[serde(default)]
    why: String,
}

/// A network that is to be let in again.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlockToRemove {
    /// The network, as it was blocked.
    #[schema(pattern = r"^[0-9A-Fa-f:.]{2,45}(/[0-9]{1,3})?$", example = "192.0.2.0/24")]
    network: String,
    /// The site it was blocked at, where it was one only.
    site: Option<String>,
}

/// A blocked network.
#[derive(Serialize, ToSchema)]
pub(crate) struct Block {
    /// The network.
    network: String,
    /// The only site it is blocked at; null for the whole node.
    site: Option<String>,
    /// Until when, milliseconds since 1970.
    until_ms: u64,
    /// How long that is, in seconds.
    left_s: u64,
    /// The limit that blocked it; null where somebody did.
    limit: Option<String>,
    /// What that somebody said.
    why: Option<String>,
}

/// The blocks in force, by network.
#[derive(Serialize, ToSchema)]
pub(crate) struct BlockList {
    /// All of them.
    blocks: Vec<Block>,
}

/// Lists the networks that are blocked now.
#[utoipa::path(get, path = "/v1/blocks", tag = "limits", security(("token" = [])),
    responses((status = OK, body = BlockList, description = "The blocks")))]
pub(crate) async fn blocks(State(context): State<Arc<Context>>, scope: Scope) -> Json<BlockList> {
    Json(listed(&context, &scope))
}

/// Blocks a network, or changes for how long it is blocked.
#[utoipa::path(post, path = "/v1/blocks", tag = "limits", security(("token" = [])),
    request_body = BlockToAdd,
    responses((status = OK, body = BlockList, description = "All blocks"), (status = BAD_REQUEST, body = Problem,
        content_type = "application/problem+json", description = "The request is wrong")))]
pub(crate) async fn add_block(
    State(context): State<Arc<Context>>,
    scope: Scope,
    Input(input): Input<BlockToAdd>,
) -> Result<Json<BlockList>, Problem> {
    let network = network(&input.network)?;
    let time = parse_duration(&input.time)
        .ok()
        .filter(|time| (Duration::from_secs(1)..=TIME_MAX).contains(time))
        .ok_or_else(|| {
            let error = format!("`{}` is not how long a network can be blocked", input.time);
            Problem::bad_request(error, "give \"for\" as 10m, 6h or 30d, from 1s to 366d")
        })?;
    let site = site(&context, &scope, input.site.as_deref())?;
    let now = UnixMillis::now().0;
    let until_ms = now + u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 2);
    let cause = Cause::Asked(input.why.as_str().into());
    let block = freshet_limits::Block { network, site, until_ms, cause };
    context.node.shared.limiter.blocks.add(block, now).map_err(|error| match error {
        LimitError::BlocksFull => {
            Problem::bad_request(error.to_string(), "block a larger network, or use a firewall")
        }
        other => Problem::internal(other.to_string()),
    })?;
    let seconds = time.as_secs();
    tracing::info!(%network, seconds, why = input.why, "blocked by the admin interface");
    Ok(Json(listed(&context, &scope)))
}

/// Lets a network in again.
#[utoipa::path(post, path = "/v1/blocks/remove", tag = "limits", security(("token" = [])),
    request_body = BlockToRemove,
    responses((status = OK, body = BlockList, description = "The blocks that are left"),
        (status = NOT_FOUND, body = Problem, content_type = "application/problem+json",
            description = "It is not blocked")))]
pub(crate) async fn remove_block(
    State(context): State<Arc<Context>>,
    scope: Scope,
    Input(input): Input<BlockToRemove>,
) -> Result<Json<BlockList>, Problem> {
    let network = network(&input.network)?;
    let site = site(&context, &scope, input.site.as_deref())?;
    let blocks = &context.node.shared.limiter.blocks;
    // Where there is one site, what its limits blocked stands under its name, which is none.
    if !blocks.remove(network, site.as_deref())
        && (site.is_some() || !blocks.remove(network, Some("")))
    {
        let error =
            format!("{network} is not blocked{}", if site.is_some() { " there" } else { "" });
        return Err(Problem::not_found(
            error,
            "GET /v1/blocks lists what is; name the network and the site as they stand there",
        ));
    }
    tracing::info!(%network, "let in again by the admin interface");
    Ok(Json(listed(&context, &scope)))
}

fn network(text: &str) -> Result<Prefix, Problem> {
    text.parse().map_err(|error: LimitError| {
        Problem::bad_request(
            error.to_string(),
            "as {\"network\": \"192.0.2.0/24\", \"for\": \"1h\"}",
        )
    })
}

fn site(context: &Context, scope: &Scope, name: Option<&str>) -> Result<Option<Arc<str>>, Problem> {
    Ok(scope.site(context, name)?.map(|site| site.as_str().into()))
}

fn listed(context: &Context, scope: &Scope) -> BlockList {
    let now = UnixMillis::now().0;
    let blocks = context.node.shared.limiter.blocks.list(now);
    let shown = |block: freshet_limits::Block| {
        let (limit, why) = match block.cause {
            Cause::Limit(name) => (Some(name.to_string()), None),
            Cause::Asked(why) => (None, Some(why.to_string())),
        };
        Block {
            network: block.network.to_string(),
            site: block.site.filter(|site| !site.is_empty()).map(|site| site.to_string()),
            until_ms: block.until_ms,
            left_s: block.until_ms.saturating_sub(now).div_ceil(1000),
            limit,
            why,
        }
    };
    let seen = |block: &freshet_limits::Block| match &block.site {
        Some(site) => scope.covers(site),
        None => scope.check_node().is_ok(),
    };
    BlockList { blocks: blocks.into_iter().filter(seen).map(shown).collect() }
}
