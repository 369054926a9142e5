//! Which operation a request is, whether it may be done, and what its body is.

use super::request::Request;
use super::{Answer, Call, Decision, Platform};
use crate::api::{self, Stage};
use crate::client::{self, Caller};
use crate::limits::BODY_BYTES_MAX;
use freshet_documents::limits::DEPTH_MAX;
use freshet_documents::problem::Problem;
use freshet_documents::query::Selection;
use freshet_documents::shape::Direction;
use freshet_documents::table::{Act, Method, Operation, Route};
use serde_json::Value;

/// Decides what becomes of a request with a token that holds.
pub(super) fn decide(
    platform: &Platform,
    call: &Call<'_>,
    route: &Route<'_>,
    caller: &Caller,
    fresh: &str,
    now_ms: u64,
) -> Result<Decision, Problem> {
    let operation = operation(route, call.method)?;
    authorize(route, operation, caller)?;
    // An archive is no JSON, and an answer without a body is of no kind.
    if operation.answer.is_some() || !matches!(operation.act, Act::Own(_)) {
        check_accept(call)?;
    }
    let (_, query) = call.target.split_once('?').unwrap_or((call.target, ""));
    let selection = Selection::read(query, operation)?;
    if operation.takes_selectors()
        && let Some(mistake) = operation
            .document()
            .and_then(|shape| selection.mistake(&route.api.types, shape, operation))
    {
        return Err(Problem::bad_request(format!("the query: {mistake}")));
    }
    if let Some(app) = route.name("appInstanceId")
        && !api::is_app(&platform.tree, app)
        && api::needs_app(route)
    {
        return Err(Problem::not_found(&format!("app instance {app}")));
    }
    let stage = Stage {
        tree: &platform.tree,
        radio: &platform.radio,
        positions: &platform.positions,
        reports: &platform.reports,
        setup: &platform.setup,
        url: &platform.setup.url,
        route,
        caller,
        selection: &selection,
        fresh,
        now_ms,
    };
    let request = Request { platform, call, operation, stage };
    // That there is nothing to change is said before what is wrong with the change.
    match &operation.act {
        Act::Replace | Act::Patch => drop(request.own_document()?),
        Act::Own(_) => {
            let missing = route.document_above().filter(|path| platform.tree.get(path).is_none());
            if let Some(path) = missing {
                return Err(Problem::not_found(&path));
            }
            request.check_own_version()?;
        }
        _ => {}
    }
    let body = body(call, route, operation)?;
    match &operation.act {
        Act::List(view) => request.list(view),
        Act::Told(name) => request.told(name),
        Act::Links => request.links(),
        Act::Read(view) => request.read(view),
        Act::Create => request.create(body.unwrap_or_default()),
        Act::Replace => request.replace(body.unwrap_or_default()),
        Act::Patch => request.patch(&body.unwrap_or_default()),
        Act::Remove => request.remove(),
        Act::Own(name) => api::own(name, &request.stage, &body.unwrap_or_default()),
    }
}

/// Where an answer is not what the table says: nowhere, in a program without a mistake.
pub(super) fn mistakes(call: &Call<'_>, route: &Route<'_>, answer: &Answer) -> Vec<String> {
    let operation = operation(route, call.method).ok();
    let shape = operation.and_then(|operation| operation.answer.as_ref());
    let Some((body, shape)) = answer.body.as_ref().zip(shape) else { return Vec::new() };
    route.api.types.mistakes(shape, body, Direction::Answer)
}

/// The operation of a method; 405 with what there is in its place.
fn operation<'a>(route: &Route<'a>, method: &str) -> Result<&'a Operation, Problem> {
    let operations = &route.resource.operations;
    // A HEAD is a GET whose body is not sent.
    let wanted = if method == "HEAD" { Some(Method::Get) } else { Method::of(method) };
    let found = operations.iter().find(|one| Some(one.method) == wanted);
    found.ok_or_else(|| {
        let allowed = operations.iter().map(|one| match one.method {
            Method::Get => "GET, HEAD",
            other => other.name(),
        });
        let allowed: Vec<&str> = allowed.collect();
        Problem::not_allowed(&route.resource.template(), allowed.join(", "))
    })
}

/// Whether the token has the scope, and is of the app instance in the path.
fn authorize(route: &Route<'_>, operation: &Operation, caller: &Caller) -> Result<(), Problem> {
    if !caller.may(&operation.scope) {
        return Err(client::insufficient(&operation.scope));
    }
    match (route.name("appInstanceId"), &caller.app) {
        (Some(named), Some(own)) if named != own => {
            Err(Problem::forbidden(format!("the token is of another app instance than {named}")))
        }
        _ => Ok(()),
    }
}

/// Whether the client takes JSON (RFC 9110 §12.5.1).
fn check_accept(call: &Call<'_>) -> Result<(), Problem> {
    let Some(accept) = call.accept.filter(|accept| !accept.trim().is_empty()) else {
        return Ok(());
    };
    let takes = accept.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let is_refused = parts
            .any(|part| part.strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0)));
        !is_refused && matches!(kind.as_str(), "*/*" | "application/*" | "application/json")
    });
    if takes {
        Ok(())
    } else {
        Err(Problem::new(406, "this is application/json, which `Accept` excludes"))
    }
}

/// Reads the body of an operation that has one.
fn body(
    call: &Call<'_>,
    route: &Route<'_>,
    operation: &Operation,
) -> Result<Option<Value>, Problem> {
    let Some(shape) = &operation.body else { return Ok(None) };
    if call.body.len() > BODY_BYTES_MAX {
        return Err(Problem::new(413, format!("{BODY_BYTES_MAX} bytes of body are the most")));
    }
    let kind =
        call.content_type.and_then(|kind| kind.split(';').next()).unwrap_or("application/json");
    let kind = kind.trim().to_ascii_lowercase();
    // No media type, as some clients send it with everything: it says as much as none.
    let kind = if kind == "*/*" { "application/json".to_owned() } else { kind };
    let is_patch = operation.method == Method::Patch && kind == "application/merge-patch+json";
    if kind != "application/json" && !is_patch {
        return Err(Problem::new(415, format!("the body is {kind}; this takes application/json")));
    }
    let mut value: Value = serde_json::from_slice(call.body)
        .map_err(|error| Problem::bad_request(format!("the body is no JSON: {error}")))?;
    if depth(&value) > DEPTH_MAX {
        return Err(Problem::bad_request(format!("the body is deeper than {DEPTH_MAX}")));
    }
    let mistakes = route.api.types.mistakes(shape, &value, Direction::Request);
    if !mistakes.is_empty() {
        return Err(Problem::bad_request(mistakes.join("; ")));
    }
    route.api.types.settle(shape, &mut value);
    Ok(Some(value))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
