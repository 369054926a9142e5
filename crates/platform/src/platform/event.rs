//! Who is told what: events, the subscriptions they are for, and subscriptions that expire.

use crate::api;
use crate::callback::Target;
use crate::notify::Notice;
use freshet_documents::table::Table;
use freshet_documents::time;
use freshet_documents::tree::{Change, Changed, Document, Tree};
use serde_json::{Value, json};

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Where its subscriptions are: the root of an interface.
    pub(crate) root: String,
    /// Their `subscriptionType`; empty for any.
    pub(crate) kind: &'static str,
    /// What filters of subscriptions may ask for, by the same names.
    pub(crate) facts: Value,
    /// What is sent; links are added.
    pub(crate) body: Value,
    /// Only this subscription.
    pub(crate) only: Option<String>,
}

/// Notifications of an event.
pub(super) fn notices(tree: &Tree, event: &Event, url: &str) -> Vec<Notice> {
    let below = format!("{}/", event.root);
    let found = tree.below(&below).filter(|(path, document)| {
        let inner = api::inner(&document.value);
        (event.kind.is_empty() || inner["subscriptionType"] == event.kind)
            && event.only.as_deref().is_none_or(|only| only == *path)
            && fits(inner, &event.facts)
            && criteria(inner).all(|criteria| fits(criteria, &event.facts))
    });
    found.filter_map(|(path, document)| notice(path, document, event.body.clone(), url)).collect()
}

/// Notifications for which a subscription asks when it is made: one that shows that they arrive.
pub(super) fn first_notices(
    table: &Table,
    tree: &Tree,
    changed: &[Changed],
    url: &str,
) -> Vec<Notice> {
    let is_new = |one: &&Changed| one.old.is_none();
    changed
        .iter()
        .filter(is_new)
        .filter_map(|one| {
            let document = tree.get(&one.path)?;
            let wants = api::inner(&document.value)["requestTestNotification"] == true;
            let is_known = table.0.iter().any(|api| one.path.starts_with(&api.root()));
            let body = json!({ "notificationType": "TestNotification" });
            (wants && is_known).then(|| notice(&one.path, document, body, url))?
        })
        .collect()
}

fn notice(path: &str, document: &Document, mut body: Value, url: &str) -> Option<Notice> {
    let subscription = &document.value;
    let target = Target::read(api::callback(subscription)?)?;
    // A context of a device has a callback too, and is no subscription.
    if api::inner(subscription).get("_links").is_some() {
        let links = &mut api::inner_mut(&mut body)["_links"];
        // Where an app tells others, anything may be there.
        if !links.is_object() {
            *links = json!({});
        }
        links["subscription"] = json!({ "href": format!("{url}{path}") });
    }
    let owner = document.owner.clone();
    Some(Notice { subscription: path.to_owned(), owner, target, body })
}

/// Subscriptions whose time is over, with what tells their owners.
pub(super) fn expired(table: &Table, tree: &Tree, now_ms: u64) -> (Vec<Change>, Vec<Event>) {
    let (mut changes, mut events) = (Vec::new(), Vec::new());
    for api in &table.0 {
        let below = format!("{}/", api.root());
        // Other documents may have a member of that name, which says nothing here.
        let is_subscription = |(path, document): &(&str, &Document)| {
            path.contains("/subscriptions/") && api::callback(&document.value).is_some()
        };
        for (path, document) in tree.below(&below).filter(is_subscription) {
            let inner = api::inner(&document.value);
            let deadline = &inner["expiryDeadline"];
            if time::of_stamp(deadline).is_none_or(|at_ms| at_ms > now_ms) {
                continue;
            }
            changes.push(Change::remove(path));
            // What has no type is of an earlier version of its standard, which has no word for this.
            if inner.get("subscriptionType").is_none() {
                continue;
            }
            events.push(Event {
                root: api.root(),
                kind: "",
                facts: Value::Null,
                body: json!({
                    "notificationType": "ExpiryNotification",
                    "timeStamp": time::stamp(now_ms),
                    "expiryDeadline": deadline,
                }),
                only: Some(path.to_owned()),
            });
        }
    }
    (changes, events)
}

/// The filters of a subscription.
fn criteria(subscription: &Value) -> impl Iterator<Item = &Value> {
    let members = subscription.as_object().into_iter().flatten();
    members
        .filter(|(name, _)| {
            name.to_ascii_lowercase().contains("criteria") || *name == "userEventPara"
        })
        .map(|(_, value)| value)
}

/// Whether facts are what a filter asks for: each of its attributes that the facts have is one of
/// theirs. What the facts do not say limits nothing.
fn fits(criteria: &Value, facts: &Value) -> bool {
    let Some(criteria) = criteria.as_object() else { return true };
    criteria.iter().all(|(name, wanted)| {
        let Some(found) = facts.get(name) else { return true };
        let (wanted, found) = (values(wanted), values(found));
        wanted.is_empty() || wanted.iter().any(|one| found.iter().any(|other| within(one, other)))
    })
}

fn values(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        value => vec![value],
    }
}

/// Whether a value has all that is wanted of it.
fn within(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(name, one)| found.get(name).is_some_and(|other| within(one, other)))
        }
        (wanted, found) => wanted == found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_ask_for_what_facts_say() {
        let facts = json!({"cell": [{"id": 1, "plmn": {"mcc": "1"}}], "status": 3});
        for (criteria, expected) in [
            (json!({}), true),
            (json!({"cell": [{"id": 2}, {"id": 1}], "status": [1, 3]}), true),
            (json!({"cell": [{"id": 1, "plmn": {"mcc": "1"}}]}), true),
            (json!({"cell": [{"id": 1, "plmn": {"mcc": "2"}}]}), false),
            (json!({"status": [1, 2]}), false),
            (json!({"status": [], "app": "x"}), true),
        ] {
            assert_eq!(fits(&criteria, &facts), expected, "{criteria}");
        }
    }
}
