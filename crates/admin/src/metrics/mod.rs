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
mod received;
mod reference;
mod sites;
mod store;
mod writer;

pub use reference::markdown;

use crate::context::{Acme, Context};
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use freshet_acme::Running;
use freshet_node::node::Node;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;
use writer::Writer;

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
        write(&self.0, self.1.as_deref(), &mut Writer::new(encoder, None))
    }
}

/// All families, also those that have no value on this node.
fn write(node: &Node, acme: Option<&Running>, out: &mut Writer<'_>) -> fmt::Result {
    node::write(node, out)?;
    store::write(node, out)?;
    disks::write(node, out)?;
    sites::write(node, out)?;
    certificates::write(node, acme, out)?;
    limits::write(node, out)?;
    calls::write(node, out)?;
    geo::write(node, out)?;
    origins::write(&node.snapshot(), out)
}
