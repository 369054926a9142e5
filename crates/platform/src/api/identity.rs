//! ETSI GS MEC 014: tags that stand for clients of the mobile network. The operator says which clients a
//! tag is of; an app that may act for them registers it, and traffic rules select them by it.

use super::Stage;
use crate::platform::{Answer, Decision};
use freshet_documents::problem::Problem;
use freshet_documents::tree::{Change, Tree, escape};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const ROOT: &str = "/ui/v1/";
const LEAF: &str = "/ue_identity_tag_info";
/// Values of `state`.
const UNREGISTERED: u8 = 0;
const REGISTERED: u8 = 1;

/// Clients of each tag, by their addresses.
pub(crate) type Tags = BTreeMap<String, Vec<String>>;

/// Where the tags of an app are.
pub(super) fn path(app: &str) -> String {
    format!("{ROOT}{}{LEAF}", escape(app))
}

/// Whether a path is that of an app's tags.
pub(crate) fn is_tags(path: &str) -> bool {
    path.starts_with(ROOT) && path.ends_with(LEAF)
}

/// Tags an app has registered.
fn registered(document: &Value) -> impl Iterator<Item = &str> {
    let tags = document["ueIdentityTags"].as_array().into_iter().flatten();
    tags.filter(|one| one["state"] == REGISTERED).filter_map(|one| one["ueIdentityTag"].as_str())
}

/// The tags each client has, as far as any app has registered them; clients without one are there too.
pub(crate) fn tags_of_clients(tree: &Tree, tags: &Tags) -> BTreeMap<String, BTreeSet<String>> {
    let documents = tree.below(ROOT).filter(|(path, _)| is_tags(path));
    let active: BTreeSet<&str> = documents.flat_map(|(_, one)| registered(&one.value)).collect();
    let mut clients: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (tag, addresses) in tags {
        for address in addresses {
            let of_client = clients.entry(address.clone()).or_default();
            if active.contains(tag.as_str()) {
                of_client.insert(tag.clone());
            }
        }
    }
    clients
}

/// Acts of the interface's own.
pub(super) fn own(name: &str, stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    if name == "tags" { tags(stage) } else { register(stage, body) }
}

/// The tags that are asked about, and whether this app has registered them.
pub(super) fn tags(stage: &Stage<'_>) -> Result<Decision, Problem> {
    let known = stage.tree.get(&path(stage.app())).map(|document| &document.value);
    let active: BTreeSet<&str> = known.into_iter().flat_map(registered).collect();
    let asked = stage.selection.parameters.iter().flat_map(|(_, value)| value.split(','));
    let asked = asked.map(|tag| {
        if !stage.setup.tags.contains_key(tag) {
            return Err(Problem::not_found(&format!("tag {tag}")));
        }
        let state = if active.contains(tag) { REGISTERED } else { UNREGISTERED };
        Ok(json!({ "ueIdentityTag": tag, "state": state }))
    });
    let asked = asked.collect::<Result<Vec<Value>, _>>()?;
    Ok(Answer::ok(json!({ "ueIdentityTags": asked })).into())
}

/// Registers tags, and takes registrations back; those that are not named stay as they are.
pub(super) fn register(stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    let path = path(stage.app());
    let known = stage.tree.get(&path).map(|document| &document.value);
    let mut active: BTreeSet<String> =
        known.into_iter().flat_map(registered).map(str::to_owned).collect();
    for one in body["ueIdentityTags"].as_array().into_iter().flatten() {
        let tag = one["ueIdentityTag"].as_str().unwrap_or_default();
        if !stage.setup.tags.contains_key(tag) {
            return Err(Problem::bad_request(format!("/ueIdentityTags: there is no tag {tag}")));
        }
        if one["state"] == REGISTERED {
            active.insert(tag.to_owned());
        } else {
            active.remove(tag);
        }
    }
    let tags = active.into_iter().map(|tag| json!({ "ueIdentityTag": tag, "state": REGISTERED }));
    let kept = json!({ "ueIdentityTags": tags.collect::<Vec<_>>() });
    let changes = vec![Change::put(path, kept, None)];
    Ok(Decision { changes, ..Answer::ok(body.clone()).into() })
}
