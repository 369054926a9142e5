//! Keys of the access log and of the admin interface.

use super::key::{Key, Kind, key, per_site};

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
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
    per_site(
        "log.request_fields",
        Kind::TextList,
        "",
        "Fields of requests that JSON lines have too, as `X-Request-Id`. A format names them itself: \
         `%{X-Request-Id}i`.",
    ),
    per_site(
        "log.response_fields",
        Kind::TextList,
        "",
        "The same of responses, as clients get them: `%{Content-Type}o` in a format.",
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
