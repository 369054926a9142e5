//! The world's clock: virtual, and one for all.

use freshet_base::clock::UnixMillis;
use freshet_base::simulation::Clock;
use std::cell::Cell;
use std::time::Duration;
use tokio::time::Instant;

/// When every world begins: a full second.
const BEGIN_MS: u64 = 1_800_000_000_000;

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Begins the world's time. Call it within the runtime.
pub(crate) fn begin() -> Clock {
    BEGAN.set(Some(Instant::now()));
    || UnixMillis(BEGIN_MS).plus(now())
}

/// How long the world has been there.
pub(crate) fn now() -> Duration {
    BEGAN.get().map_or(Duration::ZERO, |began| began.elapsed())
}

/// A date of HTTP.
pub(crate) fn http_date(seconds: u64) -> String {
    let mut text = Vec::new();
    freshet_http::date::write(UnixMillis(seconds * 1000), &mut text);
    String::from_utf8(text).expect("a date is ASCII")
}

/// The date now, as an origin says it.
pub(crate) fn date() -> String {
    http_date(BEGIN_MS / 1000 + now().as_secs())
}
