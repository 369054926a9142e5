//! How long a response lives before a policy has said anything, by Varnish's rules.

use super::Answer;
use freshet_base::clock::UnixMillis;
use freshet_http::cache_control::CacheControl;
use freshet_http::date::{self, Reading};
use freshet_http::message::ResponseHead;

/// Lifetimes where a response says nothing, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    /// `default_ttl`
    pub ttl: f64,
    /// `default_grace`
    pub grace: f64,
    /// `default_keep`
    pub keep: f64,
}

/// How Varnish reads dates, where a feature does not say otherwise.
pub const DATES: Reading = Reading { is_exact: true, takes_short_days: false };

impl Default for Defaults {
    /// As Varnish has them.
    fn default() -> Self {
        Self { ttl: 120.0, grace: 10.0, keep: 0.0 }
    }
}

/// A clock that differs less than this from ours counts as the same (Varnish's `clock_skew`).
const CLOCK_SKEW_MS: u64 = 10_000;

/// The knobs of a response that arrives at `now`, with dates read as `dates` has it, and how long it may live in all, before its age is
/// taken off. `s-maxage` goes before `max-age` and that before `Expires`; statuses that are no answers to
/// keep live a negative time, which a policy sees as none.
pub fn lifetime(
    head: &ResponseHead,
    now: UnixMillis,
    defaults: Defaults,
    dates: Reading,
) -> (Answer, f64) {
    let fields = &head.fields;
    let control = CacheControl::from_fields(fields);
    let age = fields
        .get_str("age")
        .and_then(|text| text.trim().parse::<u32>().ok())
        .map_or(0.0, f64::from);
    let explicit = || {
        let span = control.s_maxage.or(control.max_age).map(|span| span.as_secs_f64());
        span.or_else(|| until_expiry(head, now, dates))
    };
    let whole = match head.status {
        200 | 203 | 204 | 300 | 301 | 304 | 404 | 410 | 414 => explicit().unwrap_or(defaults.ttl),
        302 | 307 => explicit().unwrap_or(-1.0),
        _ => -1.0,
    };
    let revalidates = control.stale_while_revalidate.filter(|_| whole >= 0.0);
    let knobs = Answer {
        ttl: whole.max(0.0) - age,
        has_no_life: whole < 0.0,
        grace: revalidates.map_or(defaults.grace, |span| span.as_secs_f64()),
        keep: defaults.keep,
        age,
        time: now.0 as f64 / 1000.0,
        do_stream: true,
        ..Answer::default()
    };
    (knobs, whole)
}

/// Seconds until `Expires`, by our clock where the origin's differs little. What is no date says nothing
/// here, other than for a cache by RFC 9111 §5.3.
fn until_expiry(head: &ResponseHead, now: UnixMillis, dates: Reading) -> Option<f64> {
    let read = |name| head.fields.get(name).and_then(|text| date::parse_by(text, dates));
    let expires = read("expires")?;
    let date = read("date");
    if date.is_some_and(|date| expires < date) {
        return Some(0.0);
    }
    let base = date.filter(|date| date.0.abs_diff(now.0) >= CLOCK_SKEW_MS).unwrap_or(now);
    Some(((expires.0 as f64 - base.0 as f64) / 1000.0).max(0.0))
}
