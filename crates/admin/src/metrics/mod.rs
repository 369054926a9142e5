//! Metrics in the text form Prometheus reads, made when it asks.
//!
//! Labels are bounded: statuses, fixed results and kinds of failure, names of origins from the
//! configuration, and what services say of requests, of which there are so many kinds at most. Nothing a client sends
//! becomes a label.

mod calls;
mod certificates;
mod disks;
mod exemplars;
mod geo;
mod limits;
mod node;
mod origins;
mod plain;
mod sites;
mod store;

use crate::context::{Acme, Context};
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use freshet_node::node::Node;
use freshet_node::received::ReceivedSums;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// The type of OpenMetrics, which has exemplars.
const OPEN_METRICS: &str = "application/openmetrics-text";
/// What that text form calls itself, and the one before it.
const OPEN_METRICS_TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of one node.
pub struct Metrics {
    registry: Registry,
    node: Arc<Node>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Of this node, with the certificates that are ordered for it.
    pub fn new(node: Arc<Node>, acme: Acme) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(NodeCollector(Arc::clone(&node), acme)));
        Self { registry, node }
    }

    /// All metrics as OpenMetrics text.
    ///
    /// # Errors
    /// None that is known: writing to memory does not fail.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(32 << 10);
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// The same, with exemplars of latencies.
    ///
    /// # Errors
    /// As there.
    pub fn text_with_exemplars(&self) -> Result<String, fmt::Error> {
        Ok(exemplars::put_in(&self.text()?, &self.node.shared.exemplars))
    }
}

/// Gives all metrics, in OpenMetrics text where that is accepted.
#[utoipa::path(get, path = "/metrics", tag = "health", responses(
    (status = OK, body = String, content_type = "text/plain", description = "The metrics"),
))]
pub(crate) async fn metrics(
    State(context): State<Arc<Context>>,
    fields: HeaderMap,
) -> Result<([(header::HeaderName, &'static str); 1], String), Problem> {
    // Readers of the older form stumble over what is new, and read no type of a counter.
    let mut accepted = fields.get_all(header::ACCEPT).iter().filter_map(|one| one.to_str().ok());
    let is_open = accepted.any(|accepted| accepted.contains(OPEN_METRICS));
    let metrics = &context.metrics;
    let (text, called) = match is_open {
        true => (metrics.text_with_exemplars(), OPEN_METRICS_TEXT),
        false => (metrics.text().map(|text| plain::of(&text)), PLAIN_TEXT),
    };
    let text = text.map_err(|_| Problem::internal("the metrics could not be written"))?;
    Ok(([(header::CONTENT_TYPE, called)], text))
}

struct NodeCollector(Arc<Node>, Acme);

impl fmt::Debug for NodeCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeCollector")
    }
}

impl Collector for NodeCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Writer(encoder);
        node::write(&self.0, &mut out)?;
        store::write(&self.0, &mut out)?;
        disks::write(&self.0, &mut out)?;
        sites::write(&self.0, &mut out)?;
        certificates::write(&self.0, self.1.as_deref(), &mut out)?;
        limits::write(&self.0, &mut out)?;
        calls::write(&self.0, &mut out)?;
        geo::write(&self.0, &mut out)?;
        origins::write(&self.0.snapshot(), &mut out)
    }
}

/// Name, help and place of a figure.
type Row<S, N> = (&'static str, &'static str, fn(&S) -> N);

/// What players say of responses they got, for all sites together and for each.
const RECEIVED_COUNTERS: [Row<ReceivedSums, u64>; 2] = [
    ("cmcd_responses", "Reports of players about responses.", |sums| sums.responses),
    (
        "cmcd_responses_failed",
        "Of these, about those that did not come, or came with an error.",
        |sums| sums.failed,
    ),
];
/// See [`RECEIVED_COUNTERS`].
const RECEIVED_MEANS: [Row<ReceivedSums, f64>; 2] = [
    (
        "cmcd_first_byte_seconds",
        "Mean time from a player's request to the first byte, as it says.",
        ReceivedSums::first_byte_s,
    ),
    (
        "cmcd_last_byte_seconds",
        "Mean time from a player's request to the last byte, as it says.",
        ReceivedSums::last_byte_s,
    ),
];

/// Writes metrics one after another.
pub(crate) struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    /// A count that only grows; `_total` is added to its name.
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// A sum of seconds that only grows.
    fn seconds(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// A value that comes and goes.
    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_gauge(&value)
    }

    /// Counts by one label.
    fn counters<'l>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (&'l str, u64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (text, value) in values {
            let labels = [(label, text)];
            let mut one = metric.encode_family(&labels)?;
            one.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    /// Values by two labels.
    fn gauges_by<'l>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&'static str; 2],
        values: impl IntoIterator<Item = ([&'l str; 2], f64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (texts, value) in values {
            let labels = [(labels[0], texts[0]), (labels[1], texts[1])];
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Values by one label.
    fn gauges<'l>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (&'l str, f64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (text, value) in values {
            let labels = [(label, text)];
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}
