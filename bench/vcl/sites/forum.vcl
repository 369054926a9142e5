vcl 4.0;

# A forum: guests from the cache, members by their cookies, floods kept out.

import cookie;
import std;
import vsthrottle;

backend forum { .host = "127.0.0.1"; .port = "8080"; }

sub vcl_recv {
    if (req.http.Upgrade ~ "(?i)websocket") {
        return (pipe);
    }
    if (req.method == "POST" && vsthrottle.is_denied("SEEDpost" + client.identity, 2, 600s)) {
        return (synth(429, "Slow down"));
    }
    if (req.http.User-Agent == "" || !req.http.User-Agent && req.method == "POST") {
        return (synth(400, "Who are you?"));
    }
    cookie.parse(req.http.Cookie);
    if (cookie.isset("lang")) {
        set req.http.X-Lang = cookie.get("lang");
    } else {
        set req.http.X-Lang = "en";
    }
    if (cookie.get("PHPSESSID") || cookie.get("SESS0123456789abcdef0123456789abcdef")) {
        set req.http.X-Member = cookie.get("PHPSESSID");
    }
    cookie.keep("PHPSESSID,lang,style");
    set req.http.Cookie = cookie.get_string();
    if (req.http.Cookie == "") {
        unset req.http.Cookie;
    }
    if (req.url ~ "^/(ucp|mcp|adm|posting)\.php" || req.url ~ "mode=(login|register)") {
        return (pass);
    }
    if (req.url ~ "sid=[0-9a-f]+") {
        set req.url = regsuball(req.url, "([?&])sid=[0-9a-f]+&?", "\1");
        set req.url = regsub(req.url, "[?&]+$", "");
        return (synth(301, req.url));
    }
    if (req.method == "HEAD") {
        set req.http.X-Was-Head = "yes";
    }
    if (req.http.X-Member) {
        return (pass);
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    unset req.http.Cookie;
    return (hash);
}

sub vcl_hash {
    hash_data(req.url);
    hash_data(req.http.X-Lang);
    return (lookup);
}

sub vcl_pass {
    set req.http.X-Passed = "member " + req.http.X-Member;
}

sub vcl_pipe {
    if (req.http.Upgrade) {
        set bereq.http.Upgrade = req.http.Upgrade;
        set bereq.http.Connection = req.http.Connection;
    }
    return (pipe);
}

sub vcl_backend_fetch {
    if (bereq.http.X-Lang) {
        cookie.parse(bereq.http.Cookie);
        cookie.set("lang", bereq.http.X-Lang);
        set bereq.http.Cookie = cookie.get_string();
    }
}

sub vcl_backend_response {
    if (!bereq.uncacheable) {
        unset beresp.http.Set-Cookie;
        set beresp.ttl = 20s;
        set beresp.grace = 2m;
        if (beresp.status == 302 || beresp.status == 307) {
            set beresp.uncacheable = true;
            set beresp.ttl = 10s;
        }
    } elsif (beresp.http.Set-Cookie) {
        set beresp.http.X-Set = beresp.http.Set-Cookie;
    }
    if (beresp.http.Content-Type ~ "html" && beresp.http.Content-Encoding == "gzip" && bereq.url ~ "page") {
        set beresp.do_gunzip = true;
    }
    unset beresp.http.Expires;
    set beresp.http.Cache-Control = "private, max-age=" + std.integer(std.duration(bereq.http.X-Age + "s", 0s), 0);
}

sub vcl_deliver {
    if (req.http.X-Member) {
        set resp.http.X-Member = "yes";
    }
    set resp.http.X-Lang = req.http.X-Lang;
    if (resp.http.X-Set) {
        unset resp.http.X-Set;
        set resp.http.X-Had-Set = true;
    }
    if (resp.status == 503 && req.restarts == 0 && req.method == "GET") {
        set req.http.X-Again = "1";
        return (restart);
    }
}

sub vcl_synth {
    if (resp.status == 301) {
        set resp.http.Location = "http://" + req.http.Host + resp.reason;
        set resp.reason = "Moved Permanently";
        return (deliver);
    }
    if (resp.status == 429) { set resp.http.Retry-After = "600"; }
}
