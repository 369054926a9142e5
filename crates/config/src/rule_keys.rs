//! Keys of what a site does to requests and responses besides keeping them.

use super::key::{Key, Kind, per_site};

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
    per_site(
        "header[].on",
        Kind::Choice(&["request", "response"]),
        "response",
        "Whether the field is of the request, as the origin gets it, or of the response, as clients \
         get it. What is kept stays as it came.",
    ),
    per_site(
        "header[].action",
        Kind::Choice(&["set", "add", "remove"]),
        "set",
        "Set it in place of what it was, add a line, or remove it.",
    ),
    per_site("header[].name", Kind::Text, "", "The field's name."),
    per_site(
        "header[].value",
        Kind::Text,
        "",
        "Its value, which is not empty: `action = \"remove\"` takes a field away. `{client}`, `{user}`, `{country}` and the like stand for what the request has: \
         see [sites](sites.md#fields-redirects-paths-cors).",
    ),
    per_site(
        "header[].path",
        Kind::Text,
        "/",
        "What the path of a request begins with, in whichever way an origin may read it (`/%61pp`, `//app`).",
    ),
    per_site(
        "header[].suffixes",
        Kind::TextList,
        "",
        "What the path ends with, as `.css` or `.js`, in capitals or not; anything if empty.",
    ),
    per_site(
        "header[].status",
        Kind::TextList,
        "",
        "Responses it is for, as `200`, `2xx`, `404`; all if empty. For `on = \"response\"`.",
    ),
    per_site(
        "redirect[].from",
        Kind::Text,
        "/*",
        "The path that moved, as `/old`; `/old/*` is all below. The first that fits counts.",
    ),
    per_site(
        "redirect[].scheme",
        Kind::Choice(&["", "http", "https"]),
        "",
        "Only for clients that came in the clear (`http`) or over TLS (`https`).",
    ),
    per_site(
        "redirect[].to",
        Kind::Text,
        "",
        "Where to, as `/new` or `https://{host}/{rest}`: `{host}` is the host that was asked for, \
         `{rest}` what `*` stood for. The query goes with it.",
    ),
    per_site(
        "redirect[].status",
        Kind::Count { min: 301, max: 308 },
        "301",
        "301, 302, 303, 307 or 308.",
    ),
    per_site(
        "maintenance.enabled",
        Kind::Bool,
        "false",
        "Whether nobody is served: a 503 for all. `freshet maintenance on` does the same at once.",
    ),
    per_site("maintenance.allow", Kind::TextList, "", "Networks that are served all the same."),
    per_site(
        "maintenance.retry_after",
        Kind::Span,
        "5m",
        "When the others may come again (Retry-After); 0 does not say.",
    ),
    per_site(
        "maintenance.page",
        Kind::File,
        "",
        "File with what they are told: `.html`, `.json`, `.xml` or `.txt`, 1 MiB at most.",
    ),
    per_site(
        "error_page[].status",
        Kind::TextList,
        "4xx,5xx",
        "Statuses it is for, as `404`, `4xx`, `5xx`. The first that fits counts.",
    ),
    per_site(
        "error_page[].file",
        Kind::File,
        "",
        "File with the body of such responses that the node makes itself: `.html`, `.json`, `.xml` or \
         `.txt`, 1 MiB at most. A reload reads it again.",
    ),
    per_site(
        "error_page[].origin",
        Kind::Bool,
        "false",
        "Whether it also takes the place of what an origin answers with such a status.",
    )
    .in_vcl("`vcl_deliver` may `return (synth(404))`"),
    per_site(
        "rate_limit[].name",
        Kind::Text,
        "",
        "Its name in logs, metrics and what clients are told; `limit-1` and so on if not given.",
    ),
    per_site(
        "rate_limit[].path",
        Kind::Text,
        "/",
        "What the path of a request begins with, as `/api/`, however it is spelt. Every limit that fits \
         counts.",
    ),
    per_site(
        "rate_limit[].by",
        Kind::Choice(&["client", "site", "path", "header"]),
        "client",
        "What is counted together: the requests of one client, which is a network of \
         `limits.network_bits_v4` or `_v6` bits; all of the site; those for one path; or those with the \
         same value of `header`, where requests without it are not counted.",
    ),
    per_site("rate_limit[].header", Kind::Text, "", "The field to go by, as `X-Api-Key`."),
    per_site(
        "rate_limit[].rate",
        Kind::Text,
        "",
        "How many requests in which time, as `100/s`, `600/m`, `5000/h` or `20/10s`; above: 429. They \
         come back evenly, not all at the end of it.",
    ),
    per_site(
        "rate_limit[].burst",
        Kind::Count { min: 0, max: 1_000_000_000 },
        "0",
        "How many may come at once; 0 is as many as `rate` names.",
    ),
    per_site(
        "rate_limit[].concurrent_max",
        Kind::Count { min: 0, max: 1 << 24 },
        "0",
        "Requests under way at a time, each until its response is sent; above: 429. 0 is any number.",
    ),
    per_site(
        "rate_limit[].except",
        Kind::TextList,
        "",
        "Networks whose clients it does not hold for. It never holds for caches in `cache.peers`.",
    ),
    per_site(
        "rate_limit[].dry_run",
        Kind::Bool,
        "false",
        "Whether it only counts and logs what it would refuse.",
    ),
    per_site(
        "rate_limit[].fields",
        Kind::Choice(&["refused", "always"]),
        "refused",
        "Which responses say with `RateLimit` and `RateLimit-Policy` what is left: those with 429, or \
         all it holds for.",
    ),
    per_site(
        "rate_limit[].block_after",
        Kind::Count { min: 0, max: 1_000_000 },
        "0",
        "A client that is refused more often than this within `block_for` gets a 403 for everything at \
         this site for as long; 0 is never. For `by = \"client\"`.",
    ),
    per_site("rate_limit[].block_for", Kind::Span, "10m", "See `block_after`; up to 1d."),
    per_site(
        "token[].path",
        Kind::Text,
        "/",
        "What the path of a request begins with, as `/members/`. The first that fits decides; several \
         with the same path are alternatives. Where there is a token at all, paths that can be read in \
         several ways are refused.",
    ),
    per_site(
        "token[].kind",
        Kind::Choice(&[
            "",
            "none",
            "secure-link",
            "secure-link-hmac",
            "edge-auth",
            "cloudfront",
            "jwt",
            "cat",
        ]),
        "",
        "What lets a request in: nothing is needed (`none`); a URL signed as nginx's `secure_link_md5` \
         has it, or the same with HMAC-SHA256; Akamai's EdgeAuth token 2.0; a URL or cookies signed for CloudFront; \
         a JSON Web Token; a Common Access Token (CTA-5007).",
    ),
    per_site(
        "token[].keys",
        Kind::SecretFiles,
        "",
        "Files with keys: a secret, PEM with public keys, or a JSON Web Key Set. A reload reads them \
         again.",
    ),
    per_site(
        "token[].parameter",
        Kind::Text,
        "",
        "Parameter of the query that has the token, or a link's signature; `md5`, `hdnts` or `cat` by \
         its kind where none of `parameter`, `cookie` and `header` is given.",
    ),
    per_site("token[].cookie", Kind::Text, "", "Cookie that has the token."),
    per_site(
        "token[].header",
        Kind::Text,
        "",
        "Field that has the token; with `Authorization` it is one of scheme `Bearer`.",
    ),
    per_site(
        "token[].expression",
        Kind::Text,
        "",
        "What a link's signature is of, as nginx writes it, with $secure_link_expires, $uri, \
         $remote_addr, $host, $scheme, $arg_NAME, and with MD5 $secret.",
    ),
    per_site(
        "token[].expires_parameter",
        Kind::Text,
        "expires",
        "Parameter with the Unix time until which a link is good.",
    ),
    per_site(
        "token[].prefix_parameter",
        Kind::Text,
        "",
        "Parameter in which a link may say the beginning of the paths it is for, up to a `/`; $uri is \
         that with a `*` behind it then.",
    ),
    per_site("token[].salt", Kind::Text, "", "Salt of EdgeAuth tokens."),
    per_site(
        "token[].issuers",
        Kind::TextList,
        "",
        "Issuers one of which a `jwt` or `cat` has to name; any if empty.",
    ),
    per_site(
        "token[].audiences",
        Kind::TextList,
        "",
        "Audiences one of which a `jwt` or `cat` has to name; `*` is any, and none. If empty, a token that names one \
         is for somebody else, and lets nobody in (RFC 7519 §4.1.3).",
    ),
    per_site(
        "token[].endless",
        Kind::Bool,
        "false",
        "Whether a `jwt` or `cat` may go without an end.",
    ),
    per_site("token[].leeway", Kind::Span, "0s", "How far the clocks of others may be off."),
    per_site(
        "token[].revoked",
        Kind::File,
        "",
        "File with ids of tokens that are not good any more, one in a line; `sub:NAME` is all of \
         somebody's. A reload reads it again.",
    ),
    per_site(
        "token[].forward",
        Kind::Bool,
        "false",
        "Whether origins get the token that let a request in. One in the query is in the cache's key; with one in a field or cookie the \
         response is kept only where it says that it may be shared.",
    ),
    per_site(
        "path[].prefix",
        Kind::Text,
        "/",
        "What the path of a request begins with, as `/assets/`. The first that fits counts.",
    ),
    per_site(
        "path[].replace",
        Kind::Text,
        "/",
        "What it begins with instead, in the cache's key and at the origin; `/` strips the prefix.",
    ),
    per_site(
        "cors.origins",
        Kind::TextList,
        "",
        "Origins whose pages may read responses, as `https://www.example`, `https://*.example` for \
         all hosts below one, or `*`. With it preflights are answered here, and the origin server's \
         own CORS fields are replaced.",
    ),
    per_site("cors.methods", Kind::TextList, "GET,HEAD", "Methods that a preflight is told."),
    per_site(
        "cors.headers",
        Kind::TextList,
        "Range",
        "Request fields that a preflight is told, besides those in which players say how they are \
         doing (`CMCD-*`).",
    ),
    per_site(
        "cors.expose",
        Kind::TextList,
        "Content-Length,Content-Range,Date,Server-Timing",
        "Fields of a response that scripts may read besides those they always may.",
    ),
    per_site("cors.credentials", Kind::Bool, "false", "Whether pages may ask with cookies."),
    per_site("cors.max_age", Kind::Span, "1d", "How long a browser may keep a preflight."),
];
