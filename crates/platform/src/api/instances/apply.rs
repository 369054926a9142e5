//! What steps of a life make of documents: the instance, its occurrence, and the app as GS MEC 011 has
//! it, with its rules.

use super::behind::leading;
use super::{INSTANCES, OCCURRENCES, grants, state};
use crate::api::{Share, apps, bounds, packages, shares};
use crate::client::Client;
use crate::life::{Kind, Life, Place, Reach, Run, disk_mib_max};
use crate::platform::Setup;
use freshet_apps::{Network, Package, SendsApart, Spec};
use freshet_documents::problem::Problem;
use freshet_documents::table::Table;
use freshet_documents::tree::{Change, Tree, escape};
use serde_json::{Value, json};
use std::net::IpAddr;

/// How an instance is run.
pub(crate) fn spec(
    tree: &Tree,
    setup: &Setup,
    place: &Place,
    instance: &str,
    life: &Life,
) -> Option<Spec> {
    let granted = life.granted.as_ref()?;
    let descriptor = super::descriptor(tree, life).ok()?;
    let image = &descriptor["swImageDescriptor"][0]["swImage"];
    let image = image.as_str().or_else(|| image["path"].as_str())?;
    let environment = [
        ("MEC_APP_INSTANCE_ID", instance.to_owned()),
        ("MEC_API", setup.url.clone()),
        ("MEC_CLIENT_ID", instance.to_owned()),
        ("MEC_CLIENT_SECRET", setup.secret_of(instance)),
    ];
    let [sends_bps_max, receives_bps_max] = bounds(tree).remove(instance).unwrap_or_default();
    // Elsewhere it is the edge router that holds what clients send.
    let receives_bps_max = receives_bps_max.filter(|_| place.reach == Reach::Service);
    Some(Spec {
        instance: instance.to_owned(),
        name: format!("mec-{}", instance.get(..12).unwrap_or(instance)),
        grant: granted.id.clone(),
        package: Package {
            sha256: packages::sha256(tree, &life.package),
            image: image.to_owned(),
            folder: place.packages.join(&life.package),
        },
        folder: place.apps.join(instance),
        cpu_milli_max: granted.cpu_milli_max,
        memory_mib_max: granted.memory_mib_max,
        disk_mib_max: disk_mib_max(descriptor),
        host: granted.host.clone(),
        accelerators: granted.accelerators.clone(),
        network: Network {
            slot: granted.slot,
            host: place.host_address(granted.slot),
            app: place.address(granted.slot),
            answers_for: answers_for(descriptor, life),
            sends_bps_max,
            receives_bps_max,
            sends_apart: shares(tree, instance, "").filter_map(sends_apart).collect(),
            wire: leading(descriptor, life).and_then(|_| place.wire(granted)),
        },
        environment: environment.map(|(name, value)| format!("{name}={value}")).to_vec(),
    })
}

fn sends_apart(share: Share) -> Option<SendsApart> {
    share.directions[0].then_some(SendsApart { filter: share.filter, bps_max: share.bits })
}

/// The client that an app instance is: it may use the interfaces that its descriptor names as services it
/// needs or can use, and none of those that are an operator's.
pub(crate) fn client(tree: &Tree, setup: &Setup, table: &Table, name: &str) -> Option<Client> {
    let life = Life::of(tree, name)?;
    // One that is not about to run is nobody.
    life.granted.as_ref()?;
    let descriptor = super::descriptor(tree, &life).ok()?;
    let named = ["appServiceRequired", "appServiceOptional"]
        .iter()
        .flat_map(|kind| descriptor[*kind].as_array().into_iter().flatten())
        .filter_map(|one| one["serName"].as_str());
    let mut scopes: Vec<String> = OF_ALL.map(str::to_owned).to_vec();
    let is_for_apps =
        |name: &&str| !OF_OPERATORS.contains(name) && table.0.iter().any(|api| api.name == **name);
    scopes.extend(named.filter(is_for_apps).map(str::to_owned));
    Some(Client::new(&setup.secret_of(name), Some(name.to_owned()), scopes))
}

/// Shortest network an app answers for.
const NETWORK_BITS_MIN: u8 = 8;
/// What every app may use.
const OF_ALL: [&str; 2] = ["mec_app_support", "mec_service_mgmt"];
/// What no app may.
const OF_OPERATORS: [&str; 4] = ["mec_platform", "app_pkgm", "app_lcm", "granting"];

/// Addresses of servers in whose place an app answers: its traffic comes with them.
fn answers_for(descriptor: &Value, life: &Life) -> Vec<String> {
    let rules = rules(descriptor, life, "appTrafficRule");
    let of = |rule: &Value| -> Vec<String> {
        let filters = rule["trafficFilter"].as_array().into_iter().flatten();
        let addresses = filters.flat_map(|one| one["dstAddress"].as_array().into_iter().flatten());
        addresses.filter_map(|one| network(one.as_str()?)).collect()
    };
    let breaks_out = |rule: &&Value| rule["action"] == "FORWARD_DECAPSULATED";
    let mut all: Vec<String> = rules.iter().filter(breaks_out).flat_map(of).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// An address or a network of some length, as it is told to the kernel: rules may have names, and a network
/// of all would be the app's clients too.
fn network(text: &str) -> Option<String> {
    let (address, length) =
        text.split_once('/').map_or((text, None), |(one, rest)| (one, Some(rest)));
    let address: IpAddr = address.parse().ok()?;
    let all = if address.is_ipv6() { 128 } else { 32 };
    let length: u8 = length.map_or(Some(all), |length| length.parse().ok())?;
    (NETWORK_BITS_MIN..=all).contains(&length).then(|| format!("{address}/{length}"))
}

/// Rules of one kind: the descriptor's, or those that were configured in their place.
pub(super) fn rules<'a>(descriptor: &'a Value, life: &'a Life, kind: &str) -> &'a [Value] {
    let configured = life.configured[kind].as_array();
    configured.or_else(|| descriptor[kind].as_array()).map_or(&[], Vec::as_slice)
}

/// The app as others see it from when it is about to start, with its rules: they are in force when it
/// is ready.
pub(super) fn application(
    tree: &Tree,
    place: &Place,
    instance: &str,
    life: &Life,
) -> Result<Vec<Change>, Problem> {
    let descriptor = super::descriptor(tree, life)?;
    let address = life.granted.as_ref().map(|granted| place.address(granted.slot));
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    let mut changes = apps::ended_rules(tree, instance);
    changes.push(apps::begun(instance));
    for (kind, id) in [("appTrafficRule", "trafficRuleId"), ("appDNSRule", "dnsRuleId")] {
        for rule in rules(descriptor, life, kind) {
            let mut rule = packages::rule_of(kind, rule, &address);
            rule["state"] = "ACTIVE".into();
            let word = if kind == "appDNSRule" { "dns_rules" } else { "traffic_rules" };
            changes.push(apps::rule_change(instance, word, &rule[id], &rule));
        }
    }
    Ok(changes)
}

/// The app is up: its rules are in force with this.
pub(crate) fn ready(tree: &Tree, instance: &str) -> Vec<Change> {
    apps::turned(tree, instance, "STARTING", "READY").into_iter().collect()
}

/// Whether the app is up.
pub(crate) fn is_ready(tree: &Tree, instance: &str) -> bool {
    apps::state_of(tree, instance) == Some("READY")
}

/// The app is not there, and is to be: its rules are out of force.
pub(crate) fn down(tree: &Tree, instance: &str) -> Vec<Change> {
    apps::turned(tree, instance, "READY", "STARTING").into_iter().collect()
}

/// The app is to end: its rules are out of force with this, and it is told where it wants to be.
pub(crate) fn leaving(
    tree: &Tree,
    instance: &str,
    kind: Kind,
    grace_s: Option<u64>,
    now_ms: u64,
) -> Vec<Change> {
    match grace_s.filter(|_| apps::wants_termination(tree, instance)) {
        None => apps::ended(tree, instance),
        Some(grace_s) => {
            let action = if kind == Kind::Stop { "STOPPING" } else { "TERMINATING" };
            apps::terminating(tree, instance, action, grace_s, now_ms).into_iter().collect()
        }
    }
}

/// Whether an app that was told to end has done so, or had its time.
pub(crate) fn is_drained(tree: &Tree, instance: &str) -> bool {
    apps::state_of(tree, instance).is_none_or(|state| state == "TERMINATED")
}

/// An operation was taken back.
pub(crate) fn taken_back(tree: &Tree, instance: &str, kind: Kind) -> Vec<Change> {
    match kind {
        Kind::Instantiate => gone(tree, instance),
        _ => apps::ended(tree, instance),
    }
}

/// Nothing is left of an app: neither what it is to others nor what it has made.
fn gone(tree: &Tree, instance: &str) -> Vec<Change> {
    let mut changes = apps::gone(tree, instance, &[instance]);
    changes.extend(apps::forgotten(tree, instance));
    changes
}

/// An instance holds nothing any more.
pub(crate) fn released(tree: &Tree, instance: &str, life: &mut Life) -> Vec<Change> {
    let mut changes = gone(tree, instance);
    (life.run, life.restart_ms, life.restarts) = (None, None, 0);
    life.granted = None;
    changes.extend(grants::taken_back(tree, instance));
    changes
}

/// Whoever asked for an operation that failed lets it be.
pub(super) fn given_up(
    tree: &Tree,
    setup: &Setup,
    instance: &str,
    kind: Kind,
    life: &mut Life,
) -> Result<Vec<Change>, Problem> {
    match (kind, &setup.place) {
        (Kind::Instantiate, _) => Ok(released(tree, instance, life)),
        // It was not ended: it is looked after as before.
        (Kind::Stop | Kind::Terminate, Some(place)) if life.run == Some(Run::Started) => {
            application(tree, place, instance, life)
        }
        _ => Ok(Vec::new()),
    }
}

/// Whether somebody wants an operation to be cancelled.
pub(crate) fn is_cancelled(tree: &Tree, id: &str) -> bool {
    let occurrence = tree.get(&format!("{OCCURRENCES}{}", escape(id)));
    occurrence.is_some_and(|one| one.value["isCancelPending"] == true)
}

/// What is told of an operation.
pub(crate) fn updated(
    tree: &Tree,
    id: &str,
    now: &str,
    why: Option<&str>,
    now_ms: u64,
) -> Option<Change> {
    let path = format!("{OCCURRENCES}{}", escape(id));
    let document = tree.get(&path)?;
    let mut value = document.value.clone();
    if value["operationState"] != now {
        state(&mut value, now, now_ms);
    }
    if now != "PROCESSING" {
        value["isCancelPending"] = false.into();
    }
    match why {
        Some(why) => value["error"] = Problem::new(500, why).body(),
        None => drop(value.as_object_mut().and_then(|members| members.remove("error"))),
    }
    (value != document.value).then(|| Change::put(path, value, document.owner.clone()))
}

/// What is told of an instance.
pub(crate) fn instance(tree: &Tree, setup: &Setup, instance: &str, life: &Life) -> Option<Change> {
    let path = format!("{INSTANCES}{}", escape(instance));
    let document = tree.get(&path)?;
    let mut value = document.value.clone();
    let run = life.run.map(|run| match run {
        Run::Started => "STARTED",
        Run::Stopped => "STOPPED",
    });
    match (run, &setup.place, &life.granted) {
        (Some(run), Some(place), Some(granted)) => {
            let address = place.address(granted.slot).to_string();
            value["instantiationState"] = "INSTANTIATED".into();
            value["instantiatedAppState"] = json!({ "operationalState": run });
            let ends = life.ports.iter().map(|port| json!({ "host": address, "port": port }));
            value["communicationInterface"] = json!({ "ipAddresses": ends.collect::<Vec<_>>() });
        }
        _ => {
            value["instantiationState"] = "NOT_INSTANTIATED".into();
            if let Some(members) = value.as_object_mut() {
                members.remove("instantiatedAppState");
                members.remove("communicationInterface");
            }
        }
    }
    Some(Change::put(path, value, document.owner.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_networks_are_told_to_the_kernel() {
        for (text, expected) in [
            ("203.0.113.10/32", Some("203.0.113.10/32")),
            ("203.0.113.10", Some("203.0.113.10/32")),
            ("2001:db8::/32", Some("2001:db8::/32")),
            ("0.0.0.0/0", None),
            ("::/0", None),
            ("10.0.0.0/33", None),
            ("www.example.com", None),
            ("10.0.0.1/32 dev lo\nlink delete eth0", None),
            ("10.0.0.1\nlink delete eth0", None),
        ] {
            assert_eq!(network(text).as_deref(), expected, "{text}");
        }
    }
}
