//! What can be known about the server beside its responses: processor time, memory, power, and what
//! its origin had to do.

mod power;
mod server;

pub use power::{Power, PowerSource};
pub use server::Server;

use crate::load::measurement::OriginFigures;
use crate::origin::Origin;
use std::sync::Arc;

/// Everything that is watched during a load. Nothing is watched by default.
#[derive(Debug, Default)]
pub struct Observer {
    /// The server's processes, or its metrics.
    pub server: Option<Server>,
    /// Power.
    pub power: Option<Power>,
    /// The lab's own origin.
    pub origin: Option<Arc<Origin>>,
}

/// Figures at a moment; those that count only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// Processor time so far.
    pub(crate) cpu_seconds: Option<f64>,
    /// Resident size now.
    pub(crate) memory_bytes: Option<u64>,
    /// Energy so far.
    pub(crate) joules: Option<f64>,
    /// The origin's counts so far.
    pub(crate) origin: Option<OriginFigures>,
}

impl Observer {
    /// Reads everything, at `now_s` seconds of any clock that goes on.
    pub(crate) fn read(&mut self, now_s: f64) -> Reading {
        let (cpu_seconds, memory_bytes) = match &self.server {
            Some(server) => server.read(),
            None => (None, None),
        };
        Reading {
            cpu_seconds,
            memory_bytes,
            joules: self.power.as_mut().and_then(|power| power.joules(now_s)),
            origin: self.origin.as_ref().map(|origin| {
                let totals = origin.totals();
                OriginFigures { requests: totals.requests, body_bytes: totals.body_bytes }
            }),
        }
    }
}
