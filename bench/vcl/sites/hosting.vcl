vcl 4.1;

# Many customers on one node: by name, each with what it wants, moved and closed sites, one that sleeps.

import std;
import directors;

backend pool_a { .host = "127.0.0.1"; .port = "8001"; .host_header = "a.internal"; }
backend pool_b { .host = "127.0.0.1"; .port = "8002"; }
backend pool_c { .host = "127.0.0.1"; .port = "8003"; }

acl office { "203.0.113.0"/24; "2001:db8::"/32; "127.0.0.1"/32; }

sub vcl_init {
    new spread = directors.hash();
    spread.add_backend(pool_a, 1.0);
    spread.add_backend(pool_b, 1.0);
    new ordered = directors.fallback();
    ordered.add_backend(pool_c);
    ordered.add_backend(spread.backend("x"));
}

sub site_main {
    set req.backend_hint = spread.backend(req.url);
    if (req.url ~ "^/old(/.*)?$") {
        return (synth(750, "https://" + req.http.host + regsub(req.url, "^/old", "/new")));
    }
    if (req.url ~ "^/favicon\.ico$") {
        return (synth(404));
    }
}

sub site_static {
    set req.backend_hint = ordered.backend();
    unset req.http.Cookie;
    unset req.http.Authorization;
    set req.url = regsub(req.url, "\?.*", "");
    set req.http.X-Profile = "static";
}

sub site_org {
    if (req.http.X-Forwarded-Proto != "https" && client.ip !~ office) {
        return (synth(751, "https://" + req.http.host + req.url));
    }
    if (req.url ~ "^/ping") {
        return (synth(200, "pong"));
    }
    if (req.http.Authorization != "Basic YTpi" && req.url ~ "^/(admin|wp-)") {
        return (synth(401, "Restricted"));
    }
    set req.backend_hint = pool_b;
    set req.http.X-Profile = "long";
}

sub vcl_recv {
    if (!req.http.host) {
        return (synth(400, "Bad Request"));
    }
    set req.http.host = std.tolower(req.http.host);
    set req.http.X-Site = regsub(req.http.host, ":.*$", "");
    if (req.http.X-Site == "example.com" || req.http.X-Site == "www.example.com") {
        if (req.http.X-Site == "www.example.com") {
            set req.http.host = "example.com";
        }
        call site_main;
    } else if (req.http.X-Site ~ "^static\.") {
        call site_static;
    } else if (req.http.X-Site == "example.org") {
        call site_org;
    } else {
        return (synth(421, "Misdirected Request"));
    }
    if (req.url ~ "^/(index|home)\.(php|html?)$") {
        return (synth(750, "http://" + req.http.host + "/"));
    }
    if (req.method == "GET" && !req.http.Authorization && req.http.Cookie !~ "PHPSESSID|SESS") {
        return (hash);
    }
}

sub vcl_backend_response {
    if (bereq.http.X-Profile == "long" && beresp.status < 400) {
        set beresp.ttl = 1h;
        unset beresp.http.Pragma;
        unset beresp.http.Expires;
    } elif (bereq.http.X-Profile == "static") {
        set beresp.ttl = 1w;
        set beresp.http.Cache-Control = "public, max-age=604800, immutable";
        unset beresp.http.Set-Cookie;
    } else {
        if (beresp.http.Expires == "0") {
            set beresp.http.X-Was = "zero";
            set beresp.uncacheable = true;
        }
    }
    set beresp.http.X-Pool = beresp.backend.name;
    if (beresp.was_304) {
        set beresp.http.X-Renewed = "yes";
    }
    set beresp.keep = 1d;
}

sub vcl_deliver {
    if (resp.http.Location ~ "^/") {
        set resp.http.Location = "http://" + req.http.host + resp.http.Location;
    }
    set resp.http.X-Site = req.http.X-Site;
    set resp.http.X-Profile = req.http.X-Profile + "";
}

sub vcl_synth {
    if (resp.status == 750) {
        set resp.http.Location = resp.reason;
        set resp.status = 301;
        set resp.reason = "Moved";
        return (deliver);
    }
    if (resp.status == 751) {
        set resp.status = 302;
        set resp.http.Location = resp.reason;
        set resp.reason = "Found";
        synthetic({"<a href=""} + resp.http.Location + {"">there</a>"});
        return (deliver);
    }
    if (resp.status == 401) {
        set resp.http.WWW-Authenticate = {"Basic realm="members""};
        set resp.http.Content-Type = "text/plain";
        synthetic("no");
        return (deliver);
    }
    if (resp.status == 200) {
        synthetic(resp.reason);
        return (deliver);
    }
}
