//! ETSI GS MEC 029: what changes in fixed access from one report to the next, for whom it counts.

use super::defaults::ALL_ALARMS;
use super::feeds::each;
use crate::platform::Event;
use freshet_documents::time;
use serde_json::{Value, json};

const ROOT: &str = "/fai/v1";
/// Values of `deviceStatus` that are no good, with those of `deviceErrStatus` for them.
const ERRORS: [(u64, u8); 2] = [(3, 1), (4, 2)];

fn event(kind: &'static str, facts: Value, mut body: Value, now_ms: u64) -> Event {
    body["notificationType"] = kind.replace("Subscription", "Notification").into();
    body["timeStamp"] = time::stamp(now_ms);
    Event { root: ROOT.to_owned(), kind, facts, body, only: None }
}

/// The document of the other report with the same name.
fn same<'a>(report: &'a Value, list: &str, name: &str, document: &Value) -> Option<&'a Value> {
    each(report, list).find(|one| one[name] == document[name])
}

/// What changed from one report to the next.
pub(super) fn events(old: &Value, new: &Value, now_ms: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let error = |device: &Value| {
        let status = device["deviceStatus"].as_u64();
        ERRORS.iter().find(|(known, _)| Some(*known) == status).map(|(_, error)| *error)
    };
    for device in each(new, "deviceInfo") {
        let before = same(old, "deviceInfo", "deviceId", device).and_then(error);
        if let Some(error) = error(device).filter(|error| before != Some(*error)) {
            let facts = json!({
                "gwId": device["gwId"], "deviceId": device["deviceId"], "deviceErrStatus": error,
            });
            let body = json!({ "deviceId": device["deviceId"], "deviceErrStatus": error });
            events.push(event("DevInfoSubscription", facts, body, now_ms));
        }
    }
    for line in each(new, "cableLineInfo").filter(|line| line["cmStatus"].is_object()) {
        let state = |line: &Value| line["cmStatus"]["cmRegState"].clone();
        let before = same(old, "cableLineInfo", "cmId", line).map(state);
        if before.as_ref() != Some(&state(line)) {
            let modem = json!({
                "cmId": line["cmId"],
                "ifIndex": [line["cmStatus"]["ifIndex"]],
                "cmRegState": [state(line).to_string()],
            });
            let place = &line["customerPremisesInfo"];
            let facts = json!({ "customerPremisesInfo": place, "cmIf": [modem] });
            let body = json!({ "customerPremisesInfo": place, "cmIf": [modem] });
            let mut event = event("CmConnSubscription", facts, body, now_ms);
            // As the standard spells it.
            event.body["notificationType"] = "CmconnNotification".into();
            events.push(event);
        }
    }
    for (list, kind) in
        [("onuAlarms", "OnuAlarmSubscription"), ("aniAlarms", "AniAlarmSubscription")]
    {
        for alarm in each(new, list).filter(|alarm| !each(old, list).any(|one| one == *alarm)) {
            let mut facts = alarm.clone();
            facts["alarms"] = json!([alarm["alarm"], ALL_ALARMS]);
            events.push(event(kind, facts, alarm.clone(), now_ms));
        }
    }
    events
}
