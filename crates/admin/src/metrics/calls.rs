//! Metrics of requests by what services say of them.

use super::writer::{Buckets, Writer};
use crate::stats::CLASSES;
use freshet_base::histogram::FEW_BUCKETS_US;
use freshet_node::calls::{Call, Labels};
use freshet_node::node::Node;
use std::fmt;

/// What the page of all metrics says in place of the labels that a service gives.
const SAID: &str = "what the service said";

pub(super) fn write(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let all = node.shared.calls.all();
    let help = "Requests by what an access.service said of them.";
    let values = all.iter().flat_map(|(labels, call)| {
        let counted = CLASSES.iter().zip(&call.statuses).skip(1);
        counted.filter(|(_, count)| count.value() > 0).map(|(class, count)| {
            let mut labels = pairs(labels);
            labels.push(("class", class));
            (labels, count.value())
        })
    });
    out.counters_by("freshet_access_calls", help, &[SAID, "class"], values)?;
    let help = "Bytes of bodies they were answered with.";
    let values = all.iter().map(|(labels, call)| (pairs(labels), call.body_bytes.value()));
    out.counters_by("freshet_access_call_body_bytes", help, &[SAID], values)?;
    let help = "Seconds from their heads to the first byte of what they were answered with.";
    let values = all.iter().map(|(labels, call)| (pairs(labels), first_bytes(call)));
    out.histograms("freshet_access_call_first_byte_seconds", help, &[SAID], values)
}

fn first_bytes(call: &Call) -> Buckets {
    let ends = FEW_BUCKETS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
    let counts = call.first_byte.iter().map(|count| count.value());
    let buckets: Vec<(f64, u64)> = ends.zip(counts).collect();
    let count = buckets.iter().map(|(_, count)| count).sum();
    (call.first_byte_us.value() as f64 / 1e6, count, buckets)
}

/// Labels as they are written; those without a value are left out.
fn pairs(labels: &Labels) -> Vec<(&str, &str)> {
    let said = labels.iter().filter(|(_, value)| !value.is_empty());
    said.map(|(name, value)| (&**name, &**value)).collect()
}
