# Live and video on demand by URL: live is asked for while it is new and never
# again, so it stays in memory and leaves the disk to what is asked for over
# weeks.

vcl 4.1;

backend packager { .host = "127.0.0.1"; .port = "8080"; }

sub vcl_recv {
    # Media says nothing about who asks.
    unset req.http.Cookie;
    unset req.http.Authorization;
}

sub vcl_backend_response {
    unset beresp.http.Set-Cookie;
    if (bereq.url ~ "^/live/") {
        set beresp.storage = storage.ram;
        if (bereq.url ~ "\.(m3u8|mpd)($|\?)") {
            # A playlist changes with every segment.
            set beresp.ttl = 1s;
            set beresp.grace = 2s;
        } else {
            set beresp.ttl = 60s;
            set beresp.grace = 0s;
        }
    } elsif (bereq.url ~ "^/vod/") {
        # Popular parts of what is on disk are in memory as well.
        set beresp.storage = storage.disk;
        set beresp.ttl = 1d;
        set beresp.grace = 1h;
    }
    if (beresp.status >= 400) {
        set beresp.ttl = 1s;
    }
    return (deliver);
}
