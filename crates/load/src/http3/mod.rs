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

pub(crate) use connection::{Client, Failure, News};
pub use endpoint::run;
pub(crate) use response::Part;

use crate::error::LabError;
use crate::target::Target;
use crate::tls::client_config;
use crate::{Protocol, TlsOptions};
use hdrhistogram::Histogram;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, IdleTimeout, TransportConfig, VarInt};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a connection may be quiet.
const IDLE_MS: u32 = 600_000;
/// Bytes that a server may send ahead: more than a round trip of any network here.
const WINDOW_BYTES: u32 = 16 << 20;

/// How connections of a load over HTTP/3 are made, and how often they say something when nothing else is said.
pub(crate) fn quic_config(
    options: &TlsOptions,
    speaks_every: Option<Duration>,
) -> Result<ClientConfig, LabError> {
    let local = |error: &dyn std::fmt::Display| LabError::LocalTls(error.to_string());
    let tls = (*client_config(options, Protocol::Http3)?).clone();
    let tls = QuicClientConfig::try_from(tls).map_err(|error| local(&error))?;
    let mut config = ClientConfig::new(Arc::new(tls));
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_MS))));
    transport.keep_alive_interval(speaks_every);
    transport.stream_receive_window(VarInt::from_u32(WINDOW_BYTES));
    transport.receive_window(VarInt::from_u32(WINDOW_BYTES));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

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
    /// How clients go elsewhere meanwhile.
    pub moves: Option<Moves>,
}

/// Clients that go elsewhere, all at a time: what is on its way to where they were is lost.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Moves {
    /// How long they stay at a place, in turn.
    pub stays: Vec<Duration>,
    /// The addresses that they are at, in turn; any of the system's choice if there are none. The port is always another.
    pub from: Vec<IpAddr>,
    /// Whether it is their network that gives them another address, which they do not know of: they keep the id of
    /// the connection, and speak only when they do anyway, ten times a second.
    pub is_unnoticed: bool,
}

/// How often clients speak who may be elsewhere without knowing.
const SPEAKS_EVERY: Duration = Duration::from_millis(100);

/// What came of it.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Requests that were answered in whole.
    pub requests: u64,
    /// Requests that failed, and handshakes.
    pub failed: u64,
    /// Why, of the first few kinds, and how often each.
    pub failures: Vec<(String, u64)>,
    /// Requests that were asked again, as the server had not looked at them.
    pub again: u64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Handshakes that were done.
    pub handshakes: u64,
    /// How often clients went elsewhere.
    pub moves: u64,
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
            moves: 0,
            datagrams: (0, 0),
            latency,
            elapsed: Duration::ZERO,
        }
    }

    /// Why requests failed, each reason once, and how often it did.
    pub fn reasons(&self) -> impl Iterator<Item = String> {
        self.failures.iter().map(|(why, times)| match times {
            1 => why.clone(),
            times => format!("{why} ({times} times)"),
        })
    }

    fn fail(&mut self, why: String) {
        self.failed += 1;
        let has_room = self.failures.len() < FAILURES_KEPT;
        match self.failures.iter_mut().find(|(other, _)| *other == why) {
            Some((_, times)) => *times += 1,
            None if has_room => self.failures.push((why, 1)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stands_once_with_how_often_it_was() {
        let mut figures = Figures::new();
        (0..8).for_each(|_| figures.fail("a 502".to_owned()));
        figures.fail("a reset".to_owned());
        let reasons: Vec<String> = figures.reasons().collect();
        assert_eq!(reasons, ["a 502 (8 times)", "a reset"]);
        assert_eq!(figures.failed, 9);
    }
}
