//! Session tickets that any worker, and later any node of a fleet, can open.
//!
//! A ticket is the session's state sealed with a key that clients never see (RFC 5077 §4, RFC 8446
//! §4.6.1). Keys change after a period; the key before is accepted for one more, so that a ticket
//! is good for one to two periods. A stolen key opens the sessions of those periods under TLS 1.2
//! and lets nobody read TLS 1.3 ones, which agree on fresh keys when they resume.
//!
//! Nodes that make their keys of one secret and the clock have the same ones without a message. Their
//! clocks differ, so the key of the next period opens as well.
//!
//! Form: 16 bytes key name, 12 bytes nonce, then AES-256-GCM-SIV of the state with the key name as
//! associated data. The nonce is random and drawn by every node of a fleet on its own; GCM-SIV
//! (RFC 8452) is safe should two ever draw the same.

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hmac, rand};
use freshet_base::clock::UnixMillis;
use rustls::server::ProducesTickets;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a key seals tickets where nothing else is configured.
pub const ROTATION: Duration = Duration::from_secs(12 * 3600);

/// Bytes of a [`TicketSecret`].
pub const SECRET_BYTES: usize = 32;

const NAME_BYTES: usize = 16;

/// What a ticket key is made from; the same on every node that shall open each other's tickets.
#[derive(Clone, Eq, PartialEq)]
pub struct TicketSecret([u8; SECRET_BYTES]);

/// The keys that seal and open tickets, shared by all configurations of a process.
pub struct TicketKeys {
    ring: ArcSwap<Ring>,
    /// Held while keys change, so that workers who find them due change them once.
    changing: Mutex<()>,
    period: Duration,
    source: Source,
}

/// Where keys come from.
enum Source {
    /// They are drawn here when they are due.
    Own,
    /// They are given from outside.
    Given,
    /// They are made of this and of the number of the period.
    Clock(TicketSecret),
}

struct Ring {
    present: Arc<Key>,
    /// Those that only open.
    others: Vec<Arc<Key>>,
    since: Instant,
    /// The number of the present key's period by the wall clock, where keys are made of that.
    number: u64,
}

struct Key {
    name: [u8; NAME_BYTES],
    aead: LessSafeKey,
}

impl TicketSecret {
    /// A secret from outside, such as a fleet's.
    pub fn new(secret: [u8; SECRET_BYTES]) -> Self {
        Self(secret)
    }

    /// A new random secret.
    pub fn random() -> Self {
        let mut secret = [0; SECRET_BYTES];
        rand::fill(&mut secret).expect("the system's random numbers do not fail once seeded");
        Self(secret)
    }

    /// Another secret, made of this one for a purpose. It says nothing of this one.
    pub(crate) fn derive(&self, purpose: &[&[u8]]) -> Self {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.0));
        purpose.iter().for_each(|part| context.update(part));
        Self(context.sign().as_ref().try_into().expect("HMAC-SHA256 gives 32 bytes"))
    }
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketSecret(hidden)")
    }
}

impl TicketKeys {
    /// Random keys of this process, changed after each `period`.
    pub fn random(period: Duration) -> Arc<Self> {
        Self::with(&[TicketSecret::random()], period, Source::Own)
    }

    /// Keys of `secret` and the wall clock, another for each `period` since 1970: whoever has the same
    /// secret has them too. What the key of the period before sealed is opened, and of the next one, so
    /// that a ticket is good for one to two periods at nodes whose clocks are less than one apart.
    pub fn by_clock(secret: TicketSecret, period: Duration) -> Arc<Self> {
        let number = period_number(period, UnixMillis::now());
        let ring = Ring::of_period(&secret, number);
        Self::of(ring, period, Source::Clock(secret))
    }

    /// Keys from outside. They stay until [`TicketKeys::rotate`] is called; `period` is only what
    /// clients are told about how long a ticket is good for.
    pub fn given(secret: TicketSecret, period: Duration) -> Arc<Self> {
        Self::given_all(&[secret], period)
    }

    /// As [`TicketKeys::given`], of several: the first seals, all open.
    ///
    /// # Panics
    /// When there is none.
    pub fn given_all(secrets: &[TicketSecret], period: Duration) -> Arc<Self> {
        Self::with(secrets, period, Source::Given)
    }

    /// Seals with `secret` from now on and still opens what the present key sealed.
    pub fn rotate(&self, secret: &TicketSecret) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let present = Arc::clone(&self.ring.load().present);
        self.install(secret, vec![present], Instant::now());
    }

    /// Seals with the first of these from now on and opens what any of them sealed, and nothing else.
    pub(crate) fn replace(&self, secrets: &[TicketSecret]) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((first, others)) = secrets.split_first() {
            self.install(first, keys(others), Instant::now());
        }
    }

    /// Has the keys that are due now. Sealing and opening do this by themselves.
    fn change_if_due(&self) {
        match &self.source {
            Source::Own => self.rotate_if_due(Instant::now()),
            Source::Given => {}
            Source::Clock(secret) => self.follow(secret, UnixMillis::now()),
        }
    }

    /// Draws a new key if the present one has served its period at `now`.
    fn rotate_if_due(&self, now: Instant) {
        let age = |ring: &Ring| now.saturating_duration_since(ring.since);
        if age(&self.ring.load()) < self.period {
            return;
        }
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let ring = self.ring.load();
        let age = age(&ring);
        if age >= self.period {
            // After two quiet periods even the last ticket has run out.
            let before = (age < self.period * 2).then(|| Arc::clone(&ring.present));
            self.install(&TicketSecret::random(), before.into_iter().collect(), now);
        }
    }

    /// Has the keys of the period that `now` is in, also where the clock was set back.
    fn follow(&self, secret: &TicketSecret, now: UnixMillis) {
        let number = period_number(self.period, now);
        if self.ring.load().number == number {
            return;
        }
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ring.load().number != number {
            self.ring.store(Arc::new(Ring::of_period(secret, number)));
        }
    }

    fn with(secrets: &[TicketSecret], period: Duration, source: Source) -> Arc<Self> {
        let (first, others) = secrets.split_first().expect("there is a key to seal with");
        let (present, others) = (Arc::new(Key::new(first)), keys(others));
        let ring = Ring { present, others, since: Instant::now(), number: 0 };
        Self::of(ring, period, source)
    }

    fn of(ring: Ring, period: Duration, source: Source) -> Arc<Self> {
        let (ring, changing) = (ArcSwap::from_pointee(ring), Mutex::new(()));
        Arc::new(Self { ring, changing, period, source })
    }

    fn install(&self, secret: &TicketSecret, others: Vec<Arc<Key>>, since: Instant) {
        let present = Arc::new(Key::new(secret));
        self.ring.store(Arc::new(Ring { present, others, since, number: 0 }));
    }
}

/// Which period since 1970 it is.
fn period_number(period: Duration, now: UnixMillis) -> u64 {
    u64::try_from(u128::from(now.0) / period.as_millis().max(1)).unwrap_or(u64::MAX)
}

impl Ring {
    /// The key of a period, and those of its neighbours.
    fn of_period(secret: &TicketSecret, number: u64) -> Self {
        let key = |number: u64| {
            Arc::new(Key::new(&secret.derive(&[b"freshet ticket period", &number.to_be_bytes()])))
        };
        let others = vec![key(number.saturating_sub(1)), key(number.saturating_add(1))];
        Self { present: key(number), others, since: Instant::now(), number }
    }

    fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let name = ticket.first_chunk::<NAME_BYTES>()?;
        let key = std::iter::once(&self.present).chain(&self.others).find(|k| k.name == *name)?;
        key.open(ticket)
    }
}

fn keys(secrets: &[TicketSecret]) -> Vec<Arc<Key>> {
    secrets.iter().map(|secret| Arc::new(Key::new(secret))).collect()
}

impl ProducesTickets for TicketKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        // RFC 8446 §4.6.1: at most seven days.
        let seconds = self.period.as_secs().min(7 * 24 * 3600);
        u32::try_from(seconds).expect("seven days of seconds fit 32 bits")
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.change_if_due();
        self.ring.load().present.seal(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.change_if_due();
        self.ring.load().open(ticket)
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeys").field("period", &self.period).finish_non_exhaustive()
    }
}

impl Key {
    fn new(secret: &TicketSecret) -> Self {
        let derive = hmac::Key::new(hmac::HMAC_SHA256, &secret.0);
        let name = hmac::sign(&derive, b"freshet ticket name");
        let key = hmac::sign(&derive, b"freshet ticket key");
        let name = name.as_ref().first_chunk().expect("HMAC-SHA256 gives 32 bytes");
        let key = UnboundKey::new(&AES_256_GCM_SIV, key.as_ref());
        Self { name: *name, aead: LessSafeKey::new(key.expect("HMAC-SHA256 gives 32 bytes")) }
    }

    fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let tag_bytes = AES_256_GCM_SIV.tag_len();
        let mut ticket = Vec::with_capacity(NAME_BYTES + NONCE_LEN + plain.len() + tag_bytes);
        ticket.extend_from_slice(&self.name);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(plain);
        let (_, state) = ticket.split_at_mut(NAME_BYTES + NONCE_LEN);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.aead.seal_in_place_separate_tag(nonce, Aad::from(self.name), state).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (_, rest) = ticket.split_at_checked(NAME_BYTES)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let mut state = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let bytes = self.aead.open_in_place(nonce, Aad::from(self.name), &mut state).ok()?.len();
        state.truncate(bytes);
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_ticket_opens_for_one_more_period_after_its_key_was_replaced() {
        let keys = TicketKeys::random(HOUR);
        let start = keys.ring.load().since;
        let ticket = keys.encrypt(b"state").unwrap();
        keys.rotate_if_due(start + HOUR - Duration::from_secs(1));
        assert!(keys.ring.load().others.is_empty());
        keys.rotate_if_due(start + HOUR);
        assert_eq!(keys.ring.load().others.len(), 1);
        assert!(keys.ring.load().open(&ticket).is_some());
        keys.rotate_if_due(start + 2 * HOUR);
        assert!(keys.ring.load().open(&ticket).is_none());
    }

    #[test]
    fn after_two_quiet_periods_the_old_key_is_forgotten_at_once() {
        let keys = TicketKeys::random(HOUR);
        let start = keys.ring.load().since;
        keys.rotate_if_due(start + 3 * HOUR);
        assert!(keys.ring.load().others.is_empty());
    }

    #[test]
    fn nodes_with_the_same_secret_open_each_others_tickets() {
        let secret = TicketSecret::random();
        let one = TicketKeys::given(secret.clone(), HOUR);
        let other = TicketKeys::given(secret, HOUR);
        let ticket = one.encrypt(b"state").unwrap();
        assert_eq!(other.decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        other.rotate(&TicketSecret::random());
        assert_eq!(other.decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        other.rotate(&TicketSecret::random());
        assert_eq!(other.decrypt(&ticket), None);
    }

    #[test]
    fn keys_by_the_clock_are_the_same_at_nodes_whose_clocks_differ() {
        let secret = TicketSecret::new([7; SECRET_BYTES]);
        let (one, other) = [(); 2].map(|()| TicketKeys::by_clock(secret.clone(), HOUR)).into();
        let stranger = TicketKeys::by_clock(TicketSecret::new([8; SECRET_BYTES]), HOUR);
        let minute = |minutes: u64| UnixMillis(500 * 3_600_000 + minutes * 60_000);
        // Sealed at a minute, opened at another: of the hours before and after as well.
        for (sealed, opened, is_open) in [
            (0, 0, true),
            (59, 60, true),
            (60, 59, true),
            (0, 119, true),
            (0, 120, false),
            (60, 0, true),
            (120, 59, false),
            (125, 60, true),
        ] {
            one.follow(&secret, minute(sealed));
            let ticket = one.ring.load().present.seal(b"state").unwrap();
            for keys in [&other, &stranger] {
                keys.follow(&secret_of(keys), minute(opened));
                let got = keys.ring.load().open(&ticket);
                let opens = is_open && Arc::ptr_eq(keys, &other);
                assert_eq!(got.is_some(), opens, "{sealed} {opened}");
            }
        }
        // A clock that goes back has the keys of then.
        one.follow(&secret, minute(0));
        let then = one.ring.load().present.name;
        one.follow(&secret, minute(600));
        assert_ne!(one.ring.load().present.name, then);
        one.follow(&secret, minute(1));
        assert_eq!(one.ring.load().present.name, then);
        // The first hours of 1970 are no trouble.
        one.follow(&secret, UnixMillis(0));
        assert_eq!(one.ring.load().number, 0);
    }

    fn secret_of(keys: &TicketKeys) -> TicketSecret {
        let Source::Clock(secret) = &keys.source else { panic!("they have none") };
        secret.clone()
    }

    #[test]
    fn keys_by_the_clock_are_those_of_now() {
        let keys = TicketKeys::by_clock(TicketSecret::random(), HOUR);
        let before = period_number(HOUR, UnixMillis::now());
        keys.follow(&secret_of(&keys), UnixMillis(0));
        let ticket = keys.encrypt(b"state").unwrap();
        assert!(keys.ring.load().number >= before);
        assert_eq!(keys.decrypt(&ticket).as_deref(), Some(&b"state"[..]));
    }

    #[test]
    fn nothing_that_is_formatted_shows_a_secret() {
        let secret = TicketSecret::new([0xAB; SECRET_BYTES]);
        let keys = [TicketKeys::given, TicketKeys::by_clock].map(|of| of(secret.clone(), HOUR));
        let text = format!("{secret:?} {keys:?}");
        assert!(!text.contains("171") && !text.to_ascii_lowercase().contains("ab,"), "{text}");
    }

    proptest! {
        #[test]
        fn a_changed_or_foreign_ticket_is_refused_quietly(
            state in proptest::collection::vec(any::<u8>(), 0..300),
            at: prop::sample::Index,
            flip in 1u8..,
            noise in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let keys = TicketKeys::random(HOUR);
            let mut ticket = keys.encrypt(&state).unwrap();
            prop_assert_eq!(keys.decrypt(&ticket), Some(state));
            let at = at.index(ticket.len());
            ticket[at] ^= flip;
            prop_assert_eq!(keys.decrypt(&ticket), None);
            prop_assert_eq!(keys.decrypt(&ticket[..at]), None);
            prop_assert_eq!(keys.decrypt(&noise), None);
        }
    }
}
