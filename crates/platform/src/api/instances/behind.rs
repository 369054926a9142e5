//! Apps that packets are led to: what the edge router has to know of them.

use super::apply::rules;
use crate::life::{Life, Place, Reach};
use freshet_apps::{End, Wire, device, mac};
use freshet_documents::tree::{Tree, escape};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Apps the edge router is to have, as it is told of them, by their instances: those that have a network and
/// rules that lead to them, whether these are in force or not, and that packets of it come to.
pub(crate) fn behind_router(tree: &Tree, place: &Place) -> BTreeMap<String, Value> {
    if place.reach == Reach::Service {
        return BTreeMap::new();
    }
    let of = |(instance, life): (String, Life)| {
        let granted = life.granted.as_ref().filter(|_| life.is_linked())?;
        let rules =
            format!("/mec_app_support/v1/applications/{}/traffic_rules/", escape(&instance));
        let kind = tree.below(&rules).find_map(|(_, rule)| kind(&rule.value))?;
        let address = place.address(granted.slot);
        let wire = place.wire(granted);
        if place.reach == Reach::Host && wire.is_none() {
            return None;
        }
        let mut app = json!({
            "kind": kind,
            "interface": device(granted.slot),
            "mac": mac(granted.slot, wire.as_ref().map_or(End::App, |_| End::Wire)),
            "addresses": [address],
        });
        if let Some(wire) = &wire {
            app["mtu"] = wire.mtu.into();
        }
        if let Some(port) = life.ports.first() {
            // It is alive where packets come to it, whichever other ways there are.
            let asked = wire.map_or(address, |_| Wire::address(granted.slot));
            app["health"] = format!("tcp {asked}:{port}").into();
        }
        Some((instance, app))
    };
    Life::all(tree).filter_map(of).collect()
}

/// The name of a rule that leads packets to an app, where one does.
pub(super) fn leading<'a>(descriptor: &'a Value, life: &'a Life) -> Option<&'a str> {
    let mut rules = rules(descriptor, life, "appTrafficRule").iter();
    rules.find(|rule| kind(rule).is_some())?["trafficRuleId"].as_str()
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
