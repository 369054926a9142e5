//! ETSI GS MEC 021: apps whose clients may move to another host, and what they are told when that
//! happens. A client moves when it enters a zone that a neighbour serves.

use super::{Stage, apps};
use crate::platform::{Answer, Decision, Event, Host};
use freshet_documents::problem::Problem;
use freshet_documents::time;
use freshet_documents::tree::{Change, Changed, Tree};
use freshet_radio::{Client, Radio};
use serde_json::{Value, json};

const ROOT: &str = "/amsi/v1";
const SERVICES: &str = "/amsi/v1/app_mobility_services/";
/// When registrations are over, by their names.
const DEADLINES: &str = "/mec_platform/v1/deadlines/";
/// Values of `mobilityStatus`.
const TRIGGERED: u8 = 1;
const COMPLETED: u8 = 2;
/// A value of `appMobilityServiceLevel`: the app stays where it is.
const NOT_ALLOWED: u8 = 1;

/// Checks a registration, and notes when it is over.
pub(super) fn admit(stage: &Stage<'_>, path: &str, value: &Value) -> Result<Vec<Change>, Problem> {
    let consumer = &value["serviceConsumerId"];
    match (consumer.get("appInstanceId"), consumer.get("mepId")) {
        (Some(app), None) => apps::may_act_for(stage, "/serviceConsumerId/appInstanceId", app)?,
        (None, Some(_)) if stage.caller.app.is_none() => {}
        (None, Some(_)) => return Err(Problem::forbidden("an app registers as appInstanceId")),
        _ => {
            return Err(Problem::bad_request(
                "/serviceConsumerId must have either appInstanceId or mepId",
            ));
        }
    }
    let note = format!("{DEADLINES}{}", &path[SERVICES.len()..]);
    Ok(match value["expiryTime"].as_u64() {
        // Zero is for ever, as nothing is.
        Some(time_s) if time_s > 0 => {
            let at_ms = stage.now_ms.saturating_add(time_s.saturating_mul(1000));
            vec![Change::put(note, json!({ "atMs": at_ms }), None)]
        }
        _ => vec![Change::remove(note)],
    })
}

/// Registrations whose time is over, and notes of those that are gone.
pub(super) fn due(tree: &Tree, now_ms: u64) -> Vec<Change> {
    let mut changes = Vec::new();
    for (note, document) in tree.below(DEADLINES) {
        let path = format!("{SERVICES}{}", &note[DEADLINES.len()..]);
        let is_over = document.value["atMs"].as_u64().is_some_and(|at_ms| at_ms <= now_ms);
        let is_there = tree.get(&path).is_some();
        if is_over && is_there {
            changes.push(Change::remove(path));
        }
        if is_over || !is_there {
            changes.push(Change::remove(note));
        }
    }
    changes
}

/// An app takes its registration back (§8.4.3.4).
pub(super) fn deregister(stage: &Stage<'_>) -> Result<Decision, Problem> {
    let id = stage.route.name("appMobilityServiceId").unwrap_or_default();
    let path = format!("{SERVICES}{}", freshet_documents::tree::escape(id));
    let document = stage.tree.get(&path).ok_or_else(|| Problem::not_found(&path))?;
    if !stage.caller.owns(document.owner.as_deref()) {
        return Err(Problem::forbidden("this belongs to another client"));
    }
    Ok(Decision { changes: vec![Change::remove(path)], ..Answer::nothing().into() })
}

/// App instances on the hosts beside this one.
pub(super) fn adjacent(host: &Host) -> Vec<Value> {
    let of = |(name, neighbour): (&String, &crate::platform::Neighbour)| {
        let apps = neighbour.apps.iter().map(|(instance, app)| {
            json!({
                "appInstanceId": instance,
                "appDId": app.descriptor,
                "appInstanceCommLink": [app.interface()],
                "mecHostInformation": { "hostName": name, "hostId": { "name": name } },
                "registeredInstanceId": app.of,
            })
        });
        apps.collect::<Vec<_>>()
    };
    host.neighbours.iter().flat_map(of).collect()
}

/// An app tells others of what it makes of a client's move (§8.8.3.4).
pub(super) fn user_defined(stage: &Stage<'_>, body: &Value) -> Decision {
    let mut body = body.clone();
    if body.get("timeStamp").is_none() {
        body["timeStamp"] = time::stamp(stage.now_ms);
    }
    let mut facts =
        json!({ "associateId": body["associateId"], "mobilityStatus": body["mobilityStatus"] });
    // Of its own clients: who asked for those of another app did not ask for what this one says.
    if let Some(app) = &stage.caller.app {
        facts["appInstanceId"] = app.as_str().into();
    }
    Decision { events: vec![event(facts, body)], ..Answer::nothing().into() }
}

fn event(facts: Value, body: Value) -> Event {
    let kind = "MobilityProcedureSubscription";
    Event { root: ROOT.to_owned(), kind, facts, body, only: None }
}

/// The forms in which a client is named: by its address, or with the kind of name that is.
fn names_of(client: &Client) -> [Value; 2] {
    let address = client.address.to_string();
    let kind = if client.address.is_ipv4() { 1 } else { 2 };
    [address.clone().into(), json!({ "type": kind, "value": address })]
}

/// What subscribers are told of a client of a registered app.
fn moved(app: &Value, names: &[Value], told: &Value, status: u8, now_ms: u64) -> Event {
    let facts = json!({ "appInstanceId": app, "associateId": names, "mobilityStatus": status });
    let body = json!({
        "notificationType": "MobilityProcedureNotification",
        "timeStamp": time::stamp(now_ms),
        "associateId": [told],
        "mobilityStatus": status,
    });
    event(facts, body)
}

/// Clients of registered apps that enter a zone of a neighbour.
pub(super) fn events(
    tree: &Tree,
    host: &Host,
    old: &Radio,
    new: &Radio,
    now_ms: u64,
) -> Vec<Event> {
    if host.neighbours.is_empty() {
        return Vec::new();
    }
    let of_zone = |zone: &str| {
        host.neighbours.values().find(|one| one.zones.iter().any(|known| known == zone))
    };
    let mut events = Vec::new();
    for client in &new.clients {
        let Some(before) = old.client(client.address) else { continue };
        let Some(neighbour) = of_zone(new.zone(client)) else { continue };
        if of_zone(old.zone(before)).is_some_and(|other| std::ptr::eq(other, neighbour)) {
            continue;
        }
        let names = names_of(client);
        for (_, document) in tree.below(SERVICES) {
            let app = &document.value["serviceConsumerId"]["appInstanceId"];
            let devices = document.value["deviceInformation"].as_array().into_iter().flatten();
            let is_free = |device: &&Value| {
                let level = &device["appMobilityServiceLevel"]["appMobilityServiceLevel"];
                names.contains(&device["associateId"]) && *level != NOT_ALLOWED
            };
            for device in devices.filter(is_free) {
                let mut event = moved(app, &names, &device["associateId"], TRIGGERED, now_ms);
                let target = neighbour.apps.iter().find(|(_, other)| *app == other.of);
                if let Some((instance, other)) = target {
                    event.body["targetAppInfo"] =
                        json!({ "appInstanceId": instance, "commInterface": other.interface() });
                }
                events.push(event);
            }
        }
    }
    events
}

/// An app says that it has handed a client's state over: the move is complete.
pub(super) fn completed(change: &Changed, now_ms: u64) -> Vec<Event> {
    let Some(new) = change.new.as_ref().filter(|_| change.path.starts_with(SERVICES)) else {
        return Vec::new();
    };
    let devices = |value: &Value| -> Vec<Value> {
        let all = value["deviceInformation"].as_array().into_iter().flatten();
        all.filter(|one| one["contextTransferState"] == 1)
            .map(|one| one["associateId"].clone())
            .collect()
    };
    let before = change.old.as_ref().map(|old| devices(&old.value)).unwrap_or_default();
    let app = &new["serviceConsumerId"]["appInstanceId"];
    let done = devices(new).into_iter().filter(|one| !before.contains(one));
    done.map(|one| moved(app, std::slice::from_ref(&one), &one, COMPLETED, now_ms)).collect()
}
