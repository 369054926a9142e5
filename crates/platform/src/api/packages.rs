//! ETSI GS MEC 010-2: packages of apps. A package is named first, then its archive is uploaded and
//! checked, and only then what it says of itself is there.

use super::{Stage, dns, rules};
use crate::platform::{Answer, Decision, Event};
use freshet_documents::problem::Problem;
use freshet_documents::shape::{Direction, Shape, Types};
use freshet_documents::time;
use freshet_documents::tree::{Change, Changed, Document, Tree, escape};
use serde_json::{Value, json};

const ROOT: &str = "/app_pkgm/v1";
const PACKAGES: &str = "/app_pkgm/v1/onboarded_app_packages/";
const SUBSCRIPTIONS: &str = "/app_pkgm/v1/subscriptions/";

/// The packages there are: names of the resources, and whether the archive is there.
pub(crate) fn packages(tree: &Tree) -> impl Iterator<Item = (&str, bool)> {
    tree.below(PACKAGES).filter_map(|(path, document)| {
        let id = &path[PACKAGES.len()..];
        (!id.contains('/')).then(|| (id, document.value["onboardingState"] == "ONBOARDED"))
    })
}

/// The document of a package, by its name.
pub(crate) fn package<'a>(tree: &'a Tree, id: &str) -> Option<&'a Value> {
    find(tree, id).ok().map(|(_, document)| &document.value)
}

/// Where the document of a package is.
pub(super) fn path_of(id: &str) -> String {
    format!("{PACKAGES}{}", escape(id))
}

/// The SHA-256 of a package's archive, in small hexadecimal digits.
pub(super) fn sha256(tree: &Tree, id: &str) -> String {
    let package = tree.get(&path_of(id));
    let hash = package.and_then(|one| one.value["checksum"]["hash"].as_str());
    hash.unwrap_or_default().to_ascii_lowercase()
}

/// The package of a descriptor, and its document's place: the one that came last of those that are
/// enabled.
pub(super) fn of_descriptor<'a>(tree: &'a Tree, id: &str) -> Result<(String, &'a Value), Problem> {
    let mut found: Vec<_> = tree
        .below(PACKAGES)
        .filter(|(path, one)| !path.ends_with("/appd") && one.value["appDId"] == id)
        .collect();
    found.sort_by_key(|(_, one)| one.version);
    let enabled = found.iter().rev().find(|(_, one)| one.value["operationalState"] == "ENABLED");
    match enabled {
        Some((path, one)) => Ok(((*path).to_owned(), &one.value)),
        None if found.is_empty() => {
            Err(Problem::bad_request(format!("/appDId: there is no package with {id}")))
        }
        None => Err(Problem::new(409, "the package is DISABLED")),
    }
}

fn find<'a>(tree: &'a Tree, id: &str) -> Result<(String, &'a Document), Problem> {
    let path = path_of(id);
    let document = tree.get(&path).ok_or_else(|| Problem::not_found(&path))?;
    Ok((path, document))
}

/// Acts of the interface's own.
pub(super) fn own(name: &str, stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    if name == "package_notification" {
        return Ok(user_defined(body));
    }
    let (path, document) = find(stage.tree, stage.route.name("appPkgId").unwrap_or_default())?;
    if !stage.caller.owns(document.owner.as_deref()) {
        return Err(Problem::forbidden("this belongs to another client"));
    }
    let is_there = document.value["onboardingState"] == "ONBOARDED";
    match name {
        // What follows is not for a decision: bytes move.
        "upload_package" if is_there => Err(Problem::new(409, "the package is there already")),
        "upload_package" => Ok(Answer { status: 202, ..Answer::default() }.into()),
        "package_content" if is_there => Ok(Answer { status: 200, ..Answer::default() }.into()),
        "package_content" => Err(Problem::new(409, "the package is not there yet")),
        _ if !is_there => Err(Problem::new(409, "the package is not there yet")),
        _ if document.value["operationalState"] == body["operationalState"] => {
            Err(Problem::new(409, "it is so already"))
        }
        _ => {
            let mut value = document.value.clone();
            value["operationalState"] = body["operationalState"].clone();
            let change = Change::put(path, value, document.owner.clone());
            let answer = Answer::ok(json!({ "operationalState": body["operationalState"] }));
            Ok(Decision { changes: vec![change], ..answer.into() })
        }
    }
}

/// A package that is named: what it says of itself is empty until it is there.
pub(super) fn admit(stage: &Stage<'_>, value: &mut Value) -> Result<(), Problem> {
    if stage.caller.app.is_some() {
        return Err(Problem::forbidden("apps bring no packages"));
    }
    let (algorithm, hash) = (&value["checksum"]["algorithm"], &value["checksum"]["hash"]);
    let is_hash =
        |text: &str| text.len() == 64 && text.bytes().all(|sign| sign.is_ascii_hexdigit());
    if algorithm != "SHA-256" || !hash.as_str().is_some_and(is_hash) {
        return Err(Problem::bad_request("/checksum must be of SHA-256, as 64 hexadecimal digits"));
    }
    let links = json!({ "self": null, "appD": null, "appPkgContent": null });
    let mut package = json!({
        "id": value["id"], "appDId": "", "appName": value["appPkgName"],
        "appSoftwareVersion": value["appPkgVersion"], "appDVersion": "", "checksum": value["checksum"],
        "softwareImages": [{}], "onboardingState": "CREATED", "operationalState": "DISABLED",
        "usageState": "NOT_IN_USE", "mecInfo": [""], "_links": links,
    });
    let id = value["id"].as_str().unwrap_or_default();
    for (name, below) in [("self", ""), ("appD", "/appd"), ("appPkgContent", "/package_content")] {
        package["_links"][name] = json!({ "href": format!("{}{PACKAGES}{id}{below}", stage.url) });
    }
    for name in ["appProvider", "userDefinedData"] {
        if let Some(given) = value.get(name) {
            package[name] = given.clone();
        }
    }
    *value = package;
    Ok(())
}

/// What goes with a package.
pub(super) fn removed(tree: &Tree, path: &str) -> Result<Vec<Change>, Problem> {
    let is_in_use = tree.get(path).is_some_and(|one| one.value["usageState"] == "IN_USE");
    if is_in_use {
        return Err(Problem::new(409, "an app instance is made of it"));
    }
    Ok(vec![Change::remove(format!("{path}/appd"))])
}

/// The archive of a package was received and checked, or refused.
pub(crate) fn onboarded(
    tree: &Tree,
    types: &Types,
    id: &str,
    found: Result<(Value, Option<String>), String>,
) -> Result<Decision, Problem> {
    let (path, document) = find(tree, id)?;
    let mut value = document.value.clone();
    let found = found.and_then(|found| check(types, &found.0).map(|()| found));
    let mut changes = Vec::new();
    let answer = match found {
        Err(why) => {
            let problem = Problem::new(422, why);
            value["onboardingFailureDetails"] = problem.body();
            problem.into()
        }
        Ok((descriptor, signer)) => {
            let same = |one: &Value| {
                one["appDId"] == descriptor["appDId"]
                    && one["appDVersion"] == descriptor["appDVersion"]
            };
            if tree
                .below(PACKAGES)
                .any(|(other, one)| other != path && !other.ends_with("/appd") && same(&one.value))
            {
                return Err(Problem::new(
                    409,
                    "another package has this descriptor in this version",
                ));
            }
            for (name, from) in [
                ("appDId", "appDId"),
                ("appName", "appName"),
                ("appProvider", "appProvider"),
                ("appSoftwareVersion", "appSoftVersion"),
                ("appDVersion", "appDVersion"),
                ("softwareImages", "swImageDescriptor"),
            ] {
                value[name] = descriptor[from].clone();
            }
            let versions = descriptor["mecVersion"].as_str().unwrap_or_default();
            value["mecInfo"] = versions.split(',').map(str::trim).collect();
            value["onboardingState"] = "ONBOARDED".into();
            value["operationalState"] = "ENABLED".into();
            if let Some(signer) = signer {
                value["signingCertificate"] = signer.into();
            }
            if let Some(members) = value.as_object_mut() {
                members.remove("onboardingFailureDetails");
            }
            changes.push(Change::put(format!("{path}/appd"), descriptor, document.owner.clone()));
            Answer { status: 202, ..Answer::default() }
        }
    };
    changes.push(Change::put(path, value, document.owner.clone()));
    Ok(Decision { changes, ..answer.into() })
}

/// Whether a descriptor is of its type, and its rules are such that they could be used.
fn check(types: &Types, descriptor: &Value) -> Result<(), String> {
    let shape = Shape::Named("AppD".to_owned());
    let mistakes = types.mistakes(&shape, descriptor, Direction::Request);
    if !mistakes.is_empty() {
        return Err(format!("the descriptor: {}", mistakes.join("; ")));
    }
    check_rules(descriptor).map_err(|what| format!("the descriptor: {what}"))
}

/// Whether rules of a descriptor are such that they could be used: what could not be switched on is wrong
/// now.
pub(super) fn check_rules(descriptor: &Value) -> Result<(), String> {
    // Any address and any name: an instance has its own.
    const ADDRESS: &str = "192.0.2.1";
    const INSTANCE: &str = "0123456789abcdef0123456789abcdef";
    let [traffic, names] = ["appTrafficRule", "appDNSRule"].map(|kind| -> Vec<Value> {
        let rules = descriptor[kind].as_array().into_iter().flatten();
        let active = |rule| {
            let mut rule = rule_of(kind, rule, ADDRESS);
            rule["state"] = "ACTIVE".into();
            rule
        };
        rules.map(active).collect()
    });
    if let Some(mistake) = rules::mistakes(INSTANCE, &traffic).first() {
        return Err(format!("/appTrafficRule{}: {}", rules::pointer(mistake), mistake.what));
    }
    for (index, rule) in names.iter().enumerate() {
        dns::check(rule).map_err(|problem| format!("/appDNSRule/{index}: {}", problem.detail))?;
    }
    Ok(())
}

/// A rule of a descriptor for an instance: where it leads to the address `0.0.0.0`, it leads to the instance's.
pub(super) fn rule_of(kind: &str, rule: &Value, address: &str) -> Value {
    let mut rule = rule.clone();
    let place = if kind == "appDNSRule" { "/ipAddress" } else { "/dstInterface/dstIpAddress" };
    if let Some(known) = rule.pointer_mut(place).filter(|known| **known == "0.0.0.0") {
        *known = address.into();
    }
    rule
}

/// Somebody tells others of a package (§7.3.9).
fn user_defined(body: &Value) -> Decision {
    let event = Event {
        root: ROOT.to_owned(),
        kind: "AppPackageChangeSubscription",
        facts: json!({ "appPkgInfoId": body["appPkgId"], "appDId": body["appDId"] }),
        body: body.clone(),
        only: None,
    };
    Decision { events: vec![event], ..Answer::nothing().into() }
}

/// A package is there, changed or gone: who subscribed for it is told.
pub(super) fn events(tree: &Tree, change: &Changed, url: &str, now_ms: u64) -> Vec<Event> {
    let id = change.path.strip_prefix(PACKAGES).filter(|id| !id.contains('/'));
    let Some(id) = id else { return Vec::new() };
    let old = change.old.as_ref().map(|old| &old.value);
    let state = |value: Option<&Value>| -> Option<bool> {
        let value = value.filter(|value| value["onboardingState"] == "ONBOARDED")?;
        Some(value["operationalState"] == "ENABLED")
    };
    let (kind, told) = match (state(old), state(change.new.as_ref())) {
        (None, Some(_)) => ("AppPackageOnBoardingSubscription", "AppPackageOnBoarded"),
        (Some(_), None) => ("AppPackageDeletionSubscription", "AppPackageDeleted"),
        (Some(false), Some(true)) => ("AppPackageChangeSubscription", "AppPackageEnabled"),
        (Some(true), Some(false)) => ("AppPackageChangeSubscription", "AppPackageDisabled"),
        _ => return Vec::new(),
    };
    let Some(package) = change.new.as_ref().or(old) else { return Vec::new() };
    let mut facts = package.clone();
    facts["appPkgInfoId"] = id.into();
    // Each subscriber is told its own name in it.
    let of_kind =
        tree.below(SUBSCRIPTIONS).filter(|(_, one)| one.value["subscriptionType"] == kind);
    of_kind
        .filter(|(_, one)| is_asked_for(&one.value["appPkgFilter"], &facts))
        .map(|(path, _)| Event {
            root: ROOT.to_owned(),
            kind,
            facts: Value::Null,
            body: json!({
                "id": format!("{id}-{}", tree.version()),
                "notificationType": told,
                "subscriptionId": &path[SUBSCRIPTIONS.len()..],
                "timeStamp": time::stamp(now_ms),
                "appPkgId": id,
                "appDId": package["appDId"],
                "operationalState": package["operationalState"],
                "_links": { "subscription": { "href": format!("{url}{path}") } },
            }),
            only: Some(path.to_owned()),
        })
        .collect()
}

/// Whether one of the filters is about a package; without any, all are.
fn is_asked_for(filters: &Value, package: &Value) -> bool {
    let Some(filters) = filters.as_array().filter(|filters| !filters.is_empty()) else {
        return true;
    };
    let fits = |filter: &Value| {
        filter.as_object().into_iter().flatten().all(|(name, wanted)| package[name] == *wanted)
    };
    filters.iter().any(fits)
}
