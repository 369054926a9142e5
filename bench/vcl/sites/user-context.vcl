vcl 4.0;

# A framework's shop: who somebody is is asked of the application first, and pages are kept by that.

import std;

backend app { .host = "127.0.0.1"; .port = "8080"; }

acl invalidators { "localhost"; }

sub fos_purge_recv {
    if (req.method == "PURGE") {
        if (!client.ip ~ invalidators) {
            return (synth(405, "Not allowed"));
        }
        return (purge);
    }
}

sub fos_refresh_recv {
    if (req.http.Cache-Control ~ "no-cache" && client.ip ~ invalidators) {
        set req.hash_always_miss = true;
    }
}

sub fos_ban_recv {
    if (req.method == "BAN") {
        if (!client.ip ~ invalidators) {
            return (synth(405, "Not allowed"));
        }
        if (req.http.X-Cache-Tags) {
            ban("obj.http.X-Host ~ " + req.http.X-Host + " && obj.http.X-Url ~ " + req.http.X-Url
                + " && obj.http.content-type ~ " + req.http.X-Content-Type
                + " && obj.http.X-Cache-Tags ~ " + req.http.X-Cache-Tags);
        } else {
            ban("obj.http.X-Host ~ " + req.http.Host + " && obj.http.X-Url ~ " + req.http.X-Ban-Url);
        }
        return (synth(200, "Banned"));
    }
}

sub fos_user_context_recv {
    if (req.restarts == 0 && (req.http.accept ~ "application/vnd.fos.user-context-hash" || req.http.X-User-Context-Hash)) {
        return (synth(400));
    }
    set req.http.Surrogate-Capability = "abc=ESI/1.0";
    if (req.restarts == 0 && (req.http.Cookie || req.http.Authorization) &&
        (req.method == "GET" || req.method == "HEAD")) {
        set req.http.X-Fos-Original-Url = req.url;
        set req.http.X-Fos-Original-Accept = req.http.Accept;
        set req.http.X-Fos-Original-Cookie = req.http.Cookie;
        set req.http.Accept = "application/vnd.fos.user-context-hash";
        set req.url = "/_fos_user_context_hash?" + regsub(req.http.Authorization, "^[A-Za-z]+ ", "");
        set req.http.Cookie = regsub(req.http.Cookie, "(^|.*; ?)(PHPSESSID=[^;]*).*", "\2");
        return (hash);
    }
    if (req.restarts > 0 && req.http.Accept == "application/vnd.fos.user-context-hash") {
        set req.url = req.http.X-Fos-Original-Url;
        set req.http.Accept = req.http.X-Fos-Original-Accept;
        if (req.http.X-Fos-Original-Cookie) {
            set req.http.Cookie = req.http.X-Fos-Original-Cookie;
        } else {
            unset req.http.Cookie;
        }
        unset req.http.X-Fos-Original-Url;
        unset req.http.X-Fos-Original-Accept;
        unset req.http.X-Fos-Original-Cookie;
        return (hash);
    }
}

sub vcl_recv {
    call fos_purge_recv;
    call fos_refresh_recv;
    call fos_ban_recv;
    call fos_user_context_recv;
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    return (hash);
}

sub vcl_hash {
    if (req.restarts == 0 && req.http.accept ~ "application/vnd.fos.user-context-hash") {
        hash_data(req.http.Cookie);
        hash_data(req.http.Authorization);
    }
}

sub vcl_backend_response {
    if (bereq.http.accept ~ "application/vnd.fos.user-context-hash") {
        if (beresp.status >= 500) {
            set beresp.status = 200;
            set beresp.http.X-User-Context-Hash = "broken";
        } else {
            set beresp.http.X-User-Context-Hash = "ctx-" + beresp.status;
        }
        set beresp.http.Content-Type = "application/vnd.fos.user-context-hash";
        set beresp.ttl = 60s;
        unset beresp.http.Set-Cookie;
        unset beresp.http.Vary;
        return (deliver);
    }
    if (bereq.http.X-User-Context-Hash && beresp.ttl > 0s) {
        if (beresp.http.Vary) {
            set beresp.http.Vary = beresp.http.Vary + ", X-User-Context-Hash";
        } else {
            set beresp.http.Vary = "X-User-Context-Hash";
        }
    }
    set beresp.http.X-Url = bereq.url;
    set beresp.http.X-Host = bereq.http.host;
    if (beresp.http.Surrogate-Control ~ "ESI/1.0") {
        unset beresp.http.Surrogate-Control;
        set beresp.do_esi = true;
    }
}

sub vcl_deliver {
    if (req.restarts == 0 && resp.http.content-type ~ "application/vnd.fos.user-context-hash") {
        set req.http.X-User-Context-Hash = resp.http.X-User-Context-Hash;
        return (restart);
    }
    set resp.http.Vary = regsub(resp.http.Vary, "(?i),? *X-User-Context-Hash *", "");
    set resp.http.Vary = regsub(resp.http.Vary, "^, *", "");
    if (resp.http.Vary == "") {
        unset resp.http.Vary;
    }
    if (!resp.http.X-Cache-Debug) {
        unset resp.http.X-Url;
        unset resp.http.X-Host;
    }
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
    } else {
        set resp.http.X-Cache = "MISS";
    }
    set resp.http.X-Context = req.http.X-User-Context-Hash;
}

sub vcl_synth {
    if (resp.status == 400) {
        synthetic("context is not for you");
        return (deliver);
    }
}
