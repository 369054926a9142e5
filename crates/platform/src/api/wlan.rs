//! ETSI GS MEC 028: access points and stations of wireless local networks, as the feed tells them, and who
//! is told when that changes.

use super::Stage;
use super::feeds::each;
use crate::platform::{Answer, Decision, Event};
use freshet_documents::time;
use freshet_documents::tree::Tree;
use serde_json::{Value, json};

const ROOT: &str = "/wai/v2";
const SUBSCRIPTIONS: &str = "/wai/v2/subscriptions/";
const MEASUREMENTS: &str = "/wai/v2/measurements/";

/// Links to the measurements a client has configured.
pub(super) fn measurements(stage: &Stage<'_>) -> Decision {
    let all = stage.tree.below(MEASUREMENTS);
    let own = all.filter(|(_, document)| stage.caller.owns(document.owner.as_deref()));
    let links = own.map(|(_, document)| {
        json!({ "href": document.value["href"], "measurementId": document.value["measurementId"] })
    });
    let links: Vec<Value> = links.collect();
    let href = format!("{}{ROOT}/measurements", stage.url);
    Answer::ok(json!({ "_links": { "self": { "href": href } }, "measurementConfig": links })).into()
}

/// A measurement has its own link.
pub(super) fn admit_measurement(stage: &Stage<'_>, path: &str, value: &mut Value) {
    value["href"] = format!("{}{path}", stage.url).into();
}

/// Stations at an access point.
fn stations_at<'a>(report: &'a Value, bssid: &Value) -> Vec<&'a Value> {
    let here = each(report, "staInfo").filter(|one| one["apAssociated"]["bssid"] == *bssid);
    here.map(|one| &one["staId"]).collect()
}

/// The stations a subscription is about.
fn named<'a>(report: &'a Value, subscription: &Value) -> Vec<&'a Value> {
    let wanted = subscription["staId"].as_array();
    let is_wanted = |one: &&Value| {
        wanted.is_some_and(|list| list.iter().any(|id| id["macId"] == one["staId"]["macId"]))
    };
    each(report, "staInfo").filter(is_wanted).collect()
}

/// Whether a number came to be on a side of a threshold.
fn crossed(old: u64, new: u64, threshold: u64, is_above: bool) -> bool {
    let is_there = |value: u64| if is_above { value >= threshold } else { value <= threshold };
    is_there(new) && !is_there(old)
}

/// Notifications of stations that come and go.
fn associated(old: &Value, new: &Value, subscription: &Value) -> Option<Value> {
    let bssid = &subscription["apId"]["bssid"];
    let (before, after) = (stations_at(old, bssid), stations_at(new, bssid));
    let event = &subscription["notificationEvent"];
    let happened = if event.is_object() {
        let threshold = event["threshold"].as_u64().unwrap_or(0);
        crossed(before.len() as u64, after.len() as u64, threshold, event["trigger"] == 1)
    } else {
        before != after
    };
    happened.then(|| json!({ "apId": subscription["apId"], "staId": after }))
}

fn rates(station: &Value) -> [u64; 2] {
    ["staLastDataDownlinkRate", "staLastDataUplinkRate"]
        .map(|name| station["staDataRate"][name].as_u64().unwrap_or(0))
}

/// Whether the rates of a station came to be what a trigger of §6.3.3 asks for.
fn rate_event(event: &Value, old: [u64; 2], new: [u64; 2]) -> bool {
    let thresholds = ["downlinkRateThreshold", "uplinkRateThreshold"]
        .map(|name| event[name].as_u64().unwrap_or(0));
    let trigger = event["trigger"].as_u64().unwrap_or(0);
    let holds = |rates: [u64; 2]| {
        let side = |index: usize| match trigger % 2 {
            1 => rates[index] >= thresholds[index],
            _ => rates[index] <= thresholds[index],
        };
        match trigger {
            1 | 2 => side(0),
            3 | 4 => side(1),
            5 | 6 => side(0) && side(1),
            _ => side(0) || side(1),
        }
    };
    holds(new) && !holds(old)
}

fn rate_changed(old: &Value, new: &Value, subscription: &Value) -> Option<Value> {
    let before = named(old, subscription);
    let event = &subscription["notificationEvent"];
    let changed = named(new, subscription).into_iter().filter(|station| {
        let past = before.iter().find(|one| one["staId"]["macId"] == station["staId"]["macId"]);
        let past = past.map_or([0, 0], |one| rates(one));
        let now = rates(station);
        if event.is_object() { rate_event(event, past, now) } else { past != now }
    });
    let of = |station: &Value| {
        let mut rate = station["staDataRate"].clone();
        rate["staId"] = station["staId"].clone();
        rate
    };
    let changed: Vec<Value> = changed.map(of).collect();
    (!changed.is_empty()).then(|| json!({ "staDataRate": changed }))
}

/// What stations have measured, under the name that the subscriber gave it.
fn measured(new: &Value, subscription: &Value) -> Option<Value> {
    let mut body = json!({});
    for station in named(new, subscription) {
        for kind in ["staStatistics", "beaconReport", "neighborReport", "channelLoad"] {
            for one in station[kind].as_array().into_iter().flatten() {
                let mut one = one.clone();
                one["staId"] = station["staId"].clone();
                one["measurementId"] = subscription["measurementId"].clone();
                match body[kind].as_array_mut() {
                    Some(list) => list.push(one),
                    None => body[kind] = json!([one]),
                }
            }
        }
    }
    body.as_object().is_some_and(|members| !members.is_empty()).then_some(body)
}

/// The body for a subscription, from one report to the next.
fn body(old: &Value, new: &Value, subscription: &Value) -> Option<(Value, &'static str)> {
    let kind = subscription["subscriptionType"].as_str()?;
    Some(match kind {
        "AssocStaSubscription" => (associated(old, new, subscription)?, "AssocStaNotification"),
        "StaDataRateSubscription" => {
            (rate_changed(old, new, subscription)?, "StaDataRateNotification")
        }
        _ => (measured(new, subscription)?, "MeasurementReportNotification"),
    })
}

fn event(path: &str, (mut body, kind): (Value, &str), now_ms: u64) -> Event {
    body["notificationType"] = kind.into();
    body["timeStamp"] = time::stamp(now_ms);
    Event { root: ROOT.to_owned(), kind: "", facts: Value::Null, body, only: Some(path.to_owned()) }
}

fn period_ms(subscription: &Value) -> u64 {
    subscription["notificationPeriod"].as_u64().unwrap_or(0) * 1000
}

/// What changed from one report to the next. Who asks for a period is told by time.
pub(super) fn events(tree: &Tree, old: &Value, new: &Value, now_ms: u64) -> Vec<Event> {
    let found = tree.below(SUBSCRIPTIONS).filter(|(_, one)| period_ms(&one.value) == 0);
    found.filter_map(|(path, one)| Some(event(path, body(old, new, &one.value)?, now_ms))).collect()
}

/// Who is told by time, as often as the period has begun anew since then.
pub(super) fn due(tree: &Tree, report: Option<&Value>, since_ms: u64, now_ms: u64) -> Vec<Event> {
    let Some(report) = report else { return Vec::new() };
    let is_due = |period_ms: u64| period_ms > 0 && now_ms / period_ms > since_ms / period_ms;
    let found = tree.below(SUBSCRIPTIONS).filter(|(_, one)| is_due(period_ms(&one.value)));
    found
        .filter_map(|(path, one)| {
            // All of it, as if nothing had been known.
            let mut all = one.value.clone();
            all.as_object_mut()?.remove("notificationEvent");
            Some(event(path, body(&Value::Null, report, &all)?, now_ms))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_about_the_moment_a_threshold_is_met() {
        for (trigger, old, new, expected) in [
            (1, [9, 0], [10, 0], true),
            (1, [10, 0], [11, 0], false),
            (2, [11, 0], [10, 0], true),
            (3, [0, 9], [0, 10], true),
            (4, [0, 11], [0, 9], true),
            (5, [10, 9], [10, 10], true),
            (5, [9, 9], [10, 9], false),
            (6, [11, 9], [9, 9], true),
            (7, [9, 9], [9, 10], true),
            (8, [11, 11], [11, 10], true),
        ] {
            let event =
                json!({"trigger": trigger, "downlinkRateThreshold": 10, "uplinkRateThreshold": 10});
            assert_eq!(rate_event(&event, old, new), expected, "{trigger} {old:?} {new:?}");
        }
    }
}
