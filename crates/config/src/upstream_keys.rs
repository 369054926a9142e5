//! The keys of `[[origin]]`, `[[parent]]` and what is the same for all of them.

use super::key::{Key, Kind, per_site};

/// In the order of the reference page.
pub(super) const KEYS: &[Key] = &[
    per_site("origin[].name", Kind::Text, "", "Name in logs and metrics; default is the host."),
    per_site(
        "origin[].url",
        Kind::Text,
        "",
        "Where to fetch from: `http://host:port`, `https://host` or `unix:/path`. With a path, as \
         `https://host/site`, that goes before the path of each request, and out of `Location`.",
    ).in_vcl("backends of the policy"),
    per_site("origin[].host", Kind::Text, "", "`Host` to send instead of the client's."),
    per_site(
        "origin[].http",
        Kind::Choice(&["1.1", "2", "auto"]),
        "1.1",
        "HTTP it is spoken to in: `1.1`, `2`, which an `http` URL then speaks from its first byte, or \
         `auto`, which is `2` where a TLS handshake agrees on it.",
    ),
    per_site("origin[].sni", Kind::Text, "", "Name to ask for in TLS; default is the URL's host."),
    per_site("origin[].verify", Kind::Bool, "true", "Whether the origin's certificate is checked."),
    per_site(
        "origin[].ca",
        Kind::File,
        "",
        "PEM file of authorities to trust instead of the system's, or the origin's own certificate, where it \
         signs itself.",
    ),
    per_site(
        "origin[].certificate",
        Kind::File,
        "",
        "PEM file with the certificate chain this node shows where the origin asks for one.",
    ),
    per_site("origin[].key", Kind::SecretFile, "", "PEM file with its private key."),
    per_site(
        "origin[].paths",
        Kind::TextList,
        "",
        "What the path of a request begins with that this origin is for, as `/api/`, after \
         `[[path]]`. Of all that fit the longest counts; those without are for everything else.",
    ),
    per_site(
        "origin[].strip_paths",
        Kind::Bool,
        "false",
        "Whether the one of `paths` that a request begins with is left out when the origin is asked: \
         `/api/users` is `/users` there, and a `Location` of `/users` is `/api/users` for clients. \
         Segments are left out whole: `/apis` keeps its path.",
    ),
    per_site(
        "origin[].weight",
        Kind::Count { min: 1, max: 100 },
        "1",
        "Share of requests beside the other origins.",
    ),
    per_site(
        "origin[].connections_max",
        Kind::Count { min: 1, max: 1_000_000 },
        "1024",
        "Connections to this origin over all workers; further requests wait for one, for \
         `origins.queue_timeout`. In HTTP/2 each \
         carries up to 64 requests at a time.",
    ),
    per_site("parent[].name", Kind::Text, "", "Name in logs and metrics; default is the host."),
    per_site(
        "parent[].url",
        Kind::Text,
        "",
        "A cache that is asked before the origins are: `http://host:port`, `https://host` or \
         `unix:/path`. A key goes to the same parent from every node that lists the same names.",
    ),
    per_site(
        "parent[].group",
        Kind::Count { min: 1, max: 8 },
        "1",
        "Parents of a higher number are asked where those of the lower ones fail.",
    ),
    per_site("parent[].host", Kind::Text, "", "`Host` to send instead of the client's."),
    per_site(
        "parent[].http",
        Kind::Choice(&["1.1", "2", "auto"]),
        "1.1",
        "HTTP it is spoken to in: `1.1`, `2`, which an `http` URL then speaks from its first byte, or \
         `auto`, which is `2` where a TLS handshake agrees on it.",
    ),
    per_site("parent[].sni", Kind::Text, "", "Name to ask for in TLS; default is the URL's host."),
    per_site("parent[].verify", Kind::Bool, "true", "Whether the parent's certificate is checked."),
    per_site(
        "parent[].ca",
        Kind::File,
        "",
        "PEM file of authorities to trust instead of the system's.",
    ),
    per_site(
        "parent[].certificate",
        Kind::File,
        "",
        "PEM file with the certificate chain this node shows where the parent asks for one.",
    ),
    per_site("parent[].key", Kind::SecretFile, "", "PEM file with its private key."),
    per_site(
        "parent[].weight",
        Kind::Count { min: 1, max: 100 },
        "1",
        "Share of keys beside the other parents of its group.",
    ),
    per_site(
        "parent[].connections_max",
        Kind::Count { min: 1, max: 1_000_000 },
        "1024",
        "Connections to this parent over all workers; further requests wait for one. In HTTP/2 each \
         carries up to 64 requests at a time.",
    ),
    per_site(
        "sibling[].name",
        Kind::Text,
        "",
        "`cache.loop_id` of that node; default is the host. All nodes of a place list the same ones, \
         themselves included.",
    ),
    per_site(
        "sibling[].url",
        Kind::Text,
        "",
        "A node of the same place, which is asked before the parents and the origins for the keys whose \
         home it is: `http://host:port`, `https://host` or `unix:/path`.",
    ),
    per_site("sibling[].host", Kind::Text, "", "`Host` to send instead of the client's."),
    per_site(
        "sibling[].http",
        Kind::Choice(&["1.1", "2", "auto"]),
        "1.1",
        "HTTP it is spoken to in, as `parent.http`.",
    ),
    per_site("sibling[].sni", Kind::Text, "", "Name to ask for in TLS; default is the URL's host."),
    per_site("sibling[].verify", Kind::Bool, "true", "Whether its certificate is checked."),
    per_site(
        "sibling[].ca",
        Kind::File,
        "",
        "PEM file of authorities to trust instead of the system's.",
    ),
    per_site(
        "sibling[].certificate",
        Kind::File,
        "",
        "PEM file with the certificate chain this node shows where the sibling asks for one.",
    ),
    per_site("sibling[].key", Kind::SecretFile, "", "PEM file with its private key."),
    per_site(
        "sibling[].weight",
        Kind::Count { min: 1, max: 100 },
        "1",
        "Share of keys beside the other siblings.",
    ),
    per_site(
        "sibling[].connections_max",
        Kind::Count { min: 1, max: 1_000_000 },
        "1024",
        "Connections to this sibling over all workers; further requests wait for one.",
    ),
    per_site(
        "parents.direct",
        Kind::Bool,
        "true",
        "Whether the origins are asked where no parent can be.",
    ).in_vcl("backends and directors of the policy"),
    per_site(
        "parents.health_path",
        Kind::Text,
        "",
        "Path to ask each parent and sibling for, as often as `[health]` says; without it parents are judged by \
         real requests only.",
    ).in_vcl("backends and directors of the policy"),
    per_site(
        "parents.load_bound",
        Kind::Count { min: 100, max: 10_000 },
        "125",
        "How many percent of its fair share of a group's requests under way a parent may have, above \
         32 of them; what is more goes to the key's next parent. The same holds among siblings.",
    ).in_vcl("backends and directors of the policy"),
    per_site(
        "parents.hot_rate",
        Kind::Count { min: 0, max: 1_000_000 },
        "100",
        "Requests a second of this node to its parents from which on a key has several homes; 0 is \
         never.",
    ).in_vcl("backends and directors of the policy"),
    per_site(
        "parents.hot_copies",
        Kind::Count { min: 1, max: 64 },
        "2",
        "How many parents of a group then take turns.",
    ).in_vcl("backends and directors of the policy"),
    per_site(
        "parents.sibling_keep_rate",
        Kind::Count { min: 0, max: 1_000_000 },
        "5",
        "Requests a second of this node for a key whose home is a sibling, from which on it is kept at \
         this node too; 0 keeps all that comes from siblings.",
    ).in_vcl("backends and directors of the policy"),
    per_site(
        "origins.director",
        Kind::Choice(&["round-robin", "hash", "fallback"]),
        "round-robin",
        "How a request finds its origin: in turn, by the hash of its key, or the first that works.",
    ).in_vcl("directors of the policy (`import directors;`)"),
    per_site("origins.connect_timeout", Kind::Span, "3s", "Time to connect, TLS included."),
    per_site(
        "origins.first_byte_timeout",
        Kind::Span,
        "60s",
        "Time to the first byte of an answer.",
    ),
    per_site(
        "origins.between_bytes_timeout",
        Kind::Span,
        "60s",
        "Time between two reads of an answer.",
    ),
    per_site(
        "origins.queue_timeout",
        Kind::Span,
        "1s",
        "How long a request waits for a connection where all of `connections_max` are in use.",
    ).in_vcl("`.wait_timeout` and `.wait_limit` of a backend"),
    per_site(
        "origins.abandoned_timeout",
        Kind::Span,
        "10s",
        "How long a fetch whose client has left may wait for an answer, where nobody else waits for \
         it. Where it would not be kept, it ends with its client.",
    ),
    per_site(
        "origins.keep_alive",
        Kind::Span,
        "60s",
        "How long an idle origin connection is kept.",
    ),
    per_site(
        "origins.upgrades",
        Kind::TextList,
        "",
        "Protocols a client may change to, as `websocket`: such a request goes to the origin, and \
         the connection becomes a tunnel if that agrees. Any other `Upgrade` is ignored.",
    ).in_vcl("`return (pipe)` in `vcl_recv` makes a tunnel, of any protocol"),
    per_site(
        "origins.upgrade_idle",
        Kind::Span,
        "10m",
        "How long nothing may move in such a tunnel, in either direction, before it is ended. The timeouts above do \
         not hold for it.",
    ),
    per_site(
        "health.path",
        Kind::Text,
        "",
        "Path to ask each origin for; without it origins are judged by real requests only.",
    ).in_vcl("`.probe` of a backend"),
    per_site("health.interval", Kind::Span, "5s", "Time between two checks.").in_vcl("`.probe` of a backend"),
    per_site("health.timeout", Kind::Span, "2s", "Time a check may take.").in_vcl("`.probe` of a backend"),
    per_site(
        "health.status",
        Kind::Count { min: 100, max: 599 },
        "200",
        "Status that counts as good.",
    ).in_vcl("`.probe` of a backend"),
    per_site(
        "health.window",
        Kind::Count { min: 1, max: 64 },
        "8",
        "How many checks are looked at.",
    ).in_vcl("`.probe` of a backend"),
    per_site(
        "health.threshold",
        Kind::Count { min: 1, max: 64 },
        "3",
        "How many of them must be good for the origin to be used.",
    ).in_vcl("`.probe` of a backend"),
];
