//! Bounds of a load.

use std::time::Duration;

/// Connections at most, for all threads together: beyond what one client machine opens to a server.
pub const CONNECTIONS_MAX: usize = 1_000_000;

/// Threads at most.
pub const THREADS_MAX: usize = 256;

/// Requests at a time on a connection of HTTP/2; servers allow some hundred.
pub const STREAMS_MAX: usize = 1000;

/// Longest load, so that a forgotten one ends.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

/// Shortest and longest time for a response.
pub(super) const TIMEOUT_MIN: Duration = Duration::from_millis(100);
pub(super) const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// Shortest interval of figures: threads look at their clocks every 50 ms.
pub(super) const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Most sessions per second; beyond it the clock is too coarse.
pub(super) const RATE_MAX: f64 = 1e7;

/// Longest pause of a connection.
pub(super) const THINK_MAX: Duration = Duration::from_secs(3600);

/// How long making all connections may take before measuring begins with those that are there.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(60);

/// A server that has not sent a byte for this long while connections to it fail has died.
pub const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Descriptors that the process needs besides its connections.
pub(super) const SPARE_DESCRIPTORS: u64 = 128;
