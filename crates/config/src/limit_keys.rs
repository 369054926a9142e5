//! Keys of limits.

use super::key::{COUNT, Key, Kind, key, per_site};

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
    key("limits.connections_max", COUNT, "100000", "Client connections over all workers."),
    key("limits.head_bytes_max", Kind::Size, "32KiB", "Longest head of a request; above: 431."),
    key(
        "limits.fields_max",
        Kind::Count { min: 8, max: 10_000 },
        "100",
        "Most fields of a request; above: 431.",
    ),
    key("limits.target_bytes_max", Kind::Size, "8KiB", "Longest request target; above: 414."),
    per_site(
        "limits.body_bytes_max",
        Kind::Size,
        "1GiB",
        "Longest request body, 0 for any; above: 413.",
    ),
    key(
        "limits.request_timeout",
        Kind::Span,
        "30s",
        "Time for a request head to arrive once begun; above: 408.",
    ),
    key(
        "limits.body_timeout",
        Kind::Span,
        "30s",
        "How long a request body may keep us waiting for its next bytes, in all and beyond what \
         `body_rate_min` allows; above: 408.",
    ),
    key(
        "limits.body_rate_min",
        Kind::Size,
        "500B",
        "Bytes of a request body that bring its client a second more, up to `body_timeout`. So one \
         that sends slower for that long is ended. With 0 any byte brings all of it.",
    ),
    key(
        "limits.idle_timeout",
        Kind::Span,
        "60s",
        "How long a connection may stay without request.",
    ),
    key(
        "limits.send_timeout",
        Kind::Span,
        "60s",
        "How long a client may take no byte of its response.",
    ),
    key(
        "limits.send_rate_min",
        Kind::Size,
        "256B",
        "Least bytes a second that a client takes of a response it is waited for, over each \
         `limits.send_timeout` of waiting; 0 for any. Who takes less is cut off.",
    ),
    key(
        "limits.readers_percent",
        Kind::Count { min: 1, max: 90 },
        "50",
        "Most of `memory`, in percent, that responses may keep there while they wait for their \
         clients. Beyond it they go on from small copies, and what is evicted under them is fetched \
         again or breaks them off.",
    ),
    key(
        "limits.readers_network_percent",
        Kind::Count { min: 1, max: 90 },
        "12",
        "The same for the clients of one network; one object may be larger.",
    ),
    key(
        "limits.fills_percent",
        Kind::Count { min: 1, max: 90 },
        "15",
        "Most of `memory`, in percent, that responses may come to while they are fetched to be kept. \
         Those up to 1 MiB may go half as far beyond, and one that is alone as far as it likes. What \
         finds no room is given to its client as it comes, and not kept.",
    ),
    key(
        "limits.network_bits_v4",
        Kind::Count { min: 0, max: 32 },
        "32",
        "Bits of an IPv4 address that clients of one network have in common, for limits on what \
         one network may take.",
    ),
    key(
        "limits.network_bits_v6",
        Kind::Count { min: 0, max: 128 },
        "56",
        "The same of an IPv6 address: most providers give a customer as many.",
    ),
    per_site(
        "limits.origin_network_percent",
        Kind::Count { min: 1, max: 100 },
        "50",
        "Most of the connections to an origin, in percent, that requests of the clients of one \
         network may use at a time. Further ones wait as for any connection. An origin with few \
         connections has no such limit.",
    ),
    key(
        "limits.streams_max",
        Kind::Count { min: 1, max: 10_000 },
        "128",
        "HTTP/2 requests at a time on one connection.",
    ),
    key(
        "limits.requests_bytes_max",
        Kind::Text,
        "auto",
        "What requests under way may hold of the memory: heads, tasks, and bodies that wait for an \
         origin. `auto` is an eighth. Each connection has 32 KiB besides; where all is held, \
         requests that need more get a 503 or REFUSED_STREAM.",
    ),
    key(
        "limits.connections_network_max",
        Kind::Count { min: 0, max: 1_000_000 },
        "0",
        "Connections that the clients of one network may have open at a time; further ones are closed \
         at once. Behind one of `forwarded.from` it is requests under way; further ones get a 429. 0 is \
         any number.",
    ),
    key(
        "limits.rate_keys_max",
        Kind::Count { min: 1000, max: 100_000_000 },
        "1000000",
        "Clients and other keys that `[[rate_limit]]` knows apart at a time; each takes 32 to 64 bytes, \
         from the first such limit on. If there are more, the least busy ones begin anew. Takes effect \
         with a restart.",
    ),
    per_site(
        "limits.restarts_max",
        Kind::Count { min: 0, max: 100 },
        "4",
        "How often a policy may restart a request.",
    ),
    per_site(
        "limits.retries_max",
        Kind::Count { min: 0, max: 100 },
        "4",
        "How often a policy may retry a fetch.",
    ),
];
