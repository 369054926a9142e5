//! Traces of requests: from the configuration to who is told of them.

use anyhow::Result;
use freshet_config::Settings;
use freshet_config::mistake::Mistake;
use freshet_node::node::NodeError;
use freshet_traces::{Collector, Tracer};
use std::sync::Arc;

/// What cannot be used of `[tracing]`.
pub(crate) fn examine(settings: &Settings) -> Option<Mistake> {
    collector(settings)?.err()
}

/// The tracer that settings want, if they do.
///
/// # Errors
/// What cannot be used, or that there can be no thread.
pub(crate) fn start(settings: &Settings) -> Result<Option<Arc<Tracer>>> {
    let Some(tracing) = &settings.tracing else { return Ok(None) };
    let Some(collector) = collector(settings) else { return Ok(None) };
    let collector = collector.map_err(|mistake| NodeError::Config(vec![mistake]))?;
    Ok(Some(Tracer::start(tracing, collector)?))
}

fn collector(settings: &Settings) -> Option<Result<Collector, Mistake>> {
    let tracing = settings.tracing.as_ref()?;
    Some(Collector::new(tracing).map_err(|why| Mistake::error(tracing.place, why)))
}
