//! What a client of the platform may cost.

use freshet_net::places::Patience;
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
/// Longest body of a request, in bytes: a full list of services fits many times.
pub const BODY_BYTES_MAX: usize = 256 << 10;
/// Deepest JSON, in objects and lists within each other. The standard's own types have ten.
pub const DEPTH_MAX: usize = 32;
/// Mistakes of a body that are named.
pub const MISTAKES_MAX: usize = 16;
/// Documents the platform holds, of all clients and interfaces.
pub const DOCUMENTS_MAX: usize = 65_536;
/// Documents one client may have made and not removed: services, rules, registrations.
pub const DOCUMENTS_PER_CLIENT_MAX: usize = 4096;
/// Subscriptions one client may have: each may cost a delivery for every event.
pub const SUBSCRIPTIONS_PER_CLIENT_MAX: usize = 256;
/// Documents in one answer; the rest is on the next page.
pub const PAGE_MAX: usize = 256;
/// Longest value of a filter, and longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 8192;
/// Conditions of one filter.
pub const CONDITIONS_MAX: usize = 32;
/// Notifications that wait, of all subscriptions.
pub const NOTICES_MAX: usize = 16_384;
/// Notifications that wait for one host: a slow one costs itself its newest.
pub const NOTICES_PER_HOST_MAX: usize = 256;
/// Deliveries under way at a time; one for each host, so that its notifications arrive in order.
pub const DELIVERIES_MAX: usize = 32;
/// How often a notification is tried.
pub const ATTEMPTS_MAX: u32 = 5;
/// Pause before the second attempt, in milliseconds; it doubles for each further one.
pub const RETRY_MS: u64 = 1000;
/// How long one attempt may take, in milliseconds.
pub const DELIVERY_MS_MAX: u64 = 5000;
/// How long a token holds, in seconds.
pub const TOKEN_S: u64 = 600;
/// Longest token that is looked at, in bytes.
pub const TOKEN_BYTES_MAX: usize = 4096;
/// Tokens that were verified and are remembered until they expire.
pub const TOKENS_MAX: usize = 4096;
/// Longest record of the journal, in bytes.
pub const RECORD_BYTES_MAX: usize = 4 << 20;
