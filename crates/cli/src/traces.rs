//! Traces of requests, and metrics: from the configuration to who is told of them.

use crate::acme;
use anyhow::Result;
use freshet_admin::Metrics;
use freshet_config::Settings;
use freshet_config::mistake::Mistake;
use freshet_config::traces::Tracing;
use freshet_node::node::{Node, NodeError};
use freshet_traces::{Collector, Exporter, Signal, Tracer};
use std::sync::Arc;

/// What cannot be used of `[tracing]`.
pub(crate) fn examine(settings: &Settings) -> Option<Mistake> {
    let tracing = settings.tracing.as_ref()?;
    let signals: &[Signal] = match tracing.metrics.is_zero() {
        true => &[Signal::Traces],
        false => &[Signal::Traces, Signal::Metrics],
    };
    signals.iter().find_map(|signal| collector(tracing, *signal).err())
}

/// The tracer that settings want, if they do.
///
/// # Errors
/// What cannot be used, or that there can be no thread.
pub(crate) fn start(settings: &Settings) -> Result<Option<Arc<Tracer>>> {
    let Some(tracing) = &settings.tracing else { return Ok(None) };
    Ok(Some(Tracer::start(tracing, usable(tracing, Signal::Traces)?)?))
}

/// Who sends a node's metrics, where settings want that.
///
/// # Errors
/// See [`start`].
pub(crate) fn export(node: &Arc<Node>, acme: &acme::Shared) -> Result<Option<Exporter>> {
    let settings = node.snapshot().settings;
    let Some(tracing) = settings.tracing.as_ref().filter(|tracing| !tracing.metrics.is_zero())
    else {
        return Ok(None);
    };
    let collector = usable(tracing, Signal::Metrics)?;
    let metrics = Metrics::new(Arc::clone(node), acme.clone());
    Ok(Some(Exporter::start(tracing, collector, move || metrics.text().ok())?))
}

fn usable(tracing: &Tracing, signal: Signal) -> Result<Collector, NodeError> {
    collector(tracing, signal).map_err(|mistake| NodeError::Config(vec![mistake]))
}

fn collector(tracing: &Tracing, signal: Signal) -> Result<Collector, Mistake> {
    Collector::new(tracing, signal).map_err(|why| Mistake::error(tracing.place, why))
}
