//! Keys of the node as a whole.

use super::key::{Key, Kind, key, per_site};

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
    key(
        "workers",
        Kind::Count { min: 0, max: 1024 },
        "0",
        "Worker threads, each pinned to a core; 0 is one for each core this process may use.",
    ),
    key(
        "memory",
        Kind::Text,
        "auto",
        "Memory for cached objects and all that describes them, as `4GiB`; `auto` is a quarter of \
         what this machine or cgroup has. Connections need some KB each besides.",
    ),
    key(
        "numa_groups",
        Kind::Count { min: 0, max: 64 },
        "0",
        "Groups of workers, each with its part of `memory` and an index of its own; 0 is one for each \
         NUMA node its workers are on. Where it is given, connections stay on the node whose \
         processors they come through; otherwise they do if each node has a network device.",
    ),
    key(
        "memory_ahead",
        Kind::Choice(&["some", "all", "none"]),
        "none",
        "How much of `memory` is taken from the kernel, which clears it, before it is needed and while \
         there is nothing else to do: `some` is what is needed next, an eighth of it or 512 MiB at \
         most; `all` is all of it from the start on, except while a process before still has it.",
    ),
    key(
        "drain",
        Kind::Span,
        "30s",
        "How long open requests may take to finish after SIGTERM, a reload or an upgrade.",
    ),
    per_site(
        "vcl",
        Kind::File,
        "",
        "File with a policy in VCL. Its backends take the place of `[[origin]]`; a reload reads it \
         again.",
    ),
    per_site(
        "client_ca",
        Kind::File,
        "",
        "PEM file of the authorities whose certificates clients of this site are asked for. A reload \
         reads it again. A request over a connection that was opened for another site gets a 421.",
    ),
    per_site(
        "client_certificates",
        Kind::Choice(&["required", "optional"]),
        "required",
        "Whether a request without a certificate gets a 403, where `client_ca` is given. One with a \
         certificate of somebody else always does.",
    ),
];
