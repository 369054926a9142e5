//! What a filter asks for that a client has left out, where a standard says what: it "shall be used and included in
//! the response".

use serde_json::{Value, json};

/// `mobilityStatus` of ETSI GS MEC 021: a move that begins.
const TRIGGERED: i64 = 1;
/// `hoStatus` of ETSI GS MEC 012: a handover that is done.
const COMPLETED: i64 = 3;
/// `alarms` of ETSI GS MEC 029: all of them.
pub(super) const ALL_ALARMS: i64 = -1;

/// By types of subscriptions: where in them the member is (RFC 6901), its name, and its one value.
const DEFAULTS: [(&str, &str, &str, i64); 4] = [
    ("MobilityProcedureSubscription", "/filterCriteria", "mobilityStatus", TRIGGERED),
    ("CellChangeSubscription", "/filterCriteriaAssocHo", "hoStatus", COMPLETED),
    ("OnuAlarmSubscription", "/filterCriteriaOnuAlarm", "alarms", ALL_ALARMS),
    ("AniAlarmSubscription", "", "alarms", ALL_ALARMS),
];

/// Fills in what a subscription asks for without saying so.
pub(super) fn fill(subscription: &mut Value) {
    for (kind, place, member, default) in DEFAULTS {
        if subscription["subscriptionType"] == kind
            && let Some(filter) = subscription.pointer_mut(place)
            && filter.get(member).is_none()
        {
            filter[member] = json!([default]);
        }
    }
}
