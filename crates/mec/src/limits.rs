//! What connections and work that is under way may cost.

use freshet_net::places::Patience;
use freshet_platform::limits::BODY_BYTES_MAX;
use std::time::Duration;

/// What connections may cost. An app keeps its own open between requests.
pub const PATIENCE: Patience = Patience {
    connections_max: 1024,
    silence_max: Duration::from_secs(75),
    request_time_max: Duration::from_secs(10),
    send_silence_max: Duration::from_secs(10),
    // A body, its framing, and a head with a token.
    request_bytes_max: BODY_BYTES_MAX + (64 << 10),
};
/// How long the next bytes of a package may take, in milliseconds.
pub const PACKAGE_SILENCE_MS_MAX: u64 = 10_000;
/// Packages that are received or checked at a time.
pub const UPLOADS_MAX: usize = 4;
/// How long one attempt may take, in milliseconds.
pub const DELIVERY_MS_MAX: u64 = 5000;
/// Gateways that wait to be told of changes at a time; others are answered at once.
pub const WATCHERS_MAX: usize = 64;
/// How long one waits at most before it is told that nothing has changed.
pub const WATCH_MAX: Duration = Duration::from_secs(30);
/// How long an app may take to run where somebody else has to make room for it and fetch its image, in
/// milliseconds: a gigabyte over a slow line.
pub const FETCH_MS_MAX: u64 = 600_000;
/// How long an app may take until nothing of it runs, in milliseconds, before that counts as failed: its
/// machine may be away. It is tried again.
pub const END_MS_MAX: u64 = 120_000;
