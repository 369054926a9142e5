//! What can be known about the server beside its responses: processor time, memory, power, and what
//! its origin had to do.

mod power;
mod server;

pub use power::{Power, PowerSource};
pub use server::Server;

use crate::measurement::OriginFigures;
use std::fmt::Debug;
use std::sync::Arc;

/// An origin behind the server that counts what it is asked for.
pub trait CountingOrigin: Debug + Send + Sync {
    /// What it did so far.
    fn figures(&self) -> OriginFigures;
}

/// Everything that is watched during a load. Nothing is watched by default.
#[derive(Debug, Default)]
pub struct Observer {
    /// The server's processes, or its metrics.
    pub server: Option<Server>,
    /// Power.
    pub power: Option<Power>,
    /// The origin, where it is one of ours.
    pub origin: Option<Arc<dyn CountingOrigin>>,
}

/// Figures at a moment; those that count only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// When, in seconds of the clock that [`Observer::read`] was told.
    pub at_s: f64,
    /// Processor time so far.
    pub cpu_seconds: Option<f64>,
    /// Resident size now.
    pub memory_bytes: Option<u64>,
    /// Energy so far.
    pub joules: Option<f64>,
    /// The origin's counts so far.
    pub origin: Option<OriginFigures>,
}

impl Observer {
    /// Reads everything, at `now_s` seconds of any clock that goes on.
    pub fn read(&mut self, now_s: f64) -> Reading {
        let (cpu_seconds, memory_bytes) = match &self.server {
            Some(server) => server.read(),
            None => (None, None),
        };
        Reading {
            at_s: now_s,
            cpu_seconds,
            memory_bytes,
            joules: self.power.as_mut().and_then(|power| power.joules(now_s)),
            origin: self.origin.as_ref().map(|origin| origin.figures()),
        }
    }
}
