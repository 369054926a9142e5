//! Metrics of requests by what services say of them.

use super::Writer;
use crate::stats::CLASSES;
use freshet_base::histogram::FEW_BUCKETS_US;
use freshet_node::calls::{Call, Labels};
use freshet_node::node::Node;
use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub(super) fn write(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let all = node.shared.calls.all();
    if all.is_empty() {
        return Ok(());
    }
    let help = "Requests by what an access.service said of them.";
    let mut metric =
        out.0.encode_descriptor("freshet_access_calls", help, None, MetricType::Counter)?;
    for (labels, call) in &all {
        for (class, count) in CLASSES.iter().zip(&call.statuses).skip(1) {
            if count.value() > 0 {
                let mut labels = pairs(labels);
                labels.push(("class", class));
                let mut one = metric.encode_family(&labels)?;
                one.encode_counter::<NoLabelSet, _, u64>(&count.value(), None)?;
            }
        }
    }
    let help = "Bytes of bodies they were answered with.";
    let name = "freshet_access_call_body_bytes";
    let mut metric = out.0.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, call) in &all {
        let labels = pairs(labels);
        let mut one = metric.encode_family(&labels)?;
        one.encode_counter::<NoLabelSet, _, u64>(&call.body_bytes.value(), None)?;
    }
    first_bytes(&all, out)
}

fn first_bytes(all: &[(Labels, Arc<Call>)], out: &mut Writer<'_>) -> fmt::Result {
    let help = "Seconds from their heads to the first byte of what they were answered with.";
    let name = "freshet_access_call_first_byte_seconds";
    let mut metric = out.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let ends = FEW_BUCKETS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
    let ends: Vec<f64> = ends.collect();
    for (labels, call) in all {
        let counts = call.first_byte.iter().map(|count| count.value());
        let buckets: Vec<(f64, u64)> = ends.iter().copied().zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum_s = call.first_byte_us.value() as f64 / 1e6;
        let exemplars: Option<&HashMap<usize, Exemplar<NoLabelSet, f64>>> = None;
        metric
            .encode_family(&pairs(labels))?
            .encode_histogram(sum_s, count, &buckets, exemplars)?;
    }
    Ok(())
}

/// Labels as they are written; those without a value are left out.
fn pairs(labels: &Labels) -> Vec<(&str, &str)> {
    let said = labels.iter().filter(|(_, value)| !value.is_empty());
    said.map(|(name, value)| (&**name, &**value)).collect()
}
