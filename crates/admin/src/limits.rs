//! What a client of the interface may cost.

use freshet_net::places::Patience;
use std::time::Duration;

/// What connections may cost. A scraper, probes and some people have their places; a scraper may come
/// every 60 s, as is usual.
pub(crate) const PATIENCE: Patience = Patience {
    connections_max: 256,
    silence_max: Duration::from_secs(75),
    request_time_max: Duration::from_secs(10),
    send_silence_max: Duration::from_secs(10),
    // A body, its framing, and a head with a URL.
    request_bytes_max: BODY_BYTES_MAX + (64 << 10),
};
/// Longest body of a request; they are a URL or a tag.
pub(crate) const BODY_BYTES_MAX: usize = 64 << 10;
/// Threads for what walks the index or waits for disks. More requests of that kind wait.
pub(crate) const THREADS_MAX: usize = 16;
/// How often requests of one kind that were refused are logged.
pub(crate) const REFUSAL_EVERY: Duration = Duration::from_secs(10);

/// How long a store may take to begin an erasure: all that waits to be written there comes first.
pub(crate) const ERASURE_BEGINS_MAX: Duration = Duration::from_secs(20);
