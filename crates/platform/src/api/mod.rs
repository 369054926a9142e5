//! What each interface has of its own, beyond what its table says.

mod apps;
mod bandwidth;
mod claims;
mod defaults;
mod devices;
mod dns;
mod feeds;
mod fixed;
mod identity;
pub(crate) mod instances;
mod location;
mod mobility;
mod packages;
mod radio;
mod rules;
mod services;
mod support;
mod vehicles;
mod verification;
mod wlan;

pub(crate) use apps::{decides_rules, is_app, states as app_states};
pub(crate) use bandwidth::{Share, apps_with, bounds, is_allocation, shares};
pub(crate) use dns::resolve;
pub(crate) use feeds::{List, Reports, mistakes_of_report};
pub(crate) use identity::{is_tags, tags_of_clients};
pub(crate) use packages::{onboarded, package, packages};
pub(crate) use rules::{is_traffic_rule, limits, traffic_rules};
pub(crate) use services::{is_service, offer, registered};

use crate::client::Caller;
use crate::platform::{Answer, Decision, Event, Setup, Told};
use freshet_documents::problem::Problem;
use freshet_documents::query::Selection;
use freshet_documents::table::{Route, Table, read};
use freshet_documents::tree::{Change, Changed, Tree};
use freshet_radio::Radio;
use freshet_radio::position::Positions;
use serde_json::Value;

/// The tables, in the order of their standards' numbers, then those that are not ETSI's.
const TEXTS: [(&str, &str); 24] = [
    ("common", include_str!("../../api/common.api")),
    ("location-types", include_str!("../../api/location-types.api")),
    ("wlan-types", include_str!("../../api/wlan-types.api")),
    ("fixed-types", include_str!("../../api/fixed-types.api")),
    ("v2x-types", include_str!("../../api/v2x-types.api")),
    ("010-packages", include_str!("../../api/010-packages.api")),
    ("010-life-cycle", include_str!("../../api/010-life-cycle.api")),
    ("010-grants", include_str!("../../api/010-grants.api")),
    ("011-app-support", include_str!("../../api/011-app-support.api")),
    ("011-service-management", include_str!("../../api/011-service-management.api")),
    ("012-radio", include_str!("../../api/012-radio.api")),
    ("013-location", include_str!("../../api/013-location.api")),
    ("013-location-v2", include_str!("../../api/013-location-v2.api")),
    ("014-identity", include_str!("../../api/014-identity.api")),
    ("015-bandwidth", include_str!("../../api/015-bandwidth.api")),
    ("015-steering", include_str!("../../api/015-steering.api")),
    ("016-device-apps", include_str!("../../api/016-device-apps.api")),
    ("021-mobility", include_str!("../../api/021-mobility.api")),
    ("028-wlan", include_str!("../../api/028-wlan.api")),
    ("029-fixed", include_str!("../../api/029-fixed.api")),
    ("030-v2x", include_str!("../../api/030-v2x.api")),
    ("location-verification", include_str!("../../api/location-verification.api")),
    ("claims", include_str!("../../api/claims.api")),
    ("platform", include_str!("../../api/platform.api")),
];

/// All interfaces.
pub fn table() -> Table {
    read(&TEXTS).expect("the tables are part of the program, and tested")
}

/// What a request is decided on.
pub(crate) struct Stage<'a> {
    pub(crate) tree: &'a Tree,
    /// What the radio network told last.
    pub(crate) radio: &'a Radio,
    /// Where clients are.
    pub(crate) positions: &'a Positions,
    /// What other networks told last.
    pub(crate) reports: &'a Reports,
    /// What the operator says.
    pub(crate) setup: &'a Setup,
    /// Where clients reach the platform.
    pub(crate) url: &'a str,
    pub(crate) route: &'a Route<'a>,
    pub(crate) caller: &'a Caller,
    pub(crate) selection: &'a Selection,
    /// A name unlike any other.
    pub(crate) fresh: &'a str,
    pub(crate) now_ms: u64,
}

/// What there is, whoever asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stand<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) radio: &'a Radio,
    pub(crate) reports: &'a Reports,
    pub(crate) setup: &'a Setup,
}

impl Stage<'_> {
    /// The interface and the last word of the path, which say what is meant.
    fn place(&self) -> (&str, &str) {
        let words = self.route.resource.segments.iter().rev();
        let word = words.filter_map(|segment| match segment {
            freshet_documents::table::Segment::Word(word) => Some(word.as_str()),
            freshet_documents::table::Segment::Name(_) => None,
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
pub(crate) fn begin(tree: &Tree, table: &Table, setup: &Setup) -> Result<Vec<Change>, String> {
    let mut changes = apps::begin(tree, table, setup)?;
    changes.extend(services::begin(tree, table, &setup.url));
    Ok(changes)
}

/// Whether the app instance of a path has to be there: not where it is about to be made.
pub(crate) fn needs_app(route: &Route<'_>) -> bool {
    route.template_has("applications") || route.template_has("ue_identity_tag_info")
}

/// Acts of an interface's own.
pub(crate) fn own(name: &str, stage: &Stage<'_>, body: &Value) -> Result<Decision, Problem> {
    match stage.route.api.name.as_str() {
        "app_pkgm" => packages::own(name, stage, body),
        "app_lcm" => instances::own(name, stage, body),
        "granting" => instances::grant(stage, body),
        "rni" => radio::own(name, stage),
        "location" => location::own(name, stage),
        "location-verification" => verification::verify(stage, body),
        "claims" => claims::own(name, stage, body),
        "ui" => identity::own(name, stage, body),
        "mts" => Ok(bandwidth::capabilities(stage)),
        "dev_app" if name == "app_list" => Ok(devices::list(stage)),
        "dev_app" => devices::locations(stage, body),
        "amsi" if name == "deregister" => mobility::deregister(stage),
        "amsi" => Ok(mobility::user_defined(stage, body)),
        "wai" => Ok(wlan::measurements(stage)),
        "vis" => vehicles::own(name, stage, body),
        "mec_service_mgmt" if name == "liveness" => services::liveness(stage),
        "mec_service_mgmt" => services::live(stage, body),
        "mec_app_support" => support::own(name, stage, body),
        _ => match (name, stage.place().1) {
            ("terminate", _) => apps::terminate(stage, body),
            // The text is not made of what is decided on.
            ("metrics", _) => Ok(Answer { status: 200, ..Answer::default() }.into()),
            ("report", "radio") => radio::last(stage),
            ("feed", "radio") => radio::feed(body),
            ("report", _) => feeds::report(stage),
            _ => Ok(feeds::feed(stage, body)),
        },
    }
}

/// A problem as the standard of a request's interface has it.
pub(crate) fn worded(target: &str, problem: Problem) -> Problem {
    if problem.code.is_some() || !target.starts_with("/location-verification/") {
        return problem;
    }
    let code = verification::code(problem.status);
    problem.coded(code)
}

/// A list that is not kept here.
pub(crate) fn told<'a>(name: &str, stage: &'a Stage<'_>) -> Result<List<'a>, Problem> {
    if name == "adjacent" {
        let documents = mobility::adjacent(&stage.setup.host);
        let documents = documents.into_iter().map(std::borrow::Cow::Owned).collect();
        return Ok(List { documents, source: None });
    }
    feeds::list(stage, name)
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
        ("app_pkgm", "onboarded_app_packages") => packages::admit(stage, value)?,
        ("app_lcm", "subscriptions") => {
            instances::admit_subscription(stage.caller.app.is_some())?;
        }
        ("amsi" | "fai" | "rni", "subscriptions") => defaults::fill(value),
        ("amsi", "app_mobility_services") => return mobility::admit(stage, path, value),
        ("mec_app_support", "traffic_rules") => rules::admit(stage, value, old)?,
        ("mec_app_support", "dns_rules") => dns::admit(stage, value, old)?,
        ("mec_app_support", "subscriptions") => support::admit_subscription(stage, value),
        ("mec_service_mgmt", "services") => return services::admit(stage, path, value),
        ("location", _) => location::admit(stage, path, value)?,
        ("bwm", _) => bandwidth::admit(stage, path, value)?,
        ("mts", _) => bandwidth::admit_session(stage, value)?,
        ("dev_app", _) => devices::admit(stage, value)?,
        ("wai", "measurements") => wlan::admit_measurement(stage, path, value),
        _ => {}
    }
    Ok(Vec::new())
}

/// What goes with a document that is removed.
pub(crate) fn removed(stage: &Stage<'_>, path: &str) -> Result<Vec<Change>, Problem> {
    match stage.place() {
        ("mec_app_support", "registrations") => Ok(apps::deregistered(stage)),
        ("app_pkgm", "onboarded_app_packages") => packages::removed(stage.tree, path),
        ("app_lcm", "app_instances") => instances::removed(stage),
        _ => Ok(Vec::new()),
    }
}

/// What subscribers may want to know of a change.
pub(crate) fn events(stand: Stand<'_>, change: &Changed, now_ms: u64) -> Vec<Event> {
    let url = &stand.setup.url;
    let mut events = services::events(stand.tree, change, url);
    events.extend(apps::events(change, url, now_ms));
    events.extend(mobility::completed(change, now_ms));
    events.extend(packages::events(stand.tree, change, url, now_ms));
    events.extend(instances::events(stand.tree, change, url, now_ms));
    if let (None, Some(new)) = (&change.old, &change.new) {
        events.extend(location::immediately(&change.path, new, url, stand.radio, now_ms));
    }
    events
}

/// What subscribers may want to know of a report of a network.
pub(crate) fn reported(stand: Stand<'_>, told: &Told, now_ms: u64) -> Vec<Event> {
    let Stand { tree, radio: old, reports, setup } = stand;
    match told {
        Told::Radio(new) => {
            let mut events = radio::events(old, new, now_ms);
            events.extend(location::events(tree, &setup.url, old, new, now_ms));
            events.extend(mobility::events(tree, &setup.host, old, new, now_ms));
            events
        }
        // Held against the next report.
        Told::Claim { .. } => Vec::new(),
        Told::Other(name, new) => feeds::events(tree, name, reports.get(name), new, now_ms),
    }
}

/// What is due by time: what became so after `since_ms`, and not after now.
pub(crate) fn due(stand: Stand<'_>, since_ms: u64, now_ms: u64) -> (Vec<Change>, Vec<Event>) {
    let Stand { tree, radio, reports, setup } = stand;
    let mut changes = services::due(tree, now_ms);
    changes.extend(apps::due(tree, now_ms));
    changes.extend(mobility::due(tree, now_ms));
    let (more, mut events) = devices::due(tree, &setup.host);
    changes.extend(more);
    events.extend(location::due(tree, &setup.url, radio, since_ms, now_ms));
    events.extend(wlan::due(tree, reports.get("wlan"), since_ms, now_ms));
    (changes, events)
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
    let is_body = ["subscriptionType", "notificationType", "callbackReference"]
        .iter()
        .any(|word| inner.get(word).is_some());
    is_body.then(|| name.clone())
}

/// Where a subscription's notifications go.
pub(crate) fn callback(value: &Value) -> Option<&str> {
    let inner = inner(value);
    // ETSI GS MEC 010-2 has another word for it, and MEC 013 had an object around it once.
    let reference = inner.get("callbackReference").or_else(|| inner.get("callbackUri"))?;
    reference.get("notifyURL").unwrap_or(reference).as_str()
}
