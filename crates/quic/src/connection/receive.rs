//! Datagrams in.

use super::super::ecn::Ecn;
use super::super::error::{Error, code};
use super::super::keys::{self, Opened};
use super::super::limits::{
    EARLY_BYTES_MAX, FORGED_PACKETS_MAX, PACKETS_PER_DATAGRAM_MAX, RESET_BYTES_MIN,
};
use super::super::packet::{Kind, Protected};
use super::super::route::Route;
use super::super::space::{Asks, Level};
use super::super::version::Version;
use super::{Closed, Connection, Phase};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use rustls::quic::DirectionalKeys;
use std::ops::Range;
use std::time::Duration;

impl<P: AsRef<[u8]>> Connection<P> {
    /// A datagram came over `route`, marked as `ecn` says, which is deciphered in place. What it brought is told by
    /// [`next_event`](Self::next_event); what there is to say by [`fill`](Self::fill).
    pub fn receive(&mut self, route: Route, ecn: Ecn, datagram: &mut [u8], now: Duration) {
        match self.phase {
            Phase::Open => {}
            Phase::Closing(_) => {
                // Less and less often (RFC 9000 §10.2.1).
                self.closing_packets += 1;
                self.is_close_due |= self.closing_packets.is_power_of_two();
                self.path.received(datagram.len());
                return;
            }
            Phase::Draining(_) | Phase::Over => return,
        }
        if self.is_reset(route, datagram) {
            return self.close_with(Closed::ByReset, now);
        }
        if let Some(path) = self.path_of(route) {
            path.received(datagram.len());
        }
        let keys_before = (self.is_established, self.zero_rtt.is_some());
        let mut result = self.take_datagram(route, ecn, datagram, now);
        if (self.is_established, self.zero_rtt.is_some()) != keys_before {
            for mut early in std::mem::take(&mut self.early) {
                result =
                    result.and_then(|()| self.take_datagram(route, Ecn::NotEct, &mut early, now));
            }
        }
        if let Err(error) = result {
            self.close_with(Closed::ByError(error), now);
        }
        if !self.path.is_validated {
            // What was due, and had no room, goes before what is new (RFC 9002 §A.6).
            self.on_timeout(now);
        }
    }

    /// Whether the client says with a datagram that it knows nothing of the connection any more, where we would say something to
    /// it (RFC 9000 §10.3.1).
    fn is_reset(&mut self, route: Route, datagram: &[u8]) -> bool {
        let Some(end) = datagram.last_chunk::<16>() else { return false };
        let is_token = |token: [u8; 16]| verify_slices_are_equal(&token, end).is_ok();
        datagram.len() >= RESET_BYTES_MIN
            && self.peer_ids.reset_tokens().any(is_token)
            && self.path_of(route).is_some()
    }

    fn take_datagram(
        &mut self,
        route: Route,
        ecn: Ecn,
        datagram: &mut [u8],
        now: Duration,
    ) -> Result<(), Error> {
        let len = datagram.len();
        let mut rest = datagram;
        let mut receiver = None;
        for _ in 0..PACKETS_PER_DATAGRAM_MAX {
            let Some(packet) = Protected::read(rest) else { break };
            // All packets of a datagram are for the same id (RFC 9000 §12.2).
            if *receiver.get_or_insert(packet.receiver) != packet.receiver {
                break;
            }
            let end = packet.end;
            let (bytes, after) = std::mem::take(&mut rest).split_at_mut(end);
            if self.phase != Phase::Open {
                break;
            }
            self.packet((route, ecn), bytes, &packet, now, len)?;
            rest = after;
        }
        Ok(())
    }

    fn packet(
        &mut self,
        (route, ecn): (Route, Ecn),
        bytes: &mut [u8],
        packet: &Protected,
        now: Duration,
        datagram_bytes: usize,
    ) -> Result<(), Error> {
        let level = match packet.kind {
            Kind::Initial => Level::Initial,
            Kind::Handshake => Level::Handshake,
            Kind::OneRtt | Kind::ZeroRtt => Level::OneRtt,
            // Only servers send it.
            Kind::Retry => {
                self.statistics.packets_dropped += 1;
                return Ok(());
            }
        };
        // A client keeps its id during the handshake (RFC 9000 §7.2).
        let is_another = packet.kind != Kind::OneRtt && packet.sender != self.client;
        if is_another || !self.takes_version(packet) {
            self.statistics.packets_dropped += 1;
            return Ok(());
        }
        // A client sends data as soon as it has the keys, which may be before its handshake arrives.
        let is_ahead = match packet.kind {
            Kind::OneRtt => !self.is_established,
            Kind::ZeroRtt => self.one_rtt.is_none(),
            _ => false,
        };
        if is_ahead {
            let held: usize = self.early.iter().map(Vec::len).sum();
            if held + bytes.len() <= EARLY_BYTES_MAX {
                self.early.push(bytes.to_vec());
            }
            return Ok(());
        }
        let is_too_short =
            level == Level::Initial && datagram_bytes < super::super::limits::DATAGRAM_BYTES_MIN;
        let opened = if is_too_short { None } else { self.open_packet(level, bytes, packet, now) };
        let Some((opened, payload)) = opened else {
            self.statistics.packets_dropped += 1;
            if self.statistics.packets_dropped > FORGED_PACKETS_MAX {
                return Err(Error::new(code::AEAD_LIMIT_REACHED, "too many packets are forged"));
            }
            return Ok(());
        };
        if opened.first & keys::reserved_bits(packet.kind) != 0 {
            return Err(Error::violation("reserved bits are set"));
        }
        if self.space(level).received.is_known(opened.number) {
            return Ok(());
        }
        self.statistics.packets_received += 1;
        self.heard = now;
        self.is_resting = false;
        self.has_sent_since = false;
        if level == Level::Handshake {
            // Who can answer a packet of the handshake has received it (RFC 9000 §8.1).
            self.path.is_validated = true;
            self.drop_level(Level::Initial);
        }
        let expected = self.space(level).received.expected();
        if level != Level::OneRtt && opened.number >= expected {
            self.rebound(route, datagram_bytes);
        }
        let payload = bytes.get(payload).unwrap_or(&[]);
        let seen = self.frames(level, payload, packet, route, now)?;
        let delay_max = match level {
            Level::OneRtt => self.local.ack_delay_max,
            Level::Initial | Level::Handshake => Duration::ZERO,
        };
        // The level may be gone by what the packet brought.
        if self.has_keys(level) {
            self.marks.received += u64::from(ecn == Ecn::Ce);
            let received = &mut self.space(level).received;
            received.counts.add(ecn);
            // A mark does not wait (RFC 9000 §13.2.1).
            let is_marked = ecn == Ecn::Ce && seen.asks != Asks::Nothing;
            let asks = if is_marked { Asks::AtOnce } else { seen.asks };
            received.add(opened.number, asks, now, delay_max);
        }
        if self.is_established {
            self.drop_level(Level::Handshake);
        }
        if packet.kind == Kind::OneRtt {
            self.zero_rtt = None;
        }
        let has_moved = route != self.path.route && packet.kind == Kind::OneRtt;
        if has_moved && opened.number >= expected && !seen.is_probing {
            self.moved(route, datagram_bytes, now)?;
        }
        Ok(())
    }

    /// Whether a packet is of a version that it can be of by now (RFC 9369 §4.1).
    fn takes_version(&self, packet: &Protected) -> bool {
        let Some(version) = packet.version else { return true };
        match packet.kind {
            Kind::Initial => version == self.version || version == self.original_version,
            Kind::ZeroRtt => version == self.original_version,
            _ => version == self.version,
        }
    }

    /// The keys of a client's first packets. Until it knows which version the server chose, that is the
    /// one that it began with.
    fn initial_remote(&self, version: Option<Version>) -> Option<&DirectionalKeys> {
        if version == Some(self.version) {
            return self.initial.as_ref().map(|keys| &keys.remote);
        }
        self.original_initial.as_ref()
    }

    fn open_packet(
        &mut self,
        level: Level,
        bytes: &mut [u8],
        packet: &Protected,
        now: Duration,
    ) -> Option<(Opened, Range<usize>)> {
        if !self.has_keys(level) {
            return None;
        }
        let expected = self.space(level).received.expected();
        // Three round trips between two updates (RFC 9001 §6.5).
        let pause = 3 * self.rtt.probe_timeout();
        let head = match level {
            Level::Initial => &*self.initial_remote(packet.version)?.header,
            Level::Handshake => &*self.handshake.as_ref()?.remote.header,
            Level::OneRtt if packet.kind == Kind::ZeroRtt => &*self.zero_rtt.as_ref()?.header,
            Level::OneRtt => self.one_rtt.as_ref()?.remote_head(),
        };
        let opened = keys::open_head(head, bytes, packet, expected)?;
        let key = match level {
            Level::Initial => &*self.initial_remote(packet.version)?.packet,
            Level::Handshake => &*self.handshake.as_ref()?.remote.packet,
            Level::OneRtt if packet.kind == Kind::ZeroRtt => &*self.zero_rtt.as_ref()?.packet,
            Level::OneRtt => {
                let keys = self.one_rtt.as_mut()?;
                let payload = keys.open(bytes, opened, packet.end, (now, pause))?;
                return Some((opened, payload));
            }
        };
        Some((opened, keys::open_payload(key, bytes, opened, packet.end)?))
    }
}
