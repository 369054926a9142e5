//! How often subscriptions are told: `reportingCtrl` of ETSI GS MEC 013 §6.5.14, and those that are over
//! when they were told once.

use crate::api;
use crate::notify::Notice;
use freshet_documents::tree::{Change, Tree, escape};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Below it is written down how often subscriptions were told that are over some time.
const ROOT: &str = "/told/";

/// What subscriptions with such a wish were told.
#[derive(Debug, Default)]
pub(super) struct Pace(BTreeMap<String, Past>);

#[derive(Clone, Copy, Debug, Default)]
struct Past {
    count: u64,
    last_ms: u64,
}

/// What a subscription wishes.
struct Wish {
    count_max: u64,
    interval_ms: u64,
}

fn wish(subscription: &Value) -> Option<Wish> {
    let control = &subscription["reportingCtrl"];
    let number = |name: &str| control[name].as_u64().unwrap_or(0);
    let is_once = subscription["userEventPara"]["occurrenceInfo"] == "ONE_TIME_EVENT";
    let count_max = match number("maximumCount") {
        _ if is_once => 1,
        0 => u64::MAX,
        count => count,
    };
    // Both are seconds between two notifications, by their descriptions.
    let interval_s = number("minimumInterval").max(number("maximumFrequency"));
    (count_max != u64::MAX || interval_s > 0)
        .then_some(Wish { count_max, interval_ms: interval_s.saturating_mul(1000) })
}

impl Past {
    /// What was written down.
    fn of(tree: &Tree, subscription: &str) -> Self {
        let known = tree.get(&place(subscription)).map(|one| &one.value);
        let number = |name: &str| known.and_then(|known| known[name].as_u64()).unwrap_or(0);
        Self { count: number("count"), last_ms: number("lastMs") }
    }
}

/// Where it is written down.
fn place(subscription: &str) -> String {
    format!("{ROOT}{}", escape(subscription))
}

/// Has what was written down of subscriptions go with them.
pub(super) fn forget(tree: &Tree, changes: &mut Vec<Change>) {
    let is_gone =
        |change: &&Change| change.value.is_none() && change.path.contains("/subscriptions/");
    let gone: Vec<String> = changes.iter().filter(is_gone).map(|one| place(&one.path)).collect();
    if gone.is_empty() {
        return;
    }
    changes.retain(|change| !gone.contains(&change.path));
    changes.extend(gone.into_iter().filter(|path| tree.get(path).is_some()).map(Change::remove));
}

impl Pace {
    /// The notifications that are sent, and what is written down with them: how often, or that the subscription
    /// is over.
    pub(super) fn admit(
        &mut self,
        tree: &Tree,
        mut notices: Vec<Notice>,
        now_ms: u64,
    ) -> (Vec<Notice>, Vec<Change>) {
        if notices.is_empty() {
            return (notices, Vec::new());
        }
        self.0.retain(|path, _| tree.get(path).is_some());
        let mut changes = BTreeMap::new();
        notices.retain(|notice| {
            let subscription = tree.get(&notice.subscription).map(|one| api::inner(&one.value));
            let Some(wish) = subscription.and_then(wish) else { return true };
            if api::inner(&notice.body)["notificationType"] == "ExpiryNotification" {
                return true;
            }
            let path = &notice.subscription;
            let past = self.0.entry(path.clone()).or_insert_with(|| Past::of(tree, path));
            // A clock that was set back says nothing of how long ago it was.
            let ago_ms = now_ms.checked_sub(past.last_ms);
            let is_early = past.count > 0 && ago_ms.is_some_and(|ago| ago < wish.interval_ms);
            if past.count >= wish.count_max || is_early {
                return false;
            }
            *past = Past { count: past.count + 1, last_ms: now_ms };
            if past.count == wish.count_max {
                changes.insert(path.clone(), Change::remove(path.as_str()));
            } else if wish.count_max != u64::MAX {
                let told = json!({ "count": past.count, "lastMs": past.last_ms });
                changes.insert(path.clone(), Change::put(place(path), told, None));
            }
            true
        });
        (notices, changes.into_values().collect())
    }
}
