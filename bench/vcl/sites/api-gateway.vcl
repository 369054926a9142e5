vcl 4.1;

# An interface for machines: versions to services, keys, limits, preflights, mistakes in JSON.

import std;
import vsthrottle;
import str;
import var;

backend users { .host = "127.0.0.1"; .port = "9001"; }
backend items { .host = "127.0.0.1"; .port = "9002"; }
backend legacy { .host = "127.0.0.1"; .port = "9003"; }
backend nowhere none;

acl trusted { "10.0.0.0"/8; "192.0.2.0"/24; }

sub route {
    if (req.url ~ "^/api/") {
        var.set("service", str.split(regsub(req.url, "\?.*", ""), 2, "/"));
        set req.http.X-Service = var.get("service");
        if (req.http.X-Service ~ "^users") {
            set req.backend_hint = users;
        } elseif (req.http.X-Service ~ "^items") {
            set req.backend_hint = items;
        } else {
            set req.backend_hint = nowhere;
        }
    } else {
        set req.backend_hint = legacy;
    }
}

sub identify {
    if (req.http.Authorization ~ "^Bearer ") {
        set req.http.X-Key = regsub(req.http.Authorization, "^Bearer +", "");
    } elsif (req.http.Authorization ~ "^Basic ") {
        set req.http.X-Key = "basic:" + regsub(req.http.Authorization, "^Basic +", "");
    } elsif (req.url ~ "[?&]api_key=") {
        set req.http.X-Key = regsub(req.url, ".*[?&]api_key=([^&]*).*", "\1");
        set req.url = regsuball(req.url, "api_key=[^&]*&?", "");
    } else {
        set req.http.X-Key = "anonymous";
    }
    set req.http.X-Real = regsub(req.http.X-Forwarded-For, "^([^, ]+).*", "\1");
    if (std.ip(req.http.X-Real, "0.0.0.0") ~ trusted) {
        set req.http.X-Trusted = "yes";
    } else {
        unset req.http.X-Trusted;
    }
}

sub vcl_recv {
    if (req.esi_level > 0 || req.restarts > 1) {
        return (fail);
    }
    if (req.method == "OPTIONS") {
        return (synth(204));
    }
    call identify;
    call route;
    if (!req.http.X-Trusted && vsthrottle.is_denied("SEED" + req.http.X-Key, 5, 1000s)) {
        return (synth(429, "Too Many Requests"));
    }
    if (req.http.Content-Type && req.http.Content-Type !~ "json|text/plain") {
        return (synth(415, "Unsupported Media Type"));
    }
    if (req.method !~ "^(GET|HEAD|POST|PUT|PATCH|DELETE)$") {
        return (synth(405, "Method Not Allowed"));
    }
    if (req.method == "POST" && std.integer(req.http.Content-Length, -1) < 0) {
        return (synth(411, "Length Required"));
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    if (req.http.Cache-Control ~ "no-cache" && req.http.X-Trusted) {
        set req.hash_always_miss = true;
    }
    if (req.http.Accept ~ "application/vnd\.example\.v([0-9]+)") {
        set req.http.X-Version = regsub(req.http.Accept, ".*vnd\.example\.v([0-9]+).*", "\1");
    } else {
        set req.http.X-Version = std.integer(req.http.X-Api-Version, 1);
    }
    unset req.http.Cookie;
    set req.url = std.querysort(req.url);
    if (req.http.X-Key != "anonymous") {
        set req.http.X-Private = "1";
    }
    return (hash);
}

sub vcl_hash {
    hash_data(req.url);
    hash_data(req.http.X-Version);
    if (req.http.X-Private) {
        hash_data(req.http.X-Key);
    }
    return (lookup);
}

sub vcl_backend_fetch {
    set bereq.http.X-Api-Version = bereq.http.X-Version;
    unset bereq.http.X-Version;
    unset bereq.http.X-Private;
    set bereq.http.X-Request-Path = bereq.url;
    if (bereq.method == "GET" && bereq.http.Content-Length == "0") { unset bereq.http.Content-Length; }
    set bereq.between_bytes_timeout = 1.8s;
}

sub vcl_backend_response {
    if (beresp.status >= 500) {
        set beresp.http.X-Original-Status = beresp.status;
        return (error(502, "Bad Gateway"));
    }
    if (beresp.http.Content-Type !~ "json" && bereq.url ~ "^/api") {
        set beresp.http.X-Content-Type-Options = "nosniff";
    }
    if (beresp.http.Vary ~ "\*") {
        unset beresp.http.Vary;
        return (pass(5s));
    }
    if (beresp.ttl < 2s && beresp.status == 200 && !beresp.http.Set-Cookie && beresp.http.Cache-Control !~ "private") {
        set beresp.ttl = 2s;
        set beresp.http.X-Micro = "1";
    }
    set beresp.grace = 10s;
    set beresp.keep = 10m;
}

sub vcl_backend_error {
    set beresp.http.Content-Type = "application/problem+json";
    set beresp.body = {"{"status": "} + beresp.status + {", "title": ""} + beresp.reason + {"", "retries": "} + bereq.retries + "}";
    if (beresp.status == 502) {
        set beresp.ttl = 1s;
        set beresp.grace = 0s;
    }
    return (deliver);
}

sub vcl_deliver {
    set resp.http.Access-Control-Allow-Origin = "*";
    if (vsthrottle.remaining("SEED" + req.http.X-Key, 5, 1000s) < 2) {
        set resp.http.X-RateLimit-Low = "true";
    }
    set resp.http.X-Service = req.http.X-Service;
    if (obj.hits > 0 && !obj.uncacheable) {
        set resp.http.X-Cache = "HIT " + obj.hits;
    }
    set resp.http.X-Backend = req.backend_hint;
    if (resp.status == 401) {
        set resp.http.WWW-Authenticate = {"Bearer realm="api", error="invalid_token""};
    }
}

sub vcl_synth {
    set resp.http.Content-Type = "application/problem+json";
    if (resp.status == 204) {
        set resp.http.Access-Control-Allow-Origin = "*";
        set resp.http.Access-Control-Allow-Methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
        set resp.http.Access-Control-Max-Age = "86400";
        unset resp.http.Content-Type;
        return (deliver);
    }
    if (resp.status == 429) {
        set resp.http.Retry-After = 1000;
    }
    synthetic({"{"status": "} + resp.status + {", "title": ""} + resp.reason + """"}""");
    return (deliver);
}
