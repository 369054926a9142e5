//! Grants: what of the host an instance may use.

use super::behind::leading;
use super::{GRANTS, INSTANCES, OCCURRENCES};
use crate::api::Stage;
use crate::life::{Granted, Wish, place};
use crate::platform::{Answer, Decision, check_room};
use freshet_documents::problem::Problem;
use freshet_documents::tree::{Change, Tree, escape};
use serde_json::{Value, json};

/// Somebody asks for a grant (§7.5.1): what is granted for an instance that is not there yet is kept for it
/// until it is removed.
pub(in crate::api) fn grant(stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    if stage.caller.app.is_some() {
        return Err(Problem::forbidden("apps ask for no grants"));
    }
    let Some(host) = &stage.setup.place else {
        return Err(Problem::new(503, "no apps are run here: `[runtime]` says what they may have"));
    };
    let instance = body["appInstanceId"].as_str().unwrap_or_default();
    let Ok(mut life) = super::life(stage.tree, instance) else {
        return Err(Problem::bad_request(format!("/appInstanceId: there is no {instance}")));
    };
    let descriptor = super::descriptor(stage.tree, &life)?;
    if descriptor["appDId"] != body["appDId"] {
        return Err(Problem::bad_request("/appDId is not that of the app instance"));
    }
    let occurrence = body["appLcmOpOccId"].as_str().unwrap_or_default();
    let is_new = body["operation"] == "INSTANTIATE";
    if is_new != life.run.is_none() {
        let state = if is_new { "INSTANTIATED" } else { "NOT_INSTANTIATED" };
        return Err(Problem::new(409, format!("the app instance is {state}")));
    }
    if life.granted.is_some() && is_new {
        return Err(Problem::new(409, "the app instance has its grant already"));
    }
    let mut changes = Vec::new();
    let owner = Some(stage.caller.client.clone());
    let document = if is_new {
        let wish = Wish::default();
        let leading = leading(descriptor, &life);
        let granted = place(stage.tree, host, descriptor, instance, stage.fresh, &wish, leading)?;
        let document = document(stage.url, owner, instance, occurrence, &granted);
        life.granted = Some(granted);
        changes.push(life.put(instance));
        document
    } else {
        // What runs has all it needs already.
        let granted = life.granted.as_ref();
        let granted = granted.ok_or_else(|| Problem::new(409, "the app instance has no grant"))?;
        let granted = Granted { id: stage.fresh.to_owned(), ..granted.clone() };
        document(stage.url, owner, instance, occurrence, &granted)
    };
    let value = document.value.clone().unwrap_or_default();
    check_room(stage.tree, document.owner.as_deref(), &value, None)?;
    let answer = Answer { status: 201, ..Answer::ok(value) };
    let answer = answer.with("Location", format!("{}{}", stage.url, document.path));
    changes.push(document);
    Ok(Decision { changes, ..answer.into() })
}

/// What was granted to an instance, for operations on it too, is free again.
pub(super) fn taken_back(tree: &Tree, instance: &str) -> Vec<Change> {
    let of_instance = tree.below(GRANTS).filter(|(_, one)| one.value["appInstanceId"] == instance);
    of_instance.map(|(path, _)| Change::remove(path)).collect()
}

/// The document of a grant.
pub(super) fn document(
    url: &str,
    owner: Option<String>,
    instance: &str,
    occurrence: &str,
    granted: &Granted,
) -> Change {
    let path = format!("{GRANTS}{}", granted.id);
    let value = json!({
        "id": granted.id, "appInstanceId": instance, "appLcmOpOccId": occurrence,
        "additionalParams": {
            "hostName": granted.host, "cpuMilli": granted.cpu_milli, "memoryMib": granted.memory_mib,
            "accelerators": granted.accelerators,
        },
        "_links": {
            "self": { "href": format!("{url}{path}") },
            "appLcmOpOcc": { "href": format!("{url}{OCCURRENCES}{}", escape(occurrence)) },
            "appInstance": { "href": format!("{url}{INSTANCES}{}", escape(instance)) },
        },
    });
    Change::put(path, value, owner)
}
