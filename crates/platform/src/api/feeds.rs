//! What networks tell besides the radio network: documents as the interfaces that give them on have them,
//! each report whole (ETSI GS MEC 028, 029 and 030).

use super::{Stage, fixed, vehicles, wlan};
use crate::platform::{Answer, Decision, Event, Told};
use freshet_documents::problem::Problem;
use freshet_documents::shape::Direction;
use freshet_documents::table::{Method, Table};
use serde_json::Value;
use std::collections::BTreeMap;

/// Last reports, by the names of their feeds.
pub(crate) type Reports = BTreeMap<String, Value>;

/// A list, and whose word it is where it is not the operator's configuration.
pub(crate) struct List<'a> {
    pub(crate) documents: Vec<std::borrow::Cow<'a, Value>>,
    pub(crate) source: Option<String>,
}

/// The last report of a feed.
pub(super) fn last<'a>(stage: &'a Stage<'_>, feed: &str) -> Result<&'a Value, Problem> {
    let report = stage.reports.get(feed);
    report.ok_or_else(|| Problem::new(503, format!("no feed tells this platform of {feed}")))
}

/// Whose report it is.
pub(super) fn source(report: &Value) -> String {
    report["source"].as_str().unwrap_or_default().to_owned()
}

/// An answer that rests on a report says whose it is.
pub(super) fn answer(report: &Value, body: Value) -> Decision {
    Answer::ok(body).with("Freshet-Data-Source", source(report)).into()
}

/// A list of a report: `wlan/apInfo`.
pub(super) fn list<'a>(stage: &'a Stage<'_>, name: &str) -> Result<List<'a>, Problem> {
    let (feed, member) = name.split_once('/').unwrap_or((name, ""));
    let report = last(stage, feed)?;
    let documents = report[member].as_array().into_iter().flatten();
    Ok(List {
        documents: documents.map(std::borrow::Cow::Borrowed).collect(),
        source: Some(source(report)),
    })
}

/// The last report, as it came.
pub(super) fn report(stage: &Stage<'_>) -> Result<Decision, Problem> {
    let (_, feed) = stage.place();
    let report = last(stage, feed)?;
    Ok(answer(report, report.clone()))
}

/// A report comes in.
pub(super) fn feed(stage: &Stage<'_>, body: &Value) -> Decision {
    let (_, feed) = stage.place();
    let told = Some(Told::Other(feed.to_owned(), body.clone()));
    Decision { told, ..Answer::nothing().into() }
}

/// What is wrong with a report that comes from this process.
///
/// # Errors
/// When there is no such feed.
pub(crate) fn mistakes_of_report(
    table: &Table,
    feed: &str,
    report: &Value,
) -> Result<Vec<String>, String> {
    let route = table.route(&format!("/mec_platform/v1/{feed}"));
    let shape = route.as_ref().and_then(|route| {
        let mut operations = route.resource.operations.iter();
        operations.find(|one| one.method == Method::Put)?.body.as_ref()
    });
    let (route, shape) = route.as_ref().zip(shape).ok_or_else(|| format!("no feed is {feed}"))?;
    Ok(route.api.types.mistakes(shape, report, Direction::Request))
}

/// What changed from one report to the next.
pub(super) fn events(
    tree: &freshet_documents::tree::Tree,
    feed: &str,
    old: Option<&Value>,
    new: &Value,
    now_ms: u64,
) -> Vec<Event> {
    let nothing = Value::Null;
    let old = old.unwrap_or(&nothing);
    match feed {
        "wlan" => wlan::events(tree, old, new, now_ms),
        "fixed" => fixed::events(old, new, now_ms),
        _ => vehicles::events(old, new, now_ms),
    }
}

/// Documents of a list.
pub(super) fn each<'a>(report: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    report[list].as_array().into_iter().flatten()
}
