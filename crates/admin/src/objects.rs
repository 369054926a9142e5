//! What is stored: one resource, or page by page.

use crate::context::Context;
use crate::problem::Problem;
use crate::query::Pairs;
use crate::scope::Scope;
use crate::url::request_for;
use axum::Json;
use axum::extract::State;
use freshet_base::clock::UnixMillis;
use freshet_cache::Object;
use freshet_cache::stats::PAGE_OBJECTS_MAX;
use freshet_http::freshness::Reuse;
use freshet_node::preview::key_of;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Objects of a page where the request does not say.
const PAGE_OBJECTS_DEFAULT: u64 = 100;

/// A stored response.
#[derive(Serialize, ToSchema)]
pub(crate) struct ObjectView {
    /// Key, its parts with a space between each two.
    pub(crate) key: String,
    /// Number of the object, never used twice.
    id: u64,
    /// Status.
    status: u16,
    /// Age as in the `Age` field, s.
    age_s: f64,
    /// What is left of its lifetime, s; negative once stale.
    ttl_s: f64,
    /// Where the lifetime comes from.
    lifetime_from: &'static str,
    /// What it may be used for: `fresh`, `stale-while-revalidate`, `stale` or `must-validate`.
    use_now: &'static str,
    /// How long past its lifetime it may be served while it is refreshed, s.
    stale_while_revalidate_s: f64,
    /// How long past its lifetime it may be served when the origin fails, s.
    stale_if_error_s: f64,
    /// Whether a purge made it stale.
    soft_purged: bool,
    /// Length of the body, where it is known.
    body_bytes: Option<u64>,
    /// Bytes of the body that are stored.
    stored_bytes: u64,
    /// Bytes of its head and its place in the index.
    head_bytes: u64,
    /// Whether the body is still arriving.
    filling: bool,
    /// Whether the origin sent only a part.
    partial: bool,
    /// Clients reading it now.
    readers: usize,
    /// Request fields it varies by.
    vary: Vec<String>,
    /// Tags it can be purged by.
    tags: usize,
    /// How often it was served from the cache.
    hits: u64,
    /// Entity tag.
    etag: Option<String>,
    /// Media type.
    content_type: Option<String>,
}

impl ObjectView {
    pub(crate) fn new(object: &Object, now: UnixMillis) -> Self {
        let head = object.head();
        let freshness = object.freshness();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let names = |variation: &freshet_cache::Variation| -> Vec<String> {
            variation.rule.names().map(text).collect()
        };
        Self {
            key: object.key().to_string(),
            id: object.id(),
            status: head.status,
            age_s: freshness.age(now).as_secs_f64(),
            ttl_s: freshness.ttl_ms(now) as f64 / 1000.0,
            lifetime_from: freshness.source.code(),
            use_now: match object.reuse(now) {
                Reuse::Fresh => "fresh",
                Reuse::StaleWhileRevalidate => "stale-while-revalidate",
                Reuse::Stale => "stale",
                Reuse::MustValidate => "must-validate",
            },
            stale_while_revalidate_s: freshness.stale_while_revalidate().as_secs_f64(),
            stale_if_error_s: freshness.stale_if_error().as_secs_f64(),
            soft_purged: object.soft_purged_at().is_some(),
            body_bytes: object.body().total(),
            stored_bytes: object.body().held_bytes(),
            head_bytes: object.charged_bytes(),
            filling: object.body().writers() > 0,
            partial: head.partial,
            readers: object.body().readers(),
            vary: object.variation().map(names).unwrap_or_default(),
            tags: object.tags().len(),
            hits: object.hits(),
            etag: head.etag().map(text),
            content_type: head.fields.get("content-type").map(text),
        }
    }
}

/// Stored responses, and what is going on about them.
#[derive(Serialize, ToSchema)]
pub(crate) struct Objects {
    /// The responses, newest first for one resource, in no telling order for a page.
    objects: Vec<ObjectView>,
    /// Where the next page begins: the value for `from`; not there after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// Fetches of the resource under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    fetches: Option<usize>,
    /// Requests that wait for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<usize>,
}

/// Lists the stored variants of `url`, or everything page by page.
#[utoipa::path(get, path = "/v1/objects", tag = "look", security(("token" = [])),
    params(
        ("url" = Option<String>, Query, description = "URL as clients ask for it",
            pattern = r"^[Hh][Tt][Tt][Pp][Ss]?://(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(:[0-9]{1,5})?([/?][!-~]*)?$"),
        ("from" = Option<String>, Query, description = "`next` of the page before",
            pattern = r"^[0-9A-Fa-f]{1,32}$"),
        ("count" = Option<u64>, Query, description = "Objects on a page, 100 if not given, 1000 at most"),
    ),
    responses((status = OK, body = Objects, description = "The objects"), (status = BAD_REQUEST, body = Problem,
        content_type = "application/problem+json", description = "The request is wrong")))]
pub(crate) async fn objects(
    State(context): State<Arc<Context>>,
    scope: Scope,
    query: Pairs,
) -> Result<Json<Objects>, Problem> {
    let shared = &context.node.shared;
    let now = UnixMillis::now();
    let view = |objects: &[Arc<Object>]| -> Vec<ObjectView> {
        objects.iter().map(|object| ObjectView::new(object, now)).collect()
    };
    if let Some(url) = query.get("url") {
        let request = request_for(url)?;
        scope.check_url(&context, &request.authority)?;
        let key = key_of(shared, &context.node.snapshot(), request, now)
            .ok_or_else(|| Problem::no_site(url))?;
        let peek = shared.cache.peek(&key);
        return Ok(Json(Objects {
            objects: view(&peek.variants),
            next: None,
            fetches: Some(peek.fetches),
            waiting: Some(peek.waiters),
        }));
    }
    // Pages have what all sites keep.
    scope.check_node()?;
    let from = match query.get("from") {
        None => 0,
        Some(text) => u128::from_str_radix(text, 16).map_err(|_| {
            Problem::bad_request(
                format!("from: `{text}` is not the next of a page"),
                "begin without",
            )
        })?,
    };
    let count = query.number("count", PAGE_OBJECTS_DEFAULT)?;
    let count = usize::try_from(count).unwrap_or(PAGE_OBJECTS_MAX);
    let page = shared.cache.page(from, count);
    Ok(Json(Objects {
        objects: view(&page.objects),
        next: page.next.map(|hash| format!("{hash:032x}")),
        fetches: None,
        waiting: None,
    }))
}
