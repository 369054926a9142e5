//! Traces of requests for OpenTelemetry: which requests, in whose trace, and how a collector hears of
//! them.
//!
//! A [`Tracer`] is a node's [`Scribe`](freshet_node::transcript::Scribe): of the transcripts of the
//! requests it samples, and of all that is done for them, it makes spans. A thread of its own sends
//! them to a [`Collector`] by OTLP over HTTP, as JSON
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp>). A request that is not sampled costs a hash of
//! its number. When the collector falls behind, spans are dropped and counted, never waited for.
//!
//! It knows what transcripts say, and nothing of how requests are served.
#![forbid(unsafe_code)]

mod collector;
mod context;
mod encode;
mod known;
pub mod limits;
mod span;
mod tracer;

pub use collector::Collector;
pub use context::Context;
pub use tracer::Tracer;
