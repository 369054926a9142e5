//! The keys of data, and their updates (RFC 9001 §6).

use super::cipher::{Cipher, collect};
use super::keys::{self, Opened};
use rustls::quic::{HeaderProtectionKey, Keys, Secrets};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The keys of both directions, with those before and after.
pub(super) struct OneRtt {
    local_head: Box<dyn HeaderProtectionKey>,
    remote_head: Box<dyn HeaderProtectionKey>,
    local: Arc<Cipher>,
    remote: Arc<Cipher>,
    /// For packets that were sent before the last update.
    previous: Option<Arc<Cipher>>,
    /// Made before they are needed, so that the time it takes does not tell when (RFC 9001 §6.3); not
    /// there while nothing comes.
    next: Option<Ciphers>,
    /// What those are made of.
    secrets: Secrets,
    phase: bool,
    /// The lowest number that came under the present keys; nothing has at first.
    first_number: u64,
    updated: Duration,
    /// Packets sealed with the present keys.
    sealed: u64,
}

/// The ciphers of both directions.
struct Ciphers {
    local: Arc<Cipher>,
    remote: Arc<Cipher>,
}

impl Ciphers {
    /// Those that rustls had made in one step: it begins with ours.
    fn of(made: Vec<Arc<Cipher>>) -> Option<Self> {
        let [local, remote] = made.try_into().ok()?;
        Some(Self { local, remote })
    }

    /// Those that are made of `secrets`, which become the ones behind these.
    fn next(secrets: &mut Secrets) -> Option<Self> {
        Self::of(collect(|| secrets.next_packet_keys()).1)
    }

    /// The same, and the secrets stay.
    fn ahead(secrets: &Secrets) -> Option<Self> {
        Self::next(&mut secrets.clone())
    }
}

/// The bit of the first byte that tells which keys a packet is under.
const PHASE_BIT: u8 = 4;

impl OneRtt {
    /// Those of a handshake, with the ciphers that were made with its `keys`; `None` when the provider of
    /// TLS does not make ours.
    pub(super) fn new(
        keys: Keys,
        made: Vec<Arc<Cipher>>,
        secrets: Secrets,
        now: Duration,
    ) -> Option<Self> {
        let Ciphers { local, remote } = Ciphers::of(made)?;
        let next = Some(Ciphers::ahead(&secrets)?);
        Some(Self {
            local_head: keys.local.header,
            remote_head: keys.remote.header,
            local,
            remote,
            previous: None,
            next,
            secrets,
            phase: false,
            first_number: u64::MAX,
            updated: now,
            sealed: 0,
        })
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
        if self.next.is_none() {
            // Whatever this packet is under, so that it does not show.
            self.next = Ciphers::ahead(&self.secrets);
        }
        if (opened.first & PHASE_BIT != 0) == self.phase {
            let payload = keys::open_with(&self.remote, packet, opened, end)?;
            self.first_number = self.first_number.min(number);
            return Some(payload);
        }
        if let Some(previous) = self.previous.as_deref().filter(|_| number < self.first_number) {
            return keys::open_with(previous, packet, opened, end);
        }
        // Who updates without end only makes work. The first time it may be at once, even before
        // anything came under the first keys: clients do so that count what they sent as early data, or
        // of which the first packets were lost.
        let is_first = self.previous.is_none();
        let has_waited = self.first_number != u64::MAX && now >= self.updated + pause;
        if !is_first && !has_waited {
            return None;
        }
        let payload = keys::open_with(&self.next.as_ref()?.remote, packet, opened, end)?;
        self.update(now);
        self.first_number = number;
        Some(payload)
    }

    /// Seals a packet whose payload ends with `tail`, which is not in it yet; false when the cipher
    /// refuses.
    pub(super) fn seal(
        &mut self,
        (number, number_bytes): (u64, usize),
        payload_at: usize,
        packet: &mut [u8],
        tail: &[u8],
    ) -> bool {
        self.sealed += 1;
        let Some((head, payload)) = packet.split_at_mut_checked(payload_at) else { return false };
        self.local.seal(number, head, payload, tail)
            && keys::hide_head(&*self.local_head, number_bytes, payload_at, packet)
    }

    /// Whether these keys should not be used much longer (RFC 9001 §6.6).
    pub(super) fn is_worn(&self) -> bool {
        self.sealed >= self.local.confidentiality_limit() / 2 && self.first_number != u64::MAX
    }

    /// Whether these keys may not be used any more.
    pub(super) fn is_spent(&self) -> bool {
        self.sealed >= self.local.confidentiality_limit()
    }

    /// Lets the next keys go until a packet comes.
    pub(super) fn rest(&mut self) {
        self.next = None;
    }

    /// Takes the next keys.
    pub(super) fn update(&mut self, now: Duration) {
        let Some(next) = Ciphers::next(&mut self.secrets) else { return };
        self.next = Ciphers::ahead(&self.secrets);
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
