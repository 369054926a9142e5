//! Instances whose host is lost: they come to another one, by an operation that nobody asked for.

use super::behind::leading;
use super::{GRANTS, INSTANCES, OCCURRENCES, apply, grants, occurrence};
use crate::life::{Granted, Kind, Life, Operation, place};
use crate::platform::Setup;
use aws_lc_rs::digest::{SHA256, digest};
use freshet_base::hexadecimal;
use freshet_documents::problem::Problem;
use freshet_documents::tree::{Change, Tree, escape};
use serde_json::json;

/// Digits of the name of an operation.
const NAME_DIGITS: usize = 32;

/// An instance begins to move: its rules are out of force with this.
pub(crate) fn moves(
    tree: &Tree,
    setup: &Setup,
    instance: &str,
    mut life: Life,
    now_ms: u64,
) -> Vec<Change> {
    let Some(granted) = &life.granted else { return Vec::new() };
    // Of what it has: another name for each host that it loses.
    let id = hexadecimal::encode(digest(&SHA256, granted.id.as_bytes()).as_ref());
    let id = id.get(..NAME_DIGITS).unwrap_or(&id);
    let mut value = occurrence(&setup.url, instance, id, Kind::Move, now_ms);
    value["operationParams"] = json!({ "changeStateTo": "STARTED" });
    let mut changes = apply::down(tree, instance);
    changes.push(Change::put(format!("{OCCURRENCES}{id}"), value, owner(tree, instance)));
    (life.operation, life.restart_ms) = (Some(Operation::new(id, Kind::Move, None, now_ms)), None);
    (life.restarts, life.is_lost) = (0, true);
    changes.push(life.put(instance));
    changes
}

/// What an instance that moves is granted in the place of what it had, with its rules and names, which lead to where
/// it comes to.
///
/// # Errors
/// What there is too little of on each host.
pub(crate) fn placed(
    tree: &Tree,
    setup: &Setup,
    instance: &str,
    life: &Life,
) -> Result<(Granted, Vec<Change>), Problem> {
    let nowhere = || Problem::new(503, "no apps are run here any more");
    let host = setup.place.as_ref().ok_or_else(nowhere)?;
    let operation = life.operation.as_ref().map_or("", |operation| operation.id.as_str());
    let before = life.granted.as_ref().map_or("", |granted| granted.id.as_str());
    // Tries of one operation have names of their own, too.
    let name = digest(&SHA256, format!("{operation} {before}").as_bytes());
    let name = hexadecimal::encode(name.as_ref());
    let name = format!("{}-grant", name.get(..NAME_DIGITS).unwrap_or(&name));
    let descriptor = super::descriptor(tree, life)?;
    let leading = leading(descriptor, life);
    let granted = place(tree, host, descriptor, instance, &name, &life.wish, leading)?;
    let moved = Life { granted: Some(granted.clone()), ..life.clone() };
    let mut changes = vec![Change::remove(format!("{GRANTS}{before}"))];
    let owner = owner(tree, instance);
    changes.push(grants::document(&setup.url, owner, instance, operation, &granted));
    changes.extend(apply::application(tree, host, instance, &moved)?);
    Ok((granted, changes))
}

/// Whose an instance is.
fn owner(tree: &Tree, instance: &str) -> Option<String> {
    tree.get(&format!("{INSTANCES}{}", escape(instance)))?.owner.clone()
}
