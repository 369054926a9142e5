//! Who is told of instances and operations.

use super::{INSTANCES, OCCURRENCES, ROOT, SUBSCRIPTIONS};
use crate::platform::{Answer, Decision, Event};
use freshet_documents::problem::Problem;
use freshet_documents::time;
use freshet_documents::tree::{Changed, Tree};
use serde_json::{Value, json};

const STATE: &str = "AppInstanceStateChangeSubscription";
const OPERATION: &str = "AppLcmOpOccStateChangeSubscription";
const CREATION: &str = "AppIdentifierCreationSubscription";
const DELETION: &str = "AppIdentifierDeletionSubscription";

/// Apps are told of their own end by GS MEC 011 alone.
pub(in crate::api) fn admit_subscription(is_app: bool) -> Result<(), Problem> {
    if is_app { Err(Problem::forbidden("apps are not told of lives")) } else { Ok(()) }
}

/// Somebody tells others of an instance.
pub(super) fn user_defined(body: &Value) -> Decision {
    let event = Event {
        root: ROOT.to_owned(),
        kind: STATE,
        facts: json!({ "appInstanceState": body["appInstanceState"] }),
        body: body.clone(),
        only: None,
    };
    Decision { events: vec![event], ..Answer::nothing().into() }
}

/// An instance is named, changes or is gone, or an operation enters a state.
pub(in crate::api) fn events(tree: &Tree, change: &Changed, url: &str, now_ms: u64) -> Vec<Event> {
    if change.path.starts_with(OCCURRENCES) {
        return of_operation(tree, change, url, now_ms);
    }
    if !change.path.starts_with(INSTANCES) {
        return Vec::new();
    }
    let old = change.old.as_ref().map(|old| &old.value);
    let Some(instance) = change.new.as_ref().or(old) else { return Vec::new() };
    let link = json!({ "href": format!("{url}{}", change.path) });
    let mut body = json!({
        "appInstanceId": instance["id"], "timeStamp": time::stamp(now_ms),
        "_links": { "appInstance": link },
    });
    let kind = match (old, &change.new) {
        (None, _) => CREATION,
        (_, None) => DELETION,
        (Some(old), Some(new)) => {
            let state = state_of(new);
            if state_of(old) == state {
                return Vec::new();
            }
            body["appInstanceState"] = state.into();
            body["appPkgId"] = new["appPkgId"].clone();
            body["appDId"] = new["appDId"].clone();
            STATE
        }
    };
    let state = body["appInstanceState"].clone();
    let fits = |filter: &Value| {
        let wanted = &filter["appInstanceState"];
        (wanted.is_null() || *wanted == state)
            && selects(&filter["appInstanceSubscriptionFilter"], instance)
    };
    each(tree, kind, &change.path, &body, url, fits)
}

fn of_operation(tree: &Tree, change: &Changed, url: &str, now_ms: u64) -> Vec<Event> {
    let Some(new) = &change.new else { return Vec::new() };
    let before = change.old.as_ref().map(|old| &old.value["operationState"]);
    let state = &new["operationState"];
    let href = new["_links"]["appInstance"]["href"].as_str().unwrap_or_default();
    let path = href.strip_prefix(url).unwrap_or(href);
    if before == Some(state) {
        return Vec::new();
    }
    let nobody = Value::Null;
    let instance = tree.get(path).map_or(&nobody, |document| &document.value);
    let body = json!({
        "operationType": new["lcmOperation"], "operationState": state, "appLcmOpOccId": new["id"],
        "appInstanceId": instance["id"].as_str().or_else(|| path.rsplit('/').next()),
        "timeStamp": time::stamp(now_ms),
        "_links": {
            "appInstance": { "href": href }, "appLcmOpOcc": { "href": format!("{url}{}", change.path) },
        },
    });
    let fits = |subscription: &Value| {
        let filter = &subscription["appLcmOpOccSubscriptionFilter"];
        let is = |name: &str, value: &Value| filter[name].is_null() || filter[name] == *value;
        is("operationTypes", &new["lcmOperation"])
            && is("operationStates", state)
            && selects(&filter["appInstanceSubscriptionFilter"], instance)
    };
    each(tree, OPERATION, &change.path, &body, url, fits)
}

/// An event for each subscription of a kind that wants it: each is told its own name in it.
fn each(
    tree: &Tree,
    kind: &'static str,
    path: &str,
    body: &Value,
    url: &str,
    wants: impl Fn(&Value) -> bool,
) -> Vec<Event> {
    let id = path.rsplit('/').next().unwrap_or_default();
    let of_kind =
        tree.below(SUBSCRIPTIONS).filter(|(_, one)| one.value["subscriptionType"] == kind);
    let told = of_kind.filter(|(_, one)| wants(&one.value)).map(|(path, _)| {
        let mut body = body.clone();
        body["id"] = format!("{id}-{}", tree.version()).into();
        body["notificationType"] = kind.into();
        body["subscriptionId"] = path[SUBSCRIPTIONS.len()..].into();
        body["_links"]["subscription"] = json!({ "href": format!("{url}{path}") });
        Event { root: ROOT.to_owned(), kind, facts: Value::Null, body, only: Some(path.to_owned()) }
    });
    told.collect()
}

fn state_of(instance: &Value) -> &str {
    instance["instantiatedAppState"]["operationalState"].as_str().unwrap_or("NOT_INSTANTIATED")
}

/// Whether a filter (§6.2.2.3 of GS MEC 010-2) selects an instance.
fn selects(filter: &Value, instance: &Value) -> bool {
    let lists = |member: &str| {
        let listed = filter["appInstances"].as_array().into_iter().flatten();
        listed.into_iter().any(|one| *one == instance[member])
    };
    match filter["appInstSelectorType"].as_u64() {
        Some(1) => lists("id"),
        Some(2) => lists("appName"),
        Some(3) => lists("appDId"),
        Some(4) => {
            let mut listed = filter["appsFromProviders"].as_array().into_iter().flatten();
            listed.any(|one| one["appProvider"] == instance["appProvider"])
        }
        _ => true,
    }
}
