//! Policies in the style of sites with a content management system, of media and of APIs.

/// Names and texts; a backend `default` stands before each.
pub(crate) const ALL: &[(&str, &str)] = &[
    ("nothing", ""),
    ("strip cookies", "sub vcl_recv { unset req.http.Cookie; }"),
    (
        "keep a session",
        r#"import cookie;
sub vcl_recv { if (req.http.Cookie) { cookie.parse(req.http.Cookie); cookie.keep("session");
  set req.http.Cookie = cookie.get_string(); if (req.http.Cookie == "") { unset req.http.Cookie; } } }"#,
    ),
    (
        "cookies by pattern",
        r#"sub vcl_recv { if (req.http.Cookie) {
  set req.http.Cookie = ";" + req.http.Cookie;
  set req.http.Cookie = regsuball(req.http.Cookie, "; +", ";");
  set req.http.Cookie = regsuball(req.http.Cookie, ";(session)=", "; \1=");
  set req.http.Cookie = regsuball(req.http.Cookie, ";[^ ][^;]*", "");
  set req.http.Cookie = regsuball(req.http.Cookie, "^[; ]+|[; ]+$", "");
  if (req.http.Cookie == "") { unset req.http.Cookie; } } }"#,
    ),
    (
        "static",
        r#"sub vcl_recv { if (req.url ~ "^/static/") { unset req.http.Cookie; set req.url = regsub(req.url, "\?.*", ""); return (hash); } }
sub vcl_backend_response { if (bereq.url ~ "^/static/") { set beresp.ttl = 1d; unset beresp.http.Set-Cookie; set beresp.http.Cache-Control = "public, max-age=86400"; } }"#,
    ),
    (
        "pass the admin",
        r#"sub vcl_recv { if (req.url ~ "^/(admin|login)") { return (pass); } unset req.http.Cookie; }"#,
    ),
    (
        "campaigns",
        r#"import std;
sub vcl_recv { if (req.url ~ "(\?|&)(utm_[a-z]+)=") { set req.url = regsuball(req.url, "&(utm_[a-z]+)=([A-z0-9_\-\.%25]+)", "");
  set req.url = regsuball(req.url, "\?(utm_[a-z]+)=([A-z0-9_\-\.%25]+)", "?");
  set req.url = regsub(req.url, "\?&", "?"); set req.url = regsub(req.url, "\?$", ""); }
  set req.url = std.querysort(req.url); }"#,
    ),
    (
        "devices",
        r#"sub vcl_recv { set req.http.X-Device = "desktop"; if (req.http.User-Agent ~ "(?i)mobile|iphone") { set req.http.X-Device = "mobile"; } unset req.http.Cookie; }
sub vcl_hash { hash_data(req.http.X-Device); }
sub vcl_deliver { set resp.http.X-Device = req.http.X-Device; }"#,
    ),
    (
        "languages",
        r#"sub vcl_recv { if (req.http.Accept-Language ~ "^de") { set req.http.Accept-Language = "de"; } else { set req.http.Accept-Language = "en"; } unset req.http.Cookie; }"#,
    ),
    (
        "hits",
        r#"sub vcl_recv { unset req.http.Cookie; } sub vcl_deliver { if (obj.hits > 0) { set resp.http.X-Cache = "HIT " + obj.hits; } else { set resp.http.X-Cache = "MISS"; } }"#,
    ),
    (
        "redirects",
        r#"sub vcl_recv { if (req.url ~ "^/old/") { return (synth(750, regsub(req.url, "^/old/", "/new/"))); } }
sub vcl_synth { if (resp.status == 750) { set resp.http.Location = "https://" + req.http.host + resp.reason; set resp.status = 301; set resp.reason = "Moved"; return (deliver); } }"#,
    ),
    (
        "own errors",
        r#"sub vcl_recv { if (req.url == "/login") { return (synth(403, "Forbidden here")); } }
sub vcl_synth { set resp.http.Content-Type = "text/plain"; set resp.body = "" + resp.status + " " + resp.reason + " " + req.url; return (deliver); }"#,
    ),
    (
        "error pages",
        r#"sub vcl_recv { if (req.url == "/admin/users") { return (synth(401)); } if (req.url == "/login") { return (synth(405, "No")); } }"#,
    ),
    (
        "retries",
        r#"sub vcl_backend_fetch { set bereq.http.X-Retries = bereq.retries; }
sub vcl_backend_response { if (beresp.status >= 500 && bereq.retries < 1) { return (retry); } }"#,
    ),
    (
        "own backend errors",
        r#"sub vcl_backend_response { if (beresp.status >= 500) { return (error(502, "Bad origin")); } }
sub vcl_backend_error { set beresp.http.Content-Type = "text/plain"; set beresp.body = "sorry: " + beresp.reason; return (deliver); }"#,
    ),
    (
        "abandoned",
        r#"sub vcl_backend_response { if (beresp.status == 404) { return (abandon); } }"#,
    ),
    (
        "short errors",
        r#"sub vcl_backend_response { if (beresp.status >= 400) { set beresp.ttl = 100s; set beresp.grace = 0s; } }"#,
    ),
    (
        "never keep",
        "sub vcl_backend_response { set beresp.uncacheable = true; set beresp.ttl = 100s; return (deliver); }",
    ),
    (
        "always keep",
        "sub vcl_recv { unset req.http.Cookie; unset req.http.Authorization; } sub vcl_backend_response { unset beresp.http.Set-Cookie; set beresp.ttl = 1h; return (deliver); }",
    ),
    (
        "media",
        r#"sub vcl_recv { if (req.url ~ "\.(ts|m4s|m3u8|mpd)(\?|$)") { unset req.http.Cookie; return (hash); } }
sub vcl_backend_response { if (bereq.url ~ "\.(m3u8|mpd)") { set beresp.ttl = 100s; } elsif (bereq.url ~ "\.(ts|m4s)") { set beresp.ttl = 6h; set beresp.http.Cache-Control = "max-age=21600"; } }
sub vcl_deliver { set resp.http.Access-Control-Allow-Origin = "*"; }"#,
    ),
    (
        "api keys",
        r#"sub vcl_recv { if (req.url ~ "^/api/" && !req.http.X-API-Key) { return (synth(401, "Key missing")); } }
sub vcl_hash { if (req.http.X-API-Key) { hash_data(req.http.X-API-Key); } }"#,
    ),
    (
        "restarts",
        r#"sub vcl_recv { if (req.restarts == 1) { set req.http.X-Section = "again"; } unset req.http.Cookie; }
sub vcl_deliver { if (resp.status == 404 && req.restarts == 0) { set req.url = "/news"; return (restart); } set resp.http.X-Restarts = req.restarts; }"#,
    ),
    (
        "restart from the start",
        r#"sub vcl_recv { if (req.restarts < 2 && req.url ~ "^/vod") { set req.http.X-Section = req.http.X-Section + "v"; return (restart); } }"#,
    ),
    (
        "purging",
        r#"import purge; acl inside { "127.0.0.1"; }
sub vcl_recv { unset req.http.Cookie; if (req.method == "POST" && client.ip ~ inside) { return (purge); } }"#,
    ),
    (
        "not inside",
        r#"acl outside { "192.0.2.0"/24; ! "127.0.0.1"; } sub vcl_recv { if (client.ip !~ outside && req.url ~ "^/admin") { return (synth(403)); } }"#,
    ),
    (
        "sections",
        r#"sub vcl_recv { call section; set req.http.X-Section = req.http.X-Section.upper(); unset req.http.Cookie; }
sub section { if (req.url ~ "^/([a-z]+)") { set req.http.X-Section = regsub(req.url, "^/([a-z]+).*$", "\1"); } else { set req.http.X-Section = "none"; return; } set req.http.X-Section = req.http.X-Section + "!"; }"#,
    ),
    (
        "groups",
        r#"sub vcl_recv { if (req.http.Cookie ~ "group=b") { set req.http.X-Group = "b"; } else { set req.http.X-Group = "a"; } unset req.http.Cookie; }
sub vcl_hash { hash_data(req.http.X-Group); } sub vcl_deliver { set resp.http.X-Group = req.http.X-Group; }"#,
    ),
    (
        "clean heads",
        "sub vcl_deliver { unset resp.http.X-Powered-By; unset resp.http.ETag; set resp.http.X-Served = \"by \" + server.ip; set resp.http.X-Frame-Options = \"DENY\"; } sub vcl_recv { unset req.http.Range; unset req.http.If-None-Match; }",
    ),
    (
        "numbers",
        r#"import std;
sub vcl_deliver { set resp.http.X-N = std.integer(regsub(req.url, "^.*[a-z]([0-9]).*$", "\1"), 42); set resp.http.X-D = std.duration("10m", 1s); }"#,
    ),
    (
        "case and parts",
        r#"import std;
sub vcl_deliver { set resp.http.X-U = std.toupper(req.url); set resp.http.X-L = std.tolower(req.http.User-Agent); set resp.http.X-S = std.strstr(req.url, "?"); set resp.http.X-E = req.http.Nothing; if (req.http.Nothing) { set resp.http.X-F = "no"; } }"#,
    ),
    (
        "always miss",
        r#"sub vcl_recv { unset req.http.Cookie; if (req.http.X-Debug) { set req.hash_always_miss = true; } }"#,
    ),
    (
        "pass on hits",
        r#"sub vcl_recv { unset req.http.Cookie; } sub vcl_hit { if (req.http.X-Debug) { return (pass); } } sub vcl_miss { if (req.http.X-API-Key) { return (synth(404, "Not for keys")); } }"#,
    ),
    (
        "methods",
        r#"sub vcl_recv { if (req.method == "POST") { return (synth(405)); } if (req.method == "HEAD") { set req.http.X-Section = "head"; } unset req.http.Cookie; }"#,
    ),
    (
        "blobs",
        r#"import blob;
sub vcl_deliver { set resp.http.X-64 = blob.transcode(encoding = BASE64, encoded = req.url); set resp.http.X-Hex = blob.encode(HEX, UPPER, blob.decode(encoded = req.method)); }"#,
    ),
];
