//! ETSI GS MEC 013: zones, access points and who is where. An access point is a cell; a client's position
//! is the radio network's estimate, with how far off it may be.

mod earlier;
mod subscriptions;

use super::{Stage, radio};
use crate::platform::{Decision, Event};
use freshet_documents::problem::Problem;
use freshet_documents::time;
use freshet_documents::tree::Tree;
use freshet_documents::tree::escape;
use freshet_radio::{Cell, Client, Ellipse, Radio, distance_m};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::IpAddr;

const ROOT: &str = "/location/v3";
/// Values of `shape` (3GPP TS 23.032 §5): a point, a circle around one, and an ellipse around one.
const POINT: u8 = 2;
const CIRCLE: u8 = 5;
const ELLIPSE: u8 = 6;

/// A client's address as a URI.
fn address_of(client: &Client) -> String {
    format!("acr:{}", client.address)
}

/// The client that a URI is of.
fn client_of<'a>(radio: &'a Radio, uri: &str) -> Option<&'a Client> {
    let address: IpAddr = uri.strip_prefix("acr:").unwrap_or(uri).parse().ok()?;
    radio.client(address)
}

/// Where a client is, as the network or the platform estimates it.
fn location_value(client: &Client) -> Value {
    let Some(place) = client.place() else { return Value::Null };
    let mut value = json!({
        "latitude": [place.position[0]],
        "longitude": [place.position[1]],
        "shape": CIRCLE,
        "accuracy": place.accuracy_m.round() as u64,
    });
    // Of these shapes an ellipse alone has a confidence; a circle is one too.
    if let Some(percent) = place.confidence_percent {
        let ellipse = place.ellipse.unwrap_or(Ellipse {
            semi_major_m: place.accuracy_m,
            semi_minor_m: place.accuracy_m,
            orientation_degrees: 0.0,
        });
        value["shape"] = ELLIPSE.into();
        value["accuracy"] = (ellipse.semi_major_m.round() as u64).into();
        value["accuracySemiMinor"] = (ellipse.semi_minor_m.round() as u64).into();
        value["orientationMajorAxis"] = (ellipse.orientation_degrees.round() as u64).into();
        value["confidence"] = percent.into();
        value["uncertaintyRadius"] = (place.accuracy_m.round() as u64).into();
    }
    value
}

/// Latitude and longitude of a point in a body.
pub(super) fn position_of(point: &Value) -> Result<[f64; 2], Problem> {
    let [latitude, longitude] =
        ["latitude", "longitude"].map(|name| point[name].as_f64().unwrap_or(f64::NAN));
    if (-90.0..=90.0).contains(&latitude) && (-180.0..=180.0).contains(&longitude) {
        return Ok([latitude, longitude]);
    }
    Err(Problem::bad_request("latitude must be -90 to 90 and longitude -180 to 180"))
}

/// A client, as `UserInfo`; `root` is where its interface is reached.
fn user_value(root: &str, radio: &Radio, client: &Client, now_ms: u64) -> Value {
    let address = address_of(client);
    json!({
        "address": address,
        "accessPointId": client.cell,
        "zoneId": radio.zone(client),
        "resourceURL": format!("{root}/queries/users?address={address}"),
        "timestamp": time::stamp(now_ms),
        "locationInfo": location_value(client),
    })
}

/// Where the interface of a request is reached.
fn root(stage: &Stage<'_>) -> String {
    format!("{}{}", stage.url, stage.route.api.root())
}

fn resource(stage: &Stage<'_>, path: &str) -> String {
    format!("{}/queries/{path}", root(stage))
}

/// Acts of the interface's own.
pub(super) fn own(name: &str, stage: &Stage<'_>) -> Result<Decision, Problem> {
    if name == "subscriptions" {
        return Ok(earlier::list(stage));
    }
    radio::needed(stage)?;
    match name {
        "users" => Ok(users(stage)),
        "zones" => Ok(zones(stage)),
        "zone" => zone(stage),
        "access_points" => access_points(stage),
        "access_point" => access_point(stage),
        _ => distance(stage),
    }
}

pub(super) fn users(stage: &Stage<'_>) -> Decision {
    let root = root(stage);
    let users = stage.radio.clients.iter().filter_map(|client| {
        let zone = stage.radio.zone(client);
        let view =
            json!({ "zoneId": zone, "accessPointId": client.cell, "address": address_of(client) });
        let is_wanted = stage.selection.wants(&view);
        is_wanted.then(|| user_value(&root, stage.radio, client, stage.now_ms))
    });
    let users: Vec<Value> = users.collect();
    radio::answer(
        stage,
        json!({ "userList": { "resourceURL": resource(stage, "users"), "user": users } }),
    )
}

fn zone_value(stage: &Stage<'_>, zone: &str, crowds: &HashMap<&str, u64>) -> Value {
    let cells = stage.radio.cells.iter().filter(|cell| cell.zone == zone);
    let users = cells.clone().filter_map(|cell| crowds.get(cell.id.as_str()));
    json!({
        "zoneId": zone,
        "numberOfAccessPoints": cells.count(),
        "numberOfUnserviceableAccessPoints": 0,
        "numberOfUsers": users.sum::<u64>(),
        "resourceURL": resource(stage, &format!("zones/{}", escape(zone))),
    })
}

fn all_zones(radio: &Radio) -> Vec<&str> {
    let mut zones: Vec<&str> = radio.cells.iter().map(|cell| cell.zone.as_str()).collect();
    zones.sort_unstable();
    zones.dedup();
    zones
}

pub(super) fn zones(stage: &Stage<'_>) -> Decision {
    let zones = all_zones(stage.radio)
        .into_iter()
        .filter(|zone| stage.selection.wants(&json!({ "zoneId": zone })));
    let crowds = stage.radio.crowds();
    let zones: Vec<Value> = zones.map(|zone| zone_value(stage, zone, &crowds)).collect();
    radio::answer(
        stage,
        json!({ "zoneList": { "resourceURL": resource(stage, "zones"), "zone": zones } }),
    )
}

/// The zone of the path.
fn named_zone<'a>(stage: &'a Stage<'_>) -> Result<&'a str, Problem> {
    let zone = stage.route.name("zoneId").unwrap_or_default();
    let known = all_zones(stage.radio).contains(&zone);
    if known { Ok(zone) } else { Err(Problem::not_found(&format!("zone {zone}"))) }
}

pub(super) fn zone(stage: &Stage<'_>) -> Result<Decision, Problem> {
    let zone = named_zone(stage)?;
    Ok(radio::answer(stage, json!({ "zoneInfo": zone_value(stage, zone, &stage.radio.crowds()) })))
}

fn access_point_value(stage: &Stage<'_>, cell: &Cell, crowds: &HashMap<&str, u64>) -> Value {
    json!({
        "accessPointId": cell.id,
        "connectionType": if earlier::is_of(stage) { "Unknown" } else { "UNKNOWN" },
        "locationInfo": { "latitude": [cell.position[0]], "longitude": [cell.position[1]], "shape": POINT },
        "numberOfUsers": crowds.get(cell.id.as_str()).copied().unwrap_or(0),
        "operationStatus": "Serviceable",
        "resourceURL": resource(stage, &format!("zones/{}/accessPoints/{}", escape(&cell.zone), escape(&cell.id))),
    })
}

pub(super) fn access_points(stage: &Stage<'_>) -> Result<Decision, Problem> {
    let zone = named_zone(stage)?;
    let cells = stage.radio.cells.iter().filter(|cell| {
        cell.zone == zone && stage.selection.wants(&json!({ "accessPointId": cell.id }))
    });
    let crowds = stage.radio.crowds();
    let cells: Vec<Value> = cells.map(|cell| access_point_value(stage, cell, &crowds)).collect();
    let url = resource(stage, &format!("zones/{}/accessPoints", escape(zone)));
    Ok(radio::answer(
        stage,
        json!({ "accessPointList": { "zoneId": zone, "accessPoint": cells, "resourceURL": url } }),
    ))
}

pub(super) fn access_point(stage: &Stage<'_>) -> Result<Decision, Problem> {
    let zone = named_zone(stage)?;
    let id = stage.route.name("accessPointId").unwrap_or_default();
    let cell = stage.radio.cell(id).filter(|cell| cell.zone == zone);
    let cell = cell.ok_or_else(|| Problem::not_found(&format!("access point {id}")))?;
    let info = access_point_value(stage, cell, &stage.radio.crowds());
    Ok(radio::answer(stage, json!({ "accessPointInfo": info })))
}

/// The distance between two clients, or between one and a point.
pub(super) fn distance(stage: &Stage<'_>) -> Result<Decision, Problem> {
    let given = |name: &str| {
        let found = stage.selection.parameters.iter().filter(|(known, _)| known == name);
        found.flat_map(|(_, value)| value.split(',')).collect::<Vec<_>>()
    };
    let clients = given("address").into_iter().map(|address| {
        client_of(stage.radio, address)
            .and_then(Client::place)
            .ok_or_else(|| Problem::not_found(&format!("client {address}")))
    });
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    let number = |name: &str| {
        let text = given(name).first().copied();
        text.map(|text| text.parse::<f64>().unwrap_or(f64::NAN))
    };
    let point = number("latitude").zip(number("longitude"));
    let point = point.map(|(latitude, longitude)| {
        position_of(&json!({ "latitude": latitude, "longitude": longitude }))
    });
    let (distance, accuracy_m) = match (&clients[..], point.transpose()?) {
        ([one, other], None) => {
            (distance_m(one.position, other.position), one.accuracy_m.hypot(other.accuracy_m))
        }
        ([one], Some(point)) => (distance_m(one.position, point), one.accuracy_m),
        _ => {
            return Err(Problem::bad_request(
                "give two clients by `address`, or one with `latitude` and `longitude`",
            ));
        }
    };
    Ok(radio::answer(
        stage,
        json!({ "terminalDistance": {
        "distance": distance.round() as u64,
        "accuracy": accuracy_m.round() as u64,
        "timestamp": time::stamp(stage.now_ms),
    } }),
    ))
}

/// What a client did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Act {
    Entering,
    Leaving,
    /// From one access point of a zone to another.
    Transferring,
}

/// What a client did in a zone from one report to the next.
#[derive(Clone, Copy, Debug)]
struct Move<'a> {
    client: &'a Client,
    zone: &'a str,
    act: Act,
    /// Where it was before.
    access_point_before: Option<&'a str>,
}

fn moves<'a>(old: &'a Radio, new: &'a Radio) -> Vec<Move<'a>> {
    let mut moves = Vec::new();
    for client in &new.clients {
        let zone = new.zone(client);
        let before = old.client(client.address);
        let access_point_before = before.map(|before| before.cell.as_str());
        let mut add = |zone, act| moves.push(Move { client, zone, act, access_point_before });
        match before {
            Some(before) if old.zone(before) == zone => {
                if before.cell != client.cell {
                    add(zone, Act::Transferring);
                }
            }
            before => {
                if let Some(before) = before {
                    add(old.zone(before), Act::Leaving);
                }
                add(zone, Act::Entering);
            }
        }
    }
    let gone = old.clients.iter().filter(|client| new.client(client.address).is_none());
    moves.extend(gone.map(|client| Move {
        client,
        zone: old.zone(client),
        act: Act::Leaving,
        access_point_before: Some(&client.cell),
    }));
    moves
}

/// Checks what types cannot say, and fills in what follows from it.
pub(super) fn admit(stage: &Stage<'_>, path: &str, value: &mut Value) -> Result<(), Problem> {
    if earlier::is_of(stage) {
        return earlier::admit(stage, path, value);
    }
    subscriptions::admit(value, stage.now_ms)
}

/// What a subscription is told when it is made.
pub(super) fn immediately(
    path: &str,
    value: &Value,
    url: &str,
    radio: &Radio,
    now_ms: u64,
) -> Vec<Event> {
    let mut events = earlier::immediately(path, value, url, radio);
    events.extend(subscriptions::immediately(path, value, url, radio, now_ms));
    events
}

/// What is due by time: what became so after `since_ms`, and not after now.
pub(super) fn due(tree: &Tree, url: &str, radio: &Radio, since_ms: u64, now_ms: u64) -> Vec<Event> {
    let mut events = subscriptions::due(tree, radio, since_ms, now_ms);
    events.extend(earlier::due(tree, url, radio, since_ms, now_ms));
    events
}

/// Who entered or left a zone from one report to the next, and what else was subscribed for.
pub(super) fn events(tree: &Tree, url: &str, old: &Radio, new: &Radio, now_ms: u64) -> Vec<Event> {
    let moves = moves(old, new);
    let mut events = subscriptions::events(tree, url, old, new, now_ms);
    events.extend(earlier::events(tree, url, (old, new), &moves, now_ms));
    events.extend(moves.iter().flat_map(|one| zone_events(one, now_ms)));
    events
}

/// What subscribers to a client and to a zone are told of a move.
fn zone_events(one: &Move<'_>, now_ms: u64) -> Vec<Event> {
    let event = match one.act {
        Act::Entering => "ENTERING_AREA_EVENT",
        Act::Leaving => "LEAVING_AREA_EVENT",
        Act::Transferring => return Vec::new(),
    };
    let address = address_of(one.client);
    let facts = json!({
        "address": address, "addressList": address, "zoneId": one.zone, "locationEventCriteria": event,
        "accessPointList": one.client.cell,
    });
    let kinds = [
        (
            "UserLocationEventSubscription",
            "userLocationEventNotification",
            "UserLocationEventNotification",
        ),
        (
            "ZoneLocationEventSubscription",
            "zoneLocationEventNotification",
            "ZoneLocationEventNotification",
        ),
    ];
    let of_kind = |(kind, around, notification): (&'static str, &str, &str)| {
        let mut body = json!({
            "notificationType": notification,
            "timeStamp": time::stamp(now_ms),
            "address": address,
            "zoneId": one.zone,
            "userLocationEvent": event,
        });
        if kind == "UserLocationEventSubscription" {
            body["accessPointId"] = one.client.cell.clone().into();
            body["locationInfo"] = location_value(one.client);
        }
        let body = json!({ around: body });
        Event { root: ROOT.to_owned(), kind, facts: facts.clone(), body, only: None }
    };
    kinds.map(of_kind).into()
}
