//! ETSI GS MEC 016: applications that devices may ask for, and their contexts with an app instance.

use super::{Stage, apps};
use crate::platform::{Answer, Decision, DeviceApp, Event, Host};
use freshet_documents::problem::Problem;
use freshet_documents::tree::{Change, Tree};
use serde_json::{Value, json};

const CONTEXTS: &str = "/dev_app/v1/app_contexts/";

/// The application a device means: by the names and versions it gives.
fn meant<'a>(host: &'a Host, info: &Value) -> Option<(&'a str, &'a DeviceApp)> {
    let fits = |wanted: &Value, known: &str| wanted.is_null() || *wanted == known;
    host.device_apps.iter().map(|(id, app)| (id.as_str(), app)).find(|(id, app)| {
        info["appName"] == app.name
            && info["appProvider"] == app.provider
            && info["appDVersion"] == app.version
            && fits(&info["appSoftVersion"], &app.soft_version)
            && fits(&info["appDId"], id)
    })
}

fn nothing_meant(info: &Value) -> Problem {
    let text = |name: &str| info[name].as_str().unwrap_or_default().to_owned();
    Problem::not_found(&format!(
        "application {} {} of {}",
        text("appName"),
        text("appDVersion"),
        text("appProvider")
    ))
}

/// Applications that devices may ask for.
pub(super) fn list(stage: &Stage<'_>) -> Decision {
    let apps = stage.setup.host.device_apps.iter().map(|(id, app)| {
        let mut info = json!({
            "appDId": id,
            "appName": app.name,
            "appProvider": app.provider,
            "appSoftVersion": app.soft_version,
            "appDVersion": app.version,
            "appDescription": app.description,
        });
        if let Some(location) = app.location() {
            info["appLocation"] = json!([location]);
        }
        json!({ "appInfo": info })
    });
    let apps: Vec<Value> = apps.filter(|app| stage.selection.wants(app)).collect();
    Answer::ok(json!({ "appList": apps })).into()
}

/// Where an application may be used.
pub(super) fn locations(stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    let mut answer = body.clone();
    let (_, app) = meant(&stage.setup.host, &body["appInfo"])
        .ok_or_else(|| nothing_meant(&body["appInfo"]))?;
    let location = app.location().map_or_else(|| json!({}), |one| json!({ "appLocation": one }));
    answer["appInfo"]["availableLocations"] = json!([location]);
    Ok(Answer::ok(answer).into())
}

/// Gives a context its app instance.
pub(super) fn admit(stage: &Stage<'_>, value: &mut Value) -> Result<(), Problem> {
    let info = &value["appInfo"];
    let (id, app) = meant(&stage.setup.host, info).ok_or_else(|| nothing_meant(info))?;
    if !apps::is_serving(stage.tree, &app.instance) {
        return Err(Problem::new(503, format!("{} has no instance that serves", app.name)));
    }
    let mut instance = json!({ "appInstanceId": app.instance, "referenceURI": app.uri });
    if let Some(location) = app.location() {
        instance["appLocation"] = location;
    }
    value["appInfo"]["appDId"] = id.into();
    value["appInfo"]["userAppInstanceInfo"] = json!([instance]);
    Ok(())
}

/// Contexts whose app instance is no more or is reached elsewhere now, with what tells their devices.
pub(super) fn due(tree: &Tree, host: &Host) -> (Vec<Change>, Vec<Event>) {
    let (mut changes, mut events) = (Vec::new(), Vec::new());
    for (path, document) in tree.below(CONTEXTS) {
        let context = &document.value;
        let instance = &context["appInfo"]["userAppInstanceInfo"][0];
        let id = context["appInfo"]["appDId"].as_str().unwrap_or_default();
        let app = host.device_apps.get(id).filter(|app| apps::is_serving(tree, &app.instance));
        let body = match app {
            None => {
                changes.push(Change::remove(path));
                json!({
                    "notificationType": "ApplicationContextDeleteNotification",
                    "contextId": context["contextId"],
                })
            }
            Some(app)
                if instance["referenceURI"] != app.uri
                    || instance["appInstanceId"] != app.instance =>
            {
                let mut moved = context.clone();
                let now = &mut moved["appInfo"]["userAppInstanceInfo"][0];
                now["appInstanceId"] = app.instance.clone().into();
                now["referenceURI"] = app.uri.clone().into();
                changes.push(Change::put(path, moved, document.owner.clone()));
                json!({
                    "notificationType": "AddressChangeNotification",
                    "contextId": context["contextId"],
                    "appInstanceId": app.instance,
                    "referenceURI": app.uri,
                })
            }
            Some(_) => continue,
        };
        events.push(Event {
            root: CONTEXTS.trim_end_matches('/').to_owned(),
            kind: "",
            facts: Value::Null,
            body,
            only: Some(path.to_owned()),
        });
    }
    (changes, events)
}
