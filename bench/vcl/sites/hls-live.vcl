vcl 4.1;

# Live video: manifests for a second, segments for long, tokens taken off, players from other sites.

import std;
import directors;
import header;

backend packager1 { .host = "127.0.0.1"; .port = "8081"; .first_byte_timeout = 4s; }
backend packager2 { .host = "127.0.0.1"; .port = "8082"; .first_byte_timeout = 4s; }

sub vcl_init {
    new packagers = directors.fallback(sticky = true);
    packagers.add_backend(packager1);
    packagers.add_backend(packager2);
}

sub vcl_recv {
    set req.backend_hint = packagers.backend();
    unset req.http.Cookie;
    unset req.http.Authorization;

    if (req.method == "OPTIONS" && req.http.Origin) {
        return (synth(204, "Preflight"));
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (synth(405, "Method Not Allowed"));
    }
    if (req.url ~ "[?&]token=") {
        set req.http.X-Token = regsub(req.url, "^.*[?&]token=([^&]*).*$", "\1");
        set req.url = regsub(req.url, "([?&])token=[^&]*&?", "\1");
        set req.url = regsub(req.url, "[?&]$", "");
        if (req.http.X-Token !~ "^[0-9a-f]{4,64}$") {
            return (synth(403, "Bad token"));
        }
    }
    if (req.url ~ "\.m3u8(\?|$)") {
        set req.http.X-Kind = "manifest";
        set req.grace = 1s;
    } elsif (req.url ~ "\.(ts|m4s|mp4|aac|vtt)(\?|$)") {
        set req.http.X-Kind = "segment";
        set req.url = regsub(req.url, "\?.*$", "");
        if (req.http.Range ~ "bytes=0-$") { unset req.http.Range; }
    } else {
        unset req.http.X-Kind;
    }
    unset req.http.Accept-Language;
    return (hash);
}

sub vcl_hash {
    hash_data(req.url);
    return (lookup);
}

sub vcl_backend_fetch {
    unset bereq.http.X-Token;
    if (bereq.http.X-Kind == "segment") {
        set bereq.first_byte_timeout = 3s;
    }
    if (bereq.retries == 0) {
        set bereq.http.X-Try = "first";
    } else {
        set bereq.http.X-Try = "again " + bereq.retries;
    }
}

sub vcl_backend_response {
    if (beresp.status >= 500 && bereq.retries < 1) {
        return (retry);
    }
    if (bereq.http.X-Kind == "manifest") {
        set beresp.ttl = 1s;
        set beresp.grace = 2s;
        set beresp.do_gzip = true;
        set beresp.http.Cache-Control = "max-age=1";
    } elsif (bereq.http.X-Kind == "segment") {
        if (beresp.status == 200) {
            set beresp.ttl = 10m;
            set beresp.grace = 0s;
        } else {
            set beresp.ttl = 500ms;
        }
        set beresp.do_stream = true;
        unset beresp.http.Set-Cookie;
        unset beresp.http.Vary;
    } elsif (beresp.status == 404) {
        set beresp.ttl = 2s;
        set beresp.uncacheable = false;
    }
    if (beresp.http.Cache-Control ~ "no-store" && !bereq.http.X-Kind) {
        return (pass(20s));
    }
}

sub vcl_hit {
    if (obj.ttl <= 0s && req.http.X-Kind == "manifest" && !std.healthy(req.backend_hint)) {
        return (synth(503, "Stalled"));
    }
}

sub cors {
    if (req.http.Origin) {
        set resp.http.Access-Control-Allow-Origin = req.http.Origin;
        header.append(resp.http.Vary, "Origin");
    } else {
        set resp.http.Access-Control-Allow-Origin = "*";
    }
    set resp.http.Access-Control-Expose-Headers = "Content-Length, Content-Range, Age, X-Cache";
}

sub vcl_deliver {
    call cors;
    if (resp.status == 206) { set resp.http.X-Part = resp.http.Content-Range; }
    set resp.http.X-Cache = "miss";
    if (obj.hits) { set resp.http.X-Cache = "hit"; }
    set resp.http.Timing-Allow-Origin = "*";
    unset resp.http.Via;
    unset resp.http.X-Varnish;
}

sub vcl_synth {
    if (resp.reason == "Preflight") {
        call cors;
        set resp.http.Access-Control-Allow-Methods = "GET, HEAD, OPTIONS";
        if (req.http.Access-Control-Request-Headers) {
            set resp.http.Access-Control-Allow-Headers = req.http.Access-Control-Request-Headers;
        }
        set resp.http.Access-Control-Max-Age = "1728000";
        set resp.reason = "No Content";
        synthetic("");
        return (deliver);
    }
    call cors;
    set resp.http.Content-Type = "text/plain";
    synthetic(resp.status + ": " + resp.reason);
    return (deliver);
}
