vcl 4.1;

# A service that has to answer: again elsewhere, then old, then by hand.

import std;
import directors;
import saintmode;

backend east { .host = "127.0.0.1"; .port = "8001"; .first_byte_timeout = 1.5s; }
backend west { .host = "127.0.0.1"; .port = "8002"; .first_byte_timeout = 1.5s; }
backend sorry { .host = "127.0.0.1"; .port = "8003"; }

sub vcl_init {
    new sm_east = saintmode.saintmode(east, 3);
    new sm_west = saintmode.saintmode(west, 3);
    new both = directors.fallback();
    both.add_backend(sm_east.backend());
    both.add_backend(sm_west.backend());
}

sub vcl_recv {
    if (req.restarts == 0) {
        set req.http.X-Attempt = "0";
        set req.backend_hint = both.backend();
    } else {
        set req.http.X-Attempt = req.restarts;
        set req.backend_hint = sorry;
        set req.grace = 1h;
    }
    if (req.method == "GET" || req.method == "HEAD") {
        unset req.http.Cookie;
        return (hash);
    }
    return (pass);
}

sub vcl_backend_fetch {
    if (bereq.retries > 0 && bereq.http.X-Attempt == "0") {
        set bereq.backend = both.backend();
    }
    set bereq.http.X-Retries = bereq.retries;
}

sub vcl_backend_response {
    if (beresp.status > 499 && bereq.http.X-Attempt == "0") {
        saintmode.blacklist(20s);
        if (bereq.retries < 1 && (bereq.method == "GET" || bereq.method == "HEAD")) {
            return (retry);
        }
        if (bereq.uncacheable) {
            return (deliver);
        }
        set beresp.http.X-Give-Up = "1";
        set beresp.ttl = 0s;
        set beresp.grace = 0s;
        set beresp.uncacheable = true;
        return (deliver);
    }
    if (beresp.ttl < 10s && beresp.status < 400) { set beresp.ttl = 10s; }
    set beresp.grace = 1d;
    set beresp.http.X-Backend = bereq.backend;
}

sub vcl_backend_error {
    if (bereq.retries < 1 && bereq.http.X-Attempt == "0") {
        return (retry);
    }
    set beresp.status = 503;
    set beresp.http.Content-Type = "text/plain";
    set beresp.http.X-Made = "yes";
    synthetic("sorry, " + bereq.url + " after " + bereq.retries);
    return (deliver);
}

sub vcl_deliver {
    if (resp.http.X-Give-Up && req.restarts == 0) {
        return (restart);
    }
    if (resp.status == 503 && resp.http.X-Made && req.restarts < 1) {
        return (restart);
    }
    set resp.http.X-Attempt = req.http.X-Attempt;
    set resp.http.X-Restarts = req.restarts;
    unset resp.http.X-Made;
}
