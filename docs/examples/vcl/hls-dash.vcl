# Times to live for HLS and DASH by what a URL ends with.

vcl 4.1;

import std;

backend origin {
    .host = "127.0.0.1";
    .port = "8080";
    .first_byte_timeout = 5s;
    .probe = { .url = "/health"; .interval = 2s; .timeout = 1s; }
}

sub vcl_recv {
    if (req.url ~ "\.(ts|m4s|mp4|cmf[vat]|aac|vtt)(\?|$)") {
        # Players number their sessions; a segment is the same for all.
        set req.url = regsub(req.url, "\?.*$", "");
        unset req.http.Cookie;
        return (hash);
    }
    if (req.url ~ "\.(m3u8|mpd)(\?|$)") {
        set req.url = std.querysort(req.url);
        unset req.http.Cookie;
        return (hash);
    }
}

sub vcl_backend_response {
    if (beresp.status != 200 && beresp.status != 206) {
        # A segment that is not there yet will be in a moment.
        set beresp.ttl = 1s;
        set beresp.grace = 0s;
        return (deliver);
    }
    if (bereq.url ~ "\.m3u8(\?|$)") {
        set beresp.ttl = 2s;
        set beresp.grace = 4s;
    } elsif (bereq.url ~ "\.mpd(\?|$)") {
        set beresp.ttl = 4s;
        set beresp.grace = 4s;
    } elsif (bereq.url ~ "\.(ts|m4s|mp4|cmf[vat]|aac|vtt)$") {
        set beresp.ttl = 6h;
        set beresp.grace = 0s;
        unset beresp.http.Set-Cookie;
    }
}

sub vcl_deliver {
    set resp.http.Access-Control-Allow-Origin = "*";
    if (obj.hits > 0) {
        set resp.http.X-Cache = "hit";
    } else {
        set resp.http.X-Cache = "miss";
    }
}
