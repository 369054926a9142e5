//! Every key of `freshet.toml`, once.
//!
//! Parsing, defaults, messages, `--help` and the reference page all read this table. `[[x]]` tables
//! may appear any number of times; their keys are written `x[].key`.

pub use super::key::{Key, Keys, Kind, key};
pub use freshet_base::nearest::nearest;

use super::access_keys as access;
use super::acme_keys as acme;
use super::bandwidth;
use super::cache_rules;
use super::forwarded;
use super::geo;
use super::key::{COUNT, count, joined, per_site};
use super::rule_keys as rules;
use super::traces;
use super::upstream_keys as upstreams;

/// The table of `freshet.toml`.
pub static NODE: Keys = Keys::new(KEYS, "`freshet keys` lists every key", true);

/// Its keys, in the order of the reference page.
pub const KEYS: &[Key] = &joined::<{ count(PARTS) }>(PARTS);
const PARTS: &[&[Key]] = &[
    FIRST,
    forwarded::KEYS,
    upstreams::KEYS,
    SECOND,
    rules::KEYS,
    access::KEYS,
    cache_rules::KEYS,
    bandwidth::KEYS,
    geo::KEYS,
    LAST,
    traces::KEYS,
    acme::KEYS,
];

/// What comes before the origins.
const FIRST: &[Key] = &[
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
    key(
        "store[].path",
        Kind::Text,
        "",
        "A file or block device that keeps what is cached over a restart. A file is made if it is \
         not there; a device is used whole.",
    ),
    key("store[].size", Kind::Text, "", "Length of a file that is made, as `100GB`."),
    key(
        "store[].weight",
        Kind::Count { min: 0, max: 1 << 20 },
        "0",
        "Share of new content beside the other stores; 0 goes by their lengths.",
    ),
    key(
        "store[].drive_writes",
        Kind::Text,
        "1",
        "How often a day the drive may be written whole, beyond the first filling. As that is used, \
         less is let in, and nothing above it.",
    ),
    key(
        "store[].object_size",
        Kind::Text,
        "512KiB",
        "Mean length of what is stored, which decides the memory of its index to begin with: 9 bytes \
         for each. Longer objects count as several of 1 MiB; where they are shorter the index grows. \
         Takes effect when the store is formatted.",
    ),
    key(
        "store[].keep_used",
        Kind::Bool,
        "true",
        "Whether content that was used is written again when its turn to be overwritten comes, as far \
         as the write budget has room.",
    ),
    key(
        "store[].class",
        Kind::Text,
        "disk",
        "What `[[storage]]` and a policy (`beresp.storage = storage.NAME`) call this store. Stores \
         of one class share what goes there.",
    ),
    key(
        "store[].ttl_min",
        Kind::Span,
        "0s",
        "Shortest lifetime of what goes there, where that is longer than `stores.ttl_min`.",
    ),
    key("store[].object_min", Kind::Text, "", "Shortest body that goes there, as `64KiB`."),
    key(
        "store[].object_max",
        Kind::Text,
        "",
        "Longest body that goes there, as `1GB`; with it, none of unknown length that is too long \
         for memory.",
    ),
    per_site(
        "stores.ttl_min",
        Kind::Span,
        "10m",
        "Responses with a shorter lifetime stay in memory: live streams never wear a disk.",
    ),
    key(
        "lower_memory.path",
        Kind::Text,
        "",
        "A file that is memory of a lower class, as of PMem or CXL: on a file system mounted with \
         dax, on tmpfs, or a DAX device. What `memory` has no room for moves there and is served \
         from there. It is made and overwritten.",
    ),
    key(
        "lower_memory.numa_node",
        Kind::Text,
        "",
        "Instead of a file, the number of the NUMA node this memory comes from.",
    ),
    key(
        "lower_memory.size",
        Kind::Text,
        "",
        "How much of it is used, as `64GiB`; all of it is reserved at the start.",
    ),
    key(
        "lower_memory.class",
        Kind::Text,
        "lower",
        "What `[[storage]]` and a policy (`beresp.storage = storage.NAME`) call it. What they send \
         there moves there as soon as it is whole, stays, and goes to no disk.",
    ),
    key("lower_memory.ttl_min", Kind::Span, "0s", "Shortest lifetime of what moves there."),
    key("lower_memory.object_min", Kind::Text, "", "Shortest body that moves there, as `64KiB`."),
    key("lower_memory.object_max", Kind::Text, "", "Longest body that moves there, as `16MiB`."),
    per_site(
        "storage[].path",
        Kind::Text,
        "/",
        "What the path of a request begins with, as `/live/`. The first that fits counts.",
    ),
    per_site(
        "storage[].class",
        Kind::Text,
        "ram",
        "Where its response may be kept, unless a policy says otherwise: `ram` for memory only, \
         the class of a store or of `lower_memory`, or `any` for where its length and lifetime let \
         it.",
    ),
    per_site(
        "storage[].objective",
        Kind::Choice(&["auto", "bytes", "requests"]),
        "auto",
        "What memory, also of a lower class, is to have the most of there; `auto` is \
         `cache.objective`. Holds for what comes from then on.",
    ),
    key(
        "listen[].address",
        Kind::Text,
        "",
        "Where clients connect: `:80` (every address), `192.0.2.1:80`, `[::1]:80` or \
         `unix:/run/freshet.sock`.",
    ),
    key("listen[].tls", Kind::Bool, "false", "Whether clients speak TLS here."),
    key(
        "listen[].http3",
        Kind::Bool,
        "true",
        "Whether clients of a listener with TLS may speak HTTP/3 on the UDP port of the same number. \
         Responses over TCP say so with `Alt-Svc`. Not on a Unix socket, nor behind `proxy_protocol`.",
    ),
    key(
        "listen[].early_data",
        Kind::Bool,
        "false",
        "Whether clients that were here before may send requests with the first datagram of a connection \
         over HTTP/3 (0-RTT). What is in the cache is answered at once, all else when the handshake is \
         over. Sessions of HTTP/3 are then continued by this process alone, from the same address, each \
         once, so that nobody can repeat what was recorded. Not with `client_ca`.",
    ),
    key(
        "listen[].congestion",
        Kind::Choice(&["cubic", "bbr"]),
        "cubic",
        "Who decides how much is sent over HTTP/3 before it is acknowledged: `cubic` (RFC 9438) takes a loss \
         for too much; `bbr` (BBRv3) sends as fast as data was seen to arrive, and bears losses of a few in \
         a hundred. HTTP/1 and HTTP/2 have what the system has (`net.ipv4.tcp_congestion_control`).",
    ),
    key(
        "listen[].client_ca",
        Kind::File,
        "",
        "PEM file of the authorities whose certificates clients are asked for here. A new file takes \
         effect with a restart or an upgrade.",
    ),
    key(
        "listen[].client_certificates",
        Kind::Choice(&["required", "optional"]),
        "required",
        "Whether a client without a certificate is refused, where `client_ca` is given. One with a \
         certificate of somebody else always is.",
    ),
    key(
        "listen[].proxy_protocol",
        Kind::Bool,
        "false",
        "Whether each connection begins with a PROXY protocol header, version 1 or 2. The node \
         takes its word for who the client is, so only peers in `proxy_from` may connect.",
    ),
    key(
        "listen[].proxy_from",
        Kind::TextList,
        "127.0.0.0/8,::1/128",
        "Networks of the proxies in front, where `proxy_protocol` is true. Other peers are refused, \
         counted and logged; a Unix socket takes whom its file lets in.",
    ),
    per_site(
        "certificate[].cert",
        Kind::File,
        "",
        "PEM file with the certificate and its chain. The names in it decide which clients get it; \
         the first certificate answers clients that name none.",
    ),
    per_site("certificate[].key", Kind::SecretFile, "", "PEM file with the private key."),
    per_site("certificate[].ocsp", Kind::File, "", "DER file with an OCSP response to staple."),
    key("tls.min_version", Kind::Choice(&["1.2", "1.3"]), "1.2", "Oldest TLS version to accept."),
    key(
        "tls.ticket_keys",
        Kind::SecretFiles,
        "",
        "Files with keys of session tickets, which several nodes share: 48 bytes each, or 80 in a file \
         of its own. The first seals, all open. They are followed as they change; without any the \
         node draws keys of its own.",
    ),
    key("tls.handshake_timeout", Kind::Span, "10s", "Time a client has for its handshake."),
];

/// What comes between the origins and the rules.
const SECOND: &[Key] = &[
    key(
        "cache.object_bytes_max",
        Kind::Text,
        "auto",
        "Largest object to keep; `auto` is a quarter of memory. Larger ones stream through.",
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
         origin says nothing (RFC 5861) and does not forbid it.",
    ),
    per_site(
        "cache.stale_if_error",
        Kind::Span,
        "1d",
        "How long past its lifetime an object may be served when the origin fails, where the \
         origin says nothing and does not forbid it.",
    ),
    per_site(
        "cache.heuristic",
        Kind::Bool,
        "true",
        "Whether responses with Last-Modified and no lifetime get a tenth of their age (RFC 9111 \
         §4.2.2).",
    ),
    per_site("cache.heuristic_max", Kind::Span, "1d", "Longest lifetime of that kind."),
    per_site(
        "cache.negative",
        Kind::Span,
        "0s",
        "Lifetime of 400, 403, 404, 405, 410, 414, 451 and 500 to 504 without any of their own; 0 \
         keeps none.",
    ),
    per_site(
        "cache.hit_for_miss",
        Kind::Span,
        "2m",
        "How long requests for something uncacheable do not wait for one another.",
    ),
    per_site(
        "cache.set_cookie",
        Kind::Choice(&["pass", "strip", "store"]),
        "pass",
        "What becomes of a response with Set-Cookie that could be stored: given to its client only, \
         stored without the cookie, which nobody gets, or stored and given to everybody with it. A \
         VCL policy decides by itself.",
    ),
    per_site(
        "cache.forward",
        Kind::TextList,
        "",
        "Fields of requests that reach an origin that is asked for the cache although no key has \
         them and they change what many origins answer, as `X-Forwarded-Host`. Name what a proxy in \
         front of this node sets itself; any other value is one client's word for all.",
    ),
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
        "Whether a client's `Cache-Control: no-cache` and `max-age` are obeyed. An edge that obeys \
         them lets any client load the origin.",
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
        "Whether texts are kept under gzip, once, and unpacked for clients that do not take it. A \
         VCL policy decides what is packed, and unpacks in any case.",
    ),
    per_site(
        "cache.codings",
        Kind::TextList,
        "",
        "Codings that texts are kept in, each made once and given to clients that like it best by \
         their Accept-Encoding: `zstd`, `br`, `gzip`, the first of those that a client likes as \
         much. gzip is among them in any case, as `cache.gzip` says. A VCL policy keeps gzip only.",
    ),
    per_site(
        "cache.esi",
        Kind::Bool,
        "false",
        "Whether pages whose origin says `Surrogate-Control: content=\"ESI/1.0\"` get their \
         `<esi:include>`s put in here.",
    ),
    per_site(
        "cache.purge_from",
        Kind::TextList,
        "127.0.0.1/32,::1/128",
        "Networks whose clients may use the PURGE method.",
    ),
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
    key("limits.connections_max", COUNT, "100000", "Client connections over all workers."),
    key("limits.head_bytes_max", Kind::Size, "32KiB", "Longest head of a request; above: 431."),
    key(
        "limits.fields_max",
        Kind::Count { min: 8, max: 10_000 },
        "100",
        "Most fields of a request; above: 431.",
    ),
    key("limits.target_bytes_max", Kind::Size, "8KiB", "Longest request target; above: 414."),
    per_site("limits.body_bytes_max", Kind::Size, "1GiB", "Longest request body; above: 413."),
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
    key(
        "log.access",
        Kind::Text,
        "off",
        "Where the access log goes: `off`, `stdout`, `stderr` or a file.",
    ),
    key(
        "log.format",
        Kind::Text,
        "json",
        "`json`, `combined`, or a format with fields such as `%h %t \"%r\" %s %b %D %{hit}x`.",
    ),
    key(
        "admin.listen",
        Kind::Text,
        "127.0.0.1:6080",
        "Address of metrics, health and the REST interface; `off` for none.",
    ),
    key(
        "admin.hosts",
        Kind::TextList,
        "",
        "Names the interface may be asked under, as `freshet.media.svc`. IP addresses, `localhost` \
         and the machine's own name always work; a request for any other is answered with 421, so \
         that no page of another site gets there by a name that resolves to this address.",
    ),
    key(
        "admin.token_file",
        Kind::Text,
        "auto",
        "File that holds the token for changes; `auto` makes one in the runtime directory.",
    ),
];

/// What comes behind the rules.
const LAST: &[Key] = &[
    per_site(
        "media.read",
        Kind::Bool,
        "true",
        "Whether playlists (HLS) and manifests (DASH) are read as they pass, so that live streams \
         stay off disks and leave with their window. No body is changed.",
    ),
    per_site(
        "media.dvr_after",
        Kind::Span,
        "10m",
        "A channel that can be seen for longer than this is kept on disks too, behind its live edge.",
    ),
    per_site(
        "media.override",
        Kind::Bool,
        "false",
        "Whether playlists of channels are shared for a moment, as half a segment or a part, though \
         their origin says `no-cache`, `no-store` or `max-age=0`.",
    ),
    per_site(
        "media.ahead",
        Kind::Count { min: 0, max: 1024 },
        "8",
        "How much of what playlists name a worker fetches at a time before players ask for it; 0 is \
         nothing.",
    ),
    per_site(
        "media.cmcd_collector",
        Kind::Text,
        "",
        "Path at which reports of players are taken by POST, as `/cmcd` (CTA-5004-B, event mode); \
         without it they go on as any request.",
    ),
    per_site(
        "media.cmcd_forward",
        Kind::Bool,
        "false",
        "Whether origins get what players say of themselves (`CMCD` in the query, `CMCD-*` fields). It \
         is in no key: what an origin copies from it into a response, others get too.",
    ),
    per_site(
        "media.cmsd",
        Kind::Bool,
        "false",
        "Whether responses tell players what the way to them carries: `CMSD-Dynamic` with `rd`, and of \
         large ones `etp` and `rtt` (CTA-5006).",
    ),
    per_site(
        "media.clock",
        Kind::Text,
        "",
        "Path that answers with the time of day, as `/time`, for `UTCTiming` in manifests of DASH: \
         `urn:mpeg:dash:utc:http-iso:2014` and `http-head`.",
    ),
    per_site(
        "media.steering",
        Kind::Text,
        "",
        "Path at which players ask which [[pathway]] to take, as `/steering` (HLS and DASH content \
         steering).",
    ),
    per_site(
        "media.steering_ttl",
        Kind::Span,
        "1m",
        "When players ask again; a change of the file reaches them by then.",
    ),
    per_site(
        "pathway[].id",
        Kind::Text,
        "",
        "Name of the pathway, as the playlists have it in `PATHWAY-ID` or `serviceLocation`.",
    ),
    per_site(
        "pathway[].weight",
        Kind::Count { min: 0, max: 1000 },
        "1",
        "Its share of the players, each of which keeps to one; with 0 it is for when all others fail.",
    ),
    per_site(
        "pathway[].clone_of",
        Kind::Text,
        "",
        "A pathway of the playlists, whose URLs this one has with `host` in place of theirs.",
    ),
    per_site("pathway[].host", Kind::Text, "", "The host of a clone, as `b.example`."),
    key(
        "fleet.servers",
        Kind::TextList,
        "",
        "Servers of NATS that have the fleet's log of purges, as `nats://10.0.0.1:4222` or `tls://host`; \
         any of them will do. With them the node belongs to the fleet.",
    ),
    key("fleet.name", Kind::Text, "fleet", "Name of the fleet, as `freshet fleet init` made it."),
    key(
        "fleet.node",
        Kind::Text,
        "auto",
        "This node's name in the fleet, which no other has: letters, digits, `-` and `_`. `auto` is the \
         machine's, up to its first dot.",
    ),
    key(
        "fleet.credentials",
        Kind::SecretFile,
        "",
        "File with credentials for the servers, as `nsc` makes it.",
    ),
    key(
        "fleet.ca",
        Kind::File,
        "",
        "PEM file of the authorities the servers' certificates are of.",
    ),
    key(
        "fleet.certificate",
        Kind::File,
        "",
        "PEM file with the certificate chain this node shows to the servers.",
    ),
    key("fleet.key", Kind::SecretFile, "", "PEM file with its private key."),
    key(
        "fleet.signers",
        Kind::TextList,
        "",
        "Public keys of the fleet's operators, as `freshet fleet key` prints them. With them the node carries \
         out only purges, takes in only configurations and hands over only at words that one of these has \
         signed; otherwise whoever can write to the servers is believed.",
    ),
    key(
        "fleet.state",
        Kind::File,
        "",
        "File that keeps how far the log was carried out, for a node with `[[store]]`. Without it what is \
         on disks is validated once after each start.",
    ),
    key(
        "fleet.config",
        Kind::Text,
        "",
        "Folder in which the node keeps the configuration it gets from the fleet, for itself alone. With \
         it `freshet fleet config push` reaches the node; what this file and the flags say wins.",
    ),
    key(
        "fleet.group",
        Kind::Text,
        "all",
        "The group of nodes whose configuration it gets: letters, digits, `-` and `_`.",
    ),
    key(
        "fleet.labels",
        Kind::TextList,
        "",
        "Words by which roll-outs may choose it, as `canary` or `berlin`.",
    ),
    key(
        "fleet.secret",
        Kind::SecretFile,
        "",
        "File with the fleet's secret, as `freshet fleet secret` makes it, the same at all nodes: what \
         configurations are sealed with, and keys of session tickets made of. Without it configurations \
         are in the clear.",
    ),
    key(
        "fleet.tickets",
        Kind::Bool,
        "false",
        "Whether TLS sessions of one node are resumed at the others: keys of session tickets are made of \
         `fleet.secret` and the clock, and change every 12 hours.",
    ),
    key(
        "fleet.when_cut_off",
        Kind::Choice(&["serve-stale", "refuse"]),
        "serve-stale",
        "What becomes of a request while the node may have missed purges, and nobody can be asked whether \
         what is stored is still good.",
    ),
    key(
        "site[].name",
        Kind::Text,
        "",
        "Name in logs, metrics, purges and keys of the cache; default is the first host. Another \
         name is another site: what was kept under the old one is not found any more.",
    ),
    key(
        "site[].hosts",
        Kind::TextList,
        "",
        "Hosts this site is for: `www.example`, `*.example` for all below, or `*` for those no site \
         names. Without `*` anywhere an unknown host gets a 421. Every key that says so may stand \
         in a site, as `[site.cache]` or `[[site.origin]]`; a list of tables there takes the place \
         of the top level's.",
    ),
];

/// The key of `freshet.toml` of this path. O(1).
pub fn find(path: &str) -> Option<&'static Key> {
    NODE.find(path)
}
