//! The last lines of the access log.

use crate::context::Context;
use crate::problem::Problem;
use crate::query::Pairs;
use crate::scope::Scope;
use axum::extract::State;
use axum::http::{HeaderName, header};
use freshet_node::log::{Format, Record, decode};
use std::sync::Arc;

/// Lines where the request does not say.
const LINES_DEFAULT: u64 = 100;
/// Says in a response where to go on.
pub(crate) const NEXT: HeaderName = HeaderName::from_static("log-next");

/// The last requests, oldest first, one JSON object a line. `Log-Next` in the response is what to
/// give as `since` to get what came after.
#[utoipa::path(get, path = "/v1/log", tag = "look", security(("token" = [])),
    params(
        ("count" = Option<u64>, Query, description = "Lines at most, 100 if not given"),
        ("since" = Option<u64>, Query, description = "`Log-Next` of the response before"),
        ("format" = Option<String>, Query, description = "As log.format; `json` if not given"),
    ),
    responses((status = OK, description = "A line for each request",
        content((String = "application/x-ndjson"), (String = "text/plain"))),
        (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json",
            description = "The request is wrong")))]
pub(crate) async fn log(
    State(context): State<Arc<Context>>,
    scope: Scope,
    query: Pairs,
) -> Result<([(HeaderName, String); 2], String), Problem> {
    let count = query.number("count", LINES_DEFAULT)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let name = query.get("format").unwrap_or("json");
    let format = Format::parse(name).map_err(|error| {
        Problem::bad_request(format!("format: {error}"), "as log.format takes it")
    })?;
    let (records, next) = context.node.shared.log.since(query.number("since", 0)?);
    let mut lines = String::new();
    let seen = |record: &Record<'_>| scope.covers(record.site);
    let mut records: Vec<_> =
        records.iter().filter_map(|record| decode(&mut &record[..])).filter(seen).collect();
    // Each worker hands its records over for itself, so they are not quite in order.
    records.sort_by_key(|record| record.time);
    let geo = context.node.snapshot().geo;
    for record in records.iter().skip(records.len().saturating_sub(count)) {
        format.write(record, &geo, &mut lines);
    }
    let kind = if format == Format::Json { "application/x-ndjson" } else { "text/plain" };
    Ok(([(header::CONTENT_TYPE, kind.to_owned()), (NEXT, next.to_string())], lines))
}
