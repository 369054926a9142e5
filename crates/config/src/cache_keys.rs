//! Keys of what is kept, for how long, and of what is put together.

use super::key::{Key, Kind, key, per_site};

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
    key(
        "cache.object_bytes_max",
        Kind::Text,
        "auto",
        "Largest object to keep in memory, up to half of it; `auto` is a quarter. Larger ones are kept on \
         disks that take them, and stream through else.",
    ),
    key(
        "cache.objective",
        Kind::Choice(&["bytes", "requests"]),
        "bytes",
        "What memory is to have the most of. With `bytes` a byte counts the same wherever it is, as \
         for video and downloads; with `requests` small objects go before large ones, as for pages \
         and interfaces. `[[storage]]` may say otherwise for some paths. Takes effect with a \
         restart.",
    ),
    per_site(
        "cache.grace",
        Kind::Span,
        "0s",
        "How long past its lifetime any object may be served while it is refreshed, where the \
         origin says nothing (RFC 5861) and does not forbid it. What has no lifetime at all may be one user's: it \
         is served so only where it is `public`.",
    ),
    per_site(
        "cache.stale_if_error",
        Kind::Span,
        "1d",
        "How long past its lifetime an object may be served when the origin fails, where the \
         origin says nothing and does not forbid it; as with `grace`, not what has no lifetime.",
    ).in_vcl("what is stale is served for `beresp.grace`, also while the origin fails"),
    per_site(
        "cache.heuristic",
        Kind::Bool,
        "true",
        "Whether responses with Last-Modified and no lifetime get a tenth of their age (RFC 9111 \
         §4.2.2).",
    ).in_vcl("`beresp.ttl` is 2 minutes where the origin says nothing, until the policy sets it"),
    per_site("cache.heuristic_max", Kind::Span, "1d", "Longest lifetime of that kind.").in_vcl("as `cache.heuristic`"),
    per_site(
        "cache.negative",
        Kind::Span,
        "0s",
        "Lifetime of 400, 404, 405, 410, 414 and 500 to 504 without any of their own; 0 keeps none. \
         403 and 451 are about who asks.",
    ).in_vcl("`set beresp.ttl` by `beresp.status`, in `vcl_backend_response`"),
    per_site(
        "cache.hit_for_miss",
        Kind::Span,
        "2m",
        "How long requests for something uncacheable do not wait for one another.",
    ).in_vcl("`beresp.ttl` of what is `beresp.uncacheable`"),
    per_site(
        "cache.set_cookie",
        Kind::Choice(&["pass", "strip", "store"]),
        "pass",
        "What becomes of a response with Set-Cookie that could be stored: given to its client only, \
         stored without the cookie, which nobody gets, or stored and given to everybody with it.",
    ).in_vcl("`unset beresp.http.Set-Cookie` in `vcl_backend_response`"),
    per_site(
        "cache.forward",
        Kind::TextList,
        "",
        "Fields of requests that reach an origin that is asked for the cache although no key has \
         them and they change what many origins answer, as `X-Forwarded-Host`. Name what a proxy in \
         front of this node sets itself; any other value is one client's word for all.",
    ).in_vcl("origins get what the policy leaves in `bereq.http`"),
    per_site(
        "cache.peers",
        Kind::TextList,
        "",
        "Networks of caches behind this one. They get Surrogate-Key, Cache-Tag and Surrogate-Control \
         with a response, which other clients do not, and what they say in Freshet-Applied counts.",
    ),
    per_site(
        "cache.peer_names",
        Kind::TextList,
        "",
        "Names in certificates of clients, as `edge-1.example` or `*.edge.example`, by which they are \
         caches behind this one, wherever they are. For listeners with `client_ca`.",
    ),
    key(
        "cache.loop_id",
        Kind::Text,
        "auto",
        "This node's name in CDN-Loop (RFC 8586), which no other has; a request that has it already \
         is answered with 508. `auto` makes one up at each start.",
    ),
    per_site(
        "cache.client_cache_control",
        Kind::Bool,
        "false",
        "Whether a client's `Cache-Control: no-cache`, `no-store` and `max-age` are obeyed, and its \
         `Pragma`. An edge that obeys them lets any client load the origin.",
    ),
    per_site(
        "cache.cache_status",
        Kind::Bool,
        "true",
        "Whether responses say how they came about \
         (RFC 9211).",
    ),
    key("cache.name", Kind::Text, "freshet", "This node's name in Cache-Status and Via."),
    per_site(
        "cache.gzip",
        Kind::Bool,
        "false",
        "Whether texts are kept under gzip, once, and unpacked for clients that do not take it.",
    ).in_vcl("`set beresp.do_gzip = true` packs, and who takes no gzip gets it unpacked in any case"),
    per_site(
        "cache.codings",
        Kind::TextList,
        "",
        "Codings that texts are kept in, each made once and given to clients that like it best by \
         their Accept-Encoding: `zstd`, `br`, `gzip`, the first of those that a client likes as \
         much. gzip is among them in any case, as `cache.gzip` says.",
    ).in_vcl("`set beresp.do_gzip = true` packs, and there is no other coding"),
    per_site(
        "cache.esi",
        Kind::Bool,
        "false",
        "Whether pages whose origin says `Surrogate-Control: content=\"ESI/1.0\"` get their \
         `<esi:include>`s put in here.",
    ).in_vcl("`set beresp.do_esi = true` in `vcl_backend_response`"),
    per_site(
        "cache.purge_from",
        Kind::TextList,
        "127.0.0.1/32,::1/128",
        "Networks whose clients may use the PURGE method.",
    ).in_vcl("an `acl`, and `return (purge)` in `vcl_recv`"),
    per_site(
        "esi.includes_max",
        Kind::Count { min: 1, max: 1 << 20 },
        "1000",
        "Includes of one page, with those of its includes; what is more is left out.",
    ),
    per_site(
        "esi.bytes_max",
        Kind::Size,
        "64MiB",
        "Longest page with all that is put into it; a longer one breaks off.",
    ),
    per_site(
        "esi.timeout",
        Kind::Span,
        "120s",
        "How long a page may wait for what is put into it, in all; it breaks off then. Time that its \
         client takes does not count.",
    ),
];
