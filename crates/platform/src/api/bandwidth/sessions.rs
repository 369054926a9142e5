//! Sessions that an allocation is for (ETSI GS MEC 015 §7.2.2, SessionFilter): some of an app's traffic.

use super::super::rules;
use super::{OF_SOME, ROOT, bits, directions};
use freshet_apps::limits::{SESSION_FILTERS_PER_APP_MAX, SESSION_PORTS_MAX};
use freshet_documents::problem::Problem;
use freshet_documents::tree::Tree;
use freshet_router::rule::check::{self, Mistake};
use freshet_router::rule::wire::TrafficFilter;
use freshet_router::rule::{AddressRange, Filter};
use serde_json::Value;

/// What some of an app's traffic may have.
#[derive(Debug)]
pub(crate) struct Share {
    /// Which traffic: what any of these accepts, whichever way it goes.
    pub(crate) filter: Vec<TrafficFilter>,
    /// Bits per second.
    pub(crate) bits: u64,
    /// Whether it is for what goes to clients, and for what comes from them.
    pub(crate) directions: [bool; 2],
}

/// The allocations for some of an app's traffic, where packets can be of it, but for the one at `path`.
pub(crate) fn shares<'a>(
    tree: &'a Tree,
    app: &'a str,
    path: &'a str,
) -> impl Iterator<Item = Share> + 'a {
    let of_app = tree.below(ROOT).filter(move |(other, document)| {
        let value = &document.value;
        *other != path && value["appInsId"] == app && value["requestType"] == OF_SOME
    });
    of_app.filter_map(|(_, document)| {
        let value = &document.value;
        let filter = read(&value["sessionFilter"]).ok().filter(|filter| !filter.is_empty())?;
        Some(Share { filter, bits: bits(value)?, directions: directions(value) })
    })
}

/// Checks the sessions of an allocation: packets can be told apart by them, and none is of two allocations.
pub(super) fn admit(tree: &Tree, path: &str, value: &Value) -> Result<(), Problem> {
    let filter = read(&value["sessionFilter"])?;
    let app = value["appInsId"].as_str().unwrap_or_default();
    let others: Vec<Share> = shares(tree, app, path).collect();
    let many = filter.len() + others.iter().map(|share| share.filter.len()).sum::<usize>();
    if many > SESSION_FILTERS_PER_APP_MAX {
        return Err(Problem::forbidden(format!(
            "the app's allocations have {many} filters; {SESSION_FILTERS_PER_APP_MAX} are the most"
        )));
    }
    let read = |filter: &[TrafficFilter]| check::parts(filter, "").unwrap_or_default();
    let own = read(&filter);
    let ours = directions(value);
    let of_app = rules::addresses(tree, app);
    let meet = others
        .iter()
        .filter(|share| ours.iter().zip(share.directions).any(|(ours, theirs)| *ours && theirs));
    let is_shared = meet
        .flat_map(|share| read(&share.filter))
        .any(|other| own.iter().any(|one| meet_at_app(one, &other, &of_app)));
    if is_shared {
        return Err(Problem::forbidden(
            "/sessionFilter: another allocation of the app is for some of these sessions",
        ));
    }
    Ok(())
}

/// Whether sessions of an app agree with both filters, whichever way they go. Where both say which end is the app's, what
/// they have in common the other way round is between two clients.
fn meet_at_app(one: &Filter, other: &Filter, of_app: &[AddressRange]) -> bool {
    let sides = [one, other].map(|filter| side_of_app(filter, of_app));
    let may_be = |is_reversed: bool| match sides {
        [Some(one), Some(other)] => (one == other) != is_reversed,
        _ => true,
    };
    may_be(false) && one.and(other).is_some()
        || may_be(true) && one.and(&other.reversed()).is_some()
}

/// Which end of a filter's sessions is the app's, of source and destination: the one with its address, or the one
/// without an address, as the other is the client's. None where the filter does not say.
fn side_of_app(filter: &Filter, of_app: &[AddressRange]) -> Option<usize> {
    let is_within = |range: &AddressRange| {
        of_app.iter().any(|own| own.contains(range.first) && own.contains(range.last))
    };
    let is_app = |side: &[AddressRange]| !side.is_empty() && side.iter().all(is_within);
    let [source, destination] = &filter.addresses;
    match (is_app(source), is_app(destination)) {
        (true, false) => Some(0),
        (false, true) => Some(1),
        _ if !source.is_empty() && destination.is_empty() => Some(1),
        _ if source.is_empty() && !destination.is_empty() => Some(0),
        _ => None,
    }
}

/// Filters of packets. A session that is named by what is no address is one that no packet is of.
fn read(sessions: &Value) -> Result<Vec<TrafficFilter>, Problem> {
    let mut filters = Vec::new();
    for (number, session) in sessions.as_array().into_iter().flatten().enumerate() {
        let texts = |name: &str| -> Vec<String> {
            match &session[name] {
                Value::Array(list) => {
                    list.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
                }
                one => one.as_str().map(str::to_owned).into_iter().collect(),
            }
        };
        let filter = TrafficFilter {
            src_address: texts("sourceIp"),
            src_port: texts("sourcePort"),
            dst_address: texts("dstAddress"),
            dst_port: texts("dstPort"),
            protocol: texts("protocol"),
            ..TrafficFilter::default()
        };
        let place = format!("/sessionFilter/{number}");
        if filter.src_port.len().max(filter.dst_port.len()) > SESSION_PORTS_MAX {
            return Err(Problem::bad_request(format!(
                "{place}: {SESSION_PORTS_MAX} ports are the most on a side"
            )));
        }
        let mut addresses = filter.src_address.iter().chain(&filter.dst_address);
        if let Some(range) = addresses.clone().find(|text| text.contains('-')) {
            return Err(Problem::bad_request(format!(
                "{place}: `{range}` is no address, and no prefix"
            )));
        }
        // An identity of another kind.
        let is_of_packets = addresses.all(|text| text.contains(['.', ':', '/']));
        let checked = if is_of_packets {
            filter.clone()
        } else {
            TrafficFilter { src_address: Vec::new(), dst_address: Vec::new(), ..filter.clone() }
        };
        let is_named_otherwise = !is_of_packets && checked == TrafficFilter::default();
        if !is_named_otherwise && let Err(mistakes) = check::parts(&[checked], "") {
            let texts = mistakes.iter().map(|one| format!("{place}{}", said(one)));
            return Err(Problem::bad_request(texts.collect::<Vec<_>>().join("; ")));
        }
        if is_of_packets {
            filters.push(filter);
        }
    }
    Ok(filters)
}

/// A mistake by the names that members have here.
fn said(mistake: &Mistake) -> String {
    let field = mistake.place.split(['.', '[', ']']).find_map(|name| match name {
        "srcAddress" => Some("sourceIp"),
        "srcPort" => Some("sourcePort"),
        "dstAddress" | "dstPort" | "protocol" => Some(name),
        _ => None,
    });
    field.map(|field| format!("/{field}")).unwrap_or_default() + ": " + &mistake.what
}
