# A content management system: pages are the same for all who are not logged
# in, whatever their cookies and campaigns.

vcl 4.1;

import cookie;
import std;

backend default {
    .host = "127.0.0.1";
    .port = "8080";
    .first_byte_timeout = 30s;
    .probe = { .url = "/health"; }
}

acl editors {
    "localhost";
    "10.0.0.0"/8;
}

sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ editors) {
            return (synth(405, "Purging is not allowed from here"));
        }
        return (purge);
    }
    if (req.url ~ "^/(admin|login|user|cart)") {
        return (pass);
    }
    # Campaigns are for the page's own scripts.
    if (req.url ~ "[?&](utm_[a-z]+|gclid|fbclid)=") {
        set req.url = regsuball(req.url, "([?&])(utm_[a-z]+|gclid|fbclid)=[^&]*&?", "\1");
        set req.url = regsub(req.url, "[?&]+$", "");
    }
    set req.url = std.querysort(req.url);
    if (req.http.Cookie) {
        cookie.parse(req.http.Cookie);
        cookie.keep("session,csrf");
        set req.http.Cookie = cookie.get_string();
        if (req.http.Cookie == "") {
            unset req.http.Cookie;
        }
    }
    if (std.healthy(req.backend_hint)) {
        set req.grace = 30s;
    }
}

sub vcl_backend_response {
    # What is served while the origin is down.
    set beresp.grace = 6h;
    if (bereq.url ~ "\.(css|js|png|jpe?g|gif|svg|webp|woff2?)(\?|$)") {
        unset beresp.http.Set-Cookie;
        set beresp.ttl = 1d;
    }
    if (beresp.status >= 500 && bereq.is_bgfetch) {
        # Better the old page than this one.
        return (abandon);
    }
}

sub vcl_deliver {
    unset resp.http.X-Powered-By;
}
