//! Purging by URL, key and tag.

use crate::answer::{Input, beside};
use crate::context::Context;
use crate::problem::Problem;
use crate::scope::{Scope, known_sites};
use crate::url::request_for;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Key, KeyBuilder, Purge};
use freshet_http::applied::Position;
use freshet_http::message::RequestHead;
use freshet_node::keys::purged_authorities;
use freshet_node::preview::key_of;
use freshet_node::sites::SiteName;
use freshet_node::worker::Shared;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;
use utoipa::ToSchema;

/// One resource, by URL or by key.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceToPurge {
    /// URL as clients ask for it.
    #[schema(
        pattern = r"^[Hh][Tt][Tt][Pp][Ss]?://(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(:[0-9]{1,5})?([/?][!-~]*)?$",
        example = "http://localhost:8000/a.mp4"
    )]
    url: Option<String>,
    /// Key as listings show it: its parts with a space between each two.
    #[schema(min_length = 1)]
    key: Option<String>,
    /// Keep it as stale, to be served while it is refreshed, instead of forgetting it.
    #[serde(default)]
    soft: bool,
    /// Its place in an order of purges that other nodes carry out as well, as `news.17`.
    #[schema(
        pattern = r"^[0-9A-Za-z_-]{1,64}\.[0-9]{1,19}(\.[0-9A-Fa-f]{16})?$",
        example = "news.17"
    )]
    sequence: Option<String>,
}

/// All resources with a tag.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TagToPurge {
    /// A tag from `Surrogate-Key` or `Cache-Tag`.
    #[schema(min_length = 1, example = "article-1234")]
    tag: String,
    /// The site whose responses are meant, where there are several.
    site: Option<String>,
    /// Keep them as stale.
    #[serde(default)]
    soft: bool,
    /// Its place in an order of purges that other nodes carry out as well.
    #[schema(
        pattern = r"^[0-9A-Za-z_-]{1,64}\.[0-9]{1,19}(\.[0-9A-Fa-f]{16})?$",
        example = "news.17"
    )]
    sequence: Option<String>,
}

/// Everything.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AllToPurge {
    /// Keep all as stale.
    #[serde(default)]
    soft: bool,
    /// Only what this site has.
    site: Option<String>,
    /// Its place in an order of purges that other nodes carry out as well.
    #[schema(
        pattern = r"^[0-9A-Za-z_-]{1,64}\.[0-9]{1,19}(\.[0-9A-Fa-f]{16})?$",
        example = "news.17"
    )]
    sequence: Option<String>,
}

/// What a purge did.
#[derive(Serialize, ToSchema)]
pub(crate) struct Purged {
    /// Stored responses that were purged, variants counted each.
    purged: usize,
    /// Whether they were kept as stale.
    soft: bool,
    /// Whether it is on every disk, or there are none. Where a disk is away, it is purged when it
    /// comes back, unless this process ends before and no other disk knows of the purge.
    durable: bool,
    /// Time it took, µs.
    took_us: u64,
}

/// Purges one resource with all its variants.
#[utoipa::path(post, path = "/v1/purge", tag = "purge", security(("token" = [])),
    request_body = ResourceToPurge,
    responses((status = OK, body = Purged, description = "What was purged"), (status = BAD_REQUEST, body = Problem,
        content_type = "application/problem+json", description = "The request is wrong"), (status = CONFLICT, body = Problem,
        content_type = "application/problem+json", description = "The node is in another order")))]
pub(crate) async fn purge(
    State(context): State<Arc<Context>>,
    scope: Scope,
    Input(input): Input<ResourceToPurge>,
) -> Result<Json<Purged>, Problem> {
    let keys = match (&input.url, &input.key) {
        (Some(url), None) => keys_of_url(&context, &scope, url)?,
        (None, Some(key)) => {
            // A key is what somebody writes, a site's or not.
            scope.check_node()?;
            vec![key_of_text(&context, key)]
        }
        _ => {
            return Err(Problem::bad_request(
                "a purge takes either a url or a key",
                "as {\"url\": \"http://localhost:8000/a.mp4\"}",
            ));
        }
    };
    let place = Place::of(&scope, input.soft, input.sequence.as_deref())?;
    beside(move || {
        let shared = &context.node.shared;
        place.carry_out(shared, |how| shared.purge_each(&keys, how))
    })
    .await?
    .map(Json)
}

/// Purges everything that has a tag. What is being fetched and turns out to have it is not kept.
#[utoipa::path(post, path = "/v1/purge/tag", tag = "purge", security(("token" = [])),
    request_body = TagToPurge,
    responses((status = OK, body = Purged, description = "What was purged"), (status = BAD_REQUEST, body = Problem,
        content_type = "application/problem+json", description = "The request is wrong"), (status = CONFLICT, body = Problem,
        content_type = "application/problem+json", description = "The node is in another order")))]
pub(crate) async fn purge_tag(
    State(context): State<Arc<Context>>,
    scope: Scope,
    Input(input): Input<TagToPurge>,
) -> Result<Json<Purged>, Problem> {
    if input.tag.is_empty() {
        return Err(Problem::bad_request(
            "the tag is empty",
            "name one that origins send in Surrogate-Key or Cache-Tag",
        ));
    }
    let site = match scope.site(&context, input.site.as_deref())? {
        Some(site) => site,
        None => only_site(&context)?,
    };
    let place = Place::of(&scope, input.soft, input.sequence.as_deref())?;
    beside(move || {
        let (shared, number) = (&context.node.shared, site.tag(input.tag.as_bytes()));
        place.carry_out(shared, |how| shared.purge_tag(number, how))
    })
    .await?
    .map(Json)
}

/// Purges everything, or all that one site has.
#[utoipa::path(post, path = "/v1/purge/all", tag = "purge", security(("token" = [])),
    request_body = AllToPurge,
    responses((status = OK, body = Purged, description = "What was purged"), (status = BAD_REQUEST, body = Problem,
        content_type = "application/problem+json", description = "The request is wrong"), (status = CONFLICT, body = Problem,
        content_type = "application/problem+json", description = "The node is in another order")))]
pub(crate) async fn purge_all(
    State(context): State<Arc<Context>>,
    scope: Scope,
    Input(input): Input<AllToPurge>,
) -> Result<Json<Purged>, Problem> {
    let site = scope.site(&context, input.site.as_deref())?.and_then(|site| site.tag_of_all());
    let place = Place::of(&scope, input.soft, input.sequence.as_deref())?;
    beside(move || {
        let shared = &context.node.shared;
        place.carry_out(shared, |how| match site {
            Some(tag) => shared.purge_tag(tag, how),
            None => shared.purge_all(how),
        })
    })
    .await?
    .map(Json)
}

/// The only site.
fn only_site(context: &Context) -> Result<SiteName, Problem> {
    let snapshot = context.node.snapshot();
    snapshot.sites.named("").map(|site| site.name.clone()).ok_or_else(|| {
        let error = "tags are of one site each: name it, with --site or \"site\"";
        Problem::bad_request(error, known_sites(context))
    })
}

/// Its key, and those of the same at other ports of this node.
fn keys_of_url(context: &Context, scope: &Scope, url: &str) -> Result<Vec<Key>, Problem> {
    let request = request_for(url)?;
    scope.check_url(context, &request.authority)?;
    let snapshot = context.node.snapshot();
    let key = |authority: String| {
        let request = RequestHead { authority, ..request.clone() };
        key_of(&context.node.shared, &snapshot, request, UnixMillis::now())
    };
    let authorities = purged_authorities(&request.authority, &snapshot.own_ports);
    let keys: Option<Vec<_>> = authorities.into_iter().map(key).collect();
    keys.ok_or_else(|| Problem::no_site(url))
}

fn key_of_text(context: &Context, text: &str) -> Key {
    let builder = KeyBuilder::new(context.node.shared.cache.secret());
    text.split(' ').fold(builder, |builder, part| builder.part(part.as_bytes())).build()
}

/// How a purge is carried out, and where it stands among those of other nodes.
struct Place {
    soft: bool,
    position: Option<Position>,
}

impl Place {
    /// The order of purges is the node's: whoever may purge one site says nothing of it.
    fn of(scope: &Scope, soft: bool, sequence: Option<&str>) -> Result<Self, Problem> {
        if sequence.is_some() {
            scope.check_node()?;
        }
        let position = sequence.map(str::parse).transpose().map_err(|error: String| {
            Problem::bad_request(error, "a purge without other nodes has no sequence")
        })?;
        Ok(Self { soft, position })
    }

    /// On a thread that may block: it waits for the disks.
    fn carry_out(
        self,
        shared: &Shared,
        purge: impl FnOnce(Purge) -> freshet_node::Purged,
    ) -> Result<Purged, Problem> {
        let Self { soft, position } = self;
        let how = if soft { Purge::Soft(UnixMillis::now()) } else { Purge::Hard };
        let begun = Instant::now();
        let carry_out = || {
            let done = purge(how);
            (done.objects, done.durability.wait())
        };
        let (purged, durable) = match position {
            Some(position) => {
                shared.applied.carry_out_in_order(position, carry_out).map_err(other_order)?
            }
            None => carry_out(),
        };
        let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        tracing::info!(purged, soft, durable, took_us, "purged by the admin interface");
        Ok(Purged { purged, soft, durable, took_us })
    }
}

/// A node is in one order.
fn other_order(present: Position) -> Problem {
    let error = format!("this node is in another order of purges, at {present}");
    Problem::new(StatusCode::CONFLICT, error, "number all purges of a node in one order")
}
