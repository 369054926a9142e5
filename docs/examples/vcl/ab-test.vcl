# Two groups of visitors: each stays in its own by a cookie, and the cache
# keeps one page for each group.

vcl 4.1;

import cookie;
import std;

backend origin { .host = "127.0.0.1"; .port = "8080"; }

sub vcl_recv {
    cookie.parse(req.http.Cookie);
    if (cookie.get("group") == "a" || cookie.get("group") == "b") {
        set req.http.X-Group = cookie.get("group");
    } elsif (std.random(0, 100) < 10.0) {
        set req.http.X-Group = "b";
    } else {
        set req.http.X-Group = "a";
    }
    unset req.http.Cookie;
}

sub vcl_hash {
    hash_data(req.http.X-Group);
}

sub vcl_deliver {
    set resp.http.Set-Cookie = "group=" + req.http.X-Group + "; Path=/; Max-Age=2592000";
    set resp.http.Cache-Control = "private, no-cache";
}
