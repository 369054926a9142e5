//! Traffic rules (ETSI GS MEC 011 §7.1.2.2): those of all app instances are one set for the edge
//! router.

use super::{Stage, apps};
use freshet_documents::problem::Problem;
use freshet_documents::table::Segment;
use freshet_documents::tree::Tree;
use freshet_router::app::Apps;
use freshet_router::rule::AddressRange;
use freshet_router::rule::check::{self, Mistake};
use freshet_router::rule::name::Names;
use freshet_router::rule::wire::{State, TrafficFilter, TrafficRule};
use serde::Deserialize;
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
        let mut parts = path.rsplit('/').map(freshet_documents::query::decode);
        let (id, app) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
        if !apps::is_in_force(tree, &app) {
            rule["state"] = "INACTIVE".into();
        }
        rule["trafficRuleId"] = id_at_router(&app, &id).into();
        rule
    });
    rules.collect()
}

/// Rates that the edge router holds rules to: those of an app together to what the app may get from clients, and some
/// of their packets to what is for these.
pub(crate) fn limits(tree: &Tree) -> Value {
    let pattern = pattern();
    let bounds = super::bounds(tree);
    let of_app = |app: String| {
        let own = [("appInstanceId", app.clone())];
        let ids = tree.matching(ROOT, &pattern, &own).map(|(path, _)| {
            let id =
                path.rsplit('/').next().map(freshet_documents::query::decode).unwrap_or_default();
            id_at_router(&app, &id)
        });
        let rules: Vec<String> = ids.collect();
        let held = |bits: u64| (bits <= RATES[1]).then_some(bits.max(RATES[0]));
        let all = bounds.get(&app).and_then(|[_, from_clients]| *from_clients).and_then(held);
        let all = all.map(|bits| json!({ "rules": rules, "bits_per_second": bits }));
        let some = super::shares(tree, &app, "").filter_map(|share| {
            let bits = held(share.bits).filter(|_| share.directions[1])?;
            Some(json!({ "rules": rules, "filter": share.filter, "bits_per_second": bits }))
        });
        let limits: Vec<Value> = some.chain(all).collect();
        if rules.is_empty() { Vec::new() } else { limits }
    };
    super::apps_with(tree).into_iter().flat_map(of_app).collect()
}

/// Addresses that packets for an app go to, by its rules: its own, and those that it answers for.
pub(super) fn addresses(tree: &Tree, app: &str) -> Vec<AddressRange> {
    let own = [("appInstanceId", app.to_owned())];
    let pattern = pattern();
    let rules = tree.matching(ROOT, &pattern, &own);
    let rules = rules.filter_map(|(_, rule)| TrafficRule::deserialize(&rule.value).ok());
    let named = rules.flat_map(|rule| {
        let leads = rule.dst_interface.into_iter().filter_map(|one| one.dst_ip_address);
        let filters = rule.traffic_filter.into_iter().flat_map(|one| one.dst_address);
        leads.chain(filters).collect::<Vec<_>>()
    });
    // Rules may have names, which are no addresses yet.
    let read = |text: String| {
        let filter = TrafficFilter { dst_address: vec![text], ..TrafficFilter::default() };
        check::parts(&[filter], "").unwrap_or_default()
    };
    named.flat_map(read).flat_map(|filter| filter.addresses[1].clone()).collect()
}

/// A rule of an app instance as the router names it.
fn id_at_router(app: &str, id: &str) -> String {
    format!("{app}/{id}")
}

/// What is wrong with rules of an app instance: all that the router would refuse, whose set one mistake spoils for
/// every app. Which apps packets can be led to, and whether it resolves names, it knows alone.
pub(super) fn mistakes(app: &str, rules: &[Value]) -> Vec<Mistake> {
    let names = Names { has_resolver: true, ..Names::default() };
    let checked = check::read(rules.iter().cloned().collect()).and_then(|mut rules| {
        for rule in &mut rules {
            // The app of a rule that is not active need not be there.
            rule.state = State::Inactive;
            if !rule.traffic_rule_id.is_empty() {
                rule.traffic_rule_id = id_at_router(app, &rule.traffic_rule_id);
            }
        }
        check::check(&rules, &Apps::default(), &names)
    });
    checked.err().unwrap_or_default()
}

/// Where a mistake is in a list of rules, as a JSON pointer (RFC 6901).
pub(super) fn pointer(mistake: &Mistake) -> String {
    let steps = mistake.place.strip_prefix("rules").unwrap_or_default();
    steps.replace(['[', '.'], "/").replace(']', "")
}

/// Checks a rule that takes another's place.
pub(super) fn admit(stage: &Stage<'_>, value: &Value, old: Option<&Value>) -> Result<(), Problem> {
    let mistakes = mistakes(stage.app(), std::slice::from_ref(value));
    if !mistakes.is_empty() {
        let text = |one: &Mistake| match pointer(one).strip_prefix("/0") {
            None | Some("") => format!("the rule: {}", one.what),
            Some(place) => format!("{place}: {}", one.what),
        };
        return Err(Problem::bad_request(mistakes.iter().map(text).collect::<Vec<_>>().join("; ")));
    }
    // However it is written: one interface is a list of one.
    let plain = |rule: &Value| {
        let read: Option<TrafficRule> = serde_json::from_value(rule.clone()).ok();
        let written = read.and_then(|rule| serde_json::to_value(rule).ok());
        written.unwrap_or_else(|| rule.clone())
    };
    old.map_or(Ok(()), |old| apps::may_change_rule(stage, &plain(old), &plain(value)))
}
