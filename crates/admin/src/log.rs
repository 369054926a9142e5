//! The last lines of the access log.

use crate::context::Context;
use crate::problem::Problem;
use crate::query::Pairs;
use crate::scope::Scope;
use axum::extract::State;
use axum::http::{HeaderName, header};
use freshet_base::clock::UnixMillis;
use freshet_node::log::{Format, Record, decode};
use std::sync::Arc;
use std::time::Duration;

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
    let records = records.iter().filter_map(|record| decode(&mut &record[..])).filter(seen);
    let records = newest_last(records.collect());
    let geo = context.node.snapshot().geo;
    for record in records.iter().skip(records.len().saturating_sub(count)) {
        format.write(record, &geo, &mut lines);
    }
    let kind = if format == Format::Json { "application/x-ndjson" } else { "text/plain" };
    Ok(([(header::CONTENT_TYPE, kind.to_owned()), (NEXT, next.to_string())], lines))
}

/// How much later than others a worker may hand its records over.
const HANDED_OVER_LATE: Duration = Duration::from_secs(5);

/// Records as they came, the newest last: by their time, as each worker hands its own over for itself, but for where the
/// clock was set back. What ended before then stays in front, whatever it says.
pub(crate) fn newest_last(mut records: Vec<Record<'_>>) -> Vec<Record<'_>> {
    let ended = |record: &Record<'_>| record.time.plus(Duration::from_micros(record.total_us));
    let (mut begin, mut last) = (0, UnixMillis(0));
    for at in 0..records.len() {
        let end = ended(&records[at]);
        if end.plus(HANDED_OVER_LATE) < last {
            records[begin..at].sort_by_key(|record| record.time);
            (begin, last) = (at, end);
        }
        last = last.max(end);
    }
    records[begin..].sort_by_key(|record| record.time);
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(times: &[(u64, u64)]) -> Vec<u64> {
        let record = |(at, (time_ms, total_us)): (usize, &(u64, u64))| Record {
            id: at as u64,
            time: UnixMillis(*time_ms),
            total_us: *total_us,
            ..Record::default()
        };
        let records = times.iter().enumerate().map(record).collect();
        newest_last(records).iter().map(|record| record.id).collect()
    }

    #[test]
    fn what_is_newest_is_last_also_where_the_clock_went_back() {
        assert_eq!(order(&[]), [0; 0]);
        assert_eq!(order(&[(100, 0), (90, 0), (110, 0)]), [1, 0, 2], "of several workers");
        let hour = 3_600_000;
        let back = [(2 * hour, 0), (2 * hour + 1, 0), (hour + 1, 0), (hour, 0), (hour + 9, 0)];
        assert_eq!(order(&back), [0, 1, 3, 2, 4]);
        let long = [(2 * hour, 0), (hour, hour * 1000), (2 * hour + 1, 0)];
        assert_eq!(order(&long), [1, 0, 2], "it began long ago and ended now");
    }
}
