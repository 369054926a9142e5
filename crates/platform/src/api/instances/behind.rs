//! Apps that packets are led to: what the edge router has to know of them.

use super::apply::rules;
use crate::life::{Life, Place, Reach};
use freshet_apps::{End, device, mac};
use freshet_documents::problem::Problem;
use freshet_documents::tree::{Tree, escape};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Apps the edge router is to have, as it is told of them, by their instances: those that have a network and
/// rules that lead to them, whether these are in force or not.
pub(crate) fn behind_router(tree: &Tree, place: &Place) -> BTreeMap<String, Value> {
    if place.reach != Reach::Interface {
        return BTreeMap::new();
    }
    let of = |(instance, life): (String, Life)| {
        let granted = life.granted.as_ref().filter(|_| life.is_linked())?;
        let rules =
            format!("/mec_app_support/v1/applications/{}/traffic_rules/", escape(&instance));
        let kind = tree.below(&rules).find_map(|(_, rule)| kind(&rule.value))?;
        let address = place.address(granted.slot);
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

/// Whether packets can be led to an app as its rules say.
///
/// # Errors
/// Which of its rules leads packets to an app that the edge router does not reach.
pub(super) fn is_led_to(place: &Place, descriptor: &Value, life: &Life) -> Result<(), Problem> {
    let mut rules = rules(descriptor, life, "appTrafficRule").iter();
    let leading = rules.find(|rule| kind(rule).is_some());
    match leading.filter(|_| place.reach != Reach::Interface) {
        Some(rule) => Err(Problem::forbidden(format!(
            "no grant: apps are run on other machines or in a cluster, where the edge router leads no packets, as the \
             rule {} does to this one",
            rule["trafficRuleId"]
        ))),
        None => Ok(()),
    }
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
