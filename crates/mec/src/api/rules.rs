//! Traffic rules (ETSI GS MEC 011 §7.1.2.2): those of all app instances are one set for the edge
//! router.

use super::apps;
use crate::problem::Problem;
use crate::table::Segment;
use crate::tree::Tree;
use freshet_router::rule::check;
use serde_json::{Value, json};

/// Rates that the edge router can hold, in bits per second: less is as good as nothing, and more as no bound.
const RATES: [u64; 2] = [1000, 1_000_000_000_000];
/// Where they are.
const ROOT: &str = "/mec_app_support/v1";

fn pattern() -> Vec<Segment> {
    let word = |text: &str| Segment::Word(text.to_owned());
    let name = |text: &str| Segment::Name(text.to_owned());
    vec![word("applications"), name("appInstanceId"), word("traffic_rules"), name("trafficRuleId")]
}

/// Whether a path is that of a traffic rule.
pub(crate) fn is_traffic_rule(path: &str) -> bool {
    let parts = path.strip_prefix(ROOT).and_then(|rest| rest.strip_prefix('/'));
    parts.is_some_and(|rest| {
        let parts: Vec<&str> = rest.split('/').collect();
        matches!(parts[..], ["applications", _, "traffic_rules", _])
    })
}

/// All of them, each named after its app instance and itself.
pub(crate) fn traffic_rules(tree: &Tree) -> Value {
    let pattern = pattern();
    let rules = tree.matching(ROOT, &pattern, &[]).map(|(path, document)| {
        let mut rule = document.value.clone();
        let mut parts = path.rsplit('/').map(crate::query::decode);
        let (id, app) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
        if !apps::is_in_force(tree, &app) {
            rule["state"] = "INACTIVE".into();
        }
        rule["trafficRuleId"] = format!("{app}/{id}").into();
        rule
    });
    rules.collect()
}

/// Rates that the edge router holds rules to: those of an app together to what the app may get from clients.
pub(crate) fn limits(tree: &Tree) -> Value {
    let pattern = pattern();
    let of_app = |(app, [_, from_clients]): (String, [Option<u64>; 2])| {
        let own = [("appInstanceId", app.clone())];
        let ids = tree.matching(ROOT, &pattern, &own).map(|(path, _)| {
            let id = path.rsplit('/').next().map(crate::query::decode).unwrap_or_default();
            format!("{app}/{id}")
        });
        let rules: Vec<String> = ids.collect();
        let bits_per_second = from_clients.filter(|bits| *bits <= RATES[1])?.max(RATES[0]);
        (!rules.is_empty()).then(|| json!({ "rules": rules, "bits_per_second": bits_per_second }))
    };
    super::bounds(tree).into_iter().filter_map(of_app).collect()
}

/// Checks what a rule says by itself; which apps there are the router knows.
pub(super) fn admit(value: &Value) -> Result<(), Problem> {
    let wrong = |mistakes: Vec<check::Mistake>| {
        let texts: Vec<String> =
            mistakes.iter().map(|one| one.to_string().replace("rules[0]", "the rule")).collect();
        Problem::bad_request(texts.join("; "))
    };
    check::read(Value::Array(vec![value.clone()])).map(drop).map_err(wrong)
}
