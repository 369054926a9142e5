//! What a router counts, as OpenMetrics.

use super::{Shared, admin::health_word};
use crate::decision::{Health, View};
use crate::live::Outcome;
use freshet_base::clock::UnixMillis;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::Ordering::Relaxed;

/// The media type of the text.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfSite {
    site: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfNode {
    node: String,
    region: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfCode {
    code: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct InHealth {
    health: &'static str,
}

/// All of it at `now`. Labels are names of the configuration: clients cannot add any.
pub(super) fn text(shared: &Shared, now: UnixMillis) -> String {
    let routing = shared.routing.load();
    let mut registry = Registry::with_prefix("freshet_route");
    let decisions: Family<OfSite, Counter> = Family::default();
    for (site, counts) in routing.table.sites().iter().zip(&routing.counts) {
        for (outcome, word) in Outcome::ALL {
            let labels = OfSite { site: site.name.clone(), outcome: word };
            decisions.get_or_create(&labels).inc_by(counts.value(outcome));
        }
    }
    registry.register("decisions", "Requests and questions that were answered", decisions);
    let (sent, share): (Family<OfNode, Counter>, Family<OfNode, Gauge>) = Default::default();
    let nodes: Family<InHealth, Gauge> = Family::default();
    for health in [Health::Up, Health::Suspect, Health::Down, Health::Drained] {
        drop(nodes.get_or_create(&InHealth { health: health_word(health) }));
    }
    let view = routing.at(now);
    for (id, (node, live)) in (0..).zip(routing.table.nodes().iter().zip(&routing.nodes)) {
        let region = routing.table.regions().get(usize::from(node.region));
        let region = region.map(|region| region.name.clone()).unwrap_or_default();
        let labels = OfNode { node: node.name.clone(), region };
        let standing = view.standing(id);
        sent.get_or_create(&labels).inc_by(live.sent.load(Relaxed));
        let is_sent_to = matches!(standing.health, Health::Up | Health::Suspect);
        let percent = if is_sent_to { i64::from(standing.share_percent) } else { 0 };
        share.get_or_create(&labels).set(percent);
        nodes.get_or_create(&InHealth { health: health_word(standing.health) }).inc();
    }
    registry.register("sent", "Requests that were sent to a node", sent);
    registry.register("share_percent", "How many of its keys a node takes", share);
    registry.register("nodes", "Nodes by their health", nodes);
    let answers: Family<OfCode, Counter> = Family::default();
    for (code, count) in shared.dns.values() {
        answers.get_or_create(&OfCode { code }).inc_by(count);
    }
    registry.register("dns_answers", "Answers of DNS by their code", answers);
    let above: Counter = Counter::default();
    above.inc_by(shared.dns_rates.above());
    registry.register(
        "dns_above_rate",
        "Answers over UDP that were the word to come over TCP",
        above,
    );
    let prefixes: Gauge = Gauge::default();
    prefixes.set(i64::try_from(routing.table.prefixes().len()).unwrap_or(i64::MAX));
    registry.register("prefixes", "Networks of zones", prefixes);
    let reloads: Counter = Counter::default();
    reloads.inc_by(shared.reloads.load(Relaxed));
    registry.register("reloads", "Configurations that took the place of another", reloads);
    let mut out = String::new();
    encode(&mut out, &registry).expect("a string takes all");
    out
}
