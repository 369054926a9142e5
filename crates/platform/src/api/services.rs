//! The registry of services (ETSI GS MEC 011 §8): what apps and the platform offer, and whether it is
//! alive.

use super::Stage;
use crate::platform::{Answer, Decision, Event, Offer, Place, Setup};
use freshet_documents::problem::Problem;
use freshet_documents::table::Table;
use freshet_documents::time;
use freshet_documents::tree::{Change, Changed, Tree};
use serde_json::{Value, json};
use std::net::IpAddr;

const ROOT: &str = "/mec_service_mgmt/v1";
/// What is below the apps.
const APPLICATIONS: &str = "/mec_service_mgmt/v1/applications/";
/// The name under which the platform offers its own.
pub(super) const PLATFORM: &str = "mec-platform";
/// How often a service gives a sign of life that leaves it to the platform, in seconds.
const INTERVAL_S: u64 = 30;
/// Intervals without a sign of life after which a service is taken for silent.
const INTERVALS_MAX: u64 = 2;

/// Whether a path is that of a service in the registry.
pub(crate) fn is_service(path: &str) -> bool {
    let rest = path.strip_prefix(ROOT).unwrap_or_default();
    let parts: Vec<&str> = rest.split('/').collect();
    matches!(parts[..], ["", "applications", _, "services", _])
}

/// All services that are registered, with their paths.
pub(crate) fn registered(tree: &Tree) -> impl Iterator<Item = (&str, &Value)> {
    let all = tree.below(APPLICATIONS);
    all.filter(|(path, _)| is_service(path)).map(|(path, document)| (path, &document.value))
}

/// What a registration says to a gateway.
pub(crate) fn offer(service: &Value, setup: &Setup) -> Offer {
    let text = |name: &str| service[name].as_str().unwrap_or_default().to_owned();
    Offer {
        name: text("serName"),
        instance: text("serInstanceId"),
        is_active: service["state"] == "ACTIVE",
        place: place(&service["transportInfo"]["endpoint"], setup),
    }
}

/// Where an endpoint is: its first URI, or its first address. A gateway asks no name, as nobody has looked
/// where that leads, and nothing that callbacks may not be aimed at either.
fn place(endpoint: &Value, setup: &Setup) -> Place {
    let address = &endpoint["addresses"][0];
    let uri =
        match (endpoint["uris"][0].as_str(), address["host"].as_str(), address["port"].as_u64()) {
            (Some(uri), _, _) if uri == setup.url => return Place::Unsaid,
            (Some(uri), _, _) => uri.to_owned(),
            (None, Some(host), Some(port)) if host.contains(':') => {
                format!("http://[{host}]:{port}")
            }
            (None, Some(host), Some(port)) => format!("http://{host}:{port}"),
            _ => return Place::Forbidden,
        };
    let target = setup.callbacks.check(&uri).ok();
    let target =
        target.filter(|target| target.host.parse::<IpAddr>().is_ok() && !uri.contains(['?', ',']));
    target.map_or(Place::Forbidden, |target| {
        let scheme = if target.is_secure { "https" } else { "http" };
        Place::At(format!("{scheme}://{}{}", target.authority(), target.path))
    })
}

/// How apps reach the platform, and what it offers there.
pub(super) fn begin(tree: &Tree, table: &Table, url: &str) -> Vec<Change> {
    let transport = json!({
        "id": "rest",
        "name": "REST",
        "description": "HTTP with tokens of this platform",
        "type": "REST_HTTP",
        "protocol": "HTTP",
        "version": "1.1",
        "endpoint": { "uris": [url] },
        "security": security(url),
    });
    let mut changes = vec![Change::put(format!("{ROOT}/transports/rest"), transport, None)];
    for api in table.0.iter().filter(|api| api.name != "mec_platform") {
        let mut id = format!("{PLATFORM}-{}", api.name);
        // Of two versions of an interface the table has the present one first.
        let present = table.0.iter().find(|one| one.name == api.name);
        if present.is_some_and(|one| one.version != api.version) {
            id = format!("{id}-{}", api.version);
        }
        let path = format!("{ROOT}/applications/{PLATFORM}/services/{id}");
        let transport = json!({
            "id": id,
            "name": "REST",
            "type": "REST_HTTP",
            "protocol": "HTTP",
            "version": "1.1",
            "endpoint": { "uris": [format!("{url}{}", api.root())] },
            "security": security(url),
        });
        let service = json!({
            "serInstanceId": id,
            "serName": api.name,
            "version": api.version,
            "state": "ACTIVE",
            "transportInfo": transport,
            "serializer": "JSON",
            "scopeOfLocality": "MEC_HOST",
            "consumedLocalOnly": true,
            "isLocal": true,
            "_links": { "self": { "href": format!("{url}{path}") } },
        });
        changes.push(Change::put(path, service, None));
    }
    // Not again what is there: a change is an event.
    changes
        .retain(|change| tree.get(&change.path).map(|known| &known.value) != change.value.as_ref());
    changes
}

fn security(url: &str) -> Value {
    json!({ "oAuth2Info": {
        "grantTypes": ["OAUTH2_CLIENT_CREDENTIALS"],
        "tokenEndpoint": format!("{url}/oauth2/token"),
    } })
}

/// Checks a service that is offered or changed, which is a sign of life where it is to give some. It says how it is
/// reached by the platform's transport or by its own.
pub(super) fn admit(
    stage: &Stage<'_>,
    path: &str,
    value: &mut Value,
) -> Result<Vec<Change>, Problem> {
    let transport = match (value["transportId"].as_str(), value.get("transportInfo")) {
        (Some(id), None) => {
            let known = stage
                .tree
                .get(&format!("{ROOT}/transports/{}", freshet_documents::tree::escape(id)));
            let known = known.ok_or_else(|| {
                Problem::bad_request(format!("/transportId: there is no transport {id}"))
            })?;
            Some(known.value.clone())
        }
        (None, Some(_)) => None,
        _ => return Err(Problem::bad_request("either transportId or transportInfo must be there")),
    };
    if let (Some(transport), Some(members)) = (transport, value.as_object_mut()) {
        members.remove("transportId");
        members.insert("transportInfo".to_owned(), transport);
    }
    for (name, default) in [
        ("scopeOfLocality", json!("MEC_HOST")),
        ("consumedLocalOnly", json!(true)),
        ("isLocal", json!(true)),
    ] {
        if value.get(name).is_none() {
            value[name] = default;
        }
    }
    let Some(interval_s) = value["livenessInterval"].as_u64() else { return Ok(Vec::new()) };
    if interval_s == 0 {
        value["livenessInterval"] = INTERVAL_S.into();
    }
    value["_links"]["liveness"] = json!({ "href": format!("{}{path}/liveness", stage.url) });
    let stamp = json!({ "timeStamp": time::stamp(stage.now_ms) });
    Ok(vec![Change::put(sign(path), stamp, None)])
}

/// Where it is kept when a service last gave a sign of life.
fn sign(path: &str) -> String {
    format!("{path}/liveness")
}

fn service<'a>(stage: &Stage<'a>) -> Result<(String, &'a Value, u64), Problem> {
    let id = stage.route.name("serviceId").unwrap_or_default();
    let path = format!(
        "{ROOT}/applications/{}/services/{}",
        freshet_documents::tree::escape(stage.app()),
        freshet_documents::tree::escape(id)
    );
    let document = stage.tree.get(&path).ok_or_else(|| Problem::not_found(&path))?;
    match document.value["livenessInterval"].as_u64() {
        Some(interval_s) => Ok((path, &document.value, interval_s)),
        None => Err(Problem::not_found(&sign(&path))),
    }
}

/// Whether a service lives (§8.2.10.3.1).
pub(super) fn liveness(stage: &Stage<'_>) -> Result<Decision, Problem> {
    let (path, service, interval_s) = service(stage)?;
    let last = stage
        .tree
        .get(&sign(&path))
        .map_or_else(|| time::stamp(stage.now_ms), |sign| sign.value["timeStamp"].clone());
    Ok(Answer::ok(json!({ "state": service["state"], "timeStamp": last, "interval": interval_s }))
        .into())
}

/// A sign of life (§8.2.10.3.3), which also says the service's state.
pub(super) fn live(stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    let (path, service, interval_s) = service(stage)?;
    let stamp = time::stamp(stage.now_ms);
    let mut changes = vec![Change::put(sign(&path), json!({ "timeStamp": stamp }), None)];
    if service["state"] != body["state"] {
        let owner = stage.tree.get(&path).and_then(|document| document.owner.clone());
        let mut service = service.clone();
        service["state"] = body["state"].clone();
        changes.push(Change::put(path, service, owner));
    }
    let answer =
        Answer::ok(json!({ "state": body["state"], "timeStamp": stamp, "interval": interval_s }));
    Ok(Decision { changes, ..answer.into() })
}

/// Services that went silent are inactive until they speak again; signs of services that are gone go.
pub(super) fn due(tree: &Tree, now_ms: u64) -> Vec<Change> {
    let mut changes = Vec::new();
    for (path, document) in tree.below(APPLICATIONS) {
        let Some(service_path) = path.strip_suffix("/liveness") else { continue };
        let Some(service) = tree.get(service_path) else {
            changes.push(Change::remove(path));
            continue;
        };
        let interval_s = service.value["livenessInterval"].as_u64().unwrap_or(u64::MAX / 2000);
        let last_ms = time::of_stamp(&document.value["timeStamp"]).unwrap_or(0);
        let is_silent =
            now_ms.saturating_sub(last_ms) > interval_s.saturating_mul(1000 * INTERVALS_MAX);
        if is_silent && service.value["state"] == "ACTIVE" {
            let mut value = service.value.clone();
            value["state"] = "INACTIVE".into();
            changes.push(Change::put(service_path, value, service.owner.clone()));
        }
    }
    changes
}

/// A service was added, changed or removed: who subscribed for it is told (§8.1.4.2).
pub(super) fn events(_: &Tree, change: &Changed, url: &str) -> Vec<Event> {
    if !is_service(&change.path) {
        return Vec::new();
    }
    let old = change.old.as_ref().map(|old| &old.value);
    let (service, kind) = match (old, &change.new) {
        (None, Some(new)) => (new, "ADDED"),
        (Some(old), None) => (old, "REMOVED"),
        (Some(old), Some(new)) if old["state"] != new["state"] => (new, "STATE_CHANGED"),
        (Some(old), Some(new)) if old != new => (new, "ATTRIBUTES_CHANGED"),
        _ => return Vec::new(),
    };
    let mut reference = json!({
        "serName": service["serName"],
        "serInstanceId": service["serInstanceId"],
        "state": service["state"],
        "changeType": kind,
    });
    if change.new.is_some() {
        reference["link"] = json!({ "href": format!("{url}{}", change.path) });
    }
    let facts = json!({
        "serInstanceIds": service["serInstanceId"],
        "serNames": service["serName"],
        "serCategories": service["serCategory"],
        "states": service["state"],
        "isLocal": service["isLocal"],
    });
    vec![Event {
        root: ROOT.to_owned(),
        kind: "SerAvailabilityNotificationSubscription",
        facts,
        body: json!({ "notificationType": "SerAvailabilityNotification", "serviceReferences": [reference] }),
        only: None,
    }]
}
