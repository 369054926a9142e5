//! Bans: what matches one and is older is not served any more.

use crate::answer::Input;
use crate::context::Context;
use crate::problem::Problem;
use crate::scope::Scope;
use axum::Json;
use axum::extract::State;
use freshet_node::bans::Listed;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// What is not to be served any more.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BanToAdd {
    /// Conditions that have to hold all, as `req.url ~ ^/news/ && obj.http.content-type ~ html`.
    #[schema(
        pattern = r"^\s*(req\.url|req\.http\.|obj\.(http\.|status|age|ttl|grace|keep))",
        example = "req.url ~ ^/news/"
    )]
    ban: String,
    /// Only of what this site has, where there are several.
    site: Option<String>,
}

/// A ban that is in force.
#[derive(Serialize, ToSchema)]
pub(crate) struct Ban {
    /// Its conditions.
    ban: String,
    /// When it was added, milliseconds since 1970.
    time_ms: u64,
    /// Stored objects that were tested against it last.
    objects: u64,
    /// Whether it needs a request to be tested: it then waits for one for each object.
    needs_request: bool,
    /// Whether there is nothing left that it could ban.
    is_done: bool,
}

/// The bans in force, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct BanList {
    /// All of them.
    bans: Vec<Ban>,
}

/// What a ban did, and all bans, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct Banned {
    /// Whether it is on every disk, or there are none. Where a disk is away, it gets the ban when it
    /// comes back, unless this process ends before and no other disk has it.
    durable: bool,
    /// All of them.
    bans: Vec<Ban>,
}

/// Adds a ban. It holds from now on, for what was fetched before, and is on the disks in use before
/// this is answered.
#[utoipa::path(post, path = "/v1/bans", tag = "purge", security(("token" = [])),
    request_body = BanToAdd,
    responses((status = OK, body = Banned, description = "The ban"), (status = BAD_REQUEST, body = Problem,
        content_type = "application/problem+json", description = "The request is wrong")))]
pub(crate) async fn add_ban(
    State(context): State<Arc<Context>>,
    scope: Scope,
    Input(input): Input<BanToAdd>,
) -> Result<Json<Banned>, Problem> {
    let settings = context.node.snapshot().settings.bans;
    let site = scope.site(&context, input.site.as_deref())?;
    let text = site.map_or_else(|| input.ban.clone(), |site| site.ban(&input.ban).into_owned());
    let durability = context.node.shared.ban(&text, &settings).map_err(|why| {
        let help = "as req.url ~ ^/news/; there are req.url, req.http.*, obj.status, \
                    obj.http.*, obj.age, obj.ttl, obj.grace and obj.keep with ==, !=, ~, !~, <, <=, >, >=";
        Problem::bad_request(&why, help)
    })?;
    let durable = durability.reached().await;
    tracing::info!(ban = input.ban, durable, "banned by the admin interface");
    Ok(Json(Banned { durable, bans: listed(&context, &scope).bans }))
}

/// Lists the bans in force, newest first.
#[utoipa::path(get, path = "/v1/bans", tag = "purge", security(("token" = [])),
    responses((status = OK, body = BanList, description = "The bans")))]
pub(crate) async fn bans(State(context): State<Arc<Context>>, scope: Scope) -> Json<BanList> {
    Json(listed(&context, &scope))
}

fn listed(context: &Context, scope: &Scope) -> BanList {
    let shared = &context.node.shared;
    // The first one bans nothing and has no conditions.
    let bans = shared.bans.list(&shared.cache).into_iter().filter(|ban| !ban.text.is_empty());
    let bans = bans.filter(|ban| scope.sees_ban(&ban.text));
    BanList { bans: bans.map(Ban::from).collect() }
}

impl From<Listed> for Ban {
    fn from(ban: Listed) -> Self {
        Self {
            ban: ban.text,
            time_ms: ban.time.0,
            objects: ban.objects,
            needs_request: ban.needs_request,
            is_done: ban.is_done,
        }
    }
}

/// The conditions for all that is below a path which ends with `*`, as other caches purge it.
#[must_use]
pub fn ban_below(url: &str) -> Option<String> {
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = path.find('/').map_or("/", |at| &path[at..]).strip_suffix('*')?;
    let is_plain = |byte: char| {
        byte.is_ascii_alphanumeric() || matches!(byte, '/' | '-' | '_' | '~' | '%' | '=' | '&')
    };
    let mut out = String::from("req.url ~ ^");
    for byte in path.chars() {
        if !is_plain(byte) {
            out.push('\\');
        }
        out.push(byte);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_caches_purge_by_a_star_is_a_ban() {
        assert_eq!(ban_below("http://a.example/*").as_deref(), Some("req.url ~ ^/"));
        assert_eq!(ban_below("http://a/v1.2/*").as_deref(), Some(r"req.url ~ ^/v1\.2/"));
        assert_eq!(ban_below("http://a/b?c=*").as_deref(), Some(r"req.url ~ ^/b\?c="));
        assert_eq!(ban_below("http://a/b"), None);
    }
}
