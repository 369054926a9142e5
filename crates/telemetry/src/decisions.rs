//! Which responses were lately not stored, and why, for `freshet explain`.
//!
//! Written once per response that is not stored, never on the way of a hit. A worker that finds the
//! table in use goes on without noting anything: the note helps a person, the request comes first.

use freshet_base::clock::UnixMillis;
use freshet_base::units::span;
use freshet_cache::Key;
use freshet_http::cache_control::CacheControl;
use freshet_http::date;
use freshet_http::fields::Fields;
use freshet_http::reason::Reason;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

/// Resources remembered: enough for somebody who asks while it happens, and a scan of some
/// microseconds.
const ENTRIES_MAX: usize = 512;
/// Longest text kept of a field.
const FIELD_BYTES_MAX: usize = 200;

/// A resource whose response was not stored.
#[derive(Clone, Debug, PartialEq)]
pub struct NotStored {
    /// The resource.
    pub key: Arc<Key>,
    /// Why, the last time.
    pub reason: Reason,
    /// Status of the response.
    pub status: u16,
    /// The field that decided, as `Cache-Control: no-store`, where one did.
    pub field: Option<Box<str>>,
    /// The origin that sent it.
    pub origin: Box<str>,
    /// When it came last.
    pub last: UnixMillis,
    /// How often it came since it was first noted.
    pub count: u64,
}

/// The last `ENTRIES_MAX` resources of that kind.
#[derive(Debug, Default)]
pub struct Decisions(Mutex<VecDeque<NotStored>>);

impl Decisions {
    /// Notes a response. O(`ENTRIES_MAX`) comparisons of a number, no waiting.
    pub fn note(&self, new: NotStored) {
        let mut entries = match self.0.try_lock() {
            Ok(entries) => entries,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let hash = new.key.hash();
        let known = entries.iter().position(|entry| entry.key.hash() == hash);
        let count = match known.and_then(|at| entries.remove(at)) {
            Some(before) => before.count + 1,
            None => 1,
        };
        if entries.len() >= ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(NotStored { count, ..new });
    }

    /// What is known of this resource.
    pub fn of(&self, key: &Key) -> Option<NotStored> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().find(|entry| entry.key.hash() == key.hash()).cloned()
    }
}

/// How far behind a `Date` has to be to be named: less is what answers take on their way.
const CLOCK_BEHIND_MIN: Duration = Duration::from_secs(5);

/// The field of a response that came at `now` which led to `reason`, where one did. Names in `targeted` stand in the
/// place of `Cache-Control` (RFC 9213).
pub fn deciding_field(
    reason: Reason,
    response: &Fields,
    targeted: &[&str],
    now: UnixMillis,
) -> Option<Box<str>> {
    let control = || {
        let name = CacheControl::targeted(response, targeted).map(|(_, name)| name);
        line(response, name.unwrap_or("Cache-Control"))
    };
    match reason {
        Reason::NoStore
        | Reason::Private
        | Reason::Authorization
        | Reason::NoCacheNoValidator
        | Reason::StatusNotUnderstood
        | Reason::StatusNotCacheable
        | Reason::MethodNotStored => control(),
        Reason::NoFreshness | Reason::StaleOnArrival => {
            let clock = || old_date(response, now).filter(|_| reason == Reason::StaleOnArrival);
            clock()
                .or_else(control)
                .or_else(|| line(response, "Expires"))
                .or_else(|| line(response, "Age"))
        }
        Reason::VaryAny => line(response, "Vary"),
        // Its value is somebody's secret.
        Reason::SetCookie => Some("Set-Cookie".into()),
        Reason::PartialWithoutRange => line(response, "Content-Range"),
        Reason::TooLarge => line(response, "Content-Length"),
        _ => None,
    }
}

/// A `Date` that says more of a response's age than its `Age` does (RFC 9111 §4.2.3): that of a clock that is behind, or of
/// a cache that keeps to itself how long it had it.
fn old_date(response: &Fields, now: UnixMillis) -> Option<Box<str>> {
    let date = date::parse(response.get("date")?)?;
    let behind = now.since(date);
    let age_s = response.get_str("age").and_then(|age| age.trim().parse().ok()).unwrap_or(0);
    let is_it = behind >= CLOCK_BEHIND_MIN && behind > Duration::from_secs(age_s);
    let field = line(response, "Date").filter(|_| is_it)?;
    Some(format!("{field}, {} behind this clock", span(behind)).into())
}

/// A field as `Name: value`, printable and short.
fn line(response: &Fields, name: &str) -> Option<Box<str>> {
    let value = response.joined(name)?;
    let shown = &value[..value.len().min(FIELD_BYTES_MAX)];
    let dots = if shown.len() < value.len() { "…" } else { "" };
    Some(format!("{name}: {}{dots}", String::from_utf8_lossy(shown)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_cache::Secret;

    fn entry(key: &Arc<Key>, reason: Reason) -> NotStored {
        NotStored {
            key: Arc::clone(key),
            reason,
            status: 200,
            field: None,
            origin: "a".into(),
            last: UnixMillis(1),
            count: 0,
        }
    }

    #[test]
    fn a_resource_is_noted_once_with_its_last_reason_and_a_count() {
        let secret = Secret::from_bytes([1; 16]);
        let (one, two) = (Arc::new(secret.key("a", "/1")), Arc::new(secret.key("a", "/2")));
        let decisions = Decisions::default();
        decisions.note(entry(&one, Reason::NoStore));
        decisions.note(entry(&two, Reason::NoStore));
        decisions.note(entry(&one, Reason::Private));
        let found = decisions.of(&one).unwrap();
        assert_eq!((found.reason, found.count), (Reason::Private, 2));
        assert_eq!(decisions.of(&secret.key("a", "/3")), None);
    }

    #[test]
    fn the_oldest_makes_room() {
        let secret = Secret::from_bytes([1; 16]);
        let decisions = Decisions::default();
        for number in 0..=ENTRIES_MAX {
            let key = Arc::new(secret.key("a", &format!("/{number}")));
            decisions.note(entry(&key, Reason::NoStore));
        }
        assert_eq!(decisions.of(&secret.key("a", "/0")), None);
        assert!(decisions.of(&secret.key("a", "/1")).is_some());
    }

    #[test]
    fn the_field_that_decided_is_shown_as_it_came() {
        let targeted = ["CDN-Cache-Control"];
        let field = |reason, lines: &[(&str, &str)]| {
            let now = date::parse(b"Sun, 29 Nov 2026 02:00:00 GMT").unwrap();
            deciding_field(reason, &lines.iter().copied().collect(), &targeted, now)
        };
        let both = [("cache-control", "max-age=9"), ("cdn-cache-control", "no-store")];
        assert_eq!(field(Reason::NoStore, &both).as_deref(), Some("CDN-Cache-Control: no-store"));
        assert_eq!(field(Reason::Private, &both[..1]).as_deref(), Some("Cache-Control: max-age=9"));
        assert_eq!(field(Reason::VaryAny, &[("vary", "*")]).as_deref(), Some("Vary: *"));
        assert_eq!(field(Reason::NoFreshness, &[]), None);
        // Where a clock is behind, that is to be set, and no lifetime is too short.
        let max_age = ("cache-control", "max-age=600");
        let stale =
            |more: &[(&str, &str)]| field(Reason::StaleOnArrival, &[&[max_age], more].concat());
        let old = ("date", "Sun, 29 Nov 2026 00:00:00 GMT");
        let says = "Date: Sun, 29 Nov 2026 00:00:00 GMT, 2 h behind this clock";
        assert_eq!(stale(&[old, ("age", "9")]).as_deref(), Some(says));
        assert_eq!(stale(&[old, ("age", "7200")]).as_deref(), Some("Cache-Control: max-age=600"));
        let young = ("date", "Sun, 29 Nov 2026 01:59:58 GMT");
        assert_eq!(stale(&[young]).as_deref(), Some("Cache-Control: max-age=600"));
        let long = "x".repeat(FIELD_BYTES_MAX + 1);
        assert!(field(Reason::VaryAny, &[("vary", &long)]).unwrap().ends_with('…'));
    }
}
