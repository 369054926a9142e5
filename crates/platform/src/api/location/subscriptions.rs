//! Subscriptions of ETSI GS MEC 013 whose own words say what counts: areas, distances, how full a zone is,
//! and reports by time.

use super::{ROOT, address_of, client_of, position_of, user_value};
use crate::api::inner;
use crate::platform::Event;
use freshet_documents::problem::Problem;
use freshet_documents::time;
use freshet_documents::tree::Tree;
use freshet_radio::{Cell, Client, Radio, distance_m};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Where they are.
const SUBSCRIPTIONS: &str = "/location/v3/subscriptions/";
/// A value of the shape of an area; the other is a polygon.
pub(super) const CIRCLE: u64 = 1;

fn event(path: &str, around: &str, mut body: Value, now_ms: u64) -> Event {
    let mut kind = around.to_owned();
    kind[..1].make_ascii_uppercase();
    body["notificationType"] = kind.into();
    body["timeStamp"] = time::stamp(now_ms);
    let body = json!({ around: body });
    Event { root: ROOT.to_owned(), kind: "", facts: Value::Null, body, only: Some(path.to_owned()) }
}

/// What is to be told from one report to the next.
pub(super) fn events(tree: &Tree, url: &str, old: &Radio, new: &Radio, now_ms: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for (path, document) in tree.below(SUBSCRIPTIONS) {
        let one = inner(&document.value);
        match one["subscriptionType"].as_str() {
            Some("UserAreaSubscription") => {
                let bodies = crossings(one, old, new).into_iter();
                events.extend(bodies.map(|body| event(path, "userAreaNotification", body, now_ms)));
            }
            Some("UserDistanceSubscription") => {
                let users = distance(one, old, new);
                events.extend(users.map(|users| nearness(path, one, url, new, users, now_ms)));
            }
            Some("ZoneStatusSubscription") => {
                let bodies = filled(one, old, new).into_iter();
                events
                    .extend(bodies.map(|body| event(path, "zoneStatusNotification", body, now_ms)));
            }
            _ => {}
        }
    }
    events
}

/// The addresses of a list, as clients.
pub(super) fn clients<'a>(radio: &'a Radio, list: &Value) -> Vec<&'a Client> {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.filter_map(|address| client_of(radio, address)).collect()
}

fn point(value: &Value) -> [f64; 2] {
    ["latitude", "longitude"].map(|name| value[name].as_f64().unwrap_or(f64::NAN))
}

/// Whether a position is in an area (`AreaInfo`).
pub(super) fn is_within(area: &Value, position: [f64; 2]) -> bool {
    let points: Vec<[f64; 2]> =
        area["points"].as_array().into_iter().flatten().map(point).collect();
    if area["shape"].as_u64() == Some(CIRCLE) {
        let radius_m = area["radius"].as_f64().unwrap_or(0.0);
        return points.first().is_some_and(|centre| distance_m(*centre, position) <= radius_m);
    }
    // How often a ray to the north crosses the border; small areas are as if the earth were flat.
    let [y, x] = position;
    let ends = points.iter().zip(points.iter().cycle().skip(1));
    let crossed = ends.filter(|(one, other)| {
        let ([y1, x1], [y2, x2]) = (**one, **other);
        (x1 > x) != (x2 > x) && y < (y2 - y1) * (x - x1) / (x2 - x1) + y1
    });
    crossed.count() % 2 == 1
}

/// Who entered or left an area.
pub(super) fn crossings(subscription: &Value, old: &Radio, new: &Radio) -> Vec<Value> {
    let area = &subscription["areaDefine"];
    let wanted = subscription["locationEventCriteria"].as_array().filter(|list| !list.is_empty());
    let is_there =
        |client: &Client| client.place().is_some_and(|place| is_within(area, place.position));
    // Who is in the network no more is in the area no more, and was last where it left.
    let gone = clients(old, &subscription["addressList"]).into_iter();
    let gone = gone.filter(|client| new.client(client.address).is_none());
    let here = clients(new, &subscription["addressList"]).into_iter();
    let moved = here.chain(gone).filter_map(|client| {
        let was_in = old.client(client.address).is_some_and(is_there);
        let is_in = is_there(client) && new.client(client.address).is_some();
        let kind = if is_in { "ENTERING_AREA_EVENT" } else { "LEAVING_AREA_EVENT" };
        let is_wanted = wanted.is_none_or(|list| list.iter().any(|one| one == kind));
        (was_in != is_in && is_wanted).then(|| {
            let mut body = json!({ "address": address_of(client), "userLocationEvent": kind });
            if subscription["reportingLocationReq"] == true {
                body["locationInfo"] = super::location_value(client);
            }
            body
        })
    });
    moved.collect()
}

/// Whether what is asked of the distances holds, with the clients it is about; not where some of them
/// are not there.
fn holds<'a>(subscription: &Value, radio: &'a Radio) -> Option<(bool, Vec<&'a Client>)> {
    let monitored = clients(radio, &subscription["monitoredAddress"]);
    let references = clients(radio, &subscription["referenceAddress"]);
    let limit_m = subscription["distance"].as_f64()?;
    let between = |one: &Client, other: &Client| {
        let [one, other] = [one, other].map(Client::place);
        one.zip(other)
            .map_or(f64::INFINITY, |(one, other)| distance_m(one.position, other.position))
    };
    let distances: Vec<f64> = if references.is_empty() {
        let pairs = monitored.iter().enumerate();
        pairs
            .flat_map(|(index, one)| {
                monitored[index + 1..].iter().map(move |other| between(one, other))
            })
            .collect()
    } else {
        monitored
            .iter()
            .flat_map(|one| references.iter().map(move |other| between(one, other)))
            .collect()
    };
    if distances.is_empty() {
        return None;
    }
    let mut within = distances.iter().map(|distance| *distance <= limit_m);
    let holds = match subscription["criteria"].as_str()? {
        "AllWithinDistance" => within.all(|is| is),
        "AnyWithinDistance" => within.any(|is| is),
        "AllBeyondDistance" => within.all(|is| !is),
        _ => within.any(|is| !is),
    };
    Some((holds, monitored))
}

/// The clients that a distance is asked of, where what is asked came to hold.
pub(super) fn distance<'a>(
    subscription: &Value,
    old: &Radio,
    new: &'a Radio,
) -> Option<Vec<&'a Client>> {
    let (now, users) = holds(subscription, new)?;
    let before = holds(subscription, old).is_some_and(|(before, _)| before);
    (now && !before).then_some(users)
}

/// What a subscription with `checkImmediate` is told when it is made.
pub(super) fn immediately(
    path: &str,
    value: &Value,
    url: &str,
    radio: &Radio,
    now_ms: u64,
) -> Option<Event> {
    let one = inner(value);
    if one["subscriptionType"] != "UserDistanceSubscription" || one["checkImmediate"] != true {
        return None;
    }
    let users = distance(one, &Radio::default(), radio)?;
    Some(nearness(path, one, url, radio, users, now_ms))
}

/// What a subscription to a distance is told of its clients.
fn nearness(
    path: &str,
    subscription: &Value,
    url: &str,
    radio: &Radio,
    users: Vec<&Client>,
    now_ms: u64,
) -> Event {
    let root = format!("{url}{ROOT}");
    let users: Vec<Value> =
        users.into_iter().map(|user| user_value(&root, radio, user, now_ms)).collect();
    let body = json!({
        "distanceEvent": subscription["criteria"],
        "monitoredUsers": { "resourceURL": format!("{root}/queries/users"), "user": users },
    });
    event(path, "userDistanceNotification", body, now_ms)
}

/// What a zone or one of its access points came to be: too full or too empty.
pub(super) fn filled(subscription: &Value, old: &Radio, new: &Radio) -> Vec<Value> {
    let zone = subscription["zoneId"].as_str().unwrap_or_default();
    let limit = |name: &str| subscription[name].as_u64();
    let mut bodies = Vec::new();
    let mut check =
        |point: Option<&str>, before: u64, now: u64, names: [&str; 2], codes: [u8; 2]| {
            let [upper, lower] = names.map(limit);
            let is_over = upper.is_some_and(|upper| now > upper && before <= upper);
            let is_under = lower.is_some_and(|lower| now < lower && before >= lower);
            for code in [(is_over, codes[0]), (is_under, codes[1])].iter().filter(|(is, _)| *is) {
                let mut body = json!({ "zoneId": zone, "userNumEvent": code.1 });
                if let Some(point) = point {
                    body["accessPointId"] = point.into();
                }
                bodies.push(body);
            }
        };
    let [before, now] = [old, new].map(Radio::crowds);
    let in_cell = |crowds: &HashMap<&str, u64>, cell: &Cell| {
        crowds.get(cell.id.as_str()).copied().unwrap_or(0)
    };
    let in_zone = |radio: &Radio, crowds: &HashMap<&str, u64>| -> u64 {
        let cells = radio.cells.iter().filter(|cell| cell.zone == zone);
        cells.map(|cell| in_cell(crowds, cell)).sum()
    };
    let names = ["upperNumberOfUsersZoneThreshold", "lowerNumberOfUsersZoneThreshold"];
    check(None, in_zone(old, &before), in_zone(new, &now), names, [1, 2]);
    let names = ["upperNumberOfUsersAPThreshold", "lowerNumberOfUsersAPThreshold"];
    for cell in new.cells.iter().filter(|cell| cell.zone == zone) {
        check(Some(&cell.id), in_cell(&before, cell), in_cell(&now, cell), names, [3, 4]);
    }
    bodies
}

/// Checks what types cannot say, and has a subscription to reports by time say itself when the last of
/// them comes.
pub(super) fn admit(value: &mut Value, now_ms: u64) -> Result<(), Problem> {
    let area = &inner(value)["areaDefine"];
    let points = area["points"].as_array().map_or(0, Vec::len);
    match area["shape"].as_u64() {
        Some(CIRCLE) if points != 1 || area["radius"].is_null() => {
            return Err(Problem::bad_request("/areaDefine: a circle has one point and a radius"));
        }
        Some(shape) if shape != CIRCLE && !(3..=15).contains(&points) => {
            return Err(Problem::bad_request("/areaDefine: a polygon has 3 to 15 points"));
        }
        _ => {}
    }
    for (index, point) in area["points"].as_array().into_iter().flatten().enumerate() {
        position_of(point).map_err(|problem| {
            Problem::bad_request(format!("/areaDefine/points/{index}: {}", problem.detail))
        })?;
    }
    let Some(one) = value.get_mut("userLocationPeriodicSubscription") else { return Ok(()) };
    let number = |name: &str| one["periodicEventInfo"][name].as_u64().unwrap_or(1);
    let last_ms = now_ms + number("reportingAmount") * number("reportingInterval") * 1000;
    let end_ms =
        time::of_stamp(&one["expiryDeadline"]).map_or(last_ms, |end_ms| end_ms.min(last_ms));
    one["expiryDeadline"] = time::stamp(end_ms);
    Ok(())
}

/// Reports by time: those whose moment is after `since_ms` and not after now.
pub(super) fn due(tree: &Tree, radio: &Radio, since_ms: u64, now_ms: u64) -> Vec<Event> {
    let found = tree.below(SUBSCRIPTIONS).filter_map(|(path, document)| {
        let one = document.value.get("userLocationPeriodicSubscription")?;
        let number = |name: &str| one["periodicEventInfo"][name].as_u64();
        let interval_ms = number("reportingInterval")? * 1000;
        let end_ms = time::of_stamp(&one["expiryDeadline"])?;
        // So many are left after this one.
        let left = end_ms.saturating_sub(now_ms).div_ceil(interval_ms);
        let at_ms = end_ms.checked_sub(left * interval_ms)?;
        if at_ms <= since_ms || left >= number("reportingAmount")? {
            return None;
        }
        let address = one["address"].as_str()?;
        let mut body = json!({ "address": address, "isFinalNotification": left == 0 });
        match client_of(radio, address) {
            Some(client) => {
                body["result"] = "SUCCESS".into();
                body["zoneId"] = radio.zone(client).into();
                body["accessPointId"] = client.cell.clone().into();
                body["locationInfo"] = super::location_value(client);
            }
            None => body["result"] = "ABNORMAL".into(),
        }
        Some(event(path, "userLocationPeriodicNotification", body, now_ms))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_in_an_area_or_not() {
        let at = |lat: f64, lon: f64| json!({"latitude": lat, "longitude": lon});
        let circle = json!({"shape": 1, "points": [at(60.0, 25.0)], "radius": 200});
        assert!(is_within(&circle, [60.001, 25.0]) && !is_within(&circle, [60.002, 25.0]));
        // An L, whose notch is not in it.
        let corners = [(0.0, 0.0), (0.0, 2.0), (1.0, 2.0), (1.0, 1.0), (2.0, 1.0), (2.0, 0.0)];
        let points: Vec<Value> = corners.iter().map(|(lat, lon)| at(*lat, *lon)).collect();
        let shape = json!({"shape": 2, "points": points});
        for (position, expected) in
            [([0.5, 1.5], true), ([1.5, 0.5], true), ([1.5, 1.5], false), ([-0.5, 0.5], false)]
        {
            assert_eq!(is_within(&shape, position), expected, "{position:?}");
        }
    }
}
