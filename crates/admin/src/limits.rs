//! What a client of the interface may cost.

use std::time::Duration;

/// Connections at a time. A scraper, probes and some people; further ones take the place of whoever
/// has waited longest for its client.
pub(crate) const CONNECTIONS_MAX: usize = 256;
/// How long a connection may be silent between requests: longer than the usual scrape interval of
/// 60 s.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(75);
/// Time from the first byte of a request to its last.
pub(crate) const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a client may take no byte of its answer.
pub(crate) const SEND_SILENCE_MAX: Duration = Duration::from_secs(10);
/// Longest body of a request; they are a URL or a tag.
pub(crate) const BODY_BYTES_MAX: usize = 64 << 10;
/// Longest request altogether: its body, its framing, and a head with a URL.
pub(crate) const REQUEST_BYTES_MAX: usize = BODY_BYTES_MAX + (64 << 10);
/// Threads for what walks the index or waits for disks. More requests of that kind wait.
pub(crate) const THREADS_MAX: usize = 16;
/// Pause before accepting again after the listener failed, which is not expected to get better.
pub(crate) const FAILED_PAUSE: Duration = Duration::from_secs(1);
/// How often requests of one kind that were refused are logged.
pub(crate) const REFUSAL_EVERY: Duration = Duration::from_secs(10);
