vcl 4.1;

# Queries that are posted are kept by what they ask.

import std;
import bodyaccess;
import blob;
import purge;

backend graph { .host = "127.0.0.1"; .port = "4000"; }

acl admins { "127.0.0.1"; }

sub vcl_recv {
    unset req.http.X-Body-Len;
    if (req.method == "PURGE") {
        if (client.ip ~ admins && req.http.X-Purge-Method != "regex") {
            return (hash);
        }
        return (synth(403));
    }
    if (req.method == "POST" && (req.url ~ "^/(graphql|api|index|page|news)" || req.url == "/")) {
        if (std.integer(req.http.Content-Length, 0) > 500000) {
            return (synth(413, "Payload Too Large"));
        }
        if (!std.cache_req_body(110KB)) {
            return (hash);
        }
        set req.http.X-Body-Len = bodyaccess.len_req_body();
        if (bodyaccess.rematch_req_body("(?i)mutation") == 1) {
            return (pass);
        }
        if (bodyaccess.rematch_req_body("bo(d)y") == 1) {
            set req.http.X-Match = "body";
        }
        set req.http.X-Method = req.method;
        unset req.http.Cookie;
        return (hash);
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    if (req.http.Authorization) {
        set req.http.X-Auth-Hash = blob.transcode(decoding = BASE64, encoding = HEX, encoded = regsub(req.http.Authorization, "^Basic ", ""));
    }
    return (hash);
}

sub vcl_hash {
    if (req.http.X-Body-Len) {
        bodyaccess.hash_req_body();
        hash_data(req.http.X-Body-Len);
    }
    if (req.http.X-Auth-Hash) { hash_data(req.http.X-Auth-Hash); }
}

sub vcl_hit {
    if (req.method == "PURGE") {
        set req.http.X-Purged = purge.hard();
        return (synth(200, "Purged " + req.http.X-Purged));
    }
}

sub vcl_miss {
    if (req.method == "PURGE") {
        set req.http.X-Purged = purge.soft(ttl = 0s, grace = 10s, keep = 0s);
        return (synth(404, "Not in cache " + req.http.X-Purged));
    }
}

sub vcl_backend_fetch {
    if (bereq.http.X-Method) {
        set bereq.method = bereq.http.X-Method;
        unset bereq.http.X-Method;
    }
    if (bereq.http.Content-Length) {
        set bereq.http.X-Has-Body = "yes";
    }
}

sub vcl_backend_response {
    if (bereq.http.X-Body-Len && beresp.status == 200) {
        set beresp.ttl = 60s;
        unset beresp.http.Set-Cookie;
        unset beresp.http.Cache-Control;
    }
    if (beresp.status == 401 || beresp.status == 403) {
        set beresp.uncacheable = true;
        set beresp.ttl = 10s;
    }
}

sub vcl_deliver {
    set resp.http.X-Body-Len = req.http.X-Body-Len;
    if (obj.hits > 0) { set resp.http.X-Cache = "hit " + obj.hits; }
    set resp.http.X-Seen = req.http.X-Match + "/" + req.http.X-Auth-Hash;
}
