//! Metrics of certificates.

use super::writer::Writer;
use freshet_acme::{NameStatus, Running};
use freshet_node::node::Node;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

/// Certificates that have a series of their own; of more, those that end first.
const CERTIFICATES_MAX: usize = 1_000;

pub(super) fn write(node: &Node, acme: Option<&Running>, out: &mut Writer<'_>) -> fmt::Result {
    // Of several for one name, as with keys of two kinds, the one that ends first counts.
    let mut ends: BTreeMap<Box<str>, i64> = BTreeMap::new();
    for one in node.certificates().into_iter().flat_map(|store| store.expiries()) {
        let end = ends.entry(one.name).or_insert(one.until_s);
        *end = one.until_s.min(*end);
    }
    let mut ends: Vec<_> = ends.into_iter().collect();
    ends.sort_by_key(|(_, until_s)| *until_s);
    ends.truncate(CERTIFICATES_MAX);
    let values = ends.iter().map(|(name, until_s)| (&**name, *until_s as f64));
    let help = "When a certificate that clients are shown ends, since 1970.";
    out.gauges("freshet_certificate_end_seconds", help, &["name"], values)?;
    let status = acme.map(Running::status);
    let names = status.map(|status| status.names());
    let count = |is: fn(&NameStatus) -> bool| {
        names.as_ref().map(|names| names.iter().filter(|(_, name)| is(name)).count() as f64)
    };
    let help = "Names that wait for their first certificate.";
    out.gauge("freshet_acme_names_waiting", help, count(|name| name.validity_s.is_none()))?;
    let help = "Names whose last order failed.";
    out.gauge("freshet_acme_names_failing", help, count(|name| name.failures > 0))?;
    let attempts = status.map(|status| status.attempts.load(Relaxed));
    out.counter("freshet_acme_attempts", "Orders of certificates begun or resumed.", attempts)?;
    let obtained = status.map(|status| status.obtained.load(Relaxed));
    out.counter("freshet_acme_certificates", "Certificates that came.", obtained)?;
    let help =
        "What acme.on_demand said of names that clients asked for, `none` where it said nothing.";
    let asked = status.into_iter().flat_map(|status| status.asked());
    out.counters("freshet_acme_asked", help, &["answer"], asked)?;
    let help = "Orders that failed, by kind of failure.";
    let failures = status.into_iter().flat_map(|status| status.failures());
    out.counters("freshet_acme_failures", help, &["kind"], failures)
}
