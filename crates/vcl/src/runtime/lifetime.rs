//! How long a response lives before a policy has said anything, by Varnish's rules.

use super::Answer;
use freshet_base::clock::UnixMillis;
use freshet_http::cache_control::CacheControl;
use freshet_http::date;
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

impl Default for Defaults {
    /// As Varnish has them.
    fn default() -> Self {
        Self { ttl: 120.0, grace: 10.0, keep: 0.0 }
    }
}

/// A clock that differs less than this from ours counts as the same (Varnish's `clock_skew`).
const CLOCK_SKEW_MS: u64 = 10_000;

/// The knobs of a response that arrives at `now`: its age, and how long it may live. `s-maxage`
/// goes before `max-age` and that before `Expires`; statuses that are no answers to keep live a
/// negative time.
pub fn lifetime(head: &ResponseHead, now: UnixMillis, defaults: Defaults) -> Answer {
    let fields = &head.fields;
    let seconds_now = now.0 as f64 / 1000.0;
    let control = CacheControl::from_fields(fields);
    let age = fields
        .get_str("age")
        .and_then(|text| text.trim().parse::<u32>().ok())
        .map_or(0.0, f64::from);
    let explicit = || {
        if let Some(span) = control.s_maxage.or(control.max_age) {
            return Some(span.as_secs_f64() - age);
        }
        let expires = fields.get("expires")?;
        let Some(expires) = date::parse(expires) else { return Some(0.0) };
        let date = fields.get("date").and_then(date::parse);
        let base = match date {
            Some(date) if date.0.abs_diff(now.0) >= CLOCK_SKEW_MS => date,
            _ => now,
        };
        let left = expires.0 as f64 - base.0 as f64;
        Some((left / 1000.0).max(0.0))
    };
    // What says how long it lives has a grace, however old it is.
    let says = control.s_maxage.or(control.max_age).is_some();
    let ttl = match head.status {
        200 | 203 | 204 | 300 | 301 | 304 | 404 | 410 | 414 => explicit().unwrap_or(defaults.ttl),
        302 | 307 => explicit().unwrap_or(-1.0),
        _ => -1.0,
    };
    let grace = control.stale_while_revalidate.map_or(defaults.grace, |span| span.as_secs_f64());
    Answer {
        ttl,
        grace: if ttl < 0.0 && !says { 0.0 } else { grace },
        keep: if ttl < 0.0 && !says { 0.0 } else { defaults.keep },
        age,
        time: seconds_now,
        do_stream: true,
        ..Answer::default()
    }
}
