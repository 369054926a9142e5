//! How often subscriptions are told: `reportingCtrl` of ETSI GS MEC 013 §6.5.14, and those that are over
//! when they were told once.

use crate::api;
use crate::notify::Notice;
use crate::tree::{Change, Tree};
use serde_json::Value;
use std::collections::BTreeMap;

/// What subscriptions with such a wish were told, since the start of this process.
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

impl Pace {
    /// The notifications that are sent, and the subscriptions that are over with them.
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
        let mut spent = Vec::new();
        notices.retain(|notice| {
            let subscription = tree.get(&notice.subscription).map(|one| api::inner(&one.value));
            let Some(wish) = subscription.and_then(wish) else { return true };
            if api::inner(&notice.body)["notificationType"] == "ExpiryNotification" {
                return true;
            }
            let past = self.0.entry(notice.subscription.clone()).or_default();
            let is_early = past.count > 0 && now_ms.saturating_sub(past.last_ms) < wish.interval_ms;
            if past.count >= wish.count_max || is_early {
                return false;
            }
            *past = Past { count: past.count + 1, last_ms: now_ms };
            if past.count == wish.count_max {
                spent.push(Change::remove(notice.subscription.as_str()));
            }
            true
        });
        (notices, spent)
    }
}
