//! The state of a connection: datagrams in, datagrams out.

mod alone;
mod application;
mod frames;
mod handshake;
mod hello;
mod payload;
mod receive;
mod recovery;
mod train;
mod transmit;
mod ways;

#[cfg(test)]
mod tests;

use super::ack_frequency::Asking;
#[cfg(doc)]
use super::cipher;
use super::congestion::{Algorithm, Congestion};
use super::ecn::Counts;
use super::error::Error;
use super::id::Id;
use super::ids::{OwnIds, PeerIds, ResetTokens};
use super::limits::{CLOSED_MAX, IDLE_FRAMES_MAX, IDLE_FRAMES_PER_SECOND, REST_AFTER};
use super::one_rtt::OneRtt;
use super::pacer::Pacer;
use super::parameters::{Local, Names, Peer};
use super::path::Path;
use super::random::Random;
use super::reordering::Reordering;
use super::route::Route;
use super::rtt::Rtt;
use super::space::{Level, Space, Spaces};
use super::streams::Streams;
use super::version::Version;
use freshet_base::debt::Debt;
use handshake::Beginning;
use rustls::ServerConfig;
use rustls::quic::{DirectionalKeys, Keys, ServerConnection};
use std::sync::Arc;
use std::time::Duration;
use ways::Former;

/// What all connections of a listener have in common.
#[derive(Clone, Debug)]
pub struct Config {
    /// Certificates, tickets and protocols, by a provider that has [our ciphers](cipher::with_ciphers).
    /// Its `max_early_data_size` is 0, or `u32::MAX` where early data is taken (RFC 9001 §4.6.1); sessions
    /// have to be continued once at most then, and from the address alone that their client had.
    pub tls: Arc<ServerConfig>,
    /// What is said to clients.
    pub local: Local,
    /// Who decides how much is sent to them.
    pub congestion: Algorithm,
}

/// A client that wants a connection.
#[derive(Clone, Copy, Debug)]
pub struct Accept {
    /// The version of its first packet.
    pub version: Version,
    /// The ids that its parameters name.
    pub names: Names,
    /// Whom its first packet is for, which the first keys are made of.
    pub receiver: Id,
    /// Its own id.
    pub client: Id,
    /// Where it is.
    pub route: Route,
    /// Whether a token has shown that it is there.
    pub is_validated: bool,
    /// Bits that nobody else knows.
    pub seed: u64,
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Closed {
    /// The client said so; whether in words of the application, and its code.
    ByClient {
        /// Whether the code is one of the application's.
        is_application: bool,
        /// The code.
        code: u64,
    },
    /// We said so, for what the client did.
    ByError(Error),
    /// We said so in words of the application.
    ByApplication(u64),
    /// The client said that it knows nothing of it (RFC 9000 §10.3).
    ByReset,
    /// Nothing was heard, or nothing of what was sent acknowledged, for too long.
    Idle,
}

/// What a connection has counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Statistics {
    /// Packets that were sent and taken for lost.
    pub packets_lost: u64,
    /// Of these, those that were acknowledged after all.
    pub packets_late: u64,
    /// Packets that were sent and marked by a router whose queue grew.
    pub packets_congested: u64,
    /// Packets that were sent.
    pub packets_sent: u64,
    /// Packets that came and were understood.
    pub packets_received: u64,
    /// Packets that came and were not.
    pub packets_dropped: u64,
    /// Times nothing was heard, so that something was sent to hear anything.
    pub probes: u64,
}

/// Packets by their marks (RFC 9000 §13.4), and wishes of how they are acknowledged, since they were [taken](Connection::take_marks) last.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Marks {
    /// Packets that were sent with a mark.
    pub sent: u64,
    /// Of these, those that routers marked as congested, as the client says.
    pub congested: u64,
    /// Packets that came so.
    pub received: u64,
    /// Ways on which marks turned out not to arrive as they were sent.
    pub failed: u64,
    /// How often the client was asked to acknowledge otherwise.
    pub frequencies_asked: u64,
    /// How often it asked.
    pub frequencies_obeyed: u64,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Open,
    /// It was closed by us; packets are answered with that, until then.
    Closing(Duration),
    /// It was closed by the client; nothing is said any more, until then.
    Draining(Duration),
    Over,
}

/// The server's side of a connection. Times are since any moment, the same for all calls.
pub struct Connection<P> {
    local: Local,
    peer: Peer,
    client: Id,
    /// The version in use, and the one that the client began with.
    version: Version,
    original_version: Version,
    /// What there is in place of TLS until the client's first message is there.
    beginning: Option<Box<Beginning>>,
    tls: Option<Box<ServerConnection>>,
    is_established: bool,
    has_peer: bool,
    initial: Option<Keys>,
    /// The keys of what comes under the version that the client began with, where that is not in use.
    original_initial: Option<DirectionalKeys>,
    handshake: Option<Keys>,
    one_rtt: Option<OneRtt>,
    /// The keys of early data, once it is taken and until the client has those of data.
    zero_rtt: Option<DirectionalKeys>,
    /// Packets that came before the keys for them.
    early: Vec<Vec<u8>>,
    spaces: Spaces,
    streams: Streams<P>,
    own_ids: OwnIds,
    peer_ids: PeerIds,
    /// The way to the client, the one before while the new one is not known to be good, and one that
    /// the client tries.
    path: Path,
    former: Option<Box<Former>>,
    tried: Option<Box<Path>>,
    rtt: Rtt,
    reordering: Reordering,
    congestion: Congestion,
    pacer: Pacer,
    bytes_in_flight: u64,
    /// Whether the batch that is filled is marked, how many packets were in all, and what the client said
    /// that it saw of them. Only packets with data are, once the handshake is over.
    is_marking: bool,
    marked_sent: u64,
    marks_told: Counts,
    /// Since when nothing of it was acknowledged.
    waiting: Duration,
    /// Whether the window was what kept more from being sent, and whether it is waited for more of it.
    is_window_limited: bool,
    is_gathering: bool,
    asking: Asking,
    /// Probes since the last acknowledgement.
    probe_count: u32,
    /// Whether HANDSHAKE_DONE has to be sent.
    is_done_due: bool,
    /// Whether the client is to have a token for where it is, and one that has to be sent.
    is_token_wanted: bool,
    token: Option<Box<[u8]>>,
    /// When a packet came, or was sent in answer to one, last.
    heard: Duration,
    has_sent_since: bool,
    /// Whether memory was given back since then.
    is_resting: bool,
    phase: Phase,
    closed: Option<Closed>,
    /// Whether the client has to be told, and packets since it was told last.
    is_close_due: bool,
    closing_packets: u64,
    calm: Debt,
    /// Packets until a number is left out, and what that is drawn from.
    until_skip: u64,
    random: Random,
    statistics: Statistics,
    marks: Marks,
}

impl<P: AsRef<[u8]>> Connection<P> {
    /// A connection for the client of a first packet, which has to be [received](Self::receive) then.
    ///
    /// # Errors
    /// INTERNAL_ERROR: the configuration is not one for QUIC.
    pub fn new(config: &Config, accept: &Accept, now: Duration) -> Result<Self, Error> {
        let Accept { version, names, receiver, client, route, is_validated, seed } = *accept;
        let beginning = Beginning { tls: Arc::clone(&config.tls), names, receiver };
        let initial = beginning.keys(version)?;
        let mut connection = Self {
            local: config.local.clone(),
            peer: Peer::default(),
            client,
            version,
            original_version: version,
            beginning: Some(Box::new(beginning)),
            tls: None,
            is_established: false,
            has_peer: false,
            initial: Some(initial),
            original_initial: None,
            handshake: None,
            one_rtt: None,
            zero_rtt: None,
            early: Vec::new(),
            spaces: Spaces::new(),
            streams: Streams::new(&config.local),
            own_ids: OwnIds::new(names.own, names.reset_token),
            peer_ids: PeerIds::new(client),
            path: Path::new(route, is_validated),
            former: None,
            tried: None,
            rtt: Rtt::new(),
            reordering: Reordering::default(),
            congestion: Congestion::new(config.congestion, seed),
            pacer: Pacer::new(),
            bytes_in_flight: 0,
            is_marking: false,
            marked_sent: 0,
            marks_told: Counts::default(),
            waiting: now,
            is_window_limited: false,
            is_gathering: false,
            asking: Asking::new(),
            probe_count: 0,
            is_done_due: false,
            is_token_wanted: false,
            token: None,
            heard: now,
            has_sent_since: false,
            is_resting: false,
            phase: Phase::Open,
            closed: None,
            is_close_due: false,
            closing_packets: 0,
            calm: Debt::new(IDLE_FRAMES_MAX, IDLE_FRAMES_PER_SECOND),
            until_skip: 0,
            random: Random::new(seed),
            statistics: Statistics::default(),
            marks: Marks::default(),
        };
        connection.draw_skip();
        Ok(connection)
    }

    /// Ends the connection in words of the application; it is said when the next batch is filled.
    pub fn close(&mut self, code: u64, now: Duration) {
        self.close_with(Closed::ByApplication(code), now);
    }

    /// Lets the memory of the handshake go, once it is over and all about it was looked at.
    pub fn forget_handshake(&mut self) {
        if self.is_established {
            self.tls = None;
        }
    }

    /// Lets go what is kept of streams, once the connection is closed and all that came is looked at: what is
    /// left to be said needs none of it.
    pub fn forget_streams(&mut self) {
        if self.phase != Phase::Open {
            self.streams = Streams::new(&self.local);
            self.early = Vec::new();
        }
    }

    /// Another id for the client to use; see [`ids_wanted`](Self::ids_wanted).
    pub fn add_id(&mut self, id: Id, reset_token: [u8; 16]) {
        self.own_ids.add(id, reset_token);
    }

    /// Our ids that mean nothing any more.
    pub fn take_retired_ids(&mut self) -> Vec<Id> {
        self.own_ids.take_retired()
    }

    /// How the tokens have changed by which the client can say that it knows nothing of the connection, since that was asked
    /// last. A datagram that ends with one of them is for this connection, whomever it seems to be for.
    pub fn take_reset_tokens(&mut self) -> Option<ResetTokens> {
        self.peer_ids.take_reset_tokens()
    }

    /// The tokens that were told of and not taken back.
    pub fn told_reset_tokens(&self) -> &[[u8; 16]] {
        self.peer_ids.told_reset_tokens()
    }

    /// How many more of our ids the client could use.
    pub fn ids_wanted(&self) -> usize {
        if self.is_established && self.phase == Phase::Open { self.own_ids.wanted() } else { 0 }
    }

    /// Whether the client is to be [given](Self::give_token) a token: it is known to be where it is, and has none
    /// for there, or that was lost.
    pub fn is_token_wanted(&self) -> bool {
        self.is_token_wanted && self.path.is_validated && self.phase == Phase::Open
    }

    /// A token that shows in the client's later connections that it was at this connection's
    /// [route](Self::route) (RFC 9000 §8.1.3). Not empty, and short enough for any packet: up to 256 bytes.
    pub fn give_token(&mut self, token: &[u8]) {
        debug_assert!((1..=256).contains(&token.len()), "a token fits a packet");
        self.is_token_wanted = false;
        self.token = Some(token.into());
    }

    /// All our ids that mean this connection.
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        self.own_ids.all()
    }

    /// Whether the handshake is over.
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// Whether data is taken that the client sent before its handshake was over: somebody else may have
    /// recorded and repeated it (RFC 8446 §8).
    pub fn is_early(&self) -> bool {
        self.zero_rtt.is_some() && !self.is_established
    }

    /// The handshake, from the client's first message until it was [forgotten](Self::forget_handshake).
    pub fn tls(&self) -> Option<&ServerConnection> {
        self.tls.as_deref()
    }

    /// Where the client is.
    pub fn route(&self) -> Route {
        self.path.route
    }

    /// Why it is over, once it is.
    pub fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Whether nothing of it has to be remembered.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Bytes in flight.
    pub fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// What it has counted.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// What became of marks since this was asked last.
    pub fn take_marks(&mut self) -> Marks {
        std::mem::take(&mut self.marks)
    }

    /// Ends the connection.
    fn close_with(&mut self, closed: Closed, now: Duration) {
        if self.phase != Phase::Open {
            return;
        }
        self.closed = Some(closed);
        // Long enough for packets on the way to be known (RFC 9000 §10.2).
        let end = now + (3 * self.rtt.probe_timeout()).min(CLOSED_MAX);
        match closed {
            Closed::Idle => self.phase = Phase::Over,
            Closed::ByClient { .. } | Closed::ByReset => self.phase = Phase::Draining(end),
            Closed::ByError(_) | Closed::ByApplication(_) => {
                self.phase = Phase::Closing(end);
                self.is_close_due = true;
            }
        }
    }

    /// When it is time to give memory back, which a client that comes again soon has use for.
    fn rests_at(&self) -> Option<Duration> {
        let is_due = self.is_established && !self.is_resting && self.bytes_in_flight == 0;
        is_due.then(|| self.heard + REST_AFTER)
    }

    /// Nothing has been said for a while: gives back what is made again when something is.
    fn rest(&mut self) {
        self.is_resting = true;
        self.spaces.data.sent.rest();
        self.reordering.rest();
        self.congestion.rest();
        self.streams.rest();
        if let Some(keys) = &mut self.one_rtt {
            keys.rest();
        }
    }

    fn space(&mut self, level: Level) -> &mut Space {
        self.spaces.of(level)
    }

    fn has_keys(&self, level: Level) -> bool {
        match level {
            Level::Initial => self.initial.is_some(),
            Level::Handshake => self.handshake.is_some(),
            Level::OneRtt => self.one_rtt.is_some(),
        }
    }

    /// How long a client may take to be heard; `None` for ever.
    fn idle_timeout(&self) -> Option<Duration> {
        let own = self.local.idle_timeout;
        let least = match (own.is_zero(), self.peer.idle_timeout.is_zero()) {
            (true, true) => return None,
            (false, true) => own,
            (true, false) => self.peer.idle_timeout,
            (false, false) => own.min(self.peer.idle_timeout),
        };
        // Not shorter than it takes to notice losses (RFC 9000 §10.1).
        Some(least.max(3 * self.rtt.probe_timeout()))
    }

    /// Draws after how many packets a number is left out.
    fn draw_skip(&mut self) {
        self.until_skip = 1 + self.random.draw() % (2 * super::limits::SKIPPED_NUMBERS_EVERY);
    }
}

impl<P> std::fmt::Debug for Connection<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("client", &self.client)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}
