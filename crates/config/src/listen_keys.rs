//! Keys of listeners, certificates and TLS.

use super::key::{Key, Kind, key, per_site};

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
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
        "listen[].http3_port",
        Kind::Count { min: 0, max: u16::MAX as u64 },
        "0",
        "The UDP port that `Alt-Svc` names, where clients come by another than the listener's: through a \
         load balancer, a Service of Kubernetes or a published port of a container. 0: the listener's own.",
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
    per_site(
        "certificate[].ocsp",
        Kind::File,
        "",
        "DER file with an OCSP response to staple, for as long as it says that the certificate is good. \
         Without it a file beside `cert` with `.ocsp` added to its name is taken, where there is one. \
         A response about another certificate is not sent.",
    ),
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
