vcl 4.1;

# A portal: two web servers in turn, tags banned, cookies kept that are known.

import std;
import directors;

probe alive {
    .request = "HEAD / HTTP/1.1"
        "Host: localhost"
        "Connection: close"
        "User-Agent: Varnish Health Probe";
    .interval = 10s;
    .timeout = 5s;
    .window = 5;
    .threshold = 3;
}

backend web1 { .host = "127.0.0.1"; .port = "8081"; .probe = alive; .max_connections = 100; }
backend web2 { .host = "127.0.0.1"; .port = "8082"; .probe = alive; .max_connections = 100; }

acl internal { "192.168.0.0"/16; "127.0.0.1"; }
acl upstream_proxy { "127.0.0.1"; }

sub vcl_init {
    new web = directors.round_robin();
    web.add_backend(web1);
    web.add_backend(web2);
}

sub vcl_recv {
    set req.backend_hint = web.backend();

    if (client.ip ~ upstream_proxy && req.http.X-Real-IP) {
        set req.http.X-Forwarded-For = req.http.X-Real-IP;
    }
    if (req.restarts == 0 && !req.http.X-Forwarded-For) {
        set req.http.X-Forwarded-For = client.ip;
    }
    if (req.url ~ "^/(cron|install)\.php" && client.ip !~ internal) {
        return (synth(404, "Page not found."));
    }
    if (req.method == "BAN") {
        if (std.ip(regsub(req.http.X-Forwarded-For, ",.*", ""), "0.0.0.0") !~ internal) {
            return (synth(403, "Not allowed."));
        }
        if (req.http.Cache-Tags) {
            if (std.ban("obj.http.Cache-Tags ~ " + req.http.Cache-Tags)) {
                return (synth(200, "Ban added."));
            }
            return (synth(400, std.ban_error()));
        }
        ban("obj.http.X-Host == " + req.http.host + " && obj.http.X-Url == " + req.url);
        return (synth(200, "Ban added."));
    }
    if (req.method == "URIBAN") {
        ban("req.http.host == " + req.http.host + " && req.url == " + req.url);
        return (synth(200, "Ban added."));
    }
    if (req.url ~ "^/status\.php$" || req.url ~ "^/update\.php$" || req.url ~ "^/admin$" ||
        req.url ~ "^/admin/.*$" || req.url ~ "^/flag/.*$" || req.url ~ "^.*/ajax/.*$" || req.url ~ "^/user") {
        return (pass);
    }
    if (req.url ~ "^/(system/files|media)") {
        return (pipe);
    }
    if (req.url ~ "(?i)\.(pdf|asc|dat|txt|doc|xls|ppt|tgz|csv|png|gif|jpeg|jpg|ico|swf|css|js)(\?.*)?$") {
        unset req.http.Cookie;
    }
    if (req.http.Cookie) {
        set req.http.Cookie = ";" + req.http.Cookie;
        set req.http.Cookie = regsuball(req.http.Cookie, "; +", ";");
        set req.http.Cookie = regsuball(req.http.Cookie, ";(SESS[a-z0-9]+|SSESS[a-z0-9]+|NO_CACHE)=", "; \1=");
        set req.http.Cookie = regsuball(req.http.Cookie, ";[^ ][^;]*", "");
        set req.http.Cookie = regsuball(req.http.Cookie, "^[; ]+|[; ]+$", "");
        if (req.http.Cookie == "") {
            unset req.http.Cookie;
        } else {
            return (pass);
        }
    }
    if (req.http.Authorization || req.method == "POST") {
        return (pass);
    }
    if (!std.healthy(req.backend_hint)) {
        unset req.http.Cookie;
        set req.grace = 24h;
    }
    set req.http.Surrogate-Capability = {"abc="ESI/1.0""};
}

sub vcl_pipe {
    set bereq.http.Connection = "close";
}

sub vcl_hash {
    hash_data(req.url);
    if (req.http.host) {
        hash_data(req.http.host);
    } else {
        hash_data(server.ip);
    }
    if (req.http.X-Forwarded-Proto == "https") { hash_data(req.http.X-Forwarded-Proto); }
    return (lookup);
}

sub vcl_backend_response {
    set beresp.http.X-Url = bereq.url;
    set beresp.http.X-Host = bereq.http.host;
    if (beresp.http.Surrogate-Control ~ "ESI/1.0") {
        unset beresp.http.Surrogate-Control;
        set beresp.do_esi = true;
    }
    if (bereq.url ~ "(?i)\.(pdf|asc|dat|txt|doc|xls|ppt|tgz|csv|png|gif|jpeg|jpg|ico|swf|css|js)(\?.*)?$") {
        unset beresp.http.set-cookie;
    }
    if (beresp.status == 301 || beresp.status == 302) {
        set beresp.http.Location = regsub(beresp.http.Location, ":[0-9]+", "");
    }
    if (beresp.status == 500 || beresp.status == 502 || beresp.status == 503 || beresp.status == 504) {
        if (bereq.retries < 1 && bereq.method == "GET") {
            return (retry);
        }
        set beresp.ttl = 1s;
        set beresp.grace = 5s;
        return (deliver);
    }
    if (beresp.http.Content-Length && std.integer(beresp.http.Content-Length, 0) > 10485760) {
        set beresp.do_stream = true;
    }
    set beresp.grace = 6h;
}

sub vcl_deliver {
    unset resp.http.X-Url;
    unset resp.http.X-Host;
    unset resp.http.Cache-Tags;
    unset resp.http.X-Generator;
    set resp.http.X-Varnish-Cache = "MISS";
    if (obj.hits > 0) { set resp.http.X-Varnish-Cache = "HIT"; }
    if (obj.uncacheable) { set resp.http.X-Varnish-Cache = resp.http.X-Varnish-Cache + " (pass)"; }
}

sub vcl_backend_error {
    set beresp.http.Content-Type = "text/html; charset=utf-8";
    set beresp.http.Retry-After = "5";
    set beresp.body = {"<!DOCTYPE html>
<html><head><title>"} + beresp.status + " " + beresp.reason + {"</title></head>
<body><h1>Page Could Not Be Loaded</h1><p>We're very sorry.</p></body></html>
"};
    return (deliver);
}
