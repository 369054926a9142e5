//! ETSI GS MEC 010-2: life cycle of app instances, as clients see it.
//!
//! An instance is named first, of a package that is there; what is done to it is an operation, whose
//! occurrence says how far it is. There is one operation at a time on an instance.

mod apply;
mod behind;
mod grants;
mod moves;
mod told;

pub(crate) use apply::{
    client, down, instance, is_cancelled, is_drained, is_ready, leaving, ready, released, spec,
    taken_back, updated,
};
pub(crate) use behind::behind_router;
pub(super) use grants::grant;
pub(crate) use moves::{moves, placed};
pub(super) use told::{admit_subscription, events};

use super::Stage;
use crate::life::{Granted, Kind, Life, Operation, Place, Run, Spot, Way, Wish, place};
use crate::limits::{DOCUMENTS_MAX, DOCUMENTS_PER_CLIENT_MAX, OCCURRENCES_MAX};
use crate::platform::{Answer, Decision, check_room};
use freshet_documents::problem::Problem;
use freshet_documents::time;
use freshet_documents::tree::{Change, Tree, escape};
use serde_json::{Value, json};

pub(super) const ROOT: &str = "/app_lcm/v1";
pub(super) const INSTANCES: &str = "/app_lcm/v1/app_instances/";
pub(super) const OCCURRENCES: &str = "/app_lcm/v1/app_lcm_op_occs/";
const SUBSCRIPTIONS: &str = "/app_lcm/v1/subscriptions/";
const GRANTS: &str = "/granting/v1/grants/";

/// Acts of the interface's own.
pub(super) fn own(name: &str, stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    if stage.caller.app.is_some() {
        return Err(Problem::forbidden("apps decide no lives"));
    }
    let of_instance = |kind, grace_s| begin(stage, kind, grace_s, body);
    let grace = |kind: &str, most: &str| {
        (body[kind] == "GRACEFUL").then(|| body[most].as_u64().unwrap_or(DEFAULT_GRACE_S))
    };
    match name {
        "create_instance" => create(stage, body),
        "instance_notification" => Ok(told::user_defined(body)),
        "instantiate" => of_instance(Kind::Instantiate, None),
        "terminate" => {
            of_instance(Kind::Terminate, grace("terminationType", "gracefulTerminationTimeout"))
        }
        "operate" if body["changeStateTo"] == "STARTED" => of_instance(Kind::Start, None),
        "operate" => of_instance(Kind::Stop, grace("stopType", "gracefulStopTimeout")),
        "configure" => configure(stage, body),
        _ => occurrence_act(name, stage, body),
    }
}

/// How long an app may take to end that is to end gracefully, where nobody says, in seconds.
const DEFAULT_GRACE_S: u64 = 10;

/// An instance is named.
fn create(stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    let (tree, id) = (stage.tree, stage.fresh);
    if tree.held().documents >= DOCUMENTS_MAX || Life::all(tree).count() >= DOCUMENTS_PER_CLIENT_MAX
    {
        let most = format!("there may be {DOCUMENTS_PER_CLIENT_MAX} app instances");
        return Err(Problem::new(507, most));
    }
    let wanted = body["appDId"].as_str().unwrap_or_default();
    let (package_path, package) = super::packages::of_descriptor(tree, wanted)?;
    let links = |names: &[&str]| {
        let link = |name: &&str| {
            let below = if *name == "self" { String::new() } else { format!("/{name}") };
            ((*name).to_owned(), json!({ "href": format!("{}{INSTANCES}{id}{below}", stage.url) }))
        };
        names.iter().map(link).collect::<serde_json::Map<_, _>>()
    };
    let mut instance = json!({
        "id": id, "appDId": wanted, "appProvider": package["appProvider"], "appName": package["appName"],
        "appSoftVersion": package["appSoftwareVersion"], "appDVersion": package["appDVersion"],
        "appPkgId": package["id"], "instantiationState": "NOT_INSTANTIATED",
        "_links": links(&["self", "instantiate", "terminate", "operate", "configure_platform_for_app"]),
    });
    for name in ["appInstanceName", "appInstanceDescription"] {
        if let Some(given) = body.get(name) {
            instance[name] = given.clone();
        }
    }
    check_room(tree, Some(&stage.caller.client), &instance, None)?;
    let path = format!("{INSTANCES}{id}");
    let package_id = package["id"].as_str().unwrap_or_default().to_owned();
    let mut used = package.clone();
    used["usageState"] = "IN_USE".into();
    let owner = tree.get(&package_path).and_then(|document| document.owner.clone());
    let changes = vec![
        Change::put(package_path, used, owner),
        Life { package: package_id, ..Life::default() }.put(id),
        Change::put(path.clone(), instance.clone(), Some(stage.caller.client.clone())),
    ];
    let answer = Answer { status: 201, ..Answer::ok(instance) };
    let answer = answer.with("Location", format!("{}{path}", stage.url));
    Ok(Decision { changes, ..answer.into() })
}

/// What goes with the name of an instance.
pub(super) fn removed(stage: &Stage<'_>) -> Result<Vec<Change>, Problem> {
    let (tree, instance) = (stage.tree, stage.app());
    let life = life(tree, instance)?;
    if life.operation.is_some() || life.run.is_some() {
        let what =
            "an app instance is removed when it is NOT_INSTANTIATED and nothing is done to it";
        return Err(Problem::new(409, what));
    }
    let mut changes = vec![Life::remove(instance)];
    changes.extend(grants::taken_back(tree, instance));
    let is_last =
        Life::all(tree).all(|(other, one)| other == instance || one.package != life.package);
    let path = super::packages::path_of(&life.package);
    if let Some(package) = tree.get(&path).filter(|_| is_last) {
        let mut value = package.value.clone();
        value["usageState"] = "NOT_IN_USE".into();
        changes.push(Change::put(path, value, package.owner.clone()));
    }
    Ok(changes)
}

fn life(tree: &Tree, instance: &str) -> Result<Life, Problem> {
    let missing = || Problem::not_found(&format!("{INSTANCES}{}", escape(instance)));
    Life::of(tree, instance).ok_or_else(missing)
}

/// Begins an operation on the instance of the path.
fn begin(
    stage: &Stage<'_>,
    kind: Kind,
    grace_s: Option<u64>,
    body: &Value,
) -> Result<Decision, Problem> {
    let (tree, instance, id) = (stage.tree, stage.app(), stage.fresh);
    let mut life = life(tree, instance)?;
    let Some(host) = &stage.setup.place else {
        return Err(Problem::new(503, "no apps are run here: `[runtime]` says what they may have"));
    };
    let conflict = |what: &str| Err(Problem::new(409, what.to_owned()));
    if let Some(operation) = &life.operation {
        return conflict(match operation.way {
            Way::Failed => "the last operation has failed: retry it or have it fail first",
            _ => "something is done to this app instance already",
        });
    }
    match (kind, life.run) {
        (Kind::Instantiate, None)
        | (Kind::Start, Some(Run::Stopped))
        | (Kind::Stop, Some(Run::Started))
        | (Kind::Terminate, Some(_)) => {}
        (Kind::Instantiate, Some(_)) => {
            return conflict("the app instance is INSTANTIATED already");
        }
        (_, None) => return conflict("the app instance is NOT_INSTANTIATED"),
        (_, Some(Run::Started)) => return conflict("the app instance is STARTED already"),
        (_, Some(Run::Stopped)) => return conflict("the app instance is STOPPED already"),
    }
    let mut changes = Vec::new();
    if kind == Kind::Instantiate {
        life.wish = wish(body);
        let descriptor = descriptor(tree, &life)?;
        let leading = behind::leading(descriptor, &life);
        if let Some(granted) = &life.granted {
            is_on(host, granted, &life.wish, leading)?;
        } else {
            let name = format!("{id}-grant");
            let granted = place(tree, host, descriptor, instance, &name, &life.wish, leading)?;
            let owner = Some(stage.caller.client.clone());
            changes.push(grants::document(stage.url, owner, instance, id, &granted));
            life.granted = Some(granted);
        }
    }
    if matches!(kind, Kind::Instantiate | Kind::Start) {
        changes.extend(apply::application(tree, host, instance, &life)?);
    }
    changes.extend(forgotten(tree));
    let mut occurrence = occurrence(stage.url, instance, id, kind, stage.now_ms);
    if kind == Kind::Instantiate {
        occurrence["operationParams"] = body.clone();
        check_room(tree, Some(&stage.caller.client), &occurrence, None)?;
    }
    let path = format!("{OCCURRENCES}{id}");
    changes.push(Change::put(path.clone(), occurrence, Some(stage.caller.client.clone())));
    life.operation = Some(Operation::new(id, kind, grace_s, stage.now_ms));
    changes.push(life.put(instance));
    let answer = Answer { status: 202, ..Answer::default() };
    Ok(Decision { changes, ..answer.with("Location", format!("{}{path}", stage.url)).into() })
}

/// The document of an operation that begins.
fn occurrence(url: &str, instance: &str, id: &str, kind: Kind, now_ms: u64) -> Value {
    let now = time::stamp(now_ms);
    json!({
        "id": id, "operationState": "STARTING", "stateEnteredTime": now, "startTime": now,
        "lcmOperation": kind.name(), "isCancelPending": false,
        "_links": {
            "self": { "href": format!("{url}{OCCURRENCES}{id}") },
            "appInstance": { "href": format!("{url}{INSTANCES}{}", escape(instance)) },
        },
    })
}

/// Where an instantiation wants the app to be: at one of the hosts and sites that it names. An entry that names
/// both means that host of that site, and one that names neither says nothing.
fn wish(body: &Value) -> Wish {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let spot =
        |one: &Value| Spot { host: text(&one["hostName"]), zone: text(&one["hostId"]["zone"]) };
    let spots = body["selectedMECHostInfo"].as_array().into_iter().flatten().map(spot);
    Wish { any_of: spots.filter(|spot| spot.host.is_some() || spot.zone.is_some()).collect() }
}

/// Whether what was granted before is where it is wanted, and where packets come to that a rule leads to it.
fn is_on(
    place: &Place,
    granted: &Granted,
    wish: &Wish,
    leading: Option<&str>,
) -> Result<(), Problem> {
    let host = &granted.host;
    let refuse = |what: String| Err(Problem::forbidden(format!("no grant: {what}")));
    if !place.is_as_wished(granted, wish) {
        return refuse(format!("what the app instance was granted is on the host {host}"));
    }
    match (leading, place.barrier_of(granted)) {
        (Some(rule), Some(barrier)) => {
            refuse(format!("on {host}: {barrier}, as the rule {rule} needs"))
        }
        _ => Ok(()),
    }
}

fn descriptor<'a>(tree: &'a Tree, life: &Life) -> Result<&'a Value, Problem> {
    let path = format!("{}/appd", super::packages::path_of(&life.package));
    let gone = || Problem::new(409, "the package of the app instance is not there any more");
    tree.get(&path).map(|document| &document.value).ok_or_else(gone)
}

/// Occurrences beyond those that are kept: the oldest of those that ended.
fn forgotten(tree: &Tree) -> Vec<Change> {
    let ended = |value: &Value| {
        value["operationState"] == "COMPLETED" || value["operationState"] == "FAILED"
    };
    let mut all: Vec<_> = tree
        .below(OCCURRENCES)
        .filter(|(_, one)| ended(&one.value))
        .map(|(path, one)| (one.version, path))
        .collect();
    all.sort_unstable();
    let beyond = (all.len() + 1).saturating_sub(OCCURRENCES_MAX);
    all.into_iter().take(beyond).map(|(_, path)| Change::remove(path)).collect()
}

/// Rules of an app that are not its descriptor's (§7.4.11): those of an instance that is not there yet.
fn configure(stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    let instance = stage.app();
    let mut life = life(stage.tree, instance)?;
    if life.run.is_some() || life.operation.is_some() {
        let what = "an app's platform is configured while it is NOT_INSTANTIATED";
        return Err(Problem::new(409, what));
    }
    super::packages::check_rules(body).map_err(Problem::bad_request)?;
    life.configured = json!({
        "appTrafficRule": body["appTrafficRule"], "appDNSRule": body["appDNSRule"],
    });
    let answer = Answer { status: 202, ..Answer::default() };
    Ok(Decision { changes: vec![life.put(instance)], ..answer.into() })
}

/// What is said of an operation: cancel, retry, fail.
fn occurrence_act(name: &str, stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    let tree = stage.tree;
    let id = stage.route.name("appLcmOpOccId").unwrap_or_default();
    let path = format!("{OCCURRENCES}{}", escape(id));
    let document = tree.get(&path).ok_or_else(|| Problem::not_found(&path))?;
    let over = || {
        let state = document.value["operationState"].as_str().unwrap_or_default();
        Problem::new(409, format!("the operation is {state}"))
    };
    let is_it = |life: &Life| life.operation.as_ref().is_some_and(|one| one.id == id);
    let (instance, mut life) = Life::all(tree).find(|(_, life)| is_it(life)).ok_or_else(over)?;
    let Some(operation) = &mut life.operation else { return Err(over()) };
    let (kind, way) = (operation.kind, operation.way);
    let mut value = document.value.clone();
    let mut answer = Answer { status: 202, ..Answer::default() };
    let mut changes = Vec::new();
    match name {
        "cancel" if way != Way::Forward => return Err(over()),
        "cancel" if kind.undo().is_empty() => {
            return Err(Problem::new(409, "what ends an app goes on to its end"));
        }
        "cancel" => {
            value["isCancelPending"] = true.into();
            value["cancelMode"] = body.clone();
        }
        _ if way != Way::Failed => return Err(over()),
        "retry" => {
            *operation = Operation::new(id, kind, operation.grace_s, stage.now_ms);
            if let (Kind::Instantiate | Kind::Start, Some(host)) = (kind, &stage.setup.place) {
                changes.extend(apply::application(tree, host, &instance, &life)?);
            }
            value["isCancelPending"] = false.into();
            state(&mut value, "PROCESSING", stage.now_ms);
        }
        _ => {
            life.operation = None;
            changes.extend(apply::given_up(tree, stage.setup, &instance, kind, &mut life)?);
            state(&mut value, "FAILED", stage.now_ms);
            answer = Answer::ok(value.clone());
        }
    }
    changes.push(Change::put(path, value, document.owner.clone()));
    changes.push(life.put(&instance));
    Ok(Decision { changes, ..answer.into() })
}

/// An occurrence enters a state.
fn state(occurrence: &mut Value, state: &str, now_ms: u64) {
    occurrence["operationState"] = state.into();
    occurrence["stateEnteredTime"] = time::stamp(now_ms);
}
