//! ETSI GS MEC 013 as it was in V2.1.1, with names of OMA's zonal presence and terminal location. Queries are those of
//! the present version; a subscription is held against reports as the present one that says the same, and is told in
//! the words of its own.
//!
//! Two members of the present version stand beside those of the earlier one in a subscription, where the platform reads
//! them: `expiryDeadline` for a `duration`, and `reportingCtrl` for `count` and `frequency`.

use super::subscriptions::{CIRCLE, clients, crossings, distance, filled, is_within};
use super::{Act, Move, address_of, client_of, location_value, position_of};
use crate::api::Stage;
use crate::platform::{Answer, Decision, Event};
use freshet_documents::problem::Problem;
use freshet_documents::time;
use freshet_documents::tree::Tree;
use freshet_radio::{Client, Radio};
use serde_json::{Value, json};

const ROOT: &str = "/location/v2";
const SUBSCRIPTIONS: &str = "/location/v2/subscriptions/";
/// Subscriptions, each the one member of its body.
const ZONAL_TRAFFIC: &str = "zonalTrafficSubscription";
const USER_TRACKING: &str = "userTrackingSubscription";
const ZONE_STATUS: &str = "zoneStatusSubscription";
const AREA: &str = "circleNotificationSubscription";
const DISTANCE: &str = "distanceNotificationSubscription";
const PERIODIC: &str = "periodicNotificationSubscription";
/// Members that are lists, and may come as one value alone.
const LISTS: [&str; 6] = [
    "address",
    "monitoredAddress",
    "referenceAddress",
    "userEventCriteria",
    "interestRealm",
    "operationStatus",
];

/// Whether a request is for this version.
pub(super) fn is_of(stage: &Stage<'_>) -> bool {
    stage.route.api.root() == ROOT
}

/// A subscription without what is around it, and that by its name.
fn body(value: &Value) -> Option<(&str, &Value)> {
    let (kind, one) = value.as_object()?.iter().next()?;
    Some((kind, one))
}

/// All subscriptions: path, name and what they say.
fn subscriptions(tree: &Tree) -> impl Iterator<Item = (&str, &str, &Value)> {
    tree.below(SUBSCRIPTIONS).filter_map(|(path, document)| {
        let (kind, one) = body(&document.value)?;
        Some((path, kind, one))
    })
}

/// The subscriptions of the path, whole.
pub(super) fn list(stage: &Stage<'_>) -> Decision {
    let path = stage.route.path();
    let mut list = json!({ "resourceURL": format!("{}{path}", stage.url) });
    for (_, document) in stage.tree.below(&format!("{path}/")) {
        let is_own = stage.caller.owns(document.owner.as_deref());
        let Some((kind, one)) = body(&document.value).filter(|_| is_own) else { continue };
        match list[kind].as_array_mut() {
            Some(known) => known.push(one.clone()),
            None => list[kind] = json!([one]),
        }
    }
    Answer::ok(json!({ "notificationSubscriptionList": list })).into()
}

/// Checks what types cannot say, has lists be lists, and fills in what the platform gives.
pub(super) fn admit(stage: &Stage<'_>, path: &str, value: &mut Value) -> Result<(), Problem> {
    let Some((kind, one)) = value.as_object_mut().and_then(|body| body.iter_mut().next()) else {
        return Ok(());
    };
    for name in LISTS {
        // A tracked user is one.
        let is_alone = one[name].is_string() && !(kind == USER_TRACKING && name == "address");
        if is_alone {
            one[name] = json!([one[name].take()]);
        }
    }
    if kind == AREA {
        position_of(one)?;
    }
    let number = |name: &str| one[name].as_u64().filter(|number| *number > 0);
    let addresses = one["address"].as_array().map_or(1, Vec::len);
    if number("count").is_some() && addresses > 1 {
        return Err(Problem::bad_request("/count: counts for one address; subscribe for each"));
    }
    let deadline_ms =
        number("duration").map(|seconds| stage.now_ms.saturating_add(seconds.saturating_mul(1000)));
    // What comes by time keeps its pace by itself.
    let interval_s = number("frequency").filter(|_| kind != PERIODIC);
    let control = json!({
        "maximumCount": number("count").unwrap_or(0),
        "minimumInterval": interval_s.unwrap_or(0),
    });
    one["resourceURL"] = format!("{}{path}", stage.url).into();
    one["reportingCtrl"] = control;
    match deadline_ms {
        Some(deadline_ms) => one["expiryDeadline"] = time::stamp(deadline_ms),
        None => drop(one.as_object_mut().and_then(|members| members.remove("expiryDeadline"))),
    }
    Ok(())
}

/// The circle of a subscription, as the present version writes areas.
fn area(one: &Value) -> Value {
    let centre = json!({ "latitude": one["latitude"], "longitude": one["longitude"] });
    json!({ "shape": CIRCLE, "radius": one["radius"], "points": [centre] })
}

/// What is to be told from one report to the next; what comes by time is not.
pub(super) fn events(
    tree: &Tree,
    url: &str,
    (old, new): (&Radio, &Radio),
    moves: &[Move<'_>],
    now_ms: u64,
) -> Vec<Event> {
    let mut events = Vec::new();
    for (path, kind, one) in subscriptions(tree) {
        let bodies: Vec<Value> = match kind {
            USER_TRACKING | ZONAL_TRAFFIC => presences(one, moves, now_ms),
            ZONE_STATUS => {
                let present = json!({
                    "zoneId": one["zoneId"],
                    "upperNumberOfUsersZoneThreshold": one["numberOfUsersZoneThreshold"],
                    "upperNumberOfUsersAPThreshold": one["numberOfUsersAPThreshold"],
                });
                filled(&present, old, new).iter().map(|told| status(told, new, now_ms)).collect()
            }
            AREA => {
                let present = json!({ "addressList": one["address"], "areaDefine": area(one) });
                let wanted = if one["enteringLeavingCriteria"] == "Entering" {
                    "ENTERING_AREA_EVENT"
                } else {
                    "LEAVING_AREA_EVENT"
                };
                let crossed = crossings(&present, old, new).into_iter();
                let crossed = crossed.filter(|told| told["userLocationEvent"] == wanted);
                let clients = crossed.filter_map(|told| client_of(new, told["address"].as_str()?));
                clients.map(|client| located(one, &[client])).collect()
            }
            DISTANCE => {
                distance(one, old, new).map(|users| located(one, &users)).into_iter().collect()
            }
            _ => Vec::new(),
        };
        events.extend(bodies.into_iter().map(|body| event(path, url, kind, one, body)));
    }
    events
}

/// What a subscription to an area or to distances is told when it is made, where it asks for that.
pub(super) fn immediately(path: &str, value: &Value, url: &str, radio: &Radio) -> Vec<Event> {
    let Some((kind, one)) = body(value).filter(|_| path.starts_with(SUBSCRIPTIONS)) else {
        return Vec::new();
    };
    if one["checkImmediate"] != true {
        return Vec::new();
    }
    let bodies: Vec<Value> = match kind {
        AREA => {
            let (area, is_entering) = (area(one), one["enteringLeavingCriteria"] == "Entering");
            let fits = |client: &&Client| {
                client.place().is_some_and(|place| is_within(&area, place.position) == is_entering)
            };
            let found = clients(radio, &one["address"]).into_iter().filter(fits);
            found.map(|client| located(one, &[client])).collect()
        }
        _ => {
            let users = distance(one, &Radio::default(), radio);
            users.map(|users| located(one, &users)).into_iter().collect()
        }
    };
    bodies.into_iter().map(|body| event(path, url, kind, one, body)).collect()
}

/// Reports by time, as often as the period has begun anew since then.
pub(super) fn due(tree: &Tree, url: &str, radio: &Radio, since_ms: u64, now_ms: u64) -> Vec<Event> {
    let is_due = |one: &Value| {
        let period_ms = one["frequency"].as_u64().map_or(0, |seconds| seconds.saturating_mul(1000));
        period_ms > 0 && now_ms / period_ms > since_ms / period_ms
    };
    let found = subscriptions(tree).filter(|(_, kind, one)| *kind == PERIODIC && is_due(one));
    found
        .map(|(path, kind, one)| {
            let addresses = one["address"].as_array().into_iter().flatten();
            let places = addresses
                .filter_map(Value::as_str)
                .map(|address| terminal(address, client_of(radio, address)));
            let body = json!({ "terminalLocation": places.collect::<Vec<_>>() });
            event(path, url, kind, one, json!({ "subscriptionNotification": body }))
        })
        .collect()
}

/// Moves that a subscription to a user or a zone is told of.
fn presences(one: &Value, moves: &[Move<'_>], now_ms: u64) -> Vec<Value> {
    let wanted = one["userEventCriteria"].as_array().filter(|list| !list.is_empty());
    let told = moves.iter().filter_map(|found| {
        let address = address_of(found.client);
        let act = match found.act {
            Act::Entering => "Entering",
            Act::Leaving => "Leaving",
            Act::Transferring => "Transferring",
        };
        let is_meant = |name: &str, value: &str| one[name].is_null() || one[name] == value;
        let is_wanted = wanted.is_none_or(|list| list.iter().any(|one| *one == act));
        if !is_wanted || !is_meant("address", &address) || !is_meant("zoneId", found.zone) {
            return None;
        }
        let here = match found.act {
            Act::Leaving => found.access_point_before,
            Act::Entering | Act::Transferring => Some(found.client.cell.as_str()),
        };
        let mut body = json!({
            "address": address,
            "zoneId": found.zone,
            "userEventType": act,
            "currentAccessPointId": here,
            "timestamp": time::stamp(now_ms),
        });
        if found.act == Act::Transferring {
            body["previousAccessPointId"] = found.access_point_before.into();
        }
        Some(json!({ "zonalPresenceNotification": body }))
    });
    told.collect()
}

/// What came to be too full, by the present version's word for it.
fn status(told: &Value, new: &Radio, now_ms: u64) -> Value {
    let (zone, access_point) = (&told["zoneId"], told.get("accessPointId"));
    let here = new.clients.iter().filter(|client| {
        *zone == new.zone(client) && access_point.is_none_or(|point| *point == client.cell)
    });
    let mut body = json!({ "zoneId": zone, "timestamp": time::stamp(now_ms) });
    match access_point {
        Some(point) => {
            body["accessPointId"] = point.clone();
            body["numberOfUsersInAP"] = here.count().into();
        }
        None => body["numberOfUsersInZone"] = here.count().into(),
    }
    json!({ "zoneStatusNotification": body })
}

/// Where clients are, with what was asked of them.
fn located(one: &Value, users: &[&Client]) -> Value {
    let places = users.iter().map(|client| terminal(&address_of(client), Some(client)));
    let mut body = json!({ "terminalLocation": places.collect::<Vec<_>>() });
    for (asked, told) in
        [("enteringLeavingCriteria", "enteringLeavingCriteria"), ("criteria", "distanceCriteria")]
    {
        if let Some(criteria) = one.get(asked) {
            body[told] = criteria.clone();
        }
    }
    json!({ "subscriptionNotification": body })
}

fn terminal(address: &str, client: Option<&Client>) -> Value {
    match client.map(location_value).filter(Value::is_object) {
        Some(place) => json!({
            "address": address, "currentLocation": place, "locationRetrievalStatus": "Retrieved",
        }),
        None => json!({ "address": address, "locationRetrievalStatus": "NotRetrieved" }),
    }
}

/// A notification: with what the client wants to hear again, and a link to its subscription.
fn event(path: &str, url: &str, kind: &str, one: &Value, mut body: Value) -> Event {
    let mut relation = kind.to_owned();
    relation[..1].make_ascii_uppercase();
    for inner in body.as_object_mut().into_iter().flat_map(|around| around.values_mut()) {
        inner["link"] = json!([{ "rel": relation, "href": format!("{url}{path}") }]);
        if let Some(data) = one["callbackReference"].get("callbackData") {
            inner["callbackData"] = data.clone();
        }
    }
    Event { root: ROOT.to_owned(), kind: "", facts: Value::Null, body, only: Some(path.to_owned()) }
}
