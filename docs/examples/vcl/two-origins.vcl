# Two origins, checked; the second is asked when the first is down, and what is
# old is served when both are.

vcl 4.1;

import directors;
import std;

probe health {
    .url = "/health";
    .interval = 2s;
    .timeout = 1s;
    .window = 5;
    .threshold = 3;
}

backend first { .host = "127.0.0.1"; .port = "8081"; .probe = health; }
backend second { .host = "127.0.0.1"; .port = "8082"; .probe = health; }

sub vcl_init {
    new origin = directors.fallback();
    origin.add_backend(first);
    origin.add_backend(second);
}

sub vcl_recv {
    set req.backend_hint = origin.backend();
    if (std.healthy(req.backend_hint)) {
        set req.grace = 10s;
    }
}

sub vcl_backend_fetch {
    if (bereq.retries > 0) {
        set bereq.backend = second;
    }
}

sub vcl_backend_response {
    set beresp.grace = 1d;
    if (beresp.status >= 500 && bereq.retries < 1) {
        return (retry);
    }
}
