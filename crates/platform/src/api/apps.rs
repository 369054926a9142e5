//! App instances: those of the configuration and those that register, whether they are ready, and how
//! they end (ETSI GS MEC 011 §5.2.2, §5.2.3).

use super::services::PLATFORM;
use super::{Stage, dns, identity, rules};
use crate::platform::{Answer, App, Decision, Event, Setup};
use freshet_documents::problem::Problem;
use freshet_documents::shape::{Direction, Shape};
use freshet_documents::table::Table;
use freshet_documents::tree::{Change, Changed, Document, Tree, escape};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Where what the platform knows of app instances is.
const ROOT: &str = "/mec_platform/v1";
const SUPPORT: &str = "/mec_app_support/v1";
const SERVICES: &str = "/mec_service_mgmt/v1";

fn path(app: &str) -> String {
    format!("{ROOT}/applications/{}", escape(app))
}

/// Whether there is an app instance of this name.
pub(crate) fn is_app(tree: &Tree, app: &str) -> bool {
    tree.get(&path(app)).is_some()
}

/// Whether an app instance is there and not about to end.
pub(super) fn is_serving(tree: &Tree, app: &str) -> bool {
    tree.get(&path(app)).is_some_and(|document| is_begun(&document.value))
}

fn is_begun(app: &Value) -> bool {
    app["state"] == "STARTING" || app["state"] == "READY"
}

/// The states app instances are in.
pub(crate) fn states(tree: &Tree) -> impl Iterator<Item = &str> {
    tree.below("/mec_platform/v1/applications/").filter_map(|(_, one)| one.value["state"].as_str())
}

/// Whether who asks may speak for the app instance that a body names at `place`.
pub(super) fn may_act_for(stage: &Stage<'_>, place: &str, app: &Value) -> Result<(), Problem> {
    let app = app.as_str().unwrap_or_default();
    match &stage.caller.app {
        Some(own) if own != app => {
            Err(Problem::forbidden(format!("{place}: the token is of another app instance")))
        }
        _ if !is_app(stage.tree, app) => {
            Err(Problem::bad_request(format!("{place}: there is no app instance {app}")))
        }
        _ => Ok(()),
    }
}

/// The state of an app instance.
pub(super) fn state_of<'a>(tree: &'a Tree, app: &str) -> Option<&'a str> {
    tree.get(&path(app))?.value["state"].as_str()
}

/// Whether rules of an app instance may be in force: those of one that the platform runs are while it is
/// ready.
pub(super) fn is_in_force(tree: &Tree, app: &str) -> bool {
    let Some(document) = tree.get(&path(app)) else { return false };
    document.value["origin"] != "INSTANTIATED" || document.value["state"] == "READY"
}

/// Whether a change may bring rules into force, or out of it.
pub(crate) fn decides_rules(change: &Change) -> bool {
    change.path.starts_with("/mec_platform/v1/applications/")
        && change.value.as_ref().is_none_or(|value| value["origin"] == "INSTANTIATED")
}

/// An app instance that the platform is about to run.
pub(super) fn begun(app: &str) -> Change {
    let state = json!({ "appInstanceId": app, "origin": "INSTANTIATED", "state": "STARTING" });
    Change::put(path(app), state, None)
}

/// An app instance is in another state, where it was in this one.
pub(super) fn turned(tree: &Tree, app: &str, from: &str, to: &str) -> Option<Change> {
    let document = tree.get(&path(app)).filter(|document| document.value["state"] == from)?;
    let mut state = document.value.clone();
    state["state"] = to.into();
    Some(Change::put(path(app), state, None))
}

/// Whether an app instance wants to be told that it is to end.
pub(super) fn wants_termination(tree: &Tree, app: &str) -> bool {
    let below = format!("{SUPPORT}/applications/{}/subscriptions/", escape(app));
    tree.below(&below).next().is_some()
}

/// An app instance of this name is not known any more.
pub(super) fn forgotten(tree: &Tree, app: &str) -> Option<Change> {
    tree.get(&path(app)).map(|_| Change::remove(path(app)))
}

/// What there was of the rules of an app instance goes before it has new ones.
pub(super) fn ended_rules(tree: &Tree, app: &str) -> Vec<Change> {
    let rules = ["traffic_rules", "dns_rules"]
        .map(|kind| format!("{SUPPORT}/applications/{}/{kind}/", escape(app)));
    let rules = rules.iter().flat_map(|prefix| tree.below(prefix));
    rules.map(|(path, _)| Change::remove(path)).collect()
}

/// App instances of the configuration. What an app made of its rules holds until the configuration
/// says something else.
pub(super) fn begin(tree: &Tree, table: &Table, setup: &Setup) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    for (path, document) in tree.below(&format!("{ROOT}/applications/")) {
        let name = document.value["appInstanceId"].as_str().unwrap_or_default();
        if document.value["origin"] == "CONFIGURED" && !setup.apps.contains_key(name) {
            changes.extend(gone(tree, name, &clients_of(setup, name)));
            changes.push(Change::remove(path));
        }
    }
    for (name, app) in &setup.apps {
        // Also one that is known: what was good once is looked at as now.
        check(table, name, app)?;
        let given = json!({ "trafficRules": app.traffic_rules, "dnsRules": app.dns_rules });
        let known = tree.get(&path(name));
        if known.is_some_and(|known| known.value["descriptor"] == given) {
            continue;
        }
        changes.extend(ended_rules(tree, name));
        let state = json!({ "appInstanceId": name, "origin": "CONFIGURED", "state": "STARTING", "descriptor": given });
        changes.extend(given_rules(name, &state));
        changes.push(Change::put(path(name), state, None));
    }
    Ok(changes)
}

/// Whether the rules of an app of the configuration are such that they could be used.
///
/// # Errors
/// What is wrong with the first that could not, with its place in the configuration.
fn check(table: &Table, name: &str, app: &App) -> Result<(), String> {
    check_name(name).map_err(|mistake| format!("app.{name}: {mistake}"))?;
    let api = table.0.iter().find(|api| api.name == "mec_app_support");
    let types = &api.expect("the tables are part of the program, and tested").types;
    for (kind, of, rules) in [
        ("traffic_rules", "TrafficRule", &app.traffic_rules),
        ("dns_rules", "DnsRule", &app.dns_rules),
    ] {
        let shape = Shape::Named(of.to_owned());
        for (index, rule) in rules.iter().enumerate() {
            let mut mistakes = types.mistakes(&shape, rule, Direction::Answer);
            mistakes.extend(
                types.unknown(&shape, rule).map(|member| format!("/{member} is no member of {of}")),
            );
            if !mistakes.is_empty() {
                return Err(format!("app.{name}.{kind}[{index}]: {}", mistakes.join("; ")));
            }
        }
    }
    if let Some(mistake) = rules::mistakes(name, &app.traffic_rules).first() {
        let place = mistake.place.strip_prefix("rules").unwrap_or_default();
        return Err(format!("app.{name}.traffic_rules{place}: {}", mistake.what));
    }
    let mut known = BTreeSet::new();
    for (index, rule) in app.dns_rules.iter().enumerate() {
        let wrong = |what: &str| Err(format!("app.{name}.dns_rules[{index}]: {what}"));
        match rule["dnsRuleId"].as_str().unwrap_or_default() {
            "" => return wrong("/dnsRuleId must not be empty"),
            id if !known.insert(id) => return wrong(&format!("/dnsRuleId: `{id}` is there twice")),
            _ => {}
        }
        dns::check(rule).or_else(|problem| wrong(&problem.detail))?;
    }
    Ok(())
}

/// The rules that the configuration gives an app, whose state has them.
fn given_rules(app: &str, state: &Value) -> Vec<Change> {
    let kinds = [
        ("trafficRules", "traffic_rules", "trafficRuleId"),
        ("dnsRules", "dns_rules", "dnsRuleId"),
    ];
    let of_kind = |(given, kind, id): (&str, &'static str, &'static str)| {
        let rules = state["descriptor"][given].as_array().into_iter().flatten();
        rules.map(|rule| rule_change(app, kind, &rule[id], rule)).collect::<Vec<_>>()
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

/// A rule of an app instance.
pub(super) fn rule_change(app: &str, kind: &str, id: &Value, rule: &Value) -> Change {
    let id = escape(id.as_str().unwrap_or_default());
    // Rules are the descriptor's: the app may switch them, and whoever may act for the app change them.
    Change::put(format!("{SUPPORT}/applications/{}/{kind}/{id}", escape(app)), rule.clone(), None)
}

/// Whether an app instance may have a name: no path leads to one without, and below the platform's own are its
/// services, which would go with it.
fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name == PLATFORM {
        return Err(format!("`{name}` is no name of an app instance"));
    }
    Ok(())
}

/// The name of an app instance that registers: that of its token, or what it says it was made as.
pub(super) fn id(stage: &Stage<'_>, value: &Value) -> Option<String> {
    let said = value["appInstanceId"].as_str().map(str::to_owned);
    stage.caller.app.clone().or(said)
}

/// An app instance registers, or tells anew what it is.
pub(super) fn register(
    stage: &Stage<'_>,
    value: &Value,
    old: Option<&Value>,
) -> Result<Vec<Change>, Problem> {
    let Some(name) = value["appInstanceId"].as_str().filter(|_| old.is_none()) else {
        return Ok(Vec::new());
    };
    if is_app(stage.tree, name) {
        return Ok(Vec::new());
    }
    check_name(name)
        .map_err(|mistake| Problem::bad_request(format!("/appInstanceId: {mistake}")))?;
    let state = json!({ "appInstanceId": name, "origin": "REGISTERED", "state": "STARTING" });
    Ok(vec![Change::put(path(name), state, None)])
}

/// Whether a rule may be changed so: an app switches its rules on and off, and what they are is said by whoever
/// answers for the network.
///
/// # Errors
/// The first member that an app may not change.
pub(super) fn may_change_rule(stage: &Stage<'_>, old: &Value, new: &Value) -> Result<(), Problem> {
    let members = [old, new].into_iter().filter_map(Value::as_object).flatten();
    let mut others = members.map(|(name, _)| name).filter(|name| *name != "state");
    let changed = others.find(|name| old.get(name.as_str()) != new.get(name.as_str()));
    match changed.filter(|_| stage.caller.app.is_some()) {
        Some(name) => Err(Problem::forbidden(format!(
            "/{name}: an app may change the state of its rule, and an operator the rest of it"
        ))),
        None => Ok(()),
    }
}

/// The clients that an app instance is: one that was made here is its own.
fn clients_of<'a>(setup: &'a Setup, app: &'a str) -> Vec<&'a str> {
    let of_app = setup.clients.iter().filter(|(_, client)| client.app.as_deref() == Some(app));
    let itself = (!setup.clients.contains_key(app)).then_some(app);
    of_app.map(|(name, _)| name.as_str()).chain(itself).collect()
}

/// What goes with an app instance that is `clients`: what is below its name, its rules among it, what it has made
/// elsewhere, and what others have made for it.
pub(super) fn gone(tree: &Tree, app: &str, clients: &[&str]) -> Vec<Change> {
    let own = [SUPPORT, SERVICES].map(|root| format!("{root}/applications/{}/", escape(app)));
    let alone = [format!("{SUPPORT}/registrations/{}", escape(app)), identity::path(app)];
    let is_its_own = |path: &str, one: &Document| {
        alone.iter().any(|known| path == known)
            || own.iter().any(|prefix| path.starts_with(prefix))
            || one.owner.as_deref().is_some_and(|owner| clients.contains(&owner))
            || one.value["appInsId"] == *app
            || one.value["serviceConsumerId"]["appInstanceId"] == *app
    };
    let all = tree.below("/").filter(|(path, one)| is_its_own(path, one));
    all.map(|(path, _)| Change::remove(path)).collect()
}

/// What goes as an app instance deregisters. One of the configuration is then as it was before it registered, with
/// its rules; one that is run here has those of its package for as long as it runs.
pub(super) fn deregistered(stage: &Stage<'_>) -> Vec<Change> {
    let (tree, app) = (stage.tree, stage.app());
    let mut changes = gone(tree, app, &clients_of(stage.setup, app));
    let Some(document) = tree.get(&path(app)) else { return changes };
    let mut state = document.value.clone();
    match state["origin"].as_str() {
        Some("CONFIGURED") => {
            changes.extend(given_rules(app, &state));
            state["state"] = "STARTING".into();
            take_back_termination(&mut state);
            changes.push(Change::put(path(app), state, None));
        }
        Some("INSTANTIATED") => {
            let rules = ended_rules(tree, app);
            changes.retain(|change| !rules.contains(change));
        }
        _ => changes.push(Change::remove(path(app))),
    }
    changes
}

fn set(stage: &Stage<'_>, change: impl FnOnce(&mut Value)) -> Change {
    let path = path(stage.app());
    let mut state =
        stage.tree.get(&path).map(|document| document.value.clone()).unwrap_or_default();
    change(&mut state);
    Change::put(path, state, None)
}

/// Nobody asks this app instance to end any more.
fn take_back_termination(state: &mut Value) {
    if let Some(members) = state.as_object_mut() {
        members.remove("termination");
    }
}

/// The app instance is up (§7.2.11).
pub(super) fn confirm_ready(stage: &Stage<'_>, _: &Value) -> Result<Decision, Problem> {
    let state = stage.tree.get(&path(stage.app())).map(|document| &document.value);
    let is_ending = |state: &Value| {
        state["state"] == "TERMINATING" || state["origin"] == "INSTANTIATED" && !is_begun(state)
    };
    if state.is_some_and(is_ending) {
        return Err(Problem::new(409, "the app instance is about to end"));
    }
    let change = set(stage, |state| state["state"] = "READY".into());
    Ok(Decision { changes: vec![change], ..Answer::nothing().into() })
}

/// The platform wants the app instance to end: it is told, and has some time.
pub(super) fn terminate(stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    let grace_s = body["maxGracefulTimeout"].as_u64().unwrap_or(0);
    let state = stage.tree.get(&path(stage.app())).map(|document| &document.value);
    if state.is_some_and(|state| state["origin"] == "INSTANTIATED") {
        let what = "this app instance was instantiated: terminate or stop it by /app_lcm/v1";
        return Err(Problem::new(409, what));
    }
    let action = body["operationAction"].as_str().unwrap_or_default();
    let change = terminating(stage.tree, stage.app(), action, grace_s, stage.now_ms);
    Ok(Decision { changes: change.into_iter().collect(), ..Answer::nothing().into() })
}

/// An app instance is to end by itself, within some time.
pub(super) fn terminating(
    tree: &Tree,
    app: &str,
    action: &str,
    grace_s: u64,
    now_ms: u64,
) -> Option<Change> {
    let mut state = tree.get(&path(app))?.value.clone();
    state["state"] = "TERMINATING".into();
    state["termination"] = json!({
        "operationAction": action,
        "maxGracefulTimeout": grace_s,
        "deadlineMs": now_ms.saturating_add(grace_s.saturating_mul(1000)),
    });
    Some(Change::put(path(app), state, None))
}

/// The app instance has ended what it did (§7.2.10).
pub(super) fn confirm_termination(stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    let state = stage.tree.get(&path(stage.app())).map(|document| &document.value);
    let pending = state.map(|state| &state["termination"]["operationAction"]);
    match pending {
        Some(action) if *action == body["operationAction"] => {}
        Some(Value::String(action)) => {
            return Err(Problem::new(409, format!("what is asked for is {action}")));
        }
        _ => return Err(Problem::new(409, "nobody has asked this app instance to end")),
    }
    Ok(Decision { changes: ended(stage.tree, stage.app()), ..Answer::nothing().into() })
}

/// App instances whose time to end is over.
pub(super) fn due(tree: &Tree, now_ms: u64) -> Vec<Change> {
    let prefix = format!("{ROOT}/applications/");
    let over = tree.below(&prefix).filter(|(_, document)| {
        document.value["termination"]["deadlineMs"].as_u64().is_some_and(|at_ms| at_ms <= now_ms)
    });
    over.flat_map(|(_, document)| {
        ended(tree, document.value["appInstanceId"].as_str().unwrap_or_default())
    })
    .collect()
}

/// What is left of an app instance that has ended: its rules are inactive, its services are gone.
pub(super) fn ended(tree: &Tree, app: &str) -> Vec<Change> {
    let own = format!("{SUPPORT}/applications/{}/", escape(app));
    let rules = tree.below(&own).filter(|(_, document)| document.value["state"] == "ACTIVE");
    let mut changes: Vec<Change> = rules
        .map(|(path, document)| {
            let mut rule = document.value.clone();
            rule["state"] = "INACTIVE".into();
            Change::put(path, rule, document.owner.clone())
        })
        .collect();
    let services = format!("{SERVICES}/applications/{}/services/", escape(app));
    changes.extend(tree.below(&services).map(|(path, _)| Change::remove(path)));
    if let Some(document) = tree.get(&path(app)) {
        let mut state = document.value.clone();
        state["state"] = "TERMINATED".into();
        take_back_termination(&mut state);
        changes.push(Change::put(path(app), state, None));
    }
    changes
}

/// An app instance is to end: who subscribed for it is told (§6.4.2).
pub(super) fn events(change: &Changed, url: &str, _: u64) -> Vec<Event> {
    let Some(state) = change.new.as_ref().filter(|_| change.path.starts_with(ROOT)) else {
        return Vec::new();
    };
    let termination = &state["termination"];
    let before = change.old.as_ref().map(|old| &old.value["termination"]);
    if termination.is_null() || before == Some(termination) {
        return Vec::new();
    }
    let app = state["appInstanceId"].as_str().unwrap_or_default();
    let confirm = format!("{url}{SUPPORT}/applications/{}/confirm_termination", escape(app));
    vec![Event {
        root: format!("{SUPPORT}/applications/{}", escape(app)),
        kind: "AppTerminationNotificationSubscription",
        facts: Value::Null,
        body: json!({
            "notificationType": "AppTerminationNotification",
            "operationAction": termination["operationAction"],
            "maxGracefulTimeout": termination["maxGracefulTimeout"],
            "_links": { "confirmTermination": { "href": confirm } },
        }),
        only: None,
    }]
}
