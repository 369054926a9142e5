//! Metrics of what clients may take.

use super::writer::Writer;
use freshet_node::node::Node;
use std::fmt;

/// Limits that have metrics of their own, in the order of the file.
const LIMITS_MAX: usize = 1_000;

pub(super) fn write(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let limiter = &node.shared.limiter;
    let blocks = limiter.blocks.len() as f64;
    out.gauge("freshet_blocks", "Networks on the list of blocked ones.", blocks)?;
    let (keys, forgotten, uncounted) = limiter.figures();
    let help = "Clients and other keys that rate limits know apart, counted every ten minutes.";
    out.gauge("freshet_rate_keys", help, keys as f64)?;
    let help = "Bytes of the tables of limits.";
    out.gauge("freshet_rate_table_bytes", help, limiter.bytes() as f64)?;
    let help = "Keys that began anew because there were more than limits.rate_keys_max.";
    out.counter("freshet_rate_keys_forgotten", help, forgotten)?;
    let help = "Requests and connections let in because there was no room to count them.";
    out.counter("freshet_rate_uncounted", help, uncounted)?;
    let snapshot = node.snapshot();
    let sites = snapshot.sites.all().iter();
    let all: Vec<_> = sites.flat_map(|site| site.rate_limits.iter()).take(LIMITS_MAX).collect();
    let refused = all.iter().map(|limit| (&*limit.label, limit.refused.value()));
    let help = "Requests that a rate_limit refused, or would have on a dry run.";
    out.counters("freshet_rate_limited", help, &["limit"], refused)?;
    let blocked = all.iter().map(|limit| (&*limit.label, limit.blocked.value()));
    let help = "Times that a rate_limit blocked a client.";
    out.counters("freshet_rate_blocked", help, &["limit"], blocked)
}
