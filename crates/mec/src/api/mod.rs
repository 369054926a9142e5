//! What each interface has of its own, beyond what its table says.

mod apps;
mod dns;
mod identity;
mod location;
mod radio;
mod rules;
mod services;
mod support;

pub(crate) use apps::is_app;
pub(crate) use dns::resolve;
pub(crate) use identity::{Tags, is_tags, tags_of_clients};
pub(crate) use rules::{is_traffic_rule, traffic_rules};

use crate::client::Caller;
use crate::platform::{App, Decision, Event};
use crate::problem::Problem;
use crate::query::Selection;
use crate::radio::Radio;
use crate::table::{Route, Table, read};
use crate::tree::{Change, Changed, Tree};
use serde_json::Value;
use std::collections::BTreeMap;

/// The tables, in the order of their standards' numbers.
const TEXTS: [(&str, &str); 7] = [
    ("common", include_str!("../../api/common.api")),
    ("011-app-support", include_str!("../../api/011-app-support.api")),
    ("011-service-management", include_str!("../../api/011-service-management.api")),
    ("012-radio", include_str!("../../api/012-radio.api")),
    ("013-location", include_str!("../../api/013-location.api")),
    ("014-identity", include_str!("../../api/014-identity.api")),
    ("platform", include_str!("../../api/platform.api")),
];

/// All interfaces.
pub(crate) fn table() -> Table {
    read(&TEXTS).expect("the tables are part of the program, and tested")
}

/// What a request is decided on.
pub(crate) struct Stage<'a> {
    pub(crate) tree: &'a Tree,
    /// What the radio network told last.
    pub(crate) radio: &'a Radio,
    /// Which clients the operator's tags are of.
    pub(crate) tags: &'a Tags,
    /// Where clients reach the platform.
    pub(crate) url: &'a str,
    pub(crate) route: &'a Route<'a>,
    pub(crate) caller: &'a Caller,
    pub(crate) selection: &'a Selection,
    /// A name unlike any other.
    pub(crate) fresh: &'a str,
    pub(crate) now_ms: u64,
}

impl Stage<'_> {
    /// The interface and the last word of the path, which say what is meant.
    fn place(&self) -> (&str, &str) {
        let words = self.route.resource.segments.iter().rev();
        let word = words.filter_map(|segment| match segment {
            crate::table::Segment::Word(word) => Some(word.as_str()),
            crate::table::Segment::Name(_) => None,
        });
        (&self.route.api.name, word.into_iter().next().unwrap_or_default())
    }

    /// The app instance of the path.
    fn app(&self) -> &str {
        self.route.name("appInstanceId").unwrap_or_default()
    }
}

/// Documents that are there from the beginning: apps of the configuration, transports and the
/// platform's own services.
pub(crate) fn begin(
    tree: &Tree,
    table: &Table,
    url: &str,
    apps: &BTreeMap<String, App>,
) -> Result<Vec<Change>, String> {
    let mut changes = apps::begin(tree, apps)?;
    changes.extend(services::begin(tree, table, url));
    Ok(changes)
}

/// Whether the app instance of a path has to be there: not where it is about to be made.
pub(crate) fn needs_app(route: &Route<'_>) -> bool {
    route.template_has("applications") || route.template_has("ue_identity_tag_info")
}

/// Acts of an interface's own.
pub(crate) fn own(name: &str, stage: &Stage<'_>, body: Option<Value>) -> Result<Decision, Problem> {
    let body = body.unwrap_or_default();
    if matches!(stage.route.api.name.as_str(), "rni" | "location") {
        radio::needed(stage)?;
    }
    match name {
        "rab_info" => Ok(radio::rab_info(stage)),
        "plmn_info" => Ok(radio::plmn_info(stage)),
        "s1_bearer_info" => Ok(radio::s1_bearer_info(stage)),
        "layer2_meas" => Ok(radio::layer2_meas(stage)),
        "users" => Ok(location::users(stage)),
        "zones" => Ok(location::zones(stage)),
        "zone" => location::zone(stage),
        "access_points" => location::access_points(stage),
        "access_point" => location::access_point(stage),
        "distance" => location::distance(stage),
        "tags" => identity::tags(stage),
        "register_tags" => identity::register(stage, &body),
        "radio" => radio::report(stage),
        "feed" => radio::feed(body),
        "timing_caps" => Ok(support::timing_caps(stage)),
        "current_time" => Ok(support::current_time(stage)),
        "confirm_ready" => apps::confirm_ready(stage, &body),
        "confirm_termination" => apps::confirm_termination(stage, &body),
        "terminate" => apps::terminate(stage, &body),
        "liveness" => services::liveness(stage),
        "live" => services::live(stage, &body),
        other => Err(Problem::new(500, format!("nothing does `{other}`"))),
    }
}

/// The name of a document that is made, where it is not a fresh one.
pub(crate) fn id(stage: &Stage<'_>, value: &Value) -> Option<String> {
    match stage.place() {
        ("mec_app_support", "registrations") => apps::id(stage, value),
        _ => None,
    }
}

/// Checks what types cannot say, fills in what the platform gives, and says what changes besides.
/// `old` is what was there.
pub(crate) fn admit(
    stage: &Stage<'_>,
    path: &str,
    value: &mut Value,
    old: Option<&Value>,
) -> Result<Vec<Change>, Problem> {
    match stage.place() {
        ("mec_app_support", "registrations") => return apps::register(stage, value, old),
        ("mec_app_support", "traffic_rules") => rules::admit(value)?,
        ("mec_app_support", "dns_rules") => dns::admit(value)?,
        ("mec_app_support", "subscriptions") => support::admit_subscription(stage, value),
        ("mec_service_mgmt", "services") => services::admit(stage, path, value)?,
        _ => {}
    }
    Ok(Vec::new())
}

/// What goes with a document that is removed.
pub(crate) fn removed(stage: &Stage<'_>, _: &str) -> Result<Vec<Change>, Problem> {
    match stage.place() {
        ("mec_app_support", "registrations") => Ok(apps::gone(stage.tree, stage.app())),
        _ => Ok(Vec::new()),
    }
}

/// What subscribers may want to know of a change.
pub(crate) fn events(tree: &Tree, change: &Changed, url: &str, now_ms: u64) -> Vec<Event> {
    let mut events = services::events(tree, change, url);
    events.extend(apps::events(change, url, now_ms));
    events
}

/// What subscribers may want to know of a report of the radio network.
pub(crate) fn reported(old: &Radio, new: &Radio, now_ms: u64) -> Vec<Event> {
    let mut events = radio::events(old, new, now_ms);
    events.extend(location::events(old, new, now_ms));
    events
}

/// What is due by time.
pub(crate) fn due(tree: &Tree, now_ms: u64) -> (Vec<Change>, Vec<Event>) {
    let mut changes = services::due(tree, now_ms);
    changes.extend(apps::due(tree, now_ms));
    (changes, Vec::new())
}

/// What a body is about: itself, or the one object it is around.
pub(crate) fn inner(value: &Value) -> &Value {
    match around(value) {
        Some(name) => &value[&name],
        None => value,
    }
}

/// As [`inner`].
pub(crate) fn inner_mut(value: &mut Value) -> &mut Value {
    match around(value) {
        Some(name) => &mut value[&name],
        None => value,
    }
}

/// The one member of a body that is around another (ETSI GS MEC 013 writes its bodies so).
fn around(value: &Value) -> Option<String> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    let (name, inner) = members.iter().next()?;
    let is_body =
        inner.get("subscriptionType").is_some() || inner.get("notificationType").is_some();
    is_body.then(|| name.clone())
}

/// Where a subscription's notifications go.
pub(crate) fn callback(value: &Value) -> Option<&str> {
    inner(value).get("callbackReference")?.as_str()
}
