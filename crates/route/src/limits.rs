//! Bounds on what clients may cost.

use freshet_net::places::Patience;
use std::time::Duration;

/// Clients of one worker: requests are short and have no bodies that matter. A connection between
/// requests gives its place to a new one where there is none.
pub(crate) const CLIENTS: Patience = Patience {
    connections_max: 4096,
    silence_max: Duration::from_secs(15),
    request_time_max: Duration::from_secs(10),
    send_silence_max: Duration::from_secs(10),
    request_bytes_max: 64 << 10,
};

/// Clients of the admin interface.
pub(crate) const ADMIN: Patience = Patience { connections_max: 64, ..CLIENTS };

/// How long a handshake of TLS may take.
pub(crate) const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Handshakes of one worker at a time; what comes beyond waits to be accepted.
pub(crate) const HANDSHAKES_MAX: usize = 1024;

/// How long to wait after a listener failed, before it is tried again.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Longest question over UDP that is read, in bytes: questions have some hundred.
pub(crate) const DNS_UDP_BYTES_MAX: usize = 4096;

/// Datagrams that are answered in a row before others of the thread have their turn.
pub(crate) const DNS_BATCH: usize = 64;

/// Networks whose share of DNS over UDP is known at a time, in tables of 2 MiB.
pub(crate) const DNS_NETWORKS: usize = 65_536;

/// What resolvers may cost over TCP at one address of one worker. One that comes beyond takes the place of who asked longest
/// ago: somebody who holds them all holds nobody off that asks at once. Silence is as RFC 7766 §6.2.3 has it.
pub(crate) const RESOLVERS: Patience = Patience {
    connections_max: 512,
    silence_max: Duration::from_secs(10),
    request_time_max: Duration::from_secs(10),
    send_silence_max: Duration::from_secs(10),
    request_bytes_max: 2 + u16::MAX as usize,
};

/// Period of the keys of session tickets.
pub(crate) const TICKETS_PERIOD: Duration = Duration::from_secs(12 * 3600);
