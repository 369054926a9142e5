//! How fresh a stored response is and what said so.

use freshet_base::clock::UnixMillis;
use freshet_base::units::span;
use freshet_cache::{Object, StoredHead};
use freshet_http::freshness::{Freshness, LifetimeSource};

/// Lifetime, its source and what is left of it.
pub(super) fn lifetime(object: &Object, now: UnixMillis) -> String {
    let head = object.head();
    let freshness = &head.freshness;
    let age = freshness.age(now);
    let left = match freshness.lifetime().checked_sub(age) {
        Some(left) if !left.is_zero() => format!("{} left", span(left)),
        _ if freshness.lifetime().is_zero() => "stale from the start".to_owned(),
        _ => format!("stale for {}", span(age.saturating_sub(freshness.lifetime()))),
    };
    let purged = match object.soft_purged_at() {
        Some(at) => format!("; a soft purge {} ago ended it", span(now.since(at))),
        None => String::new(),
    };
    format!("{} {}; age {}, {left}{purged}", span(freshness.lifetime()), source(&head), span(age))
}

/// What gave the lifetime.
fn source(head: &StoredHead) -> String {
    let field = |name: &str| {
        let value = head.fields.joined(name).unwrap_or_default();
        format!("\"{name}: {}\"", String::from_utf8_lossy(&value))
    };
    match head.freshness.source {
        LifetimeSource::SMaxAge => format!("by s-maxage in {}", field("Cache-Control")),
        LifetimeSource::MaxAge => format!("by {}", field("Cache-Control")),
        LifetimeSource::Expires => format!("by {}", field("Expires")),
        LifetimeSource::Targeted => format!("by {}", field("CDN-Cache-Control")),
        LifetimeSource::Heuristic => format!(
            "guessed, a tenth of the time since {} (RFC 9111 §4.2.2)",
            field("Last-Modified")
        ),
        LifetimeSource::Negative => {
            format!("by the setting cache.negative, for status {}", head.status)
        }
        LifetimeSource::Policy => "by the policy".to_owned(),
        LifetimeSource::None => "because nothing gives one".to_owned(),
    }
}

/// What may happen past the lifetime.
pub(super) fn stale(freshness: &Freshness) -> String {
    if freshness.no_cache {
        return "never used without asking the origin (no-cache, RFC 9111 §5.2.2.4)".to_owned();
    }
    let behind = match freshness.stale_while_revalidate() {
        window if window.is_zero() => "not served while it is refreshed".to_owned(),
        window => format!("served for {} while it is refreshed", span(window)),
    };
    let on_error = match freshness.stale_if_error() {
        window if window.is_zero() => "not served when the origin fails".to_owned(),
        window => format!("served for {} when the origin fails", span(window)),
    };
    let why = if freshness.must_revalidate { " (must-revalidate or s-maxage)" } else { "" };
    format!("{behind}, {on_error}{why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_cache::{Cache, Lookup, ObjectSpec, Secret, Settings, Use};
    use freshet_http::message::RequestHead;
    use freshet_store::{Arena, Body};
    use std::sync::Arc;
    use std::time::Duration;

    const START: UnixMillis = UnixMillis(1_000_000);

    fn object(fields: &[(&str, &str)], freshness: Freshness) -> Arc<Object> {
        let arena = Arena::new(64 << 20).unwrap();
        let cache = Cache::new(arena, Secret::from_bytes([0; 16]), Settings::default()).unwrap();
        let key = cache.key("a", "/");
        let head = RequestHead::default();
        let Lookup::Miss { ticket, .. } = cache.lookup(&key, &head, START, &mut |_| Use::Ignore)
        else {
            panic!("nothing is stored")
        };
        ticket.insert(ObjectSpec {
            head: StoredHead::new(404, fields.iter().copied().collect(), freshness),
            body: Body::new(cache.arena(), None),
            variation: None,
            tags: Box::default(),
            objective: None,
        })
    }

    fn freshness(source: LifetimeSource) -> Freshness {
        let mut freshness = Freshness::from_policy(START, Duration::from_secs(60));
        freshness.source = source;
        freshness
    }

    #[test]
    fn the_field_that_gave_the_lifetime_is_quoted() {
        let object = object(&[("cache-control", "max-age=60")], freshness(LifetimeSource::MaxAge));
        let said = lifetime(&object, START.plus(Duration::from_secs(12)));
        assert_eq!(said, "60 s by \"Cache-Control: max-age=60\"; age 12 s, 48 s left");
        let said = lifetime(&object, START.plus(Duration::from_secs(63)));
        assert!(said.ends_with("age 63 s, stale for 3 s"), "{said}");
    }

    #[test]
    fn settings_that_gave_the_lifetime_are_named() {
        let object = object(&[], freshness(LifetimeSource::Negative));
        assert!(lifetime(&object, START).contains("cache.negative, for status 404"));
    }

    #[test]
    fn windows_and_prohibitions_are_said() {
        let mut freshness = freshness(LifetimeSource::MaxAge);
        freshness.set_stale_if_error(Duration::from_secs(86_400));
        assert_eq!(
            stale(&freshness),
            "not served while it is refreshed, served for 24 h when the origin fails"
        );
        freshness.no_cache = true;
        assert!(stale(&freshness).starts_with("never"));
    }
}
