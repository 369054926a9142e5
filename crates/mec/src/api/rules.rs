//! Traffic rules (ETSI GS MEC 011 §7.1.2.2): those of all app instances are one set for the edge
//! router.

use super::apps;
use crate::problem::Problem;
use crate::table::Segment;
use crate::tree::Tree;
use freshet_router::rule::check;
use serde_json::Value;

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

/// Checks what a rule says by itself; which apps there are the router knows.
pub(super) fn admit(value: &Value) -> Result<(), Problem> {
    let wrong = |mistakes: Vec<check::Mistake>| {
        let texts: Vec<String> =
            mistakes.iter().map(|one| one.to_string().replace("rules[0]", "the rule")).collect();
        Problem::bad_request(texts.join("; "))
    };
    check::read(Value::Array(vec![value.clone()])).map(drop).map_err(wrong)
}
