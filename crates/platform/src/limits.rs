//! What a client of the platform may cost.

use std::time::Duration;

/// Longest body of a request, in bytes: a full list of services fits many times.
pub const BODY_BYTES_MAX: usize = 256 << 10;
/// Documents the platform holds, of all clients and interfaces.
pub const DOCUMENTS_MAX: usize = 65_536;
/// Documents one client may have made and not removed: services, rules, registrations.
pub const DOCUMENTS_PER_CLIENT_MAX: usize = 4096;
/// Subscriptions one client may have: each may cost a delivery for every event.
pub const SUBSCRIPTIONS_PER_CLIENT_MAX: usize = 256;
/// Bytes of the documents one client may have made, written out as JSON: as many of 4 KiB.
pub const BYTES_PER_CLIENT_MAX: usize = 16 << 20;
/// Bytes of all documents, written out as JSON; in memory they are some times as large.
pub const BYTES_MAX: usize = 128 << 20;
/// Bytes of documents in one answer, unless one alone has more; the rest is on the next page.
pub const PAGE_BYTES_MAX: usize = 1 << 20;
/// Notifications that wait, of all subscriptions.
pub const NOTICES_MAX: usize = 16_384;
/// Notifications of one client that wait for one host: a slow one costs itself its newest.
pub const NOTICES_PER_HOST_MAX: usize = 256;
/// Deliveries under way at a time; one for each client and host, so that its notifications arrive in order.
pub const DELIVERIES_MAX: usize = 32;
/// How often a notification is tried.
pub const ATTEMPTS_MAX: u32 = 5;
/// Pause before the second attempt, in milliseconds; it doubles for each further one.
pub const RETRY_MS: u64 = 1000;
/// How long a token holds, in seconds.
pub const TOKEN_S: u64 = 600;
/// Longest token that is looked at, in bytes.
pub const TOKEN_BYTES_MAX: usize = 4096;
/// Tokens that were verified and are remembered until they expire.
pub const TOKENS_MAX: usize = 4096;
/// Clients, by interface, whose rates are kept: the least loaded go when there are more.
pub const RATED_MAX: usize = 4096;
/// Wrong secrets of one client from one address, after which nothing more is looked at until some time went by: so
/// many at once, and as many evenly in [`WRONG_SECRETS_PERIOD`] after.
pub const WRONG_SECRETS_MAX: u64 = 10;
/// In which so many wrong secrets may come.
pub const WRONG_SECRETS_PERIOD: Duration = Duration::from_secs(60);
/// Instances of a service that a gateway is told of.
pub const INSTANCES_MAX: usize = 16;
/// Longest record of the journal, in bytes: all documents there may be, which may fall due in one moment, with
/// their places and owners.
pub const RECORD_BYTES_MAX: usize = 2 * BYTES_MAX;
/// How long an app may take to answer after its start, in milliseconds.
pub const ANSWER_MS_MAX: u64 = 30_000;
/// How long an app may take to end after it was asked to by a signal, in milliseconds, where it is not
/// to end at once.
pub const STOP_MS: u64 = 10_000;
/// Pause after a step of an app's life that failed, in milliseconds, for each time in a row.
pub const LIFE_RETRY_MS: u64 = 500;
/// How often a step is tried that nothing takes back.
pub const TRIES_MAX: u32 = 5;
/// How often a place for an app that has lost its host was looked for in vain, at most, for the pause until the next
/// time: half a minute. It is looked for until there is one.
pub const PLACE_TRIES_MAX: u32 = 60;
/// Pause before an app that ended by itself is started again, in milliseconds; it doubles for each time
/// in a row, up to [`RESTART_MS_MAX`].
pub const RESTART_MS: u64 = 500;
/// Longest pause before an app is started again, in milliseconds.
pub const RESTART_MS_MAX: u64 = 60_000;
/// How long an app has to stay up, in milliseconds, for its next end to be the first one again.
pub const HEALTHY_MS: u64 = 60_000;
/// Occurrences of operations that are kept after they ended, of all instances.
pub const OCCURRENCES_MAX: usize = 1024;
