//! Why a URL is a hit or a miss, in plain words.
//!
//! Three sources: what is stored ([`freshet_cache::Cache::peek`]), what was lately not stored and
//! why ([`freshet_node::decisions`]), and the last requests in the log. The decision about a next
//! request is the node's own ([`freshet_node::preview`]); nothing is fetched or counted for it.

mod cure;
mod history;
mod life;
mod words;

use crate::context::Context;
use crate::groups::places_of;
use crate::health::any_up;
use crate::objects::ObjectView;
use crate::problem::Problem;
use crate::query::Pairs;
use crate::scope::Scope;
use crate::url::{authority_of, request_for};
use axum::Json;
use axum::extract::State;
use freshet_base::clock::UnixMillis;
use freshet_cache::Key;
use freshet_http::message::{Method, RequestHead};
use freshet_node::decisions::NotStored;
use freshet_node::preview::{Preview, bare_target, preview};
use freshet_node::site::Site;
use freshet_origin::director::stable_hash;
use history::History;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Why a URL is answered as it is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Explanation {
    /// One sentence that says it.
    verdict: String,
    /// What it rests on, in the order to be read.
    facts: Vec<Fact>,
    /// Key, its parts with a space between each two.
    key: String,
    /// Whether something is stored that the request selects.
    stored: bool,
    /// Code of how the next request would be answered.
    next: &'static str,
    /// Code of the last reason not to store it, where there was one.
    not_stored: Option<&'static str>,
    /// All stored variants.
    objects: Vec<ObjectView>,
}

/// One line of an explanation.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
struct Fact {
    /// What it is about, one short word.
    label: &'static str,
    /// What there is to say.
    text: String,
}

/// All that is known of a request beforehand.
struct Known<'a> {
    request: &'a RequestHead,
    now: UnixMillis,
    preview: &'a Preview,
    not_stored: Option<&'a NotStored>,
    history: &'a History,
    policy: String,
    /// In which groups of workers it is, where there are several.
    places: Option<String>,
    /// Whether no origin is up.
    no_origin: bool,
    /// The other node of this place that it is at home at, if it is at one.
    home: Option<String>,
}

/// Explains why a URL is stored or not, how fresh it is, and what the next request would get.
#[utoipa::path(get, path = "/v1/explain", tag = "look", security(("token" = [])),
    params(
        ("url" = String, Query, description = "URL as clients ask for it",
            pattern = r"^[Hh][Tt][Tt][Pp][Ss]?://(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(:[0-9]{1,5})?([/?][!-~]*)?$"),
        ("method" = Option<String>, Query, description = "GET if not given"),
        ("header" = Option<Vec<String>>, Query, description = "A field of the request, as `Accept-Encoding: br`; may be repeated"),
    ),
    responses((status = OK, body = Explanation, description = "What is known of it"), (status = BAD_REQUEST, body = Problem,
        content_type = "application/problem+json", description = "The request is wrong")))]
pub(crate) async fn explain(
    State(context): State<Arc<Context>>,
    scope: Scope,
    query: Pairs,
) -> Result<Json<Explanation>, Problem> {
    let request = request(&query)?;
    scope.check_url(&context, &request.authority)?;
    let shared = &context.node.shared;
    let snapshot = context.node.snapshot();
    let now = UnixMillis::now();
    let preview = preview(shared, &snapshot, request.clone(), now)
        .ok_or_else(|| Problem::no_site(&request.authority))?;
    let site = snapshot.sites.of(&request.authority);
    let not_stored = shared.decisions.of(&preview.key);
    let bare = |target: &str| {
        site.map_or_else(|| target.to_owned(), |site| bare_target(site, &request, target))
    };
    let history = History::of(&shared.log.recent(usize::MAX), &request, bare);
    let known = Known {
        request: &request,
        now,
        preview: &preview,
        not_stored: not_stored.as_ref(),
        history: &history,
        policy: policy_of(site.map(|site| &**site)),
        places: places_of(&context.node, &preview.key),
        no_origin: site.is_some_and(|site| !any_up(site, now)),
        home: site.and_then(|site| home_of(site, &preview.key)),
    };
    Ok(Json(Explanation {
        verdict: words::verdict(&known),
        facts: words::facts(&known),
        key: preview.key.to_string(),
        stored: preview.selected.is_some(),
        next: preview.reason.code(),
        not_stored: not_stored.as_ref().map(|entry| entry.reason.code()),
        objects: preview.peek.variants.iter().map(|o| ObjectView::new(o, now)).collect(),
    }))
}

/// The name of the other node of this place that a key is at home at.
fn home_of(site: &Site, key: &Key) -> Option<String> {
    let home = site.upstreams.home(stable_hash(key.text()))?;
    site.upstreams.board.origin(home).map(|origin| origin.settings.name.clone())
}

/// What decides for a site.
fn policy_of(site: Option<&Site>) -> String {
    match site.and_then(|site| site.settings.vcl.as_ref()) {
        Some(path) => format!("VCL, {}", path.display()),
        None => "built-in, as RFC 9111 has it".to_owned(),
    }
}

fn request(query: &Pairs) -> Result<RequestHead, Problem> {
    let Some(url) = query.get("url") else {
        return Err(Problem::bad_request(
            "there is no url to explain",
            "as /v1/explain?url=http://localhost:8000/a.mp4",
        ));
    };
    let mut request = request_for(url)?;
    if let Some(method) = query.get("method") {
        request.method = Method::from_name(method);
    }
    for header in query.all("header") {
        let Some((name, value)) = header.split_once(':') else {
            return Err(Problem::bad_request(
                format!("header: `{header}` has no colon"),
                "as header=Accept-Encoding:br",
            ));
        };
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case("host") {
            // As with curl: where it connects is one thing, whom it asks for another.
            request.authority = authority_of(value, request.scheme)?;
        } else {
            request.fields.append(name, value);
        }
    }
    Ok(request)
}
