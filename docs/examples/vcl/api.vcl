# An API: answers are kept for a moment, callers are told apart by their keys
# and held to a hundred requests in ten seconds.

vcl 4.1;

import vsthrottle;

backend api { .host = "127.0.0.1"; .port = "8080"; }

sub vcl_recv {
    if (!req.http.X-API-Key) {
        return (synth(401, "Key missing"));
    }
    if (vsthrottle.is_denied(req.http.X-API-Key, 100, 10s)) {
        return (synth(429, "Too many requests"));
    }
    if (req.method == "OPTIONS") {
        return (synth(204));
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    return (hash);
}

sub vcl_hash {
    # What one key sees, another must not.
    hash_data(req.http.X-API-Key);
}

sub vcl_backend_response {
    if (beresp.status == 200 && !beresp.http.Cache-Control) {
        set beresp.ttl = 5s;
        set beresp.grace = 10s;
    }
    if (beresp.status == 503 && bereq.retries == 0) {
        return (retry);
    }
}

sub vcl_synth {
    set resp.http.Content-Type = "application/problem+json";
    if (resp.status == 429) {
        set resp.http.Retry-After = "10";
    }
    set resp.body = {"{ "status": "} + resp.status + {", "title": ""} + resp.reason + {"" }"};
    return (deliver);
}
