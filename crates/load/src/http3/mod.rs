//! A load over HTTP/3: connections with some requests at a time each, closed loop, on one thread.
//!
//! Packets are quinn-proto's, which is nobody's server here; datagrams leave and arrive in batches, as
//! those of browsers do. How often what arrives is acknowledged costs a server more than all else, so
//! that is part of a load: [`Load::ack_every`].
//!
//! A request that the server turned away unread, or that was sent behind its GOAWAY, is asked again
//! on another connection and is no failure, as RFC 9114 §5.2 has it.

mod connection;
mod endpoint;
mod response;

pub use endpoint::run;

use crate::TlsOptions;
use crate::target::Target;
use hdrhistogram::Histogram;
use std::time::Duration;

/// What to ask, and how.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server.
    pub target: Target,
    /// How certificates are checked, and whether sessions are resumed.
    pub tls: TlsOptions,
    /// The path of each request, in which `{n}` is one of `objects` numbers, in turn.
    pub path: String,
    /// How many of these there are.
    pub objects: u64,
    /// Connections at a time.
    pub connections: usize,
    /// How many of them are opened in a second at first; `None` for all at once.
    pub opened_per_second: Option<u32>,
    /// Requests at a time on each.
    pub streams: usize,
    /// Requests until a connection is closed and another takes its place; `None` for as many as come.
    pub requests_per_connection: Option<u64>,
    /// Datagrams of a connection that are acknowledged together, at most; `None` for all that arrive in
    /// one turn.
    pub ack_every: Option<usize>,
    /// How long it goes on; requests under way end after it.
    pub duration: Duration,
    /// Connections that are opened, ask once and then only stay. No others ask then.
    pub is_idle: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Requests that were answered in whole.
    pub requests: u64,
    /// Requests that failed, and handshakes.
    pub failed: u64,
    /// Why, of the first few.
    pub failures: Vec<String>,
    /// Requests that were asked again, as the server had not looked at them.
    pub again: u64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Handshakes that were done.
    pub handshakes: u64,
    /// Datagrams that came, and that were sent.
    pub datagrams: (u64, u64),
    /// Microseconds from request to end of response.
    pub latency: Histogram<u64>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Reasons that are kept.
const FAILURES_KEPT: usize = 10;

impl Figures {
    fn new() -> Self {
        let latency =
            Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are in order");
        Self {
            requests: 0,
            failed: 0,
            failures: Vec::new(),
            again: 0,
            body_bytes: 0,
            handshakes: 0,
            datagrams: (0, 0),
            latency,
            elapsed: Duration::ZERO,
        }
    }

    fn fail(&mut self, why: String) {
        self.failed += 1;
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(why);
        }
    }
}
