//! The keys of `[[access]]`.

use super::key::{Key, Kind, per_site};

/// In the order of the reference page.
pub(super) const KEYS: &[Key] = &[
    per_site(
        "access[].path",
        Kind::Text,
        "/",
        "What the path of a request begins with, as `/admin/`, however it is spelt. The first that \
         fits counts; of a path that can be read in several ways, the first for each of them.",
    ),
    per_site(
        "access[].allow",
        Kind::TextList,
        "",
        "Who is let in, as `192.0.2.0/24`, `country:DE`, `continent:EU`, `as:64496`; nobody else is then. \
         All but networks need `[geo]`.",
    ),
    per_site(
        "access[].deny",
        Kind::TextList,
        "",
        "Who is not let in, whatever `allow` says; written as that is.",
    ),
    per_site(
        "access[].users",
        Kind::SecretFile,
        "",
        "File of names and hashes of passwords, as `htpasswd -B` and `mkpasswd -m sha-512` make \
         them, one of which a request has to have (RFC 7617). A reload reads it again.",
    ),
    per_site(
        "access[].realm",
        Kind::Text,
        "restricted",
        "What a browser asks its user for a password to.",
    ),
    per_site(
        "access[].satisfy",
        Kind::Choice(&["all", "any"]),
        "all",
        "Whether `allow` and `users` or `service` have both to let a request in, or one of them.",
    ),
    per_site(
        "access[].forward",
        Kind::Bool,
        "false",
        "Whether the origin gets `Authorization`. The response is then kept only where it says that it \
         may be shared.",
    ),
    per_site(
        "access[].service",
        Kind::Text,
        "",
        "URL of a service that is asked with the fields of a request, and in `X-Forwarded-Method`, \
         `-Proto`, `-Host`, `-Uri` and `-For` for what it asks and who does. With a 2xx the request goes \
         on; a redirect or 4xx is what the client gets; without either it gets a 503.",
    ),
    per_site(
        "access[].service_fields",
        Kind::TextList,
        "",
        "Fields of its answer that the request goes on with, as `X-User`; those of its client go. An \
         origin hears of them where its response is for this client alone.",
    ),
    per_site("access[].service_timeout", Kind::Span, "2s", "How long it may take to answer."),
    per_site(
        "access[].service_remember",
        Kind::Span,
        "0s",
        "How long its yes is good for what `service_by` says without asking again.",
    ),
    per_site(
        "access[].service_by",
        Kind::TextList,
        "{client},{target},Authorization,Cookie",
        "What is the same in requests that a yes is good for: names of fields, `{client}` for the \
         client's address, `{target}` for path and query, `{path}` for the path alone, `{path:2}` for its \
         first two segments. The host, the method and the client's certificate always are.",
    ),
    per_site(
        "access[].service_changes",
        Kind::Text,
        "",
        "Path at the service that says, by another `ETag`, that what is remembered of it is over; it is \
         asked to wait until then (`Prefer: wait`).",
    ),
    per_site(
        "access[].service_origin",
        Kind::Text,
        "",
        "Field of its answer with the URLs of origins that the request goes to by turns, in place of \
         those of the site.",
    ),
    per_site(
        "access[].service_strip",
        Kind::Count { min: 0, max: 16 },
        "0",
        "Segments at the beginning of the path that such origins do not have.",
    ),
    per_site(
        "access[].service_share",
        Kind::Text,
        "",
        "Field of its answer that says of how many places the request needs one, and who shares them: \
         `\"api\";places=64;member=\"anna\";weight=2`. Where they are all taken each gets as many as it is due.",
    ),
    per_site(
        "access[].service_counted",
        Kind::TextList,
        "",
        "Fields of its answer, yes or no, by whose values requests are counted in metrics: \
         `Mec-Client` is the label `mec_client`.",
    ),
];
