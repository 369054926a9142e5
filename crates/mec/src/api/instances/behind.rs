//! Apps that packets are led to: what the edge router has to know of them.

use crate::life::{Life, Place};
use crate::runtime::{End, device, mac};
use crate::tree::{Tree, escape};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Apps the edge router is to have, as it is told of them, by their instances: those that have a network and
/// rules that lead to them, whether these are in force or not.
pub(crate) fn behind_router(tree: &Tree, place: &Place) -> BTreeMap<String, Value> {
    let of = |(instance, life): (String, Life)| {
        let granted = life.granted.as_ref().filter(|_| life.is_linked())?;
        let rules =
            format!("/mec_app_support/v1/applications/{}/traffic_rules/", escape(&instance));
        let kind = tree.below(&rules).find_map(|(_, rule)| kind(&rule.value))?;
        let [_, address] = place.addresses(granted.slot);
        let mut app = json!({
            "kind": kind,
            "interface": device(granted.slot),
            "mac": mac(granted.slot, End::App),
            "addresses": [address],
        });
        if let Some(port) = life.ports.first() {
            app["health"] = format!("tcp {address}:{port}").into();
        }
        Some((instance, app))
    };
    Life::all(tree).filter_map(of).collect()
}

/// How the app of a rule gets packets; none where the rule leads to no app.
fn kind(rule: &Value) -> Option<&'static str> {
    match rule["action"].as_str()? {
        "FORWARD_DECAPSULATED" => Some("breakout"),
        "FORWARD_ENCAPSULATED" => Some("in-line"),
        "PASSTHROUGH" => rule.get("dstInterface").map(|_| "in-line"),
        "DUPLICATE_ENCAPSULATED" => Some("tap"),
        "DUPLICATE_DECAPSULATED" => Some("tap-decapsulated"),
        _ => None,
    }
}
