vcl 4.0;

# An encyclopedia: anonymous readers from the cache, everything that has a session past it.

import std;
import blob;

backend apache { .host = "127.0.0.1"; .port = "8080"; }

acl purge {
    "198.51.100.7";
    "127.0.0.1";
}

sub wm_common_recv_early {
    if (req.restarts == 0) {
        unset req.http.X-Client-IP;
        unset req.http.X-Orig-Cookie;
        unset req.http.X-WMF-NOCOOKIES;
        if (req.http.X-Forwarded-For) {
            set req.http.X-Client-IP = std.ip(regsub(req.http.X-Forwarded-For, "[, ].*$", ""), client.ip);
        } else {
            set req.http.X-Client-IP = client.ip;
        }
    }
    if (req.http.X-Forwarded-Proto ~ "(?i)^https$") {
        set req.http.X-Connection-Properties = "H2=0; SSR=0; SSL=TLSv1.3;";
    } else {
        unset req.http.X-Connection-Properties;
    }
}

sub evaluate_cookie {
    if (req.http.Cookie ~ "([sS]ession|Token|PHPSESSID|SESS[0-9a-f]+)=") {
        set req.http.X-Orig-Cookie = req.http.Cookie;
        if (req.http.X-WMF-NOCOOKIES) { unset req.http.Cookie; }
    } elsif (req.http.Cookie) {
        set req.http.X-Orig-Cookie = req.http.Cookie;
        set req.http.Cookie = regsuball(req.http.Cookie, "(^|; ?)(?!lang|store)[^=; ]+=[^;]*", "");
        set req.http.Cookie = regsub(req.http.Cookie, "^;? ?", "");
        if (req.http.Cookie == "") { unset req.http.Cookie; }
    }
}

sub restore_cookie {
    if (req.http.X-Orig-Cookie) {
        set req.http.Cookie = req.http.X-Orig-Cookie;
        unset req.http.X-Orig-Cookie;
    }
}

sub normalize_path {
    # Space, brackets and the like are the same page encoded and plain.
    if (req.url ~ "^/wiki/" || req.url ~ "^/w/index\.php\?title=") {
        set req.url = regsuball(req.url, "%3A", ":");
        set req.url = regsuball(req.url, "%2[fF]", "/");
        set req.url = regsuball(req.url, "%28", "(");
        set req.url = regsuball(req.url, "%29", ")");
        set req.url = regsuball(req.url, "%20", "_");
    }
    if (req.url ~ "^//+") { set req.url = regsub(req.url, "^/+", "/"); }
}

sub vcl_recv {
    call wm_common_recv_early;
    if (req.method == "PURGE") {
        if (client.ip !~ purge) {
            return (synth(405, "Denied."));
        }
        return (purge);
    }
    if (req.method !~ "^(GET|HEAD|OPTIONS|PATCH|POST|PURGE|PUT|DELETE)$") {
        return (synth(403, "HTTP method not allowed."));
    }
    if (req.http.host ~ "^(www\.)?example\.(com|org)(:\d+)?$") {
        set req.http.X-Site = regsub(req.http.host, "^(?:www\.)?(example)\.(com|org)(?::\d+)?$", "\2.\1");
    }
    call normalize_path;
    if (req.url ~ "^/w/api\.php" || req.http.Authorization) {
        return (pass);
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    call evaluate_cookie;
    if (req.http.Cookie ~ "session=|Token=|PHPSESSID=|SESS") {
        return (pass);
    }
    if (req.http.User-Agent ~ "(?i)(mobi|phone|iphone|ipod|blackberry|opera mini)" && req.url !~ "mobileaction=toggle_view_desktop") {
        set req.http.X-Subdomain = "M";
    } else {
        unset req.http.X-Subdomain;
    }
    if (req.http.Accept-Language) {
        set req.http.Accept-Language = regsub(req.http.Accept-Language, "^([a-zA-Z]{2})(-[a-zA-Z]{2})?.*$", "\1");
    }
    return (hash);
}

sub vcl_hash {
    hash_data(req.url);
    hash_data(req.http.X-Site);
    if (req.http.X-Subdomain) { hash_data("m"); }
    return (lookup);
}

sub vcl_pass { call restore_cookie; }
sub vcl_miss {
    if (req.http.If-None-Match ~ "^W/") { set req.http.X-Weak = "1"; }
    call restore_cookie;
}

sub vcl_backend_fetch {
    if (bereq.http.X-Orig-Cookie) {
        set bereq.http.Cookie = bereq.http.X-Orig-Cookie;
        unset bereq.http.X-Orig-Cookie;
    }
    unset bereq.http.X-Subdomain;
    unset bereq.http.X-Weak;
}

sub vcl_backend_response {
    if (beresp.http.Set-Cookie) {
        set beresp.http.Cache-Control = "private, max-age=0, s-maxage=0";
        set beresp.ttl = 607s;
        set beresp.uncacheable = true;
        return (deliver);
    }
    if (beresp.ttl > 1d) { set beresp.ttl = 1d; }
    if (beresp.ttl > 60s && beresp.status >= 400) { set beresp.ttl = 60s; }
    set beresp.grace = 300s;
    set beresp.keep = 7d;
    if (beresp.http.Content-Length ~ "^[0-9]{9}") {
        set beresp.uncacheable = true;
        set beresp.ttl = 601s;
    }
    if (beresp.http.Content-Encoding !~ "gzip" && beresp.http.Content-Type ~ "(?i)html|xml|json|javascript|css") {
        set beresp.do_gzip = true;
    }
    if (beresp.http.Vary !~ "(?i)accept-language" && bereq.url ~ "^/index") {
        if (beresp.http.Vary) {
            set beresp.http.Vary = beresp.http.Vary + ", Accept-Language";
        } else {
            set beresp.http.Vary = "Accept-Language";
        }
    }
}

sub vcl_deliver {
    if (obj.hits > 0) {
        set resp.http.X-Cache-Int = "cp1 hit/" + obj.hits;
        set resp.http.X-Cache-Status = "hit-front";
    } elsif (obj.uncacheable) {
        set resp.http.X-Cache-Int = "cp1 pass";
        set resp.http.X-Cache-Status = "pass";
    } else {
        set resp.http.X-Cache-Int = "cp1 miss";
        set resp.http.X-Cache-Status = "miss";
    }
    if (resp.http.Age && std.integer(resp.http.Age, 0) > 86400) { set resp.http.Age = "86400"; }
    set resp.http.X-Client-IP = req.http.X-Client-IP;
    set resp.http.X-Id = blob.transcode(encoding = HEX, case = LOWER, encoded = req.url);
    if (req.http.X-Connection-Properties && !resp.http.Strict-Transport-Security) {
        set resp.http.Strict-Transport-Security = "max-age=106384710; includeSubDomains; preload";
    }
    if (req.url ~ "^/(wiki|index)" && resp.http.Cache-Control !~ "private|no-store") {
        set resp.http.Cache-Control = "private, s-maxage=0, max-age=0, must-revalidate";
    }
}

sub vcl_synth {
    set resp.http.X-Cache-Int = "cp1 int";
    if (resp.status >= 400) {
        set resp.http.Content-Type = "text/html; charset=utf-8";
        set resp.body = "<html><title>Error</title><p>If you report this error, please include: " + req.method + " " + req.url + ", Error: " + resp.status + ", " + resp.reason + "</html>";
        return (deliver);
    }
}
