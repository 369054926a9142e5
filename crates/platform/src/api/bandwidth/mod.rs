//! ETSI GS MEC 015: allocations of bandwidth, and sessions over several networks. Both are kept and
//! given out within what the operator has said there is; an app with allocations gets no more than these.

mod sessions;

pub(crate) use sessions::{Share, shares};

use super::{Stage, apps};
use crate::platform::{Answer, Decision};
use freshet_documents::problem::Problem;
use freshet_documents::time;
use freshet_documents::tree::Tree;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const ROOT: &str = "/bwm/v1/bw_allocations/";
/// Values of `requestType`: of all an app's traffic, or of some.
const OF_ALL: u64 = 0;
const OF_SOME: u64 = 1;
/// Modes of steering (§7.2.4): low cost, low latency, high throughput, redundancy, by quality.
const MODES: [u8; 5] = [0, 1, 2, 3, 4];

/// The directions an allocation counts in: down, up.
fn directions(value: &Value) -> [bool; 2] {
    match value["allocationDirection"].as_str() {
        Some("00") => [true, false],
        Some("01") => [false, true],
        _ => [true, true],
    }
}

fn bits(value: &Value) -> Option<u64> {
    let text = value["fixedAllocation"].as_str()?;
    // Digits alone: `+5` is a number to the language.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Bits per second that are given away in each direction, without the allocation at `path`.
fn given(tree: &Tree, path: &str) -> [u64; 2] {
    let mut sums = [0_u64; 2];
    for (_, document) in tree.below(ROOT).filter(|(other, _)| *other != path) {
        let bits = bits(&document.value).unwrap_or(0);
        for (sum, counts) in sums.iter_mut().zip(directions(&document.value)) {
            *sum = sum.saturating_add(if counts { bits } else { 0 });
        }
    }
    sums
}

/// Whether a path is that of an allocation.
pub(crate) fn is_allocation(path: &str) -> bool {
    path.starts_with(ROOT)
}

/// Apps that have allocations.
pub(crate) fn apps_with(tree: &Tree) -> BTreeSet<String> {
    let apps = tree.below(ROOT).filter_map(|(_, one)| one.value["appInsId"].as_str());
    apps.map(str::to_owned).collect()
}

/// What apps may have towards clients and from them, in bits per second, where they have an allocation for
/// all their traffic: the sum of these. A direction that none is for has no bound.
pub(crate) fn bounds(tree: &Tree) -> BTreeMap<String, [Option<u64>; 2]> {
    let mut bounds = BTreeMap::<String, [Option<u64>; 2]>::new();
    let of_all = tree.below(ROOT).filter(|(_, one)| one.value["requestType"] == OF_ALL);
    for (_, document) in of_all {
        let value = &document.value;
        let (Some(app), Some(bits)) = (value["appInsId"].as_str(), bits(value)) else { continue };
        let sums = bounds.entry(app.to_owned()).or_default();
        for (sum, _) in sums.iter_mut().zip(directions(value)).filter(|(_, counts)| *counts) {
            *sum = Some(sum.unwrap_or(0).saturating_add(bits));
        }
    }
    bounds
}

/// Checks an allocation, and that there is as much.
pub(super) fn admit(stage: &Stage<'_>, path: &str, value: &mut Value) -> Result<(), Problem> {
    apps::may_act_for(stage, "/appInsId", &value["appInsId"])?;
    let is_of_some = value["requestType"].as_u64() == Some(OF_SOME);
    if is_of_some != value.get("sessionFilter").is_some() {
        return Err(Problem::bad_request(
            "/sessionFilter must be there with requestType 1, and only then",
        ));
    }
    let wanted = bits(value).ok_or_else(|| {
        Problem::bad_request("/fixedAllocation must be a number of bits per second")
    })?;
    // A patch is checked as its type says: any text.
    if !matches!(value["allocationDirection"].as_str(), Some("00" | "01" | "10" | "symmetrical")) {
        return Err(Problem::bad_request("/allocationDirection must be one of 00, 01, 10"));
    }
    if let Some(capacity) = stage.setup.host.bandwidth_bps {
        let sums = given(stage.tree, path);
        let lacks = sums
            .iter()
            .zip(directions(value))
            .any(|(sum, counts)| counts && sum.saturating_add(wanted) > capacity);
        if lacks {
            return Err(Problem::forbidden(format!(
                "of {capacity} bit/s, {} are given away towards clients and {} from them",
                sums[0], sums[1]
            )));
        }
    }
    if is_of_some {
        sessions::admit(stage.tree, path, value)?;
    }
    value["timeStamp"] = time::stamp(stage.now_ms);
    Ok(())
}

/// Checks a session over several networks.
pub(super) fn admit_session(stage: &Stage<'_>, value: &mut Value) -> Result<(), Problem> {
    apps::may_act_for(stage, "/appInsId", &value["appInsId"])?;
    let is_of_some = value["requestType"].as_u64() == Some(OF_SOME);
    let has_filter = value["flowFilter"].as_array().is_some_and(|filter| !filter.is_empty());
    if is_of_some != has_filter {
        return Err(Problem::bad_request(
            "/flowFilter must have filters with requestType 1, and only then",
        ));
    }
    value["timeStamp"] = time::stamp(stage.now_ms);
    Ok(())
}

/// The networks clients have, and what may be asked of them.
pub(super) fn capabilities(stage: &Stage<'_>) -> Decision {
    let accesses = stage.setup.host.accesses.iter().map(|access| {
        let metered = access.is_metered.map_or(2, u8::from);
        json!({ "accessId": access.id, "accessType": access.technology as u8, "metered": metered })
    });
    let accesses: Vec<Value> = accesses.collect();
    let stamp = time::stamp(stage.now_ms);
    Answer::ok(json!({ "timeStamp": stamp, "mtsAccessInfo": accesses, "mtsMode": MODES })).into()
}
