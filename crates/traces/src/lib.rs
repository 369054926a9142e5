//! Traces of requests and metrics for OpenTelemetry: which requests, in whose trace, and how a collector
//! hears of them.
//!
//! A [`Tracer`] is a node's [`Scribe`](freshet_node::transcript::Scribe): of the transcripts of the
//! requests it samples, and of all that is done for them, it makes spans. A thread of its own sends
//! them to a [`Collector`] by OTLP over HTTP, as JSON
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp>). A request that is not sampled costs a hash of
//! its number. When the collector falls behind, spans are dropped and counted, never waited for.
//!
//! An [`Exporter`] sends a node's metrics to the same collector, made of their text form.
//!
//! It knows what transcripts say, and nothing of how requests are served.
#![forbid(unsafe_code)]

mod background;
mod collector;
mod context;
mod encode;
mod exporter;
mod known;
pub mod limits;
mod metrics;
mod span;
mod tracer;

pub use collector::{Collector, Signal};
pub use context::Context;
pub use exporter::Exporter;
pub use tracer::Tracer;
