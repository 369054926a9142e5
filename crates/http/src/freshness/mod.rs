//! How long a stored response may be used, and how (RFC 9111 §4.2, RFC 5861).
//!
//! [`storability`] decides once, when a response arrives, and leaves a [`Freshness`] with the
//! stored response. From then on each question about it is arithmetic: no field is read and
//! nothing is allocated on the hit path.

mod credentials;
mod storability;

pub use credentials::Credentials;
pub use storability::{Given, InPlaceOf, Received, SetCookie, Settings, Storability, storability};

use crate::cache_control::RequestCacheControl;
use freshet_base::clock::UnixMillis;
use std::time::Duration;

/// What is known about the age of a stored response and what its origin allows.
///
/// A policy can change all of it; [`Freshness::with_lifetime`] is the usual way to do that. Spans are kept
/// in whole milliseconds, the nearest ones: there are four for each stored response, and a `Duration` is
/// twice as long.
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts, in bytes that would be padding"
)]
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Freshness {
    /// When the response arrived (`response_time`).
    pub received: UnixMillis,
    initial_age_ms: u64,
    lifetime_ms: u64,
    stale_while_revalidate_ms: u64,
    stale_if_error_ms: u64,
    /// Where the lifetime comes from.
    pub source: LifetimeSource,
    /// Whether it must not be used stale without asking, by `must-revalidate`,
    /// `proxy-revalidate` or `s-maxage`.
    pub must_revalidate: bool,
    /// Whether it must not be used at all without asking.
    pub no_cache: bool,
    /// Whether it will not change while it is fresh (RFC 8246).
    pub immutable: bool,
    /// Whether it came with an `Age`, if only 0: from a cache that did not ask the origin for it (RFC 9111 §5.1).
    pub was_aged: bool,
}

/// Lifetimes a policy gives to what is stored already, in the place of those it had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lifetimes {
    /// From when on they count.
    pub from: UnixMillis,
    /// How long it is fresh.
    pub ttl: Duration,
    /// How long it may be served stale behind that; `None` for as long as before.
    pub grace: Option<Duration>,
    /// How long it is kept behind that, to be validated; `None` for as long as before.
    pub keep: Option<Duration>,
}

/// Where a freshness lifetime comes from.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LifetimeSource {
    /// `s-maxage`
    SMaxAge,
    /// `max-age`
    MaxAge,
    /// `Expires` less `Date`
    Expires,
    /// A share of the time since `Last-Modified` (§4.2.2)
    Heuristic,
    /// A targeted field such as `CDN-Cache-Control` (RFC 9213)
    Targeted,
    /// [`Settings::negative_ttl`]
    Negative,
    /// A policy
    Policy,
    /// Nothing: the lifetime is zero
    None,
}

impl LifetimeSource {
    /// The name in logs and explanations.
    pub fn code(self) -> &'static str {
        match self {
            Self::SMaxAge => "s-maxage",
            Self::MaxAge => "max-age",
            Self::Expires => "expires",
            Self::Heuristic => "heuristic",
            Self::Targeted => "targeted",
            Self::Negative => "negative",
            Self::Policy => "policy",
            Self::None => "none",
        }
    }

    /// Whether the origin said it in so many words (§4.2.1).
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::SMaxAge | Self::MaxAge | Self::Expires | Self::Targeted)
    }
}

/// How a stored response may be used now.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Reuse {
    /// As it is.
    Fresh,
    /// As it is, while one request asks the origin for a newer one.
    StaleWhileRevalidate,
    /// After asking the origin, or when the origin fails, as far as
    /// [`Freshness::may_serve_on_error`] allows.
    Stale,
    /// Only after asking the origin.
    MustValidate,
}

impl Freshness {
    /// A response that arrived new at `received` and that a policy lets live for `lifetime`.
    pub fn from_policy(received: UnixMillis, lifetime: Duration) -> Self {
        Self {
            received,
            initial_age_ms: 0,
            lifetime_ms: millis(lifetime),
            stale_while_revalidate_ms: 0,
            stale_if_error_ms: 0,
            source: LifetimeSource::Policy,
            must_revalidate: false,
            no_cache: false,
            immutable: false,
            was_aged: false,
        }
    }

    /// Its age when it arrived (`corrected_initial_age`, §4.2.3).
    pub fn initial_age(&self) -> Duration {
        Duration::from_millis(self.initial_age_ms)
    }

    /// Says how old it was when it arrived.
    pub fn set_initial_age(&mut self, age: Duration) {
        self.initial_age_ms = millis(age);
    }

    /// `freshness_lifetime` (§4.2.1), counted from age zero.
    pub fn lifetime(&self) -> Duration {
        Duration::from_millis(self.lifetime_ms)
    }

    /// Gives it another lifetime, counted from age zero.
    pub fn set_lifetime(&mut self, lifetime: Duration) {
        self.lifetime_ms = millis(lifetime);
    }

    /// How long after its lifetime it may be served while it is being refreshed; zero where the
    /// origin forbids it.
    pub fn stale_while_revalidate(&self) -> Duration {
        Duration::from_millis(self.stale_while_revalidate_ms)
    }

    /// Says how long it may be served while it is being refreshed.
    pub fn set_stale_while_revalidate(&mut self, window: Duration) {
        self.stale_while_revalidate_ms = millis(window);
    }

    /// How long after its lifetime it may be served when the origin fails; zero where the origin
    /// forbids it.
    pub fn stale_if_error(&self) -> Duration {
        Duration::from_millis(self.stale_if_error_ms)
    }

    /// Says how long it may be served when the origin fails.
    pub fn set_stale_if_error(&mut self, window: Duration) {
        self.stale_if_error_ms = millis(window);
    }

    /// This with a lifetime that a policy chose. It counts from `now`, whatever age the response
    /// has.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Duration, now: UnixMillis) -> Self {
        self.lifetime_ms = self.age_ms(now).saturating_add(millis(lifetime));
        self.source = LifetimeSource::Policy;
        self
    }

    /// This with other lifetimes, longer or shorter ones.
    #[must_use]
    pub fn given(mut self, lifetimes: &Lifetimes) -> Self {
        if let Some(grace) = lifetimes.grace {
            self = self.with_grace(grace);
        }
        self.with_lifetime(lifetimes.ttl, lifetimes.from)
    }

    /// This with another time to be served stale: while it is refreshed, and no longer than that
    /// when the origin fails.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.stale_while_revalidate_ms = millis(grace);
        self.stale_if_error_ms = self.stale_if_error_ms.min(self.stale_while_revalidate_ms);
        self
    }

    /// This with a life that has ended at a time: no lifetime, and stale windows that end where they
    /// would if it had ended then. So it is stale whatever clock is asked.
    #[must_use]
    pub fn ended(mut self, at: UnixMillis) -> Self {
        let lived_ms = self.lifetime_ms.min(self.age_ms(at));
        self.lifetime_ms = 0;
        for window_ms in [&mut self.stale_while_revalidate_ms, &mut self.stale_if_error_ms] {
            if *window_ms > 0 {
                *window_ms = window_ms.saturating_add(lived_ms);
            }
        }
        self
    }

    /// `current_age` (§4.2.3). For an `Age` field round down to seconds.
    #[inline]
    pub fn age(&self, now: UnixMillis) -> Duration {
        Duration::from_millis(self.age_ms(now))
    }

    #[inline]
    fn age_ms(&self, now: UnixMillis) -> u64 {
        self.initial_age_ms.saturating_add(now.0.saturating_sub(self.received.0))
    }

    /// Milliseconds of freshness left; negative once stale.
    #[inline]
    pub fn ttl_ms(&self, now: UnixMillis) -> i64 {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        signed(self.lifetime_ms).saturating_sub(signed(self.age_ms(now)))
    }

    /// When it stops being fresh.
    pub fn fresh_until(&self) -> UnixMillis {
        self.after(self.lifetime_ms)
    }

    /// Whether age has not reached the lifetime (§4.2). A response that must be validated before
    /// each use can be fresh too.
    #[inline]
    pub fn is_fresh(&self, now: UnixMillis) -> bool {
        self.age_ms(now) < self.lifetime_ms
    }

    /// What may be done with it now, without regard to what the client asked for.
    #[inline]
    pub fn reuse(&self, now: UnixMillis) -> Reuse {
        if self.no_cache {
            return Reuse::MustValidate;
        }
        let age_ms = self.age_ms(now);
        if age_ms < self.lifetime_ms {
            Reuse::Fresh
        } else if age_ms < self.lifetime_ms.saturating_add(self.stale_while_revalidate_ms) {
            Reuse::StaleWhileRevalidate
        } else if self.must_revalidate {
            Reuse::MustValidate
        } else {
            Reuse::Stale
        }
    }

    /// As [`Freshness::reuse`], with the wishes of the client honoured (§5.2.1): `no-cache`,
    /// `max-age` and `min-fresh` can ask for validation, `max-stale` can do without. RFC 8246 §2:
    /// a fresh immutable response is not validated because of `max-age=0`.
    pub fn reuse_as_asked(&self, now: UnixMillis, asked: &RequestCacheControl) -> Reuse {
        let reuse = self.reuse(now);
        if reuse == Reuse::MustValidate || asked.no_cache {
            return Reuse::MustValidate;
        }
        let (age, lifetime) = (self.age(now), self.lifetime());
        let too_old = asked.max_age.is_some_and(|limit| age > limit || limit.is_zero());
        let left = lifetime.saturating_sub(age);
        let too_short = asked.min_fresh.is_some_and(|wanted| left < wanted);
        if too_short || (too_old && !(self.immutable && reuse == Reuse::Fresh)) {
            return Reuse::MustValidate;
        }
        let stale_for = age.saturating_sub(lifetime);
        let tolerated = asked.max_stale.is_some_and(|limit| stale_for <= limit);
        if reuse == Reuse::Stale && tolerated { Reuse::Fresh } else { reuse }
    }

    /// Whether it may be served when the origin cannot be reached or answers with an error (RFC
    /// 9111 §4.2.4, RFC 5861 §4).
    #[inline]
    pub fn may_serve_on_error(&self, now: UnixMillis) -> bool {
        if self.no_cache {
            return false;
        }
        self.age_ms(now) < self.lifetime_ms.saturating_add(self.stale_ms())
    }

    /// When it is of no more use except for validation: not fresh, and past both stale windows.
    pub fn usable_until(&self) -> UnixMillis {
        if self.no_cache {
            return self.received;
        }
        self.after(self.lifetime_ms.saturating_add(self.stale_ms()))
    }

    /// The longer one of both stale windows.
    fn stale_ms(&self) -> u64 {
        self.stale_while_revalidate_ms.max(self.stale_if_error_ms)
    }

    /// When it is so old.
    fn after(&self, age_ms: u64) -> UnixMillis {
        UnixMillis(self.received.0.saturating_add(age_ms.saturating_sub(self.initial_age_ms)))
    }
}

/// The nearest whole milliseconds, as far as there are so many.
fn millis(span: Duration) -> u64 {
    let nearest = span.saturating_add(Duration::from_micros(500));
    u64::try_from(nearest.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: UnixMillis = UnixMillis(1_000_000_000);

    fn after(ms: u64) -> UnixMillis {
        UnixMillis(START.0 + ms)
    }

    fn seconds(value: u64) -> Duration {
        Duration::from_secs(value)
    }

    fn freshness() -> Freshness {
        let mut freshness = Freshness::from_policy(START, seconds(10));
        freshness.set_initial_age(seconds(4));
        freshness
    }

    #[test]
    fn age_grows_in_the_cache_and_freshness_ends_when_it_reaches_the_lifetime() {
        let freshness = freshness();
        assert_eq!(freshness.age(after(1500)), Duration::from_millis(5500));
        assert_eq!(freshness.ttl_ms(after(5999)), 1);
        assert_eq!(freshness.reuse(after(5999)), Reuse::Fresh);
        assert_eq!(freshness.reuse(after(6000)), Reuse::Stale);
        assert_eq!(freshness.ttl_ms(after(8000)), -2000);
        assert_eq!(freshness.fresh_until(), after(6000));
        assert_eq!(freshness.age(UnixMillis(0)), seconds(4), "a clock set back does not wrap");
    }

    #[test]
    fn stale_windows_begin_where_the_lifetime_ends() {
        let mut freshness = freshness();
        freshness.set_stale_while_revalidate(seconds(2));
        freshness.set_stale_if_error(seconds(5));
        assert_eq!(freshness.reuse(after(7999)), Reuse::StaleWhileRevalidate);
        assert_eq!(freshness.reuse(after(8000)), Reuse::Stale);
        assert!(freshness.may_serve_on_error(after(10_999)));
        assert!(!freshness.may_serve_on_error(after(11_000)));
        assert_eq!(freshness.usable_until(), after(11_000));
    }

    #[test]
    fn prohibitions_win() {
        let mut freshness = freshness();
        freshness.must_revalidate = true;
        assert_eq!(freshness.reuse(after(0)), Reuse::Fresh);
        assert_eq!(freshness.reuse(after(6000)), Reuse::MustValidate);
        freshness.no_cache = true;
        freshness.set_stale_if_error(seconds(60));
        assert_eq!(freshness.reuse(after(0)), Reuse::MustValidate);
        assert!(!freshness.may_serve_on_error(after(0)));
    }

    #[test]
    fn a_policy_lifetime_counts_from_when_it_is_given() {
        let freshness = freshness().with_lifetime(seconds(30), START);
        assert_eq!(freshness.ttl_ms(START), 30_000);
        assert_eq!(freshness.source, LifetimeSource::Policy);
    }

    #[test]
    fn lifetimes_given_later_take_the_place_of_those_before() {
        let mut before = freshness().with_grace(seconds(20));
        before.set_stale_if_error(seconds(60));
        let given =
            Lifetimes { from: after(3000), ttl: seconds(30), grace: Some(seconds(2)), keep: None };
        let longer = before.clone().given(&given);
        assert_eq!(longer.reuse(after(32_999)), Reuse::Fresh);
        assert_eq!(longer.reuse(after(34_999)), Reuse::StaleWhileRevalidate);
        assert_eq!(longer.reuse(after(35_000)), Reuse::Stale);
        assert!(!longer.may_serve_on_error(after(35_000)));
        let ended = before.given(&Lifetimes { ttl: Duration::ZERO, grace: None, ..given });
        assert_eq!(ended.reuse(after(3000)), Reuse::StaleWhileRevalidate);
        assert_eq!(ended.reuse(after(22_999)), Reuse::StaleWhileRevalidate);
        assert_eq!(ended.reuse(after(23_000)), Reuse::Stale);
    }

    #[test]
    fn wishes_of_the_client_can_be_honoured() {
        let asked = RequestCacheControl::default;
        let reuse = |f: &Freshness, ms, asked| f.reuse_as_asked(after(ms), &asked);
        let mut freshness = freshness();
        let no_cache = RequestCacheControl { no_cache: true, ..asked() };
        assert_eq!(reuse(&freshness, 0, no_cache), Reuse::MustValidate);
        let max_age = RequestCacheControl { max_age: Some(seconds(5)), ..asked() };
        assert_eq!(reuse(&freshness, 1000, max_age), Reuse::Fresh);
        assert_eq!(reuse(&freshness, 1001, max_age), Reuse::MustValidate);
        let min_fresh = RequestCacheControl { min_fresh: Some(seconds(5)), ..asked() };
        assert_eq!(reuse(&freshness, 1000, min_fresh), Reuse::Fresh);
        assert_eq!(reuse(&freshness, 1001, min_fresh), Reuse::MustValidate);
        let max_stale = RequestCacheControl { max_stale: Some(seconds(5)), ..asked() };
        assert_eq!(reuse(&freshness, 11_000, max_stale), Reuse::Fresh);
        assert_eq!(reuse(&freshness, 11_001, max_stale), Reuse::Stale);

        freshness.immutable = true;
        let reload = RequestCacheControl { max_age: Some(Duration::ZERO), ..asked() };
        assert_eq!(reuse(&freshness, 0, reload), Reuse::Fresh);
        assert_eq!(reuse(&freshness, 7000, reload), Reuse::MustValidate);
        assert_eq!(reuse(&freshness, 0, no_cache), Reuse::MustValidate);
    }
}
