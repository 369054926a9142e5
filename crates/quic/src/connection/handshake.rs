//! The handshake of TLS within CRYPTO frames (RFC 9001 §4), and the choice of a version (RFC 9368).

use super::super::cipher::collect;
use super::super::error::{Error, code};
use super::super::id::Id;
use super::super::keys::initial_keys;
use super::super::one_rtt::OneRtt;
use super::super::parameters::{Names, Peer};
use super::super::sessions::of_version_2;
use super::super::space::Level;
use super::super::streams::Streams;
use super::super::version::Version;
use super::Connection;
use super::hello::Hello;
use rustls::quic::{KeyChange, Keys, ServerConnection};
use rustls::{ServerConfig, Side};
use std::sync::Arc;
use std::time::Duration;

/// What TLS begins with, once it is known which version the client likes best.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) tls: Arc<ServerConfig>,
    pub(super) names: Names,
    /// Whom the client's first packet is for.
    pub(super) receiver: Id,
}

impl Beginning {
    /// The keys of first packets, with a cipher of ours.
    ///
    /// # Errors
    /// INTERNAL_ERROR: the provider of TLS is not one for QUIC.
    pub(super) fn keys(&self, version: Version) -> Result<Keys, Error> {
        let provider = self.tls.crypto_provider();
        let receiver = self.receiver.as_bytes();
        let (keys, made) = collect(|| initial_keys(provider, version, receiver, Side::Server));
        let keys = keys.filter(|_| !made.is_empty());
        keys.ok_or(Error::new(code::INTERNAL_ERROR, "the provider of TLS does not fit"))
    }
}

impl<P: AsRef<[u8]>> Connection<P> {
    /// Bytes of the handshake came.
    pub(super) fn crypto(
        &mut self,
        level: Level,
        offset: u64,
        bytes: &[u8],
        now: Duration,
    ) -> Result<(), Error> {
        let has_moved_on = level == Level::Initial && self.handshake.is_some();
        let space = self.spaces.of(level);
        // What TLS has not asked for under these keys it must not get (RFC 9001 §4.1.3).
        let beyond = || Error::violation("the handshake goes on under keys of before");
        if has_moved_on && offset + bytes.len() as u64 > space.crypto_in.start() {
            return Err(beyond());
        }
        if !space.takes_crypto(offset + bytes.len() as u64) {
            let reason = "the handshake is too large";
            return Err(Error::new(code::CRYPTO_BUFFER_EXCEEDED, reason));
        }
        let too_many = |_| Error::new(code::CRYPTO_BUFFER_EXCEEDED, "the handshake has gaps");
        space.crypto_in.insert(offset, bytes).map_err(too_many)?;
        let ready = space.crypto_in.readable();
        // What is not whole is not copied: it may come a byte at a time.
        if ready.is_empty() || (self.beginning.is_some() && Hello::read(ready).is_none()) {
            return Ok(());
        }
        let ready = ready.to_vec();
        space.crypto_in.consume(ready.len());
        self.begin(&ready)?;
        // After the handshake a client has nothing to say (RFC 9001 §4.1.3, §6: no KeyUpdate).
        let Some(tls) = self.tls.as_mut().filter(|_| level != Level::OneRtt) else {
            let unexpected_message = 10;
            let reason = "a message of TLS came after the handshake";
            return Err(Error::new(code::CRYPTO_ERROR + unexpected_message, reason));
        };
        if tls.read_hs(&ready).is_err() {
            let alert = tls.alert().map_or(40, u8::from);
            let reason = "the handshake failed";
            return Err(Error::new(code::CRYPTO_ERROR + u64::from(alert), reason));
        }
        self.read_parameters()?;
        self.write_handshake(now)?;
        if !self.is_established && self.zero_rtt.is_none() {
            self.zero_rtt = self.tls.as_ref().and_then(|tls| tls.zero_rtt_keys());
            // Its session was given to who was at its address, as a token is (RFC 9000 §8.1.3). And a
            // client with early data under way may wait for the server alone (RFC 9002 §A.8), which
            // must not run out of room then.
            self.path.is_validated |= self.zero_rtt.is_some();
        }
        let space = self.space(level);
        if !space.crypto_in.is_empty() && level == Level::Initial && self.handshake.is_some() {
            return Err(beyond());
        }
        let is_over = self.tls.as_ref().is_some_and(|tls| !tls.is_handshaking());
        if is_over && !self.is_established {
            self.is_established = true;
            self.is_done_due = true;
            self.is_token_wanted = true;
            // What comes after it, such as tickets.
            self.write_handshake(now)?;
        }
        Ok(())
    }

    /// Begins TLS, in the version that the client likes best by its first message.
    fn begin(&mut self, message: &[u8]) -> Result<(), Error> {
        let Some(beginning) = self.beginning.take() else { return Ok(()) };
        let hello = Hello::read(message).unwrap_or_default();
        let original = self.original_version;
        let versions = hello
            .parameters
            .and_then(|parameters| Peer::read(parameters).ok()?.versions)
            // A session, and early data with it, is of the version that it began with (RFC 9369 §5).
            .filter(|versions| versions.chosen == original.number() && !hello.continues);
        let version = versions.and_then(|versions| versions.preferred).unwrap_or(original);
        if version != original {
            let keys = beginning.keys(version)?;
            let before = self.initial.replace(keys);
            self.original_initial = before.map(|keys| keys.remote);
            self.version = version;
        }
        let parameters = self.local.write(&beginning.names, version);
        let tls = match version {
            Version::V1 => Arc::clone(&beginning.tls),
            Version::V2 => Arc::new(of_version_2(&beginning.tls)),
        };
        let tls = ServerConnection::new(tls, version.tls(), parameters).map_err(|_| {
            Error::new(code::INTERNAL_ERROR, "the configuration of TLS does not fit")
        })?;
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// Takes what TLS has to say, and the keys it comes to.
    fn write_handshake(&mut self, now: Duration) -> Result<(), Error> {
        let mut level = if self.one_rtt.is_some() {
            Level::OneRtt
        } else if self.handshake.is_some() {
            Level::Handshake
        } else {
            Level::Initial
        };
        loop {
            let Some(tls) = &mut self.tls else { return Ok(()) };
            let mut out = Vec::new();
            let (change, made) = collect(|| tls.write_hs(&mut out));
            let is_over = out.is_empty() && change.is_none();
            self.space(level).crypto_out.write(out);
            match change {
                Some(KeyChange::Handshake { keys }) => {
                    self.handshake = Some(keys);
                    level = Level::Handshake;
                }
                Some(KeyChange::OneRtt { keys, next }) => {
                    let reason = "the provider of TLS does not fit";
                    let keys = OneRtt::new(keys, made, next, now);
                    self.one_rtt =
                        Some(keys.ok_or_else(|| Error::new(code::INTERNAL_ERROR, reason))?);
                    level = Level::OneRtt;
                }
                None if is_over => return Ok(()),
                None => {}
            }
        }
    }

    /// Takes the client's parameters, as soon as they are there.
    fn read_parameters(&mut self) -> Result<(), Error> {
        let Some(tls) = self.tls.as_ref().filter(|_| !self.has_peer) else { return Ok(()) };
        let Some(bytes) = tls.quic_transport_parameters() else { return Ok(()) };
        let peer = Peer::read(bytes)?;
        // Who changed the id on the way would be seen (RFC 9000 §7.3).
        if peer.initial_source != Some(self.client) {
            let reason = "the client's id is another in its parameters";
            return Err(Error::new(code::TRANSPORT_PARAMETER_ERROR, reason));
        }
        // Who changed the version on the way would be seen too (RFC 9368 §4).
        let original = self.original_version.number();
        if peer.versions.is_some_and(|versions| versions.chosen != original) {
            let reason = "the version is another in the client's parameters";
            return Err(Error::new(code::VERSION_NEGOTIATION_ERROR, reason));
        }
        self.has_peer = true;
        Streams::set_peer(&mut self.streams, &peer);
        self.own_ids.set_peer_max(peer.ids_max);
        self.asking.set_peer(peer.ack_delay_max, peer.ack_delay_min);
        self.peer = peer;
        Ok(())
    }

    /// Forgets a level: nothing of it is sent or taken any more (RFC 9001 §4.9).
    pub(super) fn drop_level(&mut self, level: Level) {
        match level {
            Level::Initial if self.initial.take().is_some() => self.original_initial = None,
            Level::Handshake if self.handshake.take().is_some() => {}
            _ => return,
        }
        let space = std::mem::replace(self.space(level), super::Space::new());
        self.bytes_in_flight -= space.sent.bytes();
        if self.initial.is_none() && self.handshake.is_none() {
            self.spaces.forget_handshake();
        }
        self.probe_count = 0;
    }
}
