//! The keys of data, and their updates (RFC 9001 §6).

use super::keys::{self, Opened};
use rustls::quic::{HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Secrets};
use std::ops::Range;
use std::time::Duration;

/// The keys of both directions, with those before and after.
pub(super) struct OneRtt {
    local_head: Box<dyn HeaderProtectionKey>,
    remote_head: Box<dyn HeaderProtectionKey>,
    local: Box<dyn PacketKey>,
    remote: Box<dyn PacketKey>,
    /// For packets that were sent before the last update.
    previous: Option<Box<dyn PacketKey>>,
    next: PacketKeySet,
    secrets: Secrets,
    phase: bool,
    /// The lowest number that came under the present keys; nothing has at first.
    first_number: u64,
    updated: Duration,
    /// Packets sealed with the present keys.
    sealed: u64,
}

/// The bit of the first byte that tells which keys a packet is under.
const PHASE_BIT: u8 = 4;

impl OneRtt {
    pub(super) fn new(keys: Keys, mut secrets: Secrets, now: Duration) -> Self {
        let next = secrets.next_packet_keys();
        Self {
            local_head: keys.local.header,
            remote_head: keys.remote.header,
            local: keys.local.packet,
            remote: keys.remote.packet,
            previous: None,
            next,
            secrets,
            phase: false,
            first_number: u64::MAX,
            updated: now,
            sealed: 0,
        }
    }

    pub(super) fn remote_head(&self) -> &dyn HeaderProtectionKey {
        &*self.remote_head
    }

    pub(super) fn phase(&self) -> bool {
        self.phase
    }

    /// Deciphers a packet. `pause` is the least time between two updates by the client.
    pub(super) fn open(
        &mut self,
        packet: &mut [u8],
        opened: Opened,
        end: usize,
        (now, pause): (Duration, Duration),
    ) -> Option<Range<usize>> {
        let number = opened.number;
        if (opened.first & PHASE_BIT != 0) == self.phase {
            let payload = keys::open_payload(&*self.remote, packet, opened, end)?;
            self.first_number = self.first_number.min(number);
            return Some(payload);
        }
        if let Some(previous) = self.previous.as_deref().filter(|_| number < self.first_number) {
            return keys::open_payload(previous, packet, opened, end);
        }
        // Who updates without end only makes work. The first time it may be at once, even before
        // anything came under the first keys: clients do so that count what they sent as early data, or
        // of which the first packets were lost.
        let is_first = self.previous.is_none();
        let has_waited = self.first_number != u64::MAX && now >= self.updated + pause;
        if !is_first && !has_waited {
            return None;
        }
        let payload = keys::open_payload(&*self.next.remote, packet, opened, end)?;
        self.update(now);
        self.first_number = number;
        Some(payload)
    }

    /// Seals a packet; false when the cipher refuses.
    pub(super) fn seal(
        &mut self,
        number: (u64, usize),
        payload_at: usize,
        packet: &mut [u8],
    ) -> bool {
        self.sealed += 1;
        keys::seal(&*self.local, &*self.local_head, number, payload_at, packet)
    }

    /// Whether these keys should not be used much longer (RFC 9001 §6.6).
    pub(super) fn is_worn(&self) -> bool {
        self.sealed >= self.local.confidentiality_limit() / 2 && self.first_number != u64::MAX
    }

    /// Whether these keys may not be used any more.
    pub(super) fn is_spent(&self) -> bool {
        self.sealed >= self.local.confidentiality_limit()
    }

    /// Takes the next keys.
    pub(super) fn update(&mut self, now: Duration) {
        let next = std::mem::replace(&mut self.next, self.secrets.next_packet_keys());
        self.local = next.local;
        self.previous = Some(std::mem::replace(&mut self.remote, next.remote));
        self.phase = !self.phase;
        self.first_number = u64::MAX;
        self.updated = now;
        self.sealed = 0;
    }
}

impl std::fmt::Debug for OneRtt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneRtt").field("phase", &self.phase).finish_non_exhaustive()
    }
}
