//! What apps may cost, and how long they may take.

/// Longest archive of a package, in bytes.
pub const PACKAGE_BYTES_MAX: usize = 2 << 30;
/// Filters that the allocations for some of an app's traffic may have together: each may divide each rule of the app,
/// and rules of all apps have 256 parts.
pub const SESSION_FILTERS_PER_APP_MAX: usize = 16;
/// Ports on one side of such a filter.
pub const SESSION_PORTS_MAX: usize = 4;
/// How long is waited for who cannot be asked now, in milliseconds, before a step counts as failed.
pub const AWAY_MS_MAX: u64 = 60_000;
/// Longest output of an app that is kept, in bytes; what is beyond begins anew.
pub const LOG_BYTES_MAX: u64 = 8 << 20;
