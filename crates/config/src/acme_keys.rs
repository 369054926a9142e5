//! The keys of `[acme]`.

use super::key::{Key, Kind, key};

/// In the order of the reference page.
pub(super) const KEYS: &[Key] = &[
    key(
        "acme.terms_agreed",
        Kind::Bool,
        "false",
        "Whether you agree to the authority's terms of service. With `true` the node gets certificates \
         for the hosts of its sites by itself, one for each host, and renews them; not for hosts that a \
         `[[certificate]]` is for, nor for `*.` ones.",
    ),
    key(
        "acme.directory",
        Kind::Text,
        "https://acme-v02.api.letsencrypt.org/directory",
        "URL of the authority's directory (ACME, RFC 8555).",
    ),
    key(
        "acme.contact",
        Kind::TextList,
        "",
        "Where the authority may write to, as `ops@example.org`.",
    ),
    key("acme.names", Kind::TextList, "", "Names besides the hosts of the sites."),
    key(
        "acme.on_demand",
        Kind::Text,
        "",
        "URL of a service of yours that says for which further names clients may bring a certificate about, \
         by asking for them: it is asked with `?domain=NAME`, and says yes with a 2xx, no with a 4xx. \
         The client waits for its certificate, as long as `tls.handshake_timeout` lets it.",
    ),
    key(
        "acme.on_demand_max",
        Kind::Count { min: 1, max: 100_000 },
        "1000",
        "Most names that have a certificate so.",
    ),
    key(
        "acme.state",
        Kind::Text,
        "auto",
        "Directory that keeps accounts, orders and certificates, for this node alone. `auto` is `acme` \
         in the service's state directory, as `/var/lib/freshet/acme`, else in the user's, \
         `~/.local/state/freshet/acme`.",
    ),
    key(
        "acme.key_type",
        Kind::Choice(&["p256", "p384", "rsa2048", "rsa4096"]),
        "p256",
        "Keys of certificates that are ordered from then on.",
    ),
    key(
        "acme.challenges",
        Kind::TextList,
        "http-01,tls-alpn-01",
        "How names are proved: `http-01` on port 80, `tls-alpn-01` on port 443. The first that the \
         authority offers; after a failure the next has its turn.",
    ),
    key(
        "acme.ca",
        Kind::File,
        "",
        "PEM file of authorities to trust with the directory instead of the system's.",
    ),
    key(
        "acme.eab_key_id",
        Kind::Text,
        "",
        "What the authority calls the key of an account there (external account binding), where it \
         wants one.",
    ),
    key(
        "acme.eab_hmac_file",
        Kind::SecretFile,
        "",
        "File with that key, in base64url as the authority gave it.",
    ),
];
