//! DNS rules (ETSI GS MEC 011 §7.1.2.3): names that have another address at this edge.

use super::{Stage, apps};
use crate::platform::Resolved;
use freshet_documents::problem::Problem;
use freshet_documents::table::Segment;
use freshet_documents::tree::{Document, Tree};
use serde_json::Value;
use std::net::IpAddr;

const ROOT: &str = "/mec_app_support/v1";
/// How long an answer holds where its rule says nothing, in seconds.
const TTL_S: u32 = 60;

/// Checks a rule that takes another's place.
pub(super) fn admit(stage: &Stage<'_>, value: &Value, old: Option<&Value>) -> Result<(), Problem> {
    check(value)?;
    old.map_or(Ok(()), |old| apps::may_change_rule(stage, old, value))
}

/// Checks that the name is one, and the address of its kind.
pub(super) fn check(value: &Value) -> Result<(), Problem> {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let name = text("domainName").trim_end_matches('.');
    if !freshet_router::dns::is_name(name) {
        return Err(Problem::bad_request(format!("/domainName: `{name}` is no name of a host")));
    }
    let is_v6 = text("ipAddressType") == "IP_V6";
    match text("ipAddress").parse::<IpAddr>() {
        Ok(address) if address.is_ipv6() == is_v6 => Ok(()),
        Ok(_) => Err(Problem::bad_request("/ipAddress is not of the kind that ipAddressType says")),
        Err(_) => Err(Problem::bad_request("/ipAddress is no address")),
    }
}

/// The address an active rule gives a name.
pub(crate) fn resolve(tree: &Tree, name: &str, is_v6: bool) -> Option<Resolved> {
    let word = |text: &str| Segment::Word(text.to_owned());
    let part = |text: &str| Segment::Name(text.to_owned());
    let pattern =
        [word("applications"), part("appInstanceId"), word("dns_rules"), part("dnsRuleId")];
    let of_name = tree.matching(ROOT, &pattern, &[]).filter(|(path, document)| {
        let rule = &document.value;
        let known = rule["domainName"].as_str().unwrap_or_default().trim_end_matches('.');
        let app = path.rsplit('/').nth(2).map(freshet_documents::query::decode).unwrap_or_default();
        rule["state"] == "ACTIVE"
            && known.eq_ignore_ascii_case(name)
            && apps::is_in_force(tree, &app)
    });
    let mut resolved: Option<Resolved> = None;
    for (_, Document { value: rule, .. }) in of_name {
        let ttl_s = rule["ttl"].as_u64().and_then(|ttl| u32::try_from(ttl).ok()).unwrap_or(TTL_S);
        let address: Option<IpAddr> = rule["ipAddress"].as_str().and_then(|text| text.parse().ok());
        let address = address.filter(|address| address.is_ipv6() == is_v6);
        if address.is_some() {
            return Some(Resolved { address, ttl_s });
        }
        resolved = Some(Resolved { address: None, ttl_s });
    }
    resolved
}
